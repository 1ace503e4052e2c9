"""Strategies for Lightning Fabric.

    fabric = lightning.Fabric(devices=2, strategy=ThunderDDPStrategy(bucket_size_in_mb=25, executors=["sdpa", "fuser"]))
    fabric.launch()
    model, optimizer = fabric.setup(model, optimizer)
"""

import contextlib
from pathlib import Path

import torch

from .. import clip_grad_norm_, ddp, fsdp, no_sync
from ..checkpoint import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    load,
    load_model_state_dict,
    load_optimizer_state_dict,
    save,
)
from ._common import METADATA, WHOLE, DataParallel, Options, check_no_plugin, lightning_package

_strategies = lightning_package("fabric", "lightning_fabric").strategies
_BackwardSyncControl = _strategies.strategy._BackwardSyncControl

__all__ = ["ThunderDDPStrategy", "ThunderFSDPStrategy"]


class _SyncControl(_BackwardSyncControl):
    def no_backward_sync(self, module, enabled):
        return no_sync(module) if enabled else contextlib.nullcontext()


class ThunderDDPStrategy(_strategies.DDPStrategy):
    """Each process has the whole module, compiled; gradients are averaged (`thunder.distributed.ddp`).

    Args:
        jit: Whether `fabric.setup` compiles the module. One that is compiled already stays as it is. With False it is
            wrapped alone, for a compiled function that calls it.
        **options: Those of `thunder.jit` (executors, numerics, ...), of `thunder.distributed.ddp` (broadcast_from,
            bucket_size_in_mb) and of Lightning's DDPStrategy (timeout, process_group_backend, start_method, ...).

    Raises:
        TypeError: None of them has such an option.
        ValueError: Options of `thunder.jit` with `jit=False`.
    """

    def __init__(self, *, jit=True, **options):
        self._thunder = Options(ddp, _strategies.DDPStrategy, jit, options)
        super().__init__(**self._thunder.lightning)
        self._backward_sync_control = _SyncControl()

    def setup_module(self, module):
        return self._thunder.distribute(module)


class ThunderFSDPStrategy(DataParallel, _strategies.ModelParallelStrategy):
    """Each process has rows of each parameter, gradient and optimizer state (`thunder.distributed.fsdp`).

    Modules made within `fabric.init_module(empty_init=True)` get memory for them in `fabric.setup`, which calls
    `reset_parameters()`. `fabric.save` writes a directory, of which each process writes a part; with
    `save_distributed_checkpoint=False` it writes one file with whole tensors, as strategies without shards do. Any
    number of processes can `fabric.load` either.

    Args:
        jit: As for ThunderDDPStrategy.
        **options: Those of `thunder.jit`, of `thunder.distributed.fsdp` (sharding_strategy, bucketing_strategy, also as
            texts such as "ZERO3" and "BLOCK"; broadcast_from, 0 here; param_dtype, reduce_dtype, in_flight_mb) and of
            Lightning's ModelParallelStrategy (save_distributed_checkpoint, timeout, process_group_backend).

    Raises:
        TypeError: None of them has such an option.
        ValueError: Options of `thunder.jit` with `jit=False`, or no such strategy.
    """

    def __init__(self, *, jit=True, **options):
        self._thunder = Options(fsdp, _strategies.ModelParallelStrategy, jit, options)
        super().__init__(self._shard, **{"tensor_parallel_size": 1, **self._thunder.lightning})
        self._backward_sync_control = _SyncControl()

    def _shard(self, module, mesh):
        return self._thunder.distribute(module, device=self.root_device, mesh=mesh["data_parallel"])

    def setup_module_and_optimizers(self, module, optimizers, scheduler=None):
        """The optimizers get the sharded parameters in place of the whole ones.

        Raises:
            RuntimeError: An optimizer has taken a step already.
        """
        names = {p: name for name, p in module.named_parameters()}
        module, optimizers, scheduler = super().setup_module_and_optimizers(module, optimizers, scheduler)
        sharded = dict(module.named_parameters())
        for optimizer in optimizers:
            if optimizer.state:
                raise RuntimeError("[lightning] the optimizer has state for whole parameters; make it after the set-up")
            for group in optimizer.param_groups:
                group["params"] = [sharded[names[p]] if p in names else p for p in group["params"]]
        return module, optimizers, scheduler

    def clip_gradients_norm(self, module, optimizer, max_norm, norm_type=2.0, error_if_nonfinite=True):
        self.precision.unscale_gradients(optimizer)
        return clip_grad_norm_(module, max_norm, norm_type, error_if_nonfinite=error_if_nonfinite)

    def save_checkpoint(self, path, state, storage_options=None, filter=None):
        path = Path(self.broadcast(path))
        if not self._save_distributed_checkpoint:
            check_no_plugin("a checkpoint of shards", storage_options=storage_options)
            whole = self._convert_stateful_objects_in_state({k: _whole(v) for k, v in state.items()}, filter or {})
            if self.is_global_zero:
                path.parent.mkdir(parents=True, exist_ok=True)
                torch.save(whole, path)
            return
        check_no_plugin("a checkpoint of parts", storage_options=storage_options, filter=filter)
        parts = {key: value for key, value in state.items() if _is_part(value)}
        rest = {key: value for key, value in state.items() if key not in parts}
        save(parts, path)
        if self.is_global_zero:
            torch.save(self._convert_stateful_objects_in_state(rest, {}), path / METADATA)

    def load_checkpoint(self, path, state=None, strict=True, weights_only=None):
        """As Lightning's; a module or optimizer alone is read from one file.

        Raises:
            ValueError: No state is given, or a module or optimizer alone and a directory.
            FileNotFoundError: There is no complete checkpoint.
            KeyError: The checkpoint lacks something of the state, and `strict` is set.
        """
        path = Path(self.broadcast(path))
        if not state:
            raise ValueError("[lightning] load: give the module (and optimizers) as state={'model': model, ...}")
        whole = not path.is_dir()
        if _is_part(state):
            if not whole:
                raise ValueError(f"[lightning] {path} is a directory: load it with state={{'model': model, ...}}")
            _load_whole(torch.load(path, mmap=True, map_location="cpu", weights_only=weights_only), state, strict)
            return {}
        parts = {key: value for key, value in state.items() if _is_part(value)}
        if whole:
            stored = torch.load(path, mmap=True, map_location="cpu", weights_only=weights_only)
        else:
            load(parts, path)
            stored = torch.load(path / METADATA, weights_only=weights_only)
        missing = [key for key in state if key not in stored and (whole or key not in parts)]
        if strict and missing:
            raise KeyError(f"[lightning] {path} has no {', '.join(map(repr, missing))}")
        for key in [key for key in state if key in stored]:
            value, there = state[key], stored.pop(key)
            if key in parts:
                _load_whole(there, value, strict)
            elif hasattr(value, "load_state_dict"):
                value.load_state_dict(there)
            else:
                state[key] = there
        return stored


def _is_part(value):
    return isinstance(value, (torch.nn.Module, torch.optim.Optimizer))


def _whole(value):
    if isinstance(value, torch.nn.Module):
        return get_model_state_dict(value, WHOLE)
    return get_optimizer_state_dict(value, WHOLE) if isinstance(value, torch.optim.Optimizer) else value


def _load_whole(stored, value, strict):
    if isinstance(value, torch.nn.Module):
        load_model_state_dict(stored, value, StateDictOptions(full_state_dict=True, strict=strict))
    else:
        load_optimizer_state_dict(stored, value)
