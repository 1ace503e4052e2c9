#!/usr/bin/env python3
"""Holds csrc/ to the order of the layers and to the folders of private names. Prints each offending line; exit status 1
if there is one.

CMake targets hold the same order at link time; an include of a header-only part would slip through there.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What each layer may include, besides itself and the standard library.
STD_ONLY = {
    "core": set(),
    "ops": {"core"},
    "passes": {"core", "ops"},
    "fuser": {"core", "ops", "passes"},
    # Parts of the runtime with libraries of their own, which link neither PyTorch nor Python.
    "runtime/kernels": {"core"},
    "runtime/memory": set(),
}
BELOW = STD_ONLY | {
    "python": {"core"},
    "frontend": {"core", "ops", "passes", "python"},
    "runtime": {"core", "ops", "passes", "fuser", "python", "runtime/kernels", "runtime/memory"},
    "executors": {"core", "ops", "passes", "fuser", "python", "runtime", "runtime/kernels"},
    "jit": {"core", "ops", "passes", "python", "frontend", "runtime", "runtime/kernels"},
    "bindings": {"core", "ops", "passes", "fuser", "python", "frontend", "runtime", "runtime/kernels", "runtime/memory"}
    | {"executors", "jit"},
}
# Foreign headers, by the layers that may include them.
PYTHON = {"python", "frontend", "runtime", "executors", "jit", "bindings"}
FOREIGN = {
    re.compile(r"(torch|ATen|c10|caffe2)/"): {"runtime", "executors", "jit", "bindings"},
    re.compile(r"(Python|structmember|frameobject)\.h|(internal|cpython)/"): PYTHON,
    re.compile(r"nanobind/"): {"bindings"},
    re.compile(r"pybind11/"): set(),  # PyTorch's own; 13 seconds a file
    # Loaded at run time with dlopen, so that one build serves machines with and without CUDA.
    re.compile(r"(cuda|cuda_runtime\w*|cuda_\w+|nvrtc|cudnn\w*|cublas\w*|nccl)\.h"): set(),
    re.compile(r"doctest"): set(),
}
# CPython's names that are private to a version, and what has a class in csrc/python.
PRIVATE = {
    re.compile(r"\b_Py[A-Z]\w*|\bpycore_|\bPy_BUILD_CORE\b"): ("python", "frontend/interpreter"),
    re.compile(r"\bPyGILState_\w+|\bPyEval_(Save|Restore)Thread\b"): ("python",),
}
# No file outside an executor's folder names an executor. In these files the text is the name of something else, or of
# who runs the operators that the file makes.
EXECUTORS = {p.name for p in (ROOT / "csrc/executors").iterdir() if (p / f"{p.name}.h").exists()}
OTHER_MEANINGS = {
    "scan": {"ops/families.cpp"},  # a family of records
    "constants": {"passes/pass_table.cpp", "passes/constants.cpp"},  # a pass, and the operators that it makes
    "cublaslt": {"runtime/kernels/cublaslt_api.cpp", "runtime/kernels/cublaslt_product.cpp"},  # the library, in errors
    "aten": {"bindings/registry.cpp"},  # a field of a record
    "python": {"bindings/registry.cpp", "bindings/trace.cpp", "frontend/python_draws.cpp"},  # the same, a method, draws
}
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
MADE_IN_THE_BUILD = {"executors/built_for.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def layer_of(path: str) -> str:
    """The layer of a file or header, by its path from csrc/: the longest one whose folder holds it."""
    first, *rest = path.split("/")
    return f"{first}/{rest[0]}" if rest and f"{first}/{rest[0]}" in BELOW else first


def problems_in(path: pathlib.Path, layer: str):
    file = path.relative_to(ROOT / "csrc").as_posix()
    folder = file.rpartition("/")[0]
    own = folder.removeprefix("executors/")
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f"{path.relative_to(ROOT)}:{number}: "
        for pattern, folders in PRIVATE.items():
            name = pattern.search(line.partition("//")[0])
            if name and folder not in folders:
                yield where + f"only {' and '.join(folders)} may name {name[0]}"
        for text in LITERAL.findall(line.partition("//")[0]):
            if text in EXECUTORS - {own} and file not in OTHER_MEANINGS.get(text, ()):
                yield where + f'only csrc/executors/{text} may name the executor "{text}"'
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        target = layer_of(header)
        if quote == '"':
            if target not in BELOW or "/" not in header:
                yield where + f'"{header}": write our headers from the include root, as "layer/file.h"'
            elif target != layer and target not in BELOW[layer]:
                yield where + f"{layer} must not include {target} ({header})"
            elif header not in MADE_IN_THE_BUILD and not (ROOT / "csrc" / header).exists():
                yield where + f"{header} does not exist"
            continue
        if target in BELOW and "/" in header:
            yield where + f'<{header}>: our own headers are included with "quotes"'
        for pattern, allowed in FOREIGN.items():
            if pattern.match(header) and layer not in allowed:
                yield where + f"{layer} must not include <{header}>"


def main() -> int:
    found, count = [], 0
    for path in sorted((ROOT / "csrc").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        layer = layer_of(path.relative_to(ROOT / "csrc").as_posix())
        count += 1
        if layer not in BELOW:
            found.append(f"{path.relative_to(ROOT)}: {layer} is not a layer (tools/check_layers.py lists them)")
            continue
        found += problems_in(path, layer)
        if path.suffix == ".h" and "#pragma once" not in path.read_text():
            found.append(f"{path.relative_to(ROOT)}: no #pragma once")
    print(*found, sep="\n", end="\n" if found else "")
    print(f"layers: {count} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
