"""PyTorch's operators that have no record, and custom ones: called as they are.

What an operator gives (metadata, which results are views of arguments, which carry a gradient) comes from running it on
fake tensors (_opaque_meta.py).  Results that are new, and the new contents of arguments that it writes to, are computed
by a symbol (_opaque_symbols.py), whose gradient is PyTorch's autograd.  Views become as_strided(), so that the tracer
knows who shares memory with whom.
"""

import collections
import functools
from types import NoneType

import torch
from torch._ops import OpOverload, OpOverloadPacket

from . import _C, _asking, _opaque_meta
from ._marks import refusal
from ._numbers import TracedNumber
from ._opaque_symbols import symbol_of
from ._tracing import current_tracer, location, unread

# By the operators' names: functions of the arguments that record a call otherwise, or give None.
recorded = {}
# The same, by overloads, where no autocast is on; the first of several that gives something.
decomposed = collections.defaultdict(list)


def resolve(func, args, kwargs, autocast=()):
    """What records the call of a torch function that has no record; None where it cannot be called as it is.
    `autocast`: (device type, dtype) of those under autocast while the operator runs."""
    out = kwargs.get("out")
    if "out" in kwargs:
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    with torch._C.DisableTorchFunction():
        record = _resolve(func, args, kwargs, autocast)
    return functools.partial(_into, out, record, func.__name__) if out is not None and record is not None else record


def _into(out, record, name):
    """The results of an operator, written into what was given as `out`."""
    results = record()
    current_tracer().write_out(out, results, name)
    return type(results)(out) if hasattr(results, "n_fields") else out


def _resolve(func, args, kwargs, autocast):
    """What records a call without out=; None if no operator of PyTorch is meant."""
    called = args, kwargs
    overload, args, kwargs = _overload(func, args, kwargs)
    if overload is None or not _can_be_called(overload):
        return None
    by_operator = isinstance(func, (OpOverload, OpOverloadPacket))
    if not by_operator and _has_number_for_dtype(overload, args, kwargs):
        raise refusal(f"[{func.__name__}] a number stands for a tensor, whose dtype is meant")
    values, given = [], dict(kwargs)
    for i, a in enumerate(overload._schema.arguments):
        if not a.kwarg_only and i < len(args):
            values.append(args[i])
        elif a.name in given:
            values.append(given.pop(a.name))
        elif a.has_default_value():
            values.append(a.default_value)
        else:
            return None
    if given:
        return None
    if not by_operator:
        values = _with_options_of_values(overload, values)
    if not by_operator and any(map(_is_doubtful, overload._schema.arguments, values)):
        _check_with_eager(func, called)
    return functools.partial(_record, overload, values, by_operator, autocast)


def _has_number_for_dtype(overload, args, kwargs):
    """Whether the operator would take a number for the dtype of that number, as PyTorch's Python functions do not."""
    given = zip((a.name for a in overload._schema.arguments), args, strict=False)
    return any(name == "dtype" and not isinstance(v, (torch.dtype, NoneType)) for name, v in (*given, *kwargs.items()))


def _with_options_of_values(overload, arguments):
    """PyTorch's Python functions that make a sparse tensor take its dtype and device from `values`, or convert these;
    its operators take the defaults of the process."""
    names = [a.name for a in overload._schema.arguments]
    if "values" not in names or not {"dtype", "device"}.issubset(names):
        return arguments
    at = names.index("values")
    values = arguments[at]
    given = {name: arguments[names.index(name)] for name in ("dtype", "device")}
    if any(v is not None for v in given.values()):
        values = current_tracer().apply("torch.to", (values, given["device"], given["dtype"]))
    options = {"dtype": values.dtype, "device": values.device, "values": values}
    return [options.get(name, a) for name, a in zip(names, arguments, strict=True)]


_OBJECTS = {"dtype", "layout", "device", "memory_format", "generator"}


def _is_doubtful(parameter, value):
    """Whether PyTorch's Python functions may refuse an argument that its operators take."""
    if isinstance(value, bool):
        return "bool" not in str(parameter.type)
    if isinstance(value, (int, float)):
        return str(parameter.type) == "bool"
    if isinstance(value, (list, tuple)):
        return any(_is_doubtful(parameter, v) for v in value)
    plain = value is None or isinstance(value, (str, torch.Tensor, TracedNumber))
    return not plain and parameter.name not in _OBJECTS


def _check_with_eager(func, called):
    try:
        _asking.call(func, *called)
    except Exception as e:
        if _asking.is_certain(e):
            raise


def _overload(func, args, kwargs):
    """(the operator that the call means or None, the arguments in the types that its schema has)"""
    if isinstance(func, OpOverload):
        return func, args, kwargs
    packet = _packet(func)
    if packet is None:
        return None, args, kwargs
    found = _matching(packet, args, kwargs)
    if found is not None:
        return found, args, kwargs
    known, named = [_with_numbers(a) for a in args], {k: _with_numbers(v) for k, v in kwargs.items()}
    if not all(a is b for a, b in zip((*known, *named.values()), (*args, *kwargs.values()), strict=True)):
        return _overload(packet, known, named)
    for name in packet.overloads():  # PyTorch's Python functions take one number for a list of several
        fitted = _with_lists(getattr(packet, name), args, kwargs)
        if fitted is not None and (found := _matching(packet, *fitted)) is not None:
            return found, *fitted
    return None, args, kwargs


def _matching(packet, args, kwargs):
    try:
        with unread():
            return getattr(packet, torch._C._jit_resolve_packet(packet._qualified_op_name, *args, **kwargs))
    except (RuntimeError, TypeError):  # the arguments are those of no overload
        return None


