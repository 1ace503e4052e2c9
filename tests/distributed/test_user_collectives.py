"""Programs that communicate by themselves give what eager gives."""

import pytest
import user_collectives

CASES = [
    user_collectives.errors,
    user_collectives.in_place,
    user_collectives.written_afterwards,
    user_collectives.checkpointed,
    user_collectives.other_shapes,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(workers, case):
    workers.run(2, case)


def test_as_eager(workers):
    workers.run(2, user_collectives.same_as_eager, False)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_every_one_as_eager(workers, world):
    workers.run(world, user_collectives.same_as_eager, True)


def test_order_of_two_groups(workers):
    workers.run(3, user_collectives.two_groups_of_workers)


@pytest.mark.parametrize("strategy", ["ddp", "ZERO2", "ZERO3"])
def test_inside_a_wrapped_model(workers, strategy):
    workers.run(2, user_collectives.inside_wrapped, strategy)
