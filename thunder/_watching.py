"""Failures of other processes, where code of PyTorch's communicates, and this process's own, for the others."""

import contextlib
import sys
import traceback

from torch import distributed

from . import _C


@contextlib.contextmanager
def watched(group, what):
    """Where another process fails meanwhile, PyTorch's error of the connection becomes a RuntimeError that names it.

    Args:
        group: A ProcessGroup, or its name; None: all processes, if there are several.
        what: What this process does, for the error.
    """
    if group is None and distributed.is_available() and distributed.is_initialized():
        group = distributed.group.WORLD
    if group is None:
        yield
        return
    report_failures()
    name = getattr(group, "group_name", group)
    ticket = _C.begin_waiting(name, what)
    try:
        yield
    except RuntimeError as e:
        _C.explain(name, what, str(e))
        raise
    finally:
        _C.end_waiting(name, ticket)


def report_failures():
    """From here on an exception that ends this process is what the others raise."""
    before = sys.excepthook
    if getattr(before, "reports_to_other_processes", False):
        return

    def report(kind, value, trace):
        where = traceback.extract_tb(trace)[-1:]
        place = f" ({where[0].filename}:{where[0].lineno})" if where else ""
        try:
            _C.post_failure("".join(traceback.format_exception_only(kind, value)).strip() + place, _groups())
        finally:
            before(kind, value, trace)

    report.reports_to_other_processes = True
    sys.excepthook = report


def _groups():
    """The others may wait in a group that this process has not used yet."""
    if not distributed.is_available() or not distributed.is_initialized():
        return []
    return [group.group_name for group in distributed.distributed_c10d._world.pg_map]
