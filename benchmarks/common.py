"""What the benchmarks share: fresh processes, interleaved rounds, JSON lines.

A benchmark file is run as it is (the parent: starts a process per measurement, and prints a JSON line for each result),
or with `--child NAME`, which measures one thing in this process and prints one JSON line.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

ROUNDS = 15
COMPARE = "--compare" in sys.argv


def emit(benchmark, **values):
    """One result."""
    print(json.dumps({"benchmark": benchmark, **values}), flush=True)


def child(file, *arguments, timeout=600):
    """Runs `file` in a fresh process with one thread and empty caches; what it printed last, parsed."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": cache,
            "THUNDER_CACHE_DIR": cache,
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
            "TRITON_CACHE_DIR": cache,
        }
        done = subprocess.run(
            [sys.executable, file, "--child", *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=timeout,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def child_arguments():
    """The arguments after --child; None in the parent."""
    if "--child" not in sys.argv:
        return None
    import torch

    torch.set_num_threads(1)
    return sys.argv[sys.argv.index("--child") + 1 :]


def interleaved(functions, rounds=ROUNDS, inner=1):
    """{name: seconds of a call, one a round}: every round runs all functions, so that noise meets all alike."""
    times = {name: [] for name in functions}
    names = list(functions)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            function = functions[name]
            start = time.perf_counter()
            for _ in range(inner):
                function()
            times[name].append((time.perf_counter() - start) / inner)
    return times


def summary(times, scale=1.0):
    return {"median": statistics.median(times) * scale, "min": min(times) * scale}


def llama(layers, width, heads, vocabulary=256, block=256, name="Llama-2-7b-hf", **more):
    """A litgpt model of that many layers with random weights."""
    import litgpt_import
    import torch

    GPT, _ = litgpt_import.load()
    torch.manual_seed(0)
    sizes = dict(
        n_layer=layers,
        n_embd=width,
        n_head=heads,
        intermediate_size=width * 11 // 4,
        block_size=block,
        padded_vocab_size=vocabulary,
    )
    return GPT.from_name(name, **{**sizes, **more})


def tiny_llama(layers=22):
    """litgpt's TinyLlama at width 64."""
    return llama(layers, 64, 4, name="tiny-llama-1.1b", n_query_groups=2)


def train_step(model, batch):
    """A function: forward, loss, backward."""
    import torch

    inputs, targets = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()

    def step():
        logits = model(inputs)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))
        loss.backward()
        return loss

    return step


def compiled(peer, fn):
    if peer == "eager":
        return fn
    if peer == "torch.compile":
        import torch

        return torch.compile(fn)
    import thunder

    return thunder.jit(fn)


def reset_peak():
    """The process's peak memory becomes what it uses now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_mb():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024


def resident_mb():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024


@contextlib.contextmanager
def no_garbage_collection():
    import gc

    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
