"""Writes docs/reference/: the operators, passes, executors and options, from what the code says of them.

python tools/make_reference.py [--check]   --check: writes nothing, fails if a page is out of date
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "reference"
NOTE = "<!-- Made by tools/make_reference.py. -->\n"


def operators(level):
    from thunder import _C

    ops = sorted((op for op in _C.ops() if op.level == level), key=lambda op: op.full_name)
    lines = [NOTE, f"# {level}: {len(ops)} operators\n"]
    for op in ops:
        lines.append(f"### {op.full_name.partition('.')[2]}\n")
        lines.append(f"`{op.schema}`\n")
        lines.append(op.doc + "\n")
        facts = []
        if op.python:
            facts.append(("NumPy: " if level == "numpy" else "PyTorch: ") + ", ".join(f"`{p}`" for p in op.python))
        if op.aten:
            facts.append(f"ATen: `{op.aten}`")
        if op.scalar:
            facts.append(f"C: `{op.scalar}`")
        kinds = [k for k, has in (("meta", op.has_meta), ("body", op.has_body), ("gradient rule", op.has_vjp)) if has]
        facts.append("Has " + ", ".join(kinds))
        if op.tags:
            facts.append("Tags: " + ", ".join(op.tags))
        lines.append("; ".join(facts) + ".\n")
    return "\n".join(lines)


def passes():
    from thunder import _C

    about = (
        "In the order of [`pass_table.cpp`](../../csrc/passes/pass_table.cpp). Optional ones can be left out "
        "(`THUNDER_SKIP`, by the name) and bisected. Behind the table: the headers in `csrc/passes`.\n"
    )
    lines = [NOTE, "# Passes\n", about, "| pass | what it does | why here | when | optional |", "|---|---|---|---|---|"]
    for stage, rows in _C.passes():
        lines.append(f"| *{stage}* | | | | |")
        for p in rows:
            optional = "yes" if p["optional"] else ""
            lines.append(f"| `{p['id']}` | {p['gives']} | {p['why']} | {p['when']} | {optional} |")
    lines.append("")
    for header in sorted((ROOT / "csrc" / "passes").glob("*.h")):
        comment = []
        for line in header.read_text().splitlines():
            if not line.startswith("//"):
                break
            comment.append(re.sub(r"^// ?", "", line))
        lines.append(f"## {header.name}\n\n```\n" + "\n".join(comment) + "\n```\n")
    return "\n".join(lines)


def executors():
    import thunder

    default = {e.name for e in thunder.get_default_executors()}
    always = {e.name for e in thunder.get_always_executors()}
    lines = [NOTE, "# Executors\n"]
    for e in sorted(thunder.get_all_executors(), key=lambda e: e.name):
        place = "always last" if e.name in always else "by default" if e.name in default else "on request"
        lines.append(f"## {e.name}\n\nIn the list: {place}.\n")
        if e.symbols:
            lines.append("Implementations of:\n\n" + "\n".join(f"- `{s}`" for s in sorted(e.symbols)) + "\n")
    return "\n".join(lines)


def options():
    from thunder._options import RECORDS, written

    lines = [NOTE, "# The options of thunder.jit\n"]
    for option in RECORDS:
        lines.append(f"## {option.name}\n\n{option.metadata['doc']}\n\nThe default is `{written(option.default)}`.\n")
        if values := option.metadata["values"]:
            lines += ["| value | meaning |", "|---|---|"]
            lines += [f"| `{written(value)}` | {doc} |" for value, doc in values.items()]
            lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pages = {f"{level}.md": operators(level) for level in ("prims", "clang", "torch", "numpy")}
    pages |= {"passes.md": passes(), "executors.md": executors(), "options.md": options()}
    stale = [name for name, text in pages.items() if not (OUT / name).exists() or (OUT / name).read_text() != text]
    if arguments.check:
        if stale:
            sys.exit(f"out of date: {', '.join(stale)}; run `make docs`")
        return
    OUT.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (OUT / name).write_text(text)
    print(f"wrote {len(pages)} pages to {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
