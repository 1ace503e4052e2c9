"""How near to a copy's bandwidth are the fused kernels of a training step?  TinyLlama-1.1B, 4 x 2048, bf16, one GPU.

    python benchmarks/gpu/bandwidth.py
    python benchmarks/gpu/bandwidth.py --layers 2 --seq 4096 --forward
    python benchmarks/gpu/bandwidth.py --device cpu --layers 2 --seq 64 --dtype float32      # calls and MB alone

The table, longest first; a line is a kernel and all fusions of the step that run it:

    ms      in a step, the mean of --iterations: the kernel, with its `_finish` and its variant `_any`
    calls   in a step
    MB      of a call: each distinct element of what it reads, and of what it writes, once
    GB/s    the one by the other
    /copy   of the bandwidth of copying 2 GB, bytes read and bytes written counted
    /same   of the bandwidth of copies that move as many bytes as a call, from memory that no cache holds

The partial sums between a kernel and its `_finish` are time, not bytes; what the kernel before left in the cache is
bytes, not time, so small kernels may come above 1.  Matrix products, attention and the optimizer are not in it.
"""

import argparse
import collections
import math
import re
import statistics

import headline
import peer as one

COPY = 2_000_000_000  # bytes of each of the two tensors
COPIES = 20  # of one size
LAUNCH = re.compile(r"(fusion\d+)(_any)?(_finish)?")
GATHERS = ("prims.take", "prims.take_along_axis")
COLUMNS = (
    ("ms", "ms", ".3f"),
    ("calls", "calls", "d"),
    ("MB", "mb", ".2f"),
    ("GB/s", "gbs", ".0f"),
    ("/copy", "of_copy", ".2f"),
    ("/same", "of_same", ".2f"),
)


# ---- bytes, from the trace -----------------------------------------------------------------------------------------


def distinct_bytes(value):
    """Of a tensor: elements that a stride of 0, or overlap, shows several times count once."""
    kept = [(n, s) for n, s in zip(value.shape, value.strides, strict=True) if s]
    span = 1 + sum((n - 1) * s for n, s in kept)
    return min(math.prod(n for n, _ in kept), span) * value.dtype.itemsize if math.prod(value.shape) else 0


def read_bytes(value, users):
    """Of a fusion's operand: all, unless its users are views and gathers of parts of it."""
    most, read = distinct_bytes(value), 0
    for call in users.get(value, ()):
        part = call.is_view or (call.symbol in GATHERS and call.input_values[0] == value)
        read += sum(read_bytes(v, users) for v in call.output_values) if part else most
    return min(most, read) if users.get(value) else most


def fusion_bytes(call):
    """What a call of a generated kernel must read and write: each distinct element once, unread parts not at all."""
    users = collections.defaultdict(list)
    for inner in call.body:
        for value in dict.fromkeys(inner.input_values):
            users[value].append(inner)
    read = sum(read_bytes(v, users) for v in dict.fromkeys(call.input_values))
    return read + sum(map(distinct_bytes, call.output_values))


def traffic(trace):
    """[(name, bytes)] of the calls of generated kernels in a program's last trace, in the order in which they run."""
    return [(call.name, fusion_bytes(call)) for call in trace.calls if call.executor == "fuser"]


# ---- times, from the profiler --------------------------------------------------------------------------------------


def by_kernel(calls, own, launches):
    """{kernel: {"us", "calls", "bytes"}}, sums over all launches.

    A fusion may run an equal kernel that has another fusion's name, so launches are matched with calls by their order.

    Args:
        calls: (name, bytes) of each fusion, in the order in which they run.
        own: the names of fusions that have kernels of their own.
        launches: (name, microseconds) of what ran, in order, other kernels among them.
    """
    rows = {}
    left = iter(calls)
    for name, us in launches:
        if not (match := LAUNCH.fullmatch(name)):
            continue
        kernel, _, finish = match.groups()
        row = rows.setdefault(kernel, {"us": 0.0, "calls": 0, "bytes": 0})
        row["us"] += us
        if finish:
            continue
        fusion, size = next(left, ("nothing", 0))
        if fusion != kernel and (fusion in own or fusion == "nothing"):
            raise SystemExit(f"{name} was launched where the program runs {fusion}")
        row["calls"] += 1
        row["bytes"] += size
    if rest := [fusion for fusion, _ in left]:
        raise SystemExit(f"no launch is known of {', '.join(rest[:5])} ({len(rest)} fusions)")
    return rows


