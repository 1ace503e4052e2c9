"""What the random programs (tests/cpp/fuzz) found and PyTorch's operator database has no samples for, against eager."""

import warnings

import pytest
import torch
from devices import DEVICE, ON_CPU

import thunder


def gradients(fn, *inputs):
    inputs = [x.detach().clone().requires_grad_(x.is_floating_point() or x.is_complex()) for x in inputs]
    result = fn(*inputs)
    weights = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).reshape(result.shape)
    parts = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result[..., None]
    (parts * weights[..., None]).sum().backward()
    return [result.detach(), *(x.grad for x in inputs)]


def agree(fn, *inputs, **how):
    torch.testing.assert_close(gradients(thunder.jit(fn), *inputs), gradients(fn, *inputs), **how)


@pytest.mark.parametrize("name", ["acosh", "asin", "asinh", "sinc", "log", "sqrt", "tan"])
def test_complex_gradients_in_all_quadrants(name):
    agree(getattr(torch, name), torch.tensor([1.5 + 0.5j, -1.5 + 0.5j, -0.3 - 0.7j, 0.3 - 2j], dtype=torch.complex128))


def test_complex_gradient_of_logcumsumexp():
    agree(lambda x: torch.logcumsumexp(x, 0), torch.randn(5, dtype=torch.complex128))


def test_second_complex_gradient_of_logcumsumexp():
    def slope(x):
        total = (torch.logcumsumexp(x, 0) * torch.arange(1.0, 6.0)).sum()
        return torch.autograd.grad(total.abs(), x, create_graph=True)[0]

    agree(slope, torch.randn(5, dtype=torch.complex128))


def test_second_complex_gradient_of_logcumsumexp_with_infinities():
    def second(fn):
        x = torch.tensor([0, 1, -float("inf"), 2, 3], dtype=torch.complex128, requires_grad=True)
        g = torch.ones(5, dtype=torch.complex128, requires_grad=True)
        (first,) = torch.autograd.grad(fn(x), x, g, create_graph=True)
        return torch.autograd.grad(first.real.sum(), (x, g))

    fn = lambda x: torch.logcumsumexp(x, 0)
    torch.testing.assert_close(second(thunder.jit(fn)), second(fn))


@pytest.mark.skipif(ON_CPU, reason="needs a second device")
@pytest.mark.parametrize("scatter", [torch.slice_scatter, torch.diagonal_scatter])
def test_scatter_from_another_device(scatter):
    x, src = torch.randn(3, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64, device=DEVICE)
    if scatter is torch.diagonal_scatter:
        src = src[0]
    found = gradients(thunder.jit(lambda x, src: scatter(x, src) * 2), x, src)
    # Eager's own gradient of the source is on the wrong device, which is an error.
    torch.testing.assert_close(found, gradients(lambda x, src: scatter(x, src.to(x.device)) * 2, x, src))


def in_another_layout(use, n):
    """The results, eager's and compiled, of `use` on a tensor that gets another layout when its maker is rewritten."""
    p = torch.randn(1, 1, dtype=torch.complex64, device=DEVICE, requires_grad=True) * 1

    def fn(c):
        t = c * p
        t.real.mul_(2)
        return use(torch.full_like(t, 2).view(torch.int32))

    c = torch.randn(n, 1, device=DEVICE).t()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fn(c), thunder.jit(fn)(c)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_mask_of_a_tensor_that_gets_another_layout(n):
    def use(t):
        t[t == 0] += 1
        return t

    want, got = in_another_layout(use, n)
    assert torch.equal(got, want) and got.stride() == want.stride()


@pytest.mark.parametrize("finds", [torch.nonzero, lambda t: t[t == 0], torch.unique])
def test_lengths_of_an_expanded_tensor_that_gets_another_layout(finds):
    want, got = in_another_layout(lambda t: finds(t[None].expand(3, *t.shape)), 5)
    assert torch.equal(got, want)


def test_product_over_no_elements():
    agree(lambda x: x.prod(1), torch.ones(3, 0, 2, dtype=torch.float64))


