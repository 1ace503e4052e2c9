"""Calls of PyTorch that have no record of their own: Python functions, operators called as they are, constants."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE
from eager_checks import check_left_to_eager

import thunder


def randn(*shape):
    return torch.randn(*shape, device=DEVICE, requires_grad=True)


def check(f, *inputs):
    """Results and gradients are eager's, for other values too."""
    jitted = thunder.jit(f)
    for _ in range(2):
        twins = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
        got, want = jitted(*inputs), f(*twins)
        torch.testing.assert_close(got, want)
        if want.requires_grad:
            gradient = torch.randn_like(want)
            got.backward(gradient)
            want.backward(gradient)
            for a, b in zip(inputs, twins, strict=True):
                torch.testing.assert_close(a.grad, b.grad)
        inputs = [t.detach().mul(0.5).requires_grad_(t.requires_grad) for t in inputs]
    assert thunder.cache_misses(jitted) == 1


OPERATORS = {
    "histc": (lambda x: torch.histc(x.detach(), 4, 0, 3), [(10,)]),
    "solve_triangular": (
        lambda a, b: 3 * torch.linalg.solve_triangular(a, b * 2, upper=False, unitriangular=True), [(4, 4), (4, 3)]
    ),
    "fft": (lambda a: torch.fft.fftn(a * 1, dim=(0, 1)).real, [(4, 5)]),
    "unfold": (lambda a: F.unfold(a, (3, 1), padding=(1, 0)) * 2, [(2, 3, 8, 1)]),
    "fold": (lambda a: F.fold(a, (4, 4), (2, 2), stride=2) + 1, [(2, 12, 4)]),
    "bilinear": (lambda a: F.interpolate(a, size=(7, 9), mode="bilinear") * 2, [(2, 3, 4, 4)]),
    "bicubic": (lambda a: F.interpolate(a, scale_factor=2, mode="bicubic", antialias=True), [(2, 3, 4, 4)]),
    "bilinear, transposed": (lambda a: F.interpolate(a.transpose(1, 2), size=(6, 6), mode="bilinear"), [(2, 4, 3, 4)]),
    "several results": (lambda a: torch.linalg.qr(a)[1].tril().sum(0), [(4, 4)]),
    "weight_norm": (lambda v, g: torch._weight_norm(v, g, 2).exp(), [(4, 3, 2), (1, 1, 2)]),
    "grid_sample": (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=True), [(1, 2, 4, 4), (1, 3, 3, 2)]),
    "an overload": (lambda x: torch.ops.aten.im2col.default(x, [2, 2], [1, 1], [0, 0], [1, 1]), [(2, 3, 4, 4)]),
    "a number first": (lambda a: torch.ops.aten.special_xlog1py.self_scalar(2.0, a.exp()), [(3,)]),
    "twice": (lambda a: F.unfold(F.interpolate(a, size=(6, 6), mode="bilinear"), 3).sum(1), [(2, 3, 4, 4)]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_without_a_record(name):
    f, shapes = OPERATORS[name]
    check(f, *(randn(*s) for s in shapes))


def test_gradient_of_one_of_two():
    check(lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), randn(3, 3), randn(3, 2).detach())


@torch.library.custom_op("thunder_tests::scaled_sin", mutates_args=())
def scaled_sin(x: torch.Tensor, factor: float, others: list[torch.Tensor]) -> torch.Tensor:
    return torch.sin(x) * factor + sum(others)


@scaled_sin.register_fake
def _(x, factor, others):
    return torch.empty_like(x)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def _backward(ctx, gradient):
    return gradient * torch.cos(ctx.saved_tensors[0]) * ctx.factor, None, [gradient, gradient]


scaled_sin.register_autograd(_backward, setup_context=_setup)


def test_custom_operator():
    check(lambda x, y, z: scaled_sin(x * 2, 0.5, [y, z.exp()]) + 1, randn(3), randn(3), randn(3))


def test_what_cannot_be_called_as_it_is():
    f, x = (lambda x: x.to_sparse_bsr((2, 2))), torch.ones(4, 4, device=DEVICE)
    check_left_to_eager(f, x, why="not supported inside a compiled function")


