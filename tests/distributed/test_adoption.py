"""DistributedDataParallel and fully_shard, compiled: what eager PyTorch does, by programs that communicate."""

import itertools

import adoption
import pytest
import torch

WAYS = ["ddp", "fsdp", "ZERO2", "ZERO3"]
HYBRIDS = ["ZERO2 hybrid", "fsdp hybrid", "fsdp hybrid of one", "fsdp hybrid of four"]
EXTRAS = ["plain", "checkpointing", "accumulation", "accumulation by the original", "after eager"]
OFTEN = {
    ("ddp", "plain", 2), ("fsdp", "plain", 3), ("ZERO2", "plain", 2), ("ZERO3", "accumulation", 3),
    ("ddp", "accumulation", 3), ("ddp", "accumulation by the original", 2), ("fsdp", "accumulation", 2),
    ("ZERO2", "accumulation by the original", 2), ("ddp", "after eager", 2), ("fsdp", "after eager", 2),
}  # fmt: skip


def _settings():
    for setting in itertools.product(WAYS, EXTRAS, (2, 3, 4)):
        yield pytest.param(*setting, marks=[] if setting in OFTEN else pytest.mark.slow)


@pytest.mark.parametrize("way, extra, world", list(_settings()))
def test_steps(workers, way, extra, world):
    workers.run(world, adoption.steps, way, extra)


@pytest.mark.parametrize(
    "way, extra",
    [
        pytest.param(way, extra, marks=[] if (way, extra) == ("ZERO2 hybrid", "accumulation") else pytest.mark.slow)
        for way, extra in itertools.product(HYBRIDS, EXTRAS)
    ],
)
def test_steps_of_shards_in_several_copies(workers, way, extra):
    workers.run(4, adoption.steps, way, extra)


@pytest.mark.parametrize("world", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WAYS)
def test_gradients_have_the_bits_of_eager(workers, way, world):
    workers.run(world, adoption.exact, way)


@pytest.mark.parametrize("way", ["ddp", "ZERO2", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_functions_of_thunders(workers, way):
    workers.run(2, adoption.functions_of_thunders, way)


@pytest.mark.parametrize("broadcast", [True, False])
def test_buffers(workers, broadcast):
    workers.run(2, adoption.buffers, broadcast)


CASES = [
    adoption.unwrapped_calls,
    adoption.outer,
    adoption.settings_of_ddp,
    adoption.frees_the_reducer,
    adoption.refusals_of_ddp,
    adoption.methods_of_fsdp,
    adoption.parts,
    adoption.groups_are_buckets,
    adoption.meta_device,
    adoption.regions,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(workers, case):
    workers.run(2, case)


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_state_dicts(workers, way, tmp_path):
    workers.run(2, adoption.state_dicts, way, str(tmp_path / "checkpoint"))


@pytest.mark.parametrize(
    "policy, tolerance",
    [
        ({"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}, 0.05),
        ({"param_dtype": torch.bfloat16, "output_dtype": torch.float32}, 0.05),
        ({"param_dtype": torch.bfloat16, "cast_forward_inputs": False, "output_dtype": torch.bfloat16}, 0.05),
        ({"reduce_dtype": torch.bfloat16}, 0.05),
    ],
    ids=["float32 sums", "outputs", "no inputs", "bfloat16 sums"],
)
def test_mixed_precision(workers, policy, tolerance):
    workers.run(2, adoption.mixed_precision, policy, tolerance)


REASONS = [
    pytest.param(reason, marks=pytest.mark.slow if "all_reduce" in reason else [])
    for reason in adoption.LEFT_TO_EAGER
]


@pytest.mark.parametrize("reason", REASONS)
def test_left_to_eager(workers, reason):
    workers.run(4 if "all_reduce" in reason else 2, adoption.left_to_eager, reason)


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_errors(workers, way):
    workers.run(2, adoption.errors, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_eager_on_some_processes(workers, way):
    workers.run(2, adoption.eager_on_some, way)
    workers.stop()  # after a failure the process group cannot be used any more
