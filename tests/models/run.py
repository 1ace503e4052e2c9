"""Runs Hugging Face models, unmodified, through thunder.jit and compares with eager: the table of `make models`.

    python tests/models/run.py                  all architectures
    python tests/models/run.py llama t5         some
    python tests/models/run.py --generate       greedy generation with a cache, token by token (ARGS of `make models`)

Per architecture: outputs, loss, all gradients and all buffers, on the batch that was compiled for and on another one of
the same shapes.  Each runs in a process of its own.  The exit status is the number that fail.
"""

import argparse
import copy
import json
import multiprocessing
import os
import sys
import time
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import architectures as zoo
import numpy as np
import torch
import transformers
from generation import DECODERS, check_generation

import thunder

TIMEOUT = 300
# Rounding of one float32 sum; a gradient that cancels to nothing is measured against the model's largest instead.
TOLERANCE, FLOOR = 1e-4, 1e-6


def tensors(value, path="", seen=None):
    """{path: tensor} of everything within reach of a model's result."""
    seen = set() if seen is None else seen
    if isinstance(value, torch.Tensor):
        return {path: value}
    if value is None or isinstance(value, (bool, int, float, str, type)) or id(value) in seen:
        return {}
    seen.add(id(value))
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif hasattr(value, "__dict__"):
        items = vars(value).items()
    else:
        return {}
    found = {}
    for name, item in items:
        found |= tensors(item, f"{path}.{name}", seen)
    return found


def loss_of(outputs):
    """The model's own, else a function of all that it computes."""
    if outputs.get("loss") is not None:
        return outputs["loss"]
    return sum(t.square().mean() for t in tensors(outputs).values() if t.requires_grad)


