#!/usr/bin/env python3
"""Holds csrc/ to the order of the layers, to the order of acquisition's parts and to the folders of private names.
Prints each offending line; exit status 1 if there is one.

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
# Classes that are made of parts, in order: the second is made with the first.  A part is a member of one of them.
WHOLES = {"Tracer": "frontend/tracer.h", "Reads": "frontend/reads.h"}
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


def includes_of(path: pathlib.Path):
    """Our own headers that a file includes, each with its line's number."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match and match[1] == '"':
            yield number, match[2]


def members_of(text: str, name: str) -> list[str]:
    """The classes of a class's members, in order; references are no members."""
    _, _, body = text.partition(f"class {name} ")
    body = re.sub(r"//.*", "", body.partition("\n};")[0])
    return [m[1] for m in re.finditer(r"^  (?:const )?([A-Z]\w*) \w+_(?:\{.*|;)", body, re.M)]


def order_of_parts(csrc: pathlib.Path) -> dict[str, str]:
    """The parts of acquisition in their order: from the header of each to its class.  What a whole derives from comes
    before its parts, and the whole after them."""
    defines = re.compile(r"^class (\w+)(?: final)?(?: :[^{;]*)? \{", re.M)
    headers = {}
    for path in sorted((csrc / "frontend").glob("*.h")):
        for match in defines.finditer(path.read_text()):
            headers[match[1]] = path.relative_to(csrc).as_posix()
    order = {}
    for whole, header in WHOLES.items():
        text = (csrc / header).read_text()
        bases = re.findall(rf"^class {whole}(?: final)? : public (\w+) \{{", text, re.M)
        for part in bases + members_of(text, whole):
            if headers.get(part, header) != header:
                order[headers[part]] = part
        order[header] = whole
    return order


def later_part(csrc: pathlib.Path, header: str, later: set[str], parts: set[str]) -> str | None:
    """A part of `later` that a header is or includes, by way of headers that are no parts themselves."""
    seen, left = set(), [header]
    while left:
        at = left.pop()
        if at in later:
            return at
        if at in parts or at in seen or not (csrc / at).exists():
            continue
        seen.add(at)
        left += [included for _, included in includes_of(csrc / at)]
    return None


def problems_of_parts(csrc: pathlib.Path):
    """A part includes the parts before it alone, in its header and in its sources."""
    order = list(order_of_parts(csrc))
    for whole, header in WHOLES.items():
        if header in order and order.index(header) == 0:
            yield f"{header}: no part of {whole} was found"
    parts = set(order)
    sources = {}  # by the header that each includes first
    for path in sorted((csrc / "frontend").glob("*.cpp")):
        if first := next(includes_of(path), None):
            sources.setdefault(first[1], []).append(path)
    for i, part in enumerate(order):
        later = set(order[i + 1 :])
        for path in [csrc / part, *sources.get(part, [])]:
            for number, header in includes_of(path):
                if found := later_part(csrc, header, later, parts):
                    way = f" by way of {header}" if found != header else ""
                    yield f"csrc/{path.relative_to(csrc)}:{number}: {part} comes before {found}, which it includes{way}"


def main() -> int:
    found, count = list(problems_of_parts(ROOT / "csrc")), 0
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
