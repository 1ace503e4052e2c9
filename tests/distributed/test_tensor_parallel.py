"""Models whose layers lie on several processes train as on one."""

import pytest
import tensor_parallel

SLOW = pytest.mark.slow


@pytest.mark.parametrize("world", [2, 3, pytest.param(4, marks=SLOW)])
def test_mlp(workers, world):
    workers.run(world, tensor_parallel.mlp)


@pytest.mark.parametrize("world", [pytest.param(1, marks=SLOW), 3])
def test_mlp_in_eager(workers, world):
    workers.run(world, tensor_parallel.mlp, False)


@pytest.mark.parametrize("world", [pytest.param(3, marks=SLOW), 4])  # of 4 one has nothing
def test_whole_features(workers, world):
    workers.run(world, tensor_parallel.gathered_features)


@pytest.mark.parametrize("world", [3, pytest.param(4, marks=SLOW)])
def test_other_layouts(workers, world):
    workers.run(world, tensor_parallel.resharded)


@SLOW
def test_other_layouts_repeatedly(workers):
    workers.run(3, tensor_parallel.resharded_repeatedly, seconds=200)


@pytest.mark.parametrize("sequence", [False, True], ids=["plain", "sequence"])
@pytest.mark.parametrize("world", [2, pytest.param(3, marks=SLOW)])
def test_language_model(workers, world, sequence):
    workers.run(world, tensor_parallel.language, sequence)


@SLOW
@pytest.mark.parametrize("sequence", [False, True], ids=["plain", "sequence"])
def test_checkpointed_language_model(workers, sequence):
    workers.run(2, tensor_parallel.language, sequence, True)


@pytest.mark.parametrize("strategy", [pytest.param("ddp", marks=SLOW), pytest.param("ZERO2", marks=SLOW), "ZERO3"])
def test_with_data_parallelism(workers, strategy):
    workers.run(4, tensor_parallel.with_data_parallelism, strategy)


@pytest.mark.parametrize("sequence", [pytest.param(False, marks=SLOW), True], ids=["plain", "sequence"])
def test_plan_of_pytorch(workers, sequence):
    workers.run(2, tensor_parallel.as_pytorch, sequence)


def test_prepared_inputs_and_outputs(workers):
    workers.run(2, tensor_parallel.prepared)


@pytest.mark.parametrize("world, every", [(3, False), pytest.param(2, True, marks=SLOW),
                                          pytest.param(4, True, marks=SLOW)])
def test_losses(workers, world, every):
    workers.run(world, tensor_parallel.losses, every)


def test_refusals(workers):
    workers.run(2, tensor_parallel.refusals)


def test_checkpoints(workers, tmp_path):
    workers.run(2, tensor_parallel.checkpoints, str(tmp_path / "checkpoint"))
