"""thunder.jit: what may be compiled, and what is guarded."""

import copy
import dataclasses
from collections import OrderedDict, namedtuple
from typing import NamedTuple

import pytest
import torch
from devices import DEVICE
from mlp import Mlp
from torch import nn
from torch.testing import assert_close

import thunder

F = nn.functional


def check(fn, *args, **kwargs):
    """The compiled function gives what eager gives; returns it."""
    compiled = thunder.jit(fn)
    for _ in range(2):
        assert_close(compiled(*args, **kwargs), fn(*args, **kwargs))
    assert thunder.cache_misses(compiled) == 1
    return compiled


# ---- what is compiled ------------------------------------------------------------------------------------------------


def test_function():
    check(lambda a, b: torch.tanh(a) * b + 1, torch.randn(3, 4), torch.randn(4))


def test_decorators():
    @thunder.jit
    def f(x):
        """Twice x."""
        return x * 2

    @thunder.jit(cache="no caching")
    def g(x):
        return x * 3

    assert f.__name__ == "f" and f.__doc__ == "Twice x."
    assert_close(f(torch.ones(2)), torch.full((2,), 2.0))
    assert_close(g(torch.ones(2)), torch.full((2,), 3.0))


def test_method_of_a_class():
    class Scaler:
        factor = 3

        @thunder.jit
        def __call__(self, x):
            return x * self.factor

    assert_close(Scaler()(torch.ones(2)), torch.full((2,), 3.0))


def test_closure_and_globals():
    w, factor = torch.randn(3, requires_grad=True), 2.0

    def f(x):
        return x * w * factor

    compiled = check(f, torch.randn(3))
    x = torch.randn(3)
    compiled(x).sum().backward()
    assert_close(w.grad, x * factor)


def test_a_closure_that_changes():
    factor = 2.0

    def f(x):
        return x * factor

    compiled = thunder.jit(f)
    assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
    factor = 5.0
    assert_close(compiled(torch.ones(2)), torch.full((2,), 5.0))


def test_default_and_keyword_arguments():
    def f(a, b=None, *rest, scale=1.0, **more):
        out = a * scale
        if b is not None:
            out = out + b
        for r in rest:
            out = out - r
        for v in more.values():
            out = out * v
        return out

    x, y, z = torch.randn(3, 3).unbind(0)
    compiled = thunder.jit(f)
    for args, kwargs in [
        ((x,), {}),
        ((x, y), {}),
        ((x, y, z), dict(scale=2)),
        ((x,), dict(b=y, scale=3.0, c=z)),
        ((x,), dict(c=z, b=y)),
    ]:
        assert_close(compiled(*args, **kwargs), f(*args, **kwargs))


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    y: torch.Tensor
    label: str = "p"


class Pair(NamedTuple):
    first: object
    second: object


def test_nested_containers_in():
    def f(tree):
        return tree["a"][0] + tree["b"].x * tree["b"].y + tree["c"].second + tree["n"]

    t = torch.randn(5, 3).unbind(0)
    check(f, {"a": [t[0], "text"], "b": Point(t[1], t[2]), "c": Pair(t[3], t[4]), "n": 2})


def test_nested_containers_out():
    def f(x):
        return {"a": [x + 1, (x * 2, None)], "b": Pair(x - 1, "text"), "n": 3, "again": x + 1}

    x = torch.randn(3)
    got = thunder.jit(f)(x)
    assert list(got) == ["a", "b", "n", "again"]
    assert type(got["b"]) is Pair and got["b"].second == "text" and got["n"] == 3 and got["a"][1][1] is None
    assert type(got["a"]) is list and type(got["a"][1]) is tuple
    assert_close(got["a"][1][0], x * 2)


def test_dataclass_out():
    got = thunder.jit(lambda x: Point(x + 1, x * 2, "q"))(torch.ones(2))
    assert type(got) is Point and got.label == "q"
    assert_close(got.y, torch.full((2,), 2.0))


def test_ordered_dict_and_namedtuple_keep_their_type():
    Old = namedtuple("Old", "u v")
    got = thunder.jit(lambda x: (OrderedDict(a=x + 1), Old(x, x * 2)))(torch.ones(2))
    assert type(got[0]) is OrderedDict and type(got[1]) is Old


def test_no_outputs_and_constant_outputs():
    assert thunder.jit(lambda x: None)(torch.ones(2)) is None
    assert thunder.jit(lambda x: (1, "a", x.shape[0], x.dtype))(torch.ones(2)) == (1, "a", 2, torch.float32)
    assert thunder.jit(lambda: torch.ones(3))().tolist() == [1, 1, 1]


def test_a_captured_tensor_as_output():
    w = torch.randn(3)
    assert thunder.jit(lambda x: w)(torch.ones(1)) is w


def test_isinstance_and_type_inside():
    seen = []

    def f(x, p):
        seen.append(
            (
                isinstance(x, torch.Tensor),
                isinstance(p, nn.Parameter),
                torch.is_tensor(x),
                torch.compiler.is_compiling(),
            )
        )
        return x + p

    thunder.jit(f)(torch.ones(2), nn.Parameter(torch.ones(2)))
    assert seen[0][0] and seen[0][2] and seen[0][3]
    assert not torch.compiler.is_compiling()


