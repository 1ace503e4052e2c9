"""thunder.numpy against NumPy: values, dtypes and shapes of every record, gradients, and the language as a whole."""

import inspect
import re
import warnings

import numpy as np
import pytest
import torch
from devices import DEVICE, ON_CPU
from eager_checks import check_left_to_eager

import thunder
import thunder.numpy as tnp
from thunder import _C

OPS = [op for op in _C.ops() if op.level == "numpy"]
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")
# One of each kind, whose pairs promote in different ways.
PAIRS = [(a, b) for a in ("bool", "uint8", "int8", "int32", "int64", "float16", "float32", "complex64")
         for b in ("bool", "int16", "int64", "float32", "float64")] + [("uint8", "int8")]
# What PyTorch does not compute in a dtype that NumPy computes in.
NOT_IN = {
    "heaviside": ("complex64",), "sort": ("complex64",), "argsort": ("complex64",),
    "median": ("complex64",), "max": ("complex64",), "min": ("complex64",), "ptp": ("complex64",),
    "argmax": ("complex64",), "argmin": ("complex64",), "searchsorted": ("complex64",), "maximum": ("complex64",),
    "minimum": ("complex64",), "fmax": ("complex64",), "fmin": ("complex64",), "clip": ("complex64",),
    "less": ("complex64",), "less_equal": ("complex64",), "greater": ("complex64",),
    "greater_equal": ("complex64",), "logaddexp": ("float16",), "logaddexp2": ("float16",),
    "nextafter": ("float16",), "round": ("complex64",), "rint": ("complex64",),
}


def array(shape, dtype, seed=0, low=-4, high=5):
    made = np.asarray(np.random.default_rng(seed).uniform(low, high, shape))
    if dtype == "bool":
        return np.asarray(made > 0)
    if dtype.startswith("complex"):
        return np.asarray(made + 1j * np.random.default_rng(seed + 1).uniform(low, high, shape)).astype(dtype)
    return np.asarray(np.abs(made) if dtype.startswith("uint") else made).astype(dtype)


def on_torch(x):
    if isinstance(x, np.ndarray):
        return torch.tensor(x, device=DEVICE)
    return type(x)(on_torch(item) for item in x) if isinstance(x, (list, tuple)) else x


