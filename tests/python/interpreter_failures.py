"""Programs that raise in all the ways there are, and what can be seen of an exception."""

import contextlib
import functools
import time
import traceback

from thunder import _C

interpret = lambda f, *args, **kwargs: _C.interpret(f, args, kwargs)


def raised(call, *args):
    """What `call` raises: its type and text, and the file, line, columns and function of each entry, causes too."""
    try:
        call(*args)
    except BaseException as error:
        return _described(error)
    raise AssertionError("nothing was raised")


def _described(error, seen=()):
    if error is None or error in seen:
        return None
    # Below the call itself: the entries of this file's helpers are not of interest.
    entries = [
        (e.filename, e.lineno, e.end_lineno, e.colno, e.end_colno, e.name)
        for e in traceback.extract_tb(error.__traceback__)
        if e.name not in ("raised", "<lambda>", "interpret")
    ]
    seen = (*seen, error)
    related = [_described(e, seen) for e in (error.__cause__, error.__context__)]
    parts = [_described(e, seen) for e in getattr(error, "exceptions", ())]
    return type(error), str(error), entries, related, error.__suppress_context__, parts


# ---- programs that raise --------------------------------------------------------------------------------------------


def fail(message="wrong"):
    raise ValueError(message)


def in_a_call():
    x = 1
    fail()
    return x


def in_an_operator():
    return [1 / n for n in (2, 1, 0)]


def in_a_generator():
    def numbers():
        yield 1
        yield fail()

    return sum(numbers())


def below_a_c_function():
    return sorted([2, 1], key=lambda v: fail(str(v)))


def raised_from():
    try:
        in_a_call()
    except ValueError as e:
        raise KeyError("other") from e


def raised_while_handled():
    try:
        in_a_call()
    except ValueError:
        {}["missing"]


def raised_from_none():
    try:
        in_a_call()
    except ValueError:
        raise KeyError("other") from None


def raised_again():
    try:
        in_a_call()
    except ValueError:
        time.sleep(0)
        raise


def raised_again_by_name():
    try:
        in_a_call()
    except ValueError as e:
        raise e


def in_finally():
    try:
        in_a_call()
    finally:
        in_an_operator()


def through_finally():
    try:
        in_a_call()
    finally:
        time.sleep(0)


class Manager:
    def __init__(self, swallow=False, fails=False):
        self.swallow, self.fails = swallow, fails

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.fails:
            fail("exit")
        return self.swallow


def through_with():
    with Manager(), Manager(swallow=False):
        in_a_call()


def in_exit():
    with Manager(fails=True):
        in_a_call()


def after_swallowed():
    with Manager(swallow=True):
        in_a_call()
    fail("second")


def through_context_manager():
    @contextlib.contextmanager
    def manager():
        try:
            yield
        except ValueError as e:
            raise RuntimeError("in the manager") from e

    with manager():
        in_a_call()


def in_a_class_body():
    class Body:
        a = 1
        b = a / 0

    return Body


def in_init():
    class Made:
        def __init__(self):
            fail("init")

    return Made()


def in_a_property():
    class Owner:
        @property
        def value(self):
            return fail("property")

    return Owner().value


def in_arguments():
    return fail(1, 2, three=3)


def in_default():
    def inner(a=fail("default")):  # noqa: B008  (a default that raises is what is to be seen)
        return a

    return inner


def in_deep_recursion(n=30):
    return in_deep_recursion(n - 1) if n else fail("deep")


def throw_into_a_generator():
    def numbers():
        try:
            yield 1
        except ValueError:
            yield fail("again")

    it = numbers()
    next(it)
    it.throw(ValueError("thrown"))


def delegated():
    def inner():
        yield 1
        fail("inner")

    def outer():
        yield from inner()

    return list(outer())


def in_a_group():
    errors = []
    for n in range(2):
        try:
            fail(str(n))
        except ValueError as e:
            errors.append(e)
    try:
        raise ExceptionGroup("both", [*errors, TypeError("third")])
    except* ValueError:
        pass


def unbound():
    if len("") > 0:
        value = 1
    return value


def assertion():
    assert len("abc") == 2, "of three"


def several_lines():
    return (
        1
        + len(
            "abc",
        )
        + None
    )


@functools.cache
def cached():
    return fail("cached")


FAILING = [
    in_a_call,
    in_an_operator,
    in_a_generator,
    below_a_c_function,
    raised_from,
    raised_while_handled,
    raised_from_none,
    raised_again,
    raised_again_by_name,
    in_finally,
    through_finally,
    through_with,
    in_exit,
    after_swallowed,
    through_context_manager,
    in_a_class_body,
    in_init,
    in_a_property,
    in_arguments,
    in_default,
    in_deep_recursion,
    throw_into_a_generator,
    delegated,
    in_a_group,
    unbound,
    assertion,
    several_lines,
    cached,
]
