"""NumPy's functions over tensors: a second language, one function a record of the registry.

    import thunder.numpy as tnp

    @thunder.jit
    def f(a):
        return tnp.sum(tnp.exp(a), axis=(0, -1), keepdims=True)

`@tnp.language` makes methods, operators and NumPy's own functions mean NumPy's in a function, too:

    @thunder.jit
    @tnp.language
    def g(a):
        return np.sqrt(a / a.size).sum(axis=0).T.astype(np.float32)
"""

import math

import torch

from thunder import _C
from thunder._tracing import current_tracer
from thunder.symbols import Language
from thunder.symbols import language as _language

try:
    import numpy as _numpy
except ImportError:  # PyTorch does without it, and so do the functions here
    _numpy = None

_symbols, __dir__ = _language("numpy")

newaxis, pi, e, inf, nan = None, math.pi, math.e, math.inf, math.nan
_DTYPES = {
    name: getattr(torch, torch_name)
    for name, torch_name in {
        "bool": "bool", "bool_": "bool", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
        "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "float16": "float16",
        "float32": "float32", "float64": "float64", "complex64": "complex64", "complex128": "complex128",
    }.items()
}


def __getattr__(name):
    return _DTYPES[name] if name in _DTYPES else _symbols(name)


def _size(a):
    return math.prod(current_tracer().shape(a))


def _dtype(a):
    """NumPy's, where it has that dtype: what programs compare with and pass on."""
    name = str(a.dtype).removeprefix("torch.")
    return _numpy.dtype(name) if _numpy is not None and name in _DTYPES else a.dtype


language = Language("numpy", _numpy, {"size": _size, "dtype": _dtype})

if _numpy is not None:
    names = [(name, str(dtype).removeprefix("torch.")) for name, dtype in _DTYPES.items() if hasattr(_numpy, name)]
    _C.add_dtypes([(meaning, name) for alias, name in names
                   for meaning in (getattr(_numpy, alias), _numpy.dtype(getattr(_numpy, alias)))])
