"""A compiled nn.Module."""

import copy

import torch

from . import _C
from .extend import resolve_executors


class ThunderModule(torch.nn.Module):
    """What thunder.jit(module) returns: the same parameters, buffers and submodules; calls run the compiled program.

    The original module is the state: state_dict, named_parameters, train(), to(), hooks and attributes are the
    original's, so an optimizer made from either works for both.
    """

    def __init__(self, module, cache, executors, transforms, numerics, rng, sharp_edges):
        # torch.nn.Module.__init__ would make empty state of the wrapper's own.
        object.__setattr__(self, "_original", module)
        object.__setattr__(self, "_options", (cache, executors, transforms, numerics, rng, sharp_edges))
        compiled = _C.make_function(module, module, cache, executors, transforms, numerics, rng)
        _C.set_sharp_edges(compiled, sharp_edges)
        object.__setattr__(self, "_compiled", compiled)

    def __call__(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    def forward(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    # Everything that torch.nn.Module keeps in the instance is the original's.
    def __getattribute__(self, name):
        if name in _OF_THE_WRAPPER:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_original"), name)

    def __setattr__(self, name, value):
        setattr(self._original, name, value)

    def __delattr__(self, name):
        delattr(self._original, name)

    def __dir__(self):
        return dir(self._original)

    def train(self, mode=True):
        self._original.train(mode)
        return self

    def eval(self):
        return self.train(False)

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
        made = ThunderModule(copy.deepcopy(self._original, memo), *self._options)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol):
        cache, executors, *others = self._options
        return _restore, (self._original, cache, [e.name for e in executors], *others)


def _restore(module, cache, names, *others):
    return ThunderModule(module, cache, resolve_executors(names), *others)


_OF_THE_WRAPPER = {
    "_original", "_compiled", "_options", "__call__", "forward", "train", "eval", "requires_grad_", "_apply", "to",
    "__class__", "__deepcopy__", "__repr__", "__reduce_ex__", "__dict__", "__dir__", "__getattribute__", "__setattr__",
    "__delattr__", "__init__",
}  # fmt: skip


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
