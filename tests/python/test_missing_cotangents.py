"""Outputs beside a loss: autograd gives them no cotangent, and kernels read no memory in its place."""

import copy
import itertools

import pytest
import torch
from devices import DEVICE
from torch import nn

import thunder

SIZES = [(8, 16, 32), (5, 7, 13), (1, 3, 1)]  # batch, features, classes


class Classifier(nn.Module):
    """Returns its loss with its scores and what it computes them from, as libraries' models do."""

    def __init__(self, features, classes):
        super().__init__()
        self.hidden = nn.Linear(features, features)
        self.scores = nn.Linear(features, classes)

    def forward(self, x, labels):
        hidden = torch.tanh(self.hidden(x)) * 2
        scores = self.scores(hidden)
        return nn.functional.cross_entropy(scores.float(), labels), scores, hidden


def pair(batch, features, classes, dtype=torch.float32):
    model = Classifier(features, classes).to(DEVICE, dtype)
    x = torch.randn(batch, features, device=DEVICE, dtype=dtype)
    labels = torch.randint(classes, (batch,), device=DEVICE)
    return copy.deepcopy(model), model, (x, labels)


def losses(outputs):
    loss, scores, hidden = outputs
    return {
        "loss": lambda: loss,
        "scores": lambda: scores.float().square().mean(),
        "loss and scores": lambda: loss + scores.float().square().mean(),
        "loss and hidden": lambda: loss * 2 + hidden.float().sum(),
        "all": lambda: loss + scores.float().mean() + hidden.float().square().sum(),
        "scores that are ones": lambda: scores.float().sum(),  # an expanded cotangent
    }


def compare(eager, module, tolerance):
    """`tolerance`: the norm of the difference over that of the gradient."""
    for (name, a), b in zip(eager.named_parameters(), module.parameters(), strict=True):
        off = (b.grad - a.grad).double().norm() / a.grad.double().norm().clamp_min(1e-3)
        assert off <= tolerance, (name, off)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_gradients_of_any_outputs(size, dtype):
    eager, module, arguments = pair(*size, dtype)
    f = thunder.jit(module)
    tolerance = 3e-2 if dtype == torch.bfloat16 else 1e-5
    for which in losses((torch.zeros(()),) * 3):
        for run, model in ((eager, eager), (f, module)):
            model.zero_grad()
            losses(run(*arguments))[which]().backward()
        compare(eager, module, tolerance)
    assert thunder.cache_misses(f) == 1


def test_the_backward_asks_for_what_may_be_missing():
    _, module, arguments = pair(*SIZES[0])
    f = thunder.jit(module)
    f(*arguments)[0].backward()
    text = str(thunder.last_backward_traces(f)[-1])
    assert text.count("= prims.or_zeros(") == 2  # one for the scores, one for what they are computed from


def test_a_loss_alone_and_tensors_alone_need_none():
    linear = nn.Linear(4, 4, device=DEVICE)
    for outputs in (lambda x: linear(x).sum(), lambda x: (linear(x), linear(x).exp())):
        f = thunder.jit(outputs)
        out = f(torch.randn(2, 4, device=DEVICE))
        (out if torch.is_tensor(out) else out[0].sum()).backward()
        assert "or_zeros" not in str(thunder.last_backward_traces(f)[-1])


def test_an_operator_that_reads_it_has_zeros():
    """The scores are a product's result: their cotangent is a product's operand."""
    weight = torch.randn(6, 6, device=DEVICE, requires_grad=True)
    other = weight.detach().clone().requires_grad_()

    def outputs(w, x):
        scores = x @ w
        return w.square().sum(), scores

    f = thunder.jit(outputs)
    x = torch.randn(5, 6, device=DEVICE)
    for which in (0, 1, 0):
        weight.grad = other.grad = None
        f(weight, x)[which].sum().backward()
        outputs(other, x)[which].sum().backward()
        torch.testing.assert_close(weight.grad, other.grad)


def test_zeros_of_operators_are_made_where_they_are_read():
    """Those of several outputs would otherwise be in memory at once."""
    weights = [torch.randn(6, 6, device=DEVICE, requires_grad=True) for _ in range(3)]

    def outputs(x, *weights):
        results = [x @ w for w in weights]
        return sum(w.sum() for w in weights), *results

    f = thunder.jit(outputs)
    f(torch.randn(5, 6, device=DEVICE), *weights)[0].backward()
    lines = [line for line in str(thunder.last_backward_traces(f)[-1]).splitlines() if " = " in line and "#" in line]
    calls = [line for line in lines if not line.strip().startswith("#")]
    zeros = [i for i, line in enumerate(calls) if "or_zeros" in line]
    assert len(zeros) == 3 and all(b - a > 1 for a, b in itertools.pairwise(zeros)), calls


def test_second_derivatives():
    x = torch.randn(3, 4, device=DEVICE, dtype=torch.float64, requires_grad=True)

    def outputs(x):
        y = x.sin()
        return y.square().sum(), y

    f = thunder.jit(outputs)
    for which in (0, 1):
        got, expected = (torch.autograd.grad(g(x)[which].sum(), x, create_graph=True)[0] for g in (f, outputs))
        torch.testing.assert_close(got, expected)
        torch.testing.assert_close(*(torch.autograd.grad(g.sum(), x)[0] for g in (got, expected)))


def test_varying_sizes():
    """Their zeros are of the call's sizes."""
    eager, module, _ = pair(4, 6, 5)
    f = thunder.jit(module, cache="symbolic values")
    for batch in (4, 7, 1, 3):
        arguments = torch.randn(batch, 6, device=DEVICE), torch.randint(5, (batch,), device=DEVICE)
        for which in ("loss", "all"):
            for run, model in ((eager, eager), (f, module)):
                model.zero_grad()
                losses(run(*arguments))[which]().backward()
            compare(eager, module, 1e-5)


@pytest.mark.parametrize("clip", [False, True])
def test_training(clip):
    eager, module, _ = pair(*SIZES[1])
    f = thunder.jit(module)
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (eager, module)]
    for _ in range(6):
        arguments = torch.randn(5, 7, device=DEVICE), torch.randint(13, (5,), device=DEVICE)
        for run, model, optimizer in ((eager, eager, optimizers[0]), (f, module, optimizers[1])):
            optimizer.zero_grad()
            run(*arguments)[0].backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
    for a, b in zip(eager.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-4)