def same(got, want):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
        return
    want = np.asarray(want)
    got = got.cpu().numpy()
    assert got.dtype == want.dtype and got.shape == want.shape, f"{got.dtype}{got.shape}, {want.dtype}{want.shape}"
    loose = want.dtype in (np.float16, np.float32, np.complex64)
    tolerance = 4e-3 if want.dtype == np.float16 else 2e-5 if loose else 1e-9
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(name, args, kwargs=None):
    """Whether NumPy, and PyTorch on this device, compute it; then it is the same."""
    kwargs = kwargs or {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of an empty mean
        try:
            want = getattr(np, name)(*args, **kwargs)
        except TypeError:
            with pytest.raises((TypeError, RuntimeError, ValueError)):
                getattr(tnp, name)(*on_torch(args), **kwargs)
            return False
    try:
        got = getattr(tnp, name)(*on_torch(args), **kwargs)
    except NotImplementedError as e:
        if ON_CPU or not re.search(r'"\w+_cuda" not implemented for', str(e)):
            raise
        return False
    same(got, want)
    return True


def public(op):
    return op.name.partition(".")[2]


def is_elementwise(op, operands):
    """Whether all it takes are arrays, so many."""
    required = [p for p in op.params if "default" not in p]
    return "pointwise" in op.tags and len(required) == operands and public(op) not in CASES


A, B, V = array((2, 3, 4), "float64"), array((2, 4, 3), "float64", 1), array((5,), "float64")
I, M, ONES = array((2, 3, 4), "int32"), array((4, 4), "float32"), array((2, 1, 3, 1), "float32")
REDUCED = [((x,), {"axis": axis, "keepdims": keep})
           for x in (A, I, array((3, 2), "bool"), array((3, 4), "uint8"), array((2, 2), "float16"), M, np.array(3.0))
           for axis in (None, *((0, -1, (0, 1), (-1, 0)) if x.ndim > 1 else ())) for keep in (False, True)]
ONE_AXIS = [(args, options) for args, options in REDUCED if not isinstance(options["axis"], tuple)]
WITH_NAN = [((np.where(A > 3, np.nan, A),), options) for _, options in REDUCED[:10]]


def without_keep(cases):
    return [(args, {"axis": options["axis"]}) for args, options in cases if args[0].ndim]


CASES = {
    "sum": [*REDUCED, ((I,), {"dtype": np.float32}), ((A, ()), {})],
    "prod": [*REDUCED, ((M, 0, np.float64), {})],
    "mean": [*REDUCED, ((I, 1, np.float32), {})],
    "var": [*REDUCED, ((A,), {"ddof": 1}), ((array((3, 2), "complex64"), 0), {})],
    "std": [*REDUCED, ((A, 0), {"ddof": 1})],
    "nansum": [*REDUCED, *WITH_NAN],
    "nanmean": [*REDUCED, *WITH_NAN],
    "max": REDUCED, "min": REDUCED, "any": [*REDUCED, *WITH_NAN], "all": REDUCED, "count_nonzero": REDUCED,
    "ptp": [(args, options) for args, options in REDUCED if args[0].dtype != bool],
    "median": [*[c for c in REDUCED if c[0][0].dtype != bool], *WITH_NAN, ((V,), {})],
    "argmax": ONE_AXIS, "argmin": ONE_AXIS,
    "cumsum": [*without_keep(ONE_AXIS), ((I, 0, np.float32), {})], "cumprod": without_keep(ONE_AXIS),
    "sort": [*without_keep(ONE_AXIS), ((A,), {"kind": "stable"})],
    "argsort": [((x, axis), {}) for x in (A, V) for axis in (None, -1, 0)],
    "reshape": [((A, (4, 6)), {}), ((A, -1), {}), ((A, (2, -1)), {"order": "C"}), ((A.transpose(2, 0, 1), (4, 6)), {})],
    "ravel": [((A,), {}), ((A.T,), {}), ((np.array(2),), {})],
    "transpose": [((A,), {}), ((A, (1, -1, 0)), {}), ((V,), {})],
    "matrix_transpose": [((A,), {})],
    "swapaxes": [((A, 0, -1), {})],
    "moveaxis": [((A, 0, -1), {}), ((A, (0, 1), (-1, 0)), {})],
    "expand_dims": [((A, 0), {}), ((A, (0, -1)), {}), ((A, [1, 3]), {})],
    "squeeze": [((ONES,), {}), ((ONES, 1), {}), ((ONES, (1, -1)), {})],
    "broadcast_to": [((V, (3, 5)), {}), ((ONES, (2, 4, 3, 2)), {})],
    "astype": [((A, np.int32), {}), ((I, np.dtype("float16")), {}), ((A, np.float64), {"copy": False})],
    "copy": [((A,), {})],
    "atleast_1d": [((np.array(2),), {}), ((V,), {})],
    "atleast_2d": [((np.array(2),), {}), ((V,), {}), ((A,), {})],
    "atleast_3d": [((np.array(2),), {}), ((V,), {}), ((M,), {}), ((A,), {})],
    "concatenate": [(([A, I], 1), {}), (((A, M, V), None), {}), (([I, A],), {"axis": -1, "dtype": np.float32})],
    "stack": [(([A, A.astype("int8")],), {}), (((A, A), -1), {}), (([A, A], 1), {"dtype": np.float32})],
    "vstack": [(([V, V],), {}), ((([A, I]),), {})],
    "hstack": [(([V, array((2,), "int8")],), {}), (([A, I],), {})],
    "dstack": [(([V, V],), {}), (([M, M],), {})],
    "column_stack": [(([V, V],), {}), (([M, M],), {})],
    "split": [((A, 2), {}), ((A, [1, 3], -1), {})],
    "array_split": [((A, 3, 2), {}), ((V, 3), {}), ((V, [2]), {})],
    "hsplit": [((A, 3), {}), ((V, 5), {})], "vsplit": [((A, [1]), {})], "dsplit": [((A, 2), {})],
    "tile": [((V, 2), {}), ((M, (2, 1, 3)), {})],
    "repeat": [((V, 2), {}), ((M, 3, 1), {}), ((M, np.array([1, 0, 2, 1]), 0), {})],
    "flip": [((A,), {}), ((A, 1), {}), ((A, (0, -1)), {})], "fliplr": [((A,), {})], "flipud": [((A,), {})],
    "roll": [((A, 2), {}), ((A, -1, 1), {}), ((A, (1, 2), (0, 1)), {}), ((A, 1, (0, 2)), {})],
    "rot90": [((A,), {}), ((M, 3), {}), ((A, 1, (1, 2)), {})],
    "tril": [((M,), {}), ((A, 1), {})], "triu": [((M, -1), {})],
    "diag": [((V,), {}), ((V, -1), {}), ((M, 1), {})],
    "diagonal": [((A,), {}), ((A, 1, 2, 0), {})],
    "trace": [((A,), {}), ((I, 0, 1, 2), {}), ((array((3, 3), "bool"),), {})],
    "diff": [((A,), {}), ((A, 2, 1), {}), ((array((4,), "bool"),), {})],
    "where": [((A > 0, A, I), {}), ((I, 1, M[0]), {}), ((M > 0, M, 0.5), {}), ((M > 0,), {})],
    "nonzero": [((M > 0,), {}), ((I,), {})],
    "take": [((V, np.array([[0, -1], [2, 3]])), {}), ((A, [0, 2], 2), {}), ((A, 1, -2), {})],
    "take_along_axis": [((A, np.argsort(A, 1), 1), {}), ((A, np.array([3, -1]), None), {})],
    "searchsorted": [((np.sort(V), A), {}), ((np.sort(V), M, "right"), {})],
    "matmul": [((A, B), {}), ((A, M), {}), ((M, M[0]), {}), ((I, B.astype("int8")), {}), ((M > 0, M > 1), {})],
    "dot": [((A, B), {}), ((M, M), {}), ((V, V), {}), ((A, np.array(2)), {}), ((M > 0, M < 0), {})],
    "inner": [((A, M), {}), ((V, V), {})],
    "outer": [((V, M), {})],
    "vdot": [((A, I), {}), ((array((3,), "complex64"), array((3,), "complex64", 2)), {})],
    "tensordot": [((A, M, 1), {}), ((A, B, ([1, 2], [2, 1])), {})],
    "kron": [((M, V), {})],
    "einsum": [(("bij,bjk->bki", A, B), {}), (("ii->i", M), {}), (("...i,i", A, I[0, 0]), {})],
    "zeros": [((3,), {}), (((2, 3), np.int8), {})], "ones": [(((2, 3),), {"dtype": bool}), ((2,), {})],
    "full": [(((2, 2), 3), {}), ((2, 1.5), {}), (((2, 5), V), {}), ((2, 3, np.float32), {})],
    "zeros_like": [((I,), {}), ((I, float), {})], "ones_like": [((M,), {})], "full_like": [((M, 2), {})],
    "arange": [((4,), {}), ((1, 4), {}), ((5, 0, -2), {}), ((0.5, 3), {}), ((3, 1), {}), ((4,), {"dtype": np.float32})],
    "linspace": [((0, 1), {}), ((2, -1, 4), {"endpoint": False}), ((0, 9, 4), {"dtype": int}), ((3, 4, 1), {})],
    "eye": [((3,), {}), ((2, 4, 1), {}), ((3,), {"k": -1, "dtype": np.int8})], "identity": [((3,), {})],
    "clip": [((A, -1, 2), {}), ((I, None, 2), {}), ((I, 0.5, None), {}), ((A, A * 0, M[0, 0]), {}), ((A,), {"min": 0})],
}

UNARY = [public(op) for op in OPS if is_elementwise(op, 1)]
BINARY = [public(op) for op in OPS if is_elementwise(op, 2)]



@pytest.mark.parametrize("name", UNARY)
def test_elementwise_of_one(name):
    computed = [check(name, (array((2, 3), dtype),)) for dtype in DTYPES if dtype not in NOT_IN.get(name, ())]
    assert any(computed)
    check(name, (array((), "float32", low=0.2, high=0.9),))
    check(name, (array((0, 2), "int32"),))


@pytest.mark.parametrize("name", BINARY)
def test_elementwise_of_two(name):
    computed = []
    for i, (a, b) in enumerate(PAIRS):
        if {a, b, str(np.result_type(a, b))} & {*NOT_IN.get(name, ())}:
            continue
        shapes = [((2, 3), (2, 3)), ((2, 1), (3,)), ((), (3,)), ((2, 3), ())][i % 4]
        divisor = array(shapes[1], b, 1, 1, 4)  # PyTorch refuses what NumPy warns of
        computed.append(check(name, (array(shapes[0], a), divisor)))
    assert any(computed)


@pytest.mark.parametrize("name", [n for n in BINARY if n != "heaviside"])
def test_python_numbers_are_weak(name):
    for dtype in ("uint8", "int32", "float16", "float32", "float64", "complex64"):
        if dtype in NOT_IN.get(name, ()) or (name == "nextafter" and dtype == "uint8"):
            continue
        x = array((2, 3), dtype, low=1)
        for number in (2, 2.5, True):
            check(name, (x, number))
            check(name, (number, x))


NOT_COMPARED = {"empty", "empty_like", "T", "flatten"}  # without values, or methods only: below


def test_every_record_has_a_case():
    assert len(OPS) > 120
    assert {public(op) for op in OPS} == {*UNARY, *BINARY, *CASES, *NOT_COMPARED}


@pytest.mark.parametrize("name", CASES)
def test_function(name):
    for args, kwargs in CASES[name]:
        check(name, args, kwargs)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.full_name)
