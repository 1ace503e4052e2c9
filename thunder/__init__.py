"""Thunder: a source-to-source compiler for PyTorch."""

import torch  # noqa: F401  # first: it loads the libraries that the extension links by name

from . import _C  # noqa: F401

__version__ = "0.1.0"
