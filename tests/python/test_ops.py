"""Every entry of PyTorch's own operator database against eager, and every module of its module database.

One test per operator, check and dtype: `pytest -k "ops and softmax"`.  A sample of each in float32, and in a dtype of
another class, which alternates from operator to operator; `make test-all` takes all samples and dtypes, `make coverage`
makes a table of them (docs/coverage.md).
"""

import os

import pytest
import torch
from devices import DEVICE, ON_CPU
from op_checks import (
    ALL_DTYPES,
    MODES,
    ONE_OF_A_CLASS,
    EagerFails,
    check_error,
    check_forward,
    check_gradient,
    check_module,
    dtypes_of,
    gradient_dtype,
    is_differentiable,
    module_db,
    module_inputs,
    module_name,
    name_of,
    op_db,
    samples,
    training_modes,
)
from short_run import ALL, taken, turn

from thunder import _C

# Samples of each operator and dtype; THUNDER_ALL_SAMPLES=1 takes them all, in all dtypes.
MAX_SAMPLES = None if ALL else int(os.environ.get("THUNDER_SAMPLES", 1))
# Where a single sample is among those of the operator: another one in each dtype, so that together they are spread.
ONLY = {torch.bool: 0.0, torch.int64: 0.25, torch.float32: 0.5, torch.bfloat16: 0.75, torch.complex64: 1.0}

_JITERATOR = {  # on a GPU only
    f"jiterator_{kind}": "a kernel that is launched past PyTorch's dispatcher is refused"
    for kind in ("unary", "binary", "4inputs_with_extra_args", "binary_return_by_ref", "2inputs_2outputs")
}

# Entries that deviate from eager, and why.
DEVIATIONS = {
    "test_forward": _JITERATOR,
    "test_gradient": _JITERATOR,
    "test_errors": {},
    "test_module": {},
}


def _parameters(test, entries, *others):
    """(entry, *other) for a test, marked where it is known to deviate.  `others`: functions of an entry, to lists."""
    out = []
    for name, entry in entries:
        rows = [()]
        for values in others:
            rows = [(*row, v) for row in rows for v in values(entry)]
        why = DEVIATIONS[test].get(name)
        marks = [pytest.mark.xfail(reason=why, strict=ON_CPU and MAX_SAMPLES is None)] if why else []
        for row in rows:
            what = "-".join([name.replace(".", "_"), *(str(x).removeprefix("torch.") for x in row)])
            out.append(pytest.param(entry, *row, id=what, marks=marks))
    return out


def _runs(op):
    """Whether PyTorch has the operator here: those compiled at run time exist for GPUs only."""
    return op.op is not None and dtypes_of(op, DEVICE) and not (ON_CPU and op.name.startswith("jiterator"))


OPS = [(name_of(op), op) for op in op_db if _runs(op)]
DIFFERENTIABLE = [(name, op) for name, op in OPS if is_differentiable(op, DEVICE)]
CHECKED = [(name, op) for name, op in OPS if op.error_inputs_func is not None]
MODULES = [(module_name(info), info) for info in module_db]


def _forward_dtypes(op):
    if ALL:
        return dtypes_of(op, DEVICE, ALL_DTYPES)
    first, *others = dtypes_of(op, DEVICE, ONE_OF_A_CLASS)
    return [first, *(turn(name_of(op), others) if others and taken(name_of(op), 4) else [])]


def _modes(op, dtype):
    """Single operators as kernels, too: a quarter of them in the short run, most of whose time is their compilation."""
    return tuple(MODES) if taken(f"alone {name_of(op)} {dtype}", 4) else ("default",)


@pytest.mark.parametrize("op, dtype", _parameters("test_forward", OPS, _forward_dtypes))
def test_forward(op, dtype):
    if not ON_CPU and op.name == "_softmax_backward_data" and dtype is torch.float32:
        pytest.skip("one of PyTorch's samples mixes types that its kernel on a GPU refuses")
    chosen = samples(op, DEVICE, dtype, MAX_SAMPLES, only=ONLY.get(dtype, 0.0))
    failures = []
    for sample in chosen:
        try:
            check_forward(op, sample, _modes(op, dtype))
        except EagerFails as error:
            failures.append(error)
    if chosen and len(failures) == len(chosen):
        pytest.skip(f"nothing to compare with, eager fails: {failures[0]}")


def _gradient_dtypes(op):
    # Those of 16 bits beside float64, in which nothing is rounded to them and no kernel mixes them with float32.
    halves = (torch.bfloat16,) if ON_CPU and not ALL else (torch.bfloat16, torch.float16)
    if not ON_CPU and op.gradcheck_nondet_tol > 0:
        halves = ()  # eager's atomic sums in 16 bits differ from run to run
    return [gradient_dtype(op, DEVICE), *(d for d in halves if d in op.supported_backward_dtypes(DEVICE))]


@pytest.mark.parametrize("op, dtype", _parameters("test_gradient", DIFFERENTIABLE, _gradient_dtypes))
def test_gradient(op, dtype):
    for sample in samples(op, DEVICE, dtype, MAX_SAMPLES, requires_grad=True, only=0.6):
        check_gradient(op, sample, _modes(op, dtype))


@pytest.mark.parametrize("op", _parameters("test_errors", CHECKED))
def test_errors(op):
    for error in op.error_inputs(DEVICE):
        check_error(op, error)


@pytest.mark.parametrize("info, training", _parameters("test_module", MODULES, training_modes))
def test_module(info, training):
    for sample in module_inputs(info, DEVICE, torch.float32, training, MAX_SAMPLES):
        check_module(info, sample, DEVICE, torch.float32, training)


def test_records(record_property):
    """Operators of the database that have a record, called by their public name."""
    names = {op.name for _, op in OPS}
    recorded = {path.removeprefix("torch.") for op in _C.ops() for path in op.python}
    recorded |= {path.removeprefix("Tensor.") for path in recorded}
    record_property("operators_with_records", len(names & recorded))
    assert len(names & recorded) > 400
