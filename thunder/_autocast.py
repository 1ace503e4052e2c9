"""What autocast does to a torch call: found by asking PyTorch, call by call.

PyTorch casts where its dispatcher meets an operator that has a kernel for autocast: the call itself, or an operator
inside of a composition.  So a call is made on tensors without data, under autocast and without, and the operators that
PyTorch's backends would run are compared.  One kind of call is asked about once in a process.
"""

import contextlib
import functools
from types import FunctionType

import torch
import torch.nn.functional as F
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import TorchDispatchMode

from . import _asking, _cudnn_recurrent, _opaque, _refused, _value_checks
from ._dataless import any_small, run
from ._opaque_meta import AUTOCAST_KEYS, autocast_for
from ._python_bodies import body_of
from ._recurrent import GATES
from ._tracing import current_tracer


def active():
    """(device type, dtype) of those under autocast."""
    return tuple((d, torch.get_autocast_dtype(d)) for d in AUTOCAST_KEYS if torch.is_autocast_enabled(d))


def settle(func, args, kwargs):
    """(args, kwargs) that the operator computes with, or (result,) where the call is recorded already; None where
    autocast leaves the call as it is."""
    composed = (name := _name_of(func)) in _ON_A_GPU
    if not composed and _is_indifferent(func):
        return None
    places = list(_asking.tensors((args, kwargs)))
    states = active()
    eligible = [t for t in places if _is_eligible(t.dtype, t.device, states)]
    if not eligible:
        return None
    if composed and any(t.device.type == "cuda" for t in eligible):
        made = _composed_on_a_gpu(name, args, kwargs)
        if made is not NotImplemented:
            return (made,)
    plan = _plan(func, args, kwargs, states)
    if plan is None:
        return None
    if isinstance(plan, Exception):
        raise type(plan)(str(plan))
    if plan == "as it is":
        return _recorded(func, args, kwargs, states)
    tracer = current_tracer()

    def cast(t):
        wanted = isinstance(t, torch.Tensor) and _is_eligible(t.dtype, t.device, states) and t.dtype != plan
        return tracer.apply("torch.to", (t, plan), {}) if wanted else t

    return _asking.mapped(args, cast), _asking.mapped(kwargs, cast)


def _recorded(func, args, kwargs, states):
    """A composition of which autocast changes a part: what PyTorch's Python calls, or the operator under autocast."""
    body = body_of(func)
    if body is not None:
        return (_refused.in_mode(body, args, kwargs),)
    composition = _COMPOSITIONS.get(_name_of(func))
    composed = None if composition is None else _refused.in_mode(composition, args, kwargs)
    if composed is not None:
        return (composed,)
    record = _opaque.resolve(func, args, kwargs, states)
    return None if record is None else (record(),)


def _cross_entropy_loss(input, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """Of class indices; None for probabilities."""
    if input.shape == target.shape or label_smoothing > 0:
        return None
    # On a GPU autocast computes the loss in float32, and leaves log_softmax alone, which is told its dtype.
    log_probabilities = torch.log_softmax(input, 0 if input.ndim == 1 else 1, dtype=input.dtype)
    name = ("none", "mean", "sum")[reduction]
    return F.nll_loss(log_probabilities, target, weight, ignore_index=ignore_index, reduction=name)


# By the name of an ATen composition: what it calls, so that kernels can be fused; None where that is not said here.
_COMPOSITIONS = {"cross_entropy_loss": _cross_entropy_loss}


# ---- what cannot be asked about on a GPU -----------------------------------------------------------------------------

# Operators whose kernels call others, which autocast casts unheard, and functions that look at values: what they call.
# None where the dtypes are not the same for all arguments.  Where a function gives NotImplemented, PyTorch is asked.
_ON_A_GPU = {
    "gaussian_nll_loss": _value_checks.gaussian_nll_loss,
    "trace": lambda input: input.diagonal().sum(),
    "ldexp": lambda input, other: input * torch.pow(2.0, other),
    "_safe_softmax": None,
    "_unsafe_masked_index_put_accumulate": None,
    "matrix_exp": None,
    "linalg_matrix_exp": None,
    "linalg_pinv": None,
    "pinverse": None,
    "mvlgamma": None,
    "multigammaln": None,
    "special_multigammaln": None,
    **{kind: _cudnn_recurrent.under_autocast(getattr(torch, kind)) for kind in GATES},
}


def _name_of(func):
    """Of PyTorch's own functions and operators: those of other libraries keep the library's name before their own."""
    if isinstance(func, OpOverload):
        return func._schema.name.removeprefix("aten::")
    if isinstance(func, OpOverloadPacket):
        return func._qualified_op_name.removeprefix("aten::")
    return getattr(func, "__name__", "")


def _composed_on_a_gpu(name, args, kwargs):
    body = _ON_A_GPU[name]
    if body is None:
        current_tracer().leave_to_eager(f"autocast decides inside a GPU's kernel in which dtypes {name}() computes")
    return _refused.in_mode(body, args, kwargs)


# ---- operators that autocast does not know ---------------------------------------------------------------------------


@functools.cache
def _is_indifferent(func):
    """Whether neither the operator that a function is named after, nor any inside of it, has a kernel for autocast."""
    if isinstance(func, OpOverload):
        return _without_kernel(func)
    name = getattr(func, "__name__", "")
    if name in ("__get__", "__set__"):
        return True
    if name.startswith("__"):
        bare = name.strip("_")
        names = [bare, bare.removeprefix("r"), bare.removeprefix("i")]
        # An arithmetic operator in Python calls operators of other names: 1 / x is a reciprocal.
        if isinstance(func, FunctionType) and any(hasattr(torch.ops.aten, n) for n in names):
            return False
        return all(_packet_without_kernel(n, unknown=True) for n in names)
    return _packet_without_kernel(name, unknown=False)


def _packet_without_kernel(name, unknown):
    packet = getattr(torch.ops.aten, name, None)
    if not isinstance(packet, OpOverloadPacket):
        return unknown
    return all(_without_kernel(getattr(packet, overload)) for overload in packet.overloads())


def _without_kernel(overload):
    has, keys = torch._C._dispatch_has_kernel_for_dispatch_key, (*AUTOCAST_KEYS.values(), "CompositeImplicitAutograd")
    try:
        return not any(has(overload.name(), key) for key in keys)
    except RuntimeError:  # an operator of TorchScript's alone
        return True


def _is_eligible(dtype, device, states):
    """Whether autocast may cast such a tensor."""
    on = any(device.type == d for d, _ in states)
    return on and dtype.is_floating_point and dtype is not torch.float64


# ---- asking ----------------------------------------------------------------------------------------------------------

# Kernels that ask for products themselves, which nobody hears.
_COMPOSED = {"_trilinear", "linalg_pinv"}
_MOVES = {"_to_copy", "clone", "copy_", "_unsafe_view", "lift_fresh", "detach", "empty", "empty_like", "new_empty"}


class _Listener(TorchDispatchMode):
    """The operators that backends are asked for, with the dtypes of their results and operands; not what only moves
    data."""

    def __init__(self):
        super().__init__()
        self.heard = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else PyTorch imports torch._dynamo at the first operator, which takes seconds

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        results = run(func, args, kwargs) if any_small(args, kwargs) else func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        views = any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)
        if name not in _MOVES and not views and not name.startswith("prim::"):
            operands = [t.dtype for t in _asking.tensors((args, kwargs))]
            self.heard.append((name, [t.dtype for t in _asking.tensors(results)], operands))
        return results