def test_parameters_are_numpys(op):
    if public(op) in ("T", "flatten"):
        return
    try:
        theirs = inspect.signature(getattr(np, public(op))).parameters
    except ValueError:  # functions in C have none before NumPy 2.4
        return
    if any(p.kind is p.VAR_KEYWORD for p in theirs.values()) or public(op) == "arange":
        return
    assert {p["name"] for p in op.params} - {"device"} <= {*theirs}


def test_public_names_are_numpys():
    for op in OPS:
        for path in op.python:
            owner = np.ndarray if ".ndarray." in path else np
            assert hasattr(owner, path.rpartition(".")[2]), path
            if owner is np:
                assert getattr(tnp, path.rpartition(".")[2]).id == op.name
    with pytest.raises(AttributeError, match="numpy has no operator 'nothing'"):
        tnp.nothing  # noqa: B018  # the lookup raises
    assert tnp.float32 is torch.float32 and tnp.newaxis is None and "sum" in dir(tnp)


GRADIENTS = {
    "divide": (lambda a, b: tnp.divide(a, b), torch.div),
    "reductions": (lambda a, b: tnp.var(a, axis=(0, -1)) + tnp.std(b) * tnp.mean(a, axis=0, keepdims=True),
                   lambda a, b: a.var((0, -1), correction=0) + b.std(correction=0) * a.mean(0, keepdim=True)),
    "extrema": (lambda a, b: tnp.maximum(a, b) + tnp.max(a, axis=1, keepdims=True) * tnp.min(b),
                lambda a, b: torch.maximum(a, b) + a.amax(1, keepdim=True) * b.amin()),
    "products": (lambda a, b: tnp.dot(a, tnp.transpose(b)), lambda a, b: a @ b.T),
    "powers": (lambda a, b: tnp.power(tnp.abs(a) + 1, b) + tnp.square(a), lambda a, b: (a.abs() + 1) ** b + a * a),
    "shapes": (lambda a, b: tnp.concatenate([tnp.ravel(a), b], axis=None) * tnp.repeat(tnp.take(b, 0, axis=1)[0], 24),
               lambda a, b: torch.cat([a.ravel(), b.ravel()]) * b[0, 0]),
    "sorting": (lambda a, b: tnp.sort(a, axis=0) * tnp.cumsum(b, axis=1) + tnp.median(a, axis=1, keepdims=True),
                lambda a, b: a.sort(0)[0] * b.cumsum(1) + a.sort(1)[0][:, 1:3].mean(1, keepdim=True)),
    "where": (lambda a, b: tnp.where(a > 0, tnp.clip(a, None, b), tnp.exp(b)),
              lambda a, b: torch.where(a > 0, torch.minimum(a, b), b.exp())),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "outside"])
