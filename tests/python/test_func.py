"""Transforms of torch.func, and torch.autograd.functional, inside compiled functions: all is eager's, and compiled."""

import copy
import warnings

import pytest
import torch
from eager_checks import eager_calls
from func_checks import check, tensor
from torch import nn
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.nn import functional as F
from torch.testing import assert_close

import thunder

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def f(x):
    return (x.sin() * x.exp()).sum()


# ---- one transform --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (8,), (3, 5), (0, 4)])
def test_grad(shape, requires_grad):
    x = tensor(*shape, requires_grad=requires_grad)
    check(lambda x: grad(f)(x), x)
    check(lambda x: grad_and_value(f)(x), x)
    check(lambda x: grad(lambda y: grad(f)(y).sum())(x), x)
    check(lambda x: grad(lambda y: grad(lambda z: grad(f)(z).cos().sum())(y).sum())(x), x)


@pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), (2,), (2, 0)])
def test_argnums(argnums):
    def g(x, y, z):
        return (x * y.sin()).sum() + (z["a"] * x).sum() * z["b"][0].sum()

    args = tensor(3), tensor(3), {"a": tensor(3), "b": [tensor(2)]}
    check(lambda x, y, z: grad(g, argnums=argnums)(x, y, z), *args)
    check(lambda x, y, z: jacrev(lambda *a: a[0] * g(*a), argnums=argnums)(x, y, z), *args)
    if 2 not in (argnums if isinstance(argnums, tuple) else (argnums % 3,)):
        check(lambda x, y, z: jacfwd(lambda *a: a[0] * g(*a), argnums=argnums)(x, y, z), *args)


def test_aux():
    def g(x):
        y = x * 2
        return (y * x).sum(), {"y": y, "x": x, "views": (y[1:], x[:1])}

    for requires_grad in (False, True):
        x = tensor(3, requires_grad=requires_grad)
        check(lambda x: grad(g, has_aux=True)(x), x)
        check(lambda x: grad_and_value(g, has_aux=True)(x), x)

        def back(x):
            out, pull, aux = vjp(g, x, has_aux=True)
            return out, pull(out), aux

        check(back, x)
        check(lambda x: jvp(g, (x,), (x * x,), has_aux=True), x)
        check(lambda x: jacrev(g, has_aux=True)(x), x)


def test_what_a_view_in_aux_shares():
    def fn(x):
        _, (_, view) = grad_and_value(lambda y: ((y * y).sum(), y[1:]), has_aux=True)(x)
        view.mul_(2)
        return x * 1

    x, y = tensor(3), None
    y = x.clone()
    assert_close(thunder.jit(fn)(x), fn(y))
    assert_close(x, y)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_vjp(requires_grad):
    w = tensor(4, 3, requires_grad=requires_grad)

    def fn(x, g):
        (y, z), pull = vjp(lambda a, b: (torch.tanh(a @ w), (a * b).sum()), x, x + 1)
        return y, z, pull((g, z)), pull((g * 2, torch.ones_like(z)))

    check(fn, tensor(5, 4, requires_grad=requires_grad), tensor(5, 3), wanted=[w])
    check(fn, tensor(1, 4), tensor(1, 3), wanted=[w])


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("shape", [(5, 4), (1, 4), (8, 4)])
def test_jvp(shape, requires_grad):
    w = tensor(4, 3, requires_grad=requires_grad)

    def fn(x, t):
        return jvp(lambda a: (torch.softmax(a @ w, -1), a.amax(), a.argmax()), (x,), (t,))

    check(fn, tensor(*shape, requires_grad=requires_grad), tensor(*shape), wanted=[w] if requires_grad else [])


