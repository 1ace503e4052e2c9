"""Asking PyTorch what it makes of a call, on tensors without data."""

import contextlib
import logging

import torch

from . import _C
from ._dataless import DatalessTensor, SmallSizes
from ._numbers import TracedNumber
from ._sizes_only import SizesOnly, without_memory
from ._tracing import current_tracer


def tensors(value):
    """Those among arguments or results."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors(v)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def without_frames(error):
    """The error without its frames and causes: who keeps it would else keep the tensors of all callers as well.

    The causes themselves stay as they are: one of them may be an exception that the user's code handles.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def mapped(value, fn):
    """With `fn` of what is no container."""
    if isinstance(value, (list, tuple)):
        made = [mapped(v, fn) for v in value]
        return type(value)(made) if type(value) in (list, tuple, torch.Size) else tuple(made)
    if isinstance(value, dict):
        return {k: mapped(v, fn) for k, v in value.items()}
    return fn(value)


def dtypes_of_small(func, args, kwargs, dtype_of, around):
    """As `dtypes`, of small tensors: without an import that takes seconds. What fails may fail for their sizes."""
    results = _called(func, args, kwargs, dtype_of, around, contextlib.nullcontext, _small_substitutes(args, kwargs))
    return [t.dtype for t in tensors(results)]


def dtypes_of_sizes(func, args, kwargs, dtype_of, around):
    """As `dtypes`, of tensors of their sizes without memory: without that import, too. What fails may be possible."""
    def make(shape, dtype, device):
        return without_memory(shape, torch.empty(shape, device="meta").stride(), dtype, device)

    def substitute(value, made, dtype_of):
        return _substitute(value, made, dtype_of, make)

    return [t.dtype for t in tensors(_called(func, args, kwargs, dtype_of, around, SizesOnly, substitute))]


def dtypes(func, args, kwargs, dtype_of, around):
    """Of the tensors that the call gives, as `call` asks."""
    return [t.dtype for t in tensors(call(func, args, kwargs, dtype_of, around))]


def call(func, args, kwargs, dtype_of=lambda t: t.dtype, around=contextlib.nullcontext):
    """The call with others in the place of the program's tensors, and traced numbers as they are in this call.

    Args:
        dtype_of: The dtype of what stands for a tensor.
        around: Makes a context for the call.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode  # slow to make, and rarely needed

    def now(mode):
        return _called(func, args, kwargs, dtype_of, around, mode, _substitute)

    try:
        return now(FakeTensorMode)
    except Exception as e:  # which looks at data: there are some, where there is the device
        if not _wants_data(e) or not all(_is_here(t.device) for t in tensors((args, kwargs))):
            raise
    return now(contextlib.nullcontext)


def _called(func, args, kwargs, dtype_of, around, mode, substitute):
    made = {}
    # Under inference_mode() PyTorch dispatches a composition as a whole, without what is inside.
    with (
        torch._C.DisableTorchFunction(),
        torch.random.fork_rng([]),
        torch.inference_mode(False),
        torch.no_grad(),
        _unlogged(),
        mode(),
    ):
        given = mapped((args, kwargs), lambda v: substitute(v, made, dtype_of))
        with around():
            return func(*given[0], **given[1])


def _is_here(device):
    return device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_available())


@contextlib.contextmanager
def _unlogged():
    """What tensors without data refuse is logged, as if it were an error of PyTorch's."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def is_certain(error):
    """Whether a call with real tensors would raise it, too."""
    of_fakes = type(error).__module__.startswith("torch._subclasses") or isinstance(error, NotImplementedError)
    return not of_fakes and not _wants_data(error)


def _wants_data(error):
    name = type(error).__name__
    # The text is c10's, which has no type for it.
    return name.startswith(("DataDependent", "DynamicOutput")) or "data is not allocated" in str(error)


def _small_substitutes(args, kwargs):
    sizes = SmallSizes([shape(t) for t in tensors((args, kwargs))])

    def make(shape, dtype, device):
        return DatalessTensor(_random_or_ones(sizes.shape(shape), dtype, torch.device("cpu")), device)

    def substitute(value, made, dtype_of):
        value = _substitute(value, made, dtype_of, make)
        return sizes.of(value) if type(value) is int else value

    return substitute


def _random_or_ones(shape, dtype, device):
    make = torch.rand if dtype.is_floating_point or dtype.is_complex else torch.ones
    return make(shape, dtype=dtype, device=device)


def _substitute(value, made, dtype_of, make=_random_or_ones):
    if isinstance(value, TracedNumber):
        return _known(value)
    if not isinstance(value, torch.Tensor):
        return value
    if id(value) not in made:
        made[id(value)] = make(shape(value), dtype_of(value), value.device)
    return made[id(value)]


def shape(tensor):
    """The sizes in this call; 2 for those that are not known."""
    tracer = current_tracer()
    return tuple(map(_known, tracer.shape(tensor) if tracer.knows(tensor) else tensor.shape))


_ones = None  # what sizes that may be 1 are taken for


@contextlib.contextmanager
def taking(n):
    """Sizes that are 1 in some calls (cache="varying values") are taken for `n`, whatever they are in this one."""
    global _ones
    before, _ones = _ones, n
    try:
        yield
    finally:
        _ones = before


def that_may_be_one(value):
    """The sizes of the tensors in it that are 1 in some calls of the program."""
    tracer = current_tracer()
    known = [t for t in tensors(value) if tracer.knows(t)]
    return [n for t in known for n in tracer.shape(t) if isinstance(n, TracedNumber) and _C.may_be_one(n)]


def _known(n):
    if not isinstance(n, TracedNumber):
        return n
    if _ones is not None and _C.may_be_one(n):
        return _ones
    hint = _C.number_hint(n)
    return 2 if hint is None else hint
