"""What does fusion gain on the CPU?  Pointwise chains, norms, softmax, rotary embedding and cross entropy, float32,
forward alone and forward with backward, from 16 x 64 (fits the L1 cache) to 2048 x 8192 (64 MB an operand).

--compare: torch.compile too (ten minutes instead of four).  --threads=2; and for a part:
--cases=softmax,rope --sizes=16x64 --peers=eager,thunder.  A speed of 2 is half of the other's time.
"""

import argparse
import collections
import json
from statistics import geometric_mean

from common import COMPARE, child, child_arguments, compiled, emit, interleaved, no_garbage_collection, summary

CASES = "gelu,tanh_sigmoid,softmax,rms_norm,layer_norm,swiglu,rope,cross_entropy"  # of tests/python/fusion_programs.py
SIZES = "16x64,128x512,512x4096,2048x8192"
PASSES = ("forward", "forward + backward")
ROUND = 0.005  # seconds of the slowest peer's calls in a round: far above the clock's resolution
SLOW = 0.8  # of eager's speed: named at the end


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--sizes", default=SIZES, help="rows x columns")
    parser.add_argument("--peers", default="eager,thunder,torch.compile" if COMPARE else "eager,thunder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compare", action="store_true")
    return parser.parse_known_args()[0]  # run.py passes on what other benchmarks know


def call_of(peer, function, args, backward):
    """A function without arguments: the outputs, or the gradients of all arguments that require them."""
    import torch

    if peer == "torch.compile":
        torch._dynamo.reset()  # else the second size would get kernels for all sizes
    run = compiled(peer, function)
    if not backward:
        args = [a.detach() for a in args]
        return lambda: run(*args)
    wanted = [a for a in args if a.requires_grad]
    upstream = torch.randn(function(*args).shape, generator=torch.Generator().manual_seed(1))
    return lambda: torch.autograd.grad(run(*args), wanted, upstream)


def seconds_of(function):
    return min(interleaved({"": function}, rounds=3)[""])


def measure(case, sizes, peers, threads):
    """Prints a list of [size, pass, {peer: microseconds}]."""
    import fusion_programs
    import torch

    torch.set_num_threads(int(threads))
    results = []
    for size in sizes.split(","):
        function, args = fusion_programs.program(case, *map(int, size.split("x")))
        for which in PASSES:
            calls = {p: call_of(p, function, args, backward=which != "forward") for p in peers.split(",")}
            expected = call_of("eager", function, args, backward=which != "forward")()
            for call in calls.values():
                torch.testing.assert_close(call(), expected, rtol=1e-3, atol=1e-3)
            slowest = max(map(seconds_of, calls.values()))
            with no_garbage_collection():
                times = interleaved(calls, inner=max(1, int(ROUND / slowest)))
            results.append([size, which, {peer: summary(t, 1e6) for peer, t in times.items()}])
    print(json.dumps(results))


def report(case, results, threads):
    """Emits a line for each; `speed` is how many times eager's it is."""
    for size, which, times in results:
        for peer, t in times.items():
            line = dict(microseconds=t["median"], microseconds_min=t["min"])
            if peer != "eager" and "eager" in times:
                line |= dict(zip(("speed", "speed_min"), speeds(times, peer, "eager"), strict=True))
            emit("fusion", peer=peer, case=case, size=size, passes=which, threads=threads, **line)


def speeds(times, peer, other):
    """How many times the other's, by the median and by the least time."""
    return [times[other][key] / times[peer][key] for key in ("median", "min")]


def report_means(results, other, threads):
    """Thunder's speed over the other's, of all cases, and by the median those of a pass and of a size.

    The smallest size shows what a call costs, the larger ones the kernels.
    """
    found, parts = [], collections.defaultdict(list)
    for rows in results.values():
        for size, which, times in rows:
            found.append(speeds(times, "thunder", other))
            for part in (which, size):
                parts[part].append(found[-1][0])
    speed, least = map(geometric_mean, zip(*found, strict=True))
    means = {part: geometric_mean(of_part) for part, of_part in parts.items()}
    emit("fusion, geometric mean", peer="thunder", over=other, threads=threads, speed=speed, speed_min=least, **means)


def report_slow(results, threads):
    for case, rows in results.items():
        for size, which, times in rows:
            speed, least = speeds(times, "thunder", "eager")
            if speed < SLOW:
                line = dict(case=case, size=size, passes=which, threads=threads, speed=speed, speed_min=least)
                emit(f"fusion, below {SLOW} of eager", peer="thunder", **line)


def main():
    arguments = child_arguments()
    if arguments is not None:
        return measure(*arguments)
    chosen = options()
    results = {}
    for case in chosen.cases.split(","):
        results[case] = child(__file__, case, chosen.sizes, chosen.peers, chosen.threads, timeout=3600)
        report(case, results[case], chosen.threads)
    peers = chosen.peers.split(",")
    if "thunder" not in peers:
        return
    for other in ("eager", "torch.compile"):
        if other in peers:
            report_means(results, other, chosen.threads)
    if "eager" in peers:
        report_slow(results, chosen.threads)


if __name__ == "__main__":
    main()
