"""Layers in float8 whose scales follow from earlier backwards, against the same recipe in float32."""

import copy
import pickle

import pytest
import torch
from float8_checks import agree, emulated, gradients_of, in_float8, losses_of, small, stats

import thunder
from thunder.transforms import Float8

NAMES = ("0", "2")


def delayed(model, **options):
    """The compiled model, and its transform."""
    transform = Float8(scaling="delayed", filter=list(NAMES), **options)
    return thunder.jit(model, transforms=[transform]), transform


def inputs(*factors, dtype=torch.float32):
    torch.manual_seed(1)
    return [torch.randn(16, 32, dtype=dtype) * factor for factor in factors]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_steps(dtype):
    """Growing inputs are cut off at what was seen, shrinking ones keep the scale until the history forgets."""
    model = small(dtype)
    (compiled, _), reference = delayed(model, history=2), emulated(model, NAMES, history=2)
    for x in inputs(1, 1, 4, 4, 0.1, 0.1, 0.1, dtype=dtype):
        gradients_of(compiled, reference, x, dtype)
    assert stats(compiled)["layers"] == list(NAMES)
    # The first program has dynamic scales, the second serves all other calls.
    assert thunder.cache_misses(compiled) == 2
    assert "backwards have recorded" in thunder.explain_miss(compiled)


def test_it_is_not_dynamic_scaling():
    model = small()
    (compiled, _), dynamic = delayed(model), in_float8(copy.deepcopy(model))
    small_x, large_x = inputs(1, 50)
    for m in (compiled, dynamic):
        m(small_x).sum().backward()
    with torch.no_grad():
        cut, whole = compiled(large_x), dynamic(large_x)
    assert (cut - whole).norm() > 0.1 * whole.norm()


def test_training():
    makes = (lambda m: delayed(m)[0], lambda m: emulated(m, NAMES, history=16))
    losses = [losses_of(make) for make in makes]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_the_history():
    model = small()
    compiled, transform = delayed(model, history=3)
    assert transform.state_dict() == {}
    x, y = inputs(1, 2)
    compiled(x).sum().backward()
    state = transform.state_dict()
    assert state["layers"] == ["0", "2", "4"] and state["recorded"]
    history = state["history"]
    assert history.shape == (3, 3, 3)
    assert history[0, :2, 0].tolist() == [x.abs().max().item(), model[0].weight.abs().max().item()]
    assert history[1, 2, 0] > 0
    assert (history[:, :, 1:] == 0).all() and (history[2] == 0).all()
    # What has no backward is not recorded, and a program without gradients scales by what was.
    compiled(y)
    with torch.no_grad():
        compiled(y)
    assert torch.equal(transform.state_dict()["history"], history)
    compiled(y).sum().backward()
    assert transform.state_dict()["history"][0, 0].tolist() == [y.abs().max().item(), x.abs().max().item(), 0]


def test_a_checkpoint():
    model = small()
    compiled, transform = delayed(model)
    x, y = inputs(1, 3)
    for _ in range(2):
        compiled(x).sum().backward()
    saved = pickle.loads(pickle.dumps((transform.state_dict(), model.state_dict())))
    other = small()
    again, its = delayed(other)
    its.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    with torch.no_grad():
        assert torch.equal(again(y), compiled(y))
    assert thunder.cache_misses(again) == 1
    # Into one that has seen something already.
    third, its = delayed(small())
    third(y).sum().backward()
    its.load_state_dict(saved[0])
    assert torch.equal(its.state_dict()["history"], saved[0]["history"])


def test_what_does_not_fit_is_refused():
    compiled, transform = delayed(small(), history=3)
    compiled(inputs(1)[0]).sum().backward()
    with pytest.raises(ValueError, match=r"expected a history of shape \[layers, 3, 16\] for .*, got \[3, 3, 3\]"):
        Float8(scaling="delayed").load_state_dict(transform.state_dict())
    with pytest.raises(ValueError, match="expected a history of shape"):
        Float8(history=3).load_state_dict(transform.state_dict())
    with pytest.raises(ValueError, match=r"\[float8\] expected a history of 1 or more backwards, got 0"):
        Float8(scaling="delayed", history=0)
    second = thunder.jit(small(), transforms=[transform])
    with pytest.raises(ValueError, match=r"\[float8\] expected a Float8 of its own for each module"):
        second(inputs(1)[0])


def test_copies_have_histories_of_their_own():
    compiled, transform = delayed(small())
    x, y = inputs(1, 3)
    compiled(x).sum().backward()
    copied = copy.deepcopy(compiled)
    before = transform.state_dict()["history"]
    with torch.no_grad():
        assert torch.equal(copied(y), compiled(y))
    copied(y).sum().backward()
    assert torch.equal(transform.state_dict()["history"], before)
    with torch.no_grad():
        assert not torch.equal(copied(y), compiled(y))
    loaded = pickle.loads(pickle.dumps(transform))
    assert torch.equal(loaded.state_dict()["history"], before)


def test_forwards_before_their_backwards():
    """A backward has the scales of its forward, whatever was recorded meanwhile."""
    model = small()
    (compiled, _), reference = delayed(model), emulated(model, NAMES, history=16)
    gradients_of(compiled, reference, inputs(1)[0], torch.float32)

    def step(m):
        m.zero_grad()
        first, second = (m(x) for x in inputs(5, 0.2))
        second.square().sum().backward()
        first.square().sum().backward()
        return [p.grad.clone() for p in m.parameters()]

    agree(lambda: step(compiled), lambda: step(reference), torch.float32)


def test_numbers_that_are_none_are_not_recorded():
    compiled, transform = delayed(small())
    x, bad = inputs(1, 1)
    bad[0, 0] = torch.inf
    compiled(x).sum().backward()
    compiled(bad).sum().backward()
    seen = transform.state_dict()["history"][0, 0]
    assert seen[:2].tolist() == [0, x.abs().max().item()]
    compiled.zero_grad()
    compiled(x).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in compiled.parameters())


def test_what_is_in_the_programs():
    compiled, _ = delayed(small())
    for _ in range(2):
        compiled(inputs(1)[0]).sum().backward()
    forward = thunder.last_traces(compiled)
    assert str(forward[1]).count("prims.float8_scales(") == 1
    assert "float8_scale(" not in str(forward[1])
    backward = str(thunder.last_backward_traces(compiled)[-1])
    assert backward.count("float8_record_prim_impl(") == 1
    for trace in (forward[0], forward[1]):
        assert str(thunder.parse(str(trace))) == str(trace)


@pytest.mark.gpu
def test_cuda_graphs():
    model = small()
    transform = Float8(scaling="delayed", filter=list(NAMES))
    graphs = thunder.transforms.CUDAGraphTransform()
    compiled = thunder.jit(model, transforms=[transform, graphs])
    reference = emulated(model, NAMES, history=16)
    for x in inputs(1, 2, 3, 4, 5, 6):
        gradients_of(compiled, reference, x.cuda(), torch.float32)
    assert thunder.compile_stats(compiled)["graphs"]["replays"] > 0
