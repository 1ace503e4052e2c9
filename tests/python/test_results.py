"""Several results come as the named tuple that eager gives."""

import pytest
import torch

import thunder

CALLS = {
    "max": lambda x: torch.max(x, 1),
    "min": lambda x: x.min(0, keepdim=True),
    "sort": lambda x: x.sort(descending=True),
    "topk": lambda x: x.topk(2),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: torch.nanmedian(x, 1),
    "mode": lambda x: x.mode(1),
    "kthvalue": lambda x: x.kthvalue(2, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_fields_have_names(name):
    x = torch.randn(3, 4)
    expected = CALLS[name](x)
    assert torch.equal(thunder.jit(lambda x: CALLS[name](x).values * 2)(x), expected.values * 2)
    assert torch.equal(thunder.jit(lambda x: CALLS[name](x).indices)(x), expected.indices)
    returned = thunder.jit(CALLS[name])(x)
    assert type(returned) is type(expected)
    assert all(torch.equal(a, b) for a, b in zip(returned, expected, strict=True))


def test_one_result_has_no_fields():
    x = torch.randn(3, 4)
    assert torch.equal(thunder.jit(torch.max)(x), x.max())


@pytest.mark.parametrize("beta", [0, 1, 3, False])
@pytest.mark.parametrize("alpha", [0, 2, True])
def test_factors_of_booleans_are_booleans(alpha, beta):
    x, v, w = torch.tensor([[True, False], [False, True]]), torch.tensor([True, False]), torch.tensor([True, True])
    fn = lambda x, v, w: torch.addr(x, v, w, alpha=alpha, beta=beta)
    torch.testing.assert_close(thunder.jit(fn)(x, v, w), fn(x, v, w), rtol=0, atol=0)


def test_a_factor_of_integers_is_no_fraction():
    x, v = torch.ones(2, 2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        thunder.jit(lambda x, v: torch.addr(x, v, v, beta=0.5))(x, v)
