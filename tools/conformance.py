#!/usr/bin/env python3
"""CPython's own language tests under the bytecode interpreter: how many pass of those that pass plainly.

Each file of tests runs twice, in processes of its own: plainly, and with the body of each test interpreted
(conformance_child.py). A crash or a hang counts for the test that was running; the rest goes on in a new process.
Exit status 1 if less than 97 % pass, or if conformance_reasons.txt does not list a test that fails or a frame that ran
natively.
"""

import argparse
import concurrent.futures
import dataclasses
import dis
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHILD = ROOT / "tools" / "conformance_child.py"
REASONS = ROOT / "tools" / "conformance_reasons.txt"
PAGE = ROOT / "docs" / "conformance.md"
VERSION = "{}.{}".format(*sys.version_info)
REQUIRED = 97.0
SECONDS_A_TEST = 120
UNLISTED = "NO REASON LISTED"

FILES = """
    test_abc test_asyncgen test_augassign test_baseexception test_binop test_bool test_builtin test_call
    test_class test_collections test_compare test_complex test_contextlib test_contextlib_async test_copy
    test_coroutines test_dataclasses test_decorators test_defaultdict test_descr test_dict test_dictcomps
    test_dictviews test_dynamic test_dynamicclassattribute test_enum test_enumerate test_except_star
    test_exception_group test_exception_hierarchy test_exception_variations test_exceptions test_extcall
    test_float test_format test_frame test_fstring test_funcattrs test_functools test_generator_stop
    test_generators test_genexps test_global test_grammar test_hash test_index test_int test_isinstance
    test_iter test_iterlen test_itertools test_keywordonlyarg test_list test_listcomps test_metaclass
    test_named_expressions test_numeric_tower test_opcodes test_operator test_ordered_dict test_patma
    test_pep646_syntax test_positional_only_arg test_pow test_property test_raise test_range test_richcmp
    test_scope test_set test_setcomps test_slice test_sort test_string test_string_literals test_subclassinit
    test_super test_syntax test_traceback test_tuple test_type_aliases test_type_annotations test_type_params
    test_types test_typing test_unary test_unpack test_unpack_ex test_userdict test_userlist test_weakref
    test_with test_yield_from
""".split()


@dataclasses.dataclass
class Outcome:
    kind: str
    detail: str = ""


@dataclasses.dataclass
class File:
    """What one file of tests gave."""

    name: str
    plain: list[str]  # those that pass plainly
    outcomes: dict[str, Outcome]  # of all, interpreted
    native: dict[str, int]  # frames by "file:function"
    handed: set[str]  # what the interpreter says that it handed to CPython's own loop
    opcodes: dict[str, int]

    def failing(self):
        missing = Outcome("not run")
        found = {test: self.outcomes.get(test, missing) for test in self.plain}
        return {test: outcome for test, outcome in found.items() if outcome.kind != "ok"}


