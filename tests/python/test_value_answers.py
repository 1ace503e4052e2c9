"""What a compiled program was told of values stays what it was, and lengths that decide a rank are asked for."""

import pytest
import torch
import torch.nn.functional as F
from aliasing_checks import difference

import thunder


def test_what_the_program_writes_to_what_it_read():
    def f(x):
        if x[0]:
            x.logical_not_()
            return x.float()
        return x.float() * 5

    compiled = thunder.jit(f)
    for values in ([True, False], [False, True]) * 2:
        ours, theirs = torch.tensor(values), torch.tensor(values)
        assert torch.equal(compiled(ours), f(theirs)) and torch.equal(ours, theirs)
    assert thunder.cache_misses(compiled) == 2


def test_what_the_caller_writes_to_what_was_read():
    compiled = thunder.jit(lambda x: torch.zeros(2) + x[:2].tolist()[0])
    x = torch.tensor([1, 2, 3])
    for value in (1, 7, 1):
        x[0] = value
        assert compiled(x).tolist() == [value, value]
    assert thunder.cache_misses(compiled) == 2


def test_what_the_caller_writes_to_the_result():
    def f(x):
        y = x * 2
        return y if y.tolist()[0] > 0 else -y

    compiled, x = thunder.jit(f), torch.tensor([1.0, 2.0])
    compiled(x).fill_(-100)
    assert torch.equal(compiled(x), f(x))
    assert thunder.cache_misses(compiled) == 1


def whole_and_parts(y):
    return y, y[:1], y[1:], y.view(1, -1)


