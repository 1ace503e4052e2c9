"""Runs the benchmarks (all, or the files given); prints their JSON lines, and a table of them at the end.

--compare is passed on.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
_SKIPPED = ("benchmark", "peer", "milliseconds_of_passes")


def show(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main():
    files = [Path(a) for a in sys.argv[1:] if a.endswith(".py")] or sorted(HERE.glob("bench_*.py"))
    flags = [a for a in sys.argv[1:] if a.startswith("--")]
    rows = []
    for file in files:
        with subprocess.Popen([sys.executable, str(file), *flags], stdout=subprocess.PIPE, text=True) as run:
            for line in run.stdout:
                print(line, end="", flush=True)
                rows.append(json.loads(line))
        if run.returncode:
            sys.exit(f"{file} failed")
    print()
    for row in rows:
        rest = "  ".join(f"{k} {show(v)}" for k, v in row.items() if k not in _SKIPPED)
        print(f"{row['benchmark']:32} {row['peer']:14} {rest}")


if __name__ == "__main__":
    main()
