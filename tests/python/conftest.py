import os

import pytest

# Files whose tests say nothing about a device: there the default device decides where their tensors are.
_BY_DEFAULT_DEVICE = ("test_jit", "test_inplace", "test_shape_ops", "test_shared_memory", "test_runtime_autograd")


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where the tests run: cpu or cuda")


def pytest_configure(config):
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
