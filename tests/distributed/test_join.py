"""Processes with different numbers of batches."""

import itertools

import adopted_joins
import joins
import pytest

STRATEGIES = ["ddp", "ZERO2", "ZERO3"]
OFTEN = {("ddp", "0 first", "SGD alone"), ("ZERO3", "0 first", "AdamW")}
COUNTS = {"0 first": [0, 3], "0 last": [4, 0], "three": [1, 0, 3], "0 first of three": [0, 2, 1]}
WAYS = {
    "SGD alone": {"with_step": False},
    "SGD": {},
    "AdamW": {"optimizer": "AdamW"},
    "those with data": {"by_world": False},
    "shapes": {"shapes": True},
    "accumulation": {"micro": 3},
}


def _settings():
    for strategy, counts, way in itertools.product(STRATEGIES, COUNTS, WAYS):
        if strategy != "ddp" and way == "SGD alone":
            continue
        marks = [] if (strategy, counts, way) in OFTEN else pytest.mark.slow
        yield pytest.param(strategy, COUNTS[counts], WAYS[way], id=f"{strategy}-{counts}-{way}", marks=marks)


@pytest.mark.parametrize("strategy, counts, options", list(_settings()))
def test_steps(workers, strategy, counts, options):
    names = ("optimizer", "with_step", "by_world", "shapes", "micro")
    defaults = ("SGD", True, True, False, 1)
    given = [options.get(name, default) for name, default in zip(names, defaults, strict=True)]
    workers.run(len(counts), joins.steps, strategy, counts, *given)


CASES = [
    (joins.epochs, 2), (joins.epochs, 3), (joins.other_calls, 2), (joins.terminations, 2), (joins.exceptions, 2),
    (joins.calls_of_two_kinds, 3), (joins.functions_around, 2), (joins.joined_within_no_sync, 2),
    (joins.shadows_are_alike, 3),
]  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_refusals(workers, strategy):
    workers.run(2, joins.refusals, strategy)


HYBRIDS = ["ZERO2 hybrid", "ZERO3 hybrid", "ZERO3 hybrid of one", "ZERO3 hybrid of four"]
COUNTS_OF_COPIES = {"no data in the first copy": [0, 0, 3, 1], "no data in some": [2, 0, 0, 3]}


def _of_copies():
    for strategy, counts, way in itertools.product(HYBRIDS, COUNTS_OF_COPIES, WAYS):
        often = (strategy, counts, way) == ("ZERO3 hybrid", "no data in the first copy", "those with data")
        if way != "SGD alone":
            given = (strategy, COUNTS_OF_COPIES[counts], WAYS[way])
            yield pytest.param(*given, id=f"{strategy}-{counts}-{way}", marks=[] if often else pytest.mark.slow)


@pytest.mark.parametrize("strategy, counts, options", list(_of_copies()))
def test_steps_of_shards_in_several_copies(workers, strategy, counts, options):
    test_steps(workers, strategy, counts, options)


def test_a_late_rank_of_shards_in_several_copies(workers):
    workers.run(4, joins.a_late_rank, "ZERO3 hybrid")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", HYBRIDS[:2])
@pytest.mark.parametrize("case", [joins.epochs, joins.other_calls, joins.exceptions, joins.shadows_are_alike])
def test_case_of_shards_in_several_copies(workers, case, strategy):
    workers.run(4, case, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case, world", CASES)
def test_case(workers, case, world, strategy):
    workers.run(world, case, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ZERO2", "ZERO3"])
def test_mixed_precision(workers, strategy):
    workers.run(3, joins.mixed_precision, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("case", [joins.failures, joins.backwards], ids=lambda case: case.__name__)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_errors(workers, case, strategy):
    workers.run(2, case, strategy)
    workers.stop()  # after a failure the process group cannot be used any more


@pytest.mark.slow
@pytest.mark.parametrize(
    "way, broadcast, world",
    [
        *itertools.product(["ddp"], [True, False], [2, 3]),
        *itertools.product(["fsdp", "ZERO3"], [False], [2, 3]),
        ("fsdp hybrid", False, 4),
    ],
)
def test_adopted(workers, way, broadcast, world):
    workers.run(world, adopted_joins.adopted, way, broadcast)
