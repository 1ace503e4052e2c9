"""Registered gradient rules of primitives, and names that executors may have."""

import pytest
import torch
import torch.nn.functional as F

import thunder
from thunder import _C
from thunder.core.transforms import get_grad, put_grad, register_grad
from thunder.extend import FusionExecutor, OperatorExecutor


@pytest.fixture
def registered():
    """Registers rules for the test alone."""
    names = []

    def register(symbol, rule):
        register_grad(symbol, rule)
        names.append(symbol.id)

    yield register
    for name in names:
        _C.unregister_gradient_rule(name)


def _sevens(symbol):
    """A rule whose gradient is 7."""

    def rule(a):
        result = symbol(a)
        put_grad(a, get_grad(result) * 7)
        return result

    return rule


@pytest.mark.parametrize(
    "fn, prim", [(torch.sin, "sin"), (torch.exp, "exp"), (torch.tanh, "tanh"), (lambda x: x.sqrt().mul(1), "sqrt")]
)
def test_rule_of_a_primitive_whose_operator_has_one(registered, fn, prim):
    x = torch.rand(3, requires_grad=True)
    symbol = getattr(thunder.prims, prim)
    registered(symbol, _sevens(symbol))
    (gradient,) = torch.autograd.grad(thunder.jit(fn)(x).sum(), x)
    torch.testing.assert_close(gradient, torch.full((3,), 7.0))


def test_rule_of_a_primitive_within_a_composite_that_has_one(registered):
    x = torch.rand(2, 3, requires_grad=True)
    expected = torch.autograd.grad(F.silu(x).sum(), x)[0]
    jitted = thunder.jit(F.silu)
    torch.testing.assert_close(torch.autograd.grad(jitted(x).sum(), x)[0], expected)
    registered(thunder.prims.exp, _sevens(thunder.prims.exp))
    changed = thunder.jit(lambda x: F.silu(x))
    reached = "prims.exp" in str(thunder.last_traces(jitted)[0])
    assert torch.equal(torch.autograd.grad(changed(x).sum(), x)[0], expected) != reached


def test_rule_that_is_registered_goes_when_it_is_taken_away():
    x = torch.rand(3, requires_grad=True)
    register_grad(thunder.prims.sin, _sevens(thunder.prims.sin))
    _C.unregister_gradient_rule(thunder.prims.sin.id)
    torch.testing.assert_close(torch.autograd.grad(thunder.jit(torch.sin)(x).sum(), x)[0], x.cos())


RESERVED = "aten python fuser cudnn sdpa cublaslt rows onednn decoding depthwise scan torch prims clang numpy".split()


@pytest.mark.parametrize("kind", [OperatorExecutor, FusionExecutor])
@pytest.mark.parametrize("name", [*RESERVED, ""])
def test_names_of_thunders_own(kind, name):
    with pytest.raises(ValueError, match="is taken by Thunder itself"):
        kind(name)


def test_region_of_an_embedded_executor():
    class Replacing(FusionExecutor):
        def fusion_pass(self, trace):
            sin = [c for c in trace.calls if "sin" in c.symbol]
            return trace.replace(sin, lambda a: (a,), executor=_C.find_executor("fuser") or _C.find_executor("aten"))

    with pytest.raises(TypeError, match="executor= must be an OperatorExecutor or a FusionExecutor"):
        thunder.jit(torch.sin, executors=[Replacing("rules_replacing")])(torch.rand(3))
