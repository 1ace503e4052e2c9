"""Fused kernels of what models compute, against float64: on a GPU rows of all lengths, on the CPU a few small ones."""

import pytest
import torch
import torch.nn.functional as F
from devices import ON_CPU, on_device
from fusion_checks import check
from fusion_programs import program, randn, rms_norm

pytestmark = [
    pytest.mark.filterwarnings("error:.*kernel cannot be compiled:RuntimeWarning"),
    *([] if ON_CPU else [pytest.mark.gpu]),
]

NORMS = [(200, n) for n in (64, 100, 2048, 4096, 8192)]
SOFTMAXES = [(100, 129), (100, 4096), (20, 50000)]
ON_GPU = {
    "tanh_sigmoid": [(37, 1001), (1000, 1024)],
    "gelu": [(1000, 1024)],
    "bias_gelu": [(1000, 4096)],
    "geglu": [(1000, 5632)],
    "swiglu": [(1000, 5632)],
    "transposed_add": [(1000, 768)],
    "softmax": SOFTMAXES,
    "log_softmax": SOFTMAXES,
    "rms_norm": NORMS,
    "residual_rms_norm": NORMS,
    "layer_norm": [(200, 100), (200, 4096)],
    "rope": [(300, 256)],
    "cross_entropy": [(512, 32000)],
}
SMALL = {name: [(24, 64 if name == "rope" else 129)] for name in ON_GPU}
CASES = [(name, *size) for name, sizes in (SMALL if ON_CPU else ON_GPU).items() for size in sizes]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SLACK = 1e-5  # beyond twice eager's own error, relative, in the Frobenius norm


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "rows", "columns"), CASES)
def test_against_float64(name, rows, columns, dtype):
    function, args = program(name, rows, columns, dtype)
    check(function, *map(on_device, args), slack=SLACK)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [2, 16, 60, 70])
def test_sums_of_many_columns(rows, dtype):
    columns = (8, 40) if ON_CPU else (520, 513)
    x = on_device(randn(rows, *columns, dtype=dtype))
    check(lambda x, y: x.float().sum(0) * 0.5 + y, x, on_device(randn(*columns)), slack=SLACK)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_memory_that_is_not_aligned(dtype):
    rows, columns = (24, 128) if ON_CPU else (200, 4096)
    memory = on_device(randn(rows * columns + 1, dtype=dtype, grad=False))
    x = memory[1:].view(rows, columns).requires_grad_()
    check(rms_norm, x, on_device(randn(columns, dtype=dtype)), slack=SLACK)


def adaptive_norm(x, scale, shift):
    return F.layer_norm(x, x.shape[-1:]) * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def excite(x, scale, shift):
    return x * torch.sigmoid((x * scale.unsqueeze(1)).mean(1, keepdim=True)) + shift.unsqueeze(1)


def softmax_of_columns(x, scale, shift):
    return torch.softmax(x * scale.unsqueeze(1), 1) + shift.unsqueeze(1)


def largest(x, scale, shift):
    return (x * scale.unsqueeze(1)).amax(1) + shift, torch.logsumexp(x * shift.unsqueeze(1), 1)


SIZES = [(2, 3, 32), (3, 1, 40), (1, 20, 33), (4, 7, 3)]
SIZES_ON_GPU = [*SIZES, (3, 300, 768), (64, 20, 1), (5, 1000, 40), (2, 4096, 129), (600, 3, 1024), (300, 80, 512)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES if ON_CPU else SIZES_ON_GPU, ids=str)
@pytest.mark.parametrize("function", [adaptive_norm, excite, softmax_of_columns, largest])
def test_dimensions_in_the_middle(function, sizes, dtype):
    first, _, last = sizes
    args = randn(*sizes, dtype=dtype), randn(first, last, dtype=dtype), randn(first, last, dtype=dtype)
    check(function, *map(on_device, args), slack=torch.finfo(dtype).eps)  # of some sizes there are few numbers


def group_norm(x, weight, bias):
    return F.silu(F.group_norm(x, 2, weight, bias)), F.group_norm(x, 1)


GROUPS = [(2, 6, 3, 7), (3, 8, 16), (1, 64, 1, 1), (5, 4), (2, 32, 9, 9)]
GROUPS_ON_GPU = [*GROUPS, (2, 64, 128, 128), (8, 320, 33, 31), (64, 512)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", GROUPS if ON_CPU else GROUPS_ON_GPU, ids=str)
def test_group_norm(sizes, dtype):
    args = randn(*sizes, dtype=dtype), randn(sizes[1], dtype=dtype), randn(sizes[1], dtype=dtype)
    check(group_norm, *map(on_device, args), slack=torch.finfo(dtype).eps)


LOSSES = {
    "mse": F.mse_loss,
    "huber": F.smooth_l1_loss,
    "bce": F.binary_cross_entropy_with_logits,
    "norm": lambda x, y: (x - y).norm(),
    "sums": lambda x, y: (x * y).flatten(1).sum(1),
    "means": lambda x, y: (x - y).square().mean(tuple(range(1, x.dim()))),
    "largest": lambda x, y: (x * y).flatten(1).amax(1),
    "softmax": lambda x, y: torch.softmax((x * y).flatten(1), 1).amax(1),
    "scaled": lambda x, y: x / (x * y).abs().mean(),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", [(3, 5, 7)] if ON_CPU else [(2, 3, 300, 301), (1, 131101), (700, 800)], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_few_rows_of_many_elements(name, sizes, dtype):
    x, y = randn(*sizes, dtype=dtype), torch.sigmoid(randn(*sizes, dtype=dtype, grad=False))
    check(LOSSES[name], on_device(x), on_device(y), slack=SLACK)


@pytest.mark.parametrize("name", ["mse", "means", "softmax"])
def test_few_rows_that_lie_otherwise(name):
    sizes = (2, 3, 4, 5) if ON_CPU else (2, 40, 60, 70)
    x, y = (randn(*sizes).detach().to(memory_format=torch.channels_last) for _ in range(2))
    check(LOSSES[name], on_device(x.requires_grad_()), on_device(y), slack=SLACK)
