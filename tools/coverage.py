#!/usr/bin/env python3
"""PyTorch's own operator and module databases under thunder.jit, against eager: what passes, and how.

Entries run in child processes (coverage_child.py), so that a crash or a hang is a line of the table.
    tools/coverage.py --write            all of it; writes docs/coverage.md
    tools/coverage.py "linalg" --most 4  the entries whose name matches, four samples each
"""

import argparse
import concurrent.futures
import json
import pathlib
import queue
import re
import select
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHILD = ROOT / "tools" / "coverage_child.py"
PAGE = ROOT / "docs" / "coverage.md"


class Child:
    """A process that runs entries; started again after a crash or a hang."""

    def __init__(self, seconds):
        self._seconds = seconds
        self._process = None

    def ask(self, *request):
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True,
            )
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], self._seconds)
        answer = self._process.stdout.readline() if ready else ""
        if answer:
            return json.loads(answer)
        why = self._stop() if ready else (self._stop(), f"no answer in {self._seconds} s")[1]
        return {"samples": 1, "passed": 0, "generic": 0, "failures": {"process": why}}

    def _stop(self):
        self._process.kill()
        status = self._process.wait()
        self._process = None
        return f"the process ended, status {status}"

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()


def run_all(requests, options):
    """{(part, name): result}"""
    children = [Child(options.seconds) for _ in range(options.jobs)]
    free = queue.SimpleQueue()
    for child in children:
        free.put(child)

    def ask(request):
        child = free.get()
        try:
            return child.ask(*request, options.device, options.most)
        finally:
            free.put(child)

    results = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for request, result in zip(requests, pool.map(ask, requests), strict=True):
            results[request] = result
            for where, why in result["failures"].items():
                print(f"{request[0]} {request[1]}{f' ({where})' if where else ''}: {why}", flush=True)
    for child in children:
        child.close()
    return results


def listed_requests(pattern, parts):
    """The entries of both databases, as a child names them."""
    code = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'tests' / 'python')]!r}\n"
        "import json; from op_checks import *\n"
        "print(json.dumps([[name_of(o) for o in op_db], [module_name(m) for m in module_db]]))"
    )
    ops, modules = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    named = {"forward": ops, "gradient": ops, "errors": ops, "module": modules}
    return [(part, n) for n in dict.fromkeys(ops + modules) for part in parts if n in named[part]
            and re.search(pattern, n)]


class Part:
    """The results of one part of the table."""

    def __init__(self, title, results):
        ran = {n: r for n, r in results.items() if r["samples"]}
        self.title, self.ran = title, ran
        self.failed = {n: r for n, r in ran.items() if r["failures"]}
        passed = {n: r for n, r in ran.items() if not r["failures"]}
        self.generic = [n for n, r in passed.items() if r["generic"]]
        self.records = [n for n, r in passed.items() if not r["generic"]]

    def row(self):
        passed = len(self.records) + len(self.generic)
        samples = sum(r["samples"] for r in self.ran.values())
        return (f"| {self.title} | {len(self.ran)} | {passed} | {len(self.records)} | {len(self.generic)} | "
                f"{len(self.failed)} | {samples} |")


TITLES = {
    "forward": "operators, forward",
    "gradient": "operators, gradient",
    "errors": "operators, errors",
    "module": "modules, forward and backward",
}


def parts_of(results):
    return {
        part: Part(title, {n: r for (p, n), r in results.items() if p == part})
        for part, title in TITLES.items()
        if any(p == part for p, _ in results)
    }


def totals(parts):
    head = "| | entries | pass | through records alone | with the generic path | fail | samples |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *(part.row() for part in parts.values())])


def _wrapped(names):
    lines, line = [], ""
    for name in names:
        item = f"`{name}`"
        if line and len(line) + len(item) > 118:
            lines.append(line)
            line = ""
        line += (", " if line else "") + item
    return ",\n".join([*lines, line] if line else [])


def _cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


PREFACE = """# Coverage of PyTorch's operators and modules

Written by `make coverage`, on a CPU, with PyTorch {version}. PyTorch's own databases (`op_db`, `module_db`) give the
samples, eager the results: values, dtypes, shapes and strides in float32, float64, bfloat16, int64, bool and complex64;
gradients in float64, or in complex128 where there is none; types of exceptions for wrong arguments; modules in float32
and float64, in training and evaluation. An entry passes if every sample does. What eager does not run here is not
counted.

*Through records*: Thunder's own operators, which passes, autodiff and fusion see through. *The generic path*: some
sample calls an operator that has no record as it is, with PyTorch's gradient
([operators without a record](architecture/tensors.md#operators-without-a-record)).

## Totals

{totals}

{absent}
## What fails

{failures}
"""


def page(results, version):
    parts = parts_of(results)
    out = [PREFACE.format(version=version, totals=totals(parts), failures=failures(parts),
                          absent=absent(results))]
    for part, p in parts.items():
        title = p.title[0].upper() + p.title[1:]
        out.append(f"## {title}: with the generic path\n\n{_wrapped(p.generic) or 'None.'}\n")
        if part in ("forward", "module"):
            out.append(f"## {title}: through records alone\n\n{_wrapped(p.records)}\n")
    return "\n".join(out)


def absent(results):
    """What the database calls differentiable and the table of gradients does not have."""
    reasons = {n: r["absent"] for (part, n), r in results.items() if part == "gradient" and "absent" in r}
    if not reasons:
        return ""
    told = "; ".join(f"{', '.join(f'`{n}`' for n in names)} ({why})" for why, names in _by_reason(reasons).items())
    counted = sum(1 for (part, _), r in results.items() if part == "gradient" and (r["samples"] or "absent" in r))
    text = f"{counted} entries of operators are differentiable; of these are not counted: {told}."
    return textwrap.fill(text, 118, break_on_hyphens=False, break_long_words=False) + "\n"


def failures(parts):
    rows = [
        f"| `{name}` | {part} | {', '.join(wheres) or '-'} | {_cell(why)} |"
        for part, p in parts.items()
        for name, result in p.failed.items()
        for why, wheres in _by_reason(result["failures"]).items()
    ]
    return "\n".join(["| entry | part | where | why |", "|---|---|---|---|", *rows]) if rows else "Nothing."


def _by_reason(failures):
    out = {}
    for where, why in failures.items():
        out.setdefault(why, []).append(where)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="a regular expression: the entries to run")
    parser.add_argument("--parts", default=",".join(TITLES), help="of forward, gradient, errors, module")
    parser.add_argument("--most", type=int, help="samples of an entry and dtype; all if left out")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=600, help="for one part of an entry")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=pathlib.Path, help="the results, also of entries that an earlier run put there")
    parser.add_argument("--write", action="store_true", help="writes docs/coverage.md")
    options = parser.parse_args()
    results = {}
    if options.json and options.json.exists():
        results = {(part, name): result for part, name, result in json.loads(options.json.read_text())}
    requests = listed_requests(options.pattern, options.parts.split(","))
    results |= run_all(requests, options)
    if options.json:
        options.json.write_text(json.dumps([[*key, result] for key, result in results.items()]))
    print(totals(parts_of(results)))
    if options.write:
        version = subprocess.check_output([sys.executable, "-c", "import torch; print(torch.__version__)"], text=True)
        PAGE.write_text(page(results, version.strip()))


if __name__ == "__main__":
    main()
