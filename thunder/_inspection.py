"""What a compiled function did: its traces, its cache, its times."""

import torch

from . import _C
from .module import ThunderModule


def _function(fn):
    if isinstance(fn, ThunderModule):
        return fn._compiled
    if isinstance(fn, _C.CompiledFunction):
        return fn
    raise TypeError(f"a function or module compiled by thunder.jit was expected, got {type(fn).__name__}")


def last_traces(fn):
    """The traces of the last compilation, from the acquired one to the one that runs: a list of Trace.

    With gradients they are the forward's. Empty before the first call.
    """
    return _C.last_traces(_function(fn))


def last_backward_traces(fn):
    """The traces of the last compilation's backward; empty if there was none."""
    return _C.last_backward_traces(_function(fn))


def last_epilogue_traces(fn):
    """What runs after the computation, autograd on: writes into inputs, and outputs that alias inputs or each other."""
    return _C.last_epilogue_traces(_function(fn))


class Prologue:
    """What a compiled program assumes of its environment, besides its arguments; checked on every call, in C++.

    Attributes:
        checks: A line each, in the order in which the program read: "module.scale == 2.0".
    """

    def __init__(self, checks):
        self.checks = checks

    def __str__(self):
        return "def prologue():\n" + "".join(f"  # {check}\n" for check in self.checks)


def last_prologue_traces(fn):
    """A list of one Prologue, of the last compilation: what its program read from outside, each as a check.

    Tensors are inputs: the one in that place at the time of the call is used, if its metadata are the same. Metadata
    and structure of the arguments are checked before, as the key of the cache. Empty before the first call.
    """
    checks = _C.guards(_function(fn))
    return [Prologue(checks)] if last_traces(fn) else []


def last_kernels(fn):
    """The source of the kernels that the last compilation generated, forward and backward, as one text.

    It is C++, or CUDA C++ for programs on a GPU. Each fusion of the traces has its kernel's name, except that equal
    kernels are generated once.
    """
    kernels = {}
    for traces in (last_traces(fn), last_backward_traces(fn)):
        if traces:
            kernels.update(_C.trace_kernels(traces[-1]))
    return "\n".join(kernels.values())


def empty_cache():
    """Gives memory on the CPU that compiled programs keep for their next run back to the system.

    It is at most what runs needed at once; what tensors still hold stays theirs. On GPUs programs use PyTorch's own
    allocator: see torch.cuda.empty_cache().
    """
    _C.empty_cache()


def cache_hits(fn):
    """How many calls ran a program that was compiled before."""
    return _C.stats(_function(fn))["cache_hits"]


def cache_misses(fn):
    """How many calls compiled."""
    return _C.stats(_function(fn))["cache_misses"]


class CompileStats(dict):
    """What compile_stats() gives: a dict whose items are attributes, too."""

    def __init__(self, fn, items):
        super().__init__(items)
        self._fn = fn

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"compile_stats() has no '{name}'; it has {', '.join(self)}") from None

    @property
    def last_traces(self):
        """thunder.last_traces(fn), or None before the first call."""
        return last_traces(self._fn) or None

    @property
    def last_backward_traces(self):
        """thunder.last_backward_traces(fn), or None if no program with a backward was compiled."""
        return last_backward_traces(self._fn) or None


class CompileData:
    """What thunder.jit compiled. It is a view: reading it gives what is so now.

    Attributes:
        fn: The function or module that was given to jit. For a module it can be set to what `thunder.distributed.ddp`
            or `fsdp` returned for it: programs that were compiled before are dropped.
        is_module: Whether it is a module.
        process_group_for_ddp: The process group of a module wrapped by `ddp` or `fsdp`, else None. The one that it has
            can be set; another one raises.
    """

    def __init__(self, compiled):
        self._compiled = compiled

    @property
    def is_module(self):
        return isinstance(self._compiled, ThunderModule)

    @property
    def fn(self):
        return self._compiled._original if self.is_module else self._compiled.__wrapped__

    @fn.setter
    def fn(self, fn):
        if not self.is_module or fn is not self._compiled._original:
            raise TypeError(
                f"[compile_data] fn is the compiled {type(self.fn).__name__}, which ddp() and fsdp() change in place; "
                f"compile another one ({type(fn).__name__}) with thunder.jit"
            )
        _C.clear_cache(self._compiled._compiled)

    @property
    def process_group_for_ddp(self):
        return getattr(self.fn, "process_group_for_ddp", None)

    @process_group_for_ddp.setter
    def process_group_for_ddp(self, group):
        if group is not self.process_group_for_ddp:
            raise RuntimeError(
                f"[compile_data] the process group is the one that ddp() or fsdp() was given: "
                f"{self.process_group_for_ddp}, not {group}"
            )


def compile_data(fn):
    """The CompileData of a function or module compiled by thunder.jit; None for anything else."""
    return CompileData(fn) if isinstance(fn, (ThunderModule, _C.CompiledFunction)) else None


