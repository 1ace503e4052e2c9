"""Where a loss does not use all results, what no used result depends on gets no gradient, as in eager."""

import pytest
import torch

import thunder
from thunder.extend import OperatorExecutor, get_grad, put_grad, register_grad


def leaves(*sizes):
    return [torch.randn(n, dtype=torch.float64, requires_grad=True) for n in sizes]


def two(x, y, z):
    return x * y, (y.sin() * z).sum()


def gradients(f, inputs, use):
    for t in inputs:
        t.grad = None
    use(f(*inputs)).backward()
    return [t.grad for t in inputs]


def agree(f, inputs, use):
    """Eager's gradients, None where eager's are.  Returns which there are."""
    expected = gradients(f, inputs, use)
    for actual, e in zip(gradients(thunder.jit(f), inputs, use), expected, strict=True):
        assert (actual is None) == (e is None)
        if e is not None:
            torch.testing.assert_close(actual, e)
    return [e is not None for e in expected]


@pytest.mark.parametrize(
    "use, there",
    [
        (lambda r: r[0].sum(), [True, True, False]),
        (lambda r: r[1], [False, True, True]),
        (lambda r: r[0].sum() + r[1], [True, True, True]),
    ],
)
def test_gradients_are_there_where_eager_has_them(use, there):
    assert agree(two, leaves(4, 4, 4), use) == there


def test_composites_views_and_writes():
    def f(x, w, b, v):
        h = torch.nn.functional.linear(x, w, b)
        left, right = h.chunk(2)
        out = torch.zeros_like(v)
        out.add_(v)
        return torch.nn.functional.gelu(left), out, right.detach() * v

    inputs = [t for t in leaves(4, 4, 4, 4)]
    inputs[1] = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    inputs[3] = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert agree(f, inputs, lambda r: r[0].sum()) == [True, True, True, False]
    assert agree(f, inputs, lambda r: r[2].sum()) == [False, False, False, True]


def test_operators_without_a_record():
    def f(a, b):
        return torch.linalg.cholesky(a @ a.T + torch.eye(3, dtype=a.dtype)), torch.fft.fft(b).abs()

    a, b = torch.randn(3, 3, dtype=torch.float64, requires_grad=True), *leaves(5)
    assert agree(f, [a, b], lambda r: r[0].sum()) == [True, False]
    assert agree(f, [a, b], lambda r: r[1].sum()) == [False, True]


def test_rules_of_executors():
    """What a rule gives a gradient to counts, not what the operator's meta or body reads it for."""
    executor = OperatorExecutor("unused_results_test")
    both = executor.register_operator("both", like=lambda a, b: a, fn=lambda a, b: a * 2)

    def rule(a, b):
        g = both(a, b)
        put_grad(a, get_grad(g) * 2)
        put_grad(b, get_grad(g) * 3)
        return g

    register_grad(both, rule)
    x, y, z = leaves(4, 4, 4)
    gradients(thunder.jit(lambda x, y, z: (both(x, y), z * 2), executors=[executor]), [x, y, z], lambda r: r[0].sum())
    assert torch.equal(y.grad, torch.full_like(y, 3)) and x.grad is not None and z.grad is None


def test_an_optimizer_leaves_what_is_not_used():
    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 4)
            self.heads = torch.nn.ModuleList([torch.nn.Linear(4, 1) for _ in range(2)])

        def forward(self, x):
            h = self.body(x).relu()
            return [head(h) for head in self.heads]

    after = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = Heads()
        called = thunder.jit(model) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.5)
        x = torch.randn(8, 4)
        for step in range(3):
            optimizer.zero_grad()
            called(x)[step % 2].sum().backward()
            optimizer.step()
        after.append([p.detach().clone() for p in model.parameters()])
    torch.testing.assert_close(*after)


def test_autograd_grad_says_what_is_not_used():
    inputs = leaves(4, 4, 4)
    for f in (two, thunder.jit(two)):
        assert torch.autograd.grad(f(*inputs)[1], inputs, allow_unused=True)[0] is None
        with pytest.raises(RuntimeError, match="appears to not have been used"):
            torch.autograd.grad(f(*inputs)[1], inputs)


def test_infinite_gradients_do_not_spread():
    f = lambda x, y: (x.log(), y * 2)  # the gradient at 0 times nothing is no number
    inputs = [torch.zeros(2, requires_grad=True), torch.ones(2, requires_grad=True)]
    assert agree(f, inputs, lambda r: r[1].sum()) == [False, True]


@pytest.mark.parametrize("behind", [False, True])
def test_hooks_see_zeros(behind):
    seen = []
    inputs = leaves(4, 4, 4)
    inputs[2].register_hook(lambda g: seen.append(g.clone()))
    x, y, z = inputs
    thunder.jit(two)(x, y, z * 2 if behind else z)[0].sum().backward()
    assert len(seen) == 1 and not seen[0].any()


def test_graphs_of_eager_behind_it():
    def f(x, y, z):
        return thunder.jit(two)(x * 1, y, (z * 2).sin())

    x, y, z = leaves(4, 4, 4)
    f(x, y, z)[0].sum().backward()
    assert z.grad is None and x.grad is not None
    f(x, y, z)[1].backward()
    assert z.grad is not None


def test_many_results():
    f = lambda *xs: tuple(x * 2 for x in xs)
    inputs = leaves(*[2] * 70)
    there = agree(f, inputs, lambda r: r[5].sum() + r[40].sum())
    assert there == [i in (5, 40) for i in range(70)]


def test_gradients_that_are_added_up():
    inputs = leaves(4, 4, 4)
    jitted = thunder.jit(two)
    for f in (two, jitted):
        for t in inputs:
            t.grad = None
        for step in range(3):
            f(*inputs)[step % 2].sum().backward(retain_graph=step == 1)
        f.found = [t.grad.clone() for t in inputs]
    torch.testing.assert_close(jitted.found, two.found)
