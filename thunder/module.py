"""A compiled nn.Module."""

import copy
import functools
import types

import torch
from torch.distributed.algorithms.join import Joinable

from ._frontend import is_sharded
from ._inner_modules import CompiledMethod, make
from ._tracing import current_tracer


def _forward_of(module, forward):
    """`forward` of a compiled module: a call of the module, with the signature of the original's `forward`.

    Libraries (accelerate, Lightning) put a function of their own in the place of `forward`, which calls the one that
    was there before. That one is the original's then, within the program: a call of the module would not end.
    """

    @functools.wraps(forward)
    def call(*args, **kwargs):
        if module._original.forward == forward:
            return module(*args, **kwargs)
        return forward(*args, **kwargs)

    call._stands_for = module, forward
    return call


class ThunderModule(torch.nn.Module):
    """What thunder.jit(module) returns: the same parameters, buffers and submodules; calls run the compiled program.

    The original module is the state: state_dict, named_parameters, train(), to(), hooks and attributes are the
    original's, so an optimizer made from either works for both.
    """

    def __init__(self, module, options):
        # torch.nn.Module.__init__ would make empty state of the wrapper's own.
        object.__setattr__(self, "_original", module)
        object.__setattr__(self, "_options", options)
        object.__setattr__(self, "_methods", {})
        self._compile(module)
        if (unadopted := _unadopted(module)) is not None:
            object.__setattr__(self, "__class__", unadopted)

    def _compile(self, module):
        """Calls run programs of `module`: the original, or what that wraps."""
        object.__setattr__(self, "_compiled", make(module, module, self._options))

    def __call__(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    def forward(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    # Everything that torch.nn.Module keeps in the instance is the original's.
    def __getattribute__(self, name):
        if name == "forward":
            return _forward_of(self, self._original.forward)
        if name in _OF_THE_WRAPPER:
            return object.__getattribute__(self, name)
        original = object.__getattribute__(self, "_original")
        if name in _OF_JOIN and not _has_own(original, name):
            return object.__getattribute__(self, name)
        found = getattr(original, name)
        if type(found) is not types.MethodType or found.__self__ is not original or hasattr(torch.nn.Module, name):
            return found
        # Within another program the method is recorded.
        return found if current_tracer() else object.__getattribute__(self, "_compiled_method")(found)

    def _compiled_method(self, method):
        """`generate`, `encode`, ...: code of the module's class that calls the module, or modules of it."""
        distributed = "_thunder_plan" in self._original.__dict__ or is_sharded(self._original)
        if self._options.transforms or self._options.cache == "no caching" or distributed:
            return method
        known = self._methods.get(method.__name__)
        if known is None or known.__wrapped__ != method:
            known = self._methods[method.__name__] = CompiledMethod(method, self._options, self)
        return known

    @property
    def _model(self):
        """The original module, as Lightning Thunder names it; the original's own `_model` if it has one."""
        return getattr(self._original, "_model", self._original)

    def __setattr__(self, name, value):
        if name == "__class__":  # as fully_shard does
            raise TypeError(
                f"[jit] the class of a compiled module cannot become {value.__name__}. Change the module before it is "
                "compiled: thunder.jit(fully_shard(module))"
            )
        if name == "forward":
            module, forward = getattr(value, "_stands_for", (None, None))
            # functools.wraps() copies the attribute, and wraps this function, not the original's.
            value = forward if module is self and value.__wrapped__ is forward else value
        setattr(self._original, name, value)

    def __delattr__(self, name):
        delattr(self._original, name)

    def __dir__(self):
        return dir(self._original)

    # Of nn.Sequential, nn.ModuleList and nn.ModuleDict; others raise their TypeError.
    def __len__(self):
        return len(self._original)

    def __bool__(self):
        return bool(self._original)

    def __iter__(self):
        return iter(self._original)

    def __getitem__(self, key):
        return self._original[key]

    def __contains__(self, key):
        return key in self._original

    def train(self, mode=True):
        self._original.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def no_sync(self):
        """`thunder.distributed.no_sync(self)`, or the original's where that is not distributed by Thunder."""
        if _has_own(self._original, "no_sync"):
            return self._original.no_sync()
        from .distributed import no_sync

        return no_sync(self)

    def join(
        self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False, *, step=None
    ):
        """A context in which processes may have different numbers of batches, as DistributedDataParallel's.

            with model.join():
                for batch in data:
                    loss(model(batch)).backward()
                    optimizer.step()
                    optimizer.zero_grad()

        A process that leaves the loop takes part in the others' collectives until all have left theirs, with gradients
        of zeros. One backward follows each call that has gradients enabled.

        Args:
            divide_by_initial_world_size: Whether gradients are means over all processes, or over those with data.
            enable: Whether the context does anything.
            throw_on_early_termination: Whether all processes raise a RuntimeError once one has no more data.
            step: What follows a backward that reduces, which a process without data calls as well, where the others do:
                a function without arguments that clips, steps the optimizer and clears gradients. A module that is
                sharded needs it. Without it a replicated module gets the last process's parameters in the end.

        Raises:
            NotImplementedError: The module is sharded, and there is no `step`.
            RuntimeError: The module is not distributed; within the context: calls are not as above.
        """
        from .distributed._join import join

        return join(self, divide_by_initial_world_size, enable, throw_on_early_termination, step)

    def join_hook(self, **kwargs):
        """For torch.distributed.algorithms.join.Join, whose arguments may be those of `join`."""
        from .distributed._join import join_hook

        return join_hook(self, **kwargs)

    @property
    def join_device(self):
        """Where a context of several modules communicates."""
        from .distributed._join import device_of, distributed_state

        return device_of(distributed_state(self))

    @property
    def join_process_group(self):
        """The processes of a context."""
        from .distributed._join import distributed_state

        return distributed_state(self).everyone

    def requires_grad_(self, requires_grad=True):
        self._original.requires_grad_(requires_grad)
        return self

    def _apply(self, fn, *args, **kwargs):
        self._original._apply(fn, *args, **kwargs)
        return self

    def to(self, *args, **kwargs):
        self._original.to(*args, **kwargs)
        return self

    def __repr__(self):
        return f"ThunderModule({self._original!r})"

    def __deepcopy__(self, memo):
        """A copy of the module, compiled in the same way: its programs are made when it is called."""
        made = ThunderModule(copy.deepcopy(self._original, memo), copy.deepcopy(self._options, memo))
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol):
        return ThunderModule, (self._original, self._options)


Joinable.register(ThunderModule)  # an abstract base would give the class another metaclass


def _has_own(module, name):
    """Whether a method is the module's own one: Thunder does not distribute it."""
    return "_thunder_plan" not in module.__dict__ and hasattr(module, name)


class ThunderDDP(ThunderModule, torch.nn.parallel.DistributedDataParallel):
    """Around a DistributedDataParallel: one to `isinstance`, as code asks that looks for its `module`."""


class Unadopted(ThunderModule):
    """A module that DistributedDataParallel or fully_shard wraps, before its first call makes it a compiled one.

    Until then its parameters may get memory, and settings change.
    """

    def __call__(self, *args, **kwargs):
        if current_tracer():  # within another program
            return self._compiled(*args, **kwargs)
        from .distributed._adopt import first_call

        return first_call(self, args, kwargs)

    forward = __call__


class UnadoptedDDP(Unadopted, ThunderDDP):
    """The same, around a DistributedDataParallel."""


def _unadopted(module):
    """The class of a compiled module that PyTorch's data parallelism wraps; None if it does not."""
    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        return UnadoptedDDP
    return Unadopted if is_sharded(module) else None


_OF_THE_WRAPPER = {
    "_original", "_compiled", "_options", "__call__", "train", "eval", "requires_grad_", "_apply", "to",
    "no_sync", "_compile", "_compiled_method", "_methods", "_model",
    "__class__", "__deepcopy__", "__repr__", "__reduce_ex__", "__dict__", "__dir__", "__getattribute__", "__setattr__",
    "__delattr__", "__init__",
}  # fmt: skip
_OF_JOIN = {"join", "join_hook", "join_device", "join_process_group"}


def _chained(name):
    """A method of nn.Module that returns self, returning the wrapper instead."""

    def method(self, *args, **kwargs):
        getattr(self._original, name)(*args, **kwargs)
        return self

    method.__name__ = name
    return method


for _name in ("cuda", "cpu", "float", "double", "half", "bfloat16", "type", "to_empty", "apply", "share_memory"):
    setattr(ThunderModule, _name, _chained(_name))
    _OF_THE_WRAPPER.add(_name)
