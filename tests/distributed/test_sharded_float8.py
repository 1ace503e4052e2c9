"""Layers in float8 of models that are replicated or sharded."""

import float8_cases
import pytest


@pytest.mark.parametrize("strategy", ["ddp", "ZERO2", "ZERO3"])
def test_gradients(workers, strategy):
    workers.run(2, float8_cases.gradients, strategy)


@pytest.mark.parametrize("strategy", ["ddp", "ZERO3"])
def test_delayed_scaling_is_refused(workers, strategy):
    workers.run(2, float8_cases.delayed_is_refused, strategy)
