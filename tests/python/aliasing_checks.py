"""A function against eager where it writes in place: results, arguments afterwards, gradients, identities, errors."""

import copy

import torch

import thunder
from thunder._marks import is_refusal


def registry():
    """An empty table, and a decorator that puts functions into it by their names."""
    programs = {}

    def program(f):
        programs[f.__name__] = f
        return f

    return programs, program


def tensors(x):
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in tensors(item)]
    return tensors(list(x.values())) if isinstance(x, dict) else []


def fresh(x, grad):
    """Copies with the same strides; those of floating dtypes require grad if `grad`."""
    if isinstance(x, torch.Tensor):
        # clone() would lay out anew what has gaps or overlaps.
        y = copy.deepcopy(x.detach()) if x.layout == torch.strided else x.detach().clone()
        return y.requires_grad_() if grad and (y.is_floating_point() or y.is_complex()) else y
    if isinstance(x, (list, tuple)):
        return type(x)(fresh(item, grad) for item in x)
    return {k: fresh(v, grad) for k, v in x.items()} if isinstance(x, dict) else x


class Outcome:
    """What a call gave.  `error`: the exception, in the call or in the backward."""

    def __init__(self, f, args, kwargs, grad):
        args, kwargs = fresh(args, grad), fresh(kwargs, grad)
        self.error = self.gradients = None
        self.inputs = tensors((args, kwargs))
        try:
            torch.manual_seed(0)
            results = f(*args, **kwargs)
            self.outputs = tensors(results)
            self.others = [r for r in results if not isinstance(r, torch.Tensor)] if isinstance(results, tuple) else []
            self.written = [t._version > 0 for t in self.inputs]
            if grad:
                self.gradients = self._backward()
        except Exception as e:  # compared with eager's
            self.error = e

    def _backward(self):
        outputs = [t for t in self.outputs if t.requires_grad]
        leaves = [t for t in self.inputs if t.is_leaf and t.requires_grad]
        if not outputs or not leaves:
            return [None] * len(leaves)
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in outputs]
        return torch.autograd.grad(outputs, leaves, weights, allow_unused=True)

    def refused(self):
        """An error that says that this is not supported."""
        return is_refusal(self.error)


def difference(f, args, kwargs=None, grad=False, compiled=None):
    """What is not eager's; empty if nothing.  "refused: ..." for a clear error where eager gives a result."""
    expected = Outcome(f, args, kwargs or {}, grad)
    actual = Outcome(compiled or thunder.jit(f), args, kwargs or {}, grad)
    if actual.error is not None or expected.error is not None:
        return _errors(actual.error, expected.error, actual.refused())
    if actual.others != expected.others:
        return f"other results {actual.others}, eager's {expected.others}"
    if actual.written != expected.written:
        return f"written to {actual.written}, eager {expected.written}"
    return (_tensors("result", actual.outputs, expected.outputs)
            or _tensors("argument", actual.inputs, expected.inputs)
            or (grad and _gradients(actual.gradients, expected.gradients)) or "")


def _errors(actual, expected, refused):
    if refused:
        return f"refused: {actual}"
    if type(actual) is type(expected):
        return ""
    return f"{type(actual).__name__}: {actual}, eager {type(expected).__name__}: {expected}"


def _tensors(what, actual, expected):
    if len(actual) != len(expected):
        return f"{len(actual)} {what}s, eager {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        for property_of in ("dtype", "shape", "stride", "requires_grad"):
            mine, theirs = (p() if callable(p := getattr(t, property_of)) else p for t in (a, e))
            if mine != theirs and (property_of != "stride" or e.numel()):
                return f"{what} {i}: {property_of} {mine}, eager's {theirs}"
        if difference := _values(a, e):
            return f"{what} {i}: {difference}"
    return ""


def _values(a, e):
    try:
        torch.testing.assert_close(a, e, equal_nan=True)
    except AssertionError as error:
        return str(error).replace("\n", " ")
    return ""


def _gradients(actual, expected):
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        if a is None or e is None:
            if any(g is not None and g.any() for g in (a, e)):
                return f"gradient {i}: none where eager has one" if a is None else f"gradient {i}: eager has none"
        elif wrong := _values(a, e):
            return f"gradient {i}: {wrong}"
    return ""
