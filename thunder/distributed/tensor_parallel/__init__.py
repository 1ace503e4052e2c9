"""Tensor parallelism: the parameters of one layer on several processes, which all compute on the same batch.

    mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
    parallelize(model, mesh["tp"], {"blocks.*.mlp.up": ColwiseParallel(), "blocks.*.mlp.down": RowwiseParallel()})
    model = thunder.jit(thunder.distributed.fsdp(model, mesh=mesh["dp"]))

Modules are made parallel in place; then `ddp` or `fsdp` over other processes, then `jit`. Parameters are plain tensors,
this process's parts; `full_state_dict` gathers them.
"""

from ._loss import vocabulary_parallel_cross_entropy
from ._plans import column_parallel, parallelize, row_parallel, sequence_parallel
from ._regions import (
    copy_to_group,
    exchange,
    gather_from_group,
    gather_sequence,
    reduce_from_group,
    scatter_sequence,
    scatter_to_group,
)
from ._state import full_state_dict, load_full_state_dict

__all__ = [
    "column_parallel",
    "copy_to_group",
    "exchange",
    "full_state_dict",
    "gather_from_group",
    "gather_sequence",
    "load_full_state_dict",
    "parallelize",
    "reduce_from_group",
    "row_parallel",
    "scatter_sequence",
    "scatter_to_group",
    "sequence_parallel",
    "vocabulary_parallel_cross_entropy",
]
