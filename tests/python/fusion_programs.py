"""Programs as models write them, of which fusion makes a kernel or two: tests check them, benchmarks time them."""

import importlib

import litgpt_import
import torch
import torch.nn.functional as F

litgpt_import.load()
_litgpt = importlib.import_module("litgpt.model")
HEAD_SIZE = 64


def gelu(a, b, c):
    return F.gelu(a * b + c)


def bias_gelu(x, bias):
    return F.gelu(x + bias)


def geglu(a, b):
    return F.gelu(a) * b


def transposed_add(a, b):
    return (a + b.t()) * 0.5


def tanh_sigmoid(a, b):
    gate = torch.sigmoid(a * 2 + b)
    return torch.tanh(a * gate) * (1 - gate) + torch.tanh(b) * torch.sigmoid(a)


def softmax(x):
    return F.softmax(x, -1)


def log_softmax(x):
    return F.log_softmax(x, -1)


def rms_norm(x, weight):
    """litgpt's, in float32; in float64 where `x` is."""
    wide = x if x.dtype == torch.float64 else x.float()
    mean = torch.mean(wide * wide, dim=-1, keepdim=True)
    return (wide * torch.rsqrt(mean + 1e-5) * weight.to(wide.dtype)).to(x.dtype)


def residual_rms_norm(x, residual, weight):
    h = x + residual
    return h, rms_norm(h, weight)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (x.size(-1),), weight, bias)


def swiglu(a, b):
    return F.silu(a) * b


def cross_entropy(logits, targets):
    return F.cross_entropy(logits, targets)


def randn(*shape, dtype=torch.float32, grad=True, seed=0):
    """A CPU tensor; the numbers of a shape and seed are the same in every dtype, rounded."""
    g = torch.Generator().manual_seed(seed + len(shape) + sum(shape))
    return torch.randn(shape, generator=g, dtype=torch.float64).to(dtype).requires_grad_(grad)


def _matrices(count, weights=0):
    def make(rows, columns, dtype):
        full = [randn(rows, columns, dtype=dtype, seed=i) for i in range(count)]
        return full + [randn(columns, dtype=dtype, seed=count + i) for i in range(weights)]

    return make


def _one_transposed(rows, columns, dtype):
    return [randn(rows, columns, dtype=dtype), randn(columns, rows, dtype=dtype, seed=1)]


def _heads_and_tables(rows, columns, dtype):
    x = randn(1, columns // HEAD_SIZE, rows, HEAD_SIZE, dtype=dtype)
    return [x, *(table[None].to(dtype) for table in _litgpt.build_rope_cache(rows, HEAD_SIZE))]


def _logits_and_targets(rows, columns, dtype):
    targets = torch.randint(0, columns, (rows,), generator=torch.Generator().manual_seed(0))
    return [randn(rows, columns, dtype=dtype), targets]


PROGRAMS = {
    "gelu": (gelu, _matrices(3)),
    "bias_gelu": (bias_gelu, _matrices(1, weights=1)),
    "geglu": (geglu, _matrices(2)),
    "transposed_add": (transposed_add, _one_transposed),
    "tanh_sigmoid": (tanh_sigmoid, _matrices(2)),
    "softmax": (softmax, _matrices(1)),
    "log_softmax": (log_softmax, _matrices(1)),
    "rms_norm": (rms_norm, _matrices(1, weights=1)),
    "residual_rms_norm": (residual_rms_norm, _matrices(2, weights=1)),
    "layer_norm": (layer_norm, _matrices(1, weights=2)),
    "swiglu": (swiglu, _matrices(2)),
    "rope": (_litgpt.apply_rope, _heads_and_tables),
    "cross_entropy": (cross_entropy, _logits_and_targets),
}


def program(name, rows, columns, dtype=torch.float32):
    """The function of that name, and arguments for it on the CPU.

    Operands are (rows, columns), weights (columns,); rope takes (1, columns / 64, rows, 64), heads of size 64, and
    cross_entropy a vocabulary of `columns`, with int64 targets (rows,). All of dtype `dtype`, but targets, require
    gradients, but for rope's tables.
    """
    function, make = PROGRAMS[name]
    return function, make(rows, columns, dtype)
