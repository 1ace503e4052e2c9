"""Linear layers in float8, against the same recipe written with PyTorch's operators in float32."""

import pytest
import torch
from devices import DEVICE
from float8_checks import (
    E4M3,
    Emulated,
    agree,
    both,
    calls,
    close,
    emulated,
    in_float8,
    losses_of,
    small,
    squares,
    stats,
    trained,
)  # fmt: skip
from torch import nn
from torch.utils.checkpoint import checkpoint

import thunder
from thunder.transforms import Float8

DTYPES = [torch.bfloat16, torch.float16, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(16, 32), (48, 32), (5, 32), (1, 32), (2, 3, 32), (32,)], ids=str)
def test_results_and_gradients(shape, dtype):
    model = small(dtype)
    compiled = in_float8(model)
    both(compiled, emulated(model, ("0", "2")), *shape, dtype=dtype)
    assert stats(compiled)["layers"] == ["0", "2"]
    products = calls(thunder.last_traces(compiled)) + calls(thunder.last_backward_traces(compiled))
    assert sum("scaled_mm" in name for name in products) == 6


def test_it_is_float8():
    """The recipe differs from the types' own arithmetic by as much as three digits of a mantissa make."""
    model = small()
    x = torch.randn(64, 32)
    with torch.no_grad():
        plain, float8 = model(x), in_float8(model)(x)
    error = ((plain - float8).norm() / plain.norm()).item()
    assert 1e-3 < error < 0.1


def test_without_gradients():
    model = small()
    compiled = in_float8(model)
    with torch.no_grad():
        x = torch.randn(16, 32)
        close(compiled(x), emulated(model, ("0", "2"))(x), torch.float32)
    # Nothing is kept, or turned around, for gradients.
    assert not any("transposed" in str(c) or "restride" in c.symbol for c in thunder.last_traces(compiled)[-1].calls)


def test_the_default_filter():
    model = nn.Sequential()
    model.add_module("small", nn.Linear(1024, 512))  # 512 * 1024 < 512 * (512 + 1024)
    model.add_module("wide", nn.Linear(512, 2048))
    model.add_module("odd", nn.Linear(2048, 1000))
    model.add_module("square", nn.Linear(1000, 2048))
    model.add_module("fits", nn.Linear(2048, 1024))
    model.add_module("head", nn.Linear(1024, 4096))
    compiled = thunder.jit(model, transforms=[Float8()])
    with torch.no_grad():
        compiled(torch.randn(4, 1024))
    told = stats(compiled)
    assert told["layers"] == ["fits"]
    assert list(told["others"]) == ["small", "wide", "odd", "square", "head"]
    assert "too small" in told["others"]["small"] and "too small" in told["others"]["wide"]
    assert told["others"]["odd"] == "its weight is [1000, 2048], and sizes must be multiples of 16"
    assert "multiples of 16" in told["others"]["square"]
    assert told["others"]["head"] == "it is the last linear layer"


class Language(nn.Module):
    """The head is made first and used last; a layer is never used."""

    def __init__(self):
        super().__init__()
        self.lm_head = nn.Linear(1024, 2048, bias=False)
        self.body = nn.Linear(1024, 1024)
        self.unused = nn.Linear(1024, 1024)

    def forward(self, x):
        return self.lm_head(torch.relu(self.body(x)))


def test_a_head_by_its_name():
    compiled = thunder.jit(Language(), transforms=[Float8()])
    compiled(torch.randn(2, 1024))
    told = stats(compiled)
    assert told["layers"] == ["body"]
    assert told["others"] == {
        "lm_head": "it is the last linear layer, by its name",
        "unused": "the program does not use it",
    }


@pytest.mark.parametrize(
    ("chosen", "layers"),
    [("*", ["0", "2", "4"]), (["[02]"], ["0", "2"]), (lambda name, m: m.bias is not None, ["0", "4"]), ([], [])],
)
def test_filters(chosen, layers):
    compiled = thunder.jit(small(), transforms=[Float8(filter=chosen)])
    compiled(torch.randn(3, 32))
    assert stats(compiled)["layers"] == layers
    assert set(stats(compiled)["others"].values()) <= {"the filter leaves it out"}


def test_refused_layers():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = nn.Linear(32, 32).double()
            self.odd = nn.Linear(32, 24)
            self.computed = nn.utils.parametrizations.weight_norm(nn.Linear(32, 32))
            self.empty = nn.Linear(32, 32)

        def forward(self, x):
            return self.wide(x.double()), self.odd(x), self.computed(x), self.empty(x[:0])

    model = Model()
    compiled = thunder.jit(model, transforms=[Float8(filter="*")])
    x = torch.randn(16, 32)
    for a, b in zip(compiled(x), model(x), strict=True):
        torch.testing.assert_close(a, b)
    told = stats(compiled)
    assert told["layers"] == []
    assert told["others"] == {
        "wide": "it computes in torch.float64",
        "odd": "its weight is [24, 32], and sizes must be multiples of 16",
        "computed": "its weight is no parameter",
        "empty": "its input is [0, 32]",
    }


def test_autocast():
    """Master weights in float32, products of bfloat16 operands that become float8."""
    model = small()
    compiled = in_float8(model)
    x = torch.randn(16, 32)

    def by_recipe(x):
        h = Emulated.apply(x.bfloat16(), model[0].weight.bfloat16(), model[0].bias.bfloat16())
        h = Emulated.apply(torch.tanh(h), model[2].weight.bfloat16(), None)
        return model[4](nn.functional.gelu(h))

    def step(run):
        model.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            y = run(x)
        squares(y).backward()
        assert y.dtype == torch.bfloat16
        return [y.detach(), *(p.grad.clone() for p in model.parameters())]

    agree(lambda: step(compiled), lambda: step(by_recipe), torch.bfloat16)
    assert stats(compiled)["layers"] == ["0", "2"]


