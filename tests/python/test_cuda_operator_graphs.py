"""Gradients of operators that have no record: over the nodes that autograd recorded, on the CPU and on a GPU."""

import pytest
import torch
from devices import DEVICE
from torch.profiler import ProfilerActivity, profile

import thunder

LIBRARY = torch.library.Library("operator_graphs", "DEF")


def define(name, signature, implementation):
    LIBRARY.define(f"{name}{signature}")
    LIBRARY.impl(name, implementation, "CompositeImplicitAutograd")
    return getattr(torch.ops.operator_graphs, name)


def twice(x):
    return x.sin() * x + x.cos()


def hooked(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * 3)
    return y.sin()


def partly(x):
    return x.sin(), x.detach().cos(), x.exp()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        with torch.enable_grad():  # a backward within the backward
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad((x**3).sum(), x)[0] * g


TWICE = define("twice", "(Tensor x) -> Tensor", twice)
HOOKED = define("hooked", "(Tensor x) -> Tensor", hooked)
PARTLY = define("partly", "(Tensor x) -> (Tensor, Tensor, Tensor)", partly)
CUBE = define("cube", "(Tensor x) -> Tensor", Cube.apply)


def well(a):
    """A matrix that is far from a singular one."""
    return a @ a.mT + 3 * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


PROGRAMS = {
    "solve": (lambda a, b: torch.linalg.solve(well(a), b), [(4, 4), (4,)]),
    "solve of one": (lambda a, b: torch.linalg.solve(well(a), b), [(1, 1), (1, 7)]),
    "solve of none": (lambda a, b: torch.linalg.solve(well(a), b), [(0, 0), (0, 3)]),
    "solve for many": (lambda a, b: torch.linalg.solve(well(a), b), [(5, 5), (3, 5, 2)]),
    "logdet": (lambda a: torch.logdet(well(a)) * 2, [(2, 7, 7)]),
    "svd": (lambda a: torch.linalg.svd(a, full_matrices=False)[1].exp(), [(6, 3)]),
    "qr": (lambda a: torch.linalg.qr(a)[1].abs().sum(0), [(8, 4)]),
    "pinv": (lambda a, b: torch.linalg.pinv(a) @ b, [(9, 3), (9, 2)]),
    "real to complex": (lambda a: torch.fft.rfft(a * 1).abs() + 1, [(3, 17)]),
    "complex to real": (lambda a: torch.fft.irfft(torch.fft.rfft2(a) * 2), [(8, 16)]),
    "broadcast": (lambda a, b: torch.ops.aten.special_xlog1py(a.exp(), b.exp()), [(3, 1), (5,)]),
    "promotion": (lambda a, b: torch.ops.aten.special_xlog1py(a.exp(), b.double().exp()), [(3, 4), (3, 4)]),
    "several nodes": (lambda a: TWICE(a) + TWICE(a * 2), [(4, 5)]),
    "no elements": (lambda a: TWICE(a) * 2, [(0, 5)]),
    "hooks": (lambda a: HOOKED(a) * a, [(4, 5)]),
    "results without a gradient": (lambda a: PARTLY(a)[0] + PARTLY(a)[1], [(7,)]),
    "a function of its own": (lambda a: CUBE(a) * 2, [(16,)]),
    "one operator after another": (lambda a: torch.linalg.matrix_exp(torch.linalg.inv(well(a))).sum(-1), [(4, 4)]),
}  # fmt: skip


def inputs_of(shapes, dtype, seed):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=g, dtype=torch.float64).to(DEVICE, dtype).requires_grad_() for s in shapes]


