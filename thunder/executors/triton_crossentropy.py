"""Cross entropy by Triton kernels (https://github.com/triton-lang/triton).

With the log-sum-exp `z` of a row of logits `x`, its label `y`, class weights `w` and label smoothing `s` the loss is

    (1 - s) w[y] (z - x[y]) + s / C sum_c w[c] (z - x[c])

and its gradient in `x[c]`, with the softmax `p[c] = exp(x[c] - z)` saved as `z` alone,

    (1 - s) w[y] (p[c] - (c == y)) + s / C (p[c] sum_k w[k] - w[c]).

The forward reads the logits once, the backward reads them once and writes the gradient.
"""

import functools
import importlib.util

import torch

from .. import torch as ltorch
from ..core.proxies import TensorProxy
from ..core.transforms import get_grad, put_grad
from ..extend import OperatorExecutor, register_executor

_BLOCK = 4096  # classes that a program has in registers at once


def _unavailable():
    if importlib.util.find_spec("triton") is None:
        return "the package 'triton' is not installed"
    if not torch.cuda.is_available():
        return "Triton's kernels need a CUDA device, and PyTorch finds none"
    return None


@functools.cache
def _kernels():
    import triton
    import triton.language as tl

    @triton.jit
    def forward(logits, target, weight, loss, lse, divisor, stride, classes, ignored, smoothing,
                WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        x = logits + row * stride
        y = tl.load(target + row)
        top = -float("inf")
        total = 0.0
        smooth = 0.0  # sum of w[c] x[c]
        weights = 0.0  # sum of w[c]
        for start in range(0, classes, BLOCK):
            c = start + tl.arange(0, BLOCK)
            inside = c < classes
            v = tl.load(x + c, mask=inside, other=-float("inf")).to(tl.float32)
            higher = tl.maximum(top, tl.max(v, 0))
            # A row that begins with infinities only: exp(-inf - -inf) is not a number.
            shift = tl.where(higher == -float("inf"), 0.0, higher)
            total = total * tl.exp(top - shift) + tl.sum(tl.exp(v - shift), 0)
            top = higher
            if smoothing > 0:
                w = tl.where(inside, 1.0, 0.0)
                if WEIGHTED:
                    w = tl.load(weight + c, mask=inside, other=0.0).to(tl.float32)
                smooth += tl.sum(w * tl.where(inside, v, 0.0), 0)
                weights += tl.sum(w, 0)
        z = top + tl.log(total)
        valid = y != ignored
        # A label that is no class makes the loss not a number.
        known = (y >= 0) & (y < classes)
        wy = 1.0
        if WEIGHTED:
            wy = tl.load(weight + y, mask=known, other=float("nan")).to(tl.float32)
        wy = tl.where(valid, wy, 0.0)
        value = (1 - smoothing) * wy * (z - tl.load(x + y, mask=known, other=float("nan")).to(tl.float32))
        if smoothing > 0:
            value += smoothing / classes * (z * weights - smooth)
        tl.store(loss + row, tl.where(valid, value, 0.0))
        tl.store(lse + row, z)
        tl.store(divisor + row, wy)

    @triton.jit
    def backward(logits, target, weight, lse, scale, gradient, stride, scale_stride, classes, ignored, smoothing, sum_w,
                 WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = c < classes
        y = tl.load(target + row)
        valid = y != ignored
        g = tl.load(scale + row * scale_stride).to(tl.float32)
        wy = 1.0
        w = 1.0
        if WEIGHTED:
            wy = tl.load(weight + y, mask=(y >= 0) & (y < classes), other=0.0).to(tl.float32)
            w = tl.load(weight + c, mask=inside, other=0.0).to(tl.float32)
        p = tl.exp(tl.load(logits + row * stride + c, mask=inside, other=0.0).to(tl.float32) - tl.load(lse + row))
        d = (1 - smoothing) * wy * (p - tl.where(c == y, 1.0, 0.0))
        if smoothing > 0:
            d += smoothing / classes * (p * tl.load(sum_w) - w)
        tl.store(gradient + row * classes + c, tl.where(valid, g * d, 0.0), mask=inside)

    return forward, backward


def _checker(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
             label_smoothing=0.0):
    """Labels of rows of logits; every other form is left to others."""
    return (
        input.device.type == "cuda"
        and input.ndim == 2
        and target.ndim == 1
        and input.shape[1] > 0
        and target.dtype == torch.int64
        and input.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and size_average is None
        and reduce is None
        and (weight is None or (weight.dtype == input.dtype and not weight.requires_grad))
    )


def _rows(input, target, weight, ignore_index, label_smoothing):
    """Loss, log-sum-exp and weight of each row, in float32."""
    input, target = input if input.stride(1) == 1 else input.contiguous(), target.contiguous()
    n, classes = input.shape
    loss, lse, divisor = (torch.empty(n, dtype=torch.float32, device=input.device) for _ in range(3))
    if n:
        _kernels()[0][(n,)](
            input, target, input if weight is None else weight.contiguous(), loss, lse, divisor, input.stride(0),
            classes, ignore_index, float(label_smoothing), WEIGHTED=weight is not None, BLOCK=_BLOCK, num_warps=8,
        )
    return loss, lse, divisor


def _reduced(loss, divisor, reduction, dtype):
    if reduction == "none":
        return loss.to(dtype)
    total = loss.sum()
    return (total / divisor.sum() if reduction == "mean" else total).to(dtype)


def _run(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
         label_smoothing=0.0):
    loss, _, divisor = _rows(input, target, weight, ignore_index, label_smoothing)
    return _reduced(loss, divisor, reduction, input.dtype)


def _forward_meta(input, target, weight, ignore_index, reduction, label_smoothing):
    rows = (input.shape[0],)
    loss = TensorProxy(like=input, shape=rows if reduction == "none" else ())
    return loss, TensorProxy(like=input, shape=rows, dtype=torch.float32), TensorProxy(
        like=input, shape=(), dtype=torch.float32
    )


def _run_forward(input, target, weight, ignore_index, reduction, label_smoothing):
    loss, lse, divisor = _rows(input, target, weight, ignore_index, label_smoothing)
    return _reduced(loss, divisor, reduction, input.dtype), lse, divisor.sum()


def _backward_meta(gradient, input, target, weight, lse, divisor, ignore_index, reduction, label_smoothing):
    return TensorProxy(like=input, shape=tuple(input.shape))


def _run_backward(gradient, input, target, weight, lse, divisor, ignore_index, reduction, label_smoothing):
    input, target = input if input.stride(1) == 1 else input.contiguous(), target.contiguous()
    n, classes = input.shape
    scale = gradient / divisor if reduction == "mean" else gradient
    out = torch.empty((n, classes), dtype=input.dtype, device=input.device)
    if not n:
        return out
    w = input if weight is None else weight.contiguous()
    sum_w = lse.new_full((), float(classes)) if weight is None else weight.sum(dtype=torch.float32)
    grid = (n, -(-classes // _BLOCK))
    _kernels()[1][grid](
        input, target, w, lse, scale, out, input.stride(0), scale.stride(0) if scale.ndim else 0, classes,
        ignore_index, float(label_smoothing), sum_w, WEIGHTED=weight is not None, BLOCK=_BLOCK, num_warps=8,
    )
    return out


def _grad_transform(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                    label_smoothing=0.0):
    loss, lse, divisor = _forward(input, target, weight, ignore_index, reduction, label_smoothing)
    put_grad(
        input,
        _backward(get_grad(loss), input, target, weight, lse, divisor, ignore_index, reduction, label_smoothing),
    )
    return loss


triton_ex = register_executor(OperatorExecutor("triton", unavailable=_unavailable() or ""))
triton_crossentropy = triton_ex.register_operator("triton_crossentropy", like=ltorch.cross_entropy, fn=_run)
_forward = triton_ex.register_operator("triton_crossentropy_forward", meta=_forward_meta, fn=_run_forward)
_backward = triton_ex.register_operator("triton_crossentropy_backward", meta=_backward_meta, fn=_run_backward)
triton_ex.register_implementation(
    ltorch.cross_entropy, triton_crossentropy, checker=_checker, grad_transform=_grad_transform
)