def compile_stats(fn):
    """Counts and times: cache_hits, cache_misses, last_miss, and of the last compilation acquisition_seconds,
    passes_seconds and programs_seconds; with cache="symbolic values" `guards`: what it asked about sizes and numbers,
    and `not_symbolic`: why it was compiled for the numbers as they are, if it was; `not_cached`: why the program serves
    no later call, if it does not (it advanced an iterator made outside, say); `eager_calls`: how many calls ran the
    function itself, by why (a torch dispatch mode was active, an argument was a DTensor, ...); `passes`: milliseconds
    of each pass;
    `accumulated_gradients`: how many gradients a backward added in place, to a leaf's `.grad` or to what a distributed
    module keeps within `no_sync()`; `inner_modules`: of a function that eager runs, the compiled functions of the
    modules that the function calls, by the modules' classes, which this and the like functions take; `graphs`, unless
    they are off: how many recordings were made ("captures"), how many runs of a forward or backward were "replays", or
    were none although the program may be recorded ("ungraphed"), the "bytes" that recordings keep, and "why" programs
    are not recorded, a dict from reasons to how many programs have them. Items are attributes, too; `last_traces` and
    `last_backward_traces` are None before the first call."""
    stats = _C.stats(_function(fn))
    stats["passes"] = {
        f"{which}: {trace.pass_name}": trace.milliseconds
        for which, traces in (("forward", last_traces(fn)), ("backward", last_backward_traces(fn)))
        for trace in traces
        if trace.pass_name
    }
    modules = _C.inner_modules(_function(fn))
    stats["inner_modules"] = modules.compiled if modules is not None else {}
    return CompileStats(fn, stats)


def explain_miss(fn):
    """Why the last call that compiled did not find a program: the guard that failed.

    With cache="symbolic values" that may be a comparison of sizes (s0, s1, ...) or of the float arguments (f0 is the
    first): the text says what the sizes are sizes of, and which line of yours compared them.
    """
    return _C.stats(_function(fn))["last_miss"]


def parse(text, context=None):
    """The trace that `str(trace)` printed; `context`: what `trace.python_ctx()` of that trace gave."""
    from .symbols import Symbol

    named = {k: v for k, v in (context or {}).items() if not isinstance(v, Symbol)}
    return _C.parse(text, named)


def reduce(trace, check):
    """The smallest part of a trace for which a check still holds, for the report of a defect.

    Outputs and calls are left out, halves first; what calls gave becomes an input of the rest.

    Args:
        trace: One of `thunder.last_traces(f)` or `thunder.last_backward_traces(f)`.
        check: A function from a trace to a bool; `thunder.replay(trace)` runs what it is given.

    Returns:
        A trace that takes its inputs one by one and returns a flat tuple.

    Raises:
        ValueError: The check does not hold for the whole trace.  What the check raises is raised.
    """
    return _C.reduce(trace, check)


def replay(trace, inputs=None, *, seed=0):
    """Runs a trace: what it returns.

    Args:
        trace: A trace whose inputs are tensors and numbers.
        inputs: One object for each input.  None: those that `seed` gives.
        seed: Of the numbers of made inputs: floats and complex numbers are drawn from a normal distribution, integers
            and bools are 0 or 1; shapes, strides, types, devices and `requires_grad` are the trace's.

    Raises:
        ValueError: A size or a number is known only in a call, so no input can be made.
    """
    if inputs is None:
        inputs = _made_inputs(trace, seed)
    return trace.python_callable()(*inputs)


def _made_inputs(trace, seed):
    generator = torch.Generator().manual_seed(seed)
    return [_made_input(value, generator) for value in trace.input_values]


def _made_input(value, generator):
    if not value.is_tensor or not all(type(n) is int for n in (*value.shape, *value.strides)):
        raise ValueError(f"[replay] expected a tensor of known sizes to make an input, got {value!r}; give the inputs")
    dtype, shape, strides = value.dtype, tuple(value.shape), tuple(value.strides)
    made = torch.empty_strided(shape, strides, dtype=dtype, device=value.device)
    if made.numel():
        # All of its memory: elements of an expanded tensor share theirs.
        memory = made.as_strided((1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)),), (1,))
        if dtype.is_floating_point or dtype.is_complex:
            wide = torch.complex128 if dtype.is_complex else torch.float64
            memory.copy_(torch.randn(memory.shape, generator=generator, dtype=wide))
        else:
            memory.copy_(torch.randint(2, memory.shape, generator=generator))
    return made.requires_grad_(value.requires_grad)


def _python_ctx(trace):
    """Names that the printed program uses, not imports: executors' operators, objects that print cannot spell."""
    from .symbols import symbol

    context = dict(trace.opaque_context())

    def visit(calls):
        for call in calls:
            name = call.name
            if call.executor in ("fuser", "constants"):
                context[name] = _C.call_function(call)
            elif "." not in name and (found := symbol(call.op.rpartition(".")[0] and _base_name(call.op))) is not None:
                context[name] = found

    visit(trace.calls)
    return context


def _base_name(full_name):
    op = _C.find_op(full_name)
    return op.name if op is not None else full_name


def _python_callable(trace):
    """The printed program as a Python function."""
    context = _python_ctx(trace)
    exec(str(trace), context)  # noqa: S102  # the point: what is printed is what can be run
    return context[trace.name]


_C.Trace.python_ctx = _python_ctx
_C.Trace.python_callable = _python_callable
