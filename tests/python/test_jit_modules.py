"""thunder.jit of modules: they train, and what changes in them is seen."""

import copy
import functools
import inspect
import io
import types

import pytest
import torch
from eager_checks import check_left_to_eager
from mlp import Mlp
from torch import nn
from torch.testing import assert_close

import thunder


def test_module_trains_like_eager():
    torch.manual_seed(0)
    eager = Mlp()
    model = Mlp()
    model.load_state_dict(eager.state_dict())
    compiled = thunder.jit(model)
    opts = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (eager, model)]
    for _ in range(5):
        x = torch.randn(6, 4)
        for m, opt in zip((eager, compiled), opts, strict=True):
            opt.zero_grad()
            m(x).square().mean().backward()
            opt.step()
    assert_close(dict(model.named_parameters()), dict(eager.named_parameters()))
    assert thunder.cache_misses(compiled) == 1


def test_module_interface():
    model = Mlp()
    compiled = thunder.jit(model)
    assert isinstance(compiled, nn.Module)
    assert list(compiled.state_dict()) == list(model.state_dict())
    assert [n for n, _ in compiled.named_parameters()] == ["a.weight", "a.bias", "b.weight", "b.bias"]
    assert all(p is q for p, q in zip(compiled.parameters(), model.parameters(), strict=True))
    assert compiled.a is model.a and compiled.scale == 1.0
    assert compiled.eval() is compiled and not model.training
    assert compiled.train() is compiled and model.training
    compiled.load_state_dict({k: torch.zeros_like(v) for k, v in model.state_dict().items()})
    assert_close(compiled(torch.randn(2, 4)), torch.zeros(2, 3))


def test_module_inside_a_module():
    outer = nn.Sequential(thunder.jit(Mlp()), nn.ReLU())
    x = torch.randn(2, 4)
    assert_close(outer(x), torch.relu(outer[0]._original(x)))
    assert len(list(outer.parameters())) == 4


def around(forward, before=lambda *args: args):
    """What libraries put in the place of a module's forward."""

    @functools.wraps(forward)
    def replaced(*args, **kwargs):
        return forward(*before(*args), **kwargs).to(torch.float64) * 2

    return replaced


class Scaled(Mlp):
    def forward(self, x, factor=1.0):
        return super().forward(x) * factor


def test_signature_of_forward():
    compiled = thunder.jit(Scaled())
    assert list(inspect.signature(compiled.forward).parameters) == ["x", "factor"]
    x = torch.randn(2, 4)
    assert_close(compiled.forward(x, factor=3.0), compiled._original(x, 3.0))
    assert thunder.cache_misses(compiled) == 1


@pytest.mark.parametrize("bound", [False, True], ids=["function", "method"])
@pytest.mark.parametrize("times", [1, 2])
def test_forward_that_calls_the_one_it_replaces(bound, times):
    torch.manual_seed(0)
    eager = Scaled()
    compiled = thunder.jit(copy.deepcopy(eager))
    x = torch.randn(3, 4)
    assert_close(compiled(x), eager(x))
    first = compiled.forward
    for _ in range(times):
        for m in (eager, compiled):
            wrapped = around(m.forward)
            m.forward = types.MethodType(around(wrapped, lambda self, *args: args), m) if bound else wrapped
    for m in (eager, compiled):
        m(x, factor=2.0).square().mean().backward()
    assert_close(compiled(x), eager(x))
    assert_close([p.grad for p in compiled.parameters()], [p.grad for p in eager.parameters()])
    assert_close(compiled.forward(x), eager.forward(x))
    misses = thunder.cache_misses(compiled)
    compiled(x)
    assert thunder.cache_misses(compiled) == misses and not thunder.compile_stats(compiled).eager_calls
    compiled.forward = first
    assert_close(compiled(x), Scaled.forward(eager, x))
    assert compiled._original.forward == types.MethodType(Scaled.forward, compiled._original)


def test_forward_that_is_put_back_while_it_runs():
    torch.manual_seed(0)
    compiled = thunder.jit(Mlp())
    x = torch.randn(2, 4)
    expected = compiled._original(x)
    for _ in range(2):
        before = compiled.forward

        def redirected(*args, before=before):
            compiled.forward = before
            return compiled(*args) + 1

        compiled.forward = redirected
        assert_close(compiled._original(x), expected + 1)


def test_to_another_dtype():
    model = Mlp()
    compiled = thunder.jit(model)
    assert compiled(torch.randn(2, 4)).dtype is torch.float32
    assert compiled.to(torch.float64) is compiled
    x = torch.randn(2, 4, dtype=torch.float64)
    assert_close(compiled(x), model(x))
    assert compiled(x).dtype is torch.float64


