"""Operators of many families on one GPU, forward and backward, by the time of their kernels.

    python benchmarks/gpu/families.py
    python benchmarks/gpu/families.py --only scan,sort --dtype float32
    python benchmarks/gpu/families.py --forward                     # calls without gradients
    python benchmarks/gpu/families.py --device cpu --small          # whether it runs

A row is a function of a family and its tensors' sizes. Times are as those of reductions.py, here of the call and of its
backward pass. The columns are

    ratio  of Thunder's time to the better of the others
    error  of the result and of all gradients, |theirs - those in float64| over |those in float64|, the greatest
    first  seconds of Thunder's first call
"""

import functools
import math
import sys
import time
import traceback

import torch
import torch.nn.functional as F
from reductions import COLUMNS, arguments, microseconds, print_all

import thunder


def rope(x, angles):
    a, b = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-b, a), -1) * angles.sin()


def windows(x, size):
    b, h, w, c = x.shape
    parts = x.view(b, h // size, size, w // size, size, c).transpose(2, 3)
    return F.gelu(parts.reshape(-1, size * size, c)) + 1


def selective_scan(x, decay):
    state = torch.zeros_like(x[:, 0])
    states = []
    for t in range(x.shape[1]):
        state = state * decay[:, t].sigmoid() + x[:, t]
        states.append(state)
    return torch.stack(states, 1)


def routed(x, scores, weights):
    values, picked = scores.softmax(-1).topk(2, -1)
    mixed = torch.zeros_like(x)
    for expert in range(2):
        mixed = mixed + x * values[:, expert : expert + 1] * weights[picked[:, expert]]
    return mixed


def segment_softmax(x, index, n):
    top = torch.full((n, x.shape[1]), -1e9, dtype=x.dtype, device=x.device)
    top = top.scatter_reduce(0, index[:, None].expand_as(x), x, "amax")
    e = (x - top[index]).exp()
    total = torch.zeros_like(top).index_add(0, index, e)
    return e / total[index]


def int4_unpacked(packed, scale):
    low, high = packed & 15, packed >> 4
    return (torch.stack((low, high), -1).flatten(-2).to(scale.dtype) - 8) * scale


def adam(p, g, m, v):
    m = m.lerp(g, 0.1)
    v = v * 0.99 + g * g * 0.01
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


# A size is a tensor of random numbers; ("index", n, sizes) is one of integers below n.
FAMILIES = {
    "softmax": [
        (
            lambda x: F.softmax(x, -1),
            [(64, 12, 197, 197)],
            [(32768, 50)],
            [(256, 50257)],
            [(16, 1000003)],
            [(8, 64, 7)],
        ),
        (lambda x: F.log_softmax(x, 1), [(16, 21, 256, 256)], [(4096, 1000)]),
        (lambda x: torch.logsumexp(x, (1, 2)), [(64, 128, 128)], [(8, 1024, 1024)]),
        (lambda x, m: F.softmax(x.masked_fill(m > 0.5, -1e4), -1) * 0.5, [(32, 8, 128, 128), (32, 1, 1, 128)]),
    ],
    "cross entropy": [
        (
            lambda x, t: F.cross_entropy(x, t),
            [(8192, 32000), ("index", 32000, (8192,))],
            [(128, 10), ("index", 10, (128,))],
        ),
        (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), [(1024, 1000), ("index", 1000, (1024,))]),
        (lambda x, t: F.cross_entropy(x, t), [(8, 21, 256, 256), ("index", 21, (8, 256, 256))]),
        (
            lambda x, y: -(F.normalize(x) @ F.normalize(y).T * 20).log_softmax(-1).diagonal().mean(),
            [(2048, 512), (2048, 512)],
        ),
        (lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), [(4096, 1000), (4096, 1000)]),
    ],
    "norm": [
        (
            lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
            [(8192, 768), (768,), (768,)],
            [(65536, 96), (96,), (96,)],
        ),
        (
            lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
            [(512, 12288), (12288,), (12288,)],
            [(100000, 33), (33,), (33,)],
        ),
        (lambda x, w: F.rms_norm(x, (x.shape[-1],), w), [(8192, 4096), (4096,)], [(262144, 64), (64,)]),
        (
            lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)),
            [(8, 320, 64, 64), (320,), (320,)],
            [(2, 128, 256, 256), (128,), (128,)],
        ),
        (lambda x: F.relu(F.instance_norm(x)), [(8, 64, 128, 128)], [(1, 32, 512, 512)]),
        (
            lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)),
            [(64, 256, 28, 28), (256,), (256,)],
            [(4096, 512), (512,), (512,)],
        ),
        (
            lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)),
            [(4, 32, 16, 64, 64), (32,), (32,)],
            [(16, 64, 4000), (64,), (64,)],
        ),
        (lambda x: F.normalize(x, dim=1), [(32, 256, 56, 56)], [(65536, 128)]),
        (lambda x, y: F.cosine_similarity(x, y), [(65536, 256), (65536, 256)]),
    ],
    "scan": [
        (lambda x: x.cumsum(-1), [(4096, 4096)], [(64, 1000003)]),
        (lambda x: (x * 2).cumsum(1) * x, [(16, 2048, 512)], [(8, 100, 64)]),
        (lambda x: (1 - x.sigmoid() + 1e-6).cumprod(-1), [(65536, 64)]),
        (lambda x: torch.logcumsumexp(x, 1), [(64, 1024, 64)]),
        (selective_scan, [(16, 32, 2048), (16, 32, 2048)]),
    ],
    "sort": [
        (lambda x: x.sort(-1)[0] * 2, [(4096, 1000)], [(16, 100000)]),
        (lambda x: x.topk(8, -1)[0].sum(-1), [(8192, 128)], [(64, 50257)]),
        (lambda x: x.max(1)[0] + x.min(1)[0], [(64, 1024, 128)], [(8192, 1000)]),
        (lambda x: x.median(-1)[0], [(4096, 101)]),
        (lambda x: F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype) * x, [(8192, 100)]),
        (routed, [(16384, 1024), (16384, 64), (64, 1024)]),
    ],
    "index": [
        (
            lambda x, i: x[i] * 2,
            [(30522, 768), ("index", 30522, (16384,))],
            [(2, 768), ("index", 2, (16384,))],
            [(1000000, 16), ("index", 1000000, (65536,))],
        ),
        (
            lambda x, i: F.embedding(i, x) + 1,
            [(512, 768), ("index", 512, (16384,))],
            [(100, 7), ("index", 100, (4096, 3))],
        ),
        (lambda x, i: F.embedding_bag(i, x, mode="sum") * 2, [(100000, 64), ("index", 100000, (8192, 20))]),
        (
            lambda x, i: x.gather(1, i) * 3,
            [(4096, 1000), ("index", 1000, (4096, 64))],
            [(64, 4096, 16), ("index", 4096, (64, 512, 16))],
        ),
        (
            lambda x, i: torch.zeros(10000, x.shape[1], dtype=x.dtype, device=x.device).index_add(0, i, x * 2),
            [(200000, 64), ("index", 10000, (200000,))],
        ),
        (
            lambda x, i: torch.zeros(10000, x.shape[1], dtype=x.dtype, device=x.device).scatter_add(
                0, i[:, None].expand_as(x), x
            ),
            [(100000, 32), ("index", 10000, (100000,))],
        ),
        (lambda x, i: segment_softmax(x, i, 10000), [(100000, 8), ("index", 10000, (100000,))]),
        (lambda x, i: x.index_select(1, i).relu(), [(64, 1000, 128), ("index", 1000, (500,))]),
        (lambda x: x[:, ::2, 1:] * 2, [(64, 512, 512)]),
        (
            lambda x, t: (
                x
                + t[(torch.arange(49, device=x.device)[:, None] + torch.arange(49, device=x.device)) % 169].permute(
                    2, 0, 1
                )
            ),
            [(4096, 6, 49, 49), (169, 6)],
        ),
    ],
    "layout": [
        (
            lambda x, y: torch.cat((x, y), 1).relu(),
            [(32, 64, 128, 128), (32, 64, 128, 128)],
            [(8, 3, 50, 50), (8, 5, 50, 50)],
        ),
        (lambda *xs: torch.cat(xs, -1) * 2, [(4096, 64)] * 26),
        (lambda x: x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1) * 2, [(16, 16, 1024, 64)]),
        (lambda x: F.gelu(x.transpose(1, 2)).contiguous(), [(64, 768, 196)], [(7, 1001, 333)]),
        (lambda x: windows(x, 7), [(32, 56, 56, 96)]),
        (lambda x: torch.roll(x, (-3, -3), (1, 2)) * 2, [(32, 56, 56, 96)]),
        (lambda x: F.pad(x, (1, 1, 1, 1)).relu(), [(32, 64, 112, 112)]),
        (lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect") * 2, [(8, 64, 128, 128)]),
        (lambda x: x.flip(-1) + x, [(64, 256, 256)]),
        (lambda x: x.repeat_interleave(4, 1) * 2, [(8, 8, 2048, 64)]),
        (lambda x: x.unfold(1, 16, 8).sum(-1), [(64, 16384)], [(32, 1024, 64)]),
        (lambda x: F.pixel_shuffle(x, 2).relu(), [(8, 256, 64, 64)]),
        (lambda x: sum(part * k for k, part in enumerate(x.split(64, -1))), [(8192, 768)]),
        (lambda x: x.tril() + x.triu(1) * 2, [(64, 512, 512)]),
    ],
    "image": [
        (lambda x: F.interpolate(x, scale_factor=2, mode="nearest") * 2, [(8, 256, 64, 64)]),
        (lambda x: F.interpolate(x, size=(224, 224), mode="bilinear", align_corners=False), [(16, 64, 56, 56)]),
        (lambda x: F.interpolate(x, size=(128, 128), mode="bicubic"), [(8, 64, 64, 64)]),
        (lambda x, g: F.grid_sample(x, g * 2 - 1, align_corners=False), [(8, 64, 128, 128), (8, 128, 128, 2)]),
        (lambda x: F.max_pool2d(x.relu(), 3, 2, 1), [(64, 64, 112, 112)]),
        (lambda x: F.avg_pool2d(x, 2).relu(), [(64, 128, 56, 56)]),
        (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1) * 2, [(128, 2048, 7, 7)], [(16, 64, 112, 112)]),
        (lambda x: F.adaptive_max_pool2d(x, (3, 3)), [(32, 64, 31, 31)]),
        (
            lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
            [("channels last", 64, 384, 56, 56)],
            [("channels last", 64, 512, 14, 14)],
        ),
        (
            lambda x: F.conv1d(
                F.pad(x, (3, 0)), torch.ones(x.shape[1], 1, 4, dtype=x.dtype, device=x.device), groups=x.shape[1]
            ).relu(),
            [(8, 1024, 2048)],
        ),
        (
            lambda x, y: (
                1 - (2 * (x.sigmoid() * y).sum((1, 2, 3)) + 1) / (x.sigmoid().sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
            ),
            [(16, 1, 512, 512), (16, 1, 512, 512)],
        ),
    ],
    "across": [  # elements that are reduced lie apart
        (
            lambda x: F.softmax(x, 1),
            [(16, 21, 128, 128)],
            [(16, 256, 32, 32)],
            [(16, 512, 64, 64)],
            [(16, 1000, 32, 32)],
            [(32, 197, 768)],
        ),
        (lambda x: F.softmax(x, 0), [(512, 600)]),
        (lambda x: F.log_softmax(x, 1), [(8, 19, 256, 256)]),
        (lambda x: (x.softmax(2) * x).sum(2), [(32, 64, 49, 128)]),
        (lambda x: F.normalize(x, dim=1), [(8, 512, 64, 64)], [(8, 128, 128, 128)]),
        (
            lambda x: (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, keepdim=True) + 1e-6),
            [(32, 192, 28, 28)],
            [(64, 768, 14, 14)],
        ),
        (lambda x: x.mean(1), [(32, 197, 768)]),
        (lambda x: x.var(1), [(64, 196, 384)]),
        (lambda x: F.instance_norm(x), [("channels last", 32, 256, 16, 16)]),
        (lambda x: F.group_norm(x, 8), [("channels last", 8, 512, 32, 32)]),
    ],
    "pointwise": [
        (lambda x, y: F.silu(x) * y, [(8192, 11008), (8192, 11008)], [(1000, 333), (1000, 333)]),
        (lambda x, b: F.gelu(x + b), [(16384, 3072), (3072,)], [(128, 4), (4,)]),
        (lambda x, a, b: F.mish(x) * a + b, [(32, 256, 28, 28), (256, 1, 1), (256, 1, 1)]),
        (lambda x: F.softplus(x) * torch.tanh(x) + torch.erf(x) + x.pow(3), [(4096, 4096)]),
        (lambda x, w: torch.where(x > 0, x, x * w), [(64, 256, 28, 28), (1, 256, 1, 1)]),
        (lambda x: F.dropout(x, 0.1) + x, [(8192, 4096)]),
        (rope, [(8, 32, 2048, 128), (2048, 128)]),
        (
            lambda x, y: torch.view_as_real(torch.view_as_complex(x.float()) * torch.view_as_complex(y.float())),
            [(8, 2048, 16, 64, 2), (2048, 1, 64, 2)],
        ),
        (int4_unpacked, [("index", 256, (4096, 2048)), (4096, 1)]),
        (adam, [(4096, 4096)] * 4, [(1000,)] * 4),
    ],
    "product": [
        (lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y) * 0.1, [(64, 12, 49, 32), (64, 12, 49, 32)]),
        (lambda x, y: (x[:, :, None] * y[:, None]).sum((0,)), [(4096, 64), (4096, 64)]),
        (lambda x, y: torch.cdist(x.float(), y.float()), [(4, 1024, 64), (4, 1024, 64)]),
        (lambda x, y: (x[:, :, None] - y[:, None]).square().sum(-1), [(16, 1024, 3), (16, 1024, 3)]),
        (lambda x, y: (x[:, :, None] - y[:, None]).abs().amin(-1).mean(-1), [(16, 512, 8), (16, 512, 8)]),
        (lambda x, w, b: F.linear(x, w, b).relu(), [(8192, 13), (512, 13), (512,)], [(64, 1000), (10, 1000), (10,)]),
        (lambda x, y: torch.bmm(x, y).tanh(), [(256, 33, 65), (256, 65, 17)]),
        (lambda x, y, w: F.bilinear(x, y, w), [(1024, 64), (1024, 64), (32, 64, 64)]),
        (lambda x: torch.fft.irfft(torch.fft.rfft(x.float()) * 0.5), [(256, 64, 512)]),
    ],
}


