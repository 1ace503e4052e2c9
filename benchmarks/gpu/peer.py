"""One peer's training step (or forward) of a litgpt model, measured in this process; prints one JSON line.

    python benchmarks/gpu/peer.py thunder --layers 2
    python benchmarks/gpu/peer.py torch.compile:max-autotune-no-cudagraphs
    python benchmarks/gpu/peer.py thunder:sdpa,aten --profile 20
    python benchmarks/gpu/peer.py thunder:graphs --forward

A peer is `eager`, `torch.compile[:mode]` or `thunder[:executors]`; `graphs` among the executors stands for
CUDAGraphTransform.  headline.py runs several, each in a fresh process.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "tests" / "python"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def add_options(parser):
    parser.add_argument("--model", default="tiny-llama-1.1b", help="litgpt's name of the configuration")
    parser.add_argument("--layers", type=int, default=0, help="0: as many as the model has")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--forward", action="store_true", help="the forward alone, under no_grad and without a loss")
    parser.add_argument(
        "--no-optimizer", dest="optimizer", action="store_false", help="no AdamW: its state counts in the peak"
    )
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--first-only", action="store_true", help="stop after the first step")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="the N longest kernels of one step")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--traces", default="", metavar="FOLDER", help="write Thunder's final traces and kernels there")


def build(options):
    """The module to compile and its inputs: the same weights and tokens for every peer."""
    import litgpt_import
    import torch

    GPT, Config = litgpt_import.load()
    device = torch.device(options.device)
    config = Config.from_name(options.model, **({"n_layer": options.layers} if options.layers else {}))
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, options.dtype))
    try:
        with device:
            gpt = GPT(config)
    finally:
        torch.set_default_dtype(default)
    with device:
        gpt.max_seq_length = options.seq
        gpt.cos, gpt.sin = gpt.rope_cache(device=device)  # as it is made with the usual default dtype
    numbers = torch.Generator(device=device).manual_seed(7)
    with torch.no_grad():
        for parameter in gpt.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.02, generator=numbers)
    tokens = torch.Generator(device=device).manual_seed(1)
    shape = (options.batch, options.seq)
    ids, targets = (torch.randint(0, config.vocab_size, shape, device=device, generator=tokens) for _ in range(2))
    return gpt, ids, targets


def compiled(peer, module):
    kind, _, detail = peer.partition(":")
    if kind == "eager":
        return module
    if kind == "torch.compile":
        import torch

        return torch.compile(module, mode=detail or None)
    if kind == "thunder":
        import thunder

        names = detail.split(",") if detail else []
        transforms = [thunder.transforms.CUDAGraphTransform()] if "graphs" in names else []
        executors = [name for name in names if name != "graphs"]
        return thunder.jit(module, executors=executors or None, transforms=transforms)
    raise SystemExit(f"no peer is named {peer!r}: eager, torch.compile[:mode], thunder[:executor,...,graphs]")


class Clock:
    """Times one call: on the device, on the wall until it returned, and in CPU time of all threads until then (ms)."""

    def __init__(self, device):
        import torch

        self.cuda = torch.cuda if device == "cuda" else None

    def synchronize(self):
        if self.cuda:
            self.cuda.synchronize()

    def __call__(self, call):
        self.synchronize()
        events = [self.cuda.Event(enable_timing=True) for _ in range(2)] if self.cuda else None
        if events:
            events[0].record()
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if events:
            events[1].record()
            self.synchronize()
        return {
            "ms": events[0].elapsed_time(events[1]) if events else wall * 1e3,
            "issue_wall_ms": wall * 1e3,
            "issue_cpu_ms": cpu * 1e3,
        }


def median_times(times):
    return {key: statistics.median(t[key] for t in times) for key in times[0]}


def norm_of_gradients(parameters):
    import torch

    squares = [p.grad.double().square().sum() for p in parameters if p.grad is not None]
    return float(torch.sqrt(sum(squares)))


def program_facts(run, folder):
    """What Thunder made of the model."""
    import thunder
    from thunder import _C

    stats = thunder.compile_stats(run)
    facts = {key: round(stats[key + "_seconds"], 3) for key in ("acquisition", "passes", "programs")}
    facts["milliseconds_of_passes"] = {k: round(v, 1) for k, v in stats["passes"].items() if v >= 0.05}
    if "graphs" in stats:
        facts["graphs"] = stats["graphs"]
    facts["instructions"] = len(_C.last_program(run._compiled).splitlines())
    for name, traces in (("forward", thunder.last_traces(run)), ("backward", thunder.last_backward_traces(run))):
        if not traces:
            continue
        counts = {}
        for call in traces[-1].calls:
            if call.executor:
                counts[call.executor] = counts.get(call.executor, 0) + 1
        facts[name] = counts
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{name}.py").write_text(str(traces[-1]))
    if folder:
        (Path(folder) / "kernels.txt").write_text(thunder.last_kernels(run))
    return facts


def profiled(call, clock):
    """The profiler's record of one call, and of nothing that the device had to do before."""
    from torch.profiler import ProfilerActivity, profile

    clock.synchronize()
    with profile(activities=[ProfilerActivity.CUDA if clock.cuda else ProfilerActivity.CPU]) as record:
        call()
        clock.synchronize()
    return record