def test_gradients(name, compiled):
    ours, theirs = GRADIENTS[name]
    inputs = [torch.tensor(array((3, 4), "float64", seed), device=DEVICE, requires_grad=True) for seed in (0, 1)]
    got, want = (thunder.jit(ours) if compiled else ours)(*inputs), theirs(*inputs)
    torch.testing.assert_close(got, want)
    weights = torch.randn_like(want)
    torch.testing.assert_close(torch.autograd.grad(got, inputs, weights), torch.autograd.grad(want, inputs, weights))


def test_errors():
    x = torch.arange(6, device=DEVICE).reshape(2, 3)
    for error, call in [
        (ValueError, lambda: tnp.add(x.to(torch.uint8), 300)),
        (ValueError, lambda: tnp.power(x, -1)),
        (TypeError, lambda: tnp.negative(x > 1)),
        (IndexError, lambda: tnp.sum(x, axis=2)),
        (ValueError, lambda: tnp.squeeze(x, axis=0)),
        (ValueError, lambda: tnp.split(x, 2, axis=1)),
        (ValueError, lambda: tnp.max(x[:0], axis=0)),
        (NotImplementedError, lambda: tnp.reshape(x, (3, 2), order="F")),
        (TypeError, lambda: tnp.sum(x, dim=0)),
    ]:
        with pytest.raises(error):
            call()
        with pytest.raises(error):
            thunder.jit(call)()