def test_metadata_inside():
    def f(x):
        assert x.shape == (2, 3) and x.size(0) == 2 and x.dtype is torch.float64 and x.ndim == 2 and len(x) == 2
        assert x.device.type == DEVICE and x.numel() == 6 and x.stride() == (3, 1) and x.is_contiguous()
        assert x.is_floating_point() and not x.t().is_contiguous() and x.requires_grad
        return x.reshape(-1, x.size(-1) // 3)

    check(f, torch.randn(2, 3, dtype=torch.float64, requires_grad=True))


def test_python_control_flow_on_metadata():
    def f(x, n):
        for i in range(n):
            x = x + i if x.shape[0] > 2 else x * i
        return x

    compiled = thunder.jit(f)
    for shape, n in [((3,), 2), ((2,), 2), ((3,), 4)]:
        x = torch.randn(shape)
        assert_close(compiled(x, n), f(x, n))
    assert thunder.cache_misses(compiled) == 3


def test_iteration_and_unpacking():
    def f(x):
        a, b = x
        return sum(row for row in x) + a * b

    check(f, torch.randn(2, 3))


def test_compiled_inside_compiled():
    inner = thunder.jit(lambda x: torch.sin(x) * 2)

    def f(x):
        return inner(x + 1) - 1

    x = torch.randn(3)
    assert_close(thunder.jit(f)(x), f(x))


def test_random_draws_from_torchs_generator():
    def f(x):
        return F.dropout(x, 0.5) + torch.rand(4)

    compiled, x = thunder.jit(f), torch.ones(4)
    torch.manual_seed(3)
    want = [f(x), f(x)]
    torch.manual_seed(3)
    assert_close([compiled(x), compiled(x)], want)


def test_torch_tensor_of_numbers_and_of_traced_tensors():
    check(lambda x: x + torch.tensor([1.0, 2.0, 3.0]), torch.randn(3))
    check(lambda x: torch.tensor([x[0], x[1] * 2, 5.0]) + 1, torch.randn(3))
    check(lambda x: torch.as_tensor(x) + 1, torch.randn(3))


# ---- global state ----------------------------------------------------------------------------------------------------


def test_ranges_of_the_profiler_are_nothing_to_the_program():
    def f(x):
        with torch.profiler.record_function("twice"):
            y = x * 2
        return y + 1

    compiled, x = thunder.jit(f), torch.randn(3)
    for _ in range(2):
        assert_close(compiled(x), f(x))
    assert thunder.cache_misses(compiled) == 1 and not thunder.compile_stats(compiled)["eager_calls"]


def test_grad_modes():
    f, x = thunder.jit(lambda x: torch.sin(x) * 2), torch.randn(3, requires_grad=True)
    assert f(x).requires_grad
    with torch.no_grad():
        assert not f(x).requires_grad
    with torch.inference_mode():
        assert f(x).is_inference()
    assert f(x).requires_grad
    assert thunder.cache_misses(f) >= 2


def test_no_grad_inside():
    def f(x, w):
        with torch.no_grad():
            scale = (x * w).sum()
        return x * scale

    x, w = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    thunder.jit(f)(x, w).sum().backward()
    got, x.grad = x.grad, None
    f(x, w).sum().backward()
    assert w.grad is None
    assert_close(got, x.grad)


def test_autocast_outside_and_inside():
    model = Mlp()
    compiled, x = thunder.jit(model), torch.randn(2, 4)
    compiled(x)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert_close(compiled(x), model(x))
        assert compiled(x).dtype is torch.bfloat16
    assert compiled(x).dtype is torch.float32

    def f(a, b):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return a @ b

    assert_close(thunder.jit(f)(x, x.t()), f(x, x.t()))


def test_default_dtype():
    f = thunder.jit(lambda: torch.ones(2) * 2)
    assert f().dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert f().dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# ---- the cache -------------------------------------------------------------------------------------------------------


def test_cache_of_constant_values():
    f = thunder.jit(lambda x, n: x * n)
    for x, n in [
        (torch.ones(3), 2),
        (torch.zeros(3), 2),
        (torch.ones(3), 3),
        (torch.ones(4), 2),
        (torch.ones(3), 2.0),
        (torch.ones(3), True),
        (torch.ones(3, dtype=torch.float64), 2),
    ]:
        assert_close(f(x, n), x * n)
    assert thunder.cache_misses(f) == 6 and thunder.cache_hits(f) == 1


def test_programs_that_were_not_used_for_longest_are_forgotten():
    """What changes in every call would fill the memory."""
    f, x = thunder.jit(lambda x, n: x * n, cache="constant values"), torch.ones(3)
    for n in range(300):
        for _ in range(2):  # a function whose programs serve one call each is not compiled for long
            assert_close(f(x, float(n)), x * n)
        f(x, 0.0)
    assert thunder.cache_misses(f) == 300
    f(x, 299.0), f(x, 0.0)
    assert thunder.cache_misses(f) == 300
    f(x, 1.0)
    assert thunder.cache_misses(f) == 301


def test_strides_are_part_of_the_key():
    f, x = thunder.jit(lambda x: x.contiguous().view(-1)), torch.randn(3, 4)
    assert_close(f(x), x.view(-1))
    assert_close(f(x.t()), x.t().reshape(-1))


def test_no_caching():
    f = thunder.jit(lambda x: x + 1, cache="no caching")
    for _ in range(3):
        f(torch.ones(2))
    assert thunder.cache_misses(f) == 3


def test_same_input():
    f = thunder.jit(lambda x, n: x * n, cache="same input")
    assert_close(f(torch.ones(2), 2), torch.full((2,), 2.0))
    assert_close(f(torch.ones(2), 5), torch.full((2,), 2.0))  # unchecked, as asked for
    assert thunder.cache_misses(f) == 1


def test_symbolic_values():
    f = thunder.jit(lambda x: x.sum(0) / x.shape[0], cache="symbolic values")
    for n in (3, 5, 7):
        x = torch.randn(n, 2)
        assert_close(f(x), x.mean(0))


def test_why_it_missed():
    model = Mlp()
    compiled, x = thunder.jit(model), torch.randn(2, 4)
    compiled(x)
    model.scale = 2.0
    compiled(x)
    assert "scale" in thunder.explain_miss(compiled)


def test_options_that_do_not_exist():
    with pytest.raises(ValueError, match="'constant values'.*'no caching'"):
        thunder.jit(lambda x: x, cache="forever")
    with pytest.raises(ValueError, match="'aten'"):
        thunder.jit(lambda x: x, executors=["warp drive"])
    with pytest.raises(TypeError, match="callable"):
        thunder.jit(3)
    with pytest.raises(TypeError, match="compiled by thunder.jit"):
        thunder.last_traces(lambda x: x)


def test_executors_by_name_and_by_object():
    x = torch.randn(3)
    for executors in (["aten"], [thunder.pytorch_executor], []):
        f = thunder.jit(lambda x: torch.sin(x), executors=executors)
        assert_close(f(x), torch.sin(x))


def test_stats():
    f = thunder.jit(lambda x: torch.sin(x).sum())
    assert thunder.last_traces(f) == [] and thunder.compile_stats(f)["cache_misses"] == 0
    f(torch.randn(3, requires_grad=True)).backward()
    stats = thunder.compile_stats(f)
    assert stats["acquisition_seconds"] > 0 and stats["passes_seconds"] > 0 and stats["programs_seconds"] > 0
    assert any(name.startswith("forward: ") for name in stats["passes"])
    assert len(thunder.last_traces(f)) > 1 and len(thunder.last_backward_traces(f)) > 0


def test_transforms_run_on_the_acquired_program():
    names = []

    def look(trace):
        names.extend(call.op for call in trace.calls)
        return trace

    f = thunder.jit(lambda x: torch.sin(x) + 1, transforms=[look])
    f(torch.randn(3))
    assert any("sin" in n for n in names)


CAPTURED = torch.arange(3.0)
PARAMETER = torch.nn.Parameter(torch.arange(3.0))


@pytest.mark.parametrize("captured", [CAPTURED, PARAMETER], ids=["tensor", "parameter"])
def test_identity_of_an_argument_that_is_captured_too(captured):
    def f(x):
        others = [t for t in (captured, PARAMETER) if t is not x]
        return x is captured, captured is x, x is not captured, len(others), x * 2 if captured is x else x

    compiled = thunder.jit(f)
    for x in (captured, captured.detach().clone(), captured, captured[:]):
        assert_close(compiled(x), f(x))


TURNED = torch.arange(12.0).view(4, 3).t()


def test_a_captured_tensor_among_others():
    """`x in [w]` is true by identity, and asks for a comparison's truth else."""
    w, v = torch.ones(1), torch.zeros(1)

    def f(x):
        return x + 1 if x in [w] else x - 1, x * 2 if x not in (v, w) else x * 3

    compiled = thunder.jit(f)
    for x in (w, v, torch.ones(1), torch.full((1,), 5.0), w):
        assert_close(compiled(x), f(x))


def test_comparisons_with_a_captured_tensor():
    """The left operand's layout is the result's, though Python asks the subclass first."""

    def f(x):
        results = TURNED < x, x < TURNED, TURNED == x, TURNED >= x
        return results, [r.stride() for r in results]

    x = torch.arange(12.0, device=TURNED.device).view(3, 4)
    assert_close(thunder.jit(f)(x), f(x))


def test_a_class_of_cpythons_own_whose_attributes_are_read_and_set():
    # copyreg looks for `__slotnames__` of the class, and sets it where it can.
    def f(x):
        kept = copy.deepcopy(OrderedDict(a=x, b=1.0))
        return kept["a"] * len(kept)

    compiled = thunder.jit(f)
    for _ in range(2):
        x = torch.randn(3)
        torch.testing.assert_close(compiled(x), f(x))
