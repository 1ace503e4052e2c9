"""Modules that PyTorch's own parallelize_module was called on, compiled: what eager PyTorch does."""

import itertools

import dtensor_models
import dtensors
import pytest

SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", dtensors.STYLES)
@pytest.mark.parametrize("world", [2, pytest.param(3, marks=SLOW)])
def test_styles(workers, world, name):
    workers.run(world, dtensors.styles, name)


@pytest.mark.parametrize("reason", dtensors.LEFT_TO_EAGER)
def test_left_to_eager(workers, reason):
    workers.run(2, dtensors.left_to_eager, reason)


CASES = [dtensors.errors, dtensors.changes, dtensors.sizes, dtensors.views, dtensors.functions]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(workers, case):
    workers.run(2, case)


@pytest.mark.parametrize("way", ["alone sequence", "ZERO2 sequence", pytest.param("ZERO3 sequence", marks=SLOW)])
def test_functions_of_thunders(workers, way):
    workers.run(2 if way.startswith("alone") else 4, dtensor_models.thunders_functions, way)


@pytest.mark.parametrize("case", [dtensor_models.mixed_precision, dtensor_models.errors])
def test_case_of_shards(workers, case):
    workers.run(4, case, seconds=100)


EXTRAS = ["plain", "checkpointing", "accumulation", "after eager", "optimizer afterwards"]
OFTEN = {
    ("alone", "plain"), ("alone sequence", "checkpointing"), ("alone sequence", "optimizer afterwards"),
    ("ZERO3 sequence", "after eager"), ("ZERO2", "accumulation"),
}  # fmt: skip
WAYS = ["alone", "alone sequence", "ZERO2", "ZERO2 sequence", "ZERO3", "ZERO3 sequence", "copies sequence"]


@pytest.mark.parametrize(
    "way, extra",
    [pytest.param(w, e, marks=[] if (w, e) in OFTEN else SLOW) for w, e in itertools.product(WAYS, EXTRAS)],
)
def test_steps(workers, way, extra):
    workers.run(2 if way.startswith("alone") else 4, dtensor_models.steps, way, extra)
