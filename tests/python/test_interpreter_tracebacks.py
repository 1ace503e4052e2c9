"""Exceptions that pass through interpreted frames: their tracebacks, causes and contexts are CPython's."""

import sys

import pytest
from interpreter_failures import FAILING, fail, in_a_call, interpret, raised


@pytest.mark.parametrize("f", FAILING, ids=lambda f: f.__name__)
def test_tracebacks_are_cpythons(f):
    expected = raised(f)
    assert expected[2], "no entries"
    assert raised(interpret, f) == expected


def test_an_exception_handled_outside_is_the_context():
    def outer(run):
        try:
            fail("first")
        except ValueError:
            run(in_a_call)

    assert raised(outer, interpret)[3] == raised(outer, lambda f: f())[3]
    assert sys.exc_info() == (None, None, None)


def test_exc_info_while_handled():
    def inside():
        before = sys.exc_info()
        try:
            fail("one")
        except ValueError:
            during = sys.exc_info()[0]
            try:
                fail("two")
            except ValueError as e:
                inner = e.__context__.args
        return before, during, inner, sys.exc_info()

    assert interpret(inside) == inside() == ((None,) * 3, ValueError, ("one",), (None,) * 3)
