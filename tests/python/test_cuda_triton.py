"""Triton's cross entropy: who takes it, and its loss and gradient against float64."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import thunder

pytestmark = pytest.mark.gpu

ROWS = 37
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
FORMS = [
    dict(reduction=reduction, label_smoothing=smoothing, weighted=weighted, ignore_index=ignored)
    for reduction, smoothing, weighted, ignored in itertools.product(
        ["mean", "sum", "none"], [0.0, 0.1], [False, True], [-100, 2]
    )
]


def close(actual, expected, dtype):
    difference = (actual.double() - expected).abs().max()
    return difference <= TOLERANCE[dtype] * expected.abs().max().clamp(min=1e-30)


def problem(dtype, classes, weighted, ignore_index):
    torch.manual_seed(classes)
    logits = torch.randn(ROWS, classes, device="cuda", dtype=dtype) * 3
    target = torch.randint(0, classes, (ROWS,), device="cuda")
    target[::5] = ignore_index
    weight = torch.rand(classes, device="cuda", dtype=dtype) if weighted else None
    return logits, target, weight


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "-".join(map(str, f.values())))
@pytest.mark.parametrize("classes", [3, 4096, 50257])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_loss_and_gradient(dtype, classes, form):
    from thunder.executors.triton_crossentropy import triton_ex

    options = {k: v for k, v in form.items() if k != "weighted"}
    logits, target, weight = problem(dtype, classes, form["weighted"], form["ignore_index"])
    f = thunder.jit(lambda x: F.cross_entropy(x, target, weight=weight, **options), executors=[triton_ex])
    reference = logits.double().requires_grad_()
    expected = F.cross_entropy(reference, target, weight=None if weight is None else weight.double(), **options)
    g = torch.randn_like(expected)
    expected.backward(g)
    assert close(f(logits), expected, dtype)
    assert any("triton_crossentropy" in c.name for c in thunder.last_traces(f)[-1].calls)
    x = logits.clone().requires_grad_()
    loss = f(x)
    loss.backward(g.to(dtype))
    assert loss.dtype == dtype and close(loss, expected, dtype) and close(x.grad, reference.grad, dtype)
    assert any("triton_crossentropy" in c.name for c in thunder.last_backward_traces(f)[-1].calls)


def test_rows_that_are_apart():
    from thunder.executors.triton_crossentropy import triton_ex

    wide = torch.randn(ROWS, 200, device="cuda")
    target = torch.randint(0, 50, (ROWS,), device="cuda")
    f = thunder.jit(F.cross_entropy, executors=[triton_ex])
    for x in (wide[:, :50], wide[:, ::4], wide[:, 50:100].t().contiguous().t()):
        torch.testing.assert_close(f(x, target), F.cross_entropy(x, target))


def test_other_forms_are_left_to_others():
    from thunder.executors.triton_crossentropy import triton_ex

    f = thunder.jit(F.cross_entropy, executors=[triton_ex])
    probabilities = torch.rand(ROWS, 5, device="cuda").softmax(1)
    x = torch.randn(ROWS, 5, device="cuda")
    torch.testing.assert_close(f(x, probabilities), F.cross_entropy(x, probabilities))
    pictures, labels = torch.randn(2, 5, 3, device="cuda"), torch.randint(0, 5, (2, 3), device="cuda")
    torch.testing.assert_close(f(pictures, labels), F.cross_entropy(pictures, labels))
    assert not any("triton" in c.name for c in thunder.last_traces(f)[-1].calls)
