"""Executors: who runs which operator."""

import os
import pathlib

from .. import _C


def load(path):
    """Loads an executor in C++ that stands outside of Thunder's tree: docs/adding_an_executor.md.

    The executor is in the lists afterwards, by the place and the rank of its definition.

    Args:
        path: A shared library, built with the CMake package in `cmake_path()`. The same library again gives the same
            executor.

    Returns:
        The executor. `thunder.jit(fn, executors=[...])` takes it or its name.

    Raises:
        ImportError: the file is no such library, or was built for another Thunder, PyTorch or C++ library; the message
            has both versions.
    """
    return _C.load_executor(os.path.abspath(os.fspath(path)))


def cmake_path():
    """The folder of the CMake package `Thunder`, for `-DThunder_DIR=`. `python -m thunder --cmake_dir` prints it."""
    return str(pathlib.Path(_C.__file__).parent / "cmake")
