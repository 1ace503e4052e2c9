"""Options of the test suite.

Most files check operators, passes and the runtime against eager, often bit by bit, which generated kernels are not;
they would also pay for a compiler's run each.  So the embedded fuser stands in the default list only of tests marked
`fuser`, unless `--fuser` puts it into all.
"""

import os

import pytest

pytest.register_assert_rewrite("fusion_checks", "graph_checks")

# Files whose tests say nothing about a device: there the default device decides where their tensors are.
_BY_DEFAULT_DEVICE = (
    "test_jit",
    "test_jit_errors",
    "test_jit_modules",
    "test_inplace",
    "test_shape_ops",
    "test_shared_memory",
    "test_runtime_autograd",
)


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where the tests run: cpu or cuda")
    parser.addoption("--fuser", action="store_true", help="the fuser stays in the default executors in every file")


def pytest_configure(config):
    from thunder import _C

    config.addinivalue_line("markers", "fuser: runs with the embedded fuser among the default executors")
    # A program that raises where the function does not is run by the function: right, but a defect of the compiler's.
    config.addinivalue_line("filterwarnings", r"error:\[jit\] (compiling|the compiled program) raised:RuntimeWarning")
    if not config.getoption("--fuser"):
        _C.remove_default_executor("fuser")
    device = config.getoption("--device")
    os.environ["THUNDER_TEST_DEVICE"] = device
    if device != "cpu":
        # The layouts that kernels give may differ from the CPU's: every result is compared with what the trace says.
        os.environ.setdefault("THUNDER_CHECK_RUN", "1")


def pytest_collection_modifyitems(items):
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(autouse=True)
def _default_device(request):
    device = request.config.getoption("--device")
    if device == "cpu" or request.module.__name__ not in _BY_DEFAULT_DEVICE:
        yield
        return
    import torch

    with torch.device(device):
        yield


@pytest.fixture(autouse=True)
def _default_executors(request):
    from thunder import _C

    if request.config.getoption("--fuser") or not request.node.get_closest_marker("fuser"):
        yield
        return
    before = _C.default_executors()
    operators = [e for e in before if e.name in ("cublaslt", "cudnn", "sdpa")]
    for executor in reversed([*operators, _C.find_executor("fuser")]):
        _C.add_default_executor(executor)  # to the front
    yield
    _C.remove_default_executor("fuser")


@pytest.fixture
def nets():
    from graph_checks import make_nets

    return make_nets()


@pytest.fixture
def recorder():
    from graph_checks import ON_GPU, Recorder

    if ON_GPU:
        pytest.skip("on a GPU PyTorch's graphs record, which nothing but a program can drive")
    return Recorder()


def pytest_terminal_summary(terminalreporter):
    """How many of litgpt's architectures pass all tests that are parametrised by them."""

    def reports(outcome):
        return [r.nodeid for r in terminalreporter.stats.get(outcome, ()) if "test_litgpt.py" in r.nodeid]

    if not reports("passed") and not reports("failed"):
        return
    import test_litgpt

    def architectures(outcome):
        nodes = reports(outcome)
        return {name for name in test_litgpt.ZOO if any(node.endswith((f"[{name}]", f"-{name}]")) for node in nodes)}

    passed, failed = architectures("passed"), architectures("failed")
    terminalreporter.write_line(f"litgpt architectures: {len(passed - failed)} of {len(passed | failed)} pass")
