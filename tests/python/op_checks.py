"""Operators and modules of PyTorch's own databases against eager; what test_ops.py and tools/coverage.py check.

Values, dtype, shape, strides of results; gradients in float64 against eager's autograd; error inputs raise eager's
exception type.  Every check compares one sample and raises where it differs, in each of MODES.
"""

import contextlib
import os
from unittest import mock

import torch
import torch.testing._internal.common_methods_invocations as database
from devices import seeds_of_the_cpu
from torch.testing._internal.common_device_type import onlyCPU
from torch.testing._internal.common_modules import module_db as _module_db

import thunder

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
ONE_OF_A_CLASS = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
ALL_DTYPES = (
    *DTYPES, torch.float16, torch.complex128, torch.int32, torch.int16, torch.int8, torch.uint8,
)
# The default path; and one on which a single operator, too, becomes a kernel wherever one can be made.
MODES = {"default": {}, "single": {"THUNDER_FUSE_SINGLE": "1"}}
# Results that are not determined by the inputs.
NOT_DETERMINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
# Some of several: a dropout's seed and offset where there is no dropout.
NOT_DETERMINED_PARTS = {
    f"torch.ops.aten._{kernel}_attention_forward": (2, 3) for kernel in ("efficient", "flash")
}

op_db, module_db = database.op_db, _module_db

