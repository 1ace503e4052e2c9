"""Writes and aliases of every kind against eager: views, grad modes, saved tensors, overlapping memory.

Each program is compared in values, arguments afterwards, gradients and errors.  Where PyTorch refuses what has a clear
meaning (a write to one of several views, to what a gradient needs) a compiled function computes it, and its gradient is
that of finite differences.
"""

import copy
import re
import warnings

import aliasing_modes
import aliasing_views
import aliasing_writes
import pytest
import torch
from aliasing_checks import Outcome, difference
from torch import nn

import thunder

PROGRAMS = aliasing_modes.PROGRAMS | aliasing_views.PROGRAMS | aliasing_writes.PROGRAMS

# A clear error where eager goes on, or goes on with what no order of writes defines.
REFUSED = {
    "data_assign_other_shape": "assigning to .data",
    "data_assign_param": "assigning to .data",
    "set_": "set_",
    "set_input": "set_",
    "set_empty": "set_",
    "resize_input": "[resize_] cannot resize",
    "as_strided_overlap_write": "memory",
    "unfold_write": "unfold",
    "unfold_overlap_write": "unfold",
    "expand_slice_write": "more than one element",
    "expand_zero_": "more than one element",
    "expand_fill_": "more than one element",
    "expand_setitem": "more than one element",
    "foreach_add_views": "shares memory",
    "version_counter": "_version",
}
# Eager refuses these where gradients flow, or where memory overlaps.
DEFINED = set(
    """
    base_written_with_multiviews chunk_result_only chunks loop_views overlap_copy
    overlap_views_direct saved_exp saved_input_of_pow saved_mul saved_sigmoid_view self_transposed splits unbinds
    """.split()
)
# `x.data` has a version counter of its own in eager.
COUNTED = {"data_write_leaf", "data_slice"}


def inputs():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 6, dtype=torch.float64, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("grad", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in REFUSED])
def test_as_in_eager(name, grad):
    found = difference(PROGRAMS[name], inputs(), grad=grad)
    if name in DEFINED:
        assert not found or ", eager RuntimeError" in found, found
    else:
        assert not found or (name in COUNTED and found.startswith("written")), found


@pytest.mark.parametrize("name", sorted(DEFINED))
def test_what_eager_refuses_is_right(name):
    x, y = (t.requires_grad_() for t in inputs())
    compiled = thunder.jit(PROGRAMS[name])
    assert torch.autograd.gradcheck(lambda *args: tuple(t.clone() for t in compiled(*args)), (x, y))


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("grad", [False, True], ids=["values", "gradients"])
def test_refused_clearly(name, grad):
    """By a warning, and then with what eager gives or raises, or by eager's error."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        outcome = Outcome(thunder.jit(PROGRAMS[name]), inputs(), {}, grad)
    expected = Outcome(PROGRAMS[name], inputs(), {}, grad)
    assert type(outcome.error) is type(expected.error), (outcome.error, expected.error)
    said = [str(w.message).removeprefix("[jit] compiling raised RuntimeError: ") for w in seen] + [str(outcome.error)]
    clearly = any(re.match(r"\[[\w.]+\] ", text) and REFUSED[name] in text for text in said)
    assert clearly or (expected.error is not None and str(outcome.error) == str(expected.error)), said
    for left, given in zip(outcome.inputs, expected.inputs, strict=True):
        assert torch.equal(left, given)


def test_as_strided_around_an_argument():
    """PyTorch's own does to read; then a write makes all of the memory an input."""

    def f(x):
        v = x[1:3]
        w = v.as_strided((3, 6), (6, 1))
        before = w * 1
        w.mul_(10)
        return before, v, w, x

    assert not difference(f, inputs()[:1])
    compiled, (x, y) = thunder.jit(f), inputs()
    for given in (x[:4], y[:4], torch.cat([x, y])[2:6]):
        assert not difference(f, [given], compiled=compiled)
    with pytest.warns(UserWarning, match="writing to an input that requires grad"):
        assert not difference(lambda x: f(x.detach()), inputs()[:1], grad=True)


# ---- functional_call ------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embed.weight
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.head(self.norm(self.embed(x)))


def test_functional_call_with_tied_weights_and_written_buffers():
    module, x = Tied(), torch.tensor([0, 3, 1])
    results = []
    for compiled in (True, False):
        weights = {"embed.weight": torch.arange(15.0).reshape(5, 3).sin().requires_grad_()}
        buffers = {k: v.clone() for k, v in module.named_buffers()}

        def call(weights, buffers, x):
            return torch.func.functional_call(module, (weights, buffers), (x,))

        before = copy.deepcopy(module.state_dict())
        out = (thunder.jit(call) if compiled else call)(weights, buffers, x)
        out.square().sum().backward()
        torch.testing.assert_close(module.state_dict(), before)  # the module's own are left alone
        results.append((out, weights["embed.weight"].grad, buffers))
    assert results[0][2]["calls"] == 1 and results[0][2]["norm.num_batches_tracked"] == 1
    torch.testing.assert_close(*results)
