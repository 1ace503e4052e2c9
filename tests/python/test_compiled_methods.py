"""Methods of compiled modules: what they call of the module is compiled."""

import copy
import inspect

import pytest
import torch
from torch import nn

import thunder


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.GELU())
        self.steps = 0

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens)).mean(1))

    @torch.no_grad()
    def generate(self, tokens, n=4):
        """Greedy."""
        for _ in range(n):
            self.steps += 1
            tokens = torch.cat([tokens, self(tokens).argmax(-1, keepdim=True)], 1)
        return tokens

    def encode(self, tokens):
        return self.body(self.embedding(tokens))

    def fails(self, tokens):
        self(tokens)
        raise KeyError("mine")

    @staticmethod
    def plain(x):
        return x + 1

    @property
    def width(self):
        return self.head.in_features


def tokens(rows=2, columns=3):
    return torch.randint(16, (rows, columns))


def programs(method):
    return {name: thunder.cache_misses(f) for name, f in method.inner_modules.compiled.items()}


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_generate(rows):
    model = Model()
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    for n in (1, 4, 9):
        x = tokens(rows)
        assert torch.equal(compiled.generate(x, n=n), reference.generate(x, n))
    assert model.steps == compiled.steps == reference.steps == 14
    # One length, any other length; a length of one row may be a third.
    assert list(programs(compiled.generate)) == ["Model"] and programs(compiled.generate)["Model"] <= 3
    assert "forward" not in model.__dict__


def test_the_module_and_its_method_train_alike():
    model = Model()
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    for _ in range(4):
        x = tokens()
        got, want = compiled.encode(x), reference.encode(x)
        torch.testing.assert_close(got, want)
        (got.sum() + compiled(x).sum()).backward()
        (want.sum() + reference(x).sum()).backward()
        for p, q in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
    assert list(programs(compiled.encode)) == ["Sequential"]


def test_what_is_no_code_of_the_modules_stays():
    compiled = thunder.jit(Model())
    assert compiled.plain(2) == 3 and compiled.width == 8
    assert inspect.ismethod(compiled.named_parameters) and inspect.isfunction(compiled.plain)
    assert compiled.generate is compiled.generate and compiled.generate.__doc__ == "Greedy."
    assert list(inspect.signature(compiled.generate).parameters) == ["tokens", "n"]


def test_the_module_is_its_own_after_an_exception():
    model = Model()
    compiled = thunder.jit(model)
    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            compiled.fails(tokens())
        assert "forward" not in model.__dict__


def test_a_copy_has_methods_of_its_own():
    compiled = thunder.jit(Model())
    x = tokens()
    compiled.generate(x)
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        other.head.weight.zero_(), other.head.bias.copy_(torch.arange(16.0))
    assert torch.equal(other.generate(x)[:, 3:], torch.full((2, 4), 15))
    assert not torch.equal(compiled.generate(x), other.generate(x))


def test_within_a_compiled_function_a_method_is_recorded():
    model = Model()
    compiled = thunder.jit(model)
    f = thunder.jit(lambda x: compiled.encode(x) * 2)
    x = tokens()
    for _ in range(2):
        torch.testing.assert_close(f(x), model.encode(x) * 2)
    assert thunder.cache_misses(f) == 1 and not thunder.compile_stats(f).eager_calls


def test_with_transforms_methods_are_eagers():
    seen = []
    compiled = thunder.jit(Model(), transforms=[lambda trace: seen.append(trace) or trace])
    x = tokens()
    torch.testing.assert_close(compiled.encode(x), compiled._original.encode(x))
    assert inspect.ismethod(compiled.encode) and not seen


def test_a_method_that_is_replaced():
    model = Model()
    compiled, x = thunder.jit(model), tokens()
    compiled.encode(x)
    model.encode = lambda tokens: "mine"
    assert compiled.encode(x) == "mine"
    del model.encode
    torch.testing.assert_close(compiled.encode(x), model.encode(x))


def test_what_cannot_be_compiled_is_eagers():
    class Values(Model):
        def forward(self, x):
            return super().forward(x) * float(self.head.weight.detach().numpy()[0, 0])

    model = Values()
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    x = tokens()
    with pytest.warns(UserWarning, match="runs by eager PyTorch"):
        got = compiled.generate(x)
    assert torch.equal(got, reference.generate(x))


def test_a_method_that_returns_the_module_returns_the_compiled_one():
    class Chained(Model):
        def with_steps(self, n):
            self.steps = n
            return self

    model = Chained()
    compiled, tokens = thunder.jit(model), torch.randint(16, (2, 5))
    assert compiled.with_steps(3) is compiled and model.steps == 3
    for n in range(3):
        torch.testing.assert_close(compiled.with_steps(n)(tokens), model(tokens))
    assert thunder.cache_hits(compiled) >= 1
    method = thunder.jit(model).with_steps
    assert method(4) is model  # nobody holds the compiled one
