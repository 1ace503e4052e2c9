"""The benchmark of several GPUs, on the CPU and small: that it runs, and what it makes of what it measured."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"
SMALL = "--device cpu --model pythia-14m --layers 2 --batch 1 --seq 8 --dtype float32".split()
SMALL += "--iterations 2 --warm-up 1".split()


@pytest.fixture(scope="module")
def benchmark():
    before = list(sys.path)
    sys.path.insert(0, str(FOLDER))
    import distributed

    yield distributed
    sys.path[:] = before
    del sys.modules["distributed"]


def test_communication_that_computation_does_not_hide(benchmark):
    assert benchmark.uncovered([], [(0, 5)]) == 0
    assert benchmark.uncovered([(0, 5)], []) == 5
    assert benchmark.uncovered([(0, 4), (2, 6)], [(1, 3)]) == 4
    assert benchmark.uncovered([(0, 4), (10, 12)], [(3, 11), (4, 5)]) == 4
    assert benchmark.uncovered([(1, 2)], [(0, 1), (1, 3)]) == 0


def test_ratios_are_made_within_a_part(benchmark, tmp_path):
    rows = [
        {"part": part, "setting": setting, "ms": ms, "world": 2, "machine": "two GPUs"}
        for part, setting, ms in [
            ("a", "single:thunder", 10.0),
            ("a", "zero3:thunder", 11.0),
            ("a", "single:thunder", 12.0),
            ("b", "single:thunder", 20.0),
            ("b", "zero3:thunder", 24.0),
            ("b", "zero3:torch.compile", 30.0),
        ]
    ]
    by_setting = {row["setting"]: row for row in benchmark.merged(rows)}
    assert by_setting["zero3:thunder x2"]["over_single"] == (11 / 11 + 24 / 20) / 2
    assert by_setting["zero3:thunder x2"]["over_compile"] == 24 / 30
    assert "over_compile" not in by_setting["single:thunder x2"]
    file = tmp_path / "rows"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert benchmark.table(file).splitlines()[0] == "two GPUs"
    file.write_text(file.read_text() + json.dumps({**rows[0], "machine": "another"}) + "\n")
    with pytest.raises(SystemExit, match="share no table"):
        benchmark.table(file)


def run(file, processes, settings, *options):
    """The rows of a part."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command += [str(FOLDER / "distributed.py"), "--append", str(file), *SMALL, *options, "--settings", *settings]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, env=environment)
    assert done.returncode == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["setting"] for row in rows] == settings
    return rows


def test_predictions(tmp_path):
    file, settings = tmp_path / "rows", ["single:thunder", "ddp:thunder", "zero3:thunder"]
    command = [sys.executable, str(FOLDER / "distributed.py"), "--predict", "h100", "--world", "4", *SMALL]
    done = subprocess.run([*command, "--append", str(file), "--settings", *settings], timeout=300)
    assert done.returncode == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["setting"] for row in rows] == settings
    alone, replicated, sharded = rows
    assert 0 < alone["ms"] < replicated["ms"] and sharded["peak_gb"] < replicated["peak_gb"]
    refused = subprocess.run([*command, "--settings", "ddp:eager"], stderr=subprocess.PIPE, text=True, timeout=300)
    assert refused.returncode == 1 and "ddp:eager is not predicted" in refused.stderr


@pytest.mark.slow
def test_one_process_of_a_fake_world(tmp_path):
    settings = ["single:thunder", "zero3:thunder", "ddp:thunder", "zero3:eager"]
    for row in run(tmp_path / "rows", 1, settings, "--fake-world", "4"):
        assert row["world"] == 4 and row["loss"] is None and row["ms"] > 0 and "fake world of 4" in row["machine"]


@pytest.mark.slow
def test_a_part(tmp_path):
    """Every strategy and compiler on two processes: the same loss."""
    settings = ["single:thunder", "ddp:thunder", "zero2:thunder", "zero3:thunder", "ddp:eager", "zero3:eager"]
    rows = run(tmp_path / "rows", 2, settings, "--transport", "backend")
    for row in rows:
        assert row["loss"] == pytest.approx(rows[0]["loss"], rel=1e-4)
        assert row["ms"] > 0 and row["four_ms"] > 0 and row["world"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4])
def test_pairs(tmp_path, processes):
    """Tensor parallel in pairs, on four processes with shards over the pairs: the loss of one process."""
    pytest.importorskip("transformers", reason="requirements/models.txt")
    settings = ["single:thunder", "tensor:thunder", "tensor:eager"]
    rows = run(tmp_path / "rows", processes, settings, "--model", "hf:llama-tiny")
    for row in rows:
        assert row["loss"] == pytest.approx(rows[0]["loss"], rel=1e-4)
        assert row["ms"] > 0 and row["four_ms"] > 0 and row["world"] == processes


def test_pairs_have_a_plan_for_models_of_one_kind(benchmark):
    with pytest.raises(SystemExit, match="no plan for 'pythia-14m'"):
        benchmark.in_pairs("thunder", None, [], argparse.Namespace(model="pythia-14m"))
