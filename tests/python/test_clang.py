"""The core language: pointwise operators promote and broadcast as PyTorch's of the same name."""

import pytest
import torch

import thunder
from thunder import clang

# What PyTorch calls otherwise; operators without a function in PyTorch are made of others.
NAMES = {
    "floor_div": torch.floor_divide,
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "normal_cdf": torch.special.ndtr,
    "i1": torch.special.i1,
}
INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"}
# gelu_slope: a derivative that torch.nn.functional.gelu has no function for.
OPERATORS = sorted(
    op.name.partition(".")[2]
    for op in thunder._C.ops()
    if op.level == "clang" and not op.executor and "pointwise" in op.tags and op.name != "clang.gelu_slope"
)


def counterpart(name):
    return NAMES.get(name) or getattr(torch, name)


def arity(name):
    return len(thunder._C.find_op(f"clang.{name}").schema.split(" -> ")[0].split(","))


def operands(name, dtype):
    torch.manual_seed(0)
    positive = torch.rand(3, 1, 5) * 0.8 + 0.1
    second = torch.rand(4, 1) * 0.8 + 0.1
    if name == "acosh":
        positive = positive + 1
    if name in INTEGERS:
        dtype = torch.int32 if dtype.is_floating_point else dtype
    if not dtype.is_floating_point:
        positive, second = positive * 10 + 1, second * 3 + 1
    return [positive.to(dtype), second.to(torch.int64 if name in INTEGERS else torch.float32)][: arity(name)]


def test_every_pointwise_primitive_has_an_operator():
    assert {"add", "mul", "div", "pow", "eq", "maximum", "where", "exp", "abs", "sigmoid"} <= set(OPERATORS)
    assert len(OPERATORS) > 55


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "where"])
def test_as_pytorch(name, dtype):
    args = operands(name, dtype)
    expected = counterpart(name)(*args)
    operator = getattr(clang, name)
    for actual in (operator(*args), thunder.jit(lambda *a: operator(*a))(*args)):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("name", [n for n in OPERATORS if n != "where" and arity(n) == 2])
def test_numbers(name):
    x = operands(name, torch.int32 if name in INTEGERS else torch.float32)[0]
    f = counterpart(name)
    for args in ((x, 2), (x, 2 if name in INTEGERS else 2.5)):
        try:
            expected = f(*args)
        except (TypeError, RuntimeError):  # a function of two tensors alone
            expected = f(x, torch.tensor(args[1], dtype=x.dtype))
        torch.testing.assert_close(getattr(clang, name)(*args), expected)


@pytest.mark.parametrize("condition", [torch.bool, torch.uint8])
def test_where(condition):
    pred = torch.tensor([[1], [0], [1]]).to(condition)
    a, b = torch.arange(4), torch.rand(3, 4)
    f = thunder.jit(lambda p, a, b: (clang.where(p, a, b), clang.where(p, 1, 2.5), clang.where(p, a, 0)))
    truth = pred.bool()
    expected = (torch.where(truth, a, b), torch.where(truth, 1, 2.5), torch.where(truth, a, 0))
    for actual, wanted in zip(f(pred, a, b), expected, strict=True):
        torch.testing.assert_close(actual, wanted)
    with pytest.raises(RuntimeError, match="boolean tensor"):
        clang.where(a, a, a)


def test_gradients_of_what_was_broadcast():
    def f(a, b):
        return clang.mul(clang.sub(a, b), clang.div(clang.exp(a), clang.add(b, 2)))

    def expected(a, b):
        return (a - b) * (a.exp() / (b + 2))

    a = torch.rand(3, 1, dtype=torch.float64, requires_grad=True)
    b = torch.rand(4, dtype=torch.float64, requires_grad=True)
    thunder.jit(f)(a, b).sum().backward()
    actual = a.grad, b.grad
    a.grad = b.grad = None
    expected(a, b).sum().backward()
    torch.testing.assert_close(actual, (a.grad, b.grad))


def test_refusals():
    with pytest.raises(RuntimeError, match="size"):
        clang.add(torch.ones(2), torch.ones(3))
    with pytest.raises((RuntimeError, TypeError)):
        clang.bitwise_and(torch.ones(2), torch.ones(2))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_errors_keep_their_class(requires_grad):
    a = torch.rand(3, 2, requires_grad=requires_grad)
    with pytest.raises(TypeError):
        clang.add(a, "x")
    with pytest.raises(TypeError, match="integer or boolean"):
        clang.bitwise_and(a, a)
    with pytest.raises(IndexError, match="range"):
        clang.flip(a, (7,))


def test_the_body_is_primitives():
    f = thunder.jit(lambda a, b: clang.add(a, b))
    f(torch.ones(2, 1), torch.ones(3, dtype=torch.int32))
    text = str(thunder.last_traces(f)[0])
    assert "clang.add" in text and "prims.broadcast_in_dim" in text and "prims.convert_element_type" in text
