"""Writes thunder/_jit.pyi, the stub of `thunder.jit`, from the records of the options.

python tools/make_jit_stub.py [--check]   --check: writes nothing, fails if the stub is out of date
"""

import argparse
import pathlib
import sys
import textwrap

STUB = pathlib.Path(__file__).resolve().parent.parent / "thunder" / "_jit.pyi"
HEAD = """\
# Made by tools/make_jit_stub.py.
from collections.abc import Callable, Iterable
from typing import Any, Literal

from ._C import Executor

def jit(
    fn: Callable[..., Any] | None = None,
    /,
    *,
"""


def parameter(option):
    from thunder._options import written

    values = ", ".join(written(value) for value in option.metadata["values"])
    kind = f"Literal[{values}]" if values else option.type
    return f"    {option.name}: {kind} = {written(option.default)},\n"


def stub():
    import thunder
    from thunder._options import RECORDS

    doc = textwrap.indent(thunder.jit.__doc__, "    ").lstrip()
    return HEAD + "".join(map(parameter, RECORDS)) + f') -> Any:\n    r"""{doc}\n    """\n'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        STUB.write_text(stub())
    elif not STUB.exists() or STUB.read_text() != stub():
        sys.exit(f"out of date: {STUB.name}; run `make stubs`")


if __name__ == "__main__":
    main()
