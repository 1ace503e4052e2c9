"""What an operator of PyTorch gives for some arguments: found by running it on tensors without data."""

import contextlib
import dataclasses
import functools

import torch

from . import _C, _asking
from ._dataless import storage
from ._marks import refusal
from ._sizes_only import SizesOnly, without_memory
from ._tracing import current_tracer, location
from .core.proxies import TensorProxy

# Kinds of devices, and the dispatch keys of autocast for them.
AUTOCAST_KEYS = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Metadata of a tensor that an operator computes."""

    shape: tuple
    stride: tuple
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    layout: str = "strided"
    dense_dims: int = 0

    def proxy(self):
        strides = self.stride if self.layout == "strided" else None
        return TensorProxy(
            shape=self.shape, dtype=self.dtype, device=self.device, strides=strides, layout=self.layout,
            dense_dims=self.dense_dims,
        )

    def made(self, make):
        """A tensor of the kind, of what `make` makes."""
        if self.layout == "strided":
            t = make(self.shape, self.stride, dtype=self.dtype, device=self.device)
        else:
            t = self._made_sparse(make)
        return t.requires_grad_(self.requires_grad)

    def _made_sparse(self, make):
        """A few elements: those of a graph's adjacency matrix, say, would not fit into memory."""
        ends = len(self.shape) - self.dense_dims
        sizes, dense = self.shape[:ends], self.shape[ends:]
        batch = () if self.layout == "sparse_coo" else sizes[:-2]
        count = min(4, *sizes[len(batch) :]) if sizes else 1
        shape = (*batch, count, *dense)
        values = make(shape, torch.empty(shape, device="meta").stride(), dtype=self.dtype, device=self.device)
        places = torch.arange(count, device=values.device)
        if self.layout == "sparse_coo":
            places = places.expand(len(sizes), count)
            return torch.sparse_coo_tensor(places, values, self.shape, is_coalesced=True, check_invariants=True)
        rows = sizes[-1 if self.layout == "sparse_csc" else -2]
        bounds = torch.arange(rows + 1, device=values.device).clamp(max=count).expand(*batch, rows + 1)
        places, layout = places.expand(*batch, count), getattr(torch, self.layout)
        return torch.sparse_compressed_tensor(bounds, places, values, self.shape, layout=layout, check_invariants=True)


@dataclasses.dataclass
class Description:
    """What a call gives.

    Attributes:
        structure: The results' nesting: a number of a flat result, or a list.
        results: For each: ("new", number among the computed), ("argument", place), ("view", place, size, stride,
            offset from the argument's first element) or ("number", value).
        computed: The tensors to compute: new results, then the new contents of arguments that are written to.
        which: The flat results among them; None if all are.
        written: (place of an argument, number among the computed).
    """

    structure: object
    results: list
    computed: list
    which: list | None
    written: list


@functools.cache
def _parameters(overload):
    """(how many are positional, the names of the others, where in the list are those that it writes to): asking the
    schema takes longer than many an operator."""
    parameters = overload._schema.arguments
    named = tuple(a.name for a in parameters if a.kwarg_only)
    writes = tuple(i for i, a in enumerate(parameters) if a.alias_info is not None and a.alias_info.is_write)
    return len(parameters) - len(named), named, writes


@contextlib.contextmanager
def autocast_for(states):
    """Autocast on for these (device type, dtype) only."""
    before = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in AUTOCAST_KEYS]
    cached = torch.is_autocast_cache_enabled()
    on = dict(states)
    try:
        torch.set_autocast_cache_enabled(False)
        for d in AUTOCAST_KEYS:
            torch.set_autocast_enabled(d, d in on)
            if d in on:
                torch.set_autocast_dtype(d, on[d])
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
        for d, enabled, dtype in before:
            torch.set_autocast_enabled(d, enabled)
            torch.set_autocast_dtype(d, dtype)


def arguments(overload, values):
    """(positional, named) as the operator takes them."""
    count, names, _ = _parameters(overload)
    return values[:count], dict(zip(names, values[count:], strict=True))


def call(overload, values):
    positional, named = arguments(overload, values)
    return overload(*positional, **named)


def map_tensors(values, fn):
    """The arguments of a call, with other tensors."""
    return [_with_tensors(v, fn) for v in values]


def _with_tensors(value, fn):
    if isinstance(value, (list, tuple)):
        numbers = value and type(value[0]) in (int, float, bool)  # sizes and the like
        return value if numbers else [_with_tensors(v, fn) for v in value]
    return fn(value) if isinstance(value, torch.Tensor) else value


