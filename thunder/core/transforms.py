"""Gradient rules."""

from ..extend.executors import get_grad, put_grad, register_grad

__all__ = ["get_grad", "put_grad", "register_grad"]