def step(function, model, batch):
    """Everything that a training step computes, by name."""
    model.zero_grad()
    torch.manual_seed(0)  # some draw masks, speech models by NumPy
    np.random.seed(0)
    outputs = function(**batch)
    loss = loss_of(outputs)
    loss.backward()
    results = {f"output{path}": t.detach() for path, t in tensors(dict(outputs)).items()}
    results |= {f"gradient of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    results |= {f"buffer {name}": b.clone() for name, b in model.named_buffers()}
    return {"loss": loss.detach(), **results}


def differences(got, want, exact=None):
    """What is missing, of another type or too far away: from `want`, and from `exact` more than twice as far as the
    tensor of `want` that is furthest from it."""
    if got.keys() != want.keys():
        return [f"only one of the two has {', '.join(sorted(got.keys() ^ want.keys())[:3])}"]
    gradients = [t.norm() for name, t in want.items() if name.startswith("gradient")]
    largest = max(gradients, default=torch.tensor(0.0)).double()
    wrong = []
    worst = max(relative(w, exact[n]) for n, w in want.items()) if exact else 0
    for name, expected in want.items():
        actual = got[name]
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            wrong.append(f"{name} is {actual.dtype} {list(actual.shape)}, not {expected.dtype} {list(expected.shape)}")
            continue
        actual, expected = actual.double(), expected.double()
        floor = FLOOR * largest if name.startswith("gradient") else 0.0
        difference = torch.where(actual == expected, 0, actual - expected).norm()  # infinities are equal to themselves
        allowed = TOLERANCE * expected.nan_to_num(0, 0, 0).norm() + floor
        if exact is not None and not difference <= allowed:
            difference = (actual - exact[name]).norm()
            allowed = 2 * worst * exact[name].norm() + floor
        if not difference <= allowed:
            wrong.append(f"{name} differs by {difference / expected.norm():.1e} of its norm")
    return wrong


def relative(got, exact):
    return (got.double() - exact).norm() / exact.double().norm().clamp(min=1e-30)


def compared(got, want, exact=None):
    wrong = []
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        found = differences(g, w, exact[i] if exact else None)
        wrong += [f"another batch: {difference}" for difference in found] if i else found
    return wrong


def in_double(model, batches):
    """Eager's steps in float64; None for a model that has a type of its own."""
    exact = copy.deepcopy(model).double()
    try:
        return [step(exact, exact, {k: in_double_if_real(v) for k, v in batch.items()}) for batch in batches]
    except RuntimeError:
        return None


def in_double_if_real(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def milliseconds(function, rounds=5):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def check(name):
    model = zoo.build(name)
    eager = copy.deepcopy(model)
    batches = [zoo.inputs(name, model.config, seed) for seed in (1, 2, 3)]
    row = {"parameters": sum(p.numel() for p in model.parameters())}
    want = [step(eager, eager, batch) for batch in batches]
    row["eager ms"] = milliseconds(lambda: step(eager, eager, batches[0]))
    compiled = thunder.jit(model)
    start = time.perf_counter()
    got = [step(compiled, model, batches[0])]
    row["first step s"] = time.perf_counter() - start
    got.append(step(compiled, model, batches[1]))
    # The first run may leave attributes in modules (hooks, tables); the second one should find all as it is.
    row["compilations"] = thunder.cache_misses(compiled)
    got.append(step(compiled, model, batches[2]))
    wrong = compared(got, want)
    if wrong and (exact := in_double(eager, batches)):
        wrong = compared(got, want, exact)
    if thunder.cache_misses(compiled) != row["compilations"]:
        wrong.append(f"compiled anew for equal shapes: {thunder.explain_miss(compiled)}")
    if wrong:
        row["failure"] = wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
    else:
        row["ms"] = milliseconds(lambda: step(compiled, model, batches[0]))
    return row


def _child(check_one, name, results):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", "(?s).*runs by eager PyTorch")  # which would be compared with itself
    transformers.logging.set_verbosity_error()
    try:
        row = check_one(name)
    except Exception as e:  # the table has a line for whatever went wrong
        where = next((line for line in str(e).splitlines()[1:] if line.strip().startswith("at ")), "")
        row = {"failure": f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}", "where": where.strip()}
        if os.environ.get("THUNDER_MODELS_TRACEBACK"):
            import traceback

            traceback.print_exc()
    results.send(json.dumps(row))


def in_a_process(check_one, name):
    context = multiprocessing.get_context("fork")  # what was imported stays imported
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(check_one, name, sender))
    process.start()
    sender.close()
    try:
        row = json.loads(receiver.recv()) if receiver.poll(TIMEOUT) else {"failure": f"no result in {TIMEOUT} s"}
    except EOFError:
        process.join()
        row = {"failure": f"the process ended with {process.exitcode}"}
    if process.is_alive() and "failure" in row:
        process.terminate()
    process.join()
    return row


def show(row, column):
    value = row.get(column, "")
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def table(check_one, names, columns):
    """Prints a line per name; the number that fail."""
    width = max(map(len, names))
    print(f"{'architecture':{width}}", *(f"{c:>13}" for c in columns), " result")
    failures = 0
    for name in names:
        row = in_a_process(check_one, name)
        failed = "failure" in row
        failures += failed
        result = f"{row['failure']} {row.get('where', '')}".rstrip() if failed else "ok"
        print(f"{name:{width}}", *(f"{show(row, c):>13}" for c in columns), f" {result}", flush=True)
    print(f"{len(names) - failures} of {len(names)} agree with eager")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="architectures; all if none are given")
    parser.add_argument("--generate", action="store_true", help="generation only")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(zoo.ARCHITECTURES)
    if unknown:
        parser.error(f"no such architecture: {', '.join(sorted(unknown))}")
    failures = 0
    if not arguments.generate:
        names = arguments.names or list(zoo.ARCHITECTURES)
        failures += table(check, names, ["parameters", "eager ms", "first step s", "ms", "compilations"])
    decoders = [n for n in arguments.names if n in DECODERS] if arguments.names else DECODERS
    if decoders:
        print("\nGreedy generation with a cache:")
        failures += table(check_generation, decoders, ["eager s", "s", "compilations"])
    sys.exit(min(failures, 125))


if __name__ == "__main__":
    main()