def test_sizes_that_depend_on_data():
    def f(lengths):
        probabilities = torch.zeros(6, 1, 3).log_softmax(-1)
        targets = torch.ones(1, 4, dtype=torch.int64)
        return torch.ops.aten._ctc_loss.Tensor(probabilities, targets, lengths + 2, lengths)[1] * 1

    check_left_to_eager(f, torch.tensor([3]), why="sizes are not known before it runs", compare=False)


def test_sizes_that_made_up_data_did_not_tell():
    # There are no residuals if the rank is not full.
    jitted = thunder.jit(lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd").residuals * 1)
    assert jitted(torch.rand(5, 2), torch.rand(5, 1)).shape == (1,)
    with pytest.warns(RuntimeWarning, match="sizes that depend on data are not supported"):
        assert jitted(torch.ones(5, 2), torch.rand(5, 1)).shape == (0,)


@pytest.mark.parametrize("shape", [(8,), (3, 5), (1,), (0, 2)], ids=str)
def test_overload_with_a_tensor_for_a_number(shape):
    def f(x, scale, zero):
        return torch.fake_quantize_per_tensor_affine(x * 2, scale, zero, -128, 127) + 1

    jitted = thunder.jit(f)
    for scale in (0.1, 0.3):
        args = torch.tensor(scale, device=DEVICE), torch.tensor(3, dtype=torch.int32, device=DEVICE)
        x = randn(*shape).detach() * 20
        x, y = x.clone().requires_grad_(), x.clone().requires_grad_()
        ours, theirs = jitted(x, *args), f(y, *args)
        torch.testing.assert_close(ours, theirs)
        ours.square().sum().backward()
        theirs.square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert thunder.cache_misses(jitted) == 1
    assert not thunder.compile_stats(jitted).eager_calls


def test_arguments_that_no_record_takes():
    generator = torch.Generator(device=DEVICE)
    f = lambda x: torch.bernoulli(x.sigmoid(), generator=generator) * x
    x, jitted = randn(6), thunder.jit(f)
    for _ in range(2):
        state = generator.get_state()
        got, after = jitted(x), generator.get_state()
        generator.set_state(state)
        torch.testing.assert_close(got, f(x))
        assert torch.equal(after, generator.get_state()) and not torch.equal(after, state)
    with pytest.raises(TypeError):
        thunder.jit(lambda x: torch.bernoulli(x, p="a"))(x)


def test_symbolic_sizes():
    # They are what they are in the call, which other calls are compared with.
    def f(x):
        first, second = torch.unsafe_chunk(x * 1, 2)
        second.mul_(2)
        return torch.special.erfcx(first + second) * x.shape[0] + torch.linalg.inv(x[:2, :2]).sum()

    jitted = thunder.jit(f, cache="symbolic values")
    for n in (4, 6, 4):
        x = torch.randn(n, n, dtype=torch.float64, device=DEVICE, requires_grad=True)
        got, want = jitted(x), f(x)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(*(torch.autograd.grad(t.sum(), x)[0] for t in (got, want)))
    assert thunder.cache_misses(jitted) == 2


def test_operators_that_return_views():
    def f(x):
        y = x * 1
        v = torch.ops.aten.alias(torch.as_strided(y, (2, 2), (2, 1)))
        torch.ops.aten.slice(y, 0, 1, 3).mul_(2)
        first, second = torch.unsafe_chunk(y, 2)
        second.add_(1)
        return y + v.sum() + first.sum()

    check(f, randn(4))


def test_operators_that_write():
    def f(x):
        y = x * 1
        torch.ops.aten.sin_(y)
        torch.ops.aten.renorm_(y, 2, 0, 1.5)
        out = torch.empty(4, 3, device=x.device)
        torch.renorm(y, 2, 0, 1.0, out=out)
        return y.exp() + out

    check(f, randn(4, 3).detach())
    check(lambda x: torch.ops.aten.renorm_(x * 1, 2, 0, 1.5), randn(4, 3))


def test_writes_to_arguments():
    x, twin = torch.rand(3, 4) * 9, None
    twin = x.clone()
    result = thunder.jit(lambda x: x.renorm_(2, 0, 1.5))(x)
    assert result is x
    torch.testing.assert_close(x, twin.renorm_(2, 0, 1.5))


def test_batch_norm_that_updates():
    def f(x, mean, var):
        return torch._native_batch_norm_legit(x, None, None, mean, var, True, 0.1, 1e-5)[0]

    x, mean, var = torch.randn(4, 3), torch.zeros(3), torch.ones(3)
    twins = mean.clone(), var.clone()
    torch.testing.assert_close(thunder.jit(f)(x, mean, var), f(x, *twins))
    torch.testing.assert_close((mean, var), twins)


def test_operators_that_return_lists():
    def f(x):
        rows, columns = torch.gradient(x)
        return rows * columns

    check(f, randn(5, 3))

    def g(x):
        counts, edges = torch.histogramdd(x.detach(), bins=[2, 2, 2])
        return x * (counts.sum() + edges[0].sum())

    check(g, torch.randn(5, 3, requires_grad=True))  # there is none on a GPU


def test_names_of_results():
    made = thunder.jit(lambda x: torch.linalg.qr(x))(torch.randn(3, 3))
    assert isinstance(made, torch.return_types.linalg_qr)


def test_results_without_a_gradient():
    # The permutation of an LU decomposition is of a floating type, and constant.
    p, _, u = thunder.jit(lambda x: torch.linalg.lu(x))(randn(3, 3))
    assert u.requires_grad and not p.requires_grad


@pytest.mark.parametrize("f", [
    lambda x: torch.rand_like(x) + torch.rrelu(x, training=True) + torch.nn.functional.dropout(x),
    lambda x: torch._standard_gamma(x.exp()) * torch.rand_like(x),
    lambda x: torch.nn.functional.feature_alpha_dropout(x[None], 0.4, True)[0],
], ids=["rrelu", "gamma", "feature_alpha_dropout"])
def test_random_operators(f):
    """Eager's numbers, and the gradient of the very numbers that were drawn."""
    x, jitted = randn(4, 6), thunder.jit(f)
    for seed in range(2):
        outcomes = []
        for g in (jitted, f):
            torch.manual_seed(seed)
            made = g(x)
            torch.rand(3)  # between forward and backward
            outcomes.append((made, *torch.autograd.grad(made.sum(), x), torch.rand(2)))
        torch.testing.assert_close(*outcomes)


@torch.library.custom_op("thunder_tests::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    counted.calls += 1
    return x * 2


counted.calls = 0
counted.register_fake(torch.empty_like)
counted.register_autograd(lambda ctx, g: g * 2)


def test_the_forward_runs_once():
    x = randn(3)
    jitted = thunder.jit(lambda x: counted(x * 3) + 1)
    for calls in (1, 2):
        made = jitted(x)
        for _ in range(2):
            torch.testing.assert_close(torch.autograd.grad(made.sum(), x, retain_graph=True)[0], torch.full_like(x, 6))
        assert counted.calls == calls
    with torch.no_grad():
        jitted(x)


def test_what_an_operator_saves_is_let_go():
    kept = []

    @torch.library.custom_op("thunder_tests::keeping", mutates_args=())
    def keeping(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def save(ctx, inputs, output):
        ctx.scale = torch.ones(3, device=output.device)
        kept.append(weakref.ref(ctx.scale))

    keeping.register_fake(torch.empty_like)
    keeping.register_autograd(lambda ctx, g: g * ctx.scale, setup_context=save)
    x, jitted = randn(3), thunder.jit(lambda x: keeping(x) * 2)
    made = jitted(x)
    saved = kept[-1]
    assert saved() is not None
    made.sum().backward()
    del made
    gc.collect()
    assert saved() is None


def test_hooks_for_saved_tensors():
    """They are seen by PyTorch's own graph of the forward; what replaces a saved tensor may be refused."""
    x = randn(3, 3)
    eager = x.detach().clone().requires_grad_()
    keep = torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
    with keep if DEVICE == "cpu" else torch.autograd.graph.save_on_cpu():
        made = thunder.jit(lambda x: torch.linalg.inv(x))(x)
    torch.linalg.inv(eager).sum().backward()
    try:
        made.sum().backward()
    except RuntimeError as error:
        assert "hooks for saved tensors" in str(error)
    else:
        torch.testing.assert_close(x.grad, eager.grad)


def test_gradient_twice():
    x = randn(4, 4)
    made = thunder.jit(lambda x: torch.linalg.inv(x * 1))(x)
    first, = torch.autograd.grad(made.sum(), x, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(made.sum(), x)[0], first)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_errors_of_narrow_copy(device):
    x = torch.ones(2, 3, 4, device=device)
    for args in ((3, 0, 0), (-4, 0, 0), (1, 9, 0), (0, 0, -1)):
        f = lambda x, args=args: torch.narrow_copy(x, *args)
        raised = []
        for g in (f, thunder.jit(f)):
            with pytest.raises((IndexError, RuntimeError)) as caught:
                g(x)
            raised.append(caught.type)
        assert raised[0] is raised[1], args


def test_layouts_of_results():
    # What follows is compiled for the layout that the operator gives.
    check(lambda x: (torch.linalg.inv(x).contiguous().view(-1) * 2, torch.linalg.inv(x))[0], randn(4, 4))
    assert thunder.jit(torch.linalg.inv)(torch.eye(3)).stride() == torch.linalg.inv(torch.eye(3)).stride()


def test_torch_functions_written_in_python():
    # They are entered, and what they call is recorded.
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).to(DEVICE)
    probe, x = randn(1, 1, 8), randn(1, 5, 8)
    check(lambda p, x: attention(p, x, x)[0], probe, x)


def test_parts_of_complex_tensors():
    check(lambda x: torch.complex(x, x * 2).real + torch.complex(x, x * 2).imag.exp(), randn(3))

    def write(x):
        z = torch.complex(x, x * 2)
        z.imag.mul_(3)
        z.real.copy_(x + 1)
        return torch.view_as_real(z)

    check(write, randn(3))
    check(lambda x: x.real * 2, randn(3))


# ---- values that are known while the function is compiled -----------------------------------------------------------


def test_constants_can_be_read():
    def f(x):
        steps = torch.arange(4)
        scale = torch.tensor([1.0, 2.0]).sum().item()
        if (steps > 2).any() and 3 in steps:
            x = x * scale
        half = torch.div(x.shape[0], 2, rounding_mode="floor")
        top = x[:half, int(steps[1]) :]
        return top * steps.tolist()[2] + float(steps.max())

    check(f, randn(4, 3))


def test_written_constants():
    def f(x):
        t = torch.zeros(3)
        t[1:].add_(2)
        return x * t.sum().item()

    check(f, randn(2))


def test_what_depends_on_inputs_or_chance_is_no_constant():
    check_left_to_eager(lambda x: x if len(x[torch.rand(3) > 2]) > 1 else -x, randn(3), why="value")
    for f in (lambda x: x if x.sum() > 0 else -x, lambda x: x[: torch.ones(3).to(x).mul(x).sum().abs().long()]):
        compiled = thunder.jit(f)
        for x in (randn(3), torch.ones(3), -torch.ones(3)):
            torch.testing.assert_close(compiled(x), f(x))


# ---- requires_grad_() ------------------------------------------------------------------------------------------------


def test_made_to_require_gradients():
    def f(x):
        w = torch.ones(3, requires_grad=True)
        return (x * w).sum() + torch.zeros(2, requires_grad=True, dtype=torch.float64).sum(), w

    check(lambda x: f(x.cpu())[0], randn(3))
    check_left_to_eager(f, torch.randn(3), why="made a leaf")
    with pytest.raises(RuntimeError, match="floating point"):
        thunder.jit(lambda: torch.ones(3, dtype=torch.int64, requires_grad=True))()


def test_a_new_leaf():
    # As transformers' audio encoders do in front of frozen layers.
    def f(x, w):
        h = x[:, None]
        h.requires_grad = True
        assert h.requires_grad and (h * 2).requires_grad and not x.requires_grad
        return (h * w).sum()

    x, w = randn(3).detach(), randn(3)
    check(f, x, w)
    with torch.no_grad():
        assert not thunder.jit(lambda x: (x.detach().requires_grad_() * 2))(x).requires_grad


def of_an_argument(part):
    def f(x, w):
        before = x.is_leaf
        part(x).mul_(part(w))
        return before, x.is_leaf, x.requires_grad

    return f


@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[0]])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_is_leaf_after_a_write(part, captured, grad):
    """What came to require grad is no leaf."""

    def run(compiled):
        x, w, f = torch.ones(3, device=DEVICE), torch.ones(3, device=DEVICE, requires_grad=grad), of_an_argument(part)
        g = (lambda w: f(x, w)) if captured else f
        return (thunder.jit(g) if compiled else g)(*([w] if captured else [x, w]))

    assert run(True) == run(False) == (True, not grad, grad)


