"""Kernels by every compiler that is there, for several instruction sets, against eager.

An instruction set that this processor lacks is compiled for only.  `make test` takes the default compiler and two
instruction sets, `make test-all` everything.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("compiler_programs.py")
# AVX-512 with the tuning of a processor whose widest vectors g++ 12 uses: it makes wrong code there of some flags.
WIDE = "-march=znver3 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd"
INSTRUCTION_SETS = {
    "native": "-march=native",
    "v2": "-march=x86-64-v2",
    "v3": "-march=x86-64-v3",
    "v4": "-march=x86-64-v4 -mprefer-vector-width=512",
    "znver-512": WIDE,
}
NEEDS = {"v3": "avx2", "v4": "avx512vl", "znver-512": "avx512vl"}


def compilers():
    found = {}
    for folder in os.environ["PATH"].split(os.pathsep):
        for file in sorted(Path(folder).glob("*")) if Path(folder).is_dir() else []:
            if re.fullmatch(r"(clang\+\+|g\+\+)(-\d+)?", file.name) and os.access(file, os.X_OK):
                found.setdefault(os.path.realpath(file), file.name)
    return sorted(found.values())


def cases():
    if os.environ.get("THUNDER_ALL_SAMPLES"):
        flags_of_gcc = {"znver-512"}
        return [
            (compiler, instructions)
            for compiler in compilers()
            for instructions in INSTRUCTION_SETS
            if not (compiler.startswith("clang") and instructions in flags_of_gcc)
        ]
    return [("c++", "v4")] if shutil.which("c++") else []  # the native one is what all other tests use


def can_run(instructions):
    flag = NEEDS.get(instructions)
    return flag is None or flag in Path("/proc/cpuinfo").read_text()


def wrapper(folder, compiler, flags, runs):
    """A compiler with other flags; where its code cannot run here, one that compiles twice and keeps the usual code."""
    script = folder / "cxx"
    program = shutil.which(compiler)
    if runs:
        text = f'exec {program} "$@" {flags}\n'
    else:
        text = f'case "$*" in *kernels.cpp*) {program} "$@" {flags} || exit 1;; esac\nexec {program} "$@"\n'
    script.write_text("#!/bin/sh\n" + text)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="x86-64's instruction sets")
@pytest.mark.parametrize(("compiler", "instructions"), cases())
def test_programs(compiler, instructions, tmp_path):
    environment = {
        **os.environ,
        "CXX": wrapper(tmp_path, compiler, INSTRUCTION_SETS[instructions], can_run(instructions)),
        "THUNDER_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run([sys.executable, str(PROGRAMS)], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "cannot be compiled" not in done.stderr, done.stderr[-4000:]
