import os

import pytest
import torch
from torch import distributed
from workers import Workers


def pytest_collection_modifyitems(items):
    everything = os.environ.get("THUNDER_ALL_DISTRIBUTED") == "1"
    for item in items:
        if item.path.parent.name != "distributed":
            continue
        if item.get_closest_marker("slow") and not everything:
            item.add_marker(pytest.mark.skip(reason="`make test-distributed` runs it"))
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


_pool = Workers()


@pytest.fixture(scope="session")
def gloo():
    if not distributed.is_gloo_available():
        pytest.skip("this PyTorch is built without gloo")


@pytest.fixture
def workers(gloo):
    return _pool


def pytest_runtest_teardown(item, nextitem):
    """Idle processes take time from the tests of other folders."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        _pool.stop()
