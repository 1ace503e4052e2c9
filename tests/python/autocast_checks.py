"""Calls of every operator of PyTorch's database under autocast, against eager; what test_autocast.py runs."""

import torch
from devices import ON_CPU
from op_checks import compare, compiled, runs_on, samples, seeded, widened

from thunder._opaque_meta import autocast_for

# Which of a call's float32 tensors are of autocast's lower type.
MIXTURES = {"float32": lambda k: False, "lower": lambda k: True, "mixed": lambda k: k % 2 == 1}


def mixed(value, mixture, lower, count=None):
    """The arguments with some of the tensors in the lower type."""
    count = [0] if count is None else count
    if isinstance(value, torch.Tensor):
        if value.dtype is not torch.float32 or value.layout is not torch.strided:
            return value.detach()
        count[0] += 1
        return value.detach().to(lower) if MIXTURES[mixture](count[0] - 1) else value.detach()
    if isinstance(value, (list, tuple)):
        return type(value)(mixed(v, mixture, lower, count) for v in value)
    if isinstance(value, dict):
        return {k: mixed(v, mixture, lower, count) for k, v in value.items()}
    return value


def calls(op, lower, most):
    """(what, args, kwargs), of tensors on the CPU."""
    for number, sample in enumerate(samples(op, "cpu", torch.float32, most)):
        for mixture in MIXTURES:
            count = [0]
            args = mixed((sample.input, *sample.args), mixture, lower, count)
            kwargs = mixed(sample.kwargs, mixture, lower, count)
            if count[0] > 0 and (mixture != "mixed" or count[0] > 1):
                yield f"sample {number}, {mixture}", args, kwargs


def takes_float32(op):
    return op.op is not None and torch.float32 in op.supported_dtypes("cpu") and runs_on(op, "cpu")


# What eager says where it has no kernel, or no device, for a call.
UNAVAILABLE = ["not implemented for", "not compiled with CUDA", "mixed dtype (CPU)"]
if not ON_CPU:  # of operands that autocast casts in part
    UNAVAILABLE += [
        "Expected weight to have type",
        "Index put requires the source and destination dtypes match",
        "expected input and grad types to match",
    ]


def check_call(op, device, lower, args, kwargs, same=compare):
    """Where eager raises, so must we, but for eager's want of a kernel.

    What is asked is in which dtype each call computes.  Values are those of eager's kernels, which round once, of its
    compositions, which round after each operator, or no further than those from what float64 gives.
    """
    with autocast_for([(device, lower)]):  # torch.autocast("cuda") is off where there is no GPU
        try:
            expected = seeded(op, *args, **kwargs)
        except Exception as e:
            if any(words in str(e) for words in UNAVAILABLE):
                return
            expected = e
        try:
            actual, rounded = (seeded(compiled(op, numerics=n), *args, **kwargs) for n in ("fused", "eager"))
        except Exception as e:
            if "not compiled with CUDA" in str(e):
                return
            assert isinstance(expected, Exception), f"raises {type(e).__name__}: {e}"
            return
    assert not isinstance(expected, Exception), f"eager raises {type(expected).__name__}: {expected}"
    try:
        same(actual, expected, op.name)
    except AssertionError:
        same(rounded, expected, op.name, exact=lambda: seeded(op, *widened(args), **widened(kwargs)))
