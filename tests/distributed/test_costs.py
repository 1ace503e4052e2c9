"""Cost tables that are measured; here the CPU's, of processes that gloo connects."""

import cost_cases
import pytest
import torch

from thunder import _C
from thunder.distributed import costs, simulate


@pytest.mark.parametrize("world", [1, 2])
def test_a_table_is_measured(workers, world):
    texts = workers.run(world, cost_cases.table)
    assert len(set(texts)) == 1
    words = [line.split() for line in texts[0].splitlines()]
    keywords = [w[0] for w in words]
    kinds = {tuple(w[1:3]) for w in words if w[0] == "peak"}
    products = {("product", t) for t in ("bf16", "f16", "f32", "f64")}
    assert kinds == products | {(k, t) for k in ("attention", "attention_backward") for t in ("bf16", "f16")}
    assert keywords.count("memory") == keywords.count("launch") == keywords.count("note") == 1
    several = world > 1
    assert [w[2] for w in words if w[0] == "fabric"] == ["all_gather", "reduce_scatter", "all_reduce"] * several
    assert all(keywords.count(k) == several for k in ("node", "spread", "contention"))
    model = torch.nn.Linear(16, 16, dtype=torch.bfloat16)
    strategies = ("ddp", "zero2", "zero3") if several else (None,)
    for strategy in strategies:
        s = simulate(model, (torch.ones(4, 16, dtype=torch.bfloat16),), world=world, strategy=strategy, device=texts[0])
        assert s.step > 0 and s.notes[0].startswith(f"measured on {world} x cpu")


def test_the_line_through_two_sizes():
    alpha, bandwidth = 3e-6, 250e9
    steps, share = 3, 0.75
    points = [(n, steps * alpha + share * n / bandwidth) for n in (1 << 19, 1 << 27)]
    assert costs._line_through(points, steps, share) == pytest.approx((alpha, bandwidth))
    # Times that grow with less than the bytes, and with more.
    assert costs._line_through([(1, 5e-3), (100, 4e-3)], 1, 1) == (0, 100 / 4e-3)
    assert costs._line_through([(1, 1e-3), (100, 200e-3)], 1, 1) == (0, 100 / 200e-3)


@pytest.mark.parametrize("value, root", [(-1, 0), (0.25, 0.5), (2, 0.9)])
def test_a_root_is_within_its_bounds(value, root):
    assert costs._root(lambda x: x * x, value) == pytest.approx(root, abs=1e-3)


def test_contention_is_what_the_simulator_needs():
    """A table that is written with some contention gives the steps from which the same contention follows."""
    text = "device cpu 9.0 1\nmemory 1GB/s\nlaunch 1us\npeak product f32 1GFLOP/s\n"
    text += "node 4 links\nfabric links * alpha=1us bandwidth=1GB/s\n"
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))
    x = torch.ones(512, 64)
    options = {"strategy": "ddp", "bucket_size_in_mb": 0.01, "loss": torch.sum}
    s = simulate(model, (x,), world=4, device=text + "contention 0.3\n", **options)
    table = _C.CostTable.parse(text)
    found = costs._root(lambda c: _C.simulate(*s.traces, table.with_lines(f"contention {c}")).step, s.step)
    assert s.slowed > 0 and found == pytest.approx(0.3, abs=1e-3)


def test_a_gpu_is_needed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match=r"\[costs\] a GPU is measured, and there is none"):
        costs.measure()
