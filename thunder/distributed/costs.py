"""The cost table of the machine at hand, for `simulate`, by small measurements.

    torchrun --nproc-per-node 4 -m thunder.distributed.costs here.costs

    thunder.distributed.simulate(model, (tokens,), world=4, device="here.costs")

Kernels are measured by themselves: matrix products, attention, a pointwise kernel, launches. Collectives are measured
as steps of chains of layers that compute next to nothing. What communication costs the kernels beside it, and what
waiting for the slowest GPU costs, are measured as steps of four transformer blocks with each strategy. No user's model
is involved. The table is text; `csrc/passes/distributed/cost_table.h` describes its lines.
"""

import argparse
import gc
import os
import time

import torch
from torch import distributed

from .. import _C, jit
from ._plan import FSDPBucketingStrategy, FSDPType, group_or_world
from ._simulate import simulate
from ._wrap import ddp, fsdp

_FABRIC = "links"
_STRATEGIES = ("ddp", "zero2", "zero3")
_SHORT = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.float64: "f64"}


class _Sizes:
    """What is measured with."""

    products = ((8192, 2048, 2048), (8192, 2048, 5632), (8192, 4096, 4096))  # rows, and features in and out
    attention = (4, 32, 2048, 64)  # batch, heads, length, a head's size
    elements = 1 << 26
    chains = ((512, 64), (8192, 6))  # a layer's width, layers
    blocks = (4, 2048, 64, 4, 2048)  # blocks, width, a head's size, batch, length
    least_seconds = 0.3  # of one measurement


def measure(process_group=None):
    """Measures this process's GPU, and the links between the GPUs of the group's processes.

    All of the group's processes call it together; it takes about a minute. Nothing else may run on these GPUs.

    Args:
        process_group: Processes of one machine, each with a GPU of its own; None: all processes, and without
            `torch.distributed` this process alone, whose table has no lines for communication.

    Returns:
        The text of a cost table, the same on all processes. Times are the processes' means.

    Raises:
        RuntimeError: There is no GPU.
        ValueError: The processes are on several machines. The fabric between machines is a line of one's own.
    """
    if not torch.cuda.is_available():
        raise RuntimeError("[costs] a GPU is measured, and there is none")
    group = group_or_world(process_group) if distributed.is_initialized() else None
    here = int(os.environ.get("LOCAL_WORLD_SIZE", 0))
    if group is not None and 0 < here < group.size():
        raise ValueError(
            f"[costs] processes of one machine were expected, got {group.size()}, of which {here} are on this one; "
            "measure on one machine and add a line 'fabric NAME * alpha=TIME bandwidth=RATE' for the network"
        )
    major, minor = torch.cuda.get_device_capability()
    name = torch.cuda.get_device_name().replace(" ", "_")
    lines = [f"device {name} {major}.{minor} {torch.backends.cudnn.version() or 1}"]
    return _table(lines, torch.device("cuda", torch.cuda.current_device()), group, _Sizes)


def _table(lines, device, group, sizes):
    clock = _Clock(device, group, sizes.least_seconds)
    half = (torch.bfloat16, torch.float16)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        for dtype in (*half, torch.float32, torch.float64):
            rate = _rate_of_products(clock, dtype, sizes.products)
            lines.append(f"peak product {_SHORT[dtype]} {rate / 1e12:.6g}TFLOP/s")
        for dtype in half:
            forward, backward = _attention(clock, dtype, sizes.attention)
            lines.append(f"peak attention {_SHORT[dtype]} {forward / 1e12:.6g}TFLOP/s")
            lines.append(f"peak attention_backward {_SHORT[dtype]} {backward / 1e12:.6g}TFLOP/s")
        launch = _launch(clock)
        lines.append(f"launch {launch * 1e6:.4g}us")
        lines.append(f"memory {_memory(clock, sizes.elements, launch) / 1e9:.6g}GB/s")
        if group is not None and group.size() > 1:
            lines += _links(clock, group, sizes.chains)
            lines += _beside(clock, group, sizes.blocks, "\n".join(lines))
    devices = f"{group.size() if group is not None else 1} x {lines[0].split()[1]}"
    lines.append(f"note measured on {devices}: all lines; attention is causal, with heads of {sizes.attention[-1]}")
    return "\n".join(lines) + "\n"