NESTED = {
    "forwards through a batch of gradients": lambda x, w: jvp(
        lambda y: vmap(grad(lambda r: (torch.tanh(r @ w) ** 2).sum()))(y), (x,), (x * 2,)
    ),
    "backwards through a batch of derivatives": lambda x, w: grad(
        lambda y: vmap(lambda r: jvp(lambda q: torch.tanh(q @ w), (r,), (r * 2,))[1].sum())(y).sum()
    )(x),
    "a batch of cotangents": lambda x, w: vmap(vjp(lambda q: torch.tanh(q @ w), x[0])[1])(torch.eye(3, dtype=x.dtype)),
    "for a cotangent": lambda x, w: grad(
        lambda g: (vjp(lambda q: torch.tanh(q * 2), torch.ones_like(g))[1](g)[0] ** 2).sum()
    )(x[1]),
    "for what is closed over": lambda x, w: grad(
        lambda a: grad(lambda b: (a * b.sin() * w.sum()).sum())(x[0]).sum()
    )(x[1]),
    "perturbations": lambda x, w: grad(lambda a: a.sum() * grad(lambda b: (a * b).sum())(a).sum())(x[0]),
    "the argument closed over": lambda x, w: grad(lambda a: (a * x).sum())(x),
    "one tensor twice": lambda x, w: grad(lambda a, b: (a * b.exp()).sum(), argnums=(0, 1))(x[0], x[0]),
    "the argument itself": lambda x, w: (lambda y, pull: (y * 1, pull(x)[0]))(*vjp(lambda a: a, x)),
    "the argument itself, forwards": lambda x, w: jvp(lambda a: a, (x,), (x * 2,)),
    "what depends on nothing": lambda x, w: (lambda y, pull: (y * 1, pull(w)[0]))(*vjp(lambda a: w * 2, x)),
    "what depends on nothing, forwards": lambda x, w: jvp(lambda a: w * 2, (x,), (x,)),
    "what depends on nothing, in a batch": lambda x, w: vmap(grad(lambda r: (w * 2).sum()))(x),
    "an index": lambda x, w: grad(lambda a, i: a[i].sum())(x, torch.tensor([0, 0, 2])),
    "aux of a batch": lambda x, w: vmap(
        grad_and_value(lambda r: ((r @ w).sin().sum(), {"h": r @ w, "n": r.norm()}), has_aux=True)
    )(x),
    "third derivatives": lambda x, w: jacfwd(jacrev(jacfwd(lambda v: (v**3).sum() * w.sum())))(x[0]),
}


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("name", NESTED)
def test_nested(name, requires_grad):
    check(NESTED[name], tensor(4, 3, requires_grad=requires_grad), tensor(3, 3, requires_grad=True))


def test_linearize():
    def fn(x, t):
        y, push = linearize(lambda a: a.sin() * a, x)
        return y, push(t), push(t * 2)

    check(fn, tensor(5), tensor(5))


@pytest.mark.parametrize("of", [jacrev, jacfwd], ids=["jacrev", "jacfwd"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1,), ()])
def test_jacobians(of, shape):
    w = tensor(3, 4, requires_grad=True)

    def g(x):
        return {"a": x.sin(), "b": (x.reshape(-1)[:1] * w[:, 0].sum(), x.sum())}

    check(lambda x: of(g)(x), tensor(*shape), wanted=[w])
    check(lambda x: of(lambda x: of(lambda y: y.sin() * y.sum())(x))(x), tensor(*shape, requires_grad=True))


@pytest.mark.parametrize("shape", [(4,), (2, 3), (1,)])
def test_hessian(shape):
    w = tensor(*shape, requires_grad=True)

    def g(x):
        return (torch.tanh(x * w).sum() ** 2) + (x**3).logsumexp(0).sum()

    check(lambda x: hessian(g)(x), tensor(*shape), wanted=[w])
    check(lambda x: jacrev(jacrev(g))(x), tensor(*shape), wanted=[w])
    check(lambda x: jacrev(jacfwd(g))(x), tensor(*shape), wanted=[w])
    check(lambda x: jacfwd(jacfwd(g))(x), tensor(*shape), wanted=[w])


def test_hessian_vector_products():
    x, v = tensor(6), tensor(6)
    check(lambda x, v: jvp(grad(f), (x,), (v,))[1], x, v)
    check(lambda x, v: vjp(grad(f), x)[1](v)[0], x, v)
    check(lambda x, v: grad(lambda y: (grad(f)(y) * v).sum())(x), x, v)
    check(lambda x, v: jvp(lambda y: jvp(f, (y,), (v,))[1], (x,), (v,)), x, v)


