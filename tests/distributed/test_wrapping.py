"""Wrapped modules in programs as users write them."""

import subprocess
import sys
from pathlib import Path

import pytest
import wrapping

STRATEGIES = ["ddp", "ZERO2", "ZERO3"]
CASES = [
    wrapping.other_shapes,
    wrapping.evaluation,
    wrapping.two_forwards,
    wrapping.branches,
    wrapping.state_dicts,
    wrapping.module_attributes,
    wrapping.function_around,
    wrapping.refusals,
    wrapping.autocast,
    wrapping.no_sync_alone,
]
OFTEN_IN_COPIES = {(wrapping.branches, "ZERO3 hybrid"), (wrapping.no_sync_alone, "ZERO2 hybrid")}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(workers, case, strategy):
    workers.run(2, case, strategy)


@pytest.mark.parametrize(
    "case, strategy",
    [
        pytest.param(case, strategy, id=f"{case.__name__}-{strategy}", marks=[] if often else pytest.mark.slow)
        for case in CASES
        for strategy in ("ZERO2 hybrid", "ZERO3 hybrid")
        for often in [(case, strategy) in OFTEN_IN_COPIES]
    ],
)
def test_case_of_shards_in_several_copies(workers, case, strategy):
    workers.run(4, case, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("norm_type", [1, 2, 3.5, float("inf")])
def test_norms(workers, strategy, norm_type):
    workers.run(3, wrapping.norms, strategy, norm_type)


def test_transports(workers):
    workers.run(2, wrapping.transports)


def test_refusals_of_shards(workers):
    workers.run(2, wrapping.refusals_of_shards)


def test_meta_device(workers):
    workers.run(2, wrapping.meta_device)


def test_fake_group():
    """The programs of one process of a larger world, on one machine."""
    program = Path(__file__).with_name("fake_group.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "done\n", done.stdout + done.stderr
