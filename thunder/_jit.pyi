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
                from an earlier one in these alone gets a program with symbols for the values that differ, and numbers
                for all others. This program serves sizes of 1 and further values, as far as the program did not ask
                about them (`if x.shape[0] > 4:`, `for i in range(n):`). Empty tensors have programs of their own.
            "constant values": Calls with the same tensor metadata and equal Python values.
            "symbolic values": Calls with tensors of the same kinds and numbers of the same types. Sizes of 2 and more,
                ints of 2 and more and floats other than 0, 1 and -1 may differ, as far as the program did not ask about
                them.
            "same input": Every further call, unchecked.
            "no caching": No other call.
        transforms: Functions from a trace to a trace, which are applied to the acquired program in order; or transforms
            of how programs run, from `thunder.transforms`.
        numerics: The rounding of results. With both values, products and sums are never one instruction, functions such
            as `exp` may differ from eager's in the last bits, and sums are added up in another order, at least about as
            accurately.
            "fused": A bfloat16 or float16 value with one reader in the program keeps the digits of float32 within a
                kernel, unless the program casts the value to these types, compares it or converts it to an integer. A
                weight's gradient is added to `.grad` before it is rounded.
            "eager": Every intermediate result is rounded to its type, as if each operator ran alone.
        rng: The source of random numbers.
            "eager": PyTorch's operators draw the numbers, which are eager's.
            "fused": Kernels draw the numbers where they are used, and the backward draws them again instead of keeping
                masks. The numbers are other ones than eager's, and reproducible by `torch.manual_seed`. Without a
                fusion executor among the executors this value means "eager".
        sharp_edges: The treatment of operations that can be neither checked nor done again in later calls: prints,
            writes to a file, reads of the clock or of a file, and reads of elements that NumPy drew at random.
            "allow": Output is written once, when the program is compiled. A program with such reads is compiled in each
                call.
            "warn": A UserWarning names the operation and the user's line.
            "error": A RuntimeError names the operation and the user's line.
        graphs: Whether programs run as CUDA graphs, a single launch for a forward or a backward.
            `thunder.compile_stats(f)["graphs"]` counts the runs, and says why programs are not recorded.
            "auto": A program is recorded after some runs of the same sizes, if the device waited for the host in these
                runs, and if all of the program runs on one GPU without waiting for values there. Results and gradients
                are tensors of their own, with the same numbers. A recording keeps the memory of a step until the next
                step. The recordings of one program keep at most an eighth of the device's memory, all recordings a
                quarter, and a new one half of the free memory.
            True: Every program that can be recorded is recorded in its second run, for one row of sizes, whatever
                memory the recording keeps. `thunder.transforms.CUDAGraphTransform` says what a caller has to know. A
                warning names a program that cannot be recorded.
            False: No program is recorded.

    Returns:
        A callable with `fn`'s signature. For a module, a ThunderModule that shares parameters and buffers with it.

    Raises:
        ValueError: an unknown executor, or an unknown value of an option; the message lists what there is.
        TypeError: `fn` cannot be called, or an unknown option.
    """
