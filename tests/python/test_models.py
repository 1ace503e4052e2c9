"""Hugging Face models, unmodified, with labels and losses: several shapes, autocast, three training steps.

What a step computes is compared with eager's by eager's own error, which float64 tells.  `make test-all` takes every
architecture of tests/models, `make test` two, where transformers is installed (`make models` installs it).
"""

import contextlib
import copy
import os
import pathlib
import sys

import numpy as np
import pytest
import torch
from devices import DEVICE

import thunder

pytest.importorskip("transformers", reason="the models are those of transformers, which `make models` installs")
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "models"))

import architectures as zoo
from run import loss_of, tensors

NAMES = list(zoo.ARCHITECTURES) if os.environ.get("THUNDER_ALL_SAMPLES") else ["llama", "bert"]
SHAPES = [(4, 64), (2, 128), (1, 64), (3, 17), (1, 1)]
# Beyond twice eager's error: a few roundings, of what is compared and of the largest gradient.
ROUNDOFF = {"float32": 2e-6, "bfloat16": 8e-3}
FLOOR = {"float32": 1e-6, "bfloat16": 2e-3}
# An error of eager's by which the two do not compute the same: random masks differ in float64, a token goes to another
# expert.  Then ours is compared with eager's.
MOST = {"float32": 1e-2, "bfloat16": 0.2}

everywhere = pytest.mark.parametrize("name", NAMES)


def moved(batch, dtype=None):
    """On the device; floating tensors in `dtype`, if one is given."""
    return {
        k: v.to(DEVICE, dtype if dtype and v.is_floating_point() else v.dtype) if isinstance(v, torch.Tensor) else v
        for k, v in batch.items()
    }


def step(function, model, batch, context=contextlib.nullcontext):
    """All that a forward and a backward compute, by name."""
    model.zero_grad()
    torch.manual_seed(0)  # some draw masks, speech models by NumPy
    np.random.seed(0)
    with context():
        outputs = function(**batch)
        loss = loss_of(outputs)
    loss.backward()
    results = {f"output{path}": t.detach().clone() for path, t in tensors(dict(outputs)).items()}
    results |= {f"gradient of {n}": p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    results |= {f"buffer {n}": b.clone() for n, b in model.named_buffers()}
    return {"loss": loss.detach(), **results}


def three_steps(function, model, batches):
    """The losses, and the parameters in the end."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    results = {}
    for i, batch in enumerate(batches):
        results |= {f"step {i} {k}": v for k, v in step(function, model, batch).items() if k == "loss"}
        optimizer.step()
    return results | {f"parameter {n}": p.detach().clone() for n, p in model.named_parameters()}


def distance(a, b, finite):
    return (a.double() - b.double())[finite].norm().item()


def wrong(name, ours, eager, exact, largest, kind):
    """What is wrong with one of the results; empty if nothing."""
    if (ours.dtype, ours.shape) != (eager.dtype, eager.shape):
        return f"{name} is {ours.dtype} {list(ours.shape)}, eager's {eager.dtype} {list(eager.shape)}"
    if not eager.is_floating_point():
        return "" if torch.equal(ours, eager) else f"{name} differs"
    finite = eager.isfinite()
    if not torch.equal(ours.nan_to_num()[~finite], eager.nan_to_num()[~finite]) or not torch.equal(
        ours.isfinite(), finite
    ):
        return f"{name} is not finite elsewhere than eager's"
    norm = eager[finite].double().norm().item()
    of_eager = distance(eager, exact, finite) if exact is not None and exact.shape == eager.shape else float("inf")
    floor = FLOOR[kind] * largest if name.startswith("gradient") else 0.0
    if of_eager <= MOST[kind] * norm + floor:
        error, allowed = distance(ours, exact, finite), 2 * of_eager
    else:
        error, allowed = distance(ours, eager, finite), 100 * ROUNDOFF[kind] * norm
    allowed += ROUNDOFF[kind] * norm + floor
    return "" if error <= allowed else f"{name}: error {error:.2e}, allowed {allowed:.2e}, norm {norm:.2e}"


def compare(ours, eager, exact, kind="float32"):
    assert ours.keys() == eager.keys(), ours.keys() ^ eager.keys()
    gradients = [t.norm().item() for n, t in eager.items() if n.startswith("gradient")]
    largest = max([g for g in gradients if g == g], default=0.0)
    found = [wrong(n, ours[n], eager[n], exact.get(n), largest, kind) for n in eager]
    found = [f for f in found if f]
    assert not found, f"{len(found)} of {len(eager)} results: " + "; ".join(found[:4])


def in_float64(run, model, *batches):
    """What `run` gives with the model in float64; nothing where the model cannot be."""
    try:
        return run(model.double(), *[moved(b, torch.float64) for b in batches])
    except RuntimeError:
        return {}


def check(name, run, *sizes, kind="float32"):
    """`run`: a function of what is called, the model, and batches."""
    model = zoo.build(name, positions=zoo.POSITIONS).to(DEVICE)
    batches = [moved(zoo.inputs(name, model.config, seed, *size)) for seed, size in enumerate(sizes, 1)]
    eager, exact = copy.deepcopy(model), copy.deepcopy(model)
    try:
        want = run(eager, eager, *batches)
    except Exception as error:
        pytest.skip(f"eager does not take it: {type(error).__name__}: {str(error)[:100]}")
    got = run(thunder.jit(model), model, *batches)
    compare(got, want, in_float64(lambda m, *b: run(m, m, *b), exact, *batches), kind)


@everywhere
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s[0]}x{s[1]}")
def test_shapes(name, shape):
    if not zoo.takes_any_length(name) and shape not in ((4, 64), (1, 1)):
        pytest.skip("its inputs have no length, and these batches were compared")
    check(name, step, shape)


@everywhere
def test_autocast(name):
    def run(function, model, batch):
        wide = any(p.dtype == torch.float64 for p in model.parameters())
        return step(function, model, batch,
                    contextlib.nullcontext if wide else lambda: torch.autocast(DEVICE, torch.bfloat16))

    check(name, run, (2, 16), kind="bfloat16")


@everywhere
def test_three_training_steps(name):
    check(name, lambda function, model, *batches: three_steps(function, model, batches), *[(2, 16)] * 3)


@everywhere
def test_single_operators_as_kernels(name, monkeypatch):
    monkeypatch.setenv("THUNDER_FUSE_SINGLE", "1")
    check(name, step, (2, 16))
