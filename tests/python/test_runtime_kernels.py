"""The default executor: every record fits its ATen operator, and primitives without one compute what they say."""

import pytest
import torch
from process_memory import megabytes, reset_peak
from torch.testing import assert_close

import thunder  # noqa: F401  # registers the operators
from thunder import _C


def evaluate(name, *args, **kwargs):
    return _C.evaluate(name, args, kwargs)


# Primitives that are no computation: the runtime knows them by name.
NOT_COMPUTED = {"prims.python_del"}


def test_every_record_fits_its_aten_operator():
    # What has no ATen operator and an executor that is always there, such as communication.
    without_aten = NOT_COMPUTED.union(*(e.symbols for e in _C.always_executors()))
    problems = [(name, problem) for name, problem in _C.check_records() if name not in without_aten]
    assert not problems, "\n".join(f"{name}: {problem}" for name, problem in problems)


@pytest.mark.parametrize(
    "start, end, step",
    [((0, 0), (4, 6), (1, 1)), ((1, 2), (4, 6), (1, 3)), ((2, 3), (2, 4), (1, 1)), ((0, 5), (4, 6), (2, 2))],
)
def test_slice(start, end, step):
    x = torch.randn(4, 6)
    out = evaluate("prims.slice", x, list(start), list(end), list(step))
    want = x[start[0] : end[0] : step[0], start[1] : end[1] : step[1]]
    assert_close(out, want)
    assert out.stride() == want.stride() and out is not x
    assert out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "shape, dims, target",
    [
        ((3,), (1,), (2, 3)),
        ((3, 1), (0, 2), (3, 5, 4)),
        ((), (), (2, 2)),
        ((2, 3), (0, 1), (2, 3)),
        ((1, 0), (0, 1), (4, 0)),
    ],
)
def test_broadcast_in_dim(shape, dims, target):
    x = torch.randn(shape)
    out = evaluate("prims.broadcast_in_dim", x, list(target), list(dims))
    want = x.reshape([shape[dims.index(d)] if d in dims else 1 for d in range(len(target))]).expand(target)
    assert_close(out, want)
    assert out.shape == torch.Size(target)
    assert out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_reshape_copies_and_view_does_not():
    x = torch.randn(4, 6)
    copy, view = evaluate("prims.reshape", x, [8, 3]), evaluate("prims.view", x, [8, 3])
    assert_close(copy, x.reshape(8, 3))
    assert copy.data_ptr() != x.data_ptr()
    assert view.data_ptr() == x.data_ptr()
    assert_close(evaluate("prims.reshape", x.t(), [8, 3]), x.t().reshape(8, 3))


@pytest.mark.parametrize(
    "config",
    [((1, 2, 0), (0, 3, 0)), ((-1, 0, 0), (2, -2, 0)), ((0, 0, 2), (1, 1, 1)), ((-1, 2, 1), (0, 0, 0))],
)
def test_pad(config):
    x = torch.randn(3, 4)
    out = evaluate("prims.pad", x, 0.5, [list(c) for c in config])
    steps = [interior + 1 for _, _, interior in config]
    wide = torch.full([(n - 1) * step + 1 for n, step in zip(x.shape, steps, strict=True)], 0.5)
    wide[:: steps[0], :: steps[1]] = x
    pads = [p for low, high, _ in reversed(config) for p in (low, high)]
    assert_close(out, torch.nn.functional.pad(wide, pads, value=0.5))


def test_pad_keeps_the_dtype():
    out = evaluate("prims.pad", torch.tensor([True]), 0, [[0, 1, 0]])
    assert out.dtype is torch.bool and out.tolist() == [True, False]


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dims", [[], [0], [1, 2], [0, 1, 2]])
def test_reductions_over_dims(name, dims):
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    want = x
    for d in sorted(dims, reverse=True):
        want = getattr(want, name)(d)
    out = evaluate("prims." + name, x, dims)
    assert_close(out, want)
    assert out.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("correction", [0, 1, 0.5])
@pytest.mark.parametrize("dims", [[], [1], [0, 2]])
def test_var(dims, correction):
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    want = x.var(dims, correction=correction) if dims else x[..., None].var(-1, correction=correction)
    assert_close(evaluate("prims.var", x, dims, correction=correction), want, equal_nan=True)


def test_an_integer_sum_keeps_its_dtype():
    assert evaluate("prims.sum", torch.ones(3, dtype=torch.int32), [0]).dtype is torch.int32


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("dims", [[], [1], [0, 1]])
def test_any_and_all(name, dims):
    x = torch.tensor([[True, False, True], [True, True, True]])
    want = x
    for d in sorted(dims, reverse=True):
        want = getattr(want, name)(d)
    assert_close(evaluate("prims." + name, x, dims), want)


@pytest.mark.parametrize(
    "n, start, step, dtype",
    [(5, 2, 3, torch.int64), (4, 9, -2, torch.int32), (7, 0.1, 0.1, torch.float32), (0, 1, 1, torch.int64)],
)
def test_iota(n, start, step, dtype):
    out = evaluate("prims.iota", n, start, step, dtype=dtype, device=torch.device("cpu"))
    assert out.dtype is dtype and out.shape == (n,)
    assert_close(out.double(), start + step * torch.arange(n, dtype=torch.float64), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("data", [[1, 2, 3], [[1, 2], [3, 4]], [], [[]], 7, [True, False], [1, 2.5]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64])
def test_tensor_from_sequence(data, dtype):
    out = evaluate("prims.tensor_from_sequence", data, dtype=dtype, device=torch.device("cpu"))
    want = torch.tensor(data, dtype=dtype)
    assert torch.equal(out, want) and out.dtype is dtype and out.shape == want.shape


def test_graft_is_its_data():
    a, data = torch.randn(3), torch.randn(3)
    assert evaluate("prims.graft", a, data).data_ptr() == data.data_ptr()


def test_slice_scatter():
    x, src = torch.zeros(4, 6), torch.randn(2, 3)
    out = evaluate("prims.slice_scatter", x, src, [1, 0], [3, 6], [1, 2])
    want = x.clone()
    want[1:3, 0:6:2] = src
    assert_close(out, want)
    assert x.abs().sum() == 0


def test_numbers_in_place_of_tensors():
    x = torch.tensor([1.5, -2.0])
    assert_close(evaluate("prims.add", x, 2.0), x + 2.0)
    assert_close(evaluate("prims.sub", 2.0, x), 2.0 - x)
    assert_close(evaluate("prims.pow", x, 2.0), x**2.0)
    assert evaluate("prims.add", torch.tensor([1, 2], dtype=torch.int8), 2).dtype is torch.int8


def test_results_are_freed_as_the_program_runs():
    def fn(x):
        for _ in range(8):
            x = torch.neg(torch.exp(x))
        return x

    f = thunder.jit(fn)
    x = torch.zeros(8 * 2**20)  # 32 MB
    with torch.no_grad():
        f(x)
        reset_peak()
        before = megabytes("VmHWM")
        f(x)
        # The input, and at most the argument and the result of one operator.
        assert megabytes("VmHWM") - before < 2.5 * 32