def test_a_new_leaf_must_be_inexact():
    with pytest.raises(RuntimeError, match="floating point dtype can require gradients"):
        thunder.jit(lambda x: (x > 0).requires_grad_())(randn(3))


# ---- other forms of arguments ---------------------------------------------------------------------------------------


def test_names_of_numpy():
    check(lambda x: torch.cat([x, x * 2], axis=1).sum(axis=0, keepdims=True), randn(2, 3))
    check(lambda x: torch.add(x=x, other=x) + torch.mul(x1=x, x2=x).squeeze(axis=0), randn(1, 3))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32])
@pytest.mark.parametrize("range_", [(0, 9.9, 2.5), (0.5, 9.9, 2.5), (0, 8.0, 2.0), (9.9, 0, -2.5), (-3.5, 3.5, 2)])
def test_arange_of_fractions_in_integers(range_, dtype):
    f = lambda: torch.arange(*range_, dtype=dtype)
    torch.testing.assert_close(thunder.jit(f)(), f(), rtol=0, atol=0)


def test_lazily_negated_inputs():
    # Fused kernels read memory, and that of a conjugate's imaginary part holds the negative.
    x = torch.randn(5, dtype=torch.complex64, device=DEVICE).conj().imag
    assert x.is_neg()
    f = lambda x: torch.sin(x) * 2 + x
    torch.testing.assert_close(thunder.jit(f)(x), f(x))


