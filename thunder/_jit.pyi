# Made by tools/make_jit_stub.py.
from collections.abc import Callable, Iterable
from typing import Any, Literal

from ._C import Executor

def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    executors: Iterable[Executor | str] | None = None,
    cache: Literal["varying values", "constant values", "symbolic values", "same input", "no caching"] = "varying values",
    transforms: Iterable[Any] = (),
    numerics: Literal["fused", "eager"] = "fused",
    rng: Literal["eager", "fused"] = "eager",
    sharp_edges: Literal["allow", "warn", "error"] = "allow",
    graphs: Literal["auto", True, False] = "auto",
) -> Any:
    r"""Compiles a function or a module.

    Args:
        fn: A callable on tensors (and anything else), or a torch.nn.Module. Without it, returns a decorator.
        executors: The executors that run the operators, highest priority first: executors or their names. The always
            executors ("c10d", "aten", "python") are appended. None: `thunder.get_default_executors()`.
        cache: The calls that a compiled program serves.
            "varying values": The first program is for the sizes, strides and numbers of its call. A call that differs
                only in these values gets a second program. Symbols replace the values that differ; all other values
                stay constants. The second program serves all values, size 1 included, for which its guards on symbols
                hold (`if x.shape[0] > 4:` and `for i in range(n):` make guards). Empty tensors, ints below 2 and the
                floats 0, 1 and -1 have programs of their own.
            "constant values": Calls with the same tensor metadata and equal Python values.
            "symbolic values": Calls with tensors of the same kinds and numbers of the same types. Sizes of 2 and more,
                ints of 2 and more and floats other than 0, 1 and -1 may differ, as long as the guards on symbols hold.
            "same input": All further calls run the first program, and no guard is checked.
            "no caching": Each call is compiled, and its program serves no other call.
        transforms: Functions from a trace to a trace, which are applied to the acquired trace in the order of the list,
            and objects of `thunder.transforms`.
        numerics: The rounding of results. With both values there is no fused multiply-add. Functions such as `exp` may
            differ from eager's in the last bits. Sums add their terms in another order than eager's, with about the
            same error or a smaller one.
            "fused": A bfloat16 or float16 value with one reader in the program keeps the digits of float32 within a
                kernel, unless the program casts the value to these types, compares it or converts it to an integer. A
                weight's gradient is added to `.grad` before it is rounded.
            "eager": Every intermediate result is rounded to its type, as if each operator ran alone.
        rng: The source of random numbers.
            "eager": PyTorch's operators draw the numbers, which are eager's.
            "fused": Kernels draw the numbers where they are used, and the backward draws them again instead of keeping
                masks. The numbers differ from eager's, and `torch.manual_seed` makes them reproducible. Without a
                fusion executor in the list of executors this value means "eager".
        sharp_edges: The treatment of operations that can be neither checked nor done again in later calls: prints,
            writes to a file, reads of the clock or of a file, and reads of elements that NumPy drew at random.
            "allow": Output is written once, when the program is compiled. A program with such reads is compiled in each
                call.
            "warn": A UserWarning names the operation and the user's line.
            "error": A RuntimeError names the operation and the user's line.
        graphs: Whether programs run as CUDA graphs, a single launch for a forward or a backward.
            `thunder.compile_stats(f)["graphs"]` counts the runs, and says why programs are not recorded.
            "auto": A program is recorded after at least three runs of the same sizes and numbers, if the device waited
                for the host in these runs. A program without symbols is also recorded if the device did not wait but
                pauses between short kernels take a notable part of the run. All of the program must run on one GPU, and
                the host must not wait for values there. Results and gradients have the same numbers as without a graph.
                Large outputs, and gradients, lie in the memory of the recording if the caller drops them before the
                next call; all others are tensors of their own. A recording keeps the memory of a step until the next
                step. The recordings of one program keep at most an eighth of the device's memory. All recordings
                together keep at most a quarter. A new recording keeps at most half of the free memory.
            True: Every program that can be recorded is recorded in its second run, for one tuple of sizes and numbers,
                whatever memory the recording keeps. The docstring of `thunder.transforms.CUDAGraphTransform` has the
                rules for the caller. A warning names a program that cannot be recorded.
            False: No program is recorded.

    Returns:
        A callable with `fn`'s signature. For a module, a ThunderModule that shares parameters and buffers with it.

    Raises:
        ValueError: an unknown executor, or an unknown value of an option; the message lists what there is.
        TypeError: `fn` cannot be called, or an unknown option.
    """
