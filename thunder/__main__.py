"""`python -m thunder --cmake_dir`: where find_package(Thunder) looks, for executors in C++."""

import argparse

from .executors import cmake_path

parser = argparse.ArgumentParser(prog="python -m thunder")
parser.add_argument("--cmake_dir", action="store_true", required=True, help="print the folder of the CMake package")
parser.parse_args()
print(cmake_path())
