"""Executors, operators and gradient rules made in Python."""

import functools
import uuid

import pytest
import torch
import torch.nn.functional as F

import thunder
from thunder.core.proxies import TensorProxy
from thunder.core.transforms import get_grad, put_grad, register_grad
from thunder.extend import FusionExecutor, OperatorExecutor


def fresh(kind=OperatorExecutor, **kwargs):
    """An executor of a name of its own: the registry keeps operators for the process."""
    return kind("test_" + uuid.uuid4().hex[:8], **kwargs)


def names(trace):
    return [call.name for call in trace.calls]


def gradients(fn, *tensors):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = fn(*leaves)
    (out * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
    return [leaf.grad for leaf in leaves]


# ---- operators -------------------------------------------------------------------------------------------------------


def test_operator_called_directly():
    ex = fresh()
    calls = []

    def scaled(a, b, scale=1.0):
        calls.append(scale)
        return a * b * scale

    op = ex.register_operator("scaled", meta=lambda a, b, scale=1.0: TensorProxy(like=a), fn=scaled)
    f = thunder.jit(lambda a, b: op(a, b, scale=3.0) + 1)  # needs not stand in the list of executors
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    torch.testing.assert_close(f(a, b), a * b * 3 + 1)
    assert calls == [3.0]
    assert "scaled" in names(thunder.last_traces(f)[-1])
    torch.testing.assert_close(op(a, b), a * b)  # outside of a compiled function it is the function


def test_operator_with_several_results_and_a_number():
    ex = fresh()

    def meta(a):
        return TensorProxy(like=a, shape=a.shape[:1]), TensorProxy(shape=(), dtype=torch.int64, device=a.device), None

    op = ex.register_operator("stats", meta=meta, fn=lambda a: (a.sum(1), torch.tensor(a.numel()), None))

    def fn(a):
        s, n, nothing = op(a)
        assert nothing is None
        return s * 2, n

    a = torch.randn(4, 5)
    s, n = thunder.jit(fn)(a)
    torch.testing.assert_close(s, a.sum(1) * 2)
    assert n.item() == 20


def test_operator_that_returns_its_argument_is_a_new_tensor_to_the_program():
    ex = fresh()
    op = ex.register_operator("same", like=lambda a: a, fn=lambda a: a)
    a = torch.randn(3)
    torch.testing.assert_close(thunder.jit(lambda a: op(a) + a)(a), 2 * a)


def test_metadata_of_proxies_reads_correctly():
    seen = {}

    def meta(a):
        out = TensorProxy(like=a, shape=(a.shape[0], 7), dtype=torch.float64)
        seen.update(shape=tuple(out.shape), dtype=out.dtype, device=out.device, ndim=out.ndim)
        seen.update(instance=isinstance(a, TensorProxy))
        return out

    op = fresh().register_operator("widen", meta=meta, fn=lambda a: a.new_zeros(a.shape[0], 7, dtype=torch.float64))
    assert thunder.jit(lambda a: op(a) + 1)(torch.ones(2, 3)).shape == (2, 7)
    assert seen == {"shape": (2, 7), "dtype": torch.float64, "device": torch.device("cpu"), "instance": True, "ndim": 2}
    alone = TensorProxy(shape=(2, 3), dtype=torch.int32)
    assert alone.shape == (2, 3) and alone.dtype == torch.int32 and alone.device.type == "cpu"
    assert TensorProxy(like=alone, shape=(4,)).shape == (4,)


def test_gradient_through_like():
    ex = fresh()
    calls = []

    def silu(a):
        calls.append(1)
        return a * torch.sigmoid(a)

    op = ex.register_operator("my_silu", like=lambda a: F.silu(a), fn=silu)
    a = torch.randn(3, 4)
    torch.testing.assert_close(gradients(thunder.jit(op.__call__), a), gradients(F.silu, a))
    assert calls


def test_replaces_a_torch_function_that_is_known():
    ex = fresh()
    ex.register_operator("my_sin", like=torch.sin, fn=lambda input: torch.cos(input), replaces=torch.sin)
    a = torch.randn(3)
    torch.testing.assert_close(thunder.jit(torch.sin, executors=[ex])(a), torch.cos(a))
    torch.testing.assert_close(thunder.jit(lambda a: torch.sin(a))(a), torch.sin(a))  # not in the list


def test_replaces_a_torch_function_that_is_unknown():
    unknown = torch.special.bessel_j0
    if thunder._C.is_registered(unknown):
        unknown = torch.special.airy_ai
    assert not thunder._C.is_registered(unknown)
    ex = fresh()
    ex.register_operator("bessel", meta=lambda a: TensorProxy(like=a), fn=unknown, replaces=unknown)
    a = torch.rand(3)
    torch.testing.assert_close(thunder.jit(lambda a: unknown(a) * 2)(a), unknown(a) * 2)


# ---- implementations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("symbol", ["torch.nn.functional.gelu", "torch.gelu", F.gelu, "symbol", "ltorch.gelu"])
def test_implementation_by_priority(symbol):
    symbol = thunder.torch.gelu if symbol == "symbol" else symbol
    first, second = fresh(), fresh()
    for ex, factor in ((first, 10), (second, 100)):
        op = ex.register_operator(f"gelu_{factor}", like=thunder.torch.gelu, fn=_times(factor))
        ex.register_implementation(symbol, op)
    a = torch.randn(3)
    fn = lambda a: F.gelu(a)
    torch.testing.assert_close(thunder.jit(fn, executors=[first, second])(a), a * 10)
    torch.testing.assert_close(thunder.jit(fn, executors=[second, first])(a), a * 100)
    torch.testing.assert_close(thunder.jit(fn)(a), F.gelu(a))


def _times(factor):
    return lambda input, *, approximate="none": input * factor


def test_checker_refuses():
    ex = fresh()
    op = ex.register_operator("gelu", like=thunder.torch.gelu, fn=_times(10))
    seen = []

    def checker(a, *, approximate="none"):
        seen.append((a.shape, a.dtype, approximate))
        return approximate == "none" and a.ndim == 2

    ex.register_implementation(F.gelu, op, checker=checker)
    a, b = torch.randn(2, 3), torch.randn(3)
    f = thunder.jit(lambda a, b: (F.gelu(a), F.gelu(b), F.gelu(a, approximate="tanh")), executors=[ex])
    torch.testing.assert_close(f(a, b), (a * 10, F.gelu(b), F.gelu(a, approximate="tanh")))
    assert ((2, 3), torch.float32, "tanh") in seen


def test_operator_with_fewer_parameters_takes_calls_at_defaults():
    ex = fresh()
    op = ex.register_operator(
        "ce", like=lambda a, target: F.cross_entropy(a, target), fn=lambda a, target: torch.tensor(7.0)
    )
    ex.register_implementation("torch.nn.functional.cross_entropy", op)
    logits, target = torch.randn(4, 5), torch.randint(5, (4,))
    f = thunder.jit(lambda x, y: (F.cross_entropy(x, y), F.cross_entropy(x, y, reduction="sum")), executors=[ex])
    mean, total = f(logits, target)
    assert mean.item() == 7.0
    torch.testing.assert_close(total, F.cross_entropy(logits, target, reduction="sum"))


def test_execution_transform():
    ex = fresh()
    op = ex.register_operator("square", meta=lambda a: TensorProxy(like=a), fn=lambda a: a * a)
    ex.register_implementation("torch.mul", checker=lambda a, b: a is b, execution_transform=lambda a, b: op(a))
    f = thunder.jit(lambda a, b: a * a + a * b, executors=[ex])
    a, b = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(f(a, b), a * a + a * b)
    assert names(thunder.last_traces(f)[-1]).count("square") == 1


def test_implementation_of_a_primitive():
    ex = fresh()
    ran = []

    def my_exp(a):
        ran.append(a.shape)
        return torch.exp(a)

    op = ex.register_operator("my_exp", like=lambda a: thunder.prims.exp(a), fn=my_exp)
    ex.register_implementation(thunder.prims.exp, op)
    f = thunder.jit(lambda a: thunder.prims.exp(a), executors=[ex])
    a = torch.randn(3)
    torch.testing.assert_close(f(a), torch.exp(a))
    assert ran == [(3,)]


# ---- gradients -------------------------------------------------------------------------------------------------------


def test_grad_transform():
    ex = fresh()
    ran = []

    def forward(a):
        ran.append("forward")
        return torch.sin(a), torch.cos(a)

    def backward(g, cos):
        ran.append("backward")
        return g * cos

    fw = ex.register_operator("sin_forward", meta=lambda a: (TensorProxy(like=a), TensorProxy(like=a)), fn=forward)
    bw = ex.register_operator("sin_backward", meta=lambda g, cos: TensorProxy(like=g), fn=backward)
    alone = ex.register_operator("sin_alone", meta=lambda a: TensorProxy(like=a), fn=torch.sin)

    def rule(a):
        out, cos = fw(a)
        put_grad(a, bw(get_grad(out), cos))
        return out

    ex.register_implementation(torch.sin, alone, grad_transform=rule)
    a = torch.randn(2, 3)
    f = thunder.jit(lambda a: torch.sin(a * 2) * 3, executors=[ex])
    torch.testing.assert_close(gradients(f, a), gradients(lambda a: torch.sin(a * 2) * 3, a))
    assert ran == ["forward", "backward"]
    assert "sin_forward" in names(thunder.last_traces(f)[-1])
    assert "sin_backward" in names(thunder.last_backward_traces(f)[-1])
    f(a)  # without gradients the plain operator runs
    assert ran == ["forward", "backward"]
    assert "sin_alone" in names(thunder.last_traces(f)[-1])


def test_grad_transform_with_two_inputs_used_twice_and_an_unused_gradient():
    ex = fresh()

    def rule(a, b):
        out = a * b
        g = get_grad(out)
        put_grad(a, g * b)
        put_grad(b, g * a)
        return out

    ex.register_implementation("torch.mul", grad_transform=rule)
    a, b = torch.randn(3), torch.randn(3)
    fn = lambda a, b: (a * b) * a + (b * b)
    torch.testing.assert_close(gradients(thunder.jit(fn, executors=[ex]), a, b), gradients(fn, a, b))


def test_register_grad_of_an_operator_of_ones_own():
    ex = fresh()
    op = ex.register_operator("cube", meta=lambda a: TensorProxy(like=a), fn=lambda a: a**3)

    def rule(a):
        out = op(a)
        put_grad(a, get_grad(out) * 3 * a * a)
        return out

    fn = lambda a: op(a) * 2
    a = torch.randn(4)
    with pytest.raises(NotImplementedError, match="cube.*no gradient rule"):
        gradients(thunder.jit(fn), a)
    register_grad(op, rule)
    torch.testing.assert_close(gradients(thunder.jit(fn), a), gradients(lambda a: a**3 * 2, a))


def test_register_grad_of_a_torch_symbol_holds_for_all_executors():
    name = "torch.special.log_ndtr"
    try:
        symbol = thunder.extend._registration.symbol_id(name)
    except ValueError:
        symbol = "torch.erf"

    def rule(input):
        out = thunder.symbols.symbol(symbol)(input)
        put_grad(input, get_grad(out) * 5)
        return out

    register_grad(symbol, rule)
    try:
        a = torch.rand(3)
        grad = gradients(thunder.jit(lambda a: thunder.symbols.symbol(symbol)(a)), a)[0]
        torch.testing.assert_close(grad, 5 * torch.arange(1.0, 4.0))
    finally:
        thunder._C.unregister_gradient_rule(symbol)


def test_gradient_rule_errors():
    ex = fresh()

    def of_an_intermediate(a):
        b = a * 2
        put_grad(a, get_grad(b))
        return b + 1

    def to_no_argument(a):
        b = a * 2
        put_grad(b, get_grad(b))
        return b

    for rule, message in ((of_an_intermediate, "does not return"), (to_no_argument, "no argument")):
        ex.register_implementation("torch.sin", grad_transform=rule)
        with pytest.raises(ValueError, match=message):
            gradients(thunder.jit(lambda a: torch.sin(a), executors=[ex]), torch.randn(3))
    with pytest.raises(RuntimeError, match="outside of a gradient rule"):
        get_grad(torch.randn(3))


# ---- errors ----------------------------------------------------------------------------------------------------------


class Mine(Exception):
    pass


def _raise(*args, **kwargs):
    raise Mine("from the callback")


def test_exceptions_of_callbacks_come_out_as_they_are():
    a = torch.randn(3)
    ex = fresh()
    op = ex.register_operator("broken_meta", meta=lambda a: _raise(), fn=torch.sin)
    with pytest.raises(Mine, match="from the callback"):
        thunder.jit(lambda a: op(a))(a)
    op = ex.register_operator("broken", meta=lambda a: TensorProxy(like=a), fn=lambda a: _raise())
    with pytest.raises(Mine):
        thunder.jit(lambda a: op(a))(a)
    for kwargs in ({"checker": _raise, "execution_transform": lambda a: a}, {"execution_transform": _raise}):
        broken = fresh()
        broken.register_implementation(torch.sin, **kwargs)
        with pytest.raises(Mine):
            thunder.jit(lambda a: torch.sin(a), executors=[broken])(a)
    broken = fresh()
    broken.register_implementation(torch.sin, grad_transform=_raise)
    with pytest.raises(Mine):
        gradients(thunder.jit(lambda a: torch.sin(a), executors=[broken]), a)


def test_results_that_are_none_are_errors_that_name_the_operator():
    a = torch.randn(3)
    ex = fresh()
    two = lambda a: (TensorProxy(like=a), TensorProxy(like=a))
    cases = [
        (lambda a: TensorProxy(like=a), lambda a: 3, "returned a int"),
        (two, lambda a: a, "returned a Tensor, its meta function gives 2 results"),
        (two, lambda a: (a, a, a), "returned 3 results, its meta function gives 2"),
    ]
    for i, (meta, fn, message) in enumerate(cases):
        op = ex.register_operator(f"wrong{i}", meta=meta, fn=fn)
        with pytest.raises((TypeError, RuntimeError), match=rf"wrong{i}\] {message}"):
            thunder.jit(lambda a, op=op: op(a))(a)


def test_transform_that_gives_another_shape():
    ex = fresh()
    ex.register_implementation(torch.sin, execution_transform=lambda a: a.sum())
    with pytest.raises(ValueError, match="transform of executor"):
        thunder.jit(lambda a: torch.sin(a), executors=[ex])(torch.randn(3))


def test_rule_that_writes_in_place_or_uses_a_tensor_of_its_own():
    ex = fresh()
    ex.register_implementation(torch.sin, execution_transform=lambda a: a.mul_(2))
    with pytest.raises(NotImplementedError, match="in place"):
        thunder.jit(lambda a: torch.sin(a), executors=[ex])(torch.randn(3))
    own = torch.randn(3)
    ex.register_implementation(torch.sin, execution_transform=lambda a: a * own)
    with pytest.raises(NotImplementedError, match="none of its arguments"):
        thunder.jit(lambda a: torch.sin(a), executors=[ex])(torch.randn(3))


def test_registration_errors():
    ex = fresh()
    with pytest.raises(ValueError, match="identifier"):
        ex.register_operator("a b", meta=lambda a: a)
    with pytest.raises(ValueError, match="meta= or like="):
        ex.register_operator("op", fn=torch.sin)
    with pytest.raises(ValueError, match="must be named"):
        ex.register_operator("op", meta=lambda *a: a)
    with pytest.raises(ValueError, match="unknown tag"):
        ex.register_operator("op", meta=lambda a: a, tags=("pointless",))
    with pytest.raises(ValueError, match="no operator"):
        ex.register_implementation("torch.nonsense", execution_transform=lambda a: a)
    with pytest.raises(ValueError, match="needs an operator"):
        ex.register_implementation(torch.sin)
    with pytest.raises(TypeError, match="register_operator"):
        ex.register_implementation(torch.sin, torch.cos)
    with pytest.raises(NotImplementedError, match="replaces="):
        ex.register_operator("op", meta=lambda a: a, replaces=lambda a: a)


# ---- lists of executors ----------------------------------------------------------------------------------------------


def test_lists():
    ex = fresh(version=2)
    assert ex.version == "2"
    assert thunder.extend.register_executor(ex) is ex
    try:
        assert thunder.extend.get_executor(ex.name) is ex
        assert ex in thunder.extend.get_all_executors() and ex.name in thunder.extend.list_executors()
        op = ex.register_operator("my_sin", like=thunder.torch.sin, fn=torch.cos)
        ex.register_implementation(torch.sin, op)
        a = torch.randn(3)
        torch.testing.assert_close(thunder.jit(lambda a: torch.sin(a), executors=[ex.name])(a), torch.cos(a))
        thunder.extend.add_default_executor(ex)
        assert thunder.extend.get_default_executors()[0] is ex
        torch.testing.assert_close(thunder.jit(lambda a: torch.sin(a))(a), torch.cos(a))
        thunder.extend.remove_default_executor(ex)
        assert ex not in thunder.extend.get_default_executors()
        thunder.extend.add_always_executor(ex)
        assert thunder.extend.get_always_executors()[-1] is ex
        thunder.extend.remove_always_executor(ex)
        assert ex not in thunder.extend.get_always_executors() and thunder.extend.get_executor(ex.name) is ex
    finally:
        thunder.extend.deregister_executor(ex)
    assert thunder.extend.get_executor(ex.name) is None
    with pytest.raises(ValueError, match="unknown executor.*'aten'"):
        thunder.jit(torch.sin, executors=[ex.name])


def test_unavailable_executors_say_why():
    from thunder.executors.apex_entropyex import apex_ex
    from thunder.executors.triton_crossentropy import triton_ex

    assert apex_ex.unavailable
    assert triton_ex.unavailable or torch.cuda.is_available()
    for ex in (apex_ex, triton_ex):
        if ex.unavailable:
            with pytest.raises(ValueError, match="cannot be used here"):
                thunder.jit(torch.sin, executors=[ex])


# ---- fusion ----------------------------------------------------------------------------------------------------------


class Recorder(FusionExecutor):
    """Runs regions by their own calls, and keeps them."""

    def __init__(self):
        super().__init__("test_" + uuid.uuid4().hex[:8], prefix="fused")
        self.seen = []

    def fuse(self, region):
        self.seen.append(region)
        program = [(c.symbol, c.arguments, c.result) for c in region.calls]

        def run(*inputs):
            env = dict(zip(region.inputs, inputs, strict=True))
            for symbol, args, result in program:
                env[result] = _run(symbol, [env.get(a, a) if isinstance(a, thunder._C.Value) else a for a in args])
            return tuple(env[v] for v in region.outputs)

        return run


def _run(symbol, args):
    table = {"torch.mul": torch.mul, "torch.sin": torch.sin, "torch.cos": torch.cos}
    return table[symbol](*args[:2]) if symbol == "torch.mul" else table[symbol](args[0])


def test_fusion_executor():
    ex = Recorder()
    for symbol in ("torch.mul", torch.sin, "torch.cos"):
        ex.register_supported(symbol)

    def fn(a, b):
        x = torch.sin(a * b)
        y = torch.exp(x)  # not supported: what needs it is another region
        z = torch.cos(a) * 2
        return y * z, z

    f = thunder.jit(fn, executors=[ex])
    a, b = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(f(a, b), fn(a, b))
    final = thunder.last_traces(f)[-1]
    assert [n for n in names(final) if n != "prims.python_del"] == ["fused0", "torch.exp", "fused1"]
    assert [len(r.calls) for r in ex.seen] == [4, 1]
    assert "torch.sin" in str(final)  # the calls of a region print below it


def test_fusion_executor_with_a_checker_and_gradients():
    ex = Recorder()
    ex.register_supported("torch.mul", checker=lambda a, b: a.ndim == 2)
    fn = lambda a, b: a * a * b.sum()
    f = thunder.jit(fn, executors=[ex])
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    torch.testing.assert_close(gradients(f, a, b), gradients(fn, a, b))
    assert ex.seen and all(v.shape == (2, 3) for r in ex.seen for v in r.outputs)


def test_fusion_pass_of_ones_own():
    class Swap(FusionExecutor):
        def fusion_pass(self, trace):
            sin = [c for c in trace.calls if c.symbol == "torch.sin"]
            return trace.replace(sin, lambda a: (torch.cos(a),), executor=self, name="swapped")

    ex = fresh(Swap)
    f = thunder.jit(lambda a: torch.sin(a) + 1, executors=[ex])
    a = torch.randn(3)
    torch.testing.assert_close(f(a), torch.cos(a) + 1)
    assert "swapped0" in names(thunder.last_traces(f)[-1])


def test_an_executor_keeps_its_calls_from_fusion():
    class Asked(FusionExecutor):
        def fusion_pass(self, trace):
            taken.update({c.name: (c.executor, c.may_be_fused) for c in trace.calls if c.executor})
            return trace

    taken, own = {}, fresh()
    op = own.register_operator("triple", like=lambda a: a, fn=lambda a: a * 3)
    f = thunder.jit(lambda a: torch.sin(op(a)), executors=[own, fresh(Asked)])
    a = torch.randn(3)
    torch.testing.assert_close(f(a), torch.sin(a * 3))
    assert set(taken.values()) == {(own.name, False), ("aten", True)}


def test_region_that_is_no_region():
    class Bad(FusionExecutor):
        def fusion_pass(self, trace):
            return trace.replace([c for c in trace.calls if c.symbol == "torch.sin"], lambda a: (a, a), executor=self)

    with pytest.raises(ValueError, match="cannot be replaced by one call"):
        thunder.jit(lambda a: torch.sin(torch.exp(torch.sin(a))), executors=[fresh(Bad)])(torch.randn(3))


def test_fusion_pass_that_returns_nothing():
    class Nothing(FusionExecutor):
        def fusion_pass(self, trace):
            return None

    with pytest.raises(TypeError, match="must return a trace"):
        thunder.jit(lambda a: torch.sin(a), executors=[fresh(Nothing)])(torch.randn(3))


@functools.cache
def _torch_compile_fails():
    """Why torch.compile itself makes no program with this machine's compiler; None if it does."""
    try:
        torch.compile(lambda x: x.sin() * 2)(torch.ones(7))
    except Exception as error:
        return f"torch.compile: {str(error).splitlines()[0]}"
    return None


@pytest.fixture
def torch_compile_works():
    if reason := _torch_compile_fails():
        pytest.skip(reason)


@pytest.mark.usefixtures("torch_compile_works")
def test_torch_compile_executor():
    from thunder.executors.torch_compile import torch_compile_ex

    def fn(a, b):
        return F.gelu(a * b + 1).sum(1), (a.t() - b.t())[:, 1:]

    f = thunder.jit(fn, executors=[torch_compile_ex])
    a, b = torch.randn(4, 5), torch.randn(4, 5)
    torch.testing.assert_close(f(a, b), fn(a, b))
    assert [n for n in names(thunder.last_traces(f)[-1]) if n != "prims.python_del"] == ["TorchCompile0"]


@pytest.mark.usefixtures("torch_compile_works")
def test_torch_compile_executor_gives_operators_their_defaults():
    """ATen's embedding takes no None for a padding index."""
    from thunder.executors.torch_compile import torch_compile_executor

    embedding, i = torch.nn.Embedding(10, 4), torch.tensor([1, 2])
    f = thunder.jit(lambda i: embedding(i).sin() * 2, executors=[torch_compile_executor])
    torch.testing.assert_close(f(i), embedding(i).sin() * 2)
    assert names(thunder.last_traces(f)[-1])[0] == "TorchCompile0"


@pytest.mark.usefixtures("torch_compile_works")
def test_torch_compile_cat_executor_takes_only_regions_that_concatenate():
    from thunder.executors.torch_compile import torch_compile_cat_ex, torch_compile_executor

    assert torch_compile_executor.name == "torchcompile"

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    x, cos, sin = torch.randn(2, 3, 8), torch.randn(3, 8), torch.randn(3, 8)
    f = thunder.jit(rotate, executors=[torch_compile_cat_ex])
    torch.testing.assert_close(gradients(f, x, cos, sin), gradients(rotate, x, cos, sin))
    assert "TorchCompile0" in names(thunder.last_traces(f)[-1])
    g = thunder.jit(lambda x: torch.sin(x) * 2, executors=[torch_compile_cat_ex])
    g(x)
    assert not any(n.startswith("TorchCompile") for n in names(thunder.last_traces(g)[-1]))
