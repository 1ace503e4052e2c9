"""`thunder.jit` of a module that `fully_shard` was applied to: its programs gather parameters and scatter gradients.

Parameters, their memory and their gradients' form are FSDP's: DTensors of rows over memory that is padded to as many
rows on each process. FSDP's hooks go; its methods that change how it communicates act on programs, or raise.
"""

import functools

import torch
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, register_fsdp_forward_method
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.utils import _apply_to_tensors, _to_kwargs

from .._marks import refusal
from .._tracing import current_tracer
from ..module import ThunderModule
from ._adopt import NotAdopted, refuse
from ._agree import agree_on_parameters
from ._plan import DistributedState, group_of_mesh, second_group, state_of
from ._wrap import add_shard, owners_of

_REFUSED = {
    "set_custom_all_gather": "call it before the module's first call, which eager then runs",
    "set_custom_reduce_scatter": "call it before the module's first call, which eager then runs",
    "set_all_reduce_hook": "call it before the module's first call, which eager then runs",
    "set_gradient_divide_factor": "scale the loss",
    "set_reduce_scatter_divide_factor": "scale the loss",
    "set_requires_all_reduce": "call set_requires_gradient_sync() instead",
    "set_reshard_after_forward": "call it before the module's first call",
}
_MESHES = ("FSDPMeshInfo", "HSDPMeshInfo")  # shards; shards in several copies
_FOLLOWED = ("set_requires_gradient_sync", "unshard")


class Adopted(ThunderModule):
    """Calls settle what FSDP's methods have left open, and run programs."""

    def __call__(self, *args, **kwargs):
        state = self._original._thunder_plan
        if state.open:
            state.settle()
        if state.moves_inputs:
            moved, moved_kwargs = _to_kwargs(args, kwargs, state.device, False)
            args, kwargs = moved[0], moved_kwargs[0]
        return self._compiled(*args, **kwargs)

    forward = __call__


