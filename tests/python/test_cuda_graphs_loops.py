"""graphs="auto" in the loops that people write: when gradients are dropped, kept and added up."""

import pytest
import torch
from graph_checks import deep_pair, randn

import thunder

STEPS = 12
RECORDED = 4  # steps before the first that is a replay: one that loads, two that are timed, one that records


def zero_first(optimizer, run, x):
    optimizer.zero_grad()
    run(x).square().mean().backward()
    optimizer.step()


def zero_last(optimizer, run, x):
    run(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def zero_between(optimizer, run, x):
    """As Lightning's loop does."""
    loss = run(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def zero_in_place(optimizer, run, x):
    run(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)


def accumulate(optimizer, run, x):
    for part in x.chunk(2):
        run(part).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def one_by_one(optimizer, run, x):
    """Each parameter is updated, and its gradient dropped, as soon as that is there."""
    hooks = []
    for p in optimizer.param_groups[0]["params"]:

        def update(p):
            p.data.sub_(p.grad, alpha=0.01)
            p.grad = None

        hooks.append(p.register_post_accumulate_grad_hook(update))
    run(x).square().mean().backward()
    for hook in hooks:
        hook.remove()


LOOPS = [zero_first, zero_last, zero_between, zero_in_place, accumulate, one_by_one]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_loops_train_as_without_graphs(loop):
    (plain, graphed), (a, b) = deep_pair()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9) for m in (a, b)]
    for _ in range(STEPS):
        x = randn(6, 32)
        for optimizer, run in zip(optimizers, (plain, graphed), strict=True):
            loop(optimizer, run, x)
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5)
    assert thunder.compile_stats(graphed)["graphs"]["replays"] > STEPS // 2


@pytest.mark.parametrize("part", ["tensor", "view", "detached"])
def test_a_gradient_that_is_kept_keeps_its_values(part):
    (plain, graphed), (a, b) = deep_pair()
    take = {"tensor": lambda g: g, "view": lambda g: g.flatten()[1:3], "detached": lambda g: g.detach()}[part]
    kept = []
    for i in range(STEPS):
        x = randn(6, 32)
        for run, module in ((plain, a), (graphed, b)):
            module.zero_grad()
            run(x).sum().backward()
            if i >= RECORDED:
                kept.append(take(module.head.weight.grad))
    for expected, got in zip(kept[::2], kept[1::2], strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