# ---- the language ---------------------------------------------------------------------------------------------------


def check_language(f, *arrays):
    """The function, written for NumPy, gives the same of tensors."""
    want = f(*[a.copy() for a in arrays])
    jitted = thunder.jit(tnp.language(f))
    for _ in range(2):
        tensors = on_torch(arrays)
        same(jitted(*tensors), want)
    assert thunder.cache_misses(jitted) == 1
    same(tnp.language(f)(*on_torch(arrays)), want)
    return jitted


def test_methods():
    def f(a, b):
        return [a.sum(axis=0), a.mean(axis=(0, -1), keepdims=True), b.T, a.reshape(2, -1), a.transpose(2, 0, 1),
                b.std(), b.var(ddof=1), a.max(axis=1), b.astype(np.float32), b.flatten(), b.copy(), b.ravel().cumsum(),
                b.argmax(), b.take([0, 1], axis=1), b.repeat(2), b.swapaxes(0, 1), b.conj(), b.any(axis=0),
                a.squeeze(), a.clip(0, 1), a.round(1), b.trace(), b.diagonal(), b.prod(), a.argsort(axis=0)]

    check_language(f, A, array((3, 3), "int32"))


def test_operators():
    def f(a, b):
        c = a.copy()
        c += b
        c *= 2
        return [a / b, 1 / b, a // b, a % b, 7 % b, a**2, 2**b, a + b, a + 1.5, 1 - a, -a, +a, abs(a), ~a, a & b, a | 1,
                a ^ b, a << 1, a >> b, a == b, a != 1, a < b, a >= 2, c]

    check_language(f, array((3, 3), "int32"), array((3, 3), "int16", 1, 1, 5))