class _Clock:
    """Seconds of a call, over many in a row; the mean of the group's processes, which measure at the same time."""

    def __init__(self, device, group, least):
        self.device, self.group, self.least = device, group, least

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def __call__(self, call):
        for _ in range(3):
            call()
        once = self._mean(self._of(call, 3))
        return self._mean(self._of(call, max(3, int(self.least / once))))

    def _of(self, call, times):
        if self.group is not None:
            distributed.barrier(self.group)
        self.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            call()
        self.synchronize()
        return (time.perf_counter() - start) / times

    def _mean(self, seconds):
        if self.group is None:
            return seconds
        total = torch.tensor(seconds, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total, group=self.group)
        return total.item() / self.group.size()


# ---- kernels ---------------------------------------------------------------------------------------------------------


def _rate_of_products(clock, dtype, shapes):
    """Floating-point operations per second of layers' three products: forward, gradients of input and weight."""
    flops = seconds = 0.0
    for rows, inner, outer in shapes:
        operands = (rows, inner), (outer, inner), (rows, outer)
        x, w, g = (torch.randn(shape, dtype=dtype, device=clock.device) for shape in operands)

        def three(x=x, w=w, g=g):
            torch.nn.functional.linear(x, w)
            torch.mm(g, w)
            torch.mm(g.t(), x)

        seconds += clock(three)
        flops += 3 * 2.0 * rows * inner * outer
    return flops / seconds


