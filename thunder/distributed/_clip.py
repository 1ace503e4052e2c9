"""The norm of gradients that lie on several processes."""

import torch
from torch import distributed
from torch.distributed.tensor import DTensor

from .._watching import watched
from ._plan import state_of
from .tensor_parallel._layers import other_parts_of
from .tensor_parallel._regions import reduced


def _local(parameter):
    """This process's part of a gradient."""
    g = parameter.grad
    if isinstance(g, DTensor):
        if g.placements != parameter.placements:  # of eager's backward
            parameter.grad = g = g.redistribute(placements=parameter.placements)
        g = g.to_local()
    return g


@torch.no_grad()
def clip_grad_norm_(module, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales the gradients of a distributed module so that their norm, of all processes' parts together, is at most
    `max_norm`.

    Args:
        module: A module that is wrapped by `ddp` or `fsdp`, tensor parallel (by PyTorch, too), or both, jitted or not.
        max_norm: The largest norm.
        norm_type: p of the p-norm; `float("inf")` for the largest magnitude.
        error_if_nonfinite: A norm that is infinite or no number raises, and the gradients stay as they are.

    Returns:
        The norm before, a 0-d tensor, of float32 or float64, the same on every process.

    Raises:
        RuntimeError: The module is not distributed, or the norm is not finite, then on every process.
    """
    state = state_of(module)
    parameters = dict(module.named_parameters()) if state is None else state.parameters
    # By the processes that have parts of the same layers (tensor parallelism), in the order of the parameters.
    sharded = {} if state is None else state.sharded
    others = {name: other_parts_of(p, planned=name in sharded) for name, p in parameters.items()}
    if state is None and not any(others.values()):
        raise RuntimeError("[distributed] the module is not distributed: wrap it with ddp() or fsdp() first")
    parts, wholes, device = {None: []}, {None: []}, None
    for name, p in parameters.items():
        device = p.device
        gradients = (parts if name in sharded else wholes).setdefault(others[name], [])
        if p.grad is not None:
            gradients.append(_local(p))
    every = [g for of in (parts, wholes) for gradients in of.values() for g in gradients]
    wide = any(g.dtype in (torch.float64, torch.complex128) for g in every)
    dtype = torch.float64 if wide else torch.float32
    p = float(norm_type)
    infinite = p == float("inf")

    def total(gradients):
        # A process without rows has no norm of its own.
        gradients = [g for g in gradients if g.numel() > 0]
        norms = torch._foreach_norm(gradients, p, dtype=dtype) if gradients else []
        if not norms:
            return torch.zeros((), device=device, dtype=dtype)
        norms = torch.stack(list(norms))
        return norms.max() if infinite else norms.pow(p).sum()

    def both(a, b):
        return torch.maximum(a, b) if infinite else a + b

    keys = list({**parts, **wholes})
    norms = torch.stack([total(parts.get(k, ())) for k in keys])
    if sharded:
        with watched(state.group, "the others' norms"):
            distributed.all_reduce(norms, getattr(distributed.ReduceOp, "MAX" if infinite else "SUM"), state.group)
    norm = torch.zeros((), device=device, dtype=dtype)
    for k, of_parts in zip(keys, norms.unbind(), strict=True):
        of_group = both(of_parts, total(wholes.get(k, ())))
        if k is not None and k.world > 1:
            with watched(k.name, "the others' norms"):
                of_group = reduced(of_group, "max" if infinite else "sum", k)
        norm = both(norm, of_group)
    norm = norm if infinite else norm.pow(1.0 / p)
    if error_if_nonfinite and not norm.isfinite():
        raise RuntimeError(f"[clip_grad_norm_] the norm of order {norm_type} of the gradients is {norm.item()}")
    if every:
        torch._foreach_mul_(every, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm
