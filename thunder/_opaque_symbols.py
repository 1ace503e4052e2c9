"""The symbols that run operators of PyTorch without a record, and their gradients.

The gradient is that of PyTorch's autograd: where one is needed, the operator runs with autograd on, and the graph that
this made is kept for the backward.
"""

import contextlib
import functools
import inspect
import keyword

import torch

from . import _C
from ._marks import ours
from ._opaque_meta import (
    argument,
    at,
    autocast_for,
    call,
    describe,
    flatten,
    is_random,
    map_tensors,
    places,
    replaced,
    written_places,
)
from ._watching import watched
from .core.proxies import TensorProxy
from .extend import OperatorExecutor, get_grad, put_grad, register_grad

_executor = OperatorExecutor("torch_ops")


def _signature(overload, *first):
    names = [f"_{a.name}" if keyword.iskeyword(a.name) else a.name for a in overload._schema.arguments]
    kind = inspect.Parameter
    positional = [kind(n, kind.POSITIONAL_OR_KEYWORD) for n in (*first, *names)]
    return inspect.Signature([*positional, kind("results", kind.KEYWORD_ONLY, default=None)])


def _communicates(overload):
    of_groups = overload.namespace in ("c10d", "_c10d_functional", "_c10d_functional_autograd", "symm_mem")
    return of_groups or any(a.name == "group_name" for a in overload._schema.arguments)


def _started(overload, values):
    """What an operator communicates: (group, name). Who waits for it gets it as an attribute of the tensor."""
    if overload.namespace not in ("_c10d_functional", "_c10d_functional_autograd"):
        return None
    for a, v in zip(overload._schema.arguments, values, strict=True):
        if a.name == "group_name":
            return v, overload._schema.name.partition("::")[2]
    return getattr(values[0], "started_collective", None)


def _watched(started):
    return watched(*started) if started else contextlib.nullcontext()


def _marked(tensors, started):
    for t in tensors if started else ():
        t.started_collective = started
    return tensors


def _tags(overload, random):
    communicates = _communicates(overload)
    return ("any_layout", "autograd", *(("random",) if random else ()), *(("collective",) if communicates else ()))


def _several(tensors):
    return tuple(tensors) if len(tensors) != 1 else tensors[0]


def _evaluate(overload, values, which):
    """The results that `which` names (all if None), then the new contents of what the operator writes to."""
    written = written_places(overload, values)
    if written:
        values = replaced(values, {place: at(values, place).clone() for place in written})
    _, flat = flatten(call(overload, values))
    chosen = flat if which is None else [flat[i] for i in which]
    return [*chosen, *(at(values, place) for place in written)]


@functools.cache
def symbol_of(overload, autocast, random):
    """The symbol of Thunder's that runs an operator, with its gradient.

    `autocast`: as for autocast_for().  `random`: whether the call draws random numbers.
    """
    name = str(overload).replace(".default", "").replace(".", "_")
    name = "_".join([name, *(f"{d}_{str(dtype).removeprefix('torch.')}" for d, dtype in autocast)])
    name += "_without_draws" if is_random(overload) and not random else ""

    def meta(*values, results=None):
        return _several([m.proxy() for m in _description(overload, values, autocast).computed])

    def run(*values, results=None):
        started = _started(overload, values)
        with autocast_for(autocast) if autocast else contextlib.nullcontext(), _watched(started):
            return _several(_marked(_evaluate(overload, values, results), started))

    meta.__signature__ = _signature(overload)
    tags = _tags(overload, random)
    symbol = _executor.register_operator(name, meta=meta, tags=tags, fn=run)
    forward, backward = _with_graph(overload, name, autocast, tags), _backward(name, _communicates(overload))

    def rule(*values, results=None):
        differentiable = [i for i, m in enumerate(_description(overload, values, autocast).computed) if m.requires_grad]
        wanted = [(list(place), t) for place, t in places(values) if t.requires_grad]
        if not differentiable or not wanted:
            return symbol(*values, results=results)
        graph, *outputs = forward([place for place, _ in wanted], *values, results=results)
        inputs = [_like(t) for _, t in wanted]
        flows = backward([get_grad(outputs[i]) for i in differentiable], graph, differentiable, inputs)
        for (place, _), g in zip(wanted, flows if len(wanted) > 1 else (flows,), strict=True):
            put_grad(at(values, place), g)
        return _several(outputs)

    rule.__signature__ = _signature(overload)
    register_grad(symbol, rule)
    return symbol


