"""The compiler knows its own exceptions by a mark, and not by their text."""

import sys
import warnings

import pytest
import torch

import thunder
from thunder import _C
from thunder._marks import is_internal, is_ours, is_out_of_bounds, is_refusal, ours, refusal


def mark_of(error):
    return getattr(error, "_thunder_mark", None)


def raised_by(fn, *args, **options):
    with pytest.raises(Exception) as caught:
        thunder.jit(fn, **options)(*args)
    return caught.value


def test_an_error_of_an_operator_is_of_pytorchs_class():
    error = raised_by(torch.add, torch.zeros(3), torch.zeros(4))
    assert type(error) is RuntimeError
    assert mark_of(error) == "compiler"


def test_a_sharp_edge():
    error = raised_by(lambda x: (print("text"), x)[1], torch.zeros(3), sharp_edges="error")
    assert type(error) is RuntimeError
    assert mark_of(error) == "sharp edge"


def test_an_index_that_no_element_has():
    def out_of_bounds(x):
        x[torch.tensor([0]), 9] = 0
        return x

    def too_many(x):
        x[torch.tensor([0]), 0, 0] = 0
        return x

    assert is_out_of_bounds(raised_by(out_of_bounds, torch.zeros(3, 3)))
    error = raised_by(too_many, torch.zeros(3, 3))
    assert type(error) is IndexError
    assert not is_out_of_bounds(error)


def test_refusals_are_plain_exceptions():
    error = refusal("[op] why")
    assert type(error) is NotImplementedError
    assert str(error) == "[op] why"
    assert mark_of(error) == "compiler"
    assert mark_of(ours(TypeError("[op] why"))) == "compiler"
    assert not is_internal(error)


def test_what_tests_ask():
    assert is_refusal(refusal("[op] why"))
    assert is_ours(ours(TypeError("[op] why"))) and not is_refusal(ours(TypeError("[op] why")))
    for others in (NotImplementedError("[op] why"), RuntimeError("[op] why"), None):
        assert not is_refusal(others) and not is_ours(others)
    # nanobind's, of an exception of C++'s library.
    assert is_internal(IndexError("vector::_M_range_check"))
    assert not is_internal(IndexError("list index out of range"))


def test_the_function_meets_a_refusal_as_an_exception():
    def meets(x):
        try:
            x.data_ptr()
        except NotImplementedError as e:
            met.append(mark_of(e))
        return x * 2

    met = []
    torch.testing.assert_close(thunder.jit(meets)(torch.ones(3)), torch.full((3,), 2.0))
    assert met == ["compiler"]


def test_a_refusal_leaves_the_call_to_eager():
    with pytest.warns(UserWarning, match="data_ptr"):
        assert isinstance(thunder.jit(lambda x: x.data_ptr())(torch.zeros(3)), int)


def test_a_text_in_brackets_makes_no_refusal():
    def raises_while_it_is_compiled(x):
        if sys._getframe(1).f_code.co_name != "call":
            raise NotImplementedError("[mine] why")
        return x * 2

    def call(fn):
        return fn(torch.ones(3))

    with pytest.warns(RuntimeWarning, match=r"compiling raised NotImplementedError: \[mine\] why"):
        torch.testing.assert_close(call(thunder.jit(raises_while_it_is_compiled)), torch.full((3,), 2.0))


def test_the_class_of_the_exception_of_a_binding():
    with pytest.raises(TypeError) as caught:
        _C.last_program(torch.add)
    assert mark_of(caught.value) == "compiler"


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda x, n: torch.where(n, x, 2 * x), id="where"),
        pytest.param(lambda x, n: x.masked_fill(n, 1.0), id="masked_fill"),
    ],
)
def test_no_number_stands_for_a_tensor_of_a_wrong_dtype(fn):
    error = raised_by(fn, torch.arange(4.0), torch.tensor(1))
    assert type(error) is RuntimeError
    assert "int64" in str(error)


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(torch.repeat_interleave, id="repeat_interleave"),
        pytest.param(lambda x, n: x.narrow(0, n, 2), id="narrow"),
    ],
)
def test_a_number_stands_for_a_tensor_where_the_operator_wants_one(fn):
    x, n = torch.arange(4.0), torch.tensor(2)
    torch.testing.assert_close(thunder.jit(fn)(x, n), fn(x, n))


def test_a_warning_about_a_sharp_edge_that_is_an_error_ends_the_call():
    ran = []

    def f(x):
        ran.append(1)
        print("a side effect")
        return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(UserWarning, match="sharp_edges"):
            thunder.jit(f, sharp_edges="warn")(torch.ones(2))
    assert ran in ([], [1])  # the interpreter's run alone, and not eager's after it


def test_a_class_does_not_answer_for_an_exception_that_it_wraps():
    class Wrapped(Exception):
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

    def f(x):
        try:
            torch.ones(2)[(5,)]
        except IndexError as e:
            raise Wrapped(e) from e
        return x

    assert not is_internal(Wrapped(ours(ValueError("x"))))
    with pytest.raises(Wrapped):
        thunder.jit(f)(torch.ones(2))
