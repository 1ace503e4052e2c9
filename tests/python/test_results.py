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
