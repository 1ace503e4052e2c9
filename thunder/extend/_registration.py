"""What registering takes: signatures of Python functions, and names of symbols."""

import functools
import inspect

import torch

from .. import _C
from .._names import resolve
from ..symbols import Symbol, symbol


def signature_of(fn):
    """(callable, name, positional parameters, keyword-only parameters, *args?, **kwargs?), as the C++ side takes it."""
    name = getattr(fn, "__qualname__", type(fn).__name__)
    try:
        params = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not say
        return fn, name, [], [], True, True
    kinds = {p.kind for p in params}
    positional = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword = [p.name for p in params if p.kind is p.KEYWORD_ONLY]
    return (
        fn,
        name,
        positional,
        keyword,
        inspect.Parameter.VAR_POSITIONAL in kinds,
        inspect.Parameter.VAR_KEYWORD in kinds,
    )


def function_or_none(fn, what):
    if fn is None:
        return None
    if not callable(fn):
        raise TypeError(f"[{what}] a function was expected, got {type(fn).__name__}")
    return signature_of(fn)


def parameters_of(fn, operator):
    """The parameters of an operator whose signature is `fn`'s: a list of (name, keyword-only?, (default,) or ())."""
    try:
        params = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        try:
            # A builtin of PyTorch that has a record.
            params = inspect.signature(symbol(symbol_id(fn))).parameters.values()
        except ValueError as error:
            raise ValueError(
                f"[{operator}] {fn!r} does not tell its parameters; wrap it in a function that does"
            ) from error
    out = []
    for p in params:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(f"[{operator}] an operator's parameters must be named: '{p}' of {fn!r} is not supported")
        default = () if p.default is p.empty else (p.default,)
        out.append((p.name, p.kind is p.KEYWORD_ONLY, default))
    return out


def tag_bits(tags, operator):
    names = _C.tag_names()
    bits = 0
    for tag in (tags,) if isinstance(tags, str) else tags:
        if tag not in names:
            raise ValueError(f"[{operator}] unknown tag {tag!r}; there are {', '.join(names)}")
        bits |= 1 << names.index(tag)
    return bits


@functools.lru_cache(maxsize=1)
def _public_names(count):
    """Public torch names, and the objects that they mean, to operators; `count`: of operators, for the cache."""
    names, objects = {}, {}
    for op in _C.ops():
        for path in op.python if op.level == "torch" else ():
            names.setdefault(path, op.name)
            target = resolve(path)
            if target is not None:
                objects.setdefault(id(target), (target, op.name))
    return names, objects


def symbol_id(what):
    """The registry's name of what a user calls a symbol: a Symbol, a name, a torch function.

    Raises ValueError if there is no such operator.
    """
    if isinstance(what, Symbol):
        return what.id
    ops = _C.ops()
    names, objects = _public_names(len(ops))
    if isinstance(what, str):
        name = what.removeprefix("thunder.").removeprefix("l") if what.startswith(("thunder.", "ltorch.")) else what
        if any(name in (op.name, op.full_name) for op in ops):
            return name
        if name in names:
            return names[name]
    elif (found := objects.get(id(what))) is not None and found[0] is what:
        return found[1]
    raise ValueError(
        f"[extend] {what!r} is no operator: expected one of thunder.torch, thunder.prims or an executor, a torch "
        'function, or a name such as "torch.nn.functional.gelu"'
    )


def is_torch_callable(fn):
    """Whether PyTorch tells a torch function mode about calls of `fn`."""
    module = getattr(fn, "__module__", None) or ""
    return callable(fn) and (module.split(".")[0] == "torch" or fn in torch.overrides.get_testing_overrides())
