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
    # CPython's own loop ran nothing.
    assert all(native == "0" for *_, native in rows.values()), done.stdout
