"""torch.diff beside eager's: orders, ends, dtypes and layouts."""

import pytest
import torch
from devices import DEVICE
from torch.testing import assert_close

import thunder

INPUTS = {
    "floats": torch.linspace(-1, 1, 12).view(3, 4) ** 3,
    "turned": (torch.linspace(-1, 1, 12).view(4, 3) ** 3).t(),
    "numbers": torch.arange(12).view(3, 4) % 5,
    "booleans": torch.arange(12).view(3, 4) % 3 > 0,
    "halves": (torch.linspace(-1, 1, 12).view(3, 4) ** 3).bfloat16(),
    "one row": torch.ones(1, 4),
    "none": torch.ones(0, 4),
}
OPTIONS = [{}, {"n": 2}, {"n": 0}, {"n": 9}, {"dim": 0}, {"n": 2, "dim": -2}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("x", INPUTS.values(), ids=INPUTS)
def test_as_eager(x, options):
    x = x.to(DEVICE)
    expected, actual = (f(x) for f in (lambda x: x.diff(**options), thunder.jit(lambda x: x.diff(**options))))
    # A kernel does not round between the two differences of a second order.
    near = 4e-3 if x.dtype == torch.bfloat16 else 0
    assert_close(actual, expected, rtol=2 * near, atol=near)
    assert actual.stride() == expected.stride()


def test_ends():
    def f(x, before, after):
        return torch.diff(x, dim=0, prepend=before), torch.diff(x, 2, 0, before, after), x.diff(append=x[:, :1])

    given = [t.to(DEVICE) for t in (INPUTS["floats"], torch.ones(1, 4), torch.zeros(2, 4))]
    assert_close(thunder.jit(f)(*given), f(*given), rtol=0, atol=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_gradients(dim):
    compiled = thunder.jit(lambda x: x.diff(dim=dim).square())
    results = []
    for f in (lambda x: x.diff(dim=dim).square(), compiled):
        x = INPUTS["floats"].to(DEVICE).clone().requires_grad_()
        f(x).sum().backward()
        results.append(x.grad)
    assert_close(results[1], results[0])
    assert "fusion0" in str(thunder.last_traces(compiled)[-1])


@pytest.mark.parametrize("options", [{"n": -1}, {"prepend": torch.ones(1)}, {"append": torch.ones(2, 2)}, {"dim": 5}])
def test_refused_as_in_eager(options):
    x = torch.ones(3, 4)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        x.diff(**options)
    with pytest.raises(eager.type, match=r"\[diff\] "):
        thunder.jit(lambda x: x.diff(**options))(x)
