"""Thunder: a source-to-source compiler for PyTorch.

    import thunder
    model = thunder.jit(model)
    y = model(x)                                   # acquired, compiled, run
    print(thunder.last_traces(model)[-1])          # the program that ran, as Python
"""

import functools

import torch as _torch  # first: it loads the libraries that the extension links by name; `torch` here is thunder.torch

from . import _build as _build  # before the extension: asks whether it can be loaded

# isort: split
from . import _C
from . import _frontend as _frontend  # registers the torch functions that it knows
from ._inner_modules import make as _make
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
from ._options import Options as _Options
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


def jit(fn=None, /, *, executors=None, cache="varying values", transforms=(), numerics="fused", rng="eager",
        sharp_edges="allow", graphs="auto"):
    """Compiles a function or a module.

    Args:
        fn: A callable on tensors (and anything else), or a torch.nn.Module.  Without it, returns a decorator.
        executors: Who runs the operators, highest priority first: executors or their names.  The always executors
            ("c10d", "aten", "python") follow by themselves.  None: `thunder.get_default_executors()`.
        cache: What a compiled program may be used again for.
            "varying values": the first program is for the sizes, strides and numbers of its call.  A call that differs
                from an earlier one in these alone has a program in which those that differ are symbols, all others
                numbers; it serves further values as far as the program did not ask about them (`if x.shape[0] > 4:`,
                `for i in range(n):`), and sizes of 1.  Empty tensors have programs of their own.
            "constant values": calls with the same tensor metadata and equal Python values.
            "symbolic values": calls with tensors of the same kinds and numbers of the same types; sizes of 2 and more,
                ints of 2 and more and floats other than 0, 1 and -1 may differ, as far as the program did not ask about
                them.
            "same input": every further call, unchecked.
            "no caching": no other call.
        transforms: Functions from a trace to a trace, applied to the acquired program in order; or transforms of how
            programs run, from `thunder.transforms`.
        numerics: How results are rounded.
            "fused": a bfloat16 or float16 value with one reader in the program keeps the digits of float32 within a
            kernel, unless the program casts to these types, or compares it, or makes it an integer; a weight's gradient
            is added to its `.grad` before it is rounded.
            "eager": every intermediate result is rounded to its type, as if each operator ran alone.
            In both, products and sums are never one instruction, functions such as `exp` may differ from eager's in the
            last bits, and sums are added up in another order, at least about as accurately.
        rng: Who draws random numbers.
            "eager": PyTorch's operators, so that the numbers are eager's.
            "fused": kernels draw them where they are used, and the backward draws them again instead of keeping masks.
                They are other numbers than eager's, reproducible by `torch.manual_seed` all the same.  Without a fusion
                executor in the list it means "eager".

        sharp_edges: What happens where the program does what can be neither checked nor done again in later calls:
            prints, writes to a file, reads the clock, a file, or elements that NumPy drew at random.
            "allow": what it writes is written once, when the program is compiled; a program that reads such is compiled
                in each call.  "warn", "error": with the user's line.
        graphs: Whether programs run as CUDA graphs, a single launch for a forward or a backward.
            "auto": a program is recorded after some runs of the same sizes if the device waited for the host in them,
                and all of it runs on one GPU without waiting for values there.  Nothing else changes: results and
                gradients are tensors of their own, with the same numbers.  A recording keeps the memory of a step until
                the next step: those of a program at most an eighth of the device's memory, all together a quarter, a
                new one half of what is free.
            True: every program that can be is recorded in its second run, for one row of sizes, whatever it keeps;
                `thunder.transforms.CUDAGraphTransform` says what a caller has to know then.  A warning tells of one
                that cannot be.
            False: none is.
            `thunder.compile_stats(f)["graphs"]` says what happened, and why a program is not recorded.

    Returns:
        A callable with `fn`'s signature.  For a module, a ThunderModule that shares parameters and buffers with it.

    Raises:
        ValueError: an unknown executor, cache option, numerics, rng, sharp_edges or graphs; the message lists what
            there is.
        TypeError: `fn` cannot be called.
    """
    if fn is None:
        return functools.partial(
            jit, executors=executors, cache=cache, transforms=transforms, numerics=numerics, rng=rng,
            sharp_edges=sharp_edges, graphs=graphs,
        )
    options = _Options(
        tuple(resolve_executors(executors)), cache, tuple(transforms), numerics, rng, sharp_edges, graphs
    )
    if isinstance(fn, ThunderModule):
        fn = fn._original
    if isinstance(fn, _torch.nn.Module):
        return ThunderModule(fn, options)
    if not callable(fn):
        raise TypeError(f"[jit] a callable or a torch.nn.Module was expected, got {type(fn).__name__}")
    compiled = _make(fn, None, options)
    try:
        functools.update_wrapper(compiled, fn)
    except (AttributeError, TypeError):
        compiled.__wrapped__ = fn
    return compiled


def __getattr__(name):
    # Imported on first use: they cost time that a plain `import thunder` should not.
    modules = "torch prims clang numpy examine core executors extend transforms distributed"
    if name in modules.split():
        import importlib

        return importlib.import_module(f"thunder.{name}")
    raise AttributeError(f"module 'thunder' has no attribute '{name}'")
