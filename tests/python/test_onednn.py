"""Products of float32 matrices on the CPU: by oneDNN where it is faster, by PyTorch's BLAS elsewhere."""

import pytest
import torch
import torch.nn.functional as F

import thunder

FORMS = {
    "linear": lambda x, w, b: F.linear(x, w),
    "bias": F.linear,
    "matmul": lambda x, w, b: x @ w.t(),
    "by columns": lambda x, w, b: x @ w.t().contiguous(),
    "rows of batches": lambda x, w, b: x.reshape(2, x.shape[0] // 2, -1) @ w.t(),
    "gradient of rows": lambda x, w, b: (x @ w.t()) @ w,
}
SHAPES = [(256, 128, 192), (130, 257, 99), (2, 1024, 1024), (1, 2048, 1024), (6, 5, 7)]


@pytest.fixture(autouse=True)
def _on_the_cpu():
    """These are the CPU's products, whatever the device of the other tests."""
    with torch.device("cpu"):
        yield


def operands(rows, terms, features):
    g = torch.Generator().manual_seed(rows)
    return [torch.randn(n, generator=g) for n in ((rows, terms), (features, terms), (features,))]


def run(f, args, dtype=torch.float32):
    args = [a.to(dtype).requires_grad_() for a in args]
    out = f(*args)
    out.backward(torch.ones_like(out) * torch.linspace(-1, 1, out.numel(), dtype=dtype).reshape(out.shape))
    return [out.detach(), *(a.grad for a in args if a.grad is not None)]


# Batches of two take an even number of rows.
CASES = [(form, shape) for form in FORMS for shape in SHAPES if form != "rows of batches" or shape[0] % 2 == 0]


@pytest.mark.parametrize("form, shape", CASES, ids=str)
def test_results_are_as_near_as_eagers(form, shape):
    f, args = FORMS[form], operands(*shape)
    exact, eager, got = run(f, args, torch.float64), run(f, args), run(thunder.jit(f), args)
    for true, e, g in zip(exact, eager, got, strict=True):
        assert g.shape == e.shape and g.stride() == e.stride()
        scale = true.abs().max()
        assert (g - true).abs().max() <= 2 * (e - true).abs().max() + 1e-6 * scale


@pytest.mark.parametrize("form", FORMS)
def test_bits_are_eagers_where_that_is_asked_for(form):
    """`numerics="eager"`, deterministic algorithms, and a PyTorch whose oneDNN is switched off."""
    f, args = FORMS[form], operands(256, 128, 192)
    eager = run(f, args)
    assert all(map(torch.equal, run(thunder.jit(f, numerics="eager"), args), eager))
    with torch.backends.mkldnn.flags(enabled=False):
        assert all(map(torch.equal, run(thunder.jit(f), args), run(f, args)))
    torch.use_deterministic_algorithms(True)
    try:
        assert all(map(torch.equal, run(thunder.jit(f), args), run(f, args)))
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_it_takes():
    """Rows of float32 times one matrix; other dtypes and layouts are PyTorch's."""

    def claimed(*args):
        f = thunder.jit(lambda a, b: a @ b)
        f(*args)
        return "onednn_matmul" in str(thunder.last_traces(f)[-1])

    a, b = torch.randn(64, 32), torch.randn(32, 48)
    assert claimed(a, b) and claimed(a, torch.randn(48, 32).t()) and claimed(torch.randn(2, 64, 32), b)
    assert not claimed(a.double(), b.double())
    assert not claimed(a.bfloat16(), b.bfloat16())
    assert not claimed(torch.randn(32, 64).t(), b)
    assert not claimed(a, torch.randn(32, 96)[:, ::2])
    assert not claimed(torch.randn(3, 64, 32), torch.randn(3, 32, 48))


def test_gradients_are_added_in_place():
    """A gradient that is such a product is added to .grad where it is computed."""
    f = thunder.jit(lambda x, w: (x @ w).sum())
    x, w = torch.randn(40, 64, requires_grad=True), torch.randn(64, 32)
    for _ in range(3):
        f(x, w).backward()
    torch.testing.assert_close(x.grad, 3 * w.sum(1).expand(40, 64))
