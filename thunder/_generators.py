"""Random generators inside a compiled function: seeds and states are set and read in their places, in each call."""

import functools
import inspect

import torch

from ._marks import refusal
from ._numbers import TracedInt
from ._tracing import location
from .core.proxies import TensorProxy
from .extend import OperatorExecutor

_executor = OperatorExecutor("generators")  # passes know by the name what changes a generator's state


def _set_meta(function, arguments):
    """function(*arguments), which sets the state of a generator."""


def _state_meta(function, arguments, size):
    """function(*arguments), the state of a generator: that many bytes."""
    return TensorProxy(shape=(size,), dtype=torch.uint8)


def _run(function, arguments):
    function(*arguments)


def _with_seed(function, seed, *generator):
    function(*generator, seed)


_set = _executor.register_operator("set_generator", meta=_set_meta, tags=("random",), fn=_run)
_state = _executor.register_operator(
    "generator_state", meta=_state_meta, tags=("random",), fn=lambda function, arguments, size: function(*arguments)
)

handlers = {}


def _handler(*names):
    def register(fn):
        for name in names:
            handlers[name] = fn
        return fn

    return register


def _positional(func, args, kwargs):
    return tuple(inspect.signature(func).bind(*args, **kwargs).arguments.values()) if kwargs else args


@_handler("manual_seed", "random.manual_seed", "Generator.manual_seed", "cuda.manual_seed", "cuda.random.manual_seed",
          "cuda.manual_seed_all", "cuda.random.manual_seed_all")
def _seed(func, args, kwargs):
    *generator, seed = _positional(func, args, kwargs)
    seed = seed if type(seed) is TracedInt else int(seed)
    if type(seed) is int and seed >= 2**63:  # no integer of a program's
        _set(functools.partial(_with_seed, func, seed), tuple(generator))
    else:
        _set(func, (*generator, seed))
    if generator:
        return generator[0]
    return None if func.__module__.startswith("torch.cuda") else torch.default_generator


@_handler("get_rng_state", "random.get_rng_state", "Generator.get_state", "cuda.get_rng_state",
          "cuda.random.get_rng_state")
def _get_state(func, args, kwargs):
    args = _positional(func, args, kwargs)
    with torch._C.DisableTorchFunction():
        size = func(*args).numel()
    return _state(func, args, size)


@_handler("set_rng_state", "random.set_rng_state", "Generator.set_state", "cuda.set_rng_state",
          "cuda.random.set_rng_state")
def _set_state(func, args, kwargs):
    _set(func, _positional(func, args, kwargs))
    return args[0] if isinstance(args[0], torch.Generator) else None


@_handler("Generator")
def _make(func, args, kwargs):
    """A generator of the program's own: it begins anew in each call."""
    generator = func(*args, **kwargs)
    _set(torch.Generator.manual_seed, (generator, generator.initial_seed()))
    return generator


@_handler("seed", "random.seed", "initial_seed", "random.initial_seed", "cuda.seed", "cuda.seed_all",
          "cuda.initial_seed", "cuda.random.seed", "cuda.random.seed_all", "cuda.random.initial_seed",
          "Generator.seed", "Generator.initial_seed", "Generator.clone_state", "Generator.graphsafe_get_state",
          "Generator.graphsafe_set_state", "Generator.get_offset", "Generator.set_offset")
def _refuse(func, args, kwargs):
    raise refusal(
        f"[{func.__name__}] the seed of a random generator is known only when the compiled function runs. Call it "
        "outside; inside, use manual_seed(), get_state() and set_state()\n  at " + location()
    )
