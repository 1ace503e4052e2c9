"""Operators as Python functions, made from the registry: thunder.torch.gelu, thunder.prims.add."""

import contextlib
import functools
import inspect

import torch
from torch.overrides import TorchFunctionMode

from . import _C
from ._marks import ours
from ._names import REFLECTED, in_place_names, resolve
from ._tracing import current_tracer, state


class Symbol:
    """An operator.  Called inside a compiled function it is recorded; called on real tensors it runs."""

    def __init__(self, ops, function=None):
        self._ops = ops
        self.function = function  # of an operator made in Python: what runs it
        first = ops[0]
        self.name = first.name.partition(".")[2]
        self.id = first.name
        self.__name__ = self.name
        self.__qualname__ = first.print_name
        self.__doc__ = "\n\n".join(f"{op.schema}\n\n{op.doc}" for op in ops)
        self.__signature__ = _signature(first)

    @property
    def executor(self):
        return self._ops[0].executor or None

    def __call__(self, *args, **kwargs):
        tracer = current_tracer()
        if tracer is not None:
            return tracer.call_symbol(self.id, args, kwargs)
        if self.function is not None:
            return self.function(*args, **kwargs)
        if self._ops[0].level == "torch":
            return self._call_torch(args, kwargs)
        if torch.is_grad_enabled() and any(t.requires_grad for t in _tensors((args, kwargs))):
            return self._compiled(*args, **kwargs)
        return _C.evaluate(self.id, args, kwargs)

    @functools.cached_property
    def _compiled(self):
        """What autograd sees of an operator that PyTorch has not."""
        import thunder  # which needs this module

        def call(*args, **kwargs):
            if current_tracer() is not None:
                return self(*args, **kwargs)
            return _C.evaluate(self.id, args, kwargs)  # eager runs it after an error: the error is raised again

        return thunder.jit(call)

    def _call_torch(self, args, kwargs):
        """By PyTorch's own function, so that autograd sees it: the first overload that takes these arguments."""
        mismatch = None
        for op in self._ops:
            target = next((t for path in op.python if callable(t := resolve(path))), None)
            if target is None:
                continue
            try:
                return target(*args, **kwargs)
            except TypeError as e:
                mismatch = mismatch or e
        if mismatch:
            raise mismatch
        return _C.evaluate(self.id, args, kwargs)

    def __repr__(self):
        return f"<Symbol {self.__qualname__}>"


def _signature(op):
    params = []
    for p in op.params:
        kind = inspect.Parameter.KEYWORD_ONLY if p["keyword_only"] else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty
        if "default" in p:
            default = eval(p["default"], {"torch": torch, "inf": float("inf")})  # noqa: S307  # prints of literals
        params.append(inspect.Parameter(p["name"], kind, default=default))
    try:
        return inspect.Signature(params)
    except ValueError:  # a parameter without default after one with: PyTorch has a few
        return inspect.Signature([p.replace(default=inspect.Parameter.empty) for p in params])


def _tensors(x):
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (tuple, list, dict)):
        for item in x.values() if isinstance(x, dict) else x:
            yield from _tensors(item)


_symbols = {}


def symbol(name):
    """The symbol of "torch.gelu", or of a public name that means it; None if there is no such operator."""
    if name not in _symbols:
        ops = [op for op in _C.ops() if op.name == name]
        if not ops:
            level = name.partition(".")[0]
            meant = next((op.name for op in _C.ops() if op.level == level and name in op.python), None)
            return None if meant is None else symbol(meant)
        _symbols[name] = Symbol(ops)
    return _symbols[name]


def add_symbol(op, function):
    """The symbol of an operator made in Python, in place of one of the same name."""
    _symbols[op.name] = Symbol([op], function)
    return _symbols[op.name]


def language(level):
    """`__getattr__` and `__dir__` of the module of a level."""

    def __getattr__(name):
        found = symbol(f"{level}.{name}") if not name.startswith("__") else None
        if found is None:
            raise AttributeError(f"thunder.{level} has no operator '{name}'")
        return found

    def __dir__():
        return sorted({op.name.partition(".")[2] for op in _C.ops() if op.level == level})

    return __getattr__, __dir__


class _Told(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.function = func
        raise NotImplementedError  # only who is called was asked; caught in _told()


def _told(operator):
    """The function that PyTorch tells a mode of where Python's operator is used: torch.Tensor.div for __truediv__."""
    tensor = torch.zeros(1, dtype=torch.int64)
    operands = (tensor,) if operator.__name__ in ("neg", "positive", "abs", "__invert__") else (tensor, tensor)
    with contextlib.suppress(NotImplementedError), _Told() as mode:
        operator(*operands)
    return mode.function


class Language:
    """What methods, operators and a module's functions mean in a part of a compiled function.

    A decorator, and a context manager inside of compiled functions.  Called outside of one, a decorated function is
    compiled.  `attributes`: functions of a tensor for attributes that are no methods.
    """

    def __init__(self, level, module, attributes):
        self.level = level
        for op in _C.ops():
            if op.level == level:
                self._add(op, module)
        for name, function in attributes.items():
            _C.register_attribute(level, name, function, False)

    def _add(self, op, module):
        for path in op.python:
            name = path.rpartition(".")[2]
            if ".ndarray." not in path:
                if (target := getattr(module, name, None)) is not None:
                    _C.register_function(target, "operator", op.name, language=self.level,
                                         creates="creation" in op.tags)
            elif (target := getattr(torch.Tensor, name, None)) is None:
                _C.register_attribute(self.level, name, symbol(op.name), True)
            else:
                self._add_method(op, target, name)

    def _add_method(self, op, target, name):
        meant = functools.partial(_C.register_function, kind="operator", op=op.name, language=self.level, method=True)
        meant(target, reflected=name in REFLECTED)
        if name.startswith("__"):
            if (told := _told(target)) is not target:
                meant(told)
            for in_place in in_place_names(f"torch.Tensor.{name}"):
                if (target := resolve(in_place)) is not None:
                    meant(_told(target), in_place=True)

    def __call__(self, function):
        @functools.wraps(function)
        def in_language(*args, **kwargs):
            tracer = current_tracer()
            if tracer is None:
                return compiled(*args, **kwargs)
            with self:
                return tracer.call_user(functools.partial(function, *args, **kwargs), ())

        import thunder  # which needs this module

        compiled = thunder.jit(in_language)
        return in_language

    def __enter__(self):
        tracer = current_tracer()
        if tracer is None:
            raise ours(RuntimeError(f"[{self.level}] a language holds inside of compiled functions only"))
        state.languages = [*getattr(state, "languages", ()), (tracer, tracer.set_language(self.level))]

    def __exit__(self, *_):
        tracer, before = state.languages.pop()
        tracer.set_language(before)