def launched(call, clock):
    """(name, microseconds) of what ran on the GPU in a call, in order."""
    events = [e for e in one.profiled(call, clock).events() if e.device_type.name == "CUDA"]
    return [(e.name, e.self_device_time_total) for e in sorted(events, key=lambda e: e.time_range.start)]


class Copies:
    """The bandwidth of copies on the GPU: bytes read and bytes written, a second."""

    def __init__(self, clock):
        import torch

        self.clock = clock
        self.x, self.y = (torch.ones(COPY, dtype=torch.uint8, device="cuda") for _ in range(2))
        self.known = {}

    def bandwidth(self, moved):
        """Of copies that move so many bytes each, read and written."""
        n = min(max(moved // 2, 1), COPY)
        if n not in self.known:
            step = -(-n // 256) * 256  # as aligned as the allocator's memory
            starts = [i % max(COPY // step, 1) * step for i in range(COPIES)]
            self.y.copy_(self.x)  # nothing of what is copied next stays in the cache

            def copy():
                for s in starts:
                    self.y[s : s + n].copy_(self.x[s : s + n])

            self.known[n] = 2 * n / statistics.median(us for _, us in launched(copy, self.clock)) * 1e6
        return self.known[n]


# ---- the table -----------------------------------------------------------------------------------------------------


def lines(rows, steps, copies):
    """The table's lines, longest first, and one of all together."""
    total = {key: sum(row[key] for row in rows.values()) for key in ("us", "calls", "bytes")}
    out = []
    for name, row in [*sorted(rows.items(), key=lambda item: -item[1]["us"]), ("all", total)]:
        line = {"kernel": name, "calls": row["calls"] // steps, "mb": row["bytes"] / row["calls"] / 1e6}
        if copies:
            speed = row["bytes"] / row["us"] * 1e6
            line |= dict(ms=row["us"] / steps / 1e3, gbs=speed / 1e9, of_copy=speed / copies.bandwidth(2 * COPY))
            if name != "all":
                line["of_same"] = speed / copies.bandwidth(row["bytes"] // row["calls"])
        out.append(line)
    return out


def measure(options):
    import litgpt_import

    import thunder
    from thunder import _C

    module, ids, targets = one.build(options)
    clock = one.Clock(options.device)
    module = module if options.forward else litgpt_import.with_loss(module)
    run = one.compiled("thunder", module)
    step = one.step_of(run, ids, targets, options)

    def steps(count):
        for _ in range(count):
            step()
            module.zero_grad()

    steps(options.warm_up)
    traces = [found[-1] for found in (thunder.last_traces(run), thunder.last_backward_traces(run)) if found]
    calls = [call for trace in traces for call in traffic(trace)]
    if not calls:
        raise SystemExit("the program has no fused kernels")
    if not clock.cuda:
        rows = by_kernel(calls, (), [(name, 0.0) for name, _ in calls])
        return lines(rows, 1, None)
    own = {name for trace in traces for name, _ in _C.trace_kernels(trace)}
    rows = by_kernel(calls * options.iterations, own, launched(lambda: steps(options.iterations), clock))
    return lines(rows, options.iterations, Copies(clock))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_options(parser)
    parser.set_defaults(iterations=5)
    options = parser.parse_args()
    rows = measure(options)
    print(headline.machine(options))
    print(headline.table(rows, COLUMNS, first="kernel"))


if __name__ == "__main__":
    main()
