"""What all processes must have in common before the first collective."""

import collections
import sys
import traceback

import torch

from .. import _C

_wrapped = collections.Counter()


def agree_on_parameters(group, parameters, kind, *settings):
    """ValueError on every process if their models, settings or versions of PyTorch differ.

    RuntimeError on every process if one does not come within the group's timeout.
    """
    lines = [f"torch {torch.__version__}", " ".join([kind, *map(str, settings)])]
    lines += [
        f"{name}: {p.dtype} {tuple(p.shape)} {p.device.type}{'' if p.requires_grad else ' frozen'}"
        for name, p in parameters.items()
    ]
    number = _wrapped[group.group_name]
    _wrapped[group.group_name] += 1
    _C.agree(group.group_name, f"wrap {number}", "\n".join(lines), _timeout_of(group).total_seconds())
    _report_failures()


def _timeout_of(group):
    """Of the group itself: PyTorch's own function gives the one of groups for which none was set."""
    try:
        return max(group._get_backend(device).options._timeout for device in group._device_types)
    except (AttributeError, RuntimeError, ValueError):  # a backend without options
        return torch.distributed.distributed_c10d._get_default_timeout(torch.distributed.get_backend(group))


def _report_failures():
    """An exception that ends this process is what the others raise."""
    before = sys.excepthook
    if getattr(before, "reports_to_other_processes", False):
        return

    def report(kind, value, trace):
        where = traceback.extract_tb(trace)[-1:]
        place = f" ({where[0].filename}:{where[0].lineno})" if where else ""
        _C.post_failure("".join(traceback.format_exception_only(kind, value)).strip() + place)
        before(kind, value, trace)

    report.reports_to_other_processes = True
    sys.excepthook = report
