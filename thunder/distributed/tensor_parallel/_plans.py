"""Which modules become parallel: by name, or by PyTorch's plans."""

from fnmatch import fnmatch

import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

from ... import _C
from ..._marks import refusal
from .._agree import agree_on_parameters
from .._wrap import _original, broadcast
from ._layers import make_parallel, make_sequence_parallel, sharding_of
from ._regions import exchange, gather_from_group, processes_of, scatter_to_group


def column_parallel(model, modules, mesh, *, gather_output=False, sequence_dim=None, unit=1, broadcast_from=0):
    """Shards linear modules by output features, and embeddings by the elements of their vectors, in place.

    Args:
        model: A module, or one compiled by `thunder.jit`.
        modules: Names in the model, with `*` for any part between dots, or modules of it; one or a list.
        mesh: The processes: a DeviceMesh of one dimension, or a ProcessGroup.
        gather_output: Whether the modules give whole features; else this process's part.
        sequence_dim: The dimension along which the modules' input is sharded; None: it is whole.
        unit: Features that stay together: the size of an attention's head, say. The last processes may have less.
        broadcast_from: The rank in the group whose parameters and buffers all take first; None: each its own.

    Returns:
        The model.

    Raises:
        ValueError: No module has the name, or features are no multiple of the unit.
        NotImplementedError: A module is no Linear or Embedding.
        RuntimeError: The module is wrapped by `ddp` or `fsdp` already, or the processes' models differ.
    """
    layouts = {"input": _sharded(sequence_dim), "output": Replicate() if gather_output else None, "unit": unit}
    return _apply(model, mesh, _targets(model, modules), [("column", layouts)], broadcast_from)


def row_parallel(model, modules, mesh, *, split_input=False, sequence_dim=None, unit=1, broadcast_from=0):
    """Shards linear modules by input features, and embeddings by the vocabulary, in place.

    Args:
        split_input: Whether the linear modules take whole features; else this process's part, as `column_parallel`
            modules give them.
        sequence_dim: The dimension along which the modules give a part each; None: all give the whole.

    The other arguments, the result and the errors are those of `column_parallel`.
    """
    layouts = {"input": Replicate() if split_input else None, "output": _sharded(sequence_dim), "unit": unit}
    return _apply(model, mesh, _targets(model, modules), [("row", layouts)], broadcast_from)


def sequence_parallel(model, modules, mesh, *, broadcast_from=0):
    """Lets modules (norms, dropout) run on a part of the sequence, in place: their parameters' gradients are summed.

    The arguments, the result and the errors are those of `column_parallel`.
    """
    return _apply(model, mesh, _targets(model, modules), [("sequence", {})], broadcast_from)


def parallelize(model, mesh, plan, *, broadcast_from=0):
    """Makes a model parallel by a plan as `torch.distributed.tensor.parallel.parallelize_module` takes it, in place.

    Modules take and give plain tensors, this process's parts where a layout is `Shard`.

    Args:
        model: A module, or one compiled by `thunder.jit`.
        mesh: The processes: a DeviceMesh of one dimension, or a ProcessGroup.
        plan: A style for the model, or styles by names in it, with `*` for any part between dots: ColwiseParallel,
            RowwiseParallel, SequenceParallel, PrepareModuleInput, PrepareModuleOutput, PrepareModuleInputOutput.
        broadcast_from: The rank in the group whose parameters and buffers all take first; None: each its own.

    Returns:
        The model.

    Raises:
        ValueError: No module has the name.
        NotImplementedError: A style, a layout, or that modules are to give DTensors (`use_local_output=False`).
        RuntimeError: The module is wrapped by `ddp` or `fsdp` already, or the processes' models differ.
    """
    plan = {"": plan} if isinstance(plan, ParallelStyle) else plan
    work = []
    for name, style in plan.items():
        kinds = _kinds_of(name, style)
        for target in _targets(model, name):
            work.extend((target, kind) for kind in kinds)
    return _apply(model, mesh, work, None, broadcast_from)


def _sharded(dim):
    return None if dim is None else Shard(dim)


def _targets(model, wanted):
    """[(name, module)] of what `wanted` says."""
    module = _original(model)
    found = []
    for w in wanted if isinstance(wanted, (list, tuple)) else [wanted]:
        if isinstance(w, str):
            matching = [(n, m) for n, m in module.named_modules() if _matches(n, w)]
        else:
            matching = [(n, m) for n, m in module.named_modules() if m is w]
        if not matching:
            raise ValueError(f"[tensor_parallel] the model has no module {w!r}")
        found += matching
    return found


def _matches(name, pattern):
    parts, patterns = name.split("."), pattern.split(".")
    return len(parts) == len(patterns) and all(map(fnmatch, parts, patterns))


# ---- PyTorch's styles -----------------------------------------------------------------------------------------------


