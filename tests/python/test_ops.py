"""Every record of the torch language that PyTorch's own operator database has samples for, against eager.

Values, dtype, shape, strides of results; gradients in float64 against eager's autograd; error inputs raise eager's
exception type.
One test per operator, check and dtype: `pytest -k "ops and softmax"`.
"""

import functools
import os

import pytest
import torch
from devices import DEVICE, ON_CPU
from torch.testing._internal.common_methods_invocations import op_db

import thunder
from thunder import _C

# Samples per operator and dtype; THUNDER_ALL_SAMPLES=1 takes them all.
MAX_SAMPLES = None if os.environ.get("THUNDER_ALL_SAMPLES") else int(os.environ.get("THUNDER_SAMPLES", 8))
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
# Results that are not determined by the inputs.
NOT_DETERMINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}


# Entries whose callable is a function around a method or around several operators.  Not the random ones, which op_db
# seeds inside of the callable: test_random.py.
WRAPPED = set("""
    T H mT mH bfloat16 bool byte char contiguous double einsum empty_strided expand expand_as float half int item
    long masked.amax masked.amin masked.argmax masked.argmin masked.cumprod masked.cumsum masked.log_softmax
    masked.logaddexp masked.logsumexp masked.mean masked.median masked.norm masked.normalize masked.prod
    masked.softmax masked.softmin masked.std masked.sum masked.var new_empty new_full new_ones new_zeros
    nn.functional.embedding polygamma repeat reshape_as short signal.windows.bartlett signal.windows.blackman
    signal.windows.cosine signal.windows.exponential signal.windows.gaussian signal.windows.general_cosine
    signal.windows.general_hamming signal.windows.hamming signal.windows.hann signal.windows.kaiser
    signal.windows.nuttall special.polygamma sum_to_size to unfold view view_as where zero_
""".split())


def _has_record(opinfo):
    return opinfo.op is not None and (_C.is_registered(opinfo.op) or opinfo.name in WRAPPED)


# Entries that deviate from eager, and why.  They are strict: one that comes to pass has to leave the list.
DEVIATIONS = {
    "test_gradient": {
        "nextafter": "PyTorch says that the result requires grad and fails in backward",
        "as_strided_scatter": "a storage offset of the input that a view has is not known to the compiler",
        "tensor_split": "indices given as a tensor are data-dependent control flow",
    },
    "test_errors": {
    },
    "test_forward": {
        "tensor_split": "indices given as a tensor are data-dependent control flow",
    },
}


@pytest.fixture(autouse=True)
def _deviation(request):
    test, _, rest = request.node.name.partition("[")
    entry = rest.rstrip("]")
    known = DEVIATIONS.get(test, {})
    reason = known.get(entry) or known.get(entry.rpartition("-")[0])
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=ON_CPU))


OPS = [op for op in op_db if _has_record(op)]


def _name(op):
    return op.name.replace(".", "_") + (f"_{op.variant_test_name}" if op.variant_test_name else "")


def _samples(op, dtype, requires_grad=False):
    for i, sample in enumerate(op.sample_inputs(DEVICE, dtype, requires_grad=requires_grad)):
        if MAX_SAMPLES is not None and i >= MAX_SAMPLES:
            return
        yield sample


def _tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in _tensors(item)]
    if isinstance(x, dict):
        return [t for item in x.values() for t in _tensors(item)]
    return []


def _call(op, sample):
    return lambda *args, **kwargs: op(*args, **kwargs)


def _seeded(fn, *args, **kwargs):
    torch.manual_seed(0)
    return fn(*args, **kwargs)


def _compare(actual, expected, name, exact_layout=True):
    actual, expected = _tensors(actual), _tensors(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        if exact_layout and e.numel() > 0:
            same = [(s, t) for s, t, n in zip(a.stride(), e.stride(), e.shape, strict=True) if n != 1]
            assert all(s == t for s, t in same), f"strides {a.stride()}, eager's {e.stride()}, shape {tuple(e.shape)}"
        if name in NOT_DETERMINED:
            continue
        torch.testing.assert_close(a, e, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("op", OPS, ids=_name)
def test_forward(op, dtype):
    if dtype not in op.supported_dtypes(DEVICE):
        pytest.skip("PyTorch has no kernel for this dtype")
    if DEVICE != "cpu" and op.name == "_softmax_backward_data" and dtype is torch.float32:
        pytest.skip("one of PyTorch's samples mixes types that its kernel on a GPU refuses")
    for sample in _samples(op, dtype):
        args = (sample.input, *sample.args)
        expected = _seeded(op, *args, **sample.kwargs)
        compiled = thunder.jit(_call(op, sample))
        actual = _seeded(compiled, *args, **sample.kwargs)
        _compare(actual, expected, op.name)


@pytest.mark.parametrize("op", [op for op in OPS if op.supports_autograd], ids=_name)
def test_gradient(op):
    if torch.float64 not in op.supported_backward_dtypes(DEVICE):
        pytest.skip("PyTorch has no float64 gradient of this operator")
    for sample in _samples(op, torch.float64, requires_grad=True):
        args = (sample.input, *sample.args)
        inputs = [t for t in _tensors((args, sample.kwargs)) if t.requires_grad]
        if not inputs:
            continue
        expected = _seeded(op, *args, **sample.kwargs)
        outputs = [t for t in _tensors(expected) if t.requires_grad]
        if not outputs:
            continue
        if sample.output_process_fn_grad is not None:
            outputs = [t for t in _tensors(sample.output_process_fn_grad(expected)) if t.requires_grad]
        cotangents = [torch.randn_like(t) for t in outputs]
        reference = torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)
        compiled = thunder.jit(_call(op, sample))
        actual = _seeded(compiled, *args, **sample.kwargs)
        if sample.output_process_fn_grad is not None:
            actual = sample.output_process_fn_grad(actual)
        ours = [t for t in _tensors(actual) if t.requires_grad]
        assert len(ours) == len(outputs)
        gradients = torch.autograd.grad(ours, inputs, cotangents, allow_unused=True)
        for mine, theirs in zip(gradients, reference, strict=True):
            if theirs is None:
                assert mine is None or not mine.any()
            else:
                assert mine is not None and mine.dtype == theirs.dtype
                torch.testing.assert_close(mine, theirs, equal_nan=True)


def _refuses(fn, error_type, *args, **kwargs):
    """Whether the call raises that error, or says NotImplemented as Python's operators do."""
    try:
        return fn(*args, **kwargs) is NotImplemented
    except error_type:
        return True


@pytest.mark.parametrize("op", [op for op in OPS if op.error_inputs_func is not None], ids=_name)
def test_errors(op):
    for error in op.error_inputs(DEVICE):
        sample = error.sample_input
        if "out" in sample.kwargs:
            continue  # about out=, which is written through the in-place machinery: test_inplace.py
        args = (sample.input, *sample.args)
        if not _refuses(op, error.error_type, *args, **sample.kwargs):
            continue  # an error of other devices, or of the operator's out= alone
        compiled = thunder.jit(_call(op, sample))
        assert _refuses(compiled, error.error_type, *args, **sample.kwargs), f"not refused: {sample}"


@functools.cache
def _counts():
    return len(OPS), len(op_db)


def test_coverage_is_counted(record_property):
    covered, all_ops = _counts()
    record_property("operators_with_records", covered)
    assert covered > 200, f"{covered} of {all_ops} entries of op_db have a record"
