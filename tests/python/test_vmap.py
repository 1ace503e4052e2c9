"""torch.vmap inside of compiled functions: compiled where there are rules for what the function calls, else eager's."""

import pytest
import torch

import thunder

W = torch.randn(3)


def compared(f, *args):
    """The compiled function, after its results and gradients were compared with eager's."""
    compiled, runs = thunder.jit(f), []
    for g in (compiled, f):
        inputs = [a.clone().requires_grad_() for a in args]
        results = g(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        total = sum(r.sin().sum() for r in results)
        gradients = torch.autograd.grad(total, inputs, allow_unused=True) if total.requires_grad else []
        runs.append([*results, *gradients])
    for got, want in zip(*runs, strict=True):
        # What a result does not depend on has no gradient, or zeros.
        other = got if want is None else want
        if other is not None:
            got, want = (torch.zeros_like(other) if t is None else t for t in (got, want))
        torch.testing.assert_close(got, want)
    return compiled


def keeps_what_is_the_same(x):
    kept = []
    y = torch.vmap(lambda r: kept.append(W * 2) or r * 3)(x)
    return y + kept[0]


def with_a_part_under_no_grad(x):
    def f(r):
        y = r * 2
        with torch.no_grad():
            z = y * 3
        return y * z, z + 1

    return torch.vmap(f)(x)


def writes_to_parts(x):
    def f(r):
        y = r * 2
        return y, y[1:], y[:2].reshape(2, 1)

    whole, part, other = torch.vmap(f)(x)
    part.mul_(3)
    other.add_(1)
    return whole, part, other


def writes_to_the_batch(x):
    y = x * 2
    part = torch.vmap(lambda r: r[1:])(y)
    part.mul_(3)
    same = torch.vmap(lambda r: r, in_dims=1)(y)
    same.add_(1)
    return y, part, same


def writes_into_a_copy(x):
    y = x.reshape(2, 2, 3).transpose(1, 2) * 1
    z = torch.vmap(lambda r: r.t().reshape(-1))(y)
    z.mul_(2)
    return y, z


COMPILED = {
    "pointwise": lambda x: torch.vmap(lambda r: r.sin() * W + 1)(x),
    "reduction": lambda x: torch.vmap(lambda r: (r * W).sum() + r.amax())(x),
    "softmax": lambda x: torch.vmap(lambda r: torch.softmax(r, 0) * r.mean())(x),
    "product": lambda x: torch.vmap(lambda r: r @ W)(x),
    "linear": lambda x: torch.vmap(lambda r: torch.nn.functional.linear(r, W[None]))(x),
    "several": lambda x: torch.vmap(lambda r, s: (r + s.sum(), s * W), in_dims=(0, 1), out_dims=1)(x, x.t() * 2),
    "a dict": lambda x: torch.vmap(lambda d: d["a"] * d["b"])({"a": x, "b": x + 1}),
    "not batched": lambda x: torch.vmap(lambda r, w: r * w, in_dims=(0, None))(x, W),
    "keywords": lambda x: torch.vmap(lambda r, *, scale: r * scale)(x, scale=2.0),
    "the same for all": lambda x: torch.vmap(lambda r: torch.ones(2))(x) + x.sum(),
    "nested": lambda x: torch.vmap(lambda r: torch.vmap(lambda e: e * e + 1)(r))(x),
    "shapes": lambda x: torch.vmap(lambda r: r.reshape(3, 1).expand(3, r.shape[0]) * 2)(x),
    "scalars of another type": lambda x: torch.vmap(lambda r: r.double().sum() * r)(x),
    "without gradients": lambda x: torch.vmap(lambda r: r * r.detach())(x),
    "the same result twice": lambda x: torch.vmap(lambda r: ((y := r * 2), y))(x),
    "what is kept and the same for all": keeps_what_is_the_same,
    "nothing": lambda x: torch.vmap(lambda r: r * 2)(x[:0]),
    "chunks": lambda x: torch.vmap(lambda r: r * 2, chunk_size=2)(x),
    "several dimensions": lambda x: torch.vmap(lambda r: (r * 2, r + 1), out_dims=(0, 1))(x),
    "a view of what it computes": lambda x: torch.vmap(lambda r: (r * 2)[1:])(x),
    "no gradient for a part": with_a_part_under_no_grad,
    "a view": lambda x: torch.vmap(lambda r: r.view(3, 1))(x),
    "the sample itself": lambda x: torch.vmap(lambda r: r)(x),
    "a view of another result": lambda x: torch.vmap(lambda r: ((y := r * 2), y.reshape(3, 1)))(x),
    "a copy that is written to": writes_into_a_copy,
    "what all share": lambda x: torch.vmap(lambda r: W)(x) * x,
    "written views of one result": writes_to_parts,
    "written views of the batch": writes_to_the_batch,
    "sorting": lambda x: torch.vmap(lambda r: (r.sort()[0], r.topk(2)[0], r.argsort().argmax() + r.argmin()))(x),
    "scans": lambda x: torch.vmap(lambda r: r.logcumsumexp(0) + r.cummax(0)[0])(x),
    "windows": lambda x: torch.vmap(lambda r: r.unfold(-1, 2, 1).flip(0) * W[:2])(x),
    "one of size 1": lambda x: torch.vmap(lambda r: r[None].squeeze(0).expand(2, 3))(x[:1]),
    "windows of a repeated batch": lambda x: torch.vmap(lambda r: r.unfold(0, 2, 1))(x[:1].expand(4, 3)),
    "diagonals": lambda x: torch.vmap(lambda r: torch.diag(r).diagonal() + torch.outer(r, r).trace())(x),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name):
    compiled = compared(COMPILED[name], torch.randn(4, 3))
    assert not thunder.compile_stats(compiled)["eager_calls"]


def writes(x):
    y = x.clone()
    torch.vmap(lambda r: r.add_(1))(y)
    return y


def writes_outside(x):
    y = torch.zeros(3)
    torch.vmap(lambda r: y.mul_(2) + r)(x)
    return y + x


def keeps_a_sample(x):
    kept = []
    torch.vmap(lambda r: kept.append(r * 2) or r * 3)(x)
    return kept[0] + x


LEFT = {
    "an operator without a rule": lambda x: torch.vmap(lambda r: r.kthvalue(1)[0])(x),
    "a size in the values": lambda x: torch.vmap(lambda r: r * W[W > 0].sum())(x),
    "writes": writes,
    "writes outside": writes_outside,
}


@pytest.mark.parametrize("name", LEFT)
def test_left_to_eager(name):
    compiled = compared(LEFT[name], torch.randn(4, 3))
    (reason,) = thunder.compile_stats(compiled)["eager_calls"]
    assert "vmap" in reason


OUTSIDE = torch.tensor([[0, 1], [2, 3], [1, 1], [0, 2]])  # of three elements, and inside of the batch

REFUSED = {
    "an index outside of a sample": lambda x: torch.vmap(lambda r, i: r.index_select(0, i))(x, OUTSIDE),
    "an addition outside of a sample": lambda x: torch.vmap(lambda r, i: r.index_add(0, i, r[:2]))(x, OUTSIDE),
    "a copy outside of a sample": lambda x: torch.vmap(lambda r, i: r.index_copy(0, i, r[:2]))(x, OUTSIDE),
    "a sample outside": keeps_a_sample,
    "a branch": lambda x: torch.vmap(lambda r: r if r.sum() > 0 else -r)(x),
    "a number": lambda x: torch.vmap(lambda r: r * r.sum().item())(x),
    "other results": lambda x: torch.vmap(lambda r: (r.sum(), 3))(x),
    "random numbers": lambda x: torch.vmap(lambda r: r + torch.rand(3))(x),
    "no batch": lambda x: torch.vmap(lambda r: r, in_dims=None)(x),
    "other sizes": lambda x: torch.vmap(lambda r, s: r + s)(x, x[:2]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses(name):
    x = torch.randn(4, 3)
    with pytest.raises(Exception) as eager:  # whichever it is
        REFUSED[name](x)
    with pytest.raises(type(eager.value)):
        thunder.jit(REFUSED[name])(x)


def test_samples_have_the_strides_of_eagers():
    def program(x):
        strides = []
        y = torch.vmap(lambda r: strides.append(r.stride()) or r * 2, in_dims=1)(x)
        return y, strides

    x = torch.randn(4, 3)
    (got, got_strides), (want, strides) = thunder.jit(program)(x), program(x)
    assert torch.equal(got, want)
    assert got_strides == strides == [(3,)]


DRAWING = {
    "rand": lambda r: r + torch.rand(3, dtype=r.dtype),
    "several": lambda r: r * torch.randn(3, dtype=r.dtype) + torch.randint(0, 9, (3,)) * torch.rand((), dtype=r.dtype),
    "dropout": lambda r: torch.nn.functional.dropout(r * 2, 0.3) + torch.nn.functional.dropout(r, 0.6),
    "of what all share": lambda r: torch.nn.functional.dropout(torch.ones(3, dtype=r.dtype)) * r,
    "a gradient": torch.func.grad(lambda r: (torch.nn.functional.dropout(r, 0.5) ** 2).sum()),
}


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("name", DRAWING)
@pytest.mark.parametrize("size", [1, 4, 37])
def test_random_numbers_are_eagers(name, randomness, size):
    x = torch.randn(size, 3)
    f = lambda x: torch.vmap(DRAWING[name], randomness=randomness)(x)
    compiled = thunder.jit(f)
    for _ in range(2):
        torch.manual_seed(0)
        want = f(x)
        after = torch.rand(())
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(x), want)
        assert torch.rand(()) == after
    assert not thunder.compile_stats(compiled)["eager_calls"]


def test_other_sizes_run_the_same_program():
    compiled = thunder.jit(lambda x: torch.vmap(lambda r: r * r.sum())(x))
    for n in (4, 7, 2, 9):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), x * x.sum(1, keepdim=True))
    assert thunder.cache_misses(compiled) == 2
    assert not thunder.compile_stats(compiled)["eager_calls"]


