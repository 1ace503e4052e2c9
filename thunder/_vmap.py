"""torch.vmap inside compiled functions: the function runs on one sample, and its calls are made for the whole batch."""

import functools

import torch
from torch._functorch import vmap as _vmap

from ._tracing import current_tracer


def made_for_a_sample(tracer, value):
    """Lets the function write to the dicts and lists that hold its samples (functional_call does)."""
    if type(value) in (dict, list):
        tracer.made(value)
    if type(value) in (dict, list, tuple):
        for part in value.values() if type(value) is dict else value:
            made_for_a_sample(tracer, part)


def vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    """What PyTorch's function of that name gives; what there is no rule for is left to eager."""
    tracer = current_tracer()
    _, dims, flat, spec = _vmap._process_batched_inputs(in_dims, args, func)
    # What runs in chunks gives the same: nothing that draws random numbers is compiled.
    function = functools.partial(func, **kwargs) if kwargs else func
    batches = [t.movedim(dim, 0) for t, dim in zip(flat, dims, strict=True) if dim is not None]
    structure = None

    def run(*samples):
        nonlocal structure
        left = iter(samples)
        given = [next(left) if dim is not None else t for t, dim in zip(flat, dims, strict=True)]
        arguments = tuple(_vmap.tree_unflatten(given, spec))
        made_for_a_sample(tracer, arguments)
        results, structure = _vmap.tree_flatten(tracer.call_user(function, arguments))
        if not all(isinstance(t, torch.Tensor) for t in results):
            tracer.leave_to_eager("torch.vmap of a function that returns something else than tensors")
        return results

    try:
        results = tracer.batched(run, batches)
    except NotImplementedError as e:
        tracer.leave_to_eager(f"torch.vmap: {e}")
    places = [out_dims] * len(results) if isinstance(out_dims, int) else _places(tracer, out_dims, structure)
    moved = [t if to == 0 else t.movedim(0, to) for t, to in zip(results, places, strict=True)]
    return _vmap.tree_unflatten(moved, structure)


def _places(tracer, out_dims, structure):
    """Where the batch is in each result."""
    places = _vmap._broadcast_to_and_flatten(out_dims, structure)
    if places is None or None in places:
        tracer.leave_to_eager("torch.vmap with a result that has no batch, or dimensions for other results")
    return places
