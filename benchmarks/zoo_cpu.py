"""Training steps of small models of many families on the CPU: Thunder beside eager and torch.compile.

    python benchmarks/zoo_cpu.py [--models lstm,bert] [--threads 1,2] [--between nothing,adamw] [--rounds 6]

Each peer of a model is a process of its own; the processes run in turns, so that noise meets all alike.  A step is
forward, loss and backward; gradients are None before it.  Between two steps a process does, and does not count:

    nothing      the next step comes at once
    adamw        the optimizer's step
    evaluation   another module under no_grad
    training     a step of another module by eager

A cell is the median and the least of a peer's steps in ms; `ratio` is Thunder over the better of the other two, by
median, by least, and by the least of the processor's time, which a busy machine disturbs less.  `distance` is
|gradients - those in float64| / |those in float64| over all parameters, the largest of a first and a second step.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import nn
from zoo_cpu_models import MODELS

PEERS = "eager", "torch.compile", "thunder"
BETWEEN = "nothing", "adamw", "evaluation", "training"
STEPS = 5  # of a turn


class Peer:
    """A model under one peer, in its process."""

    def __init__(self, model, peer, threads):
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.module, self.batch, self.loss = MODELS[model]()
        self.parameters = list(self.module.parameters())
        self.run = self.compiled(peer)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-6)
        self.other = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2), nn.Flatten(2),
            nn.Linear(225, 512), nn.LayerNorm(512), nn.GELU(), nn.Linear(512, 512),
        )  # fmt: skip
        self.images = torch.randn(16, 3, 32, 32)

    def compiled(self, peer):
        if peer == "eager":
            return self.module
        if peer == "torch.compile":
            return torch.compile(self.module)
        import thunder

        return thunder.jit(self.module)

    def step(self):
        self.loss(self.run(*self.batch)).backward()

    def clear(self):
        for parameter in self.parameters:
            parameter.grad = None

    def adamw(self):
        self.optimizer.step()

    def evaluation(self):
        with torch.no_grad():
            self.other(self.images)

    def training(self):
        self.other(self.images).square().mean().backward()

    def nothing(self):
        pass

    def first(self):
        """Compiles, and compares the gradients with those of the same model in float64."""
        start = time.perf_counter()
        self.step()
        seconds = time.perf_counter() - start
        distance = self.distance()
        self.clear()
        self.step()
        distance = max(distance, self.distance())
        self.clear()
        return {"first_s": seconds, "distance": distance}

    def distance(self):
        from copy import deepcopy

        exact = deepcopy(self.module).double()
        for p in exact.parameters():
            p.grad = None
        batch = [t.double() if t.is_floating_point() else t for t in self.batch]
        self.loss(exact(*batch)).backward()
        wrong = total = 0.0
        for got, wanted in zip(self.parameters, exact.parameters(), strict=True):
            if (got.grad is None) != (wanted.grad is None):
                raise RuntimeError("a parameter has a gradient in one of eager and this peer only")
            if got.grad is not None:
                total += wanted.grad.square().sum().item()
                wrong += (got.grad.double() - wanted.grad).square().sum().item()
        return math.sqrt(wrong / total) if total else math.sqrt(wrong)

    def turn(self, between):
        """Milliseconds of some steps, and of the processor in them."""
        work, times, busy = getattr(self, between), [], []
        for i in range(STEPS + 1):
            work()
            self.clear()
            start, cpu = time.perf_counter(), time.process_time()
            self.step()
            if i:  # what ran before the first step was another process
                times.append((time.perf_counter() - start) * 1e3)
                busy.append((time.process_time() - cpu) * 1e3)
            if work.__func__ is not Peer.adamw:
                self.clear()
        return {"ms": times, "cpu_ms": busy}


def serve(connection, model, peer, threads):
    try:
        one = Peer(model, peer, threads)
        while True:
            what, *arguments = connection.recv()
            connection.send(getattr(one, what)(*arguments))
    except EOFError:
        pass
    except Exception as e:  # the row says what went wrong
        traceback.print_exc()
        connection.send({"failed": f"{type(e).__name__}: {(str(e).splitlines() or [''])[0][:80]}"})


class Child:
    def __init__(self, model, peer, threads):
        context = multiprocessing.get_context("fork")  # PyTorch stays imported
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, model, peer, threads), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, *what):
        self.connection.send(what)
        return self.connection.recv()

    def close(self):
        self.process.kill()  # its siblings hold this end of the connection, too, so it would wait for ever
        self.process.join()


def measure(model, threads, options):
    """{peer: {"first_s", "distance", "turns": {between: (ms, cpu ms)}} or {"failed"}}"""
    children = {peer: Child(model, peer, threads) for peer in options.peers}
    found = {peer: child.call("first") for peer, child in children.items()}
    alive = {peer: child for peer, child in children.items() if "failed" not in found[peer]}
    turns = {peer: {b: {"ms": [], "cpu_ms": []} for b in options.between} for peer in alive}
    for i in range(options.rounds):
        names = list(alive)
        for b in options.between:
            for peer in names[i % len(names) :] + names[: i % len(names)]:
                for key, values in alive[peer].call("turn", b).items():
                    turns[peer][b][key] += values
    for child in alive.values():
        child.close()
    return {peer: {**found[peer], "turns": turns.get(peer)} for peer in found}


def row(model, threads, between, found):
    """One line of the table."""
    medians, least, cpu = {}, {}, {}
    cells = [f"{model:8}", f"{threads:7}", f"{between:10}"]
    for peer, result in found.items():
        if "failed" in result:
            cells.append(f"{result['failed']:>16}"[:16])
            continue
        ms = result["turns"][between]["ms"]
        medians[peer], least[peer] = statistics.median(ms), min(ms)
        cpu[peer] = min(result["turns"][between]["cpu_ms"])
        cells.append(f"{medians[peer]:8.2f} {least[peer]:7.2f}")
    others = [p for p in medians if p != "thunder"]
    ratio = None
    if "thunder" in medians and others:
        ratio = [of["thunder"] / min(of[p] for p in others) for of in (medians, least, cpu)]
        cells.append(" ".join(f"{r:.3f}" for r in ratio))
    cells.append("  ".join(f"{r['distance']:.1e}" for r in found.values() if "distance" in r))
    cells.append("  ".join(f"{r['first_s']:.1f}" for r in found.values() if "first_s" in r))
    return " | ".join(cells), ratio


def main():
    parser = argparse.ArgumentParser()
    listed = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("--models", type=listed, default=list(MODELS))
    parser.add_argument("--peers", type=listed, default=list(PEERS))
    parser.add_argument("--threads", type=lambda text: list(map(int, text.split(","))), default=[1, 2])
    parser.add_argument("--between", type=listed, default=list(BETWEEN))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--append", help="a file that gets a JSON line for each model and number of threads")
    options = parser.parse_args()
    head = [f"{'model':8}", "threads", f"{'between':10}", *(f"{p:>16}" for p in options.peers)]
    print(" | ".join([*head, "      ratio      ", "distances", "first steps, s"]), flush=True)
    ratios = []
    for model in options.models:
        for threads in options.threads:
            found = measure(model, threads, options)
            if options.append:
                with open(options.append, "a") as f:
                    print(json.dumps({"model": model, "threads": threads, "peers": found}), file=f)
            for between in options.between:
                text, ratio = row(model, threads, between, found)
                ratios.append(ratio or [2.0, 2.0, 2.0])
                print(text, flush=True)
    mean = [statistics.geometric_mean(r) for r in zip(*ratios, strict=True)]
    print(f"{len(ratios)} rows; geometric mean of the ratios: {mean[0]:.3f} by median, {mean[1]:.3f} by least, "
          f"{mean[2]:.3f} by the processor's time")


if __name__ == "__main__":
    main()