def places(values):
    """(where, tensor) of all tensors among the arguments."""
    for i, v in enumerate(values):
        if isinstance(v, torch.Tensor):
            yield (i,), v
        elif isinstance(v, (list, tuple)):
            yield from (((i, j), t) for j, t in enumerate(v) if isinstance(t, torch.Tensor))


def at(values, place):
    return functools.reduce(lambda v, i: v[i], place, values)


def replaced(values, new):
    """The arguments of a call, with `new` tensors in some places."""
    return [_replaced((i,), v, new) for i, v in enumerate(values)]


# A nested function that calls itself is a reference cycle: until a garbage collection it would hold tensors.
def _replaced(place, value, new):
    if isinstance(value, (list, tuple)):
        return [_replaced((*place, i), v, new) for i, v in enumerate(value)]
    return new.get(place, value)


def written_places(overload, values):
    """Of the tensors that the operator writes to."""
    writes = _parameters(overload)[2]
    return [place for place, _ in places(values) if place[0] in writes] if writes else []


def flatten(results):
    """(structure, flat results)"""
    flat = []
    return _flattened(results, flat), flat


def _flattened(results, flat):
    if isinstance(results, (list, tuple)):
        return [_flattened(r, flat) for r in results]
    flat.append(results)
    return len(flat) - 1


def unflatten(structure, flat, outer=tuple):
    """Several results are a tuple; a list among them is what `outer` says."""
    if not isinstance(structure, list):
        return flat[structure]
    return outer(unflatten(s, flat, outer) for s in structure)


_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")


def is_random(overload):
    return torch.Tag.nondeterministic_seeded in overload.tags


def draws(overload, values):
    """Whether a call with these arguments draws: a recurrent layer of PyTorch's does for its dropout alone."""
    if not is_random(overload) or overload._schema.name not in _RECURRENT:
        return is_random(overload)
    named = {a.name: v for a, v in zip(overload._schema.arguments, values, strict=True)}
    return not any(type(named[n]) in (bool, float) and not named[n] for n in ("train", "dropout"))


def unsupported(overload, why):
    return refusal(
        f"[{overload._schema.name.rpartition('::')[2]}] this torch function is not supported inside a compiled "
        f"function: {why}. Call it outside, or write it with supported operators\n  at {location()}"
    )


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    loss = log_probs.sum((0, -1))
    return loss if reduction == 0 else loss.sum()


def _packed_recurrent(data, batch_sizes, state, params, *options):
    states = state if isinstance(state, (list, tuple)) else [state]
    one = data.sum() + sum(t.sum() for t in (*states, *params))
    width = states[0].size(-1) * (2 if options[-1] else 1)  # of both directions
    return one * data.new_ones(data.size(0), width), *(one * torch.ones_like(s) for s in states)


