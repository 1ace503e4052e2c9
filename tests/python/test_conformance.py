"""A part of `make conformance` that is fast enough for every run of the tests."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "conformance.py"


def test_language_tests_pass_interpreted():
    pytest.importorskip("test.test_grammar", reason="this Python comes without its tests")
    files = ["test_grammar", "test_generators", "test_patma"]
    done = subprocess.run([sys.executable, str(TOOL), *files], stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.startswith(tuple(files))}
    assert rows.keys() == set(files)
    # CPython's own loop ran nothing of the tests; unittest asks every module, torch.ops too, for its warnings.
    ran = done.stdout.partition("Frames that CPython's own loop ran:\n")[2].partition("\n\n")[0].splitlines()
    assert all(" torch/_ops.py:_Op" in line for line in ran), done.stdout
    assert sum(int(native) for *_, native in rows.values()) == sum(int(line.split()[0]) for line in ran)
