"""Every operator of PyTorch's database under autocast, call by call, against eager: values, dtypes and layouts."""

import contextlib
import gc
import weakref

import pytest
import torch
from autocast_checks import calls, check_call, takes_float32
from devices import DEVICE, ON_CPU, moved
from op_checks import name_of, op_db
from short_run import ALL, taken

import thunder
from thunder import _autocast

F = torch.nn.functional
SAMPLES = 2 if ALL else 1
# A kernel of jiterator is launched past the dispatcher, and refused.
OPERATORS = [op for op in op_db if takes_float32(op) and not op.name.startswith("jiterator")]


def _check(op, device, lower, given, **how):
    findings = []
    for what, args, kwargs in given:
        try:
            check_call(op, device, lower, args, kwargs, **how)
        except AssertionError as e:
            findings.append(f"{what}: {str(e)[:300]}")
    assert not findings, "\n".join(findings)


# On a GPU, and why.
NOT_AS_EAGER = {
    "nn.functional.scaled_dot_product_attention": "with a mask eager takes cuDNN's kernel, whose layout is the query's",
}


def _marked(op):
    why = NOT_AS_EAGER.get(name_of(op))
    return pytest.param(op, marks=pytest.mark.xfail(not ON_CPU, reason=why, strict=True) if why else ())


TAKEN = [op for op in OPERATORS if taken(name_of(op), 4)]


@pytest.mark.parametrize("op", map(_marked, TAKEN), ids=map(name_of, TAKEN))
def test_calls(op):
    given = ((what, *moved((args, kwargs))) for what, args, kwargs in calls(op, torch.bfloat16, SAMPLES))
    _check(op, DEVICE, torch.bfloat16, given)


def test_cross_entropy_computes_in_float32():
    logits, labels = torch.randn(8, 50, device=DEVICE, dtype=torch.bfloat16) * 10, torch.arange(8, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        actual, eager = thunder.jit(F.cross_entropy)(logits, labels), F.cross_entropy(logits, labels)
    assert actual.dtype is eager.dtype is torch.float32
    # On a GPU eager rounds the logarithms of the softmax to 16 bits on the way.
    torch.testing.assert_close(actual, F.cross_entropy(logits.float(), labels))


@pytest.mark.parametrize("quantile", [torch.quantile, torch.nanquantile])
def test_quantile_of_bfloat16(quantile):
    x = torch.randn(100, device=DEVICE).bfloat16()
    with torch.autocast(DEVICE, torch.bfloat16):
        try:
            expected = quantile(x, 0.5)
        except RuntimeError:  # CUDA's autocast leaves it alone
            with pytest.raises(RuntimeError):
                thunder.jit(lambda x: quantile(x, 0.5))(x)
            return
        torch.testing.assert_close(thunder.jit(lambda x: quantile(x, 0.5))(x), expected)


def test_modules_train_under_autocast():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    model = model.to(DEVICE)
    x, y = torch.randn(5, 8, device=DEVICE), torch.arange(5, device=DEVICE) % 4

    def gradients(f):
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = F.cross_entropy(f(x), y)
        return torch.autograd.grad(loss, list(model.parameters()))

    for actual, expected in zip(gradients(thunder.jit(model)), gradients(model), strict=True):
        assert actual.dtype is expected.dtype
        torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("options", [{}, {"cache": "symbolic values"}], ids=["constant", "symbolic"])
@pytest.mark.parametrize("sizes", [[(2, 1), (2, 2)], [(2, 2), (2, 1)], [(1, 1), (2, 2)], [(3, 0), (3, 2)]])
def test_sizes_that_compositions_ask_about(sizes, options):
    """einsum() multiplies elements where a summed dimension is of size 1, and matrices else."""
    _autocast._plans.clear()
    jitted = thunder.jit(lambda x: torch.einsum("...i,...i->...", x, x), **options)
    for shape in sizes:
        x = torch.randn(shape)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert jitted(x).dtype == torch.einsum("...i,...i->...", x, x).dtype


@pytest.mark.parametrize("fn", [torch.matmul, F.linear, lambda x, y: torch.einsum("ij,jk->ik", x, y)])
def test_a_call_with_wrong_sizes_decides_nothing(fn):
    _autocast._plans.clear()
    x = torch.randn(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(RuntimeError):
            thunder.jit(fn)(x, torch.randn(3, 3))
        assert thunder.jit(fn)(x, x).dtype is torch.bfloat16


def test_an_exception_that_is_handled_keeps_its_frames():
    def raises():
        raise KeyError("handled")

    with pytest.raises(KeyError) as raised:
        try:
            raises()
        except KeyError:
            _autocast._plans.clear()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                thunder.jit(lambda x: f"{x.sum():.1f}")(torch.ones(2, 3))
            raise
    assert [entry.name for entry in raised.traceback][-1] == "raises"


def test_what_pytorch_refuses_keeps_no_caller():
    """An error that was kept would keep its frames, and theirs the caller's variables, until garbage is collected."""

    class Held:
        pass

    def caller():
        held = Held()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            thunder.jit(lambda x: f"{x.sum():.1f}")(torch.ones(2, 3))
        return weakref.ref(held)

    _autocast._plans.clear()
    gc.collect()
    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "fn",
    [lambda x: torch.einsum("abi,ci->abc", x, x[0]), lambda x: F.cosine_similarity(x, x * 2)],
    ids=["einsum", "cosine"],
)
def test_inference_mode_decides_nothing(fn):
    x = torch.randn(2, 3, 5)
    jitted = thunder.jit(fn)
    for mode in (torch.inference_mode, contextlib.nullcontext):
        with mode(), torch.autocast("cpu", dtype=torch.bfloat16):
            assert jitted(x).dtype == fn(x).dtype
