"""What a compiled program was told of values stays what it was, and lengths that decide a rank are asked for."""

import pytest
import torch

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


SQUEEZED = {
    "all": lambda y: y.squeeze(),
    "one": lambda y: y.exp().squeeze(0),
    "several": lambda y: y[None, :, None].squeeze((1, 2)),
    "last": lambda y: torch.stack([y, y]).squeeze(-1),
    "clang": lambda y: thunder.clang.squeeze(y, None) if torch.compiler.is_compiling() else y.squeeze(),
}


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("name", SQUEEZED)
def test_lengths_of_one_are_squeezed(name, cache):
    def f(x):
        return SQUEEZED[name](x[x > 0])

    compiled = thunder.jit(f, cache=cache)
    for count in (2, 1, 0, 3, 1, 4):
        x = torch.tensor([1.0] * count + [0.0] * (4 - count))
        torch.testing.assert_close(compiled(x), f(x))