def _like(t):
    """The metadata of the gradient of `t`: strides too, as PyTorch's products of transposed weights give theirs."""
    m = argument(t, lambda _: False)
    strides = None
    if m.layout == "strided":
        strides = list(torch.empty_like(torch.empty_strided(m.shape, m.stride, device="meta")).stride())
    return [list(m.shape), m.dtype, m.device, strides, m.layout, m.dense_dims]


def _description(overload, values, autocast):
    return describe(overload, values, lambda t: t.requires_grad, autocast)


def _with_graph(overload, name, autocast, tags):
    """The operator, with the graph that PyTorch's autograd made of the call as the first result.

    It travels through the program as an attribute of an empty tensor: what holds that, a saved one for the backward
    too, holds the graph.
    """

    def meta(differentiated, *values, results=None):
        made = [m.proxy() for m in _description(overload, values, autocast).computed]
        return (TensorProxy(shape=(0,), device="cpu", dtype=torch.uint8), *made)

    def run(differentiated, *values, results=None):
        started = _started(overload, values)
        with _autograd(), autocast_for(autocast) if autocast else contextlib.nullcontext(), _watched(started):
            values = map_tensors(values, lambda t: t.detach())
            inputs = [at(values, place).requires_grad_() for place in differentiated]
            outputs = [_no_leaf(t) for t in _evaluate(overload, values, results)]
            recorded = _C.RecordedGraph(inputs, outputs)
        graph = torch.empty(0, device="cpu", dtype=torch.uint8)
        graph.autograd = (recorded, started)
        return (graph, *_marked([t.detach() for t in outputs], started))

    meta.__signature__ = _signature(overload, "differentiated")
    return _executor.register_operator(f"{name}_with_graph", meta=meta, fn=run, tags=tags)


def _no_leaf(t):
    """A sparse argument that came back (coalesce()) has no gradient edge that PyTorch could give."""
    return t.clone() if t.layout is not torch.strided and t.is_leaf and t.requires_grad else t


def _backward(name, communicates):
    def meta(gradients, graph, differentiable, inputs):
        names = ("shape", "dtype", "device", "strides", "layout", "dense_dims")
        return _several([TensorProxy(**dict(zip(names, i, strict=True))) for i in inputs])

    def run(gradients, graph, differentiable, inputs):
        if not hasattr(graph, "autograd"):
            raise ours(RuntimeError(
                f"[{name}] what the operator saved for its backward was replaced: hooks for saved tensors "
                "(torch.autograd.graph) cannot be used with an operator that has no record"
            ))
        recorded, started = graph.autograd
        # What is kept for another backward some operators copy before they write to it (cuDNN's recurrent layers).
        again = torch._C._autograd._get_current_graph_task_keep_graph()
        with _autograd(), _watched(started):
            made = recorded.gradients(differentiable, gradients, again)
        return _several(made)

    tags = ("any_layout", "collective") if communicates else ("any_layout",)
    return _executor.register_operator(f"{name}_backward", meta=meta, fn=run, tags=tags)


_AUTOGRAD_KEYS = [
    getattr(torch._C.DispatchKey, name)
    for name in ("ADInplaceOrView", "AutogradOther", "AutogradCPU", "AutogradCUDA", "AutogradFunctionality")
    if hasattr(torch._C.DispatchKey, name)
]


_keys_of_autograd = {}


def _with_autograd(excluded):
    """The dispatch keys that are left out, without autograd's."""
    found = _keys_of_autograd.get(excluded.raw_repr())
    if found is None:
        found = functools.reduce(lambda keys, key: keys.remove(key), _AUTOGRAD_KEYS, excluded)
        _keys_of_autograd[excluded.raw_repr()] = found
    return found


class _autograd:
    """Programs run below autograd; this brings it back for a scope."""

    def __enter__(self):
        excluded = _with_autograd(torch._C._dispatch_tls_local_exclude_set())
        self._keys = torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)
        self._keys.__enter__()
        self._grad_enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(True)

    def __exit__(self, *exception):
        torch._C._set_grad_enabled(self._grad_enabled)
        self._keys.__exit__(*exception)
