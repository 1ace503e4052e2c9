"""What tests of attention on a GPU share: results and gradients compared with float64, beside eager's."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import thunder


def results(fn, tensors, cotangent):
    out = fn(*tensors)
    return [out.detach(), *torch.autograd.grad(out, tensors, cotangent)]


def error(x, exact, least=0.0):
    return ((x.double() - exact).norm() / exact.norm().clamp(min=least)).item()


def exact_results(fn, tensors, cotangent):
    with sdpa_kernel(SDPBackend.MATH):
        return results(fn, [t.detach().double().requires_grad_() for t in tensors], cotangent.double())


def check(
    fn,
    tensors,
    kernel,
    times=2,
    eager_by=(SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH),
    results_are=("out", "dq", "dk", "dv"),
    eager_fn=None,
    **options,
):
    """Output and gradients at most twice as wrong as eager's, by that kernel in the forward.

    Args:
        eager_fn: The same function, written so that eager takes the kernel; None: `fn`.
    """
    shape = fn(*(t.detach() for t in tensors)).shape
    cotangent = torch.randn(shape, device="cuda", dtype=torch.float64)
    cotangent = cotangent.transpose(1, 2).contiguous().transpose(1, 2).to(tensors[0].dtype)  # as a projection gives it
    exact = exact_results(fn, tensors, cotangent)
    with sdpa_kernel(list(eager_by)):
        eager = results(eager_fn or fn, tensors, cotangent)
    compiled = thunder.jit(fn, **options)
    least = 1e-3 * max(want.norm().item() for want in exact)  # where rows see one column, dq and dk are zero
    for _ in range(2):
        ours = results(compiled, tensors, cotangent)
        for name, mine, theirs, want in zip(results_are, ours, eager, exact, strict=True):
            assert mine.isfinite().all(), name
            slack = 2 * torch.finfo(mine.dtype).eps
            assert error(mine, want, least) <= times * error(theirs, want, least) + slack, name
    assert kernel in names(compiled), names(compiled)
    return compiled


def names(compiled):
    return " ".join(c.name for c in thunder.last_traces(compiled)[-1].calls)


def made(heads, rows, size, dtype=torch.bfloat16, inside=True, batch=2):
    shape = (batch, rows, heads, size) if inside else (batch, heads, rows, size)
    t = torch.randn(shape, device="cuda", dtype=torch.float64).to(dtype)
    return (t.transpose(1, 2) if inside else t).requires_grad_()
