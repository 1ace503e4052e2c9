"""Single operators on the CPU beside eager, forward and with gradients, on tensors of several layouts.

    python benchmarks/operators_cpu.py                       # some minutes; prints what is slower than eager
    python benchmarks/operators_cpu.py --only reduction,norm --dtype bfloat16 --worse 1.1
    python benchmarks/operators_cpu.py --small               # whether it runs

Each row: Thunder's time over eager's, both in microseconds (the least of some calls), what was called, the tensor's
layout.  The last line counts the cases and gives the geometric mean over all of them.
"""

import argparse
import math
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn

import thunder


def by_name(module, names):
    return {name: getattr(module, name) for name in names.split()}


POINTWISE = {
    **by_name(torch, "abs exp log1p tanh sigmoid erf sin sqrt rsqrt reciprocal floor sign square relu expm1 atan"),
    **by_name(F, "gelu silu softplus leaky_relu elu hardswish mish logsigmoid hardtanh selu"),
    "pow": lambda x: x**3,
    "clamp": lambda x: x.clamp(-1, 1),
    "tril": lambda x: x.tril() * 2,
    "contiguous": lambda x: x.transpose(-1, -2).contiguous(),
    "permuted": lambda x: (x.transpose(0, 1) + 1).contiguous(),
    "pad": lambda x: F.pad(x, (1, 1)) * 2,
    "stack": lambda x: torch.stack([x, x + 1], -1),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0.0),
    "halves": lambda x: x.bfloat16().float() * 2,
    "rotated": lambda x: torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1) * 0.5 + x,
}
BINARY = {
    **by_name(torch, "add mul div maximum atan2 fmod remainder"),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "chain": lambda x, y: ((x * 2 + y).tanh() - x) * y,
}
# Called for each dimension.
REDUCTION = {
    **by_name(torch, "sum mean amax var std argmax logsumexp softmax log_softmax cumsum prod"),
    "vector_norm": lambda x, d: torch.linalg.vector_norm(x, dim=d),
    "any": lambda x, d: (x > 3).any(d),
    "max": lambda x, d: x.max(d)[0],
    "centred": lambda x, d: x - x.mean(d, keepdim=True),
    "normalize": lambda x, d: F.normalize(x, dim=d),
    "mean of squares": lambda x, d: (x * x).mean(d),
    "sort": lambda x, d: x.sort(d)[0],
    "topk": lambda x, d: x.topk(min(5, x.shape[d]), d)[0],
    "flip": lambda x, d: x.flip(d) * 2,
    "cat": lambda x, d: torch.cat([x, x * 2], d),
    "glu": lambda x, d: F.glu(x, d),
    "roll": lambda x, d: x.roll(1, d) + x,
    "narrow": lambda x, d: x.narrow(d, 1, x.shape[d] - 1) * 2,
    "diff": lambda x, d: x.diff(dim=d),
    "index_select": lambda x, d: x.index_select(d, torch.arange(0, x.shape[d], 2)) * 2,
}
NORM = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "softmax of all": lambda x: x.flatten().softmax(0),
    "standardised": lambda x: (x - x.mean()) / x.std(),
    "mse": lambda x: F.mse_loss(x, x * 0.5),
    "bce": lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)),
}
# Called with truth values of the last two dimensions.
MASKED = {
    "masked softmax": lambda x, m: x.masked_fill(m, -math.inf).softmax(-1),
    "sum of chosen": lambda x, m: torch.where(m, x, 0).sum(-1),
    "mean of all chosen": lambda x, m: (x * m).sum() / m.sum(),
    "mean of chosen rows": lambda x, m: (x * m[..., :1]).sum() / m[..., 0].sum(),
    "squares of columns": lambda x, m: ((x - m[:1].to(x.dtype)) ** 2).sum(),
    "mean of chosen": lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=1),
}
IMAGE = {
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm relu": lambda x: F.relu(F.batch_norm(x, None, None, training=True)),
    "group_norm": lambda x: F.group_norm(x, 4),
    "instance_norm": lambda x: F.instance_norm(x),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "squeeze and excite": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    "sum of images": lambda x: (x * 2).sum((2, 3)),
    "sum of channels": lambda x: (x * 2).sum((0, 2, 3)),
    "layer norm of channels": lambda x: F.layer_norm(x.permute(0, 2, 3, 1), x.shape[1:2]).permute(0, 3, 1, 2),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], *x.shape[2:], dtype=torch.long)),
    "reflected": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect") * 2,
    "padded": lambda x: F.pad(x, (1, 1, 1, 1)) + 0.0,
}


