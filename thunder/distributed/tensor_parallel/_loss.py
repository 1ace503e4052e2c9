"""The cross entropy of logits whose classes lie on several processes."""

import torch

from ..._marks import ours
from ._regions import part_sizes, processes_of, reduce_from_group, reduced


def vocabulary_parallel_cross_entropy(
    logits, target, group, *, vocabulary=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """torch.nn.functional.cross_entropy() of logits that are sharded along the last dimension, without gathering them.

    The processes exchange a maximum and two or three sums for each target, in the forward alone. Each process has the
    whole loss, and gets the gradient of its own logits.

    Args:
        logits: Floating, (..., classes of this process).
        target: int64, (...), the same on every process; classes of the whole vocabulary.
        group: A ProcessGroup or a DeviceMesh of one dimension.
        vocabulary: The number of all classes; None: as many on each process as here.
        ignore_index: The target that counts for nothing.
        reduction: "mean" (over targets that count), "sum", or "none".
        label_smoothing: Between 0 and 1.

    Returns:
        The loss, of the logits' dtype: 0-d, or of the target's shape for "none". It is computed in float32 at least.

    Raises:
        ValueError: The logits' last dimension is not this process's part of the vocabulary, or a setting is unknown.
    """
    p = processes_of(group)
    sizes = part_sizes(vocabulary, p.world) if vocabulary is not None else (logits.shape[-1],) * p.world
    if logits.shape[-1] != sizes[p.rank] or logits.shape[:-1] != target.shape:
        raise ours(ValueError(
            f"[vocabulary_parallel_cross_entropy] logits of shape {(*target.shape, sizes[p.rank])} were expected for a "
            f"target of shape {tuple(target.shape)}, got {tuple(logits.shape)}"
        ))
    if reduction not in ("mean", "sum", "none"):
        raise ours(ValueError(f"[vocabulary_parallel_cross_entropy] {reduction} is not a valid value for reduction"))
    if not 0.0 <= label_smoothing <= 1.0:
        raise ours(ValueError(
            f"[vocabulary_parallel_cross_entropy] label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        ))
    wide = logits if logits.dtype is torch.float64 else logits.float()
    loss = _of_each(wide, target, sizes, p, label_smoothing)
    ignored = target == ignore_index
    loss = loss.masked_fill(ignored, 0.0)
    if reduction == "mean":
        loss = loss.sum() / (~ignored).sum()
    elif reduction == "sum":
        loss = loss.sum()
    return loss.to(logits.dtype)


def _of_each(logits, target, sizes, p, label_smoothing):
    first, count = sum(sizes[: p.rank]), sizes[p.rank]
    values = logits.detach()
    largest = values.amax(-1) if count > 0 else values.new_full(target.shape, float("-inf"))
    largest = largest if p.world == 1 else reduced(largest, "max", p)
    shifted = logits - largest.unsqueeze(-1)
    index = target - first
    own = (index >= 0) & (index < count)
    if count > 0:
        index = index.masked_fill(~own, 0)
        chosen = shifted.gather(-1, index.unsqueeze(-1)).squeeze(-1).masked_fill(~own, 0.0)
    else:
        chosen = shifted.sum(-1)
    sums = [shifted.exp().sum(-1), chosen]
    if label_smoothing > 0:
        sums.append(shifted.sum(-1))
    exponentials, chosen, *rest = reduce_from_group(torch.stack(sums), p).unbind()
    loss = exponentials.log() - chosen
    if label_smoothing > 0:
        uniform = exponentials.log() - rest[0] / sum(sizes)
        loss = (1.0 - label_smoothing) * loss + label_smoothing * uniform
    return loss
