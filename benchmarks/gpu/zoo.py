"""Training steps of many models on one GPU: Thunder beside eager and torch.compile, the peers interleaved.

    python benchmarks/gpu/zoo.py --models llama-1b,gpt2 --append zoo.jsonl
    python benchmarks/gpu/zoo.py --list
    python benchmarks/gpu/zoo.py --table zoo.jsonl
    python benchmarks/gpu/zoo.py --models bert --profile 15
    python benchmarks/gpu/zoo.py --models timm:densenet121,causal:opt,masked:roberta   any model of these libraries

Each peer of a model is a process of its own with empty caches.  The first steps come first, Thunder's and eager's one
by one, torch.compile's side by side.  Then the peers of a model run in turns, three repetitions each, and nothing else
runs on the GPU meanwhile.  A step is forward, loss and backward; gradients are None before it.

    ms           CUDA events, the median of three repetitions' medians; `least`: the shortest step of all
    ratio        thunder over the better of eager and torch.compile, by median and by least
    spread       (largest - smallest) / median of Thunder's three repetitions
    peak GB      torch.cuda.max_memory_allocated in the steps after the first
    first s      the first step, until its gradients are there
    issue ms     until the step's Python code returns, nothing synchronised
    distance     |gradients - those in float32| / |those in float32|, over all parameters; `-` where numbers are random
    floor        floating point operations of products, convolutions and attention at 790 TFLOP/s
"""

import argparse
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
from headline import table, with_caches

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "python")]

PEERS = "eager,torch.compile,thunder"
REPETITIONS = 3
TOGETHER = 6  # first steps of torch.compile side by side, as memory allows
MODELS = 6  # whose processes are there at a time: a process holds a gigabyte of the GPU before its model does
TFLOPS = 790


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() or "unknown"


# ---- one peer, in its process ----------------------------------------------------------------------------------------


class Peer:
    """A model under one peer; the parent says what to do next."""

    def __init__(self, name, peer, options, lock):
        import torch
        import zoo_models

        self.torch, self.peer, self.lock = torch, peer, lock
        self.device = torch.device(options.device)
        torch.manual_seed(0)
        with self.device:
            self.case = zoo_models.case(name, options.small)
        self.case.module.to(self.device).train()  # parameters that torch.Tensor(n) made are elsewhere
        self.parameters = list(self.case.module.parameters())
        self.run = self.compiled()

    def compiled(self):
        kind, _, detail = self.peer.partition(":")
        if kind == "eager":
            return self.case.module
        if kind == "torch.compile":
            return self.torch.compile(self.case.module, mode=detail or None)
        if kind == "thunder":
            import thunder

            return thunder.jit(self.case.module)
        raise SystemExit(f"no peer is named {self.peer!r}: eager, torch.compile[:mode], thunder")

    def step(self):
        with self.torch.autocast(self.device.type, self.torch.bfloat16, enabled=self.case.autocast):
            loss = self.case.loss(self.run(**self.case.batch))
        loss.backward()
        return loss.detach()

    def clear(self):
        for parameter in self.parameters:
            parameter.grad = None

    def synchronize(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def first(self):
        """The first step; its loss and gradients beside those of the same model in float32."""
        np.random.seed(0)  # by which speech models choose what they mask
        self.synchronize()
        start = time.perf_counter()
        loss = self.step()
        self.synchronize()
        result = {"first_s": time.perf_counter() - start, "loss": loss.item(), "loss_dtype": str(loss.dtype)}
        with self.lock:
            if not self.is_random():
                result |= self.distances_if_they_fit(loss)
            self.clear()
            if self.device.type == "cuda":
                self.torch.cuda.empty_cache()
        return result

    def is_random(self):
        return any(
            isinstance(m, self.torch.nn.modules.dropout._DropoutNd) and m.p > 0 for m in self.case.module.modules()
        )

    def distances_if_they_fit(self, loss):
        """Eager's attention in float32 may keep more than the GPU has."""
        try:
            return self.distances(loss)
        except self.torch.OutOfMemoryError:
            return {"distance_failed": "out of memory in float32"}

    def distances(self, loss):
        from copy import deepcopy

        from torch.utils.flop_counter import FlopCounterMode

        gradients = [p.grad for p in self.parameters]
        self.clear()
        module = deepcopy(self.case.module).float()
        batch = {k: v.float() if v.is_floating_point() else v for k, v in self.case.batch.items()}
        np.random.seed(0)
        # Eager alone has nothing compiled that a mode around the step would have to compile anew.
        with FlopCounterMode(display=False) as counter:
            exact = self.case.loss(module(**batch))
            exact.backward()
        wrong = total = 0.0
        for got, parameter in zip(gradients, module.parameters(), strict=True):
            if (got is None) != (parameter.grad is None):
                raise RuntimeError("a parameter has a gradient in one of eager and this peer only")
            if got is not None:
                total += parameter.grad.double().square().sum().item()
                wrong += (got.double() - parameter.grad.double()).square().sum().item()
        return {
            "distance": math.sqrt(wrong / total) if total else math.sqrt(wrong),
            "loss_distance": abs(loss.item() - exact.item()) / max(abs(exact.item()), 1e-30),
            "floor_ms": counter.get_total_flops() / TFLOPS / 1e9,
        }

    def repeat(self, seconds):
        """Steps for about so long, after two that are not counted."""
        cuda = self.torch.cuda if self.device.type == "cuda" else None
        if cuda:
            cuda.reset_peak_memory_stats()  # before a CUDA graph is recorded, whose memory counts as free afterwards
        for _ in range(2):
            self.step()
            self.clear()
        times, issue, begin = [], [], time.perf_counter()
        while len(times) < 5 or (time.perf_counter() - begin < seconds and len(times) < 50):
            self.synchronize()
            events = [cuda.Event(enable_timing=True) for _ in range(2)] if cuda else None
            if events:
                events[0].record()
            start = time.perf_counter()
            self.step()
            issue.append((time.perf_counter() - start) * 1e3)
            if events:
                events[1].record()
            self.synchronize()
            times.append(events[0].elapsed_time(events[1]) if events else issue[-1])
            self.clear()
        peak = cuda.max_memory_allocated() / 1e9 if cuda else None
        return {"ms": times, "issue_ms": statistics.median(issue), "peak_gb": peak}

    def profile(self, count):
        """(total ms, launches, name) of the longest kernels of one step."""
        from torch.profiler import ProfilerActivity, profile

        self.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as record:
            self.step()
            self.synchronize()
        self.clear()
        rows = [
            (e.self_device_time_total / 1e3, e.count, e.key)
            for e in record.key_averages()
            if e.device_type.name == "CUDA"
        ]
        return {"kernels": sorted(rows, reverse=True)[:count], "busy_ms": sum(row[0] for row in rows)}

    def traces(self, folder):
        """Writes what Thunder made of the model."""
        if not self.peer.startswith("thunder"):
            return {}
        import thunder

        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, found in (
            ("forward", thunder.last_traces(self.run)),
            ("backward", thunder.last_backward_traces(self.run)),
        ):
            if found:
                (Path(folder) / f"{name}.py").write_text(str(found[-1]))
        (Path(folder) / "kernels.txt").write_text(thunder.last_kernels(self.run))
        return {}


def serve(connection, make, name, peer, options, lock):
    """The process of a peer: what the parent asks for, one after the other, until it closes."""
    with tempfile.TemporaryDirectory() as caches:
        os.environ.update(with_caches(caches))
        try:
            one = make(name, peer, options, lock)
            connection.send({})
            while True:
                what, *arguments = connection.recv()
                connection.send(getattr(one, what)(*arguments))
        except EOFError:
            pass
        except Exception as e:  # the table has a line for whatever went wrong
            text = f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}"
            connection.send({"failed": text, "traceback": traceback.format_exc()})


# ---- the parent ------------------------------------------------------------------------------------------------------