def test_product_over_a_length_that_only_the_run_knows():
    def fn(x):
        return x[x > 5].prod() + x.sum()

    agree(fn, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    agree(fn, torch.tensor([6.0, 2.0, 7.0], dtype=torch.float64))


def test_mask_twice_in_one_program():
    def fn(x):
        mask = x > 0
        i, j = torch.where(mask)
        k, m = torch.where(mask)
        return x[i, j] * k + m

    x = torch.tensor([[1.0, -1.0], [2.0, 3.0]])
    torch.testing.assert_close(thunder.jit(fn)(x), fn(x))


def test_views_of_several_tensors_of_which_one_is_returned():
    def fn(x):
        returned, inner = x.sum(0), x.cos().sum(0)
        a, b = torch.atleast_3d(inner, returned)
        return torch.cat([torch.atan2(a, b).flatten(), returned])

    agree(fn, torch.rand(3, 2, dtype=torch.float64))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.var(correction=1 + 1j),
        lambda x: torch.xlogy(x + 0j, x),
        lambda x: torch.xlogy(x, x + 0j),
    ],
    ids=["var", "xlogy", "xlogy_other"],
)
def test_refused_as_eager_refuses(fn):
    x = torch.rand(3)
    with pytest.raises(Exception) as eager:
        fn(x)
    with pytest.raises(eager.type):
        thunder.jit(fn)(x)


def test_a_correction_that_is_a_size():
    agree(lambda x: x.var(correction=x.shape[0] - 2), torch.rand(5, dtype=torch.float64))


def test_a_dimension_that_is_read_from_a_tensor():
    agree(lambda x, n: torch.nn.functional.normalize(x, dim=n.item()), torch.rand(2, 3), torch.tensor(1))


def test_gradient_of_zero_to_complex_powers():
    """It is 0 for powers that are real numbers and not negative alone."""
    agree(lambda n: 0.0**n, torch.tensor([1 + 1j, 1 + 0j, 2 - 1j], dtype=torch.complex128), equal_nan=True)


SCATTERS = {
    "scatter": lambda x, index, src: x.scatter(0, index, src),
    "scatter_add": lambda x, index, src: x.scatter_add(0, index, src),
    "sum": lambda x, index, src: x.scatter_reduce(0, index, src, "sum"),
    "mean": lambda x, index, src: x.scatter_reduce(0, index, src, "mean"),
    "prod": lambda x, index, src: x.scatter_reduce(0, index, src, "prod"),
    "amax": lambda x, index, src: x.scatter_reduce(0, index, src, "amax"),
    "prod without": lambda x, index, src: x.scatter_reduce(0, index, src, "prod", include_self=False),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatter_of_no_dimensions(name):
    """A tensor of 0 dimensions counts as one of 1, of 1 element."""
    x, one = torch.rand(3, dtype=torch.float64), torch.tensor(0)
    agree(lambda x: SCATTERS[name](x, torch.tensor([1]), x.mean()), x)
    agree(lambda x: SCATTERS[name](x, one, x.mean()), x)
    agree(lambda x: SCATTERS[name](x.sum(), torch.tensor([0]), x.mean()), x)
    agree(lambda x: SCATTERS[name](x.sum(), one, x.mean()), x)


@pytest.mark.parametrize("shape", [(), (0,), (3, 4)], ids=str)
@pytest.mark.parametrize("f", [torch._is_all_true, torch._is_any_true])
def test_all_and_any_of_bools(f, shape):
    x = torch.zeros(shape, dtype=torch.bool)
    for given in (x, ~x):
        assert torch.equal(thunder.jit(f)(given), f(given))
    with pytest.raises(RuntimeError, match="takes a tensor of bools, got Float"):
        thunder.jit(f)(torch.randn(3))


@pytest.mark.parametrize("other", [torch.float32, torch.complex64], ids=str)
def test_logaddexp2_takes_no_complex_numbers(other):
    with pytest.raises(RuntimeError, match=r"\[logaddexp2\].*complex"):
        thunder.jit(torch.logaddexp2)(torch.randn(3, dtype=torch.complex64), torch.randn(3, dtype=other))
