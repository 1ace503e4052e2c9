"""How many places a change touches: the table of CONTRIBUTING.md, counted in the sources.

Each row of the table has an example that exists.  The test finds every file that names the example, apart from what is
written by a program (the reference pages, the stubs) and apart from programs that only use it.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def naming(pattern, *folders, suffixes=(".cpp", ".h", ".py", ".txt")):
    """The files below the folders in which the pattern occurs."""
    found = re.compile(pattern)
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and found.search(path.read_text())
    }


def without_uses(paths):
    """Without the operators of higher levels, whose bodies call primitives."""
    return {p for p in paths if not re.match("csrc/ops/(clang|numpy|torch)/", p)}


EVALUATOR = "tests/cpp/reference"
# An example, what names it, and the places.
ROWS = {
    "operator": ("softsign", naming("softsign", "csrc", "thunder"), {"csrc/ops/torch/activation.cpp"}),
    "view": (
        "unfold",
        without_uses(naming(r'"prims\.unfold"|"unfold\(Tensor a|unfold_map', "csrc", EVALUATOR)),
        {
            "csrc/ops/prims/view.cpp",
            "csrc/ops/prims/view_rules.cpp",
            "csrc/ops/prims/view_rules.h",
            f"{EVALUATOR}/shape.cpp",
        },
    ),
    "reduction": (
        "prod",
        without_uses(naming(r'"prims\.prod"|"prod\(Tensor a', "csrc", EVALUATOR)),
        {"csrc/ops/prims/reduction.cpp", "csrc/executors/aten/own_functions.cpp", f"{EVALUATOR}/reduction.cpp"},
    ),
    "written argument": (
        "batch_norm",
        naming(r"nn\.functional\.batch_norm", "csrc/frontend", "csrc/jit", "csrc/runtime", "thunder"),
        set(),
    ),
    "dtype": (
        "u16",
        naming(r'DType::u16|\bu16,|"uint16"|ScalarType::UInt16', "csrc", "thunder", EVALUATOR),
        {
            "csrc/core/dtype.h",
            "csrc/core/dtype.cpp",
            "csrc/frontend/kinds.cpp",  # NumPy's scalars
            "thunder/numpy/__init__.py",
            f"{EVALUATOR}/array.cpp",
            f"{EVALUATOR}/bytes.cpp",
        },
    ),
    "autocast entry": ("cosine_similarity", naming("cosine_similarity", "csrc/frontend"), set()),
    "pass": (
        "early_waits",
        naming("early_waits", "csrc", "thunder"),
        {"csrc/passes/early_waits.cpp", "csrc/passes/early_waits.h", "csrc/passes/pass_table.cpp"},
    ),
    "executor in C++": (
        "depthwise",
        naming('depthwise_executor|"depthwise"|executors/depthwise', "csrc"),
        {f"csrc/executors/depthwise/depthwise.{suffix}" for suffix in ("h", "cpp")},
    ),
    "user option": (
        "sharp_edges",
        # Not the tag of its messages, not comments, and not the part of the frontend of this name.
        naming(r"(?<![\[`/])\bsharp_edges\b(?!\()", "csrc", "thunder"),
        {
            "thunder/_options.py",
            "csrc/bindings/options.cpp",
            "csrc/jit/user_function.h",
            "csrc/jit/attempt.cpp",
            "csrc/jit/call.cpp",
        },
    ),
    "executor in C++ outside the tree": ("fused_loss", naming("fused_loss", "csrc", "thunder"), set()),
    "executor in Python": (
        "triton_crossentropy",
        naming("triton_crossentropy", "csrc", "thunder"),
        {"thunder/executors/triton_crossentropy.py", "thunder/extend/__init__.py"},
    ),
    "opcode": (
        "BINARY_SLICE",
        naming(r"BINARY_SLICE|\bbinary_slice\(", "csrc", "thunder"),
        {f"csrc/frontend/interpreter/{file}" for file in ("table.cpp", "handlers.h", "operators.cpp")},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_places(row):
    example, found, places = ROWS[row]
    assert found == places, example


def test_the_table_has_every_row():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for row, (example, _, places) in ROWS.items():
        line = next((x for x in text.splitlines() if x.startswith(f"| {row} (`{example}`)")), None)
        assert line, row
        now = int(line.split("|")[3])
        folders = {p.rpartition(".")[0] for p in places}  # a source and its header are one place
        assert now == len(folders), line