# Operators that run on no data but their own: others that give results of the same kind.
_ALIKE = {"aten::ctc_loss.Tensor": _ctc_loss}
_ALIKE |= {f"aten::{kind}.data": _packed_recurrent for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
# Operators of which PyTorch's meta functions give other sizes or strides than its kernels; so do, depending on the
# library that computes them, those of Fourier transforms, which run.  The meta function of compressed tensors
# raises an error.
_MISTAKEN = {
    "aten::max_unpool2d", "aten::multilabel_margin_loss", "aten::sparse_compressed_tensor.comp_plain_value_size"
}
# Operators whose results' sizes depend on data: made-up data would give other sizes.
_SIZED_BY_DATA = {"aten::sparse_compressed_tensor.comp_plain_value"}
# Results that PyTorch's meta functions put on the device of the arguments: a dropout's seed and offset, on the CPU.
_ON_CPU = {"aten::_efficient_attention_forward": (2, 3)}


def describe(overload, values, requires_grad, autocast=()):
    """The Description of a call.  `requires_grad`: a function of a tensor among the arguments; `autocast`: as for
    autocast_for()."""
    given = [argument(t, requires_grad) for _, t in places(values)]
    known, key = _known(), _key(overload, values, given, autocast)
    description = known.get(key)
    if description is None:
        description = _describe(overload, values, given, autocast)
        if key is not None:
            known[key] = description
    return description


# A pass that rebuilds a call, and a verifier, ask for it again.
_remembered = 0, {}


def _known():
    """The descriptions that this compilation has asked for, with the settings that PyTorch has now."""
    global _remembered
    if _remembered[0] != (now := _C.settings_version()):
        _remembered = now, {}
    return _remembered[1]


_PLAIN = (int, float, complex, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def _key(overload, values, given, autocast):
    """What a description depends on; None where that cannot be compared."""
    distinct = {}

    def frozen(v):
        if isinstance(v, torch.Tensor):
            return distinct.setdefault(id(v), len(distinct)), "tensor"
        if isinstance(v, (list, tuple)):
            return tuple(map(frozen, v))
        if type(v) not in _PLAIN:
            raise TypeError
        return type(v), repr(v) if isinstance(v, (float, complex)) else v  # of zeros, too, the sign

    try:
        return overload, autocast, tuple(given), frozen(values)
    except TypeError:
        return None


def _describe(overload, values, given, autocast):
    with torch._C.DisableTorchFunction(), autocast_for(autocast):
        sparse = any(m.layout != "strided" for m in given)  # of which there are fake ones, but few operators take them
        if overload.name().startswith("aten::fft_"):
            return _run(overload, values, given, torch.empty_strided)  # on the device: its library may know more dtypes
        if sparse or overload.name() in _MISTAKEN:
            return _probe(overload, values, given)
        if overload.name() in _SIZED_BY_DATA:
            raise unsupported(overload, "its results' sizes are not known before it runs")
        # What is raised, FakeTensorMode may raise not at all, or with PyTorch's words.
        with contextlib.suppress(Exception):
            return by_sizes(overload, values, given)
        return by_fakes(overload, values, given)


def by_sizes(overload, values, given):
    """The Description of operators whose sizes and strides depend on no device."""
    with SizesOnly():
        return _run(overload, values, given, without_memory)


def by_fakes(overload, values, given):
    """The Description from PyTorch's FakeTensorMode, or from made-up data where an operator looks at those."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
        UnsupportedOperatorException,
    )

    try:
        # Of an operator without a meta function PyTorch may run the kernel, which draws.
        with torch.random.fork_rng(_devices(given), enabled=is_random(overload)), FakeTensorMode():
            return _run(overload, values, given, torch.empty_strided)
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException):
        return _probe(overload, values, given)
    except RuntimeError as e:
        # The text is c10's, of code that looks at data; c10 has no type for it.
        if "data is not allocated" not in str(e):
            raise
        return _probe(overload, values, given)


def argument(t, requires_grad):
    """Metadata of a tensor of the program; its symbolic sizes are then known to be what they are in this call."""
    tracer = current_tracer()
    shape, stride = (tuple(map(int, sizes)) for sizes in (tracer.shape(t), tracer.stride(t)))
    return Tensor(shape, stride, t.dtype, t.device, requires_grad(t), tracer.layout(t), tracer.dense_dims(t))


_LAYOUTS = {torch.strided: "strided", torch.sparse_coo: "sparse_coo", torch.sparse_csr: "sparse_csr",
            torch.sparse_csc: "sparse_csc"}


def _metadata(overload, t):
    layout = _LAYOUTS.get(t.layout)
    if layout is None:
        raise unsupported(overload, f"it makes tensors of layout {t.layout}")
    if layout == "strided":
        return Tensor(tuple(t.shape), t.stride(), t.dtype, t.device, t.requires_grad)
    return Tensor(tuple(t.shape), (), t.dtype, t.device, t.requires_grad, layout, t.dense_dim())


def _run(overload, values, given, make):
    """The Description from one run on tensors that `make` makes."""
    made = {}
    for (_, t), m in zip(places(values), given, strict=True):
        if id(t) not in made:
            made[id(t)] = m.made(make)
    fakes = map_tensors(values, lambda t: made[id(t)])
    written = written_places(overload, fakes)
    if any(at(fakes, place).layout is not torch.strided for place in written):
        raise unsupported(overload, "it writes to a sparse tensor")
    # What is written to is no leaf: whether it may be written to at all is known where that is recorded.
    copies = {id(at(fakes, place)): at(fakes, place).clone() for place in written}
    fakes = map_tensors(fakes, lambda t: copies.get(id(t), t))
    before = {place: (tuple(at(fakes, place).shape), at(fakes, place).stride()) for place in written}
    alike = _ALIKE.get(overload.name())
    structure, flat = flatten(alike(*fakes) if alike else call(overload, fakes))
    for place in written:
        t = at(fakes, place)
        if (tuple(t.shape), t.stride()) != before[place]:
            raise unsupported(overload, f"it would resize a tensor of shape {before[place][0]} to {tuple(t.shape)}")
    return _described(overload, fakes, written, structure, flat)


def _described(overload, fakes, written, structure, flat):
    computed, results, which = [], [], []
    if any(t.layout is not torch.strided for _, t in places(fakes)):
        _refuse_parts(overload, flat)
    for i, r in enumerate(flat):
        if not isinstance(r, torch.Tensor):
            results.append(("number", r))
        elif (origin := _origin(r, fakes)) is None:
            results.append(("new", len(computed)))
            m = _metadata(overload, r)
            on_cpu = i in _ON_CPU.get(overload.name(), ())
            computed.append(dataclasses.replace(m, device=torch.device("cpu")) if on_cpu else m)
            which.append(i)
        else:
            results.append(origin)
    new = []
    for place in written:
        new.append((place, len(computed)))
        computed.append(_metadata(overload, at(fakes, place)))
    return Description(structure, results, computed, None if len(which) == len(flat) else which, new)


def _refuse_parts(overload, flat):
    """Of a sparse tensor: its indices and values, whose number depends on data."""
    views = any(r.alias_info is not None for r in overload._schema.returns)
    if views and any(isinstance(r, torch.Tensor) and r.layout is torch.strided for r in flat):
        raise unsupported(overload, "it gives parts of a sparse tensor, whose sizes are not known before it runs")


def _origin(result, fakes):
    """How a result follows from an argument that shares its memory; None if there is none.

    Whether a sparse result is an argument (coalesce()) depends on data; nothing can be written to it.
    """
    if result.layout is not torch.strided:
        return None
    memory = storage(result)
    for place, t in places(fakes):
        if t.layout is not torch.strided:
            continue
        if storage(t) != memory or not t.numel():
            continue
        same = t.shape == result.shape and t.stride() == result.stride()
        if t is result or (same and t.storage_offset() == result.storage_offset() and t.dtype == result.dtype):
            return ("argument", place)
        if t.dtype == result.dtype and result.storage_offset() >= t.storage_offset():
            offset = result.storage_offset() - t.storage_offset()
            return ("view", place, tuple(result.shape), result.stride(), offset)
    return None


def _ones(shape, stride, **how):
    return torch.empty_strided(shape, stride, **how).fill_(1)


def _zeros(shape, stride, **how):
    return torch.empty_strided(shape, stride, **how).zero_()


def _random(shape, stride, **how):
    t = torch.empty_strided(shape, stride, **how)
    return t.random_(0, 2) if not (t.is_floating_point() or t.is_complex()) else t.copy_(torch.rand_like(t))


def _rehearsed(overload, values, given, make):
    """As _run().  Data that the CPU's kernel refuses do not get to a GPU: a failed assertion there would take CUDA from
    the process."""
    data = []

    def on_cpu(shape, stride, dtype, device):
        data.append(make(shape, stride, dtype=dtype))
        return data[-1]

    def again(shape, stride, dtype, device):
        return torch.empty_strided(shape, stride, dtype=dtype, device=device).copy_(data.pop(0).detach())

    if all(m.device.type == "cpu" for m in given):
        return _run(overload, values, given, on_cpu)
    cpu = torch.device("cpu")
    values_on_cpu = [cpu if isinstance(v, torch.device) else v for v in values]
    with contextlib.suppress(NotImplementedError):  # there is no kernel for a CPU
        _run(overload, values_on_cpu, [dataclasses.replace(m, device=cpu) for m in given], on_cpu)
    return _run(overload, values, given, again)


def _devices(given):
    return list({m.device for m in given if m.device.type == "cuda"})


def _probe(overload, values, given):
    """For operators that look at data: the Description from two runs on made-up data.

    The program refuses, when it runs, results of other sizes.
    """
    if not overload.name().startswith("aten::"):  # a run of somebody's own operator may do anything
        raise unsupported(overload, "it has no meta function")
    found, errors = [], []
    with torch.random.fork_rng(_devices(given)):
        torch.default_generator.manual_seed(0)
        for make in (_random, _random, _ones, _zeros):
            if len(found) == 2:
                break
            try:
                found.append(_rehearsed(overload, values, given, make))
            except NotImplementedError:
                raise
            except Exception as e:  # of this data, or of any
                errors.append(_asking.without_frames(e))
    if not found:
        raise errors.pop(0)
    if any(kind == "number" for kind, *_ in found[0].results):
        raise unsupported(overload, "it gives a number that is not known before it runs")
    if any(kind == "view" for kind, *_ in found[0].results):
        raise unsupported(overload, "what its results are views of is not known before it runs")
    sizes = [[m.shape for m in d.computed] for d in found]
    if any(s != sizes[0] for s in sizes):
        raise unsupported(overload, "its results' sizes are not known before it runs")
    return found[0]
