"""What all processes must have in common before the first collective."""

import collections

import torch

from .. import _C
from .._watching import report_failures

_wrapped = collections.Counter()


def agree_on_parameters(group, parameters, kind, *settings):
    """ValueError on every process if their models, settings or versions of PyTorch differ.

    RuntimeError on every process if one does not come within the group's timeout.
    """
    report_failures()
    lines = [f"torch {torch.__version__}", " ".join([kind, *map(str, settings)])]
    lines += [
        f"{name}: {p.dtype} {tuple(p.shape)} {p.device.type}{'' if p.requires_grad else ' frozen'}"
        for name, p in parameters.items()
    ]
    number = _wrapped[group.group_name]
    _wrapped[group.group_name] += 1
    _C.agree(group.group_name, f"wrap {number}", "\n".join(lines), _timeout_of(group).total_seconds())


def _timeout_of(group):
    """Of the group itself: PyTorch's own function gives the one of groups for which none was set."""
    try:
        return max(group._get_backend(device).options._timeout for device in group._device_types)
    except (AttributeError, RuntimeError, ValueError):  # a backend without options
        return torch.distributed.distributed_c10d._get_default_timeout(torch.distributed.get_backend(group))
