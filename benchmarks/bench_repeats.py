"""How the first call of a program grows with the number of times that it repeats an operator: seconds, cold caches.

    python benchmarks/bench_repeats.py --steps 25 50 100 200
    python benchmarks/bench_repeats.py --only gru_stack cat_of_parts

JSON lines: the program, its steps, the seconds of the first call, of acquisition and of the passes in it.
"""

import argparse
import json
import os
import tempfile
import time

import torch

import thunder


def gru_stack(n):
    cell = torch.nn.GRUCell(8, 8)

    def program(x):
        h, out = torch.zeros(4, 8), []
        for step in x:
            h = cell(step, h)
            out.append(h * 2)
        return torch.stack(out)

    return program, torch.randn(n, 4, 8)


def lstm_cat(n):
    cell = torch.nn.LSTMCell(8, 8)

    def program(x):
        h, c, out = torch.zeros(4, 8), torch.zeros(4, 8), []
        for step in x:
            h, c = cell(step, (h, c))
            out.append(h)
        return torch.cat(out).sum()

    return program, torch.randn(n, 4, 8)


def cat_of_parts(n):
    return lambda x: torch.cat([part.sin() * 2 for part in x]), torch.randn(n, 4, 8)


def growing_cat(n):
    def program(x):
        y = x[0]
        for part in x[1:]:
            y = torch.cat([y, part * 2])
        return y + 1

    return program, torch.randn(n, 4, 8)


def chain(n):
    def program(x):
        y = x[0]
        for i in range(len(x)):
            y = torch.tanh(y * 1.1 + i)
        return y

    return program, torch.randn(n, 64)


def outputs(n):
    return lambda x: [part.exp() * 2 + i for i, part in enumerate(x)], torch.randn(n, 64)


def parameters(n):
    layers = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(n)])
    return lambda x: layers(x).sum(), torch.randn(4, 8)


def sums(n):
    return lambda x: [(part.exp() * part).sum(-1) for part in x], torch.randn(n, 8, 64)


def written_slices(n):
    def program(x):
        y = torch.zeros_like(x)
        for i in range(len(x)):
            y[i] = x[i].exp() * 2
        return y

    return program, torch.randn(n, 64)


PROGRAMS = (gru_stack, lstm_cat, cat_of_parts, growing_cat, chain, outputs, parameters, sums, written_slices)


def main():
    names = [f.__name__ for f in PROGRAMS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[25, 50, 100])
    parser.add_argument("--only", nargs="+", default=names, choices=names)
    args = parser.parse_args()
    os.environ["THUNDER_CACHE_DIR"] = tempfile.mkdtemp()
    thunder.jit(lambda x: x + 1)(torch.ones(2))  # what a process does once
    for make in PROGRAMS:
        for n in args.steps if make.__name__ in args.only else ():
            program, x = make(n)
            f = thunder.jit(program)
            start = time.perf_counter()
            f(x)
            row = {"program": make.__name__, "steps": n, "seconds": round(time.perf_counter() - start, 3)}
            stats = thunder.compile_stats(f)
            row |= {key: round(stats[key + "_seconds"], 3) for key in ("acquisition", "passes")}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
