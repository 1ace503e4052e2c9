"""Compiled programs against eager, by eager's own error in float64."""

import torch

import thunder

# Enough of the type's roundoff for a few operations, where eager happens to be exact.
ROUNDOFF = {torch.float64: 2e-14, torch.float32: 5e-6, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


def fusions(f):
    programs = [str(traces[-1]) for traces in (thunder.last_traces(f), thunder.last_backward_traces(f)) if traces]
    return [line for program in programs for line in program.splitlines() if " = fusion" in line]


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run(f, args, seed=1):
    """Outputs, and the gradients of those inputs that require them."""
    args = [
        a.detach().as_strided(a.size(), a.stride(), a.storage_offset()).requires_grad_(a.requires_grad)
        if isinstance(a, torch.Tensor)
        else a
        for a in args
    ]
    outputs = flat(f(*args))
    wanted = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    differentiable = [o for o in outputs if o.requires_grad]
    if not wanted or not differentiable:
        return outputs, []
    g = torch.Generator().manual_seed(seed)
    cotangents = [torch.randn(o.shape, generator=g, dtype=torch.float64).to(o) for o in differentiable]
    return outputs, list(torch.autograd.grad(differentiable, wanted, cotangents, allow_unused=True))


def in_double(a):
    if not isinstance(a, torch.Tensor) or not a.is_floating_point():
        return a
    return a.detach().double().requires_grad_(a.requires_grad)


def error(got, want):
    if got is None:
        return 0.0
    got, want = got.detach().double(), want.detach().double()
    return ((got - want).norm() / want.norm().clamp_min(1e-30)).item() if got.numel() else 0.0


def check(f, *args, fused=True, slack=None, eager=None):
    """Compiled against eager; both against eager in float64, where twice eager's error and the slack are allowed.

    `eager`: what eager runs in place of `f`, with the same types; None: `f`.
    """
    compiled = thunder.jit(f)
    got, eager, exact = run(compiled, args), run(eager or f, args), run(f, [in_double(a) for a in args])
    for kind in (0, 1):
        assert len(got[kind]) == len(eager[kind])
        for g, e, x in zip(got[kind], eager[kind], exact[kind], strict=True):
            assert (g is None) == (e is None)
            if g is None:
                continue
            assert (g.dtype, g.shape) == (e.dtype, e.shape)
            assert kind == 1 or g.stride() == e.stride()
            if not g.is_floating_point():
                assert torch.equal(g, e)
                continue
            allowed = 2 * error(e, x) + (ROUNDOFF[g.dtype] if slack is None else slack)
            assert error(g, x) <= allowed, (kind, error(g, x), error(e, x))
    if fused:
        assert fusions(compiled) and thunder.last_kernels(compiled), thunder.last_traces(compiled)[-1]
    return compiled
