"""The operators of the prims level, one function a record of the registry."""

from thunder.symbols import language

__getattr__, __dir__ = language("prims")
