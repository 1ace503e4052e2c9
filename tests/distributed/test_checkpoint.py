"""Checkpoints hold whole parameters, whatever number of processes writes or reads them."""

import checkpoints
import models
import pytest
import torch

from thunder.distributed import StateDictOptions, get_model_state_dict, load, load_model_state_dict, save

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