def test_a_module_made_inside():
    def f(x):
        torch.manual_seed(0)
        kind = {"device": x.device, "dtype": x.dtype}
        return torch.nn.Linear(3, 3, **kind)(x) + torch.nn.LayerNorm(3, **kind)(x)

    x = randn(2, 3)
    torch.testing.assert_close(thunder.jit(f)(x), f(x))


def test_types_of_python_are_dtypes():
    def f(x):
        return x.to(float), torch.zeros(2, dtype=int), torch.ones(2, dtype=bool), x.to(complex)

    x = torch.ones(2, device=DEVICE)
    for got, want in zip(thunder.jit(f)(x), f(x), strict=True):
        assert got.dtype == want.dtype


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
def test_assertions_of_torch_are_those_of_eager(cache):
    def f(x, n):
        torch._assert(x.shape[0] == 4, "four rows")
        torch._assert((x > 0).all(), "positive")
        torch._assert(n > 0, f"n is {n}")
        return x * n

    compiled = thunder.jit(f, cache=cache)
    for arguments in ((torch.ones(4), 3), (torch.ones(4), 2)):
        assert torch.equal(compiled(*arguments), f(*arguments))
    for arguments, message in (
        ((torch.ones(5), 3), "four rows"),
        ((torch.zeros(4), 3), "positive"),
        ((torch.ones(4), -1), "n is -1"),
    ):
        with pytest.raises(AssertionError, match=message):
            compiled(*arguments)


