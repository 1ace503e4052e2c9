"""Runs the C++ tests of acquisition: python tests/frontend/run.py build/cpython-311 [-tc="WriteLog*"].

The folder has the module that CMake's target thunder_frontend_tests makes.  The other arguments are doctest's.
"""

import sys


def main() -> int:
    folder, *arguments = sys.argv[1:]
    sys.path.insert(0, folder)
    import thunder_frontend_tests

    return thunder_frontend_tests.run(["thunder_frontend_tests", *arguments])


if __name__ == "__main__":
    sys.exit(main())
