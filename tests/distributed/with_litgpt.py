"""Runs a program that imports litgpt's model definitions, without litgpt's dependencies: with_litgpt.py FILE ..."""

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
import litgpt_import

litgpt_import.load()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
