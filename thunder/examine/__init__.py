"""What Thunder makes of a function: `examine(fn, *args, **kwargs)`."""

from ._collect import Function, collect
from ._memory import Memory, predicted_memory
from ._report import Comparison, Report, examine

__all__ = ["Comparison", "Function", "Memory", "Report", "collect", "examine", "predicted_memory"]
