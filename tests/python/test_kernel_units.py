"""A program's kernels for the CPU are several translation units, which are compiled side by side."""

import os

import pytest
import torch

import thunder


def chain(x, ws):
    """A kernel behind each product, no two of the same text, each of a hundred lines."""
    for i, w in enumerate(ws):
        x = x @ w
        for k in range(50):
            x = x * (0.99 + (i + k) / 10000) + 0.001 * k
        x = x.softmax(1)
    return x


@pytest.mark.parametrize("products", [2, 16])
def test_units(products, monkeypatch, tmp_path):
    monkeypatch.setenv("THUNDER_CACHE_DIR", str(tmp_path))
    x = torch.rand(5, 7, requires_grad=True)
    ws = [torch.rand(7, 7, requires_grad=True) for _ in range(products)]
    out, expected = thunder.jit(chain)(x, ws), chain(x, ws)
    torch.testing.assert_close(out, expected)
    grads = [torch.autograd.grad(o.square().sum(), [x, *ws]) for o in (out, expected)]
    torch.testing.assert_close(*grads)
    libraries = [f for f in tmp_path.glob("??/*") if f.read_bytes()[:4] == b"\x7fELF"]
    # The forward is one, and the backward.
    several = products == 16 and len(os.sched_getaffinity(0)) > 1
    assert len(libraries) > 2 if several else len(libraries) == 2, libraries
