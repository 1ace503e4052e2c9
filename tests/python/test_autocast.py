"""Every operator of PyTorch's database under autocast, call by call, against eager.

On the CPU values, dtypes and layouts; of CUDA's autocast the dtypes, on tensors without data, where there is no GPU.
"""

import fake_cuda
import pytest
import torch
from autocast_checks import calls, check_call, compare_dtypes, takes_float32
from devices import DEVICE, ON_CPU
from op_checks import name_of, op_db

import thunder

F = torch.nn.functional
OPERATORS = [op for op in op_db if takes_float32(op)]


def _check(op, device, lower, given, **how):
    findings = []
    for what, args, kwargs in given:
        try:
            check_call(op, device, lower, args, kwargs, **how)
        except AssertionError as e:
            findings.append(f"{what}: {str(e)[:300]}")
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("op", OPERATORS, ids=name_of)
def test_calls(op):
    moved = ((what, *_on(DEVICE, (args, kwargs))) for what, args, kwargs in calls(op, torch.bfloat16, 2))
    _check(op, DEVICE, torch.bfloat16, moved)


def _on(device, value, made=None):
    if isinstance(value, torch.Tensor):
        return made(value) if made else value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(_on(device, v, made) for v in value)
    if isinstance(value, dict):
        return {k: _on(device, v, made) for k, v in value.items()}
    return value


def _without_data(t):
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cuda")


@pytest.mark.skipif(not ON_CPU, reason="with a GPU test_calls is about CUDA's autocast")
@pytest.mark.parametrize("op", OPERATORS, ids=name_of)
def test_dtypes_of_cuda(op):
    given = [c for c in calls(op, torch.float16, 1) if all(t.layout is torch.strided for t in _flat(c[1:]))]
    with fake_cuda.tensors():
        fakes = [(what, *_on("cuda", (args, kwargs), _without_data)) for what, args, kwargs in given]
        _check(op, "cuda", torch.float16, fakes, same=compare_dtypes)


def _flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [t for v in items for t in _flat(v)]


def test_cross_entropy_computes_in_float32():
    logits, labels = torch.randn(8, 50, device=DEVICE, dtype=torch.bfloat16) * 10, torch.arange(8, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        actual, expected = thunder.jit(F.cross_entropy)(logits, labels), F.cross_entropy(logits, labels)
    assert actual.dtype is expected.dtype is torch.float32
    torch.testing.assert_close(actual, expected)


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
