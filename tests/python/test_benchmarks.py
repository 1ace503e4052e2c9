"""The benchmarks' scripts, on the CPU and small: what those in gpu/ measure needs a GPU, that they run does not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu"
SMALL = "--device cpu --model pythia-14m --layers 1 --batch 1 --seq 8 --dtype float32".split()
SMALL += "--iterations 2 --warm-up 1".split()


def run(script, *arguments):
    command = [sys.executable, str(FOLDER / script), *arguments, *SMALL]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)


def test_headline_prints_its_table_last():
    done = run("headline.py", "--peers", "thunder,eager", "--no-again", "--json")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    thunder, eager = (json.loads(line) for line in lines if line.startswith("{"))
    assert thunder["loss"] == pytest.approx(eager["loss"], rel=1e-4)
    assert thunder["grad_norm"] == pytest.approx(eager["grad_norm"], rel=1e-4)
    assert thunder["without_grad"] == eager["without_grad"] == 0
    assert thunder["program"]["instructions"] > 20
    assert [line.split()[0] for line in lines[-3:]] == ["peer", "thunder", "eager"]


def test_a_peer_that_fails_is_named_and_fails_the_command():
    done = run("headline.py", "--peers", "eager,nobody", "--no-again")
    assert done.returncode == 1
    assert "nobody (failed)" in done.stdout.splitlines()[-1]


def test_profile_and_forward():
    done = run("peer.py", "thunder", "--forward", "--profile", "3")
    result = json.loads(done.stdout.splitlines()[-1])
    assert len(result["kernels"]) == 3
    assert "loss" not in result


def test_fusion_reports_speeds_and_their_mean():
    command = [sys.executable, str(FOLDER.parent / "bench_fusion.py"), "--cases=rope", "--sizes=16x64", "--threads=2"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    speeds = [line["speed"] for line in lines if line["benchmark"] == "fusion" and line["peer"] == "thunder"]
    (mean,) = (line for line in lines if line["benchmark"] == "fusion, geometric mean")
    assert mean["over"] == "eager"
    assert mean["speed"] == pytest.approx((speeds[0] * speeds[1]) ** 0.5)
    assert mean["threads"] == 2
    assert all(line["speed"] < 0.8 for line in lines[lines.index(mean) + 1 :])
