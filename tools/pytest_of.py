#!/usr/bin/env python3
"""pytest with another installation of the package than the editable one of this environment.

    python tools/pytest_of.py FOLDER [pytest's arguments]
"""

import sys

import pytest


def main():
    folder, *arguments = sys.argv[1:]
    # An editable installation finds the package before sys.path is asked.
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable")]
    sys.path.insert(0, folder)
    from thunder import _C

    if not _C.__file__.startswith(folder):
        sys.exit(f"{folder} was asked for, and {_C.__file__} is imported")
    return pytest.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
