"""torch.compile as an executor: regions of PyTorch operators are compiled by Inductor.

`torch_compile_ex` takes all it can; `torch_compile_cat_ex` only regions that concatenate, such as rotary embeddings,
which gain the most from being fused and leave the rest to other executors.
"""

import torch

from .. import _C
from ..extend import FusionExecutor, register_executor
from ..extend._trace import map_values

# ---- primitives that are not one ATen operator -----------------------------------------------------------------------


def _slice(a, start, end, strides=None):
    strides = strides or [1] * len(start)
    return a[tuple(slice(s, e, n) for s, e, n in zip(start, end, strides, strict=True))]


def _broadcast_in_dim(a, shape, dims):
    for d in range(len(shape)):
        if d not in dims:
            a = a.unsqueeze(d)
    return a.expand(shape)


def _view(a, shape):
    return a.view(shape)


def _squeeze(a, dims):
    return torch.squeeze(a, tuple(dims))


def _reshape(a, shape):
    return torch.reshape(a, shape).clone()


def _sum(a, dims):
    return torch.sum(a, dims, dtype=a.dtype) if dims else a.clone()


def _amax(a, dims):
    return torch.amax(a, dims) if dims else a.clone()


def _amin(a, dims):
    return torch.amin(a, dims) if dims else a.clone()


def _var(a, dims, *, correction):
    return torch.var(a, dims, correction=correction) if dims else torch.var(a.unsqueeze(-1), -1, correction=correction)


def _cumsum(a, dim):
    return torch.cumsum(a, dim, dtype=a.dtype)


def _cumprod(a, dim):
    return torch.cumprod(a, dim, dtype=a.dtype)


# Named functions: a graph prints its calls by name.
_FORMS = {
    "prims.slice": _slice,
    "prims.broadcast_in_dim": _broadcast_in_dim,
    "prims.transpose": torch.permute,
    "prims.view": _view,
    "prims.squeeze": _squeeze,
    "prims.reshape": _reshape,
    "prims.sum": _sum,
    "prims.amax": _amax,
    "prims.amin": _amin,
    "prims.var": _var,
    "prims.cumsum": _cumsum,
    "prims.cumprod": _cumprod,
}


class TorchCompileExecutor(FusionExecutor):
    """Hands regions to torch.compile as graphs of ATen operators."""

    def __init__(self, name, *, only_with=(), options=None):
        super().__init__(name, torch.__version__, prefix="TorchCompile")
        self._only_with = frozenset(only_with)
        self._options = options or {}

    def can_fuse(self, call):
        if not call.executor or not call.may_be_fused or call.has_effects or call.is_symbolic:
            return False
        return _steps(call) is not None

    def fuse(self, region):
        if self._only_with and not any(_mentions(c, self._only_with) for c in region.calls):
            return None
        if all(c.is_view for c in region.calls):
            return None  # views are free; a compiled region is not
        graph = torch.fx.Graph()
        nodes = {value: graph.placeholder(value.name) for value in region.inputs}
        for call in region.calls:
            for step in _steps(call):
                _emit(graph, step, nodes)
        graph.output(tuple(nodes[value] for value in region.outputs))
        module = torch.fx.GraphModule(torch.nn.Module(), graph, "ThunderRegion")
        return _Region(module, self._options)


def _steps(call):
    """The call as calls that a graph can hold, one node each; None if it is not."""
    if call.symbol in _FORMS or _C.call_aten(call) is not None:
        return [call]
    if not call.body:
        return None
    steps = []
    for inner in call.body:
        inside = None if inner.has_effects else _steps(inner)
        if inside is None:
            return None
        steps += inside
    return steps


def _mentions(call, symbols):
    return call.symbol in symbols or any(_mentions(inner, symbols) for inner in call.body)


def _target(call):
    """What a graph calls, its arguments and keyword arguments."""
    if (form := _FORMS.get(call.symbol)) is not None:
        params = _C.find_op(call.symbol).params
        pairs = list(zip(params, call.arguments, strict=True))
        args = [a for p, a in pairs if not p["keyword_only"]]
        return form, args, {p["name"]: a for p, a in pairs if p["keyword_only"]}
    name, overload, args, kwargs = _C.call_aten(call)
    namespace, _, base = name.partition("::")
    target = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    schema = {a.name: a for a in target._schema.arguments}
    return (
        target,
        [_given(a, value) for a, value in zip(schema.values(), args, strict=False)],
        {k: _given(schema[k], value) for k, value in kwargs.items()},
    )


def _given(argument, value):
    """None means the default where an ATen operator takes no None."""
    optional = str(argument.type).startswith("Optional")
    return argument.default_value if value is None and not optional and argument.has_default_value() else value


def _emit(graph, call, nodes):
    target, args, kwargs = _target(call)

    def node(value):
        return nodes[value]

    result = graph.call_function(
        target, tuple(map_values(a, node) for a in args), {k: map_values(v, node) for k, v in kwargs.items()}
    )
    outputs = call.result
    if isinstance(outputs, (list, tuple)):
        for i, value in enumerate(outputs):
            if value is not None:
                nodes[value] = graph.call_function(_item, (result, i))
    else:
        nodes[outputs] = result


def _item(sequence, index):
    return sequence[index]


class _Region:
    """A region's function; Inductor compiles it when it first runs."""

    def __init__(self, module, options):
        self.module = module
        self._compiled = torch.compile(module, dynamic=False, fullgraph=True, options=options)

    def __call__(self, *inputs):
        # Programs run below autograd; torch.compile's compiler traces with PyTorch's dispatcher as users have it.
        excluded = torch._C._dispatch_tls_local_exclude_set() - _AUTOGRAD_KEYS
        with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.no_grad():
            return self._compiled(*inputs)


def _autograd_keys():
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    for name in ("AutogradFunctionality", "AutogradOther", "AutogradCPU", "AutogradCUDA", "AutogradNestedTensor"):
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys


_AUTOGRAD_KEYS = _autograd_keys()

torch_compile_ex = torch_compile_executor = register_executor(TorchCompileExecutor("torchcompile"))
torch_compile_cat_ex = register_executor(
    TorchCompileExecutor("torchcompile_cat", only_with=("torch.cat", "prims.cat", "torch.stack"))
)
