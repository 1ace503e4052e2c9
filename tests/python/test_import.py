"""The package imports, and its extension is the one built from this checkout's sources."""

import importlib.machinery
import subprocess
import sys

import thunder


def test_extension_is_compiled():
    assert thunder._C.__file__.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    assert thunder._C.__doc__


def test_import_in_a_fresh_process_without_torch_first():
    # The extension has no rpath: `import thunder` alone must load PyTorch's libraries before it.
    subprocess.run([sys.executable, "-c", "import thunder"], check=True)