def _attention(clock, dtype, shape):
    """Floating-point operations per second of causal attention by Thunder: (forward, backward)."""
    q, k, v = (torch.randn(shape, dtype=dtype, device=clock.device, requires_grad=True) for _ in range(3))
    run = jit(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    g = torch.randn(shape, dtype=dtype, device=clock.device)

    def forward():
        with torch.no_grad():
            run(q, k, v)

    def both():
        torch.autograd.grad(run(q, k, v), (q, k, v), g)

    batch, heads, length, size = shape
    flops = 2.0 * batch * heads * length * length * size  # two products, half of each
    alone = clock(forward)
    return flops / alone, 2.5 * flops / max(clock(both) - alone, 1e-9)


def _launch(clock):
    """Seconds of a kernel that has nothing to do, behind another; without the host's time on a GPU."""
    number, kernels = torch.zeros(1, device=clock.device), 200

    def many():
        for _ in range(kernels):
            number.add_(1)

    if clock.device.type != "cuda":
        return clock(many) / kernels
    many()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        many()
    return clock(graph.replay) / kernels


def _memory(clock, elements, launch):
    """Bytes per second, read and written, of a fused pointwise kernel."""
    a, b = (torch.randn(elements, device=clock.device).bfloat16() for _ in range(2))
    run = jit(lambda a, b: torch.nn.functional.silu(a) * b)
    return 3 * a.nbytes / max(clock(lambda: run(a, b)) - launch, 1e-9)


# ---- communication ---------------------------------------------------------------------------------------------------


# Megabytes; less than a layer of the narrow chain.
_BUCKETS_OF_DDP = {FSDPBucketingStrategy.NONE: 0.25, FSDPBucketingStrategy.BLOCK: "auto"}


class _Chain(torch.nn.Sequential):
    def __init__(self, width, layers, device):
        kind = {"device": device, "dtype": torch.bfloat16}
        super().__init__(*(torch.nn.Linear(width, width, bias=False, **kind) for _ in range(layers)))


def _step(model, x):
    """A step of the model by Thunder, as a call."""
    run = jit(model)

    def step():
        run(x).sum().backward()
        for p in model.parameters():
            p.grad = None

    return step


def _forward(model, x):
    run = jit(model)

    def forward():
        with torch.no_grad():
            run(x)

    return forward


def _distributed(strategy, model, group, buckets):
    """`buckets`: NONE, a collective for each parameter; or BLOCK."""
    if strategy == "ddp":
        return ddp(model, process_group=group, bucket_size_in_mb=_BUCKETS_OF_DDP[buckets])
    kind = FSDPType[strategy.upper()]
    return fsdp(model, sharding_strategy=kind, bucketing_strategy=buckets, process_group=group)


def _links(clock, group, chains):
    """The lines of the fabric: of each collective a time per step and a rate, from layers of two widths."""
    times = {"all_gather": [], "reduce_scatter": [], "all_reduce": []}
    for width, layers in chains:
        x = torch.ones(8, width, dtype=torch.bfloat16, device=clock.device)

        def made(strategy=None, width=width, layers=layers):
            model = _Chain(width, layers, clock.device)
            return _distributed(strategy, model, group, FSDPBucketingStrategy.NONE) if strategy else model

        alone = clock(_forward(made(), x))
        gathers = clock(_forward(made("zero3"), x))
        # A forward that gathers, then a backward that reduces.
        scatters = clock(_step(made("zero2"), x)) - gathers
        reduces = clock(_step(made("ddp"), x)) - alone
        for name, seconds in zip(times, (gathers, scatters, reduces), strict=True):
            times[name].append((2 * width * width, max(seconds, 1e-9) / layers))
        gc.collect()
    n = group.size()
    lines = [f"node {n} {_FABRIC}"]
    for name, points in times.items():
        passes = 2 if name == "all_reduce" else 1
        alpha, bandwidth = _line_through(points, passes * (n - 1), passes * (n - 1) / n)
        lines.append(f"fabric {_FABRIC} {name} alpha={alpha * 1e6:.4g}us bandwidth={bandwidth / 1e9:.6g}GB/s")
    return lines


def _line_through(points, steps, share):
    """(alpha, bandwidth) of seconds = steps * alpha + share * bytes / bandwidth, from two points (bytes, seconds)."""
    (few, short), (many, long) = points
    if long <= short:  # noise: the larger one decides
        return 0.0, share * many / long
    bandwidth = share * (many - few) / (long - short)
    alpha = (short - share * few / bandwidth) / steps
    return (alpha, bandwidth) if alpha >= 0 else (0.0, share * many / long)


class _Block(torch.nn.Module):
    def __init__(self, width, head):
        super().__init__()
        self.heads, self.first, self.second = width // head, torch.nn.RMSNorm(width), torch.nn.RMSNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.gate, self.up = (torch.nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


def _beside(clock, group, shape, table):
    """The lines `spread` and `contention`.

    Contention is the number with which the simulator says of these blocks what was measured: how much longer than
    alone their steps take with the three strategies together.
    """
    blocks, width, head, batch, length = shape
    x = torch.randn(batch, length, width, device=clock.device).bfloat16()

    def made(strategy=None):
        model = torch.nn.Sequential(*(_Block(width, head) for _ in range(blocks))).to(clock.device, torch.bfloat16)
        return _distributed(strategy, model, group, FSDPBucketingStrategy.BLOCK) if strategy else model

    def simulated(strategy):
        return simulate(
            made(), (x,), world=group.size(), strategy=strategy, loss=torch.sum, device=table,
            bucketing_strategy=FSDPBucketingStrategy.BLOCK,
        ).traces  # fmt: skip

    alone, number = _step(made(), x), torch.zeros(1, device=clock.device)

    def waiting():
        alone()
        distributed.all_reduce(number, group=group)

    # Alone before and behind the others, since GPUs slow down as they grow warm.
    before, waited = clock(alone), clock(waiting)
    steps = sum(clock(_step(made(strategy), x)) for strategy in _STRATEGIES)
    one = (before + clock(alone)) / 2
    lines = [f"spread {min(max(0.0, waited / one - 1), 0.9):.4g}"]
    costs = _C.CostTable.parse("\n".join([table, *lines]))
    traces = [simulated(strategy) for strategy in _STRATEGIES]
    of_one = _C.simulate(*simulated(None), costs).step

    def ratio(contention):
        beside = costs.with_lines(f"contention {contention}")
        return sum(_C.simulate(*t, beside).step for t in traces) / of_one

    return [*lines, f"contention {_root(ratio, steps / one):.4g}"]


def _root(rising, value, most=0.9):
    """Where a rising function has the value, between 0 and `most`."""
    low, high = 0.0, most
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return low


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="where the table is written; '-': the standard output")
    options = parser.parse_args()
    several = "RANK" in os.environ
    if several:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl")
    text = measure()
    if not several or distributed.get_rank() == 0:
        if options.file == "-":
            print(text, end="")
        else:
            with open(options.file, "w", encoding="utf-8") as f:
                f.write(text)
    if several:
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
