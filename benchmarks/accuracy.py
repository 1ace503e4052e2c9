"""Errors of sums, means, norms, softmax and losses against float64, beside eager's.

    python benchmarks/accuracy.py                                  # sizes 2^10, 2^16, 2^22 on the CPU
    python benchmarks/accuracy.py --device cuda --sizes 10 16 22 26 30

A size is the number of float32 elements as a power of 2: all of one row, of 64 rows, and of 64 columns.  An error is
the largest of all results, in units of float32's roundoff (2^-24) of what is added up: the result itself for positive
data, the sum of magnitudes where terms cancel.  The reference is float64, by blocks.
"""

import argparse
import math

import torch
import torch.nn.functional as F

import thunder

BLOCK = 2**26  # elements that are converted to float64 at once
LARGEST = {"cpu": 28, "cuda": 30}  # for results as large as their operands
ROUNDOFF = 2.0**-24
DATA = {
    "positive": lambda n, g, d: torch.rand(n, generator=g, device=d),
    "constant": lambda n, g, d: torch.full((n,), 0.1, device=d),
    "cancelling": lambda n, g, d: torch.randn(n, generator=g, device=d),
    "wide": lambda n, g, d: torch.randn(n, generator=g, device=d).mul_(
        torch.rand(n, generator=g, device=d).mul_(12).sub_(6).mul_(math.log(10)).exp_()
    ),
}


def blocks(x, dim):
    """Float64 pieces, along the reduced dimension."""
    length = max(1, BLOCK // max(1, x.numel() // x.size(dim)))
    return (piece.double() for piece in x.split(length, dim))


def total(x, dim, f=lambda piece: piece):
    return sum(f(piece).sum(dim) for piece in blocks(x, dim))


def count(x, dim):
    return x.size(dim)


# What is computed; the result in float64; what its error is measured by.
REDUCTIONS = {
    "sum": (lambda x, d: (x * 1.0).sum(d), total, lambda x, d: total(x, d, torch.abs)),
    "mean": (
        lambda x, d: (x * 1.0).mean(d),
        lambda x, d: total(x, d) / count(x, d),
        lambda x, d: total(x, d, torch.abs) / count(x, d),
    ),
    "norm": (
        lambda x, d: torch.linalg.vector_norm(x * 1.0, dim=d),
        lambda x, d: total(x, d, torch.square).sqrt(),
        lambda x, d: total(x, d, torch.square).sqrt(),
    ),
    "mse_loss": (
        lambda x, d: F.mse_loss(x * 1.0, x.flip(d), reduction="none").mean(d),
        lambda x, d: total(x - x.flip(d), d, torch.square) / count(x, d),
        lambda x, d: total(x - x.flip(d), d, torch.square) / count(x, d),
    ),
    "fraction": (
        lambda x, d: (x > 0.05).float().mean(d),
        lambda x, d: total(x > 0.05, d) / count(x, d),
        lambda x, d: total(x > 0.05, d) / count(x, d),
    ),
}


def softmax_reference(x, dim):
    most = x.amax(dim, keepdim=True).double()
    return most, total(x, dim, lambda piece: (piece - most).exp()).unsqueeze(dim)


def softmax_error(y, x, dim, reference):
    most, terms = reference
    worst = 0.0
    for piece, mine in zip(blocks(x, dim), blocks(y, dim), strict=True):
        want = (piece - most).exp() / terms
        worst = max(worst, ((mine - want).abs() / want.clamp_min(1e-30)).max().item())
    return worst / ROUNDOFF


def shapes(size):
    return {"row": ((1, size), -1), "64 rows": ((64, size // 64), -1), "64 columns": ((size // 64, 64), 0)}


def error(got, want, scale):
    return ((got.double() - want).abs() / scale.clamp_min(1e-300)).max().item() / ROUNDOFF


def measure(name, x, dim):
    """Eager's error, ours, and ours with numerics="eager"."""
    if name == "softmax":
        x = x.clamp(-60, 60)
        reference = softmax_reference(x, dim)
        return [softmax_error(g(x), x, dim, reference) for g in variants(lambda x: F.softmax(x * 1.0, dim))]
    f, reference, scale = REDUCTIONS[name]
    want, unit = reference(x, dim), scale(x, dim)
    return [error(g(x), want, unit) for g in variants(lambda x: f(x, dim))]


def variants(f):
    return f, thunder.jit(f), thunder.jit(f, numerics="eager")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 16, 22])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--only", nargs="+", default=[*REDUCTIONS, "softmax"], choices=[*REDUCTIONS, "softmax"])
    args = parser.parse_args()
    print(f"{'':9s} {'data':10s} {'shape':10s} {'size':>5s} {'eager':>10s} {'ours':>10s} {'numerics=eager':>15s}")
    worse = 0
    for power in args.sizes:
        for data in args.data:
            flat = DATA[data](2**power, torch.Generator(args.device).manual_seed(power), args.device)
            for shape, (sizes, dim) in shapes(2**power).items():
                for name in args.only:
                    if name in ("softmax", "mse_loss") and power > LARGEST[args.device]:
                        continue
                    errors = measure(name, flat.view(sizes), dim)
                    mark = "" if max(errors[1:]) <= max(1.5 * errors[0], 2.0) else "   worse"
                    worse += bool(mark)
                    print(
                        f"{name:9s} {data:10s} {shape:10s} 2^{power:<3d} "
                        + " ".join(f"{e:{w}.2f}" for e, w in zip(errors, (10, 10, 15), strict=True))
                        + mark,
                        flush=True,
                    )
    print(f"{worse} rows in which ours is above 1.5 times eager's error and above 2 units")


if __name__ == "__main__":
    main()