# Of y, the positive elements of x.
LENGTHS = {
    "squeeze": lambda x, y: y.squeeze(),
    "squeeze one": lambda x, y: y.exp().squeeze(0),
    "squeeze several": lambda x, y: y[None, :, None].squeeze((1, 2)),
    "squeeze the last": lambda x, y: torch.stack([y, y]).squeeze(-1),
    "squeeze of clang": lambda x, y: thunder.clang.squeeze(y, None) if torch.compiler.is_compiling() else y.squeeze(),
    "squeeze, then softmax": lambda x, y: (y.squeeze(), y.softmax(0)),
    "select": lambda x, y: y.select(0, 1),
    "first": lambda x, y: y[0],
    "second": lambda x, y: y[1],
    "last": lambda x, y: y[:, None][-1, 0],
    "first = number": lambda x, y: y.__setitem__(0, 5.0),
    "item": lambda x, y: y.item(),
    "expand": lambda x, y: y.expand(2),
    "expand, then squeeze": lambda x, y: y.expand(3, -1).squeeze(),
    "view": lambda x, y: y.view(1),
    "reshape": lambda x, y: y.reshape(2, 1) * 2,
    "broadcast": lambda x, y: y + x,
    "where": lambda x, y: torch.where(y > 0, y, x),
    "add_": lambda x, y: (x * 1).add_(y),
    "copy_": lambda x, y: (x * 1).copy_(y),
    "softmax": lambda x, y: y.softmax(0),
    "dropout of integers": lambda x, y: F.dropout(y.long(), 0.5),
    "dropout of booleans": lambda x, y: F.dropout(y > 0, 0.5),
    "unbind": lambda x, y: y.unbind(),
    "chunk": lambda x, y: y.chunk(2),
    "split": lambda x, y: y.split(1),
    "views of the result": lambda x, y: whole_and_parts(y),
    "views made under no_grad": lambda x, y: torch.no_grad()(lambda: whole_and_parts(y * 2))(),
}


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("grad", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_of_one_and_none(name, grad, cache):
    def f(x):
        return LENGTHS[name](x, x[x > 0])

    for counts in ((2, 1, 0, 3, 1, 4), (0, 1, 2), (1, 0)):
        compiled = thunder.jit(f, cache=cache)
        for count in counts:
            x = torch.tensor([1.0] * count + [-1.0] * (4 - count))
            found = difference(f, [x], grad=grad, compiled=compiled)
            assert not found, (counts, count, found)


@pytest.mark.parametrize("f", [lambda x: len(x[x > 0]), lambda x: x[x > 0].squeeze().dim(), lambda x: x[x > 0]])
def test_a_length_that_is_found_again(f):
    """The gradient needs the length, also where nothing else is left of what was found first."""

    def again(x):
        f(x)
        return x[x > 0].sum() * 2, x[x > 0].exp()

    compiled = thunder.jit(again)
    for count in (2, 0, 3, 1):
        x = torch.tensor([1.0] * count + [-1.0] * (4 - count))
        assert not difference(again, [x], grad=True, compiled=compiled)


READ_IN_INFERENCE_MODE = {
    "a dimension": lambda y, m: y.squeeze().dim(),
    "a truth": lambda y, m: 2 if m.any() else 1,
    "a length": lambda y, m: len(m.nonzero()[:, 0]),
}


@pytest.mark.parametrize("name", READ_IN_INFERENCE_MODE)
def test_what_is_read_in_inference_mode_is_saved_for_the_backward(name):
    def f(x, m):
        with torch.inference_mode():
            n = READ_IN_INFERENCE_MODE[name](x[m], m)
        return x.gather(0, m.long()) * n + x[m].sum() * n

    compiled = thunder.jit(f)
    for mask in ([True, False, False], [True, True, False], [True, False, False]):
        found = difference(f, [torch.arange(3.0), torch.tensor(mask)], grad=True, compiled=compiled)
        assert not found, found


LENGTHS = {
    "nonzero": lambda x: x.nonzero().shape[0],
    "all sizes": lambda x: x.nonzero().shape,
    "elements": lambda x: x[x > 0].numel(),
    "an expression": lambda x: (x.nonzero().numel() // 2, x[x > 0].shape[0] * 2 + 1),
    "two lengths": lambda x: x[x > 0].shape[0] - x[x < 0].shape[0],
    "unique": lambda x: torch.unique(x).size(0),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_that_are_returned(name):
    kept = {}

    def f(x):
        result = kept["length"] = LENGTHS[name](x)
        return x * 2, result

    compiled = thunder.jit(f)
    for values in ([1, 2, -1], [0, 0, 0], [1, 0, -1], [5, 0, 0], [1, 2, 3], [-1, -1, 0]):
        x = torch.tensor(values)
        expected = f(x)[1]
        kept.clear()
        assert compiled(x)[1] == expected and kept["length"] == expected, values
    assert thunder.cache_misses(compiled) <= 3


def kept_and_doubled(x, y):
    out = torch.zeros_like(x)
    mask = x > 0
    out[mask] = x[mask] * 2
    out[~mask] = y[~mask].exp()
    return out


def compared_twice(x, y):
    y = y.clone()
    y[(x > 0) & (y < 1)] = x[(x > 0) & (y < 1)].exp()
    return y, x[x < 0] + y[x < 0]


def places_twice(x, y):
    return x[torch.where(x > 0)] * y[torch.nonzero(x > 0, as_tuple=True)] + torch.masked_select(y, x > 0)


def mask_written_between(x, y):
    mask = x > 0
    before = (y[mask] + x[x > 0]).detach()
    mask = mask.clone()
    other = mask.clone()
    mask[:1] = False
    return before, y[mask], x[other] - x[x > 0], y[mask], (x[mask] * y[mask]).sum()


def operand_written_between(x, y):
    x = x * 1
    before = y[x > 0]
    x.neg_()
    return before, y[x > 0], x[x > 0] * y[x > 0]


MASKED = [kept_and_doubled, compared_twice, places_twice, mask_written_between, operand_written_between]


@pytest.mark.parametrize("f", MASKED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(8, 4), (7, 3), (1, 5), (0, 4)], ids=str)
def test_masks_that_equal_calls_make_have_one_length(f, dtype, shape):
    compiled = thunder.jit(f)
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(2))
        ours, theirs = compiled(x, y), f(x, y)
        torch.testing.assert_close(ours, theirs)
        grads = []
        for results in (ours, theirs):
            loss = sum(r.square().sum() for r in (results if isinstance(results, tuple) else (results,)))
            grads.append(torch.autograd.grad(loss, (x, y)))
        torch.testing.assert_close(*grads)
    assert thunder.cache_misses(compiled) == 1
    assert not thunder.compile_stats(compiled).eager_calls


def test_masks_that_are_drawn_have_a_length_each():
    def f(x):
        return x[torch.rand(50) > 0.5], x[torch.rand(50) > 0.5]

    compiled, x = thunder.jit(f), torch.arange(50.0)
    for seed in range(2):
        results = []
        for run in (compiled, f):
            torch.manual_seed(seed)
            results.append(run(x))
        torch.testing.assert_close(*results)
        assert results[0][0].shape != results[0][1].shape
