"""Training on several processes gives the parameters that training on one gives."""

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import training

STRATEGIES = ["ddp", "ZERO2", "ZERO3"]
BUCKETINGS = ["NONE", "LAYER", "BLOCK", "AUTO"]
EXTRAS = ["plain", "checkpointing", "accumulation", "clipping"]


# Every pair of settings in both worlds; the rest is slow.
def _settings():
    for number, (s, b, e) in enumerate(itertools.product(STRATEGIES, BUCKETINGS, EXTRAS)):
        for world in (2, 3, 4):
            often = world == 2 + (number + number // 4) % 2
            yield pytest.param(s, b, e, world, marks=[] if often else pytest.mark.slow)


@pytest.mark.parametrize("strategy, bucketing, extra, world", list(_settings()))
def test_steps(workers, strategy, bucketing, extra, world):
    workers.run(world, training.steps, strategy, bucketing, extra)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_gradients_have_the_bits_of_one_process(workers, strategy, world):
    workers.run(world, training.exact_gradients, strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kept_gradients_are_added_to_in_place(workers, strategy):
    workers.run(2, training.kept_in_place, strategy)


@pytest.mark.parametrize("strategy", ["ZERO2", "ZERO3"])
def test_micro_batches_gather_once(workers, strategy):
    workers.run(2, training.gathered_once, strategy)


def test_a_write_by_one_process_between_micro_batches(workers):
    workers.stop()  # it is not known where a process stands once several of its threads have waited
    outcomes = workers.outcomes(2, training.written_by_one)
    workers.stop()  # the group has failed
    for ok, what in outcomes:
        assert not ok and "the ranks run different programs" in what[2]


def _hybrid_settings():
    for number, (s, b, e) in enumerate(itertools.product(["ZERO2 hybrid", "ZERO3 hybrid"], BUCKETINGS, EXTRAS)):
        yield pytest.param(s, b, e, marks=[] if (number + number // 4) % 4 == 0 else pytest.mark.slow)


@pytest.mark.parametrize("strategy, bucketing, extra", list(_hybrid_settings()))
def test_steps_of_shards_in_several_copies(workers, strategy, bucketing, extra):
    workers.run(4, training.steps, strategy, bucketing, extra)


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("strategy", ["ZERO3 hybrid of one", "ZERO3 hybrid of four", "ZERO2 hybrid of four"])
def test_steps_of_one_copy_and_of_copies_alone(workers, strategy, extra):
    workers.run(4, training.steps, strategy, "LAYER", extra)


@pytest.mark.parametrize("strategy", ["ZERO2 hybrid", pytest.param("ZERO3 hybrid", marks=pytest.mark.slow)])
def test_gradients_of_copies_have_the_bits_of_one_process(workers, strategy):
    workers.run(4, training.exact_gradients, strategy)


@pytest.mark.parametrize("strategy", ["ZERO2", "ZERO3"])
def test_mixed_precision(workers, strategy):
    workers.run(2, training.mixed_precision, strategy)


@pytest.mark.gpu
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("extra", EXTRAS)
def test_processes_that_share_a_gpu(workers, world, extra):
    """gloo's works on a GPU have streams, as NCCL's; NCCL refuses processes that share one.

    Sums alone: PyTorch 2.11's own all_gather by gloo reads a GPU's memory on the CPU, and crashes.
    """
    workers.run(world, training.steps, "ddp", "LAYER", extra, "cuda", seconds=90)


@pytest.mark.gpu
def test_nccl_of_one_process():
    """Every pair of settings, with NCCL's streams and launches."""
    program = Path(__file__).with_name("nccl_alone.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=200)
    assert done.stdout == "done\n", done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="collectives by copies are between two GPUs")
def test_copies_between_two_gpus(tmp_path):
    program = Path(__file__).with_name("nccl_pair.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, program, str(rank), tmp_path / "store"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=250)[0].decode() for rank in ranks]
    assert said[0].endswith("steps done\ndone\n"), said
    assert ranks[1].returncode == -signal.SIGKILL, said