def _kinds_of(name, style):
    """[(kind, options)] of a style."""
    kind = type(style)
    if kind in (ColwiseParallel, RowwiseParallel):
        (given,), (output,) = style.input_layouts, style.output_layouts
        _check_local(name, style, [output])
        # For an embedding PyTorch's default means indices, which all have.
        given = None if kind is RowwiseParallel and given == Shard(-1) else given
        return [("column" if kind is ColwiseParallel else "row", {"input": given, "output": output})]
    if kind is SequenceParallel:
        return [("sequence", {})]
    if kind is PrepareModuleInput:
        layouts = [*(style.desired_input_layouts or ()), *style.desired_input_kwarg_layouts.values()]
        _check_local(name, style, layouts)
        return [("inputs", {"style": style})]
    if kind is PrepareModuleOutput:
        _check_local(name, style, style.desired_output_layouts)
        return [("outputs", {"style": style})]
    if kind is PrepareModuleInputOutput:
        return [*_kinds_of(name, style.prepare_module_input), *_kinds_of(name, style.prepare_module_output)]
    raise refusal(f"[tensor_parallel] {name}: the style {kind.__name__} is not known")


def _check_local(name, style, layouts):
    if not style.use_local_output and any(isinstance(layout, Shard) for layout in layouts):
        raise refusal(
            f"[tensor_parallel] {name}: {type(style).__name__}(use_local_output=False) asks for DTensors between "
            "modules, whose shapes are those of the whole; set use_local_output=True. For a loss of sharded logits "
            "there is thunder.distributed.tensor_parallel.vocabulary_parallel_cross_entropy"
        )


def _converter(given, wanted, p):
    """A function of a tensor in one layout that gives it in another."""
    for layout in (given, wanted):
        if layout is not None and type(layout) not in (Replicate, Shard):
            raise refusal(
                f"[tensor_parallel] Replicate() or Shard(dim) was expected as a layout, got {layout}"
            )

    def convert(x):
        if given is None or wanted is None or given == wanted or not isinstance(x, torch.Tensor):
            return x
        if isinstance(wanted, Replicate):
            return gather_from_group(x, given.dim, p)
        if isinstance(given, Replicate):
            return scatter_to_group(x, wanted.dim, p)
        return exchange(x, given.dim, wanted.dim, p)

    return convert


def _converters(given, wanted, p):
    return [_converter(a, b, p) for a, b in zip(given, wanted, strict=True)]


def _prepare_inputs(module, name, style, p):
    positional = None
    if style.input_layouts is not None:
        positional = _converters(style.input_layouts, style.desired_input_layouts, p)
    given, wanted = style.input_kwarg_layouts, style.desired_input_kwarg_layouts
    named = {key: _converter(given[key], wanted[key], p) for key in given}

    def prepare(_, args, kwargs):
        if positional is not None:
            if len(args) != len(positional):
                raise ValueError(f"[tensor_parallel] {name}: {len(positional)} inputs were expected, got {len(args)}")
            args = tuple(convert(a) for convert, a in zip(positional, args, strict=True))
        return args, {key: named[key](value) if key in named else value for key, value in kwargs.items()}

    module.register_forward_pre_hook(prepare, with_kwargs=True)


def _prepare_outputs(module, name, style, p):
    converters = _converters(style.output_layouts, style.desired_output_layouts, p)

    def prepare(_, args, outputs):
        several = isinstance(outputs, tuple)
        values = outputs if several else (outputs,)
        if len(values) != len(converters):
            raise ValueError(f"[tensor_parallel] {name}: {len(converters)} outputs were expected, got {len(values)}")
        values = tuple(convert(v) for convert, v in zip(converters, values, strict=True))
        return values if several else values[0]

    module.register_forward_hook(prepare)


# ---- applying them --------------------------------------------------------------------------------------------------


def _apply(model, mesh, targets, kinds, broadcast_from):
    """`targets`: [(name, module)], for which all `kinds` are meant; or, without kinds, [((name, module), kind)]."""
    from ...module import ThunderModule

    module, p = _original(model), processes_of(mesh)
    work = [(target, kind) for target in targets for kind in kinds] if kinds is not None else targets
    group = mesh if isinstance(mesh, torch.distributed.ProcessGroup) else mesh.get_group()
    whole = {name: t for name, t in module.named_parameters() if sharding_of(t) is None}
    agree_on_parameters(group, whole, "tensor parallel", *(f"{kind} {name}" for (name, _), (kind, _) in work))
    if broadcast_from is not None:
        broadcast([*whole.values(), *module.buffers()], group, broadcast_from)
    for (name, target), (kind, options) in work:
        _make(target, name, kind, options, mesh, p)
    _check_shared(module)
    if isinstance(model, ThunderModule):
        _C.clear_cache(model._compiled)
    return model


def _make(target, name, kind, options, mesh, p):
    if kind in ("column", "row"):
        make_parallel(target, name, kind, mesh, p, **options)
    elif kind == "sequence":
        make_sequence_parallel(target, p)
    elif kind == "inputs":
        _prepare_inputs(target, name, options["style"], p)
    else:
        _prepare_outputs(target, name, options["style"], p)


def _check_shared(module):
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if "_thunder_part" in parameter.__dict__:
            raise ValueError(
                f"[tensor_parallel] {name} is shared with a module that was sharded; shard all that share it, in one "
                "call of parallelize()"
            )
