"""The public names of PyTorch's functions: what they mean, and which are forms of one another."""

import torch


def resolve(path):
    """The object that a dotted public name means in this PyTorch, or None."""
    parts = path.split(".")
    obj = torch if parts[0] == "torch" else None
    for part in parts[1:]:
        if isinstance(obj, type) and part in ("__doc__", "__module__"):
            return None
        obj = getattr(obj, part, None)
        if obj is None:
            return None
    return obj


def in_place_names(path):
    """Public in-place forms of a functional name: add -> add_, __add__ -> __iadd__; none of one that is in place."""
    head, _, name = path.rpartition(".")
    if is_in_place(name):
        return []
    if name.startswith("__") and name.endswith("__"):
        return [f"{head}.__i{name[2:]}"] if head.endswith("Tensor") else []
    return [f"{head}.{name}_"]


def is_in_place(name):
    return name.endswith("_") and not name.endswith("__")


REFLECTED = {
    f"__r{name}__" for name in "add sub mul truediv div floordiv mod pow matmul and or xor lshift rshift".split()
}