def layouts(dtype, small):
    generator = torch.Generator().manual_seed(0)

    def randn(*shape):
        return torch.randn([min(n, 8) for n in shape] if small else shape, generator=generator).to(dtype)

    yield "matrix", randn(512, 1000)
    yield "matrix, transposed", randn(1000, 512).t()
    yield "batch", randn(16, 128, 256)
    yield "batch, transposed", randn(16, 256, 128).transpose(1, 2)
    yield "batch, every second", randn(16, 128, 512)[..., ::2]
    yield "images", randn(4, 64, 40, 48)
    yield "images, channels last", randn(4, 64, 40, 48).to(memory_format=torch.channels_last)


def cases(x):
    """(family, name, function, further arguments)."""
    for name, f in POINTWISE.items():
        yield "pointwise", name, f, ()
    for name, f in BINARY.items():
        yield "binary", name, f, (x * 2 + 1,)
        yield "binary", f"{name} with columns", f, (x[..., :1].contiguous() + 1,)
    for name, f in REDUCTION.items():
        for d in range(x.ndim):
            yield "reduction", f"{name} over {d}", lambda x, f=f, d=d: f(x, d), ()
    for name, f in NORM.items():
        yield "norm", name, f, ()
    mask = torch.rand(x.shape[-2:], generator=torch.Generator().manual_seed(1)) > 0.6
    for name, f in MASKED.items():
        yield "norm", name, f, (mask,)
    if x.ndim == 4:
        for name, f in IMAGE.items():
            yield "image", name, f, ()


def microseconds(f, *arguments):
    """The least of some calls, after three that are not counted."""
    for _ in range(3):
        f(*arguments)
    least, begin = math.inf, time.perf_counter()
    for i in range(15):
        start = time.perf_counter()
        f(*arguments)
        least = min(least, time.perf_counter() - start)
        if i >= 2 and time.perf_counter() - begin > 0.03:
            break
    return least * 1e6


def with_gradients(f, x, others):
    leaf = nn.Parameter(x.detach())

    def step():
        leaf.grad = None
        f(leaf, *others).float().sum().backward()

    return step


def ratios(f, x, others):
    """("forward" or "gradients", eager's and Thunder's microseconds)."""
    compiled = thunder.jit(f)
    yield "forward", microseconds(f, x, *others), microseconds(compiled, x, *others)
    if f(nn.Parameter(x.detach()), *others).requires_grad:
        yield "gradients", *(microseconds(with_gradients(g, x, others)) for g in (f, thunder.jit(f)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="pointwise,binary,reduction,norm,image", help="families, separated by commas")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worse", type=float, default=1.25, help="print what takes so many times eager's time")
    parser.add_argument("--least", type=float, default=15, help="and so many microseconds more")
    parser.add_argument("--small", action="store_true", help="no dimension over 8")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    logs, families = [], options.only.split(",")
    for layout, x in layouts(getattr(torch, options.dtype), options.small):
        for family, name, f, others in cases(x):
            if family not in families:
                continue
            for what, eager, ours in ratios(f, x, others):
                logs.append(math.log(ours / eager))
                if ours > options.worse * eager + options.least:
                    print(f"{ours / eager:6.2f} {eager:9.0f} {ours:9.0f}  {what:9} {name}; {layout}", flush=True)
    print(f"{len(logs)} cases, geometric mean {math.exp(sum(logs) / len(logs)):.2f}")


if __name__ == "__main__":
    main()
