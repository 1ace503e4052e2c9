"""DTensors in compiled functions: what PyTorch's `parallelize_module` makes of a model.

A program computes on what this process has of each DTensor. In its place Python sees a `Part`, which knows the layout,
changes it by the regions of `tensor_parallel`, and answers what code asks a DTensor. A call that would need other
processes' parts for its result leaves the function to eager.
"""

from torch.distributed.tensor import DTensor

from ... import _C
from ..._marks import refusal
from . import _rules  # noqa: F401  # registers them
from ._calls import record
from ._part import Part, from_local

_set_up = False


def set_up():
    """Lets programs hold DTensors, from the first one that is compiled where there may be any."""
    global _set_up
    if not _set_up:
        _set_up = True
        _C.register_function(DTensor.from_local, "handler", handler=_from_local, creates=True)
        for method in (DTensor.to_local, DTensor.redistribute, DTensor.full_tensor):
            _C.register_function(method, "handler", handler=_of_a_plan)
        _C.set_dtensors(DTensor, Part, record)


def _from_local(func, args, kwargs):
    return from_local(*args, **kwargs)


def _of_a_plan(func, args, kwargs):
    raise refusal(
        f"[{func.__name__}] a parameter that is sharded by rows is a whole tensor in the module's forward, and no "
        "DTensor; use it as it is"
    )
