"""Torch calls with DTensors among their arguments."""

import contextlib

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.overrides import _get_current_function_mode_stack
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..._tracing import TensorProxy, current_tracer, state
from ..tensor_parallel._regions import processes_of
from ._part import _ALIKE, Part, leave, part_of

# By torch function: what records a call otherwise.
rules = {}
# What code asks about a tensor, which a DTensor from outside answers itself.
_QUESTIONS = frozenset(
    "shape size numel nelement dim ndimension ndim dtype device layout requires_grad is_leaf is_cuda is_cpu is_meta "
    "is_sparse is_quantized is_nested itemsize is_floating_point is_complex is_signed element_size get_device stride "
    "is_contiguous __len__".split()
)


def record(func, args, kwargs):
    """Records a torch call, of which an argument is a DTensor."""
    # A property's getter is a method of the property.
    getter = getattr(func, "__name__", "") == "__get__"
    name = getattr(getattr(func, "__self__", None) if getter else func, "__name__", str(func))
    first = args[0] if args else None
    if name in _QUESTIONS and type(first) is not Part and isinstance(first, DTensor):
        with torch._C.DisableTorchFunction():
            return func(*args, **kwargs)
    if name in _QUESTIONS and type(first) is Part and (name in Part.__dict__ or name in _ALIKE):
        answer = getattr(first, name)
        return answer if getter else answer(*args[1:], **kwargs)
    leaves, structure = tree_flatten((args, kwargs), is_leaf=lambda o: type(o) is Part)
    leaves = [_as_part(leaf, name) for leaf in leaves]
    args, kwargs = tree_unflatten(leaves, structure)
    rule = rules.get(func)
    made = rule(*args, **kwargs) if rule is not None else None
    return call_on_parts(func, args, kwargs, name) if made is None else made


def _as_part(value, name):
    if type(value) is Part or not isinstance(value, torch.Tensor):
        return value
    if isinstance(value, DTensor):
        return part_of(value)
    # PyTorch takes a single number for one that all processes have.
    if value.numel() != 1 or current_tracer().has_gradient(value):
        leave(f"{name}() of a DTensor and a tensor that is none")
    return value


def _is_part(value):
    return type(value) is Part


@contextlib.contextmanager
def _recording():
    """Torch calls are the program's, wherever this was called from."""
    mode = state.modes[-1]
    with contextlib.nullcontext() if mode in _get_current_function_mode_stack() else mode:
        yield


def call_on_parts(func, args, kwargs, name):
    """The call on what this process has, where that gives what it has of the result."""
    leaves, structure = tree_flatten((args, kwargs), is_leaf=_is_part)
    parts = [leaf for leaf in leaves if _is_part(leaf)]
    if any(isinstance(p._placement, Partial) for p in parts):
        leave(f"{name}() of a DTensor that is a sum which the processes have not added up")
    mesh = parts[0]._mesh
    if any(p._mesh != mesh for p in parts):
        leave(f"{name}() of DTensors over several meshes")
    divided = [p for p in parts if p._sizes is not None]
    tracer = current_tracer()

    def called_on(tensors):
        given = iter(tensors)
        args, kwargs = tree_unflatten([next(given) if _is_part(leaf) else leaf for leaf in leaves], structure)
        try:
            return tree_flatten(func(*args, **kwargs))
        except Exception as e:
            _leave_for(name, e)

    with _recording():
        locals_ = [p.local("own" if divided else "alike") for p in parts]
        before = tracer.values([*locals_, *(leaf for leaf in leaves if isinstance(leaf, TensorProxy))])
        since = tracer.calls_made()
        results, structure_of_results = called_on(locals_)
        if tracer.values(locals_) != before[: len(locals_)]:
            leave(f"{name}() writes to a DTensor")
        shapes = _shapes_of_wholes(called_on, parts, since, name) if divided else None
    known = {id(x): p for x, p in zip(locals_, parts, strict=True)}
    if divided:
        dims = [(x, p._placement.dim) for x, p in zip(locals_, parts, strict=True) if p._sizes is not None]
        made = _divided(results, shapes, known, divided, since, dims, name)
    else:
        made = [_alike(x, mesh, known) if isinstance(x, TensorProxy) else x for x in results]
    return tree_unflatten(made, structure_of_results)


def _alike(x, mesh, known):
    return known[id(x)] if id(x) in known else Part(x, mesh, Replicate(), current_tracer().shape(x))


def _shapes_of_wholes(called_on, parts, since, name):
    """The shapes of what the call gives of the wholes, where it is the same calls of operators.

    What is told sizes or places (split, expand, narrow, roll) is told those of the whole.
    """
    tracer = current_tracer()
    tracer.begin_trial()
    try:
        results, _ = called_on([tracer.whole_of(p.local("own"), list(p._shape)) for p in parts])
        shapes = [tracer.shape(x) if isinstance(x, TensorProxy) else x for x in results]
    finally:
        same = tracer.end_trial(since)
    if not same:
        leave(f"{name}() of a DTensor is something else for the part that a process has")
    return shapes


def _leave_for(name, error):
    if current_tracer().left_to_eager:
        raise error
    leave(f"{name}() of a DTensor: {str(error).splitlines()[0] if str(error) else type(error).__name__}")


def _divided(results, shapes, known, divided, since, dims, name):
    """Parts of what the call gives of the wholes, which has the `shapes`."""
    tracer, made = current_tracer(), []
    if len(results) != len(shapes):
        leave(f"{name}() of a DTensor gives {len(shapes)} results, {len(results)} of the part that a process has")
    for x, shape in zip(results, shapes, strict=True):
        if not isinstance(x, TensorProxy):
            made.append(x if x is None else leave(f"{name}() asks for a number of a DTensor that is sharded"))
            continue
        try:
            dim = tracer.parts(since, dims, [x])[0]
        except NotImplementedError as e:
            _leave_for(name, e)
        if dim is None:
            leave(f"{name}() of a DTensor that is sharded gives what is not")
        local = tracer.shape(x)
        sizes = {p._sizes for p in divided if p._sizes[processes_of(p._mesh).rank] == local[dim]}
        if len(sizes) != 1 or shape != (*local[:dim], sum(*sizes), *local[dim + 1 :]):
            leave(f"{name}() of DTensors gives one of shape {tuple(shape)}, and {tuple(local)} of a process's parts")
        made.append(known[id(x)] if id(x) in known else Part(x, divided[0]._mesh, Shard(dim), shape, *sizes))
    return made