class AdoptedState(DistributedState):
    """What a module that was sharded by fully_shard keeps.

    Attributes:
        open: Whether the next call has to settle something.
    """

    def __init__(self, groups, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.groups = groups
        self.open = False
        self.device = groups[0].device
        self.moves_inputs = self.device.type != "cpu"

    @DistributedState.synchronizes.setter
    def synchronizes(self, on):
        self.plan.synchronizes = on
        for g in self.groups:
            g.reduce_grads = g.all_reduce_grads = on

    def follow(self):
        """Gradients are reduced as FSDP's groups say; while these differ it is open."""
        wanted = {g.reduce_grads for g in self.groups}
        if len(wanted) == 1:
            self.plan.synchronizes = wanted.pop()
        else:
            self.open = True

    def settle(self):
        """Parameters that unshard() made whole are sharded again. NotImplementedError if FSDP's groups differ."""
        for g in self.groups:
            g._to_sharded()
        self.open = False
        self.follow()
        if self.open:
            raise refusal(
                "[jit] set_requires_gradient_sync() was set for some modules only, which programs do not do; set it "
                "for all of them"
            )


def adopt(model, module):
    """Makes a module's FSDP parameters those of programs."""
    if state_of(module) is not None:
        return
    sharded = _sharded_in(module)
    states = list(dict.fromkeys(m._get_fsdp_state() for m in sharded))
    for m in sharded:
        m._get_fsdp_state()._lazy_init()  # of the root first, which does the same for those in it
    groups = [g for s in states for g in _groups_of(s)]
    _check(module, sharded, groups)
    state = _distribute(module, groups)
    state.before = [(table, table.copy()) for m in sharded for table in _tables(m)]
    for s in states:
        s._pre_forward_hook_handle.remove()
        s._post_forward_hook_handle.remove()
    for m in sharded:
        _put_hooks(m, m._get_fsdp_state()._mp_policy)
        _put_methods(m, state)
    object.__setattr__(module, "_thunder_plan", state)


def undo(model, module, state):
    """Makes a module FSDP's again, of which no program has run."""
    state.plan.forget()
    for p in state.parameters.values():
        p.__dict__.pop("_thunder_layout", None)
    for table, content in state.before:
        table.clear()
        table.update(content)
    object.__delattr__(module, "_thunder_plan")
    for m in _sharded_in(module):
        for name in (*_REFUSED, *_FOLLOWED):
            object.__delattr__(m, name)


def settle(module):
    """Lets go of what undo() would need."""
    state_of(module).before = []


def _tables(module):
    """The dicts of a module's hooks."""
    hooks = "_forward_pre_hooks _forward_pre_hooks_with_kwargs _forward_hooks _forward_hooks_with_kwargs".split()
    return [getattr(module, name) for name in (*hooks, "_forward_hooks_always_called")]


def _sharded_in(module):
    return [m for m in module.modules() if isinstance(m, FSDPModule)]


def _groups_of(state):
    several = getattr(state, "_fsdp_param_groups", None)  # one in PyTorch 2.11
    if several is None:
        several = [state._fsdp_param_group] if state._fsdp_param_group is not None else []
    return several


def _check(module, sharded, groups):
    """NotAdopted says what of FSDP's settings programs do not do."""
    if not groups:
        raise NotAdopted("fully_shard of modules without parameters is not compiled")
    for g in groups:
        hooks = [getattr(g, "_all_gather_comm", None), getattr(g, "_reduce_scatter_comm", None)]
        for there, what in (
            (type(g.mesh_info).__name__ not in _MESHES, f"a mesh of {g.mesh_info.mesh.ndim} dimensions"),
            (isinstance(g.offload_policy, CPUOffloadPolicy), "CPUOffloadPolicy"),
            (any(h is not None and not _is_fsdps(type(h)) for h in hooks), "custom communication"),
            (g.reduce_grads and not g.all_reduce_grads, "set_requires_all_reduce()"),
            (getattr(g, "_all_reduce_hook", None) is not None, "set_all_reduce_hook()"),
            (getattr(g, "gradient_divide_factor", None) is not None, "set_gradient_divide_factor()"),
            (getattr(g.mesh_info, "is_spmd_mesh", False), "dp_mesh_dims"),
            (not all(_is_known(_layout_of(p)) for p in g.fsdp_params), "DTensors of layouts that are not known"),
            (any(p.fsdp_placement != Shard(0) for p in g.fsdp_params), "shards of other dimensions than the first"),
            (any(type(p._sharded_local_tensor) is not torch.Tensor for p in g.fsdp_params), "tensor subclasses"),
        ):
            if there:
                raise NotAdopted(f"fully_shard with {what} is not compiled")
    for values, what in (
        ((g.mesh_info.shard_process_group for g in groups), "several process groups"),
        ((g.reduce_grads for g in groups), "set_requires_gradient_sync() of some modules only"),
    ):
        if len(set(values)) > 1:
            raise NotAdopted(f"fully_shard with {what} is not compiled")
    patched = register_fsdp_forward_method.__globals__
    for m in sharded:
        for name, value in m.__dict__.items():
            if getattr(getattr(value, "__func__", None), "__globals__", None) is patched:
                raise NotAdopted(f"fully_shard with register_fsdp_forward_method(..., {name!r}) is not compiled")


def _layout_of(parameter):
    """(mesh, placements) of a parameter that was a DTensor before; None of a plain one."""
    if not parameter.is_dtensor:
        return None
    name = "_unsharded_dtensor_spec" if hasattr(parameter, "_unsharded_dtensor_spec") else "_tp_spec"  # PyTorch 2.11
    spec = getattr(parameter, name)
    return spec.mesh, spec.placements


def _is_known(layout):
    return layout is None or (layout[0].ndim == 1 and type(layout[1][0]) in (Shard, Replicate))


def _is_fsdps(kind):
    return kind.__module__.startswith("torch.distributed.fsdp.")


def _reduce_dtype(groups):
    """What programs reduce all gradients in; None: each in the dtype that its parameter was gathered in."""
    trainable = [p for g in groups for p in g.fsdp_params if p.sharded_param.requires_grad]
    if all(p.reduce_dtype is None for p in trainable):
        return None
    found = {p.reduce_dtype or _gathered_dtype(p) for p in trainable}
    if len(found) > 1:
        raise NotAdopted(f"fully_shard with gradients reduced in several dtypes ({found}) is not compiled")
    return found.pop()


def _gathered_dtype(parameter):
    return parameter.param_dtype or parameter.orig_dtype


def _distribute(module, groups):
    """A plan of the parameters, with a bucket for each of FSDP's groups."""
    info = groups[0].mesh_info
    group = info.shard_process_group
    places = {p.sharded_param: (p, number) for number, g in enumerate(groups) for p in g.fsdp_params}
    for g in groups:
        g._to_sharded()
    parameters = dict(module.named_parameters())
    own = {name: p for name, p in parameters.items() if p in places}
    again = any(g._reshard_after_forward for g in groups)
    reduce_dtype = _reduce_dtype(groups)
    dtypes = {name: _gathered_dtype(places[p][0]) for name, p in own.items()}
    kept = {name: again and not groups[places[p][1]]._reshard_after_forward for name, p in own.items()}
    settings = [f"{n} {places[p][1]} {dtypes[n]} {kept[n]}" for n, p in own.items()]
    replicas = getattr(info, "replicate_process_group", None)
    everyone = group_of_mesh(info.mesh)
    agree_on_parameters(everyone, own, "fully_shard", again, reduce_dtype, *settings)
    reduce_group = getattr(info, "reduce_scatter_process_group", None) or second_group(group)
    state = AdoptedState(
        groups,
        group,
        reduce_group,
        kind="fsdp",
        regather=again,
        reduce_dtype=reduce_dtype,
        replicas=replicas,
        everyone=everyone,
    )
    state.others = {name: p for name, p in parameters.items() if name not in own}
    owners = owners_of(module)
    for name, p in own.items():
        fsdp_param, bucket = places[p]
        memory = fsdp_param._sharded_param_data.view(fsdp_param.padded_sharded_param_size).data
        shape, layout = fsdp_param._orig_size, _layout_of(fsdp_param)
        add_shard(state, name, p, memory, owners[p], bucket, dtypes[name], kept[name], shape, layout)
    state.follow()
    state.share_memory()
    return state


def _cast(values, dtype):
    """A call's tensors of floating point in a dtype."""

    def cast(t):
        return t.to(dtype) if t.is_floating_point() and t.dtype is not dtype else t

    return _apply_to_tensors(cast, values)


def _put_hooks(module, policy):
    """What of FSDP's hooks is computation: the casts of its mixed precision, which programs record."""

    def before(_, args, kwargs):
        if not current_tracer():
            raise RuntimeError(
                f"[jit] {type(module).__name__} was called outside of the compiled module, which alone gathers its "
                "parameters; call what thunder.jit returned"
            )
        if policy.cast_forward_inputs and policy.param_dtype is not None:
            args, kwargs = _cast(args, policy.param_dtype), _cast(kwargs, policy.param_dtype)
        return args, kwargs

    def after(_, args, output):
        return _cast(output, policy.output_dtype)

    module.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
    if policy.output_dtype is not None:
        module.register_forward_hook(after)


def _put_methods(module, state):
    """FSDP's methods of the module that programs have to know of."""
    for name, instead in _REFUSED.items():
        refuse(module, name, instead)
    set_sync, unshard = (getattr(module, name) for name in _FOLLOWED)

    @functools.wraps(set_sync)
    def set_requires_gradient_sync(*args, **kwargs):
        set_sync(*args, **kwargs)
        state.follow()

    @functools.wraps(unshard)
    def opening(*args, **kwargs):
        state.open = True
        return unshard(*args, **kwargs)

    for name, method in zip(_FOLLOWED, (set_requires_gradient_sync, opening), strict=True):
        object.__setattr__(module, name, method)
