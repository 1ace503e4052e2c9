"""Options of the test suite, which runs what users get: the default executors, and every trace verified."""

import gc
import os
import random
import zlib

import pytest
import shards

pytest.register_assert_rewrite("fusion_checks", "graph_checks")

# Files whose tests say nothing about a device: there the default device decides where their tensors are.
_BY_DEFAULT_DEVICE = (
    "test_float8",
    "test_float8_delayed",
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
    parser.addoption("--seed", type=int, default=0, help="other random numbers in every test")
    shards.add_options(parser)


def pytest_configure(config):
    config.addinivalue_line("markers", "fuser: about fused kernels; -m fuser selects such tests")
    # A program that raises where the function does not is run by the function: right, but a defect of the compiler's.
    config.addinivalue_line("filterwarnings", r"error:\[jit\] (compiling|the compiled program) raised:RuntimeWarning")
    # So is a call that eager runs, which would be compared with itself: a test that is about such a call expects it.
    config.addinivalue_line("filterwarnings", r"error:(?s).*runs by eager PyTorch:UserWarning")
    os.environ.setdefault("THUNDER_VERIFY", "1")
    device = config.getoption("--device")
    os.environ["THUNDER_TEST_DEVICE"] = device
    if device != "cpu":
        # The layouts that kernels give may differ from the CPU's: every result is compared with what the trace says.
        os.environ.setdefault("THUNDER_CHECK_RUN", "1")
    shards.configure(config)
    if workers := getattr(config, "workerinput", {}).get("workercount"):
        _share_cores(workers)


def _share_cores(workers):
    """Two threads at least, so that loops are divided among threads as users' are."""
    import torch

    torch.set_num_threads(max(2, len(os.sched_getaffinity(0)) // workers))


def pytest_collection_modifyitems(items):
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collection_finish():
    """What was imported stays: no garbage collection needs to walk through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _seed(request):
    """A test's random numbers follow from its name, so that the order of the tests decides nothing."""
    import devices
    import torch

    seed = zlib.crc32(request.node.nodeid.encode()) + request.config.getoption("--seed")
    random.seed(seed)
    with devices.seeds_of_the_cpu():
        torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def _default_device(request):
    device = request.config.getoption("--device")
    if device == "cpu" or request.module.__name__ not in _BY_DEFAULT_DEVICE:
        yield
        return
    import torch

    with torch.device(device):
        yield


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