@pytest.mark.parametrize("chunk_size", [1, 2, 100])
def test_chunks(chunk_size):
    check(lambda x: jacrev(lambda y: y.sin() * y.sum(), chunk_size=chunk_size)(x), tensor(5))
    check(lambda x: vmap(grad(f), chunk_size=chunk_size)(x), tensor(5, 3))


# ---- modes of gradients ---------------------------------------------------------------------------------------------


def test_no_grad():
    w = tensor(3, requires_grad=True)

    def inside(x):
        with torch.no_grad():
            c = x**2
        return ((x - c) * w).sum()

    x = tensor(3, requires_grad=True)
    check(lambda x: grad(inside)(x), x, wanted=[x, w])

    def outside(x):
        with torch.no_grad():
            g = grad(lambda y: (y.sin() * w).sum())(x)
        return g, x * g

    check(outside, x, wanted=[x])
    check(lambda x: grad(lambda y: (y.detach() * y * w).sum())(x), x, wanted=[x, w])
    check(lambda x: jvp(lambda y: y.detach() * y * w, (x,), (x * 2,)), x, wanted=[x, w])
    with torch.no_grad():
        compiled = thunder.jit(lambda x: grad(f)(x))
        assert_close(compiled(x), grad(f)(x))
        assert not compiled(x).requires_grad
    assert eager_calls(compiled) == {}


def test_forwards_through_no_grad_is_eagers():
    def fn(x):
        def g(y):
            with torch.no_grad():
                c = y * 3
            return c * y

        return jvp(g, (x,), (x,))

    x = tensor(3)
    compiled = thunder.jit(fn)
    assert_close(compiled(x), fn(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1)).to(dtype)
    x = tensor(5, 7, dtype=dtype)

    def fn(x):
        g = vmap(grad(lambda y: net(y).squeeze()))(x)
        return g, (g.float() ** 2).mean()

    exact = copy.deepcopy(net).double()
    want = vmap(grad(lambda y: exact(y).squeeze()))(x.double())
    compiled = thunder.jit(fn)
    for _ in range(2):
        got, eagers = compiled(x)[0], fn(x)[0]
        assert got.dtype == dtype
        error, allowed = (got.double() - want).norm(), (eagers.double() - want).norm()
        assert error <= 2 * allowed + 4 * torch.finfo(dtype).eps * want.norm()
    assert eager_calls(compiled) == {}


# ---- torch.autograd.functional --------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [False, True])
def test_autograd_functional(create_graph):
    af = torch.autograd.functional
    keep = {"create_graph": create_graph}

    def g(x):
        return x.sin() * x.sum()

    x, v = tensor(4, requires_grad=create_graph), tensor(4)
    check(lambda x, v: af.vjp(g, x, v, **keep), x, v)
    check(lambda x, v: af.jvp(g, x, v, **keep), x, v)
    check(lambda x: af.jacobian(g, x, **keep), x)
    check(lambda x: af.hessian(f, x, **keep), x)
    check(lambda x, v: af.hvp(f, x, v, **keep), x, v)
    check(lambda x, v: af.vhp(f, x, v, **keep), x, v)


def test_vectorized_autograd_functional():
    af = torch.autograd.functional
    x = tensor(4)
    check(lambda x: af.jacobian(lambda y: y.sin() * y.sum(), x, vectorize=True), x)
    check(lambda x: af.hessian(f, x, vectorize=True), x)
    x.requires_grad_()
    check(lambda x: af.jacobian(lambda y: y.sin() * y.sum(), x, vectorize=True, create_graph=True), x)
    forwards = lambda x: af.jacobian(lambda y: y.sin(), x, vectorize=True, strategy="forward-mode")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of eager running it
        assert_close(thunder.jit(forwards)(x), forwards(x))


@pytest.mark.parametrize("n", [1, 4])
def test_a_batch_of_cotangents(n):
    w = tensor(3, 2, requires_grad=True)

    def fn(x, g):
        y, z = torch.tanh(x @ w), x.sum(1)
        return torch.autograd.grad([y, z], [x, w], [g, g.sum(2)], is_grads_batched=True, create_graph=True)

    check(fn, tensor(5, 3, requires_grad=True), tensor(n, 5, 2), wanted=[w])


