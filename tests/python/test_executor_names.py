"""Executors by names that other installations have."""

import warnings

import pytest
import torch

import thunder
from thunder import extend


def test_names_of_other_installations(monkeypatch):
    """Lists for Lightning Thunder work, with one warning for each executor that is not there."""
    monkeypatch.setattr(extend, "_warned", set())
    given = ["sdpa", "transformer_engine", "nvfuser", "torch"]
    with pytest.warns(UserWarning) as warned:
        resolved = thunder.resolve_executors(given)
    assert [e.name for e in resolved] == ["sdpa", "fuser", "aten", *_always_besides("aten")]
    assert [str(w.message) for w in warned] == [
        "[jit] executor 'transformer_engine' cannot be used here (it is not installed): it is passed over",
        "[jit] executor 'nvfuser' cannot be used here (it is not installed): 'fuser' takes its place",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = thunder.jit(lambda a: a.sin() + 1, executors=given)
        assert thunder.resolve_executors(["fuser", "nvfuser"]).count(extend.get_executor("fuser")) == 1
    a = torch.randn(4)
    torch.testing.assert_close(compiled(a), a.sin() + 1)
    with pytest.raises(ValueError, match="unknown executor 'nofuser'"):
        thunder.jit(torch.sin, executors=["nvfuser", "nofuser"])
    if extend.get_executor("apex").unavailable:
        with pytest.warns(UserWarning, match="'apex' cannot be used here .*: it is passed over"):
            thunder.jit(torch.sin, executors=["apex"])


def _always_besides(name):
    return [e.name for e in thunder.get_always_executors() if e.name != name]
