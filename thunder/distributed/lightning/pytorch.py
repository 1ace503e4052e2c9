"""Strategies for the Lightning Trainer.

    trainer = lightning.Trainer(devices=2, strategy=ThunderFSDPStrategy(sharding_strategy="ZERO3"))
    trainer.fit(module, data)

`trainer.fit` compiles the modules that a LightningModule holds, each as one program: `self.model = GPT(...)` in
`__init__` or `configure_model`, called in `training_step` as `self.model(x)`. The rest of a hook (the loss, logging)
runs in Python. Each parameter belongs to one such module. All processes call the modules in the same order.
"""

import contextlib
from pathlib import Path

import torch
from torch import nn

from .. import ddp, fsdp, no_sync
from .._plan import state_of
from .._wrap import unwrap_replicated
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

_pytorch = lightning_package("pytorch", "pytorch_lightning")
_strategies = _pytorch.strategies
_FITTING = _pytorch.trainer.states.TrainerFn.FITTING

__all__ = ["ThunderDDPStrategy", "ThunderFSDPStrategy"]


def _places(module):
    """Where modules with parameters stand that can be called: (holder, attribute), containers opened."""
    for name, child in module._modules.items():
        if child is None or next(child.parameters(), None) is None:
            continue
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _places(child)
        else:
            yield module, name


def _check_owners(module, places):
    """RuntimeError if a parameter is of none of the modules in these places, or of two."""
    children = {id(child): child for child in (holder._modules[name] for holder, name in places)}
    owners = {}
    for child in children.values():
        for p in child.parameters():
            owners[p] = owners.get(p, 0) + 1
    for name, p in module.named_parameters():
        if owners.get(p) != 1:
            where = "two of the modules" if p in owners else "no module"
            raise RuntimeError(
                f"[lightning] {name} belongs to {where} that {type(module).__name__} holds; each is compiled alone. "
                "Put modules that share parameters, or parameters of the LightningModule, into one module"
            )


def _distribute(module, options, **more):
    """Replaces the modules that a LightningModule holds by distributed, compiled ones; returns them."""
    places = list(_places(module))
    _check_owners(module, places)
    made = {}
    for holder, name in places:
        child = holder._modules[name]
        if id(child) not in made:
            # trainer.fit a second time.
            made[id(child)] = child if state_of(child) is not None else options.distribute(child, **more)
        holder._modules[name] = made[id(child)]
    return list(made.values())


class _Thunder:
    """What both strategies share: the modules, and backwards that reduce nothing."""

    _distributed = ()

    @contextlib.contextmanager
    def block_backward_sync(self):
        with contextlib.ExitStack() as stack:
            for module in self._distributed:
                stack.enter_context(no_sync(module))
            yield


class ThunderDDPStrategy(_Thunder, _strategies.DDPStrategy):
    """Each process has all modules, compiled; gradients are averaged (`thunder.distributed.ddp`).

    After `trainer.fit` the LightningModule holds its own modules again. `jit=False` is for hooks that call compiled
    functions.

    Its arguments and what it raises: as of the strategy of that name for Fabric.
    """

    def __init__(self, *, jit=True, **options):
        self._thunder = Options(ddp, _strategies.DDPStrategy, jit, options)
        super().__init__(**self._thunder.lightning)

    def configure_ddp(self):
        self._given = [(holder, name, holder._modules[name]) for holder, name in _places(self.model)]
        self._distributed = _distribute(self.model, self._thunder)

    def teardown(self):
        for module in self._distributed:
            unwrap_replicated(module)
        if self._distributed:
            for holder, name, module in self._given:
                holder._modules[name] = module
        self._distributed = ()
        super().teardown()


class ThunderFSDPStrategy(_Thunder, DataParallel, _strategies.ModelParallelStrategy):
    """Each process has rows of each parameter, gradient and optimizer state (`thunder.distributed.fsdp`).

    What `configure_model` makes within `torch.device("meta")` gets memory for the rows, and `reset_parameters()` is
    called. The modules stay sharded after `trainer.fit`. A checkpoint is a directory, of which each process writes a
    part; with `save_distributed_checkpoint=False` it is one file with whole tensors, as other strategies write. Any
    number of processes can read either.

    Its arguments and what it raises: as of the strategy of that name for Fabric.
    """

    def __init__(self, *, jit=True, **options):
        self._thunder = Options(fsdp, _strategies.ModelParallelStrategy, jit, options)
        super().__init__(**{"tensor_parallel_size": 1, **self._thunder.lightning})

    def setup(self, trainer):
        # Lightning's own asks for shards that configure_model() has made.
        self.accelerator.setup(trainer)
        self.model = self.precision_plugin.convert_module(self.model)
        self._distributed = _distribute(
            self.model, self._thunder, device=self.root_device, mesh=self.device_mesh["data_parallel"]
        )
        self._move_the_rest()
        self.barrier()
        if trainer.state.fn == _FITTING:
            self.setup_optimizers(trainer)
        self.setup_precision_plugin()

    def _move_the_rest(self):
        """Buffers, and modules without parameters (metrics)."""
        inside = {id(m) for module in self._distributed for m in module.modules()}
        for module in self.model.modules():
            if id(module) not in inside and next(module.parameters(), None) is None:
                module.to(self.root_device)
            elif id(module) not in inside:
                for name, buffer in module._buffers.items():
                    module._buffers[name] = None if buffer is None else buffer.to(self.root_device)

    @property
    def _representation(self):
        return StateDictOptions() if self._save_distributed_checkpoint else WHOLE

    def lightning_module_state_dict(self):
        return get_model_state_dict(self.lightning_module, self._representation)

    def optimizer_state(self, optimizer):
        return get_optimizer_state_dict(getattr(optimizer, "_optimizer", optimizer), self._representation)

    def _optimizer_parts(self):
        return {f"optimizer_{number}": optimizer for number, optimizer in enumerate(self.optimizers)}

    def save_checkpoint(self, checkpoint, filepath, storage_options=None):
        path = Path(self.broadcast(filepath))
        if not self._save_distributed_checkpoint:
            return super().save_checkpoint(checkpoint, path, storage_options)
        check_no_plugin("a checkpoint of parts", storage_options=storage_options)
        parts = {"state_dict": checkpoint.pop("state_dict")}
        if checkpoint.pop("optimizer_states", None) is not None:
            parts.update(self._optimizer_parts())
        save(parts, path)
        if self.is_global_zero:
            torch.save(checkpoint, path / METADATA)

    def load_checkpoint(self, checkpoint_path, weights_only=None):
        path = Path(self.broadcast(checkpoint_path))
        if path.is_dir():
            load({"state_dict": self.lightning_module, **self._optimizer_parts()}, path)
            return torch.load(path / METADATA, weights_only=weights_only)
        checkpoint = torch.load(path, mmap=True, map_location="cpu", weights_only=weights_only)
        options = StateDictOptions(full_state_dict=True, strict=self.lightning_module.strict_loading)
        load_model_state_dict(checkpoint["state_dict"], self.lightning_module, options)
        if self.optimizers:
            for optimizer, stored in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
                load_optimizer_state_dict(stored, optimizer)
        return checkpoint
