"""Results that view an argument where a tensor of the program says."""

import pytest
import torch

import thunder

PROGRAMS = {
    "largest": lambda x: x[x.argmax()],
    "constant": lambda x: x[torch.tensor(1)],
    "row": lambda x: x.view(2, 3)[x.view(2, 3).sum(1).argmax()],
    "column": lambda x: x.view(2, 3)[:, x.argmax() % 3],
    "of a view": lambda x: x[x.argmax()][None],
    "first of several": lambda x: x[(x > -9).nonzero()[1, 0]],
    "with the index": lambda x: (x[x.argmin()], x.argmin()),
    "twice": lambda x: (x[x.argmin()], x[x.argmin()]),
    "written": lambda x: x[x.argmax()].add_(1),
    "narrow": lambda x: torch.narrow(x, 0, x.argmax() * 0, 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_views_where_a_computed_index_says(name):
    f, compiled = PROGRAMS[name], thunder.jit(PROGRAMS[name])
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6)
        y = x.clone()
        mine, theirs = compiled(x), f(y)
        mine, theirs = (r if isinstance(r, tuple) else (r,) for r in (mine, theirs))
        for a, b in zip(mine, theirs, strict=True):
            assert torch.equal(a, b) and a.stride() == b.stride()
            views = b.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
            assert (a.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == views
        assert torch.equal(x, y)
        if mine[0]._base is not None:
            mine[0].fill_(7)
            theirs[0].fill_(7)
            assert torch.equal(x, y)
    assert thunder.cache_misses(compiled) <= 2


def test_gradients():
    def f(x):
        return x[(x * x).argmax()], x * 2

    for g in (f, thunder.jit(f)):
        x = torch.tensor([1.0, -3.0, 2.0], requires_grad=True)
        a, b = g(x)
        (a * 5 + b.sum()).backward()
        assert x.grad.tolist() == [2, 7, 2]