_plans = {}


def _plan(func, args, kwargs, states):
    """What autocast does, for all sizes that the program may be used for."""
    sizes = _asking.that_may_be_one((args, kwargs))
    if not sizes:
        return _plan_now(func, args, kwargs, states)
    with _asking.taking(1):
        one = _plan_now(func, args, kwargs, states)
    with _asking.taking(2):
        others = _plan_now(func, args, kwargs, states)
    if one == others or repr(one) == repr(others):
        return others
    # A composition may leave out a product over a dimension of size 1: the program is for the one or for the others.
    return one if any([n < 2 for n in sizes]) else others


def _plan_now(func, args, kwargs, states):
    """The dtype that all operands are cast to; "as it is" where another thing happens, None where nothing does; or the
    error with which PyTorch refuses."""
    try:
        key = func, states, _kind(args), _kind(kwargs)
        hash(key)
    except TypeError:
        key = None
    if key in _plans:
        return _plans[key]
    plan, refused = _found(func, args, kwargs, states)
    if key is not None and not refused:  # what was refused may be the sizes, which are no part of the kind
        _plans[key] = plan
    return plan


def _found(func, args, kwargs, states):
    """(plan, whether PyTorch refuses the call)"""
    # The last one imports torch._dynamo, which takes seconds.
    for dtypes in (_asking.dtypes_of_small, _asking.dtypes_of_sizes, _asking.dtypes):
        plan, refused, is_open = _plan_by(dtypes, func, args, kwargs, states)
        if not is_open:
            break
    return plan, refused


def _plan_by(dtypes, func, args, kwargs, states):
    """(plan, whether PyTorch refuses the call, whether what failed may be due to the tensors that `dtypes` asks)"""
    asked = functools.partial(_asked, dtypes, func, args, kwargs)
    errors = []

    def ask(*how):
        heard, error = asked(*how)
        errors.append(error)
        return heard, error

    plan, refused = _plan_of(ask, states)
    return plan, refused, refused or (plan == "as it is" and any(errors))


def _plan_of(ask, states):
    under, refusal = ask(states, None)
    without, error = ask((), None)
    if refusal is not None:
        return refusal if error is None and _asking.is_certain(refusal) else None, True
    if under is not None and any(name in _COMPOSED for name, *_ in under[0]):
        return "as it is", False
    if under == without:
        return None, False
    lower = {dtype for _, dtype in states}
    cast = {dtype: ask((), (dtype, states))[0] for dtype in (*lower, torch.float32)}
    for dtype, heard in cast.items():
        if heard == under:
            return dtype, False
    for dtype, heard in cast.items():  # an operator that is told to compute in a dtype need not be given operands of it
        if heard is not None and _results(heard) == _results(under):
            return dtype, False
    return "as it is", False


def _results(heard):
    return [(name, results) for name, results, _ in heard[0]], heard[1]


def _asked(dtypes, func, args, kwargs, states, cast):
    """(what was computed, None), or (None, the error)"""
    listener = _Listener()

    @contextlib.contextmanager
    def listening():
        listener.heard.clear()
        with autocast_for(states), listener:
            yield

    def dtype_of(t):
        return cast[0] if cast is not None and _is_eligible(t.dtype, t.device, cast[1]) else t.dtype

    try:
        results = dtypes(func, args, kwargs, dtype_of, listening)
    except Exception as e:
        return None, _asking.without_frames(e)
    return (listener.heard, results), None


def _kind(value):
    """What of an argument may decide what autocast does."""
    if isinstance(value, torch.Tensor):
        # A composition may leave out a product over dimensions of size 1 or 0.
        return "tensor", value.dtype, tuple(min(n, 2) for n in _asking.shape(value)), value.device.type
    if isinstance(value, (list, tuple)):
        return tuple(map(_kind, value))
    if isinstance(value, dict):
        return tuple((k, _kind(v)) for k, v in value.items())
    return type(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value
