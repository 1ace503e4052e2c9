"""Reductions of many shapes on one GPU: Thunder beside eager and torch.compile, by the time of their kernels.

    python benchmarks/gpu/reductions.py
    python benchmarks/gpu/reductions.py --only mse,middle --dtypes bfloat16
    python benchmarks/gpu/reductions.py --device cpu --small        # whether it runs

Times are microseconds between two events around a call, the median of twenty; the device sleeps before each, so that
the host's time is none of it.

    ratio  of Thunder's time to the better of the others
    error  |result - that in float64| / |that in float64|
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from headline import table

import thunder

LOSSES = {
    "sum": lambda x, y: (x * y).sum(),
    "mse": F.mse_loss,
    "huber": F.smooth_l1_loss,
    "bce": F.binary_cross_entropy_with_logits,
    "norm": lambda x, y: (x - y).norm(),
    "var": lambda x, y: (x * y).var(),
    "rows": lambda x, y: (x * y).flatten(1).sum(1),
    "rows var": lambda x, y: (x * y).flatten(1).var(1),
    "planes": lambda x, y: (x - y).square().mean((-2, -1)),
    "softmax": lambda x, y: torch.softmax((x * y).flatten(1), 1),
}
MIDDLES = {
    "middle": lambda x, y: (x * y).sum(1),
    "middle two": lambda x, y: (x.float() * y.float()).sum(1) + y.sum(1),
    "middle var": lambda x, y: x.var(1) + y.mean(1),
    "middle softmax": lambda x, y: torch.softmax(x, 1) * y,
}
SHAPES = [(64, 4, 32, 32), (16, 3, 224, 224), (128, 3, 224, 224), (4, 4096, 4096), (8192, 1024)]
SHAPES_OF_MIDDLES = [(64, 256, 768), (128, 49, 1152), (16, 1024, 768), (8, 4096, 512), (2, 65536, 64), (4096, 8, 1024)]
SHAPES_OF_MIDDLES += [(512, 100, 256), (32, 3136, 96), (1, 8192, 4096), (8192, 32, 64), (64, 256, 24)]
COLUMNS = (
    ("eager", "eager", ".0f"),
    ("compile", "compile", ".0f"),
    ("thunder", "thunder", ".0f"),
    ("ratio", "ratio", ".2f"),
    ("error", "error", ".1e"),
)


def microseconds(call, device, repeats=20, sleep=300_000):
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        if device != "cuda":
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
            continue
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(sleep)
        before.record()
        call()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after) * 1e3)
    return statistics.median(times)


def measure(function, shape, dtype, options):
    device = options.device
    x, y = (torch.rand(shape, device=device).to(dtype) for _ in range(2))
    peers = {"eager": function, "thunder": thunder.jit(function)}
    if not options.without_compile:
        peers["compile"] = torch.compile(function)
    row = {name: microseconds(lambda peer=peer: peer(x, y), device) for name, peer in peers.items()}
    exact = function(x.double(), y.double())
    row["error"] = ((peers["thunder"](x, y).double() - exact).norm() / exact.norm()).item()
    row["ratio"] = row["thunder"] / min(row[name] for name in peers if name != "thunder")
    torch._dynamo.reset()
    return row


def arguments(doc, only, small):
    """A parser of what this program and families.py have in common."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"{only}, separated by commas")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--without-compile", action="store_true", help="eager alone beside Thunder")
    parser.add_argument("--small", action="store_true", help=small)
    return parser


def print_all(rows, columns=COLUMNS):
    """The table, and what it says in one line."""
    print(table(rows, columns, "us"))
    ratios = [row["ratio"] for row in rows]
    print(f"{len(ratios)} rows, geometric mean of the ratios {statistics.geometric_mean(ratios):.3f}", end=", ")
    print(f"{sum(ratio > 1.3 for ratio in ratios)} above 1.3")


def main():
    parser = arguments(__doc__, "names", "one small shape of each kind")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    rows = []
    with torch.no_grad():
        for functions, shapes in ((LOSSES, SHAPES), (MIDDLES, SHAPES_OF_MIDDLES)):
            for shape in [tuple(min(n, 8) for n in shapes[0])] if options.small else shapes:
                for dtype in options.dtypes.split(","):
                    for name in [n for n in functions if not only or n in only]:
                        row = measure(functions[name], shape, getattr(torch, dtype), options)
                        rows.append({"us": f"{name} {'x'.join(map(str, shape))} {dtype}", **row})
    print_all(rows)


if __name__ == "__main__":
    main()
