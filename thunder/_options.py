"""The options of `thunder.jit`: a field of Options is the record of one option.

The records make the signature and the docstring of `thunder.jit`, its stub (`make stubs`), the reference page (`make
docs`) and the checks of values. C++ reads the fields by name: `read_options` in csrc/bindings/options.cpp.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import textwrap
from collections.abc import Iterable
from typing import Any

from ._C import Executor
from .extend import resolve_executors


def _option(default, doc, values=None, *, convert=None):
    """The record of an option.

    Args:
        default: The default value.
        doc: What the option is about.
        values: The docs of the allowed values, by value; None: there is no list of allowed values.
        convert: A function from a given value to the field's value, which raises for a value that is not allowed.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, "values": values or {}, "convert": convert})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one compiled function, with checked values.

    `executors` and `transforms` are tuples, of which the first has the always executors at its end.
    """

    executors: Iterable[Executor | str] | None = _option(
        None,
        "The executors that run the operators, highest priority first: executors or their names. The always "
        'executors ("c10d", "aten", "python") are appended. None: `thunder.get_default_executors()`.',
        convert=lambda given: tuple(resolve_executors(given)),
    )
    cache: str = _option(
        "varying values",
        "The calls that a compiled program serves.",
        {
            "varying values": (
                "The first program is for the sizes, strides and numbers of its call. A call that differs only in "
                "these values gets a second program. Symbols replace the values that differ; all other values stay "
                "constants. The second program serves all values, size 1 included, for which its guards on symbols "
                "hold (`if x.shape[0] > 4:` and `for i in range(n):` make guards). Empty tensors, ints below 2 and "
                "the floats 0, 1 and -1 have programs of their own."
            ),
            "constant values": "Calls with the same tensor metadata and equal Python values.",
            "symbolic values": (
                "Calls with tensors of the same kinds and numbers of the same types. Sizes of 2 and more, ints of 2 "
                "and more and floats other than 0, 1 and -1 may differ, as long as the guards on symbols hold."
            ),
            "same input": "All further calls run the first program, and no guard is checked.",
            "no caching": "Each call is compiled, and its program serves no other call.",
        },
    )
    transforms: Iterable[Any] = _option(
        (),
        "Functions from a trace to a trace, which are applied to the acquired trace in the order of the list, and "
        "objects of `thunder.transforms`.",
        convert=tuple,
    )
    numerics: str = _option(
        "fused",
        "The rounding of results. With both values there is no fused multiply-add. Functions such as `exp` may differ "
        "from eager's in the last bits. Sums add their terms in another order than eager's, with about the same error "
        "or a smaller one.",
        {
            "fused": (
                "A bfloat16 or float16 value with one reader in the program keeps the digits of float32 within a "
                "kernel, unless the program casts the value to these types, compares it or converts it to an integer. "
                "A weight's gradient is added to `.grad` before it is rounded."
            ),
            "eager": "Every intermediate result is rounded to its type, as if each operator ran alone.",
        },
    )
    rng: str = _option(
        "eager",
        "The source of random numbers.",
        {
            "eager": "PyTorch's operators draw the numbers, which are eager's.",
            "fused": (
                "Kernels draw the numbers where they are used, and the backward draws them again instead of keeping "
                "masks. The numbers differ from eager's, and `torch.manual_seed` makes them reproducible. Without a "
                'fusion executor in the list of executors this value means "eager".'
            ),
        },
    )
    sharp_edges: str = _option(
        "allow",
        "The treatment of operations that can be neither checked nor done again in later calls: prints, writes to a "
        "file, reads of the clock or of a file, and reads of elements that NumPy drew at random.",
        {
            "allow": (
                "Output is written once, when the program is compiled. A program with such reads is compiled in each "
                "call."
            ),
            "warn": "A UserWarning names the operation and the user's line.",
            "error": "A RuntimeError names the operation and the user's line.",
        },
    )
    graphs: bool | str = _option(
        "auto",
        "Whether programs run as CUDA graphs, a single launch for a forward or a backward. "
        '`thunder.compile_stats(f)["graphs"]` counts the runs, and says why programs are not recorded.',
        {
            "auto": (
                "A program is recorded after at least three runs of the same sizes and numbers, if the device waited "
                "for the host in these runs. A program without symbols is also recorded if the device did not wait but "
                "pauses between short kernels take a notable part of the run. All of the program must run on one GPU, "
                "and the host must not wait for values there. Results and gradients have the same numbers as without a "
                "graph. Large outputs, and gradients, lie in the memory of the recording if the caller drops them "
                "before the next call; all others are tensors of their own. A recording keeps the memory of a step "
                "until the next step. The recordings of one program keep at most an eighth of the device's memory. All "
                "recordings together keep at most a quarter. A new recording keeps at most half of the free memory."
            ),
            True: (
                "Every program that can be recorded is recorded in its second run, for one tuple of sizes and "
                "numbers, whatever memory the recording keeps. The docstring of "
                "`thunder.transforms.CUDAGraphTransform` has the rules for the caller. A warning names a program that "
                "cannot be recorded."
            ),
            False: "No program is recorded.",
        },
    )

    def __post_init__(self):
        for option in RECORDS:
            given = getattr(self, option.name)
            object.__setattr__(self, option.name, _checked(option, given))

    def __deepcopy__(self, memo):
        # What float8 scales follow from is each copy's own.
        own = (copy.deepcopy(t, memo) if hasattr(t, "float8_layers") else t for t in self.transforms)
        return dataclasses.replace(self, transforms=tuple(own))

    # Executors hold functions, which cannot be pickled.
    def __getstate__(self):
        return vars(self) | {"executors": [e.name for e in self.executors]}

    def __setstate__(self, state):
        self.__init__(**state)


RECORDS = dataclasses.fields(Options)


def _checked(option, given):
    """The value of the option's field, from the user's value."""
    if convert := option.metadata["convert"]:
        return convert(given)
    values = option.metadata["values"]
    for value in values:
        if isinstance(given, type(value)) and given == value:  # 1 is not True
            return value
    there_are = ", ".join(map(repr, values))
    raise ValueError(f"[jit] unknown {option.name} {given!r}; there are {there_are}")


def options_of(given):
    """The Options of keyword arguments of `thunder.jit`."""
    known = [option.name for option in RECORDS]
    for name in given:
        if name not in known:
            there_are = ", ".join(map(repr, known))
            raise TypeError(f"[jit] unexpected keyword argument {name!r}; there are {there_are}")
    return Options(**given)


def written(value):
    """A value as the pages write it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def options_doc():
    """The options as entries of a docstring's section Args."""
    entries = []
    for option in RECORDS:
        entries.append(_entry(option.name, option.metadata["doc"], 4))
        entries += [_entry(written(value), doc, 8) for value, doc in option.metadata["values"].items()]
    return "\n".join(entries)


def _entry(name, doc, indent):
    code_in_one_piece = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\0"), f"{name}: {doc}")
    lines = textwrap.fill(
        code_in_one_piece, 116, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4),
        break_on_hyphens=False,
    )
    return lines.replace("\0", " ")
