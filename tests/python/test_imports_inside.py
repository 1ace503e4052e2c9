"""Modules that a function imports in its first call."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings, torch, thunder
sys.path.insert(0, {folder!r})
warnings.simplefilter("ignore")

def imported():
    {statement}
    return made_for_this

def f(x):
    module = imported()
    y = x * module.inner.FACTOR
    if {refused}:
        y.untyped_storage().data_ptr()  # no program
    return y

compiled, x = thunder.jit(f), torch.ones(3)
for _ in range(2):
    assert compiled(x).tolist() == [3.0] * 3
assert bool(thunder.compile_stats(compiled)["eager_calls"]) == {refused}
assert sys.modules["made_for_this"].TIMES == [1], sys.modules["made_for_this"].TIMES
"""


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(
    "statement",
    ["import made_for_this", "import importlib; made_for_this = importlib.import_module('made_for_this')"],
    ids=["statement", "import_module"],
)
def test_a_module_is_imported_once(tmp_path, statement, refused):
    package = tmp_path / "made_for_this"
    package.mkdir()
    (package / "__init__.py").write_text("from . import inner\nTIMES = inner.TIMES\nTIMES.append(1)\ninner.FACTOR\n")
    (package / "inner.py").write_text("FACTOR = 3.0\nTIMES = []\n")
    program = PROGRAM.format(folder=str(tmp_path), statement=statement, refused=refused)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
