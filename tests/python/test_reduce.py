"""thunder.reduce and thunder.replay: the part of a trace that shows a defect, and runs of traces on made inputs."""

import pytest
import torch
from torch import nn

import thunder


def calls(trace, name):
    return [c for c in trace.calls if c.symbol == name]


def model_and_trace(which=0):
    torch.manual_seed(0)
    layers = [m for _ in range(6) for m in (nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8))]
    model = nn.Sequential(*layers, nn.Softmax(-1))
    compiled = thunder.jit(model)
    compiled(torch.randn(4, 8)).sum().backward()
    return compiled, thunder.last_traces(compiled)[which]


def test_a_call_is_found():
    _, trace = model_and_trace()
    checks = []

    def check(t):
        checks.append(t)
        t.verify()
        return len(calls(t, "torch.softmax.functional")) > 0

    small = thunder.reduce(trace, check)
    assert [c.symbol for c in small.calls] == ["torch.softmax.functional"]
    assert len(small.inputs) == len(small.outputs) == 1
    assert len(checks) < 40
    assert str(thunder.parse(str(small))) == str(small)


def test_a_defect_is_found_by_running():
    """As a kernel that gives NaN where it should not: here the logarithm of a negative number."""

    def f(x, w):
        y = torch.tanh(x @ w)
        z = torch.log(y - 2)
        return (z + x).sum(), y * 3

    compiled = thunder.jit(f)
    compiled(torch.randn(4, 4), torch.randn(4, 4))
    trace = thunder.last_traces(compiled)[0]

    def gives_nan(t):
        return any(r.isnan().any() for r in thunder.replay(t))

    small = thunder.reduce(trace, gives_nan)
    assert "torch.log" in [c.symbol for c in small.calls] and len(small.calls) <= 2


@pytest.mark.parametrize("which", [0, -1])
def test_any_stage_and_the_backward(which):
    compiled, trace = model_and_trace(which)
    for t in (trace, thunder.last_backward_traces(compiled)[which]):
        names = {c.symbol for c in t.calls if c.output_values}
        for name in sorted(names)[:6]:
            small = thunder.reduce(t, lambda t, name=name: len(calls(t, name)) > 0)
            assert [c.symbol for c in small.calls] == [name]


def test_errors():
    _, trace = model_and_trace()
    with pytest.raises(ValueError, match=r"\[reduce\] the check does not hold for the whole trace, of \d+ calls"):
        thunder.reduce(trace, lambda t: False)
    with pytest.raises(ZeroDivisionError):
        thunder.reduce(trace, lambda t: 1 / 0)


def test_replay():
    def f(x, i, b, e):
        return x * 2, i + 1, ~b, e.sum()

    given = (torch.randn(3, 4).t(), torch.arange(3), torch.tensor([True, False]), torch.randn(3).expand(2, 3))
    compiled = thunder.jit(f)
    compiled(*given)
    trace = thunder.last_traces(compiled)[0]
    results, again, other = (thunder.replay(trace, seed=seed) for seed in (0, 0, 1))
    for a, b, e in zip(results, again, f(*given), strict=True):
        assert torch.equal(a, b)
        assert (a.dtype, a.shape, a.stride()) == (e.dtype, e.shape, e.stride())
    assert not torch.equal(results[0], other[0])
    assert torch.equal(thunder.replay(trace, given)[0], given[0] * 2)


def test_replay_of_sizes_that_only_calls_know():
    compiled = thunder.jit(lambda x: x * 2, cache="symbolic values")
    compiled(torch.randn(3, 4))
    trace = thunder.last_traces(compiled)[0]
    with pytest.raises(ValueError, match=r"\[replay\] expected a tensor of known sizes"):
        thunder.replay(trace)