# PyTorch's database seeds inside of what it calls; a seed is set outside of programs, as seeded() does.
database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def name_of(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def module_name(info):
    return info.name.removeprefix("nn.")


def runs_on(op, device):
    """Not where PyTorch has kernels for the CPU only."""
    return device == "cpu" or onlyCPU not in op.decorators


def dtypes_of(op, device, wanted=DTYPES):
    return [d for d in wanted if d in op.supported_dtypes(device) and runs_on(op, device)]


def gradient_dtype(op, device):
    """The dtype in which its gradient is compared: float64, or complex where it has none; None if there is none."""
    supported = op.supported_backward_dtypes(device) if op.supports_autograd and runs_on(op, device) else ()
    return next((d for d in (torch.float64, torch.complex128, torch.complex64) if d in supported), None)


def is_differentiable(op, device):
    return gradient_dtype(op, device) is not None


def why_no_gradient(op, device):
    """Of an operator that the database calls differentiable."""
    if op.supported_backward_dtypes("cuda") and device == "cpu":
        return "PyTorch has it, or its gradient, on a GPU only"
    return "no dtype has a gradient: its results are integers"


def spread(items, most, only=0.0):
    """So many of them, from the first to the last; all if None.  `only`: where among them the only one is."""
    items = list(items)
    if most is None or len(items) <= most:
        return items
    if most == 1:
        return [items[round(only * (len(items) - 1))]]
    return [items[i * (len(items) - 1) // (most - 1)] for i in range(most)]


def samples(op, device, dtype, most=None, requires_grad=False, only=0.0):
    with seeds_of_the_cpu():
        return spread(op.sample_inputs(device, dtype, requires_grad=requires_grad), most, only)


def tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in tensors(item)]
    if isinstance(x, dict):
        return [t for item in x.values() for t in tensors(item)]
    return []


def seeded(fn, *args, **kwargs):
    with seeds_of_the_cpu():
        torch.manual_seed(0)
    return fn(*args, **kwargs)


# What eager computes in a wider dtype, and the norm of an error beyond which the two do not compute the same.
WIDER = {
    torch.float16: (torch.float64, 2e-3),
    torch.bfloat16: (torch.float64, 2e-2),
    torch.float32: (torch.float64, 1e-4),
    torch.complex64: (torch.complex128, 1e-4),
}


def widened(x):
    """The arguments in the dtypes of WIDER; dtypes among them, too."""
    if isinstance(x, torch.Tensor):
        wide = WIDER.get(x.dtype)
        return x.detach().to(wide[0]) if wide else x
    if isinstance(x, torch.dtype):
        return WIDER.get(x, (x,))[0]
    if isinstance(x, (list, tuple)):
        items = [widened(item) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return {k: widened(v) for k, v in x.items()} if isinstance(x, dict) else x


def error_norm(x, exact):
    """Of the finite part, relative to the exact result; absolute where that is zero."""
    x, exact = x.detach().to(exact.dtype), exact.detach()
    finite = exact.isfinite() & x.isfinite()
    size = exact[finite].norm().item()
    return (x - exact)[finite].norm().item() / (size or 1.0)


def no_further_than(actual, expected, exact):
    """Whether the result is as near to the exact one as eager's, up to a factor of two and a roundoff; where only one
    of them is finite, or a number, whether it is the exact one."""
    if actual.dtype not in WIDER or exact.shape != expected.shape:
        return False
    other = (actual.isfinite() != expected.isfinite()) | (actual.isnan() != expected.isnan())
    rounded = exact.to(actual.dtype)
    if not torch.isclose(actual, rounded, rtol=4 * torch.finfo(actual.dtype).eps, equal_nan=True)[other].all():
        return False
    most = WIDER[actual.dtype][1]
    ours, eagers = error_norm(actual, exact), error_norm(expected, exact)
    # Where all cancels, as in the norm of two numbers, eager's error has no bound.
    return ours <= eagers or ours <= min(2 * eagers + torch.finfo(actual.dtype).eps, most)


def compare_values(actual, expected, exact):
    """By PyTorch's tolerances, which know nothing of how often a value was rounded; where they do not hold, by eager's
    own error.  `exact`: what gives the tensor of eager's result in a wider dtype."""
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError:
        if exact is None or not no_further_than(actual, expected, exact()):
            raise


def compare(actual, expected, name="", exact_layout=True, exact=None):
    """`exact`: a function that gives eager's results in a wider dtype."""
    if not isinstance(expected, (torch.Tensor, list, tuple, dict)):
        assert type(actual) is type(expected), f"got a {type(actual).__name__}, eager's is {type(expected).__name__}"
        assert name in NOT_DETERMINED or actual == expected or actual != actual, f"got {actual}, eager's {expected}"
    actual, expected = tensors(actual), tensors(expected)
    assert len(actual) == len(expected), f"{len(actual)} tensors, eager gives {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert a.device == e.device, f"device {a.device}, eager's {e.device}"
        assert a.dtype == e.dtype, f"dtype {a.dtype}, eager's {e.dtype}"
        assert a.shape == e.shape, f"shape {tuple(a.shape)}, eager's {tuple(e.shape)}"
        assert a.layout == e.layout, f"layout {a.layout}, eager's {e.layout}"
        if exact_layout and e.layout is torch.strided and e.numel() > 0:
            same = [(s, t) for s, t, n in zip(a.stride(), e.stride(), e.shape, strict=True) if n != 1]
            assert all(s == t for s, t in same), f"strides {a.stride()}, eager's {e.stride()}, shape {tuple(e.shape)}"
        if name in NOT_DETERMINED or i in NOT_DETERMINED_PARTS.get(name, ()):
            continue
        compare_values(a, e, exact and (lambda i=i: tensors(exact())[i]))


def compiled(op, **options):
    return thunder.jit(lambda *args, **kwargs: op(*args, **kwargs), **options)


class EagerFails(Exception):
    """There is nothing to compare with."""


@contextlib.contextmanager
def failing_in(mode):
    """In that mode; what is raised says which one it was."""
    with mock.patch.dict(os.environ, MODES[mode]):
        try:
            yield
        except Exception as e:
            e.add_note(f"in mode {mode}")
            raise


def check_forward(op, sample, modes=tuple(MODES)):
    """Returns the function compiled in the last mode."""
    args = (sample.input, *sample.args)
    try:
        expected = seeded(op, *args, **sample.kwargs)
    except Exception as e:
        raise EagerFails(str(e)) from e
    for mode in modes:
        with failing_in(mode):
            jitted = compiled(op)
            actual = seeded(jitted, *args, **sample.kwargs)
            compare(actual, expected, op.name, exact=lambda: seeded(op, *widened(args), **widened(sample.kwargs)))
    return jitted


def _as_strided_scatter(x, src, size, stride, storage_offset=None):
    x = x.clone()
    x.as_strided(size, stride, storage_offset).copy_(src)
    return x


# Of what eager's gradient is wrong (it is there where elements were replaced, and not where they were kept): the same
# by other operators.
REFERENCES = {"as_strided_scatter": _as_strided_scatter}


def check_gradient(op, sample, modes=tuple(MODES)):
    """Returns the function compiled in the last mode; None where eager has no gradient."""
    given = (sample.input, *sample.args), sample.kwargs
    eager = REFERENCES.get(op.name, op)

    def outputs_of(fn, args, kwargs):
        process = sample.output_process_fn_grad or (lambda x: x)
        return [t for t in tensors(process(seeded(fn, *args, **kwargs))) if t.requires_grad]

    def gradients(outputs, given, cotangents):
        inputs = [t for t in tensors(given) if t.requires_grad]
        return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)

    def exact():
        wide = widened(given)
        for t, of in zip(tensors(wide), tensors(given), strict=True):
            t.requires_grad_(of.requires_grad)
        return gradients(outputs_of(eager, *wide), wide, widened(cotangents))

    outputs = outputs_of(eager, *given)
    if not outputs or not any(t.requires_grad for t in tensors(given)):
        return None
    cotangents = [torch.randn_like(t) for t in outputs]
    reference = gradients(outputs, given, cotangents)
    for mode in modes:
        with failing_in(mode):
            jitted = compiled(op)
            ours = outputs_of(jitted, *given)
            assert len(ours) == len(outputs), f"{len(ours)} results require grad, {len(outputs)} of eager's do"
            compare_gradients(gradients(ours, given, cotangents), reference, exact)
    return jitted


def compare_gradients(actual, expected, exact=None):
    """`exact`: a function that gives eager's gradients in a wider dtype."""
    for i, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        if theirs is None:
            assert mine is None or not mine.any(), "a gradient where eager has none"
        else:
            assert mine is not None, "no gradient where eager has one"
            assert mine.dtype == theirs.dtype, f"a gradient in {mine.dtype}, eager's is in {theirs.dtype}"
            compare_values(mine, theirs, exact and (lambda i=i: exact()[i]))


def refuses(fn, error_type, *args, **kwargs):
    """Whether the call raises that error, or says NotImplemented as Python's operators do."""
    try:
        return fn(*args, **kwargs) is NotImplemented
    except error_type:
        return True


def check_error(op, error):
    sample = error.sample_input
    args = (sample.input, *sample.args)
    # Else it is an error of other devices, or of the operator's out= alone.
    if "out" not in sample.kwargs and refuses(op, error.error_type, *args, **sample.kwargs):
        assert refuses(compiled(op), error.error_type, *args, **sample.kwargs), f"not refused: {sample}"


def module_inputs(info, device, dtype, training, most=None):
    with seeds_of_the_cpu():
        made = info.module_inputs_func(info, device=device, dtype=dtype, requires_grad=True, training=training)
    return spread((sample for sample in made if sample.forward_input is not None), most)


def training_modes(info):
    return (True, False) if info.train_and_eval_differ else (True,)


def check_module(info, sample, device, dtype, training, modes=tuple(MODES)):
    """Results, and gradients of inputs and parameters; where eager refuses them, so must we.  Returns the module
    compiled in the last mode."""
    made = sample.constructor_input
    module = seeded(info.module_cls, *made.args, **made.kwargs).to(device, dtype).train(training)
    args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
    if torch.nn.parameter.is_lazy(next(module.parameters(), None)):
        seeded(module, *args, **kwargs)  # the first call makes its parameters
    state = {k: v.clone() for k, v in module.state_dict().items()}
    inputs = [t for t in tensors((args, kwargs)) if t.requires_grad] + list(module.parameters())
    try:
        expected, reference = _gradients(module, args, kwargs, inputs)
    except Exception as e:  # such as cuDNN's for the backward of a recurrent network in evaluation
        module.load_state_dict(state)
        jitted = thunder.jit(module)
        assert refuses(_gradients, type(e), jitted, args, kwargs, inputs), f"not refused, eager says: {e}"
        return jitted
    buffers = {k: v.clone() for k, v in module.state_dict().items()}
    for mode in modes:
        with failing_in(mode):
            module.load_state_dict(state)
            jitted = thunder.jit(module)
            actual, gradients = _gradients(jitted, args, kwargs, inputs)
            compare(actual, expected, exact_layout=False)
            compare_gradients(gradients, reference)
            compare(dict(module.state_dict()), buffers, exact_layout=False)
    return jitted


def _gradients(module, args, kwargs, inputs):
    results = seeded(module, *args, **kwargs)
    outputs = [t for t in tensors(results) if t.requires_grad]
    if not inputs or not outputs:
        return results, []
    cotangents = [torch.ones_like(t) for t in outputs]
    return results, torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)


def is_generic(jitted):
    """Whether the last compilation called an operator of PyTorch as it is, without a record."""
    traces = thunder.last_traces(jitted)
    return bool(traces) and any(call.symbol.startswith("torch_ops.") for call in traces[0].calls)