def test_other_shapes():
    model = small(torch.bfloat16)
    compiled, reference = in_float8(model), emulated(model, ("0", "2"))
    for rows in (16, 20, 33, 64, 1, 16):
        both(compiled, reference, rows, 32, dtype=torch.bfloat16)
        assert stats(compiled)["layers"] == ["0", "2"]
    assert thunder.cache_misses(compiled) < 5


def test_gradients_are_accumulated():
    model = small()
    compiled, reference = in_float8(model), emulated(model, ("0", "2"))
    xs = torch.randn(3, 16, 32)
    agree(lambda: trained(compiled, squares, *xs), lambda: trained(reference, squares, *xs), torch.float32)


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "around"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(inside, reentrant):
    class Checkpointed(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body = body

        def forward(self, x):
            return checkpoint(self.body, x, use_reentrant=reentrant)

    model = small()
    reference = emulated(model, ("0", "2"))
    compiled = in_float8(Checkpointed(model), ("body.0", "body.2")) if inside else Checkpointed(in_float8(model))
    x = torch.randn(16, 32, requires_grad=True)
    agree(lambda: trained(compiled, squares, x), lambda: trained(reference, squares, x), torch.float32)


def test_shared_input_and_shared_weight():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.gate, self.square = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 64)

        def forward(self, x):
            return self.square(self.square(self.up(x) * torch.sigmoid(self.gate(x))))

    torch.manual_seed(0)
    model = Model()
    names = ["up", "gate", "square"]
    compiled = in_float8(model, names)
    both(compiled, emulated(model, names), 16, 32, dtype=torch.float32)
    acquired = str(thunder.last_traces(compiled)[1])
    # x, three weights, and what goes into the square, twice.
    assert acquired.count("= ltorch.float8_cast(") == 6 and acquired.count("= ltorch.float8_linear(") == 4


def test_frozen_weights_and_inputs():
    model = small()
    model[0].requires_grad_(False)
    compiled, reference = in_float8(model), emulated(model, ("0", "2"))
    x = torch.randn(16, 32)
    agree(lambda: trained(compiled, squares, x), lambda: trained(reference, squares, x), torch.float32)
    assert model[0].weight.grad is None


def test_conv1d_of_hugging_face():
    Conv1D = pytest.importorskip("transformers.pytorch_utils").Conv1D

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = Conv1D(64, 32)

        def forward(self, x):
            return self.c(x)

    model = Model()
    compiled = in_float8(model, ["c"])
    x = torch.randn(2, 8, 32, requires_grad=True)

    def step(run):
        x.grad = None
        model.zero_grad()
        y = run(x)
        squares(y).backward()
        return [y.detach(), *(t.grad for t in (x, model.c.weight, model.c.bias))]

    by_recipe = lambda x: Emulated.apply(x, model.c.weight.t(), model.c.bias)
    agree(lambda: step(compiled), lambda: step(by_recipe), torch.float32)
    assert stats(compiled)["layers"] == ["c"]


def test_training_steps():
    losses = [losses_of(make) for make in (in_float8, lambda m: emulated(m, ("0", "2")))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] != losses[0][0]


def test_numbers_beyond_the_range():
    """Zeros have a scale; what is no number stays none."""
    model = small()
    compiled = in_float8(model)
    with torch.no_grad():
        assert torch.isfinite(compiled(torch.zeros(16, 32))).all()
        x = torch.randn(16, 32)
        x[3, 4] = torch.nan
        assert torch.isnan(compiled(x)).any()
        x[3, 4] = 1e30
        assert torch.isfinite(compiled(x)).all()


def test_traces_print_and_parse():
    compiled = in_float8(small())
    compiled(torch.randn(16, 32)).sum().backward()
    for trace in (thunder.last_traces(compiled)[1], thunder.last_traces(compiled)[0]):
        assert str(thunder.parse(str(trace))) == str(trace)
    text = str(thunder.last_traces(compiled)[1])
    assert "torch.float8_e4m3fn" in text and "ltorch.float8_linear(" in text
    assert "torch.float8_e5m2" in str(thunder.last_backward_traces(compiled)[0])


def test_errors():
    with pytest.raises(ValueError, match=r"\[float8\] unknown scaling 'static', expected"):
        Float8(scaling="static")
    with pytest.raises(TypeError, match=r"\[float8\] expected a function or patterns of names as filter, got 3"):
        Float8(filter=3)
    with pytest.raises(ValueError, match=r"\[float8\] expected one Float8 among the transforms"):
        thunder.jit(small(), transforms=[Float8(), Float8()])
    weight = torch.randn(32, 32)
    compiled = thunder.jit(lambda x: nn.functional.linear(x, weight), transforms=[Float8()])
    with pytest.raises(TypeError, match=r"\[float8\] layers are chosen by their names in a module"):
        compiled(torch.randn(2, 32))


def test_calls_that_only_eager_can_run_are_refused():
    from torch.utils.flop_counter import FlopCounterMode

    compiled = in_float8(small())
    with FlopCounterMode(display=False), pytest.raises(NotImplementedError, match="without the transform Float8"):
        compiled(torch.randn(2, 32))


def test_scaled_mm_of_a_program():
    def f(x, y, s):
        return torch._scaled_mm(x, y.t(), s, s, out_dtype=torch.bfloat16, use_fast_accum=True)

    x, y = (torch.randn(n, 32).to(E4M3) for n in (16, 48))
    s = torch.tensor(0.5)
    assert torch.equal(thunder.jit(f)(x, y, s), f(x, y, s))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        thunder.jit(torch._scaled_mm)(x, y, s, s)
