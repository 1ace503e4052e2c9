"""The benchmarks' scripts, on the CPU and small: what those in gpu/ measure needs a GPU, that they run does not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import thunder

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


# ---- bandwidth.py --------------------------------------------------------------------------------------------------


@pytest.fixture
def bandwidth(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import bandwidth

    return bandwidth


def traffic(bandwidth, f, *args):
    compiled = thunder.jit(f)
    compiled(*args)
    return bandwidth.traffic(thunder.last_traces(compiled)[-1])


ROW, MATRIX = torch.randn(6), torch.randn(4, 6)
BYTES = {
    "pointwise": (lambda a, b, c: F.gelu(a * b + c), (MATRIX, MATRIX + 1, MATRIX + 2), 4 * 96),
    "an operand twice": (lambda a: F.gelu(a) * a.abs(), (MATRIX,), 2 * 96),
    "broadcast in the kernel": (lambda a, b: F.gelu(a + b), (MATRIX, ROW), 2 * 96 + 24),
    "expanded outside": (lambda a, b: F.gelu(a + b), (MATRIX, ROW.expand(4, 6)), 2 * 96 + 24),
    "rows that overlap": (lambda a: F.gelu(a) + 1, (torch.randn(9).as_strided((4, 6), (1, 1)),), 36 + 96),
    "half of the columns": (lambda a: F.silu(a[:, :3]) * 2, (MATRIX,), 2 * 48),
    "both halves": (lambda a: F.silu(a[:, :3]) * a[:, 3:], (MATRIX,), 96 + 48),
    "some columns and all": (lambda a: F.pad(a[:, :3], (0, 3)) * a, (MATRIX,), 2 * 96),
    "two rows of a table": (lambda i, t: F.silu(F.embedding(i, t)) * 2, (torch.tensor([3, 1]), MATRIX), 16 + 2 * 48),
    "bf16": (lambda a: F.softmax(a * 2, -1), (MATRIX.bfloat16(),), 2 * 48),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_of_a_program(bandwidth, name):
    f, args, expected = BYTES[name]
    found = traffic(bandwidth, f, *args)
    assert sum(size for _, size in found) == expected, found


def test_bytes_of_a_backward(bandwidth):
    compiled = thunder.jit(lambda a: F.silu(a) + 1)
    compiled(MATRIX.clone().requires_grad_()).sum().backward()
    ((_, size),) = bandwidth.traffic(thunder.last_backward_traces(compiled)[-1])
    assert size == 3 * 96


def test_launches_are_matched_with_fusions_in_order(bandwidth):
    calls = [("fusion1", 100), ("fusion0", 10), ("fusion2", 300)] * 2
    one_step = [("gemm", 9.0), ("fusion1", 1.0), ("fusion0_any", 2.0), ("fusion0_finish", 0.5), ("fusion1", 3.0)]
    rows = bandwidth.by_kernel(calls, {"fusion0", "fusion1"}, one_step * 2)
    assert rows == {"fusion1": dict(us=8.0, calls=4, bytes=800), "fusion0": dict(us=5.0, calls=2, bytes=20)}


@pytest.mark.parametrize("launches", [["fusion1"], ["fusion1", "fusion0", "fusion0"], ["fusion0", "fusion1"]], ids=str)
def test_launches_of_another_program_are_refused(bandwidth, launches):
    calls = [("fusion1", 100), ("fusion0", 10)]
    with pytest.raises(SystemExit, match="launch"):
        bandwidth.by_kernel(calls, {"fusion0", "fusion1"}, [(name, 1.0) for name in launches])


def test_shares_of_copies(bandwidth):
    class Copies:
        def bandwidth(self, moved):
            return 4e12 if moved == 2 * bandwidth.COPY else 2e12

    rows = {"fusion0": dict(us=10.0, calls=4, bytes=8_000_000), "fusion1": dict(us=30.0, calls=2, bytes=60_000_000)}
    longest, other, total = bandwidth.lines(rows, 2, Copies())
    assert longest == dict(kernel="fusion1", calls=1, mb=30.0, ms=0.015, gbs=2000.0, of_copy=0.5, of_same=1.0)
    assert other == dict(kernel="fusion0", calls=2, mb=2.0, ms=0.005, gbs=800.0, of_copy=0.2, of_same=0.4)
    assert (total["kernel"], total["calls"], total["gbs"]) == ("all", 3, 1700.0)


def test_bandwidth_prints_a_line_a_kernel():
    done = run("bandwidth.py")
    lines = done.stdout.splitlines()
    assert lines[1].split() == ["kernel", "ms", "calls", "MB", "GB/s", "/copy", "/same"]
    assert all(line.startswith("fusion") for line in lines[2:-1]) and lines[-1].startswith("all")


@pytest.mark.parametrize(
    ("program", "only", "rows", "columns"),
    [
        ("reductions.py", "mse,middle", 4, ["ratio", "error"]),
        ("families.py", "scan", 7, ["ratio", "error", "first"]),
    ],
)
def test_operators_have_a_line_each(program, only, rows, columns):
    command = [sys.executable, str(FOLDER / program), "--device", "cpu", "--small", "--without-compile"]
    done = subprocess.run([*command, "--only", only], stdout=subprocess.PIPE, text=True, timeout=300)
    lines = done.stdout[done.stdout.index("us ") :].splitlines()
    assert done.returncode == 0 and len(lines) == rows + 2
    assert lines[0].split() == ["us", "eager", "compile", "thunder", *columns]
    errors = [float(line.split()[columns.index("error") - len(columns)]) for line in lines[1:-1]]
    assert all(error < 2e-2 for error in errors), lines
    assert lines[-1].startswith(f"{rows} rows, geometric mean of the ratios ")