def gradients(result, inputs, by_grad):
    loss = result.square().sum()
    if by_grad:
        return torch.autograd.grad(loss, inputs)
    loss.backward()
    return [t.grad for t in inputs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_eagers(name, dtype):
    f, shapes = PROGRAMS[name]
    jitted = thunder.jit(f)
    for seed, by_grad in ((0, False), (1, False), (2, True)):
        inputs, twins = inputs_of(shapes, dtype, seed), inputs_of(shapes, dtype, seed)
        got, want = jitted(*inputs), f(*twins)
        bound = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
        torch.testing.assert_close(got, want, **bound)
        for a, b in zip(gradients(got, inputs, by_grad), gradients(want, twins, by_grad), strict=True):
            torch.testing.assert_close(a, b, **bound)
    assert thunder.cache_misses(jitted) == 1 and not thunder.compile_stats(jitted)["eager_calls"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_types(dtype):
    jitted = thunder.jit(lambda a: TWICE(a))
    inputs, twins = inputs_of([(33, 5)], dtype, 0), inputs_of([(33, 5)], dtype, 0)
    got, want = jitted(*inputs), TWICE(*twins)
    gradient = torch.randn_like(want)
    got.backward(gradient)
    want.backward(gradient)
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    torch.testing.assert_close(inputs[0].grad, twins[0].grad, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["solve", "several nodes", "hooks", "logdet"])
def test_a_second_backward_gives_the_same(name):
    f, shapes = PROGRAMS[name]
    jitted = thunder.jit(f)
    jitted(*inputs_of(shapes, torch.float64, 1))
    inputs = inputs_of(shapes, torch.float64, 2)
    loss = jitted(*inputs).sum()
    loss.backward(retain_graph=True)
    first = [t.grad.clone() for t in inputs]
    loss.backward()
    for t, g in zip(inputs, first, strict=True):
        torch.testing.assert_close(t.grad, 2 * g)


def nodes(compiled, *inputs):
    """What PyTorch's engine ran in a backward."""
    loss = compiled(*inputs).sum()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        loss.backward()
    names = [e.name.rpartition(": ")[2] for e in seen.events() if "evaluate_function" in e.name]
    return [n for n in names if not n.startswith(("SumBackward", "ThunderBackward", "torch::autograd::AccumulateGrad"))]


@pytest.mark.parametrize("name", ["solve", "several nodes", "svd", "complex to real", "a function of its own"])
def test_the_engine_is_not_entered_again(name):
    f, shapes = PROGRAMS[name]
    jitted = thunder.jit(f)
    jitted(*inputs_of(shapes, torch.float64, 1)).sum().backward()
    found = nodes(jitted, *inputs_of(shapes, torch.float64, 2))
    # The last of these has a backward of its own.
    assert found == [] if name != "a function of its own" else len(found) < 3, found


def test_hooks_are_the_engines():
    f, shapes = PROGRAMS["hooks"]
    jitted = thunder.jit(f)
    jitted(*inputs_of(shapes, torch.float64, 1)).sum().backward()
    assert nodes(jitted, *inputs_of(shapes, torch.float64, 2))


def test_sparse_gradients_from_two_sides():
    """A sum of a sparse and a dense gradient."""
    place = torch.tensor([[0, 2, 1], [1, 0, 1]], device=DEVICE)

    def f(values, x):
        s = torch.sparse_coo_tensor(place, values, (3, 3))
        return torch.sparse.mm(s, x) + s.to_dense() @ x

    jitted = thunder.jit(f)
    for seed in (0, 1):
        inputs, twins = inputs_of([(3,), (3, 4)], torch.float64, seed), inputs_of([(3,), (3, 4)], torch.float64, seed)
        got, want = jitted(*inputs), f(*twins)
        torch.testing.assert_close(got, want)
        for a, b in zip(gradients(got, inputs, False), gradients(want, twins, False), strict=True):
            torch.testing.assert_close(a, b)


def test_none_as_out():
    jitted = thunder.jit(lambda a: torch.linalg.cholesky_ex(well(a), out=None)[0])
    a = inputs_of([(4, 4)], torch.float64, 0)[0]
    torch.testing.assert_close(jitted(a), torch.linalg.cholesky_ex(well(a))[0])
    assert not thunder.compile_stats(jitted)["eager_calls"]


@pytest.mark.skipif(DEVICE != "cpu", reason="a failed assertion on a GPU ends the process")
@pytest.mark.parametrize("message", [(), ("not finite",)])
def test_assertions_about_values(message):
    """They are asked in every call, in their place, and nothing is compiled for their answers."""
    written = torch.zeros(1)

    def f(x):
        y = x.log()
        written.add_(1)
        torch._assert_async(y.isfinite().all(), *message)
        return y * 2

    jitted = thunder.jit(f)
    for values in ([1.0, 2.0], [3.0, 4.0]):
        x, twin = (torch.tensor(values, requires_grad=True) for _ in range(2))
        jitted(x).sum().backward()
        (twin.log() * 2).sum().backward()
        torch.testing.assert_close(x.grad, twin.grad)
    with pytest.raises(RuntimeError, match="not finite" if message else "Expected Tensor with single nonzero value"):
        jitted(torch.tensor([1.0, 0.0], requires_grad=True))
    torch.testing.assert_close(jitted(torch.ones(2)), torch.zeros(2))
    assert written.item() == 4 and not thunder.compile_stats(jitted)["eager_calls"]


def test_assertions_that_hold():
    def f(x, limit):
        torch._assert_async((x < limit).all(), "too large")
        return x + 1

    jitted = thunder.jit(f)
    for n in (4, 1, 7, 8):
        x = torch.rand(n, device=DEVICE)
        torch.testing.assert_close(jitted(x, 2.0), x + 1)
    assert not thunder.compile_stats(jitted)["eager_calls"]
    with pytest.raises(TypeError):
        thunder.jit(lambda x: torch._assert_async(True))(x)
