#!/usr/bin/env python3
"""Prints the files from which a process that imports PyTorch has loaded libraries, separated by commas.

    python tools/process_libraries.py libstdc++.so.6 libgcc_s.so.1
"""

import importlib
import pathlib
import sys


def main():
    importlib.import_module("torch")
    # The last word of a line is the file, by its real name (libstdc++.so.6.0.30).
    mapped = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()}
    found = []
    for name in sys.argv[1:]:
        files = sorted(f for f in mapped if f"{pathlib.Path(f).name}.".startswith(f"{name}."))
        if len(files) != 1:
            sys.exit(f"a process that imports torch has {', '.join(files) or 'no'} {name} loaded; one was expected")
        found += files
    print(",".join(found))


if __name__ == "__main__":
    main()
