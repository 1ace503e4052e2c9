"""A suite in parts that remembers what has passed: `make test-all SHARD=3/16`, again after it was stopped.

What passed is a line of a file in a folder that is named by all that the result depends on: the extension, the Python
files, the device, the environment.  So another part, another number of parts or another run goes on where the last one
stopped, and a change begins anew.
"""

import hashlib
import os
import pathlib
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def add_options(parser):
    parser.addoption("--shard", help="k/n: the k-th of n parts, k from 1; what has passed is not run again")
    parser.addoption("--state", default=str(ROOT / "build" / "test-all"), help="where it is kept what has passed")


def fingerprint(device):
    """Of what decides whether a test passes."""
    import torch

    from thunder import _C

    seen = hashlib.sha256(f"{torch.__version__} {device}".encode())
    files = [pathlib.Path(_C.__file__)]
    for folder in ("thunder", "tests/python", "tests/models"):
        files += sorted((ROOT / folder).rglob("*.py"))
    for file in files:
        seen.update(file.name.encode() + file.read_bytes())
    for name in sorted(os.environ):
        if name == "CXX" or name.startswith("THUNDER_") and name != "THUNDER_CACHE_DIR":
            seen.update(f"{name}={os.environ[name]}".encode())
    return seen.hexdigest()[:16]


def part_of(text):
    k, _, n = text.partition("/")
    if not (k.isdigit() and n.isdigit() and 1 <= int(k) <= int(n)):
        raise pytest.UsageError(f"--shard {text}: expected k/n with k from 1 to n")
    return int(k), int(n)


class Shard:
    """Selects; and, in the process that hears of all results, keeps what passed."""

    def __init__(self, config):
        self._part = part_of(config.getoption("--shard"))
        self._failed = set()
        inputs = getattr(config, "workerinput", None)
        if inputs:  # what was known when the run began: a worker that is started again must select the same
            self._before, self._out = set(inputs["passed_before"]), None
            return
        folder = pathlib.Path(config.getoption("--state")) / fingerprint(config.getoption("--device"))
        folder.mkdir(parents=True, exist_ok=True)
        self._before = {line for file in folder.glob("*.passed") for line in file.read_text().splitlines()}
        self._out = open(folder / f"{self._part[0]}-of-{self._part[1]}.passed", "a", buffering=1)

    def pytest_collection_modifyitems(self, config, items):
        k, n = self._part
        mine = [item for item in items if zlib.crc32(item.nodeid.encode()) % n == k - 1]
        left = [item for item in mine if item.nodeid not in self._before]
        kept = set(left)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = left

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._failed.add(report.nodeid)
        elif self._out and report.when == "teardown" and report.nodeid not in self._failed:
            self._out.write(report.nodeid + "\n")

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:  # all of them had passed
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter):
        k, n = self._part
        terminalreporter.write_line(f"part {k} of {n}; {len(self._before)} tests of the whole passed before this run")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        node.workerinput["passed_before"] = sorted(self._before)


def configure(config):
    if config.getoption("--shard"):
        config.pluginmanager.register(Shard(config), "shard")