def test_train_and_eval():
    model = Mlp(dropout=0.9)
    compiled = thunder.jit(model)
    x = torch.randn(50, 4)
    assert compiled(x).std() > 0
    model.eval()
    assert_close(compiled(x), model(x))
    model.train()
    torch.manual_seed(0)
    want = model(x)
    torch.manual_seed(0)
    assert_close(compiled(x), want)
    assert thunder.cache_misses(compiled) == 2


def test_training_flag_of_a_submodule():
    model = Mlp(dropout=0.9)
    compiled = thunder.jit(model)
    x = torch.randn(50, 4)
    compiled(x)
    model.dropout.eval()
    assert_close(compiled(x), model(x))


def test_a_hook_that_is_added():
    model = Mlp()
    compiled = thunder.jit(model)
    x = torch.randn(2, 4)
    compiled(x)
    handle = model.a.register_forward_hook(lambda m, args, out: out * 2)
    assert_close(compiled(x), model(x))
    handle.remove()
    assert_close(compiled(x), model(x))
    model.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    assert_close(compiled(x), model(x))


def test_a_parameter_that_is_replaced():
    model = Mlp()
    compiled = thunder.jit(model)
    x = torch.randn(2, 4)
    compiled(x)
    model.a.weight = nn.Parameter(torch.randn(8, 4))
    assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model.a.weight.grad is not None


def test_data_that_is_replaced():
    model = Mlp()
    compiled = thunder.jit(model)
    x = torch.randn(2, 4)
    compiled(x)
    model.a.weight.data = torch.randn(8, 4)
    assert_close(compiled(x), model(x))
    with torch.no_grad():
        model.a.weight.mul_(3)
    assert_close(compiled(x), model(x))


def test_an_attribute_and_a_submodule_that_change():
    model = Mlp()
    compiled = thunder.jit(model)
    x = torch.randn(2, 4)
    compiled(x)
    model.scale = 3.0
    assert_close(compiled(x), model(x))
    model.b = nn.Linear(8, 5)
    assert_close(compiled(x), model(x))


def test_requires_grad_that_flips():
    model = Mlp()
    compiled = thunder.jit(model)
    x = torch.randn(2, 4)
    compiled(x)
    model.a.requires_grad_(False)
    compiled(x).sum().backward()
    assert model.a.weight.grad is None and model.b.weight.grad is not None
    model.requires_grad_(False)
    assert not compiled(x).requires_grad
    model.requires_grad_(True)
    assert compiled(x).requires_grad


def test_a_shared_parameter():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
            self.head.weight = self.emb.weight

        def forward(self, x):
            return self.head(self.emb(x))

    model = Tied()
    compiled, x = thunder.jit(model), torch.randint(0, 10, (3,))
    compiled(x).square().sum().backward()
    got, model.emb.weight.grad = model.emb.weight.grad, None
    model(x).square().sum().backward()
    assert_close(got, model.emb.weight.grad)
    assert list(compiled.parameters())[0] is model.emb.weight and len(list(compiled.parameters())) == 1


def test_gradients_accumulate():
    model = Mlp()
    compiled, x = thunder.jit(model), torch.randn(2, 4)
    compiled(x).sum().backward()
    once = model.a.weight.grad.clone()
    compiled(x).sum().backward()
    assert_close(model.a.weight.grad, 2 * once)


def test_copies_are_compiled_in_the_same_way():
    model = thunder.jit(torch.nn.Linear(3, 3), executors=["aten"], cache="symbolic values")
    x = torch.randn(2, 3)
    expected = model(x)
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    for other in (copy.deepcopy(model), torch.load(saved, weights_only=False)):
        assert isinstance(other, thunder.ThunderModule) and thunder.cache_misses(other) == 0
        torch.testing.assert_close(other(x), expected)
        other(torch.randn(5, 3))
        assert thunder.cache_misses(other) == 1
        with torch.no_grad():
            other.weight.zero_()
        torch.testing.assert_close(model(x), expected)


def test_backward_hooks_that_each_call_makes_are_left_to_eager():
    def f(x):
        layer = torch.nn.Identity()
        layer.register_full_backward_hook(lambda module, gradients, of_outputs: None)
        return layer(x)

    check_left_to_eager(f, torch.randn(2, 3, requires_grad=True), why="register_full_backward_hook")


def test_a_compiled_container_is_one():
    layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    compiled = thunder.jit(layers)
    assert len(compiled) == 2 and list(compiled) == list(layers) and compiled[1] is layers[1] and layers[0] in compiled
    assert "a" in thunder.jit(nn.ModuleDict({"a": nn.ReLU()}))
    other = thunder.jit(nn.Linear(3, 3))
    assert other
    for use in (len, iter, lambda m: m[0]):
        with pytest.raises(TypeError, match="Linear"):
            use(other)
