"""Training on several processes: data parallelism, replicated (`ddp`) and sharded (`fsdp`).

    model = thunder.distributed.fsdp(model)      # or ddp(model); in place
    model = thunder.jit(model)
    optimizer = torch.optim.AdamW(model.parameters())

Collectives are calls of the compiled programs: `thunder.last_backward_traces(model)[-1]` shows them. A wrapped model
runs compiled only. Call `torch.distributed.init_process_group()` first. `tensor_parallel` divides the layers.
"""

from .._watching import report_failures as _report_failures
from . import tensor_parallel
from ._clip import clip_grad_norm_
from ._plan import FSDPBucketingStrategy, FSDPType
from ._simulate import simulate
from ._synchronize import no_sync, set_requires_gradient_sync, skip_data_parallel_grad_sync, sync_grads
from ._synchronize import sync_grads as _sync_grads  # noqa: F401  # as litgpt's strategies for Thunder call it
from ._wrap import ddp, fsdp
from .checkpoint import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    has_fsdp_modules,
    load,
    load_model_state_dict,
    load_optimizer_state_dict,
    save,
)

__all__ = [
    "FSDPBucketingStrategy",
    "FSDPType",
    "StateDictOptions",
    "clip_grad_norm_",
    "ddp",
    "fsdp",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "has_fsdp_modules",
    "load",
    "load_model_state_dict",
    "load_optimizer_state_dict",
    "no_sync",
    "save",
    "set_requires_gradient_sync",
    "simulate",
    "skip_data_parallel_grad_sync",
    "sync_grads",
    "tensor_parallel",
]

# Before the first wrapping, too: the others wait there for a process that fails on the way.
_report_failures()