class Child:
    """A peer's process, as the parent sees it."""

    def __init__(self, name, peer, options, lock, make=Peer):
        context = multiprocessing.get_context("fork")  # what was imported stays imported
        self.connection, theirs = context.Pipe()
        self.name, self.peer, self.failed, self.timeout = name, peer, None, options.timeout
        self.process = context.Process(target=serve, args=(theirs, make, name, peer, options, lock), daemon=True)
        self.process.start()
        theirs.close()
        self.waits = True

    def ask(self, *what):
        if not self.failed:
            self.connection.send(what)
            self.waits = True

    def answer(self):
        """What the process said, an empty dict once it has failed."""
        if self.failed or not self.waits:
            return {}
        self.waits = False
        try:
            found = (
                self.connection.recv()
                if self.connection.poll(self.timeout)
                else {"failed": f"nothing in {self.timeout} s"}
            )
        except EOFError:
            found = {"failed": "the process ended"}
        if "failed" in found:
            self.failed = found["failed"]
            print(f"{self.name}, {self.peer}: {found.get('traceback', self.failed)}", file=sys.stderr, flush=True)
            self.close()
            return {}
        return found

    def call(self, *what):
        self.ask(*what)
        return self.answer()

    def close(self):
        self.connection.close()
        self.process.join(0.2)
        self.process.kill()
        self.process.join()


def first_steps(groups):
    """The first steps: side by side where they take long on the host, else one by one."""
    results = {}
    together = [c for group in groups for c in group if c.peer.startswith("torch.compile")]
    for child in (c for group in groups for c in group if c not in together):
        results[child] = child.call("first")
    for i in range(0, len(together), TOGETHER):
        for child in together[i : i + TOGETHER]:
            child.ask("first")
        for child in together[i : i + TOGETHER]:
            results[child] = child.answer()
    return results


def repetitions(group, seconds):
    """Every peer's steps, in turns."""
    rounds = {child: [] for child in group}
    for i in range(REPETITIONS):
        for child in group[i % len(group) :] + group[: i % len(group)]:
            if found := child.call("repeat", seconds):
                rounds[child].append(found)
    return rounds


def summary(rounds):
    medians = [statistics.median(r["ms"]) for r in rounds]
    middle = statistics.median(medians)
    return {
        "ms": middle,
        "least": min(min(r["ms"]) for r in rounds),
        "spread": (max(medians) - min(medians)) / middle,
        "issue_ms": statistics.median(r["issue_ms"] for r in rounds),
        "peak_gb": max((r["peak_gb"] for r in rounds if r["peak_gb"] is not None), default=None),
    }


def measure(names, options):
    """{a model's record} for each name, in the order in which they are done."""
    for i in range(0, len(names), MODELS):
        yield from measure_together(names[i : i + MODELS], options)


def measure_together(names, options):
    lock = multiprocessing.get_context("fork").Lock()
    groups = [[Child(name, peer, options, lock) for peer in options.peers.split(",")] for name in names]
    for child in (c for group in groups for c in group):
        child.answer()
    first = first_steps(groups)
    for name, group in zip(names, groups, strict=True):
        rounds = repetitions(group, options.seconds)
        record = {"model": name, "peers": {}, **machine(options)}
        for child in group:
            if not child.failed:
                record["peers"][child.peer] = first[child] | summary(rounds[child])
                if options.profile:
                    record["peers"][child.peer] |= child.call("profile", options.profile)
                if options.traces:
                    child.call("traces", os.path.join(options.traces, name))
            if child.failed:
                record["peers"][child.peer] = {"failed": child.failed}
            else:
                child.close()
        yield record


def machine(options):
    import torch

    properties = options.device
    if options.device == "cuda":
        properties = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True
        ).stdout.splitlines()[0]
    return {"device": properties, "torch": torch.__version__, "commit": commit(), "small": options.small}


def show_kernels(record):
    for peer, result in record["peers"].items():
        if "kernels" not in result:
            continue
        print(f"{record['model']}, {peer}: {result['busy_ms']:.2f} ms of kernels in one step; the longest")
        for milliseconds, count, name in result["kernels"]:
            print(f"  {milliseconds:9.3f} ms  x{count:<5} {name[:110]}")
    sys.stdout.flush()