def run_child(name, mode, first, log):
    """One process. Its records, its exit status and what it printed, which goes to the file `log` too."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "records")
        work = pathlib.Path(folder, "work")
        work.mkdir()
        command = [sys.executable, str(CHILD), name, mode, str(path), str(first), str(SECONDS_A_TEST)]
        # The same hashes in both runs, so that a test that depends on them does not tell the runs apart.
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        with open(log, "a+b") as out:
            before = out.tell()
            done = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            out.seek(before)
            text = out.read().decode(errors="replace")
        lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines], done.returncode, text


def run_file(name, mode, logs):
    """All tests of a file, in as many processes as it takes. Their names, outcomes and the other records."""
    log = logs / f"{name}.{mode}.log"
    log.unlink(missing_ok=True)
    tests, outcomes, rest, first = None, {}, [], 0
    while True:
        records, status, text = run_child(name, mode, first, log)
        tests = next((r["tests"] for r in records if "tests" in r), tests)
        if tests is None:
            raise SystemExit(f"[conformance] {name} cannot be loaded ({mode}), see {log}")
        for record in records:
            if "done" in record:
                detail = re.sub("0x[0-9a-f]+", "0x...", short(record["detail"]))  # the same in every run
                outcomes[tests[record["done"]]] = Outcome(record["outcome"], detail)
        rest += records
        if any("finished" in record for record in records):
            return tests, outcomes, rest
        # It counts for the test that ran, or had run: what that leaves behind may show only afterwards.
        last = max((record["start"] for record in records if "start" in record), default=None)
        if last is None:
            raise SystemExit(f"[conformance] {name} ended before its tests with status {status} ({mode}), see {log}")
        outcomes[tests[last]] = Outcome("crash", ended(status, text))
        first = last + 1


def ended(status, text):
    if status < 0:
        return f"crash: signal {-status}"
    return f"hang: more than {SECONDS_A_TEST} s" if "Timeout (" in text else f"exit with status {status}"


def sum_of(counts):
    total = {}
    for names in counts:
        for name, n in names.items():
            total[name] = total.get(name, 0) + n
    return total


def short(text):
    """A text with files' paths below the library, the same on every machine."""
    for folder in sorted(filter(None, [str(ROOT), *sys.path]), key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    return text


def run(name, logs):
    _, plain, _ = run_file(name, "plain", logs)
    _, outcomes, records = run_file(name, "interpreted", logs)
    native = sum_of(record["native"] for record in records if "native" in record)
    return File(
        name,
        [test for test, outcome in plain.items() if outcome.kind == "ok"],
        outcomes,
        {short(where): n for where, n in native.items()},
        {short(where) for record in records for where in record.get("handed", ())},
        sum_of(record["opcodes"] for record in records if "opcodes" in record),
    )


def read_reasons():
    """{test id, or "native file:function": reason}: the lines for all versions and those for this one, in brackets."""
    reasons = {}
    for line in REASONS.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        key, separator, reason = line.partition(": ")
        assert separator, f"[conformance] a line without a reason in {REASONS.name}: {line}"
        if key.startswith("["):
            version, key = key[1:].split("] ")
            if version != VERSION:
                continue
        reasons[key] = reason
    return reasons


def real_opcodes():
    """Those that compiled code can hold: no pseudo opcodes, no instrumented ones, none that are arguments of others."""
    names = {name for name, number in dis.opmap.items() if number < 256}
    return {name for name in names if not name.startswith("INSTRUMENTED_")} - {"CACHE", "EXTENDED_ARG", "RESERVED"}


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


COLUMNS = f"{'file':32} {'plain':>6} {'interpreted':>12} {'%':>7} {'native frames':>14}"


def numbers(files):
    """How many tests pass plainly, and of those interpreted, and how many frames ran natively."""
    plain, failing = sum(len(file.plain) for file in files), sum(len(file.failing()) for file in files)
    return plain, plain - failing, sum(sum(file.native.values()) for file in files)


def row(name, files):
    plain, interpreted, native = numbers(files)
    return f"{name:32} {plain:6} {interpreted:12} {percent(interpreted, plain):7.1f} {native:14}"


def report(files, reasons):
    """The lines to print below the rows of the files, and whether all is as it must be."""
    plain, interpreted, _ = numbers(files)
    passing = percent(interpreted, plain)
    good = passing >= REQUIRED
    lines = [row("all", files)]
    failing = {test: outcome for file in files for test, outcome in file.failing().items()}
    native = sum_of(file.native for file in files)
    if failing:
        lines += ["", "Tests that pass plainly and not interpreted:"]
    for test, outcome in failing.items():
        lines += [f"  {test}", f"      {outcome.detail or outcome.kind}", f"      {reasons.get(test, UNLISTED)}"]
    if native:
        lines += ["", "Frames that CPython's own loop ran:"]
    for where, n in sorted(native.items(), key=lambda item: -item[1]):
        lines.append(f"  {n:7} {where}: {reasons.get(f'native {where}', UNLISTED)}")
    handed = sorted({where for file in files for where in file.handed} - set(native))
    if handed:
        lines += ["", "Handed to CPython's own loop, as the interpreter says:", *(f"  {where}" for where in handed)]
    good &= all(file.plain for file in files)
    good &= all(test in reasons for test in failing) and all(f"native {where}" in reasons for where in native)
    ran = {test for file in files for test in file.plain} - set(failing)
    lines += [f"listed in {REASONS.name}, but passes: {test}" for test in reasons if test in ran]
    counts = sum_of(file.opcodes for file in files)
    seen = real_opcodes() & {name for name, n in counts.items() if n}
    lines += ["", f"{len(seen)} of {len(real_opcodes())} opcodes of Python {VERSION} interpreted"]
    lines[-1] += f", {sum(counts.values()):,} instructions"
    for name in sorted(real_opcodes() - seen):
        lines.append(f"  never {name}" + (f": {reasons[f'opcode {name}']}" if f"opcode {name}" in reasons else ""))
    lines.append(f"{passing:.2f} % of the tests that pass plainly pass interpreted ({REQUIRED:g} % required)")
    return lines, good


HEAD = """# Conformance of the interpreter

CPython's own language tests with each test's set-up, body and tear-down under the bytecode interpreter, compared with
a plain run of the same Python. Written by `make conformance ARGS=--write`; the reasons are those of
`tools/conformance_reasons.txt`.
"""


def write_page(lines):
    """Puts this version's section into the page and leaves the others."""
    text = PAGE.read_text() if PAGE.exists() else HEAD
    head, *sections = text.split("\n## Python ")
    found = dict(section.split("\n", 1) for section in sections)
    found[VERSION] = "\n```\n" + "\n".join(lines) + "\n```\n"
    ordered = sorted(found.items())
    PAGE.write_text(HEAD + "".join(f"\n## Python {version}\n{body.rstrip()}\n" for version, body in ordered))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="test files, for example test_grammar; none: all of the list")
    parser.add_argument("--write", action="store_true", help=f"put the result into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "conformance" / VERSION)
    options = parser.parse_args()
    names = [name for name in options.files or FILES if importlib.util.find_spec(f"test.{name}")]
    absent = sorted(set(options.files or FILES) - set(names))
    if not names or options.files and absent:
        package = f"libpython{VERSION}-testsuite"
        parser.error(f"not in the library of {sys.executable}: {' '.join(absent)} (on Debian and Ubuntu: {package})")
    options.logs.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        files, lines = [], [COLUMNS]
        print(COLUMNS)
        for file in pool.map(lambda name: run(name, options.logs), names):
            files.append(file)
            lines.append(row(file.name, [file]))
            print(lines[-1], flush=True)
    rest, good = report(files, read_reasons())
    if absent:
        rest.append(f"not in Python {VERSION}: {' '.join(absent)}")
    print("\n".join(rest))
    if options.write:
        write_page(lines + rest)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
