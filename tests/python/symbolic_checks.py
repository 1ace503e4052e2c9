"""Programs with symbolic values beside eager: results, gradients, and how often they were compiled."""

import torch

import thunder

R = torch.randn
SIZES = [(3, 4), (5, 7), (8, 8), (2, 9), (6, 4)]
FLOATS = [2.5, 3.5, -7.25, 0.3]


def jit(f):
    return thunder.jit(f, cache="symbolic values")


def is_float(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def call(f, args, grad):
    """The result, and the gradients of the tensors among `args`."""
    args = [x.detach().clone().requires_grad_(grad) if is_float(x) else x for x in args]
    out = f(*args)
    if not (is_float(out) and out.requires_grad):
        return out, []
    out.backward(torch.ones_like(out) * torch.arange(1, out.numel() + 1).reshape(out.shape).to(out.dtype).cos())
    return out.detach(), [x.grad for x in args if is_float(x)]


def check(f, calls, compiles, grad=True):
    """Calls the compiled function on each of `calls`, compares with eager, counts compilations; returns it."""
    compiled = jit(f)
    for args in calls:
        want, want_grads = call(f, args, grad)
        got, got_grads = call(compiled, args, grad)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(got_grads, want_grads)
    stats = thunder.compile_stats(compiled)
    assert stats["not_symbolic"] == ""
    assert thunder.cache_misses(compiled) <= compiles, (stats["guards"], stats["last_miss"])
    return compiled