# ---- the table -------------------------------------------------------------------------------------------------------


def row_of(record):
    """A record as a line: what each peer gave, and Thunder beside the better of the others."""
    row = {"model": record["model"], "device": record["device"], "commit": record["commit"]}
    short = {"eager": "eager", "torch.compile": "compile", "thunder": "thunder"}
    for peer, result in record["peers"].items():
        for key, value in result.items():
            row[f"{short.get(peer, peer)} {key}"] = value
    others = [r for p, r in record["peers"].items() if p != "thunder" and "ms" in r]
    ours = record["peers"].get("thunder", {})
    if "ms" in ours and others:
        row["ratio"] = ours["ms"] / min(r["ms"] for r in others)
        row["ratio least"] = ours["least"] / min(r["least"] for r in others)
    elif others:
        row["ratio"] = row["ratio least"] = 2.0
        row["model"] += f" ({ours.get('failed', 'not run')[:60]})"
    return row


COLUMNS = (
    ("eager", "eager ms", ".1f"),
    ("compile", "compile ms", ".1f"),
    ("thunder", "thunder ms", ".1f"),
    ("ratio", "ratio", ".3f"),
    ("by least", "ratio least", ".3f"),
    ("spread", "thunder spread", ".3f"),
    ("floor", "thunder floor_ms", ".1f"),
    ("GB: eager", "eager peak_gb", ".2f"),
    ("compile", "compile peak_gb", ".2f"),
    ("thunder", "thunder peak_gb", ".2f"),
    ("first s: compile", "compile first_s", ".1f"),
    ("thunder", "thunder first_s", ".1f"),
    ("issue ms: compile", "compile issue_ms", ".1f"),
    ("thunder", "thunder issue_ms", ".1f"),
    ("distance: eager", "eager distance", ".1e"),
    ("compile", "compile distance", ".1e"),
    ("thunder", "thunder distance", ".1e"),
    ("commit", "commit", "s"),
)


def show_table(records):
    latest = {(r["device"], r["model"]): r for r in records}  # a later run of a model replaces an earlier one
    for device in sorted({device for device, _ in latest}):
        rows = [row_of(r) for (d, _), r in latest.items() if d == device]
        print(f"{device}; forward, loss and backward; ms and GB")
        print(table(rows, COLUMNS, first="model"))
        ratios = [row["ratio"] for row in rows if "ratio" in row]
        if ratios:
            print(f"{len(ratios)} models, geometric mean of the ratios {statistics.geometric_mean(ratios):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names, separated by commas; also timm:NAME, causal:TYPE and masked:TYPE")
    parser.add_argument("--list", action="store_true", help="the models, a line each")
    parser.add_argument("--peers", default=PEERS, help="also torch.compile:MODE")
    parser.add_argument("--append", metavar="FILE", help="adds a JSON line a model")
    parser.add_argument("--table", metavar="FILE", help="prints what was appended")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one repetition, about (1)")
    parser.add_argument("--timeout", type=int, default=90, help="seconds for one answer of a process")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="the N longest kernels of one step")
    parser.add_argument("--traces", default="", metavar="FOLDER", help="write Thunder's final traces and kernels there")
    parser.add_argument("--small", action="store_true", help="few layers, small batches: whether a model runs")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    if options.table:
        return show_table([json.loads(line) for line in Path(options.table).read_text().splitlines()])
    os.environ["HF_HUB_OFFLINE"] = "1"
    import zoo_models  # PyTorch, before the processes fork; nothing may touch the GPU before

    if options.list or not options.models:
        print("\n".join(f"{name:16} {text}" for name, (_, text) in zoo_models.MODELS.items()))
        return None
    records = []
    for record in measure(options.models.split(","), options):
        records.append(record)
        show_kernels(record)
        if options.append:
            with open(options.append, "a") as file:
                file.write(json.dumps(record) + "\n")
    show_table(records)
    return sum("failed" in r["peers"].get("thunder", {}) for r in records)


if __name__ == "__main__":
    sys.exit(main())
