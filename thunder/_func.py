"""Transforms of torch.func inside compiled functions: what stands for PyTorch's, interpreted as the user's code is.

The function is recorded apart, on tensors of its own, and so is its gradient: both become calls of the program, which
its own passes differentiate and fuse.  Under torch.vmap the function runs on one sample, and its calls are made for the
whole batch.
"""

import torch
from torch._functorch import eager_transforms as transforms
from torch._functorch import vmap
from torch.autograd import functional
from torch.utils._pytree import tree_flatten, tree_unflatten

from ._pullback import batched, leave, pullback


def _chosen(args, argnums):
    """The arguments to differentiate for, one or a tuple, and a function from such to all arguments."""
    argnums = transforms._validate_and_wrap_argnums(argnums, len(args))

    def given(chosen):
        return transforms._replace_args(args, chosen if isinstance(argnums, tuple) else (chosen,), argnums)

    return transforms._slice_argnums(args, argnums, as_tuple=False), given


def _without_aux(output, has_aux):
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        leave("with has_aux=True of a function that returns no pair")
    return output


def _results(output):
    flat, spec = tree_flatten(output)
    if not flat or not all([isinstance(t, torch.Tensor) for t in flat]):
        leave("of a function that returns something else than tensors")
    return flat, spec


def grad_and_value_impl(func, argnums, has_aux, args, kwargs):
    chosen, given = _chosen(args, argnums)
    flat, spec = tree_flatten(chosen)
    aux = None

    def run(*own):
        nonlocal aux
        output, aux = _without_aux(func(*given(tree_unflatten(own, spec)), **kwargs), has_aux)
        if not isinstance(output, torch.Tensor) or output.dim() != 0 or not output.is_floating_point():
            leave("of a function that returns something else than a number")
        return [output]

    recording = torch.is_grad_enabled()
    with torch.enable_grad():
        (output,), pull = pullback(run, flat, recording)
    gradient = tree_unflatten(pull([None]), spec)
    return gradient, ((output, aux) if has_aux else output)


def vjp_with_argnums(func, *primals, argnums=None, has_aux=False):
    chosen, given = (primals, lambda own: own) if argnums is None else _chosen(primals, argnums)
    flat, spec = tree_flatten(chosen)
    aux = results_spec = None

    def run(*own):
        nonlocal aux, results_spec
        output, aux = _without_aux(func(*given(tree_unflatten(own, spec))), has_aux)
        results, results_spec = _results(output)
        if not all([t.is_floating_point() for t in results]):
            leave("of a function that returns integers or complex numbers")
        return results

    recording = torch.is_grad_enabled()
    with torch.enable_grad():
        results, pull = pullback(run, flat, recording, any_cotangent=argnums is None)

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        flat_cotangents, cotangents_spec = tree_flatten(cotangents)
        if cotangents_spec != results_spec:
            leave("with cotangents of another structure than the results")
        if create_graph is None:
            create_graph = torch.is_grad_enabled()
        with torch.set_grad_enabled(create_graph):
            return tree_unflatten(pull(flat_cotangents), spec)

    output = tree_unflatten(results, results_spec)
    return (output, vjp_fn, aux) if has_aux else (output, vjp_fn)


def _linearized(func, primals, argnums, has_aux):
    """The results as a tree, what comes with them, and a function from flat tangents to those of the results."""
    chosen, given = (primals, lambda own: own) if argnums is None else _chosen(primals, argnums)
    flat, spec = tree_flatten(chosen)
    aux = results_spec = None
    all_results = []

    def run(*own):
        nonlocal aux, results_spec
        output, aux = _without_aux(func(*given(tree_unflatten(own, spec))), has_aux)
        results, results_spec = _results(output)
        all_results.extend(results)
        return [t for t in results if t.is_floating_point()] or leave("of a function that returns integers alone")

    recording = torch.is_grad_enabled()
    with torch.enable_grad():
        results, pull = pullback(run, flat, recording, linear=True)
        # The gradient is linear in what it is called with, and its own gradient is the derivative forwards.
        zeros = [torch.zeros_like(t) for t in results]
        _, push = pullback(lambda *g: pull(list(g)), zeros, recording, any_cotangent=True)

    def tangents_of(tangents):
        made, out = push(tangents), []
        for t in all_results:
            out.append(made.pop(0) if t.is_floating_point() else torch.zeros_like(t))
        return tree_unflatten(out, results_spec)

    return tree_unflatten(all_results, results_spec), aux, tangents_of, spec