def kernels(call, clock, count):
    """(total ms, launches, name) of the longest kernels of one call."""
    kind = "CUDA" if clock.cuda else "CPU"
    rows = [
        (e.self_device_time_total / 1e3 if clock.cuda else e.self_cpu_time_total / 1e3, e.count, e.key)
        for e in profiled(call, clock).key_averages()
        if e.device_type.name == kind
    ]
    return sorted(rows, reverse=True)[:count]


def step_of(run, ids, targets, options):
    """A function of no arguments: the forward, and the backward unless the options leave it out."""
    import torch

    def step():
        if options.forward:
            with torch.no_grad():
                return run(ids)
        loss = run(ids, targets)
        loss.backward()
        return loss

    return step


def measure(peer, options):
    import litgpt_import

    module, ids, targets = build(options)
    clock = Clock(options.device)
    if not options.forward:
        module = litgpt_import.with_loss(module)
    parameters = list(module.parameters())
    run = compiled(peer, module)
    step = step_of(run, ids, targets, options)
    clock.synchronize()
    start = time.perf_counter()
    first = step()
    clock.synchronize()
    result = {"peer": peer, "first_s": time.perf_counter() - start}
    if options.first_only:
        return result
    if not options.forward:
        result["loss"] = first.item()
        result["grad_norm"] = norm_of_gradients(parameters)
        result["without_grad"] = sum(p.grad is None for p in parameters)
    del first
    steady(step, clock, parameters, options, result)
    if peer.startswith("thunder"):
        result["program"] = program_facts(run, options.traces)
    if options.profile:
        result["kernels"] = kernels(step, clock, options.profile)
    return result


def steady(step, clock, parameters, options, result):
    """Steps after the first; fills in the times and the peak."""
    import torch

    optimize = not options.forward and options.optimizer
    # The state of the optimizer is made from the first gradients and stays, as in training.
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True) if optimize else None

    def clear():
        for parameter in parameters:
            parameter.grad = None

    def whole():
        step()
        optimizer.step()

    if optimizer:
        optimizer.step()
    clear()
    for _ in range(options.warm_up):
        clock(step)
        clear()
    gc.collect()
    if clock.cuda:
        clock.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(options.iterations):
        times.append(clock(step))
        clear()
    result.update(median_times(times))
    result["ms_min"] = min(t["ms"] for t in times)
    if clock.cuda:
        result["peak_gb"] = clock.cuda.max_memory_allocated() / 1e9
    if optimizer:
        times = []
        for _ in range(options.iterations):
            times.append(clock(whole))
            clear()
        result["step_ms"] = median_times(times)["ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer")
    add_options(parser)
    options = parser.parse_args()
    print(json.dumps(measure(options.peer, options)))


if __name__ == "__main__":
    main()