def test_what_raises_within():
    def fn(x):
        y = x[1:]

        def g(z):
            if z.shape[0] == 3:
                raise ValueError((z * y.sum()).shape)
            return z.sum()

        x = x * 2
        try:
            return grad(g)(x)
        except ValueError:
            return x + y.sum()

    check(fn, tensor(3))


# ---- what eager refuses, and what is left to it ---------------------------------------------------------------------


REFUSED = {
    "no number": lambda x: grad(lambda y: y * 2)(x),
    "no tensor": lambda x: grad(lambda y: 3.0)(x),
    "argnums": lambda x: grad(f, argnums=3)(x),
    "integers": lambda x: grad(lambda y: y.sum())((x > 0).long()),
    "a number as argument": lambda x: grad(lambda y, z: (y * z).sum(), argnums=1)(x, 2.0),
    "aux": lambda x: grad(f, has_aux=True)(x),
    "writes": lambda x: grad(lambda y: y.mul_(2).sum())(x),
    "cotangents": lambda x: vjp(lambda y: y * 2, x)[1]((x, x)),
    "tangents": lambda x: jvp(lambda y: y * 2, x, x),
    "shapes": lambda x: vjp(lambda y: y * 2, x)[1](x[:1]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses(name):
    x = tensor(3)
    with pytest.raises(Exception) as eager:  # whichever it is
        REFUSED[name](x.clone())
    with pytest.raises(type(eager.value)) as ours:
        thunder.jit(REFUSED[name])(x.clone())
    assert str(ours.value) == str(eager.value)


def reads(x):
    return grad(lambda y: (y * 2 if y.sum() > 0 else y * 3).sum())(x)


def test_a_function_that_reads_values_is_eagers():
    compiled = thunder.jit(reads)
    for x in (tensor(3).abs(), -tensor(3).abs()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of eager running it
            assert_close(compiled(x), reads(x))


def test_what_leaves_the_function():
    kept = []

    def fn(x):
        kept.clear()
        g = grad(lambda y: (kept.append(y * 2), (y * y).sum())[1])(x)
        return g + kept[0]

    check(fn, tensor(3))

    def escapes(x):
        return vjp(lambda y: y.sin(), x)

    x = tensor(3)
    for _ in range(2):
        with pytest.warns(UserWarning, match="outlives the call"):
            y, pull = thunder.jit(escapes)(x)
        assert_close((y, pull(x)), (x.sin(), (x * x.cos(),)))


def test_random_numbers():
    def fn(x):
        return grad(lambda y: (F.dropout(y, 0.5) ** 2).sum())(x)

    x, compiled = tensor(50), thunder.jit(fn)
    for _ in range(2):
        torch.manual_seed(3)
        want = fn(x)
        torch.manual_seed(3)
        assert_close(compiled(x), want)
    assert eager_calls(compiled) == {}


OUTSIDE = {"w": tensor(3), "deep": {"b": [tensor()]}}


def weighted(p, x):
    return (p["w"] * x).sum() * p["deep"]["b"][0]


READERS = {
    "vmap": lambda x: vmap(weighted, (None, 0))(OUTSIDE, x),
    "grad": lambda x: grad(weighted)(OUTSIDE, x[0]),
    "both": lambda x: vmap(grad(weighted), (None, 0))(OUTSIDE, x),
    "jacrev": lambda x: jacrev(lambda p: weighted(p, x[0]) * x)(OUTSIDE),
    "jvp": lambda x: jvp(lambda p: weighted(p, x[0]) * x, (OUTSIDE,), (OUTSIDE,)),
}


@pytest.mark.parametrize("name", READERS)
def test_parameters_in_a_dict_outside(name):
    """What is read of it is guarded."""
    fn, x = READERS[name], tensor(4, 3)
    compiled = thunder.jit(fn)
    single = tensor(3, dtype=torch.float32)
    for change in ({"w": tensor(3)}, {"deep": {"b": [tensor()]}}, {"w": single}, {"w": tensor(3)}):
        assert_close(compiled(x), fn(x))
        OUTSIDE.update(change)
        assert_close(compiled(x), fn(x))
    OUTSIDE["deep"]["b"][0] = tensor()
    assert_close(compiled(x), fn(x))
    assert eager_calls(compiled) == {}