def test_products():
    dtypes = ("int32", "int16") if ON_CPU else ("float32", "float64")  # a GPU has none of integers
    a, b = (array((3, 3), dtype, i) for i, dtype in enumerate(dtypes))
    check_language(lambda a, b: [a @ b, a.dot(b), b.dot(b)], a, b)


@pytest.mark.skipif(not ON_CPU, reason="what np.ones() makes is on the CPU, as what torch.ones() makes")
def test_attributes_and_functions_of_numpy():
    def f(a):
        assert a.shape == (3, 4) and a.ndim == 2 and a.size == 12 and a.dtype == np.int32
        scaled = np.sqrt(np.abs(a) / a.size) + np.ones(4, dtype=a.dtype)
        scaled[0] = np.arange(4) / 8
        return np.concatenate([scaled, scaled[:, ::2]], axis=1), np.linspace(0, 1, a.size), scaled[a > 0].sum()

    check_language(f, array((3, 4), "int32"))


def test_softmax_of_numpy_has_gradients():
    def softmax(a):
        e = np.exp(a - a.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    jitted = check_language(softmax, M)
    assert {call.symbol.partition(".")[0] for call in thunder.last_traces(jitted)[0].calls} == {"numpy"}
    x = torch.randn(3, 4, device=DEVICE, requires_grad=True)
    weights = torch.randn(3, 4, device=DEVICE)
    (got,) = torch.autograd.grad(jitted(x), x, weights)
    (want,) = torch.autograd.grad(torch.softmax(x, -1), x, weights)
    torch.testing.assert_close(got, want)


def test_the_language_ends_where_it_ends():
    layer = torch.nn.MultiheadAttention(4, 2, device=DEVICE)

    @thunder.jit
    def f(a, b, x):
        first = a / b
        with tnp.language:
            second = a / b
            attended, _ = layer(x, x, x)  # PyTorch's own Python, in which methods mean PyTorch's
            size = a.size
        return first, second, attended, size, a.size(0)

    a, b = (torch.arange(1, 4, device=DEVICE) for _ in range(2))
    x = torch.randn(3, 1, 4, device=DEVICE)
    first, second, attended, size, rows = f(a, b, x)
    assert (first.dtype, second.dtype, size, rows) == (torch.float32, torch.float64, 3, 3)
    torch.testing.assert_close(attended, layer(x, x, x)[0])
    with pytest.raises(RuntimeError, match="inside of compiled functions"), tnp.language:
        pass


def test_an_exception_ends_the_language():
    @tnp.language
    def fails(a):
        raise ZeroDivisionError

    @thunder.jit
    def f(a):
        try:
            fails(a)
        except ZeroDivisionError:
            return a / a

    assert f(torch.ones(2, dtype=torch.int64, device=DEVICE)).dtype == torch.float32


def test_outside_the_language_numpys_functions_need_data():
    if ON_CPU:  # the error of a GPU's tensors is eager's
        check_left_to_eager(lambda x: float(np.sin(x)[0]), torch.ones(2), why=r"\[__array__\].*memory")


def test_traces_print_and_run():
    jitted = thunder.jit(lambda a: tnp.sum(tnp.exp(a), axis=0, keepdims=True))
    x = torch.randn(2, 3, device=DEVICE)
    jitted(x)
    trace = thunder.last_traces(jitted)[0]
    assert "lnumpy.sum(t1, [0], None, keepdims=True)" in str(trace)
    context = trace.python_ctx()
    exec(str(trace), context)  # noqa: S102  # a trace that is printed is Python to run
    torch.testing.assert_close(context["computation"](x)[0], x.exp().sum(0, keepdim=True))
