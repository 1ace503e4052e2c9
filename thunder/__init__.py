"""Thunder: a source-to-source compiler for PyTorch.

    import thunder
    model = thunder.jit(model)
    y = model(x)                                   # acquired, compiled, run
    print(thunder.last_traces(model)[-1])          # the program that ran, as Python
"""

# First: PyTorch loads the libraries that the extension links by name. The name `torch` here is thunder.torch.
import torch as _torch  # noqa: F401

from . import _build as _build  # before the extension: asks whether it can be loaded

# isort: split
from . import _C
from . import _frontend as _frontend  # registers the torch functions that it knows
from . import _graphs as _graphs  # for C++, which asks it for recorders
from ._inspection import (
    cache_hits,
    cache_misses,
    compile_data,
    compile_stats,
    empty_cache,
    explain_miss,
    last_backward_traces,
    last_epilogue_traces,
    last_kernels,
    last_prologue_traces,
    last_traces,
    parse,
    reduce,
    replay,
)
from ._jit import jit
from .extend import (
    Executor,
    get_all_executors,
    get_always_executors,
    get_default_executors,
    get_executor,
    resolve_executors,
)
from .module import ThunderModule

_C.reserve_names()

__version__ = "0.1.0"  # the one place; pyproject.toml reads it

pytorch_executor = _C.find_executor("aten")
nvfuser_executor = _C.find_executor("fuser")  # the place of nvFuser in lists that were written for it

__all__ = [
    "Executor",
    "ThunderModule",
    "cache_hits",
    "cache_misses",
    "compile_data",
    "compile_stats",
    "empty_cache",
    "explain_miss",
    "get_all_executors",
    "get_always_executors",
    "get_default_executors",
    "get_executor",
    "jit",
    "last_backward_traces",
    "last_epilogue_traces",
    "last_kernels",
    "last_prologue_traces",
    "last_traces",
    "nvfuser_executor",
    "parse",
    "pytorch_executor",
    "reduce",
    "replay",
    "resolve_executors",
    "show_progress",
]


def show_progress(on):
    """Whether calls that compile for longer than a second say what they do.

    On a terminal it is a line of the standard error with the step and the seconds, which goes when the call is done;
    elsewhere messages of the level INFO to `logging.getLogger("thunder")`, one for each phase and one at the end.

    Args:
        on: A bool.  A process begins with True, or with False under the environment variable THUNDER_PROGRESS=0.
    """
    _C.show_progress(bool(on))


def __getattr__(name):
    # Imported on first use: they cost time that a plain `import thunder` should not.
    modules = "torch prims clang numpy examine core executors extend transforms distributed"
    if name in modules.split():
        import importlib

        return importlib.import_module(f"thunder.{name}")
    raise AttributeError(f"module 'thunder' has no attribute '{name}'")
