"""Every in-place form and every out= of PyTorch's operator database against eager.

On tensors of the program's own, on views of them, and on arguments and views of arguments: results, the arguments
afterwards, gradients, that the tensor written to is what is returned, and the type of errors.
"""

import logging
import re
import warnings

import pytest
import torch
from aliasing_checks import difference, tensors
from op_checks import NOT_DETERMINED, name_of, op_db, samples
from short_run import ALL, taken

IN_PLACE = [op for op in op_db if op.inplace_variant is not None]
OUT = [op for op in op_db if op.supports_out and op.name not in NOT_DETERMINED]
PREFERRED = (torch.float64, torch.float32, torch.int64, torch.bool, torch.complex128, torch.bfloat16)


@pytest.fixture(autouse=True)
def _quiet():
    """Eager warns where out= is resized; PyTorch logs what its meta functions refuse."""
    logging.disable(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


def some_samples(op, most):
    dtype = next((d for d in PREFERRED if d in op.supported_dtypes("cpu")), None)
    return [] if dtype is None else samples(op, "cpu", dtype, most=most)


# ---- in place -------------------------------------------------------------------------------------------------------


def on_a_tensor_of_its_own(f):
    def program(x, *args, **kwargs):
        t = x.clone()
        before = t.view_as(t)
        result = f(t, *args, **kwargs)
        return t, before, t.view_as(t), result is t

    return program


def on_a_view(f):
    def program(x, *args, **kwargs):
        base = torch.stack([x, x])
        t = base[1]
        result = f(t, *args, **kwargs)
        return base * 1, t, result is t

    return program


def on_an_argument(f):
    def program(x, *args, **kwargs):
        result = f(x, *args, **kwargs)
        return result.clone(), result is x

    return program


def on_a_view_of_an_argument(f):
    def program(x, *args, **kwargs):
        t = x.view_as(x)
        result = f(t, *args, **kwargs)
        return x.clone(), result is t

    return program


PLACES = (on_a_tensor_of_its_own, on_a_view, on_an_argument, on_a_view_of_an_argument)
NO_DERIVATIVE = r"eager \w+: (the )?derivative for"  # the gradient is that of the form that is not in place
# What may differ, and why.  The data are eager's in each case that gives a result.
IN_PLACE_DIFFERENCES = {
    "addbmm": (r"output with shape", "eager resizes the tensor, which is documented nowhere"),
    "as_strided": (r"refused|written|gradient 0", "an argument keeps its size; a gradient needs to know the offset"),
    "as_strided.partial_views": (r"refused|written|gradient 0|setStorage", "eager loses gradients of older views"),
    "conj_physical": (r"written|eager RuntimeError: a (view of a )?leaf", "of real numbers there is nothing to write"),
    "nn.functional.dropout3d": (r"written|eager RuntimeError: a (view of a )?leaf", "a sample with nothing to drop"),
    "nn.functional.feature_alpha_dropout.with_train": (r"written|leaf", "counts as written to if nothing is dropped"),
    "nn.functional.feature_alpha_dropout.without_train": (r"written|leaf", "likewise"),
    **dict.fromkeys(("lcm", "gcd", "igamma", "igammac"),
                    (r"refused.*would resize", "an error of another type where it would have to broadcast")),
    "resize_": (r"refused|written", "a tensor grows no memory; one of the size it has is not counted as written"),
    "resize_as_": (r"refused|written", "a program's tensors keep their sizes"),
    **dict.fromkeys(
        ("squeeze", "squeeze.multiple", "unsqueeze", "transpose", "t", "swapaxes", "swapdims"),
        (r"refused.*the tensor itself|refused.*another shape|written|eager RuntimeError: a (view of a )?leaf",
         "an argument keeps its size; sizes are no data"),
    ),
}


def check(name, differences, program, args, kwargs, grad):
    found = difference(program, args, kwargs, grad=grad)
    allowed, _ = differences.get(name, ("(?!)", ""))
    assert not found or re.search(f"{allowed}|{NO_DERIVATIVE}", found, re.S), found


@pytest.mark.parametrize("op", [op for op in IN_PLACE if taken("in place " + name_of(op), 2)], ids=name_of)
def test_in_place(op):
    for i, sample in enumerate(some_samples(op, 2 if ALL else 1)):
        if not isinstance(sample.input, torch.Tensor):
            continue
        args = (sample.input, *sample.args)
        for place in PLACES if i == 0 else PLACES[:1]:
            for grad in (False, True) if op.supports_autograd else (False,):
                check(name_of(op), IN_PLACE_DIFFERENCES, place(op.inplace_variant), args, sample.kwargs, grad)


# ---- out= -----------------------------------------------------------------------------------------------------------

OTHER_DTYPE = {torch.float64: torch.int64, torch.complex128: torch.float64}


def results_of(result):
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def into(f, made, views=lambda out: out):
    """A program that gives `made` (tensors), or `views` of them, as out=."""

    def program(*args, several, **kwargs):
        bases = made(args)
        outs = [views(b) for b in bases]
        given = tuple(outs) if several else outs[0]
        results = results_of(f(*args, out=given, **kwargs))
        same = [a is b for a, b in zip(results, outs, strict=True)]
        return (*bases, *(b.view_as(b) for b in bases), *same)

    return program


def into_arguments(f):
    def program(*args, several, outs, **kwargs):
        results = results_of(f(*args, out=tuple(outs) if several else outs[0], **kwargs))
        return (*(r.clone() for r in results), *(a is b for a, b in zip(results, outs, strict=True)))

    return program


def out_programs(f, like):
    """(program, further keyword arguments, whether inputs require grad) for each place."""

    def zeros(*front, dtypes=None):
        return lambda args: [torch.zeros(*front, *t.shape, dtype=(dtypes or {}).get(t.dtype, t.dtype)) for t in like]

    arguments = [torch.zeros(t.shape, dtype=t.dtype) for t in like]
    yield into(f, zeros()), {}, False
    yield into(f, zeros(2), lambda base: base[1]), {}, False
    yield into_arguments(f), {"outs": arguments}, False
    yield into(f, lambda args: [torch.zeros(0, dtype=t.dtype) for t in like]), {}, False
    yield into(f, zeros(dtypes=OTHER_DTYPE)), {}, False
    yield into(f, zeros()), {}, True


LAYOUT = (r"stride", "a result that is new there has the layout of the form without out=")
COUNTED = (r"written", "an argument that eager's kernel leaves alone, or writes to behind the counter")
SOFTER = (r"None, eager RuntimeError", "eager takes one dtype of out= only, here what can be cast is")
DATA_DEPENDENT = (r"size depends on data|must be Tensor, not tuple", "where the result has another size is not known")
COMPOSITE = (r"automatic differentiation|stride", "eager composes it of operators that do not ask")
OUT_DIFFERENCES = {
    **dict.fromkeys(("bitwise_not", "signbit", "isposinf", "isneginf", "isin", "bucketize", "searchsorted", "all",
                     "any", "argmax", "argmin", "multinomial"), SOFTER),
    **dict.fromkeys(("masked_select", "nonzero"), DATA_DEPENDENT),
    **dict.fromkeys(("cholesky", "cholesky_solve", "triangular_solve", "fft.fft", "fft.hfft", "fft.rfft", "fft.ihfft2",
                     "fft.ihfftn", "fft.irfft", "fft.fft2", "fft.fftn", "fft.ifft", "fft.ihfft"), LAYOUT),
    **dict.fromkeys(("_native_batch_norm_legit", "empty", "kron", "svd"), COUNTED),
    **dict.fromkeys(("split_with_sizes_copy", "unbind_copy"),
                    (r"eager (Value|Attribute)Error|automatic", "eager returns None")),
    **dict.fromkeys(("nanmean", "nansum", "normal"), (r"can't be cast|written", "eager computes in the dtype of out=")),
    "normal.number_mean": (r"eager RuntimeError: The size", "eager refuses to resize"),
    "_batch_norm_with_update": (r"eager RuntimeError: Overloaded", "eager takes no out= in this form"),
    "_chunk_cat": (r"RuntimeError.*eager TypeError", "as cat"),
    "lu": (r"refused.*resized", "Python code of PyTorch's resizes"),
    "native_batch_norm": (r"must be a tuple of 5", "what it computes beside its results is written to arguments"),
    "sparse.sampled_addmm": (r"dense tensors", "of another layout, of which the error is another, too"),
    **dict.fromkeys(("diff", "quantile", "nanquantile", "linalg.cond", "linalg.matrix_power", "linalg.tensorinv",
                     "linalg.norm", "linalg.norm.subgradients_at_zero", "linalg.multi_dot", "linalg.tensorsolve",
                     "linalg.vander", "linalg.matrix_norm", "tensordot", "norm.nuc", "special.ndtr"), COMPOSITE),
    **dict.fromkeys(("cat", "stack", "hstack", "vstack", "dstack", "column_stack"),
                    (r"RuntimeError.*eager TypeError", "eager's type of this error is another than elsewhere")),
    **dict.fromkeys(("cumsum", "cumprod", "linspace", "linspace.tensor_overload", "logspace",
                     "logspace.tensor_overload", "bernoulli"),
                    (r"can't be cast", "eager computes in the dtype of out=")),
}


@pytest.mark.parametrize("op", [op for op in OUT if taken(name_of(op), 2)], ids=name_of)
def test_out(op):
    for sample in some_samples(op, 1):
        args = (sample.input, *sample.args)
        try:
            torch.manual_seed(0)
            like = op(*args, **sample.kwargs)
        except Exception:  # noqa: BLE001, S112  # a sample for something else
            continue
        several = isinstance(like, (tuple, list))
        like = list(like) if several else [like]
        if not all(isinstance(t, torch.Tensor) for t in like):
            continue
        for program, more, grad in out_programs(op.op, like):
            if not grad or op.supports_autograd:
                check(name_of(op), OUT_DIFFERENCES, program, args, {**sample.kwargs, "several": several, **more}, grad)


def test_what_is_compared():
    """The database has what this file is about."""
    assert len(IN_PLACE) > 150 and len(OUT) > 320
    assert not tensors([1, "a"])
