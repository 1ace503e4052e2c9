"""The primitives, under the name by which printed traces import them."""

from thunder.symbols import language

__getattr__, __dir__ = language("prims")
