"""Executors and operators of your own."""

from .. import _C


def get_all_executors():
    """Every executor that is registered, usable here or not."""
    return tuple(_C.all_executors())


def get_default_executors():
    """What thunder.jit uses without `executors=`, highest priority first."""
    return tuple(_C.default_executors())


def get_always_executors():
    """The executors that stand last in every list."""
    return tuple(_C.always_executors())


def get_executor(name):
    """The executor of that name, or None."""
    return _C.find_executor(name)


def resolve_executors(executors):
    """The list that thunder.jit works with: names looked up, the always executors appended.

    Raises ValueError for an unknown name, or an executor that cannot be used on this machine.
    """
    if executors is None:
        return list(_C.default_executors())
    resolved = []
    for e in executors:
        found = _C.find_executor(e) if isinstance(e, str) else e
        if not isinstance(found, _C.Executor):
            names = ", ".join(repr(x.name) for x in _C.all_executors())
            raise ValueError(f"[jit] unknown executor {e!r}; there are {names}")
        if found.unavailable:
            raise ValueError(
                f"[jit] executor '{found.name}' cannot be used here: {found.unavailable}; usable are "
                + ", ".join(repr(x.name) for x in _C.all_executors() if not x.unavailable)
            )
        resolved.append(found)
    known = {e.name for e in resolved}
    return resolved + [e for e in _C.always_executors() if e.name not in known]
