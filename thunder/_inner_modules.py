"""Functions in C++ around Python's, and the modules within those that eager runs.

A function that cannot be compiled as a whole (a training step with `loss.backward()`, a module with an operator in its
middle that needs its values) is left to eager. The modules that it calls are its *inner modules*: each is compiled on
its own, and runs as a program while eager runs the function. An inner module that cannot be compiled has inner modules
in turn.

The first call that eager runs finds them: a profile function sees which modules are called. In later calls an
InnerModule takes the calls of each of these modules, until the function returns. It lies where
torch.nn.Module.compile() puts a compiled call, which PyTorch leaves out of copies. Only `forward` becomes a program, so
that hooks of a module, and what stands around it, run as in eager.
"""

import copy
import functools
import sys
import types
import weakref

import torch

from . import _C
from ._frontend import is_sharded
from ._tracing import current_tracer

_CALL = torch.nn.Module._wrapped_call_impl.__code__
# How often a function may call other modules than those that were found before.
_MOST_SEARCHES = 4


def make(fn, module, options, *, is_inner=False):
    """A compiled function in C++.

    Args:
        fn: A callable.
        module: `fn`, if that is a module, else None.
        options: Options.
        is_inner: Whether it warns of nothing, since the function around it has warned.
    """
    compiled = _C.make_function(fn, module, options)
    if not options.transforms and options.cache != "no caching":
        _C.set_inner_modules(compiled, InnerModules(fn, options), is_inner)
    return compiled


class InnerModule:
    """A module's call, whose `forward` is a program."""

    def __init__(self, module, options, *, warns=False):
        self.module, self.is_called = module, False
        self.compiled = make(module.forward, None, options, is_inner=not warns)
        self._forward = _Forward(module, self.compiled)

    def __call__(self, *args, **kwargs):
        if current_tracer():
            return self.module._call_impl(*args, **kwargs)
        module, forward = self.module, self._forward
        own = module.__dict__
        if own.get("forward", forward) is not forward:  # the user's
            return module._call_impl(*args, **kwargs)
        self.is_called = True
        own["forward"] = forward
        try:
            return module._call_impl(*args, **kwargs)
        finally:
            forward.leave()


class _Forward:
    """In the place of a module's `forward` until it is called: runs the module's program."""

    def __init__(self, module, compiled):
        self.module, self._compiled = module, compiled
        functools.update_wrapper(self, module.forward)

    def __call__(self, *args, **kwargs):
        self.leave()
        return self._compiled(*args, **kwargs)

    def leave(self):
        own = self.module.__dict__
        if own.get("forward") is self:
            own.pop("forward", None)  # another thread may have

    # What copies a module in a hook before `forward` gets the module's own one, bound to the copy.
    def __deepcopy__(self, memo):
        return types.MethodType(type(self.module).forward, copy.deepcopy(self.module, memo))

    def __reduce__(self):
        return getattr, (self.module, "forward")  # of a module without its state yet: the class's


class InnerModules:
    """The inner modules of a function, which C++ enters before eager runs the function, and leaves afterwards.

    Args:
        fn: The function.
        options: Options of theirs.
        first: InnerModules that it may have, before any search.
    """

    def __init__(self, fn, options, first=()):
        self._fn, self._options = fn, options
        self._modules, self._searches = list(first), 0

    @property
    def compiled(self):
        """The compiled functions by the names of the modules' classes, a number behind where these are equal."""
        out = {}
        for inner in self._modules:
            name, n = type(inner.module).__name__, 2
            while name in out:
                name, n = f"{type(inner.module).__name__}_{n}", n + 1
            out[name] = inner.compiled
        return out

    def enter(self):
        """What `leave` takes."""
        # A function around this one searches for its own modules, which those of this one are not.
        outer, search, entered = sys.getprofile(), None, []
        if outer is not None and not isinstance(outer, _Search):
            outer = None
        elif not self._modules and self._searches < _MOST_SEARCHES:
            self._searches += 1
            search = _Search(self._fn)
        if search is not None or outer is not None:
            sys.setprofile(search)
        for inner in self._modules:
            own = inner.module.__dict__
            if "forward" not in own and own.get("_compiled_call_impl") is None:
                own["_compiled_call_impl"] = inner
                entered.append(inner)
        return outer, search, entered

    def leave(self, token):
        outer, search, entered = token
        if search is not None or outer is not None:
            sys.setprofile(outer)
        if search is not None:
            self._modules = [InnerModule(module, self._options) for module in search.found]
        for inner in entered:
            if inner.module.__dict__.get("_compiled_call_impl") is inner:
                del inner.module.__dict__["_compiled_call_impl"]
        # Other modules come in their place: an argument, say.
        if entered and not any(inner.is_called for inner in entered):
            self._modules = []
        for inner in entered:
            inner.is_called = False


class CompiledMethod:
    """A method of a module, but for `forward`: modules that it calls are compiled, the module itself above all.

    Args:
        method: The bound method.
        options: Options.
        compiled: The ThunderModule, which the method returns in the place of the module.
    """

    def __init__(self, method, options, compiled):
        module = method.__self__
        self._compiled = weakref.ref(compiled)
        first = [InnerModule(module, options, warns=True)] if _can_be_compiled(module) else []
        self._method, self.inner_modules = method, InnerModules(method, options, first)
        functools.update_wrapper(self, method)

    def __call__(self, *args, **kwargs):
        if current_tracer():
            return self._method(*args, **kwargs)
        token = self.inner_modules.enter()
        try:
            result = self._method(*args, **kwargs)
        finally:
            self.inner_modules.leave(token)
        compiled = self._compiled()
        return compiled if compiled is not None and result is self._method.__self__ else result


class _Search:
    """A profile function that finds the outermost modules that are called, but for the function itself."""

    def __init__(self, fn):
        self._fn, self._depth, self.found = fn, 0, []

    def __call__(self, frame, event, _):
        # Acquisition makes frames where a traceback is to have them.
        if frame.f_code is not _CALL or event not in ("call", "return") or current_tracer():
            return
        module = frame.f_locals["self"]
        if module is self._fn or _is_transparent(module):
            return
        if event == "return":
            self._depth -= self._depth > 0
            return
        if self._depth == 0 and _can_be_compiled(module) and not any(module is m for m in self.found):
            self.found.append(module)
        self._depth += 1


def _is_transparent(module):
    """Whether the module inside is compiled, for what PyTorch wraps around belongs to its calls."""
    return isinstance(module, torch.nn.parallel.DistributedDataParallel)


def _can_be_compiled(module):
    # One operator of PyTorch's own gains nothing.
    if not module._modules and type(module).__module__.startswith("torch.nn."):
        return False
    # Other compilers' modules; modules of which each GPU gets a copy; parameters that come and go with hooks.
    if isinstance(module, (torch.jit.ScriptModule, torch.nn.DataParallel)) or is_sharded(module):
        return False
    if type(module).__module__.startswith(("torch._dynamo.", "torch.distributed.", "torch.fx.")):
        return False
    if "forward" in module.__dict__ or module.__dict__.get("_compiled_call_impl") is not None:
        return False
    return isinstance(getattr(type(module), "forward", None), types.FunctionType)
