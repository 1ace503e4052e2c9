"""Gradients of operators whose operands are broadcast: each operand in turn smaller than the others, against eager's.

The operators of PyTorch's database with several real operands: an operand without its first dimension, or with one of
size 1.  By PyTorch's operators one by one, and with symbolic sizes; in turn, but for `make test-all`.
"""

import pytest
import torch
from devices import DEVICE, ON_CPU, moved
from op_checks import REFERENCES, compare_gradients, gradient_dtype, name_of, op_db, samples, seeded, tensors
from short_run import taken, turn

import thunder

F = torch.nn.functional
OPTIONS = {"operators": {"executors": []}, "symbolic": {"cache": "symbolic values"}}
SMALLER = {"without dimension 0": lambda t: t[0], "of size 1": lambda t: t[:1]}


def _is_operand(t):
    return isinstance(t, torch.Tensor) and t.is_floating_point() and t.layout is torch.strided and t.ndim > 0


def _with_smaller(value, place, make, count):
    """The arguments with another tensor at one place; operands are counted in order."""
    if _is_operand(value):
        count[0] += 1
        t = make(value.detach()) if count[0] - 1 == place and len(value) > 1 else value.detach()
        return t.clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_with_smaller(v, place, make, count) for v in value)
    if isinstance(value, dict):
        return {k: _with_smaller(v, place, make, count) for k, v in value.items()}
    return value


def _gradients(fn, process, args, kwargs):
    inputs = [t for t in tensors((args, kwargs)) if t.requires_grad]
    outputs = [t for t in tensors(process(seeded(fn, *args, **kwargs))) if t.requires_grad]
    torch.manual_seed(1)
    return torch.autograd.grad(outputs, inputs, [torch.randn_like(t) for t in outputs], allow_unused=True)


def variants(op):
    """(what, args, kwargs, eager's gradients) of the smaller operands that eager takes."""
    several = [s for s in samples(op, DEVICE, torch.float64, requires_grad=True)
               if sum(map(_is_operand, tensors((s.input, s.args, s.kwargs)))) > 1]
    for sample in several[:1]:
        process = sample.output_process_fn_grad or (lambda x: x)
        for place in range(sum(map(_is_operand, tensors((sample.input, sample.args, sample.kwargs))))):
            for how, make in SMALLER.items():
                given, count = ((sample.input, *sample.args), sample.kwargs), [0]
                args, kwargs = (_with_smaller(a, place, make, count) for a in given)
                try:
                    if not ON_CPU:  # where an index out of bounds leaves the process without a device
                        _gradients(REFERENCES.get(op.name, op), process, moved(args, "cpu"), moved(kwargs, "cpu"))
                    expected = _gradients(REFERENCES.get(op.name, op), process, args, kwargs)
                except Exception:  # operands of these sizes are no operands
                    continue
                yield f"operand {place} {how}", process, args, kwargs, expected


# PyTorch's own kernels of batch norm write beyond weights and statistics that are too small.
OPERATORS = [
    op
    for op in op_db
    if op.op is not None and gradient_dtype(op, DEVICE) is torch.float64 and "batch_norm" not in op.name
    if taken(name_of(op), 2)
]


@pytest.mark.parametrize("op", OPERATORS, ids=name_of)
def test_broadcast_gradients(op):
    findings = []
    for what, process, args, kwargs, expected in variants(op):
        for mode in turn(name_of(op), OPTIONS):
            options = OPTIONS[mode]
            jitted = thunder.jit(lambda *args, **kwargs: op(*args, **kwargs), **options)
            try:
                compare_gradients(_gradients(jitted, process, args, kwargs), expected)
            except Exception as e:
                findings.append(f"{what}, {mode}: {type(e).__name__}: {e}")
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize("options", [*OPTIONS.values(), {}], ids=[*OPTIONS, "default"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.l1_loss], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), (2, 3))], ids=str)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_losses_that_broadcast(loss, shapes, reduction, options):
    a, b = (torch.randn(s, dtype=torch.float64, device=DEVICE, requires_grad=True) for s in shapes)
    expected = torch.autograd.grad(loss(a * 2, b, reduction=reduction).sum(), (a, b))
    jitted = thunder.jit(lambda a, b: loss(a * 2, b, reduction=reduction), **options)
    torch.testing.assert_close(torch.autograd.grad(jitted(a, b).sum(), (a, b)), expected)