def _with_numbers(value, in_list=False):
    """An argument with the numbers that only the run knows as they are in this call: they are sizes, say."""
    if in_list and isinstance(value, torch.Tensor) and value.ndim == 0 and not value.is_floating_point():
        value = current_tracer().apply("torch.item", (value,))
    if isinstance(value, TracedNumber):
        return value._known("size")
    if isinstance(value, (list, tuple)):
        items = [_with_numbers(v, in_list=True) for v in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return value


def _with_lists(overload, args, kwargs):
    """The arguments with numbers for lists repeated; None if there is none."""
    parameters = overload._schema.arguments
    # A size that is given as one number after the other.
    sizes = args and str(parameters[0].type) == "List[int]" and all(isinstance(a, int) for a in args)
    if sizes and all(p.kwarg_only for p in parameters[1:]):
        args = (list(args),)

    def fit(parameter, value):
        size = getattr(parameter, "N", None)
        return [value] * size if size and type(value) in (int, float) else value

    fitted = [fit(p, a) for p, a in zip(parameters, args, strict=False)] + list(args[len(parameters) :])
    named = {p.name: p for p in parameters}
    keyword = {k: fit(named[k], v) if k in named else v for k, v in kwargs.items()}
    same = all(a is b for a, b in zip((*fitted, *keyword.values()), (*args, *kwargs.values()), strict=True))
    return (fitted, keyword) if sizes or not same else None


def _packet(func):
    if isinstance(func, OpOverloadPacket):
        return func
    packet = getattr(torch.ops.aten, getattr(func, "__name__", ""), None)
    return packet if isinstance(packet, OpOverloadPacket) else None


def has_plain_overload(func):
    """Whether some calls of a torch function mean an operator of the kind."""
    if isinstance(func, OpOverload):
        return _can_be_called(func)
    packet = _packet(func)
    return packet is not None and any(_can_be_called(getattr(packet, name)) for name in packet.overloads())


_RESULTS = {"Tensor", "List[Tensor]", "bool", "int", "float"}


def _can_be_called(overload):
    schema = overload._schema
    gives = len(schema.returns) > 0 or any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    return gives and all(str(r.type) in _RESULTS for r in schema.returns)


def _public(overload):
    """PyTorch's own function of an operator, if there is a record for it."""
    name = overload._schema.name.removeprefix("aten::")
    for owner in (torch, torch.Tensor):
        function = getattr(owner, name, None)
        if function is not None and _C.is_registered(function):
            return function
    return None


def _record(overload, values, by_operator, autocast):
    """Records the call; returns what PyTorch would."""
    tracer = current_tracer()
    if (record := recorded.get(overload._schema.name)) and (result := record(*values)) is not None:
        return result
    for record in decomposed.get(overload.name(), ()) if not autocast else ():
        if (result := record(*values)) is not None:
            return result
    if by_operator and not autocast and (function := _public(overload)) is not None:
        positional, named = _opaque_meta.arguments(overload, values)
        return tracer.handle(function, tuple(positional), named)
    described = _opaque_meta.describe(overload, values, tracer.has_gradient, autocast)
    _check_written(overload, values, described, tracer)
    new = _computed(overload, values, described, autocast)
    for place, tensor in described.written:
        tracer.copy_into(_opaque_meta.at(values, place), new[tensor], overload._schema.name)
    made = [_result(r, values, new) for r in described.results]
    results = _opaque_meta.unflatten(described.structure, made, list if by_operator else tuple)
    kind = getattr(torch.return_types, overload._schema.name.rpartition("::")[2], None)
    return kind(results) if kind is not None and type(results) is tuple and not by_operator else results


def _check_written(overload, values, described, tracer):
    """Each tensor that is written to gets what one kernel gives for the contents before."""
    written = [place for place, _ in described.written]
    for place, t in _opaque_meta.places(values):
        for other in written:
            of_list = len(other) > 1 or place in written  # one after the other, if they are several
            if of_list and place != other and tracer.share_memory(t, _opaque_meta.at(values, other)):
                raise _opaque_meta.unsupported(overload, "a tensor that it writes to shares memory with another")


def _computed(overload, values, described, autocast):
    """The tensors that the operator computes, by their number."""
    if not described.computed:
        return []
    tracer = current_tracer()
    made = symbol_of(overload, autocast, _opaque_meta.draws(overload, values))(*values, results=described.which)
    made = made if isinstance(made, tuple) else (made,)
    return [
        t if m.requires_grad or not tracer.has_gradient(t) else tracer.apply("torch.detach", (t,))
        for t, m in zip(made, described.computed, strict=True)
    ]


def _result(result, values, new):
    kind, *what = result
    if kind == "number":
        return what[0]
    if kind == "new":
        return new[what[0]]
    argument = _opaque_meta.at(values, what[0])
    return argument if kind == "argument" else _view(argument, *what[1:])


def _view(argument, size, stride, offset):
    """as_strided() from an argument's own first element: where that lies in memory is not known."""
    tracer = current_tracer()
    shape, strides = (tuple(map(int, sizes(argument))) for sizes in (tracer.shape, tracer.stride))
    for dim in sorted(range(len(shape)), key=lambda i: -strides[i]):
        steps = min(offset // strides[dim], shape[dim] - 1) if strides[dim] > 0 else 0
        if steps > 0:
            argument = tracer.apply("torch.narrow", (argument, dim, steps, shape[dim] - steps))
            offset -= steps * strides[dim]
    if offset != 0:
        raise refusal(f"[as_strided] a view between the elements of a tensor\n  at {location()}")
    return tracer.apply("torch.as_strided", (argument, size, stride))