@pytest.mark.parametrize("rows", [
    [2, 0, 2, 4], [-1, 3], [], [[1, 1], [0, 4], [-5, 2]], [4] * 40,
], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", [(5, 16), (5, 3), (5, 4, 8), (5,), (5, 1, 33)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_rows(rows, shape, dtype):
    x = randn(*shape).detach().to(dtype)
    i = torch.tensor(rows, dtype=torch.long, device=DEVICE)
    added = x.flatten(1)[i % 5].reshape(*i.shape, *shape[1:]) if x.dim() > 1 else x[i % 5]
    weights = lambda n: torch.arange(n, device=DEVICE).sin()
    functions = [lambda x, i, v: x[i], lambda x, i, v: x.index_put((i,), v, accumulate=True)]
    for f in functions:
        for t in (x, x.transpose(0, -1).contiguous().transpose(0, -1)):
            inputs = [t.detach().requires_grad_(dtype.is_floating_point) for _ in range(2)]
            found = []
            for g, t in zip((f, thunder.jit(f)), inputs, strict=True):
                made = g(t, i, added)
                loss = (made.float() * weights(made.numel()).view_as(made)).sum()
                gradient = torch.autograd.grad(loss, t)[0] if t.requires_grad else None
                found.append((made, made.stride(), gradient))
            # Sums of 16 bits are rounded once where they are kernels, eager's after each addition.
            near = {"rtol": 0.06, "atol": 0.1} if dtype == torch.bfloat16 else {}
            torch.testing.assert_close(*found, **near)


def test_rows_that_are_not_there():
    x = randn(5, 16)
    for i in ([5], [0, -6]):
        if DEVICE == "cpu":
            with pytest.raises(IndexError, match="out of bounds"):
                thunder.jit(lambda x, i: x[i])(x, torch.tensor(i))


@pytest.mark.parametrize("transposed", [True, False])
def test_gradients_lie_as_the_arguments_of_an_operator_without_a_record(transposed):
    """A contiguous gradient of a transposed weight would be copied twice on its way to the weight's."""

    def program(x, w, offsets):
        return torch._grouped_mm(x, w.mT if transposed else w, offs=offsets)

    shape = (4, 16, 8) if transposed else (4, 8, 16)
    w = torch.randn(shape, dtype=torch.bfloat16, requires_grad=True)
    x = torch.randn(20, 8, dtype=torch.bfloat16, requires_grad=True)
    offsets = torch.tensor([4, 9, 9, 20], dtype=torch.int32)
    compiled, found = thunder.jit(program), []
    for f in (program, compiled):
        f(x, w, offsets).square().sum().backward()
        found.append((x.grad, w.grad))
        x.grad = w.grad = None
    torch.testing.assert_close(found[1], found[0])
    backward = str(thunder.last_backward_traces(compiled)[-1])
    assert ("bf16[4, 8, 16] strides=(128, 1, 8)" in backward) == transposed


def test_new_of_a_tensor():
    def f(x):
        empty = x.new(torch.Size([2, 3])), x.new(2, 3), x.new()
        noise = torch.distributions.Exponential(x.exp()).rsample((2,))
        return [(e.shape, e.dtype) for e in empty], x.new([1, 2]), x.new((3, 4)), noise.shape, noise

    x = torch.randn(3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    *result, noise = thunder.jit(f)(x)
    *expected, _ = f(x)
    assert result[0] == expected[0] and result[3] == expected[3] and noise.min() > 0
    torch.testing.assert_close(result[1:3], expected[1:3])
    (gradient,) = torch.autograd.grad(noise.sum(), x)
    torch.testing.assert_close(gradient, -noise.sum(0))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lengths_of_ctc_loss_that_are_tensors_are_not_read(reduction, dtype):
    """Finding the overload of an operator asks for no values."""

    def f(scores, targets, lengths, target_lengths):
        return F.ctc_loss(scores.log_softmax(-1), targets, lengths, target_lengths, reduction=reduction)

    compiled = thunder.jit(f)
    for i in range(4):
        torch.manual_seed(i)
        a, b = (torch.randn(30, 3, 7, dtype=dtype, generator=torch.Generator().manual_seed(i)) for _ in range(2))
        a.requires_grad_(), b.requires_grad_()
        rest = torch.randint(1, 7, (3, 9)), torch.randint(25, 31, (3,)), torch.randint(2, 10, (3,))
        got, want = compiled(a, *rest), f(b, *rest)
        torch.testing.assert_close(got, want)
        got.sum().backward(), want.sum().backward()
        torch.testing.assert_close(a.grad, b.grad)
    assert thunder.cache_misses(compiled) == 1, thunder.compile_stats(compiled)["last_miss"]
