"""Runs the tests of one of CPython's own test files, plainly or with their bodies under the bytecode interpreter.

    conformance_child.py FILE plain|interpreted RECORDS FROM SECONDS

One JSON record a line goes to RECORDS, each before the next thing starts, so that a crash or a hang names its test. The
tests are numbered in the order in which unittest loads them; those before FROM are left out.
"""

import dis
import faulthandler
import importlib
import json
import os
import pathlib
import sys
import threading
import traceback
import unittest

TOOL = "thunder.conformance"
RESUME = dis.opmap["RESUME"]
# Files of code that the interpreter makes for its own use, and of the compiler itself, which it never interprets.
OWN = ("<one instruction>", str(pathlib.Path(__file__).resolve().parents[1] / "thunder") + os.sep)


class Records:
    """Lines written at once, without a buffer that a crash would lose or a forked test write again."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **record):
        os.write(self.file, (json.dumps(record) + "\n").encode())


def handles(code, place):
    return any(entry.start <= place < entry.end for entry in dis._parse_exception_table(code))


class Monitor:
    """Counts the Python frames that CPython's own loop starts or resumes in threads that are being interpreted.

    Interpreted frames cause no such events, but for one: CPython's loop ends a frame that an exception leaves, and to
    it that looks as if the exception were thrown in. So of throws only those count that the frame handles, since then
    more of its code runs. From 3.12 the events are those of sys.monitoring, which tests do not turn off; before,
    those of sys.setprofile.
    """

    def __init__(self):
        self.events = {}  # how often, by code, place in it and whether it was a throw
        self.threads = set()  # those being interpreted
        if sys.version_info >= (3, 12):
            events, tool = sys.monitoring.events, sys.monitoring.PROFILER_ID
            sys.monitoring.use_tool_id(tool, TOOL)
            sys.monitoring.register_callback(tool, events.PY_START, self.on_start)
            sys.monitoring.register_callback(tool, events.PY_RESUME, self.on_start)
            sys.monitoring.register_callback(tool, events.PY_THROW, self.on_throw)
            sys.monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.PY_THROW)

    # These call no Python function: they run where a test is at the limit of recursion, too.

    def on_start(self, code, place):
        if threading.get_ident() in self.threads:
            self.events[code, place, False] = self.events.get((code, place, False), 0) + 1

    def on_throw(self, code, place, _):
        if threading.get_ident() in self.threads:
            self.events[code, place, True] = self.events.get((code, place, True), 0) + 1

    def on_profile(self, frame, event, _):
        if event == "call":
            code, place = frame.f_code, frame.f_lasti
            key = code, place, code.co_code[place] != RESUME
            self.events[key] = self.events.get(key, 0) + 1

    def take_frames(self):
        """How many since the last time, by "file:function"."""
        frames = {}
        for (code, place, thrown), n in self.events.items():
            if not code.co_filename.startswith(OWN) and (not thrown or handles(code, place)):
                name = f"{code.co_filename}:{code.co_qualname}"
                frames[name] = frames.get(name, 0) + n
        self.events = {}
        return frames

    def call(self, run, *args):
        """Calls `run`, a C function, and counts meanwhile."""
        thread = threading.get_ident()
        self.threads.add(thread)
        if sys.version_info < (3, 12):
            sys.setprofile(self.on_profile)
        try:
            return run(*args)
        finally:
            if sys.version_info < (3, 12):
                sys.setprofile(None)
            self.threads.discard(thread)


def interpret_tests(interpret, monitor):
    """Lets `interpret` run each test (set-up, body, tear-down, clean-ups), and the threads that it starts."""

    def interpreted(function):
        def call(*args, **kwargs):
            if threading.get_ident() in monitor.threads:  # a test that runs tests
                return function(*args, **kwargs)
            return monitor.call(interpret, function, args, kwargs)

        return call

    for owner in (unittest.TestCase, unittest.IsolatedAsyncioTestCase):
        for name in ("_callSetUp", "_callTestMethod", "_callTearDown", "_callCleanup"):
            if name in vars(owner):
                setattr(owner, name, interpreted(vars(owner)[name]))
    threading.Thread._bootstrap = interpreted(threading.Thread._bootstrap)


def first_line(error):
    """The line of an exception that says most: the first, of a syntax error the last, below its place."""
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return lines[-1 if isinstance(error, SyntaxError) else 0]


class Result(unittest.TestResult):
    def __init__(self, records, numbers, seconds, monitor):
        super().__init__()
        self.records, self.numbers, self.seconds, self.monitor = records, numbers, seconds, monitor
        self.outcome = None

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("no outcome", "")
        self.records.write(start=self.numbers[id(test)])
        faulthandler.dump_traceback_later(self.seconds, exit=True)

    def stopTest(self, test):
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)
        kind, detail = self.outcome
        self.records.write(done=self.numbers[id(test)], outcome=kind, detail=detail, native=self.monitor.take_frames())

    def failed(self, test, error):
        self.outcome = ("failed", first_line(error[1]))
        print(f"\n==== {test.id()}", file=sys.__stderr__)
        traceback.print_exception(*error, file=sys.__stderr__)

    def addSuccess(self, test):
        self.outcome = ("ok", "")

    def addError(self, test, error):
        self.failed(test, error)

    def addFailure(self, test, error):
        self.failed(test, error)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.failed(subtest, error)

    def addSkip(self, test, reason):
        self.outcome = ("skipped", reason)

    def addExpectedFailure(self, test, error):
        self.outcome = ("expected failure", "")

    def addUnexpectedSuccess(self, test):
        self.outcome = ("unexpected success", "")


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.BaseTestSuite):
            yield from flat(test)
        else:
            yield test


def names_of(tests):
    """Each test's id, made unique: some files load a test twice."""
    seen, names = {}, []
    for test in tests:
        seen[test.id()] = seen.get(test.id(), 0) + 1
        names.append(test.id() if seen[test.id()] == 1 else f"{test.id()}#{seen[test.id()]}")
    return names


def check_monitor(monitor, interpret):
    """The monitor must see what CPython's loop runs, and nothing else."""

    def body():
        return sum(i for i in range(3))

    monitor.call(list, map(lambda f: f(), [body]))
    counted = {name.rpartition(".")[2]: n for name, n in monitor.take_frames().items()}
    # The generator is started once and resumed three times.
    assert counted == {"<lambda>": 1, "body": 1, "<genexpr>": 4}, counted
    assert monitor.call(interpret, body, (), None) == 3
    counted = monitor.take_frames()
    assert not counted, counted


def main(name, mode, path, first, seconds):
    from test import support

    support.use_resources = ["cpu"]  # no network, no windows
    faulthandler.enable(sys.__stderr__)
    records, monitor = Records(path), Monitor()
    # Before thunder is imported: PyTorch brings typing_extensions, which replaces functions of typing with doctests.
    tests = list(flat(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test.{name}"))))
    if mode == "interpreted":
        import thunder
        from thunder import _C

        assert thunder
        check_monitor(monitor, _C.interpret)
        interpret_tests(_C.interpret, monitor)
    if int(first) == 0:
        records.write(tests=names_of(tests))
    numbers = {id(test): i for i, test in enumerate(tests)}
    suite = unittest.TestSuite(tests[int(first) :])
    suite._cleanup = False  # numbers are by identity
    suite.run(Result(records, numbers, float(seconds), monitor))
    if mode == "interpreted":
        records.write(opcodes=_C.interpreter_counts(), handed=list(_C.natively_run()))
    records.write(finished=True)


if __name__ == "__main__":
    sys.argv, arguments = sys.argv[:1], sys.argv[1:]
    main(*arguments)