def jvp_with_argnums(func, primals, tangents, argnums, *, strict=False, has_aux):
    if strict or not isinstance(primals, tuple):
        leave("with strict=True, or with primals that are no tuple")
    flat_tangents, tangents_spec = tree_flatten(tangents)
    chosen = primals if argnums is None else transforms._slice_argnums(primals, argnums)
    if tree_flatten(chosen)[1] != tangents_spec:
        leave("with tangents of another structure than the primals")
    output, aux, tangents_of, _ = _linearized(func, primals, argnums, has_aux)
    derivative = tangents_of(flat_tangents)
    return (output, derivative, aux) if has_aux else (output, derivative)


def linearize(func, *primals):
    output, _, tangents_of, spec = _linearized(func, primals, None, False)

    def jvp_fn(*tangents):
        flat, tangents_spec = tree_flatten(tangents)
        if tangents_spec != spec:
            leave("with tangents of another structure than the primals")
        return tangents_of(flat)

    return output, jvp_fn


def vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    # What runs in chunks gives the same, but for random numbers.
    draws = randomness if chunk_size is None else "error"
    _, dims, flat, spec = vmap._process_batched_inputs(in_dims, args, func)
    structure = None

    def run(*samples):
        nonlocal structure
        given, n = [], 0
        for t, dim in zip(flat, dims, strict=True):
            given.append(t if dim is None else samples[n])
            n += dim is not None
        results, structure = tree_flatten(func(*tree_unflatten(given, spec), **kwargs))
        if not all([isinstance(t, torch.Tensor) for t in results]):
            leave("vmap of a function that returns something else than tensors")
        return results

    batches = [t.movedim(dim, 0) for t, dim in zip(flat, dims, strict=True) if dim is not None]
    results = batched(run, batches, draws)
    places = [out_dims] * len(results) if isinstance(out_dims, int) else _places(out_dims, structure)
    moved = [t if to == 0 else t.movedim(0, to) for t, to in zip(results, places, strict=True)]
    return tree_unflatten(moved, structure)


def _places(out_dims, structure):
    """Where the batch is in each result."""
    places = vmap._broadcast_to_and_flatten(out_dims, structure)
    if places is None or None in places:
        leave("vmap with a result that has no batch, or with dimensions for other results")
    return places


def grad_preprocess(inputs, create_graph, need_graph):
    """Of torch.autograd.functional.  A view of a whole tensor is the same value to the tracer, this one is another."""
    made = []
    for t in inputs:
        if not (create_graph and t.requires_grad):
            made.append(t.detach().requires_grad_(need_graph))
        elif t.is_sparse:
            made.append(t.clone())
        else:
            made.append(t.unsqueeze(0).squeeze(0))
    return tuple(made)


def pairs():
    """Functions of PyTorch's, and what stands for them."""
    yield getattr(transforms.grad_and_value_impl, "__wrapped__", transforms.grad_and_value_impl), grad_and_value_impl
    yield getattr(transforms._vjp_with_argnums, "__wrapped__", transforms._vjp_with_argnums), vjp_with_argnums
    yield transforms._jvp_with_argnums, jvp_with_argnums
    yield transforms.linearize, linearize
    yield functional._grad_preprocess, grad_preprocess
    yield vmap.vmap_impl, vmap_impl
