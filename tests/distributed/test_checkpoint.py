"""Checkpoints hold whole parameters, whatever number of processes writes or reads them."""

from types import SimpleNamespace

import checkpoints
import models
import parallel_checkpoints
import pytest
import torch
from torch.distributed.tensor import Shard
from torch.distributed.tensor.placement_types import _StridedShard

from thunder.distributed import StateDictOptions, get_model_state_dict, load, load_model_state_dict, save
from thunder.distributed.tensor_parallel._state import _rows_are

_slow = pytest.mark.slow
STRATEGIES = ["ZERO3", pytest.param("ddp", marks=_slow), pytest.param("ZERO2", marks=_slow)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_write_and_others_read(workers, strategy, tmp_path):
    written, _ = workers.run(2, checkpoints.write, strategy, tmp_path)
    for world in (4, 3, 1):
        workers.run(world, checkpoints.read, strategy, tmp_path, written)
    checkpoints.read(None, None, tmp_path, written)


def test_one_process_writes_and_others_read(workers, tmp_path):
    written = checkpoints.write(None, None, tmp_path)
    for strategy in ("ddp", "ZERO2", "ZERO3", "ZERO3 hybrid"):
        workers.run(4, checkpoints.read, strategy, tmp_path, written)


@_slow
def test_shards_in_several_copies(workers, tmp_path):
    written, *_ = workers.run(4, checkpoints.write, "ZERO3 hybrid", tmp_path / "first")
    for world, strategy in ((3, "ZERO3"), (4, "ZERO2 hybrid"), (2, "ddp")):
        workers.run(world, checkpoints.read, strategy, tmp_path / "first", written)
    workers.run(4, checkpoints.resume, "ZERO3 hybrid", tmp_path / "second")
    workers.run(4, checkpoints.by_state_dicts, "ZERO2 hybrid", tmp_path / "third")
    for rank0_only in (False, True):
        workers.run(4, checkpoints.whole_tensors, "ZERO3 hybrid", rank0_only, False)
    workers.run(4, checkpoints.kinds, "ZERO3 hybrid")


@pytest.mark.parametrize("world", [3, pytest.param(2, marks=_slow)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_training_goes_on_with_the_same_bits(workers, strategy, world, tmp_path):
    workers.run(world, checkpoints.resume, strategy, tmp_path)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_dicts(workers, strategy, tmp_path):
    workers.run(3, checkpoints.by_state_dicts, strategy, tmp_path)


@pytest.mark.parametrize("cpu_offload", [False, pytest.param(True, marks=_slow)])
@pytest.mark.parametrize("rank0_only", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_whole_tensors(workers, strategy, rank0_only, cpu_offload):
    workers.run(4, checkpoints.whole_tensors, strategy, rank0_only, cpu_offload)


@pytest.mark.parametrize("strategy", ["ddp", "ZERO3"])
def test_what_does_not_fit_is_refused_everywhere(workers, strategy):
    workers.run(3, checkpoints.wrong_state_dicts, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kinds_of_modules(workers, strategy):
    workers.run(2, checkpoints.kinds, strategy)


def test_rank0_only_asks_for_whole_tensors():
    with pytest.raises(ValueError, match="rank0_only asks for full_state_dict"):
        StateDictOptions(rank0_only=True)


def test_a_directory_without_a_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no complete checkpoint"):
        load({"step": 0}, tmp_path)


def test_without_processes(recwarn, tmp_path):
    model, other = models.make(), models.make(seed=1)
    load_model_state_dict(get_model_state_dict(model), other)
    save({"model": model}, tmp_path)
    load({"model": other}, tmp_path)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
    assert not [w for w in recwarn if "single process" in str(w.message)]


def test_a_failed_save_leaves_the_checkpoint_before_it(workers, tmp_path):
    workers.run(3, checkpoints.overwrite, "ZERO3", tmp_path / "checkpoint")
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


WAYS = ["ours 2x2", "pytorch 2x2", "ours 4x1", "pytorch 4x1", "ours 1x2", "pytorch 1x2"]


@pytest.mark.parametrize(
    "way, others",
    [
        ("ours 2x2", ["pytorch 4x1"]),
        ("pytorch 2x2", ["ours 2x2"]),
        *(pytest.param(way, WAYS, marks=_slow) for way in WAYS),
    ],
)
def test_rows_of_parts(workers, way, others, tmp_path):
    def world(way):
        return 2 if "1x2" in way else 4

    written, *_ = workers.run(world(way), parallel_checkpoints.write, way, tmp_path)
    for other in others:
        workers.run(world(other), parallel_checkpoints.read, other, tmp_path, written)
    parallel_checkpoints.read(None, None, tmp_path, written)


def test_rows_of_parts_in_process_groups(workers):
    workers.run(4, parallel_checkpoints.groups)


def test_rows_of_parts_that_pytorch_divides_otherwise():
    def spec(rows, *sizes):
        placements = (_StridedShard(0, split_factor=sizes[1]), Shard(0))
        return SimpleNamespace(mesh=SimpleNamespace(shape=sizes), shape=(rows, 3), placements=placements)

    assert _rows_are(spec(7, 2, 2), (4, 3)) and _rows_are(spec(9, 4, 3), (3, 3, 3))
    assert not _rows_are(spec(7, 3, 2), (4, 3))
