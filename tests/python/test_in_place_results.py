"""A fused kernel on the CPU writes into an operand that dies there, and never into one that anybody can still see."""

import uuid

import numpy
import pytest
import torch
import torch.nn.functional as F
from fusion_checks import fusions

import thunder
from thunder.extend import OperatorExecutor

ROWS, COLUMNS = 300, 192
LARGE = 32 << 10  # bytes: of such memory the cache counts how often it is asked for


def takes():
    stats = thunder._C.host_cache_stats()
    return stats["made"] + stats["reused"]


def outputs(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def check(after, in_place, source=lambda x: torch.cumsum(x, 0)):
    """after(what an operator gave, x): values as eager's, twice, and whether an output lies where the operand lay."""
    f = thunder.jit(lambda x: after(source(x), x))
    x = torch.randn(ROWS, COLUMNS)
    given = x.clone()
    want = outputs(after(torch.cumsum(x, 0), x))
    for _ in range(2):
        before = takes()
        got = outputs(f(x))
        asked = takes() - before
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        assert torch.equal(x, given)
    assert fusions(f)
    results = sum(t.nbytes >= LARGE for t in got)
    assert asked == results if in_place else asked > results, thunder.last_kernels(f)


def chain(y, x):
    return torch.tanh(y) * 2 + x


TAKEN = {
    "pointwise": chain,
    "read twice": lambda y, x: torch.tanh(y) * y + torch.exp(-y * y),
    "row reductions": lambda y, x: F.softmax(y, -1) * x,
    "norm": lambda y, x: F.layer_norm(y, (COLUMNS,)) + x,
    "read again after another output": lambda y, x: (torch.tanh(x) + 1, torch.sigmoid(x) * y),
    "reshaped": lambda y, x: torch.tanh(y.reshape(COLUMNS, ROWS)) * 2,
    "column reductions": lambda y, x: (torch.tanh(y) * x, (torch.tanh(y) * x).sum(0)),
}
REFUSED = {
    "another size": lambda y, x: torch.tanh(y[: ROWS // 2]) * 2,
    "another type": lambda y, x: torch.where(y > 0, x > 0, x < 0).to(torch.int32),
    "reversed": lambda y, x: torch.tanh(y.flip(0)) + y,
    "transposed": lambda y, x: torch.tanh(y.reshape(COLUMNS, ROWS).t()) * 2 + y,
    "neighbours": lambda y, x: torch.tanh(torch.roll(y, 1, 1)) + y,
    "reductions alone": lambda y, x: torch.tanh(y).sum(-1) * 2,
    "sum over columns is subtracted": lambda y, x: y - (y * x).sum(0),
    "a view is returned": lambda y, x: (torch.tanh(y) * 2, y[1:3]),
    "read by a later operator": lambda y, x: (torch.tanh(y) * 2 + x, torch.cumprod(y, 1)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_an_operand_that_dies_lends_its_memory(name):
    check(TAKEN[name], True)


@pytest.mark.parametrize("name", REFUSED)
def test_not_where_elements_are_read_elsewhere_or_later(name):
    check(REFUSED[name], False)


KEEP = {
    "the tensor": lambda y: y,
    "a view": lambda y: y[3:5],
    "its memory": lambda y: y.untyped_storage(),
    "an array": lambda y: y.numpy(),
    "a detached tensor": lambda y: y.detach(),
}


@pytest.mark.parametrize("what", KEEP)
def test_not_what_somebody_holds(what):
    kept, copies = [], []

    def source(x):
        y = torch.cumsum(x, 0)
        kept.append(KEEP[what](y))
        copies.append(torch.tensor(kept[-1]) if what == "its memory" else torch.as_tensor(kept[-1]).clone())
        return y

    executor = OperatorExecutor("test_" + uuid.uuid4().hex[:8])
    check(chain, False, executor.register_operator("source", like=lambda x: torch.cumsum(x, 0), fn=source))
    assert len(kept) == 2
    for held, copy in zip(kept, copies, strict=True):
        assert torch.equal(torch.tensor(held) if what == "its memory" else torch.as_tensor(held), copy)


def test_arguments_are_not_written_to():
    f = thunder.jit(lambda x: torch.tanh(x) * 2 + x)
    array = numpy.ones((ROWS, COLUMNS), dtype=numpy.float32)
    f(torch.from_numpy(array))
    f(torch.from_numpy(array))
    assert (array == 1).all()


def block(x, w):
    h = torch.tanh(x @ w) * 2
    return torch.tanh(h) * h + x


def leaves():
    return torch.randn(ROWS, COLUMNS, requires_grad=True), torch.randn(COLUMNS, COLUMNS, requires_grad=True)


def test_saved_tensors_that_are_needed_again():
    f, (x, w) = thunder.jit(block), leaves()
    out = f(x, w)
    g = torch.randn_like(out)
    given = g.clone()
    first = torch.autograd.grad(out, (x, w), g, retain_graph=True)
    second = torch.autograd.grad(out, (x, w), g, retain_graph=True)
    last = torch.autograd.grad(out, (x, w), g)
    for a, b, c in zip(first, second, last, strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)
    assert torch.equal(g, given)


def test_saved_arguments_of_others_memory():
    array = numpy.full((ROWS, COLUMNS), 0.5, dtype=numpy.float32)
    w = torch.randn(ROWS, COLUMNS, requires_grad=True)
    f = thunder.jit(lambda x, w: torch.tanh(x * w) * x)
    for _ in range(2):
        out = f(torch.from_numpy(array), w)  # autograd alone holds the tensor now
        torch.autograd.grad(out, w, torch.ones_like(out))
        assert (array == 0.5).all()


def test_gradients_that_hooks_keep():
    f, (x, w) = thunder.jit(block), leaves()
    h = x * 1
    kept = []
    out = f(h, w)
    h.register_hook(lambda g: kept.append((g, g.clone())))
    out.register_hook(lambda g: kept.append((g, g.clone())))
    (thunder.jit(block)(out, w)).sum().backward()
    assert len(kept) == 2 and all(torch.equal(a, b) for a, b in kept)


def test_gradients_equal_those_of_eager():
    f, (x, w) = thunder.jit(block), leaves()
    g = torch.randn(ROWS, COLUMNS)
    got = torch.autograd.grad(f(x, w), (x, w), g)
    want = torch.autograd.grad(block(x, w), (x, w), g)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
