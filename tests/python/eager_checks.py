"""Functions that do what no program does: they run as they are, and the user is told."""

import re
import warnings

import torch
from torch.utils._pytree import tree_map_only

import thunder


def copies(args):
    return tree_map_only(torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), args)


def plain(value):
    """Tensors as tensors without a graph, for comparison by what they hold."""
    return tree_map_only(torch.Tensor, lambda t: (t.detach().to_dense(), t.requires_grad), value)


def same(a, b):
    torch.testing.assert_close(plain(a), plain(b), rtol=0, atol=0, equal_nan=True)


def eager_calls(compiled):
    """{why: how many calls ran the function itself}."""
    return thunder.compile_stats(compiled)["eager_calls"]


def check_left_to_eager(f, *args, why, compiled=None, compare=True):
    """Checks that calls give and leave what eager does, that one warning matches `why`, and that nothing is compiled.

    Args:
        compiled: What thunder.jit has made of the function; None: it is made here.
        compare: Whether results are tensors and numbers, which can be compared.
    """
    compiled = compiled or thunder.jit(f)
    for first in (True, False):
        mine, theirs = copies(args), copies(args)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            actual = compiled(*mine)
        texts = [str(w.message) for w in seen if "runs by eager" in str(w.message)]
        assert len(texts) == first, texts
        assert not first or re.search(why, texts[0]), texts
        expected = f(*theirs)
        if compare:
            same(actual, expected)
        same(mine, theirs)
    assert sum(thunder.compile_stats(compiled)["eager_calls"].values()) == 2