def argument(what, dtype, options):
    if what[0] == "index":
        _, n, shape = what
        return torch.randint(0, n, small(shape, options), device=options.device) % (8 if options.small else n)
    if what[0] == "channels last":
        return argument(what[1:], dtype, options).contiguous(memory_format=torch.channels_last)
    return torch.rand(small(what, options), device=options.device).to(dtype)


def small(shape, options):
    return tuple(min(n, 8) for n in shape) if options.small else shape


@functools.cache
def cotangent(shape, dtype, device):
    """Numbers of a result's size, the same for every peer and made before times are taken."""
    return (torch.arange(math.prod(shape), device=device) % 7 / 7 + 0.5).view(shape).to(dtype)


def gradients(function, arguments):
    """The call's results and, where there are parameters, its gradients."""
    results = function(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    leaves = [a for a in arguments if a.requires_grad]
    if not leaves:
        return results
    grown = [r for r in results if r.requires_grad]
    given = torch.autograd.grad(
        grown, leaves, [cotangent(r.shape, r.dtype, r.device) for r in grown], allow_unused=True
    )
    return [*results, *(g for g in given if g is not None)]


def error(peer, function, arguments):
    exact = [a.detach().double().requires_grad_(a.requires_grad) if a.is_floating_point() else a for a in arguments]
    greatest = 0.0
    for mine, wanted in zip(gradients(peer, arguments), gradients(function, exact), strict=True):
        mine, wanted = torch.view_as_real(mine) if mine.is_complex() else mine, wanted
        greatest = max(greatest, ((mine.double() - wanted).norm() / wanted.norm().clamp_min(1e-30)).item())
    return greatest


def measure(function, shapes, options):
    given = [argument(what, getattr(torch, options.dtype), options) for what in shapes]
    if not options.forward:
        given = [a.requires_grad_(a.is_floating_point()) for a in given]
    compiled = thunder.jit(function)
    start = time.perf_counter()
    gradients(compiled, given)
    row = {"first": time.perf_counter() - start}
    peers = {"eager": function, "thunder": compiled}
    if not options.without_compile:
        peers["compile"] = torch.compile(function)
    for name, peer in peers.items():
        row[name] = microseconds(lambda peer=peer: gradients(peer, given), options.device, sleep=3_000_000)
    row["ratio"] = row["thunder"] / min(row[name] for name in peers if name != "thunder")
    row["error"] = (
        float("nan") if any("dropout" in n for n in function.__code__.co_names) else error(compiled, function, given)
    )
    torch._dynamo.reset()
    cotangent.cache_clear()
    return row


def main():
    parser = arguments(__doc__, "families", "no dimension over 8")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--forward", action="store_true", help="without gradients")
    options = parser.parse_args()
    rows, failed = [], []
    for family in options.only.split(",") if options.only else FAMILIES:
        for number, (function, *cases) in enumerate(FAMILIES[family]):
            for shapes in cases:
                sizes = " ".join("x".join(map(str, s[2] if s[0] == "index" else s)) for s in shapes[:2])
                row = {"us": f"{family} {number} {sizes}"}
                try:
                    row |= measure(function, shapes, options)
                except Exception:
                    print(row["us"], traceback.format_exc(limit=3), flush=True)
                    failed.append(row["us"])
                    continue
                rows.append(row)
                print(*(f"{k} {v:.3g}" if isinstance(v, float) else v for k, v in row.items()), flush=True)
    print_all(rows, (*COLUMNS, ("first", "first", ".2f")))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
