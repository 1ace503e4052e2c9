"""Calls and values of traces for passes written in Python."""

from .. import _C


def map_values(argument, fn):
    """An argument with every Value in it replaced by fn(value)."""
    if isinstance(argument, _C.Value):
        return fn(argument)
    if isinstance(argument, (list, tuple)):
        return type(argument)(map_values(a, fn) for a in argument)
    if isinstance(argument, dict):
        return {k: map_values(v, fn) for k, v in argument.items()}
    if isinstance(argument, slice):
        return slice(*(map_values(a, fn) for a in (argument.start, argument.stop, argument.step)))
    return argument


def proxies_of(call):
    """A call's positional and keyword arguments, tensors as proxies that have metadata only."""
    from ..core.proxies import TensorProxy

    def proxy(value):
        if not value.is_tensor:
            return value
        return TensorProxy(
            shape=value.shape,
            dtype=value.dtype,
            device=value.device,
            requires_grad=value.requires_grad,
            strides=value.strides,
        )

    args, kwargs = [], {}
    for param, argument in zip(_C.find_op(call.symbol).params, call.arguments, strict=True):
        if param["keyword_only"]:
            kwargs[param["name"]] = map_values(argument, proxy)
        else:
            args.append(map_values(argument, proxy))
    return args, kwargs


def level_regions(trace, can_fuse):
    """Groups the calls that `can_fuse` takes so that no group needs a call outside that needs the group.

    Each call has a level: that of what it reads, one more where data passes between calls that can be fused and calls
    that cannot. A way from a group out and back in climbs by two, so the calls of one level that can be fused are a
    region.
    """
    levels, fusible, groups = {}, {}, {}
    for call in trace.calls:
        fuse = call.symbol != "prims.python_del" and can_fuse(call)
        level = 0
        for value in call.input_values:
            if value in levels:
                level = max(level, levels[value] + (fusible[value] != fuse))
        for value in call.output_values:
            levels.setdefault(value, level)
            fusible.setdefault(value, fuse)
        if fuse:
            groups.setdefault(level, []).append(call)
    return [groups[level] for level in sorted(groups)]
