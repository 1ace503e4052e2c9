"""Recurrent layers on a GPU: calls of prims.recurrent, which CUDA graphs can record, where eager leaves them to cuDNN.

cuDNN's launches for the steps of a sequence take the host longer than the device needs for them.
"""

import torch

from . import _opaque, _refused
from ._recurrent import GATES, fit, of_one_kind
from ._tracing import current_tracer

_DTYPES = (torch.float16, torch.float32, torch.float64)


def under_autocast(func):
    """What autocast makes of a call of `func` (torch.lstm, ...): PyTorch has float16 for cuDNN, whatever dtype autocast
    is for.  NotImplemented where eager does not leave the call to cuDNN."""

    def cast(value):
        if isinstance(value, (list, tuple)):
            return [cast(v) for v in value]
        eligible = isinstance(value, torch.Tensor) and value.device.type == "cuda" and value.is_floating_point()
        return value.to(torch.float16) if eligible and value.dtype != torch.float64 else value

    def composed(*args, **kwargs):
        if kwargs or not _is_for_cudnn(args[0]):
            return NotImplemented
        with torch.autocast("cuda", enabled=False):
            return func(*map(cast, args))

    return composed


def _is_for_cudnn(x):
    """Whether eager leaves recurrent layers over `x` to cuDNN."""
    there = torch.version.hip is None and torch.backends.cudnn.is_available() and torch.backends.cudnn.enabled
    if not there or x.device.type != "cuda" or x.layout is not torch.strided or 0 in x.shape:
        return False
    has_bfloat16 = torch.cuda.get_device_capability(x.device) >= (8, 0)
    return x.dtype in _DTYPES or (x.dtype is torch.bfloat16 and has_bfloat16)


def _recorder(kind):
    def record(x, state, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        states, directions = (state if kind == "lstm" else [state]), 2 if bidirectional else 1
        x = x.transpose(0, 1) if batch_first else x
        shapes = tuple(x.shape), [tuple(s.shape) for s in states], [tuple(p.shape) for p in params]
        fits = of_one_kind((x, *states, *params)) and fit(kind, *shapes, has_biases, num_layers, directions)
        if not fits:
            return None
        # cuDNN has gradients in training alone; a layer in evaluation has them, too.
        learns = torch.is_grad_enabled() and any(t.requires_grad for t in (x, *states, *params))
        reserves = bool(train) or learns
        apart = dropout > 0 and train and num_layers > 1
        calls = num_layers if apart else 1
        cells, weights = num_layers // calls * directions, len(params) // calls
        made = []
        for i in range(calls):
            if i:
                x = torch.nn.functional.dropout(x, dropout, True)
            of_call = [s[i * cells : (i + 1) * cells].contiguous() for s in states]
            arguments = list(params[i * weights : (i + 1) * weights]), of_call[0], *(of_call[1:] or [None])
            options = kind, num_layers // calls, bool(bidirectional), reserves
            x, *last = current_tracer().apply("prims.recurrent", (x.contiguous(), *arguments, *options))
            made.append(last[: len(states)])
        last = [torch.cat(s) if len(s) > 1 else s[0] for s in zip(*made, strict=True)]
        return (x.transpose(0, 1) if batch_first else x), *last

    def on_a_gpu(x, *others):
        return _refused.in_mode(record, (x, *others), {}) if _is_for_cudnn(x) else None

    return on_a_gpu


for _kind in GATES:
    _opaque.decomposed[f"aten::{_kind}.input"].append(_recorder(_kind))
