"""What operators without a record give, asked without memory: as FakeTensorMode says, and without its imports."""

import contextlib
import subprocess
import sys

import pytest
import short_run
import torch
from op_checks import samples
from torch.testing._internal.common_methods_invocations import op_db

import thunder
from thunder import _opaque_meta, _sizes_only

PARTS = 8 if short_run.ALL else 2
OPERATORS = [op for op in op_db if short_run.taken("sizes of " + op.name, 8)]
SAMPLES = 12 if short_run.ALL else 1
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.complex64][: None if short_run.ALL else 1]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes_and_strides_are_those_of_fake_tensors(part, dtype, monkeypatch):
    asked, differ, by_sizes = [], [], _opaque_meta.by_sizes

    def both(overload, values, given):
        expected = _opaque_meta.by_fakes(overload, values, given)
        with contextlib.suppress(Exception):  # for what it does not know describe() goes on to the other
            asked.append(by_sizes(overload, values, given))
            if asked[-1] != expected:
                differ.append((overload.name(), asked[-1], expected))
        return expected

    monkeypatch.setattr(_opaque_meta, "by_sizes", both)
    for op in OPERATORS[part::PARTS]:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for s in samples(op, "cpu", dtype, SAMPLES, requires_grad=dtype in op.supported_backward_dtypes("cpu")):
            with contextlib.suppress(Exception):  # what cannot be compiled is other tests' matter
                thunder.jit(op.op)(s.input, *s.args, **s.kwargs)
    assert not differ and len(asked) > 5


def test_a_view_that_the_schema_does_not_tell_of_is_one():
    given = [_opaque_meta.Tensor((5, 4), (4, 1), torch.float32, torch.device("cpu"), False)]
    overload, values = torch.ops.aten.unsafe_split.Tensor, [torch.empty(5, 4), 2]
    described = _opaque_meta.by_sizes(overload, values, given)
    assert described.results == [("view", (0,), (n, 4), (4, 1), 8 * i) for i, n in enumerate((2, 2, 1))]
    assert not described.computed and described == _opaque_meta.by_fakes(overload, values, given)


def test_a_primitive_that_is_a_view_does_not_write_to_its_argument():
    """The composition reshapes what has no elements by prims.as_strided(), whose schema says so."""
    given = [_opaque_meta.Tensor((0, 1, 8, 8), (64, 64, 8, 1), torch.float32, torch.device("cpu"), False)]
    call = torch.ops.aten.im2col.default, [torch.empty(0, 1, 8, 8), [2, 2], [1, 1], [0, 0], [4, 4]], given
    described = _opaque_meta.by_sizes(*call)
    assert described.computed[0].shape == (0, 4, 4) and described == _opaque_meta.by_fakes(*call)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_layouts_are_those_of_the_device(device):
    """An image of few channels that is interpolated is channels last on a CPU alone."""
    device = torch.device(device)
    given = [_opaque_meta.Tensor((2, 3, 8, 8), (192, 1, 24, 3), torch.float32, device, True)]
    call = torch.ops.aten.upsample_bilinear2d.vec, [torch.empty(2, 3, 8, 8), [16, 16], False, None], given
    described = _opaque_meta.by_sizes(*call)
    (made,) = described.computed
    assert (made.shape, made.device, made.requires_grad) == ((2, 3, 16, 16), device, True)
    assert described == _opaque_meta.by_fakes(*call)


@pytest.fixture
def asked(monkeypatch):
    """What PyTorch is asked about, a call of an operator each."""
    calls, describe = [], _opaque_meta._describe
    monkeypatch.setattr(_opaque_meta, "_describe", lambda *call: calls.append(call) or describe(*call))
    return calls


def cubic(x, grid, corners=False):
    return torch.nn.functional.grid_sample(x, grid, mode="bicubic", align_corners=corners)


def test_equal_calls_are_asked_about_once_in_a_compilation(asked):
    x, grid = torch.randn(1, 2, 5, 4, requires_grad=True), torch.rand(1, 3, 3, 2)
    f = thunder.jit(lambda x: cubic(x, grid) + cubic(x, grid))
    f(x).sum().backward()
    assert len(asked) == 1
    f(x)
    assert len(asked) == 1
    f(torch.randn(1, 3, 5, 4))
    assert len(asked) == 2


@pytest.mark.parametrize("other", [
    lambda x, grid: cubic(x, grid, corners=True),
    lambda x, grid: cubic(x, grid.flip(1).transpose(1, 2)),
    lambda x, grid: cubic(x.double(), grid.double()),
    lambda x, grid: cubic(x[:, :1], grid),
], ids=["argument", "layout", "dtype", "size"])
def test_other_calls_are_asked_about(asked, other):
    x, grid = torch.randn(1, 2, 5, 4), torch.rand(1, 3, 3, 2)
    thunder.jit(cubic)(x, grid)
    before = len(asked)
    expected = cubic(x, grid) + other(x, grid)
    assert torch.equal(thunder.jit(lambda x, grid: cubic(x, grid) + other(x, grid))(x, grid), expected)
    assert len(asked) == 3 * before


def test_a_program_that_changes_a_setting_asks_again(asked):
    def f(x, grid):
        a = cubic(x, grid)
        torch.set_default_dtype(torch.float64)
        b = cubic(x, grid)
        torch.set_default_dtype(torch.float32)
        return a + b

    x, grid = torch.randn(1, 2, 5, 4), torch.rand(1, 3, 3, 2)
    assert torch.equal(thunder.jit(f)(x, grid), f(x, grid))
    assert len(asked) > 1


def test_a_first_step_imports_no_other_compiler():
    program = """
import sys
import torch, thunder
from torch.nn import functional as F

x = torch.randn(2, 8, 16)
thunder.jit(torch.nn.LSTM(16, 8))(x)[0].sum().backward()
thunder.jit(torch.nn.LSTMCell(16, 8))(x[0])[0].sum().backward()
image = torch.randn(1, 3, 8, 8, requires_grad=True)
thunder.jit(lambda a: F.interpolate(a, scale_factor=2, mode="bicubic"))(image).sum().backward()
thunder.jit(lambda a, g: F.grid_sample(a, g, align_corners=False))(image, torch.rand(1, 4, 4, 2)).sum().backward()
thunder.jit(torch.nn.Unfold(3))(image).sum().backward()
thunder.jit(torch.nn.TripletMarginLoss())(x, x + 1, x - 1)
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "False", done.stdout + done.stderr


def test_torchs_functions_stay_decorated():
    """torch.compile disables itself for PyTorch's references: what is switched off in between is on again."""
    kernel = _sizes_only._kernel(torch.ops.aten.mul.Tensor)
    functions = _sizes_only._decorated(kernel)
    assert functions
    before = [hasattr(f, _sizes_only._DISABLED) for f in functions]
    with pytest.raises(ValueError), _sizes_only._without_dynamo(kernel):
        assert all(hasattr(f, _sizes_only._DISABLED) for f in functions)
        raise ValueError
    assert [hasattr(f, _sizes_only._DISABLED) for f in functions] == before
