"""Options of the test suite.

Most files check operators, passes and the runtime against eager, often bit by bit, which generated kernels are not; they would
also pay for a compiler's run each.  So the embedded fuser stands in the default list only of tests marked `fuser`, unless
`--fuser` puts it into all.
"""

import pytest

from thunder import _C


def pytest_addoption(parser):
    parser.addoption("--fuser", action="store_true", help="the fuser stays in the default executors in every file")


def pytest_configure(config):
    config.addinivalue_line("markers", "fuser: runs with the embedded fuser among the default executors")
    if not config.getoption("--fuser"):
        _C.remove_default_executor("fuser")


@pytest.fixture(autouse=True)
def default_executors(request):
    if request.config.getoption("--fuser") or not request.node.get_closest_marker("fuser"):
        yield
        return
    for name in ("fuser", "sdpa"):  # each to the front
        _C.add_default_executor(_C.find_executor(name))
    yield
    _C.remove_default_executor("fuser")
