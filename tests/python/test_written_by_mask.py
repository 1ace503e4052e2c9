"""x[mask] = values: written without asking how many elements are True, wherever the values do not depend on it."""

import pytest
import torch

import thunder

SHAPES = [(2, 3, 4), (5, 1, 7), (1, 1, 2), (4, 0, 3), (16, 32, 8)]


def at_front(x, mask, row):
    x[mask[:, :, 0]] = row


def at_front_one(x, mask, row):
    x[mask.any(-1).any(-1)] = row[None, None]


def behind_a_slice(x, mask, row):
    x[:, mask[0]] = row[0]


def everywhere(x, mask, row):
    x[mask] = row.sum()


def of_bytes(x, mask, row):  # deprecated, and counted
    x[mask[:, :, 0].byte()] = row


def a_number(x, mask, row):
    x[mask] = -2.5


def a_view(x, mask, row):
    x[:, ::2][mask[:, ::2, 0]] = row


def index_put(x, mask, row):
    x.index_put_((mask[:, :, 0],), row)


def each_its_own(x, mask, row):  # as many values as the mask has
    x[mask] = x.exp()[mask]


def at_last(x, mask, row):
    x[..., mask[0, 0] if mask.shape[1] else mask.new_ones(mask.shape[2])] = 1.0


WRITES = [
    at_front, at_front_one, behind_a_slice, everywhere, of_bytes, a_number, a_view, index_put, each_its_own, at_last,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8:UserWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("write", WRITES, ids=lambda w: w.__name__)
def test_results_and_gradients(write, shape, dtype):
    def f(x, mask, row):
        h = x * 2
        write(h, mask, row)
        return h.tanh()

    torch.manual_seed(0)
    mask = torch.rand(shape) < 0.5
    results = []
    for run in (f, thunder.jit(f)):
        torch.manual_seed(1)
        x, row = (torch.randn(s, dtype=dtype, requires_grad=True) for s in (shape, shape[-1:]))
        out = run(x, mask, row)
        out.float().square().sum().backward()
        results.append((out.detach(), x.grad, row.grad if row.grad is not None else torch.zeros_like(row)))
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(results[1], results[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", [(2, 0, 1), (0, 2, 1)], ids=str)
def test_the_layout_is_eagers(order):
    x = torch.randn(4, 5, 6).permute(order)
    mask, value = torch.rand(x.shape[:2]) < 0.5, torch.randn(x.shape[2])

    def f(x, mask, value):
        return x.index_put((mask,), value)

    expected, actual = f(x, mask, value), thunder.jit(f)(x, mask, value)
    assert torch.equal(actual, expected) and actual.stride() == expected.stride()


@pytest.mark.parametrize("write", [at_front, behind_a_slice, everywhere, a_number, index_put])
def test_no_number_of_elements_is_asked_for(write):
    def f(x, mask, row):
        h = x + 0
        write(h, mask, row)
        return h

    jitted = thunder.jit(f)
    jitted(torch.randn(2, 3, 4), torch.rand(2, 3, 4) < 0.5, torch.randn(4))
    assert "nonzero" not in str(thunder.last_traces(jitted)[-1])


def test_values_that_do_not_fit_raise():
    def f(x, mask, row):
        h = x + 0
        h[mask] = row
        return h

    given = torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool), torch.randn(3)
    with pytest.raises(RuntimeError):
        f(*given)
    with pytest.raises(RuntimeError):
        thunder.jit(f)(*given)