def layers(size, batched_bias, dtype=torch.float32):
    w, b = torch.randn(size, 5, 3, dtype=dtype), torch.randn(*([size] if batched_bias else []), 5, dtype=dtype)
    return w, b, 0 if batched_bias else None


@pytest.mark.parametrize("inner", [(3,), (7, 3), (2, 4, 3), (0, 3)])
@pytest.mark.parametrize("batched_input", [False, True])
@pytest.mark.parametrize("batched_bias", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_linear_with_a_weight_for_each(inner, batched_input, batched_bias, size):
    w, b, of_bias = layers(size, batched_bias)
    x = torch.randn(*([size] if batched_input else []), *inner)
    dims = (0 if batched_input else None, 0, of_bias)
    compiled = compared(lambda x, w, b: torch.vmap(torch.nn.functional.linear, in_dims=dims)(x, w, b), x, w, b)
    assert not thunder.compile_stats(compiled)["eager_calls"]
    compiled = compared(lambda x, w: torch.vmap(torch.nn.functional.linear, in_dims=dims[:2])(x, w), x, w)
    assert not thunder.compile_stats(compiled)["eager_calls"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_linear_with_a_weight_for_each_in_other_types(dtype):
    w, b, _ = layers(4, True, dtype)
    x = torch.randn(7, 3, dtype=dtype)
    compiled = thunder.jit(lambda x, w, b: torch.vmap(torch.nn.functional.linear, in_dims=(None, 0, 0))(x, w, b))
    got, want = compiled(x, w, b), torch.einsum("nk,bmk->bnm", x.double(), w.double()) + b.double()[:, None]
    tolerance = {} if dtype == torch.float64 else {"rtol": 0.02, "atol": 0.04}
    torch.testing.assert_close(got, want.to(dtype), **tolerance)


def test_one_bias_for_each():
    w, b, _ = layers(4, True)
    linear = torch.nn.functional.linear
    x, dims = torch.randn(7, 3), (None, None, 0)
    compiled = compared(lambda x, w, b: torch.vmap(linear, in_dims=dims)(x, w, b), x, w[0], b)
    assert not thunder.compile_stats(compiled)["eager_calls"]


def test_an_ensemble_of_modules():
    base = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    models = [torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)) for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(models)
    parameters = {name: p.detach() for name, p in parameters.items()}
    x = torch.randn(4, 6)

    def run(p, x):
        return torch.vmap(lambda q, x: torch.func.functional_call(base, q, (x,)), in_dims=(0, None))(p, x)

    compiled = thunder.jit(run)
    torch.testing.assert_close(compiled(parameters, x), torch.stack([m(x) for m in models]))
    assert not thunder.compile_stats(compiled)["eager_calls"]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sums_up_to_each_element(dim):
    compiled = compared(lambda x: torch.vmap(lambda r: r.cumsum(dim) * r.cumprod(dim))(x), torch.randn(4, 3, 5))
    assert not thunder.compile_stats(compiled)["eager_calls"]


I, J = torch.tensor([2, 0, 2, 1]), torch.tensor([[1, 0], [2, 2], [0, 1], [1, 1]])
INDEXED = {
    "one index": lambda x: torch.vmap(lambda r: r[I] * r.index_select(0, I))(x),
    "an index for each": lambda x: torch.vmap(lambda r, i: r[i] + r.index_select(0, i))(x, J),
    "of what all share": lambda x: torch.vmap(lambda r, i: W[i] * r[:2] + W.index_select(0, i))(x, J),
    "one element": lambda x: torch.vmap(lambda r, i: r[i] * 2)(x, I),
    "a table": lambda x: torch.vmap(lambda i: torch.nn.functional.embedding(i, x))(J),
    "a table for each": lambda x: torch.vmap(lambda r, i: torch.nn.functional.embedding(i, r[:, None]))(x, J),
    "gather": lambda x: torch.vmap(lambda r, i: r.gather(0, i))(x, J),
    "scatter": lambda x: torch.vmap(lambda r, i: r.scatter(0, i[:1], r[1:2]).scatter_add(0, i, r[:2]))(x, J),
    "sums": lambda x: torch.vmap(lambda r, i: r.index_add(0, i, r[:2]).index_add(0, I, W[I]))(x, J),
    "writes of parts": lambda x: torch.vmap(lambda r, i: r.index_put((i,), r[:2], accumulate=True))(x, J),
    "two indices": lambda x: torch.vmap(lambda r, i: (r[:, None] * W)[i, i.flip(0)])(x, J),
    "behind a slice": lambda x: torch.vmap(lambda r: (r[:, None] * W)[:, I])(x),
    "written and read": lambda x: torch.vmap(lambda r: assigned(r * 1))(x),
}


def assigned(y):
    y[1:] = y[:-1] * 2
    y[0] += 1
    return y


@pytest.mark.parametrize("name", INDEXED)
def test_indices(name):
    compiled = compared(INDEXED[name], torch.randn(4, 3))
    assert not thunder.compile_stats(compiled)["eager_calls"]


def of_pictures(filters, bias, x):
    conv = torch.nn.functional.conv2d
    return {
        "one filter": torch.vmap(lambda s: conv(s, filters[0], bias[0], padding=1))(x),
        "a bias for each": torch.vmap(lambda s, b: conv(s, filters[0], b, stride=2))(x, bias),
        "a filter for each": torch.vmap(lambda s, w, b: conv(s, w, b, dilation=2))(x, filters, bias),
        "one picture": torch.vmap(lambda w: conv(x[0], w))(filters),
        "no rows": torch.vmap(lambda s: conv(s, filters[0]))(x[:, 0]),
        "transposed": torch.vmap(lambda s, w: torch.nn.functional.conv_transpose2d(s, w.transpose(0, 1), stride=2))(
            x, filters
        ),
        "pools": torch.vmap(lambda s: torch.nn.functional.max_pool2d(s, 2))(x)
        + torch.vmap(lambda s: torch.nn.functional.avg_pool2d(s, 2))(x)
        + torch.vmap(lambda s: torch.nn.functional.adaptive_avg_pool2d(s, 3))(x),
    }


@pytest.mark.parametrize("rows", [2, 1])
@pytest.mark.parametrize("size", [3, 1])
def test_pictures(size, rows):
    shapes = (size, 5, 4, 3, 3), (size, 5), (size, rows, 4, 6, 6)
    filters, bias, x = (torch.randn(s, dtype=torch.float64) for s in shapes)
    for name in of_pictures(filters, bias, x):
        compiled = compared(lambda *a, name=name: of_pictures(*a)[name], filters, bias, x)
        assert not thunder.compile_stats(compiled)["eager_calls"], name


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_channels(groups):
    w, x = torch.randn(3, 8, 4 // groups, 3), torch.randn(3, 2, 4, 7)
    conv = torch.nn.functional.conv1d
    compiled = compared(lambda w, x: torch.vmap(lambda w, x: conv(x, w, groups=groups))(w, x), w, x)
    assert not thunder.compile_stats(compiled)["eager_calls"]


@pytest.mark.parametrize("n", [1, 5, 8])
@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers_of_an_ensemble_on_one_batch(randomness, n):
    models = [torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Dropout(), torch.nn.Linear(6, 3)) for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(models)

    def f(parameters, x):
        return torch.func.functional_call(models[0], parameters, (x,))

    batched = torch.vmap(f, (0, None), randomness=randomness)
    compiled, x = thunder.jit(batched), torch.randn(n, 4)
    for _ in range(3):
        state = torch.get_rng_state()
        got = compiled(parameters, x)
        drawn = torch.get_rng_state()
        torch.set_rng_state(state)
        torch.testing.assert_close(got, batched(parameters, x))
        assert torch.equal(drawn, torch.get_rng_state())
