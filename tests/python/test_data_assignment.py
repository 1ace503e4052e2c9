"""`tensor.data = value` inside a compiled function: the tensor lies in other memory from there on."""

import pytest
import torch
from eager_checks import check_left_to_eager
from torch import nn
from torch.nn import functional as F

import thunder


def inputs():
    return torch.ones(2), torch.full((2,), 3.0)


def outcome(function):
    """What it returns, and what became of its inputs."""
    a, b = inputs()
    memory = a.data_ptr()
    result = function(a, b)
    return result.tolist(), a.tolist(), b.tolist(), a.data_ptr() == memory


def read_afterwards(a, b):
    a.data = b * 2
    return a + 1


def older_views_are_what_they_were(a, b):
    first = a[:1]
    a.data = b * 2
    return first + a


def written_afterwards(a, b):
    a.data = b * 2
    a.add_(1)
    return a * 2


def twice(a, b):
    a.data = b * 2
    a.data = a * 3
    return a + 0


def of_what_the_program_made(a, b):
    c = a + 1
    c.data = b * 2
    return c.mul_(2)


def viewed_afterwards(a, b):
    a.data = b.data * 2
    a[:1].add_(1)
    return a[1:] + 1


def through_setattr(a, b):
    for name in ("data",):
        setattr(a, name, b - 1)
    return a + b


@pytest.mark.parametrize("options", [{}, {"executors": []}, {"cache": "symbolic values"}], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        read_afterwards,
        older_views_are_what_they_were,
        written_afterwards,
        twice,
        of_what_the_program_made,
        viewed_afterwards,
        through_setattr,
    ],
    ids=lambda f: f.__name__,
)
def test_data_is_eagers(function, options):
    compiled = thunder.jit(function, **options)
    for _ in range(2):
        assert outcome(compiled) == outcome(function)
    assert thunder.cache_misses(compiled) == 1


def kept(a, b):
    value = b * 2
    a.data = value
    return a, value


def value_written(a, b):
    value = b * 2
    a.data = value
    value.add_(1)
    return a + 0


def value_read_after_a_write(a, b):
    value = b * 2
    a.data = value
    a.add_(1)
    return value + 0


def an_input_as_value(a, b):
    a.data = b
    return a + 0


def other_sizes(a, b):
    a.data = torch.ones(3)
    return a + 0


def other_dtype(a, b):
    a.data = b.double()
    return a + 0


def after_a_write(a, b):
    a.add_(1)
    a.data = b * 2
    return a + 0


def of_a_view(a, b):
    a[:1].data = b[:1] * 2
    return a + 0


@pytest.mark.parametrize(
    "function",
    [
        kept,
        value_written,
        value_read_after_a_write,
        an_input_as_value,
        other_sizes,
        other_dtype,
        after_a_write,
        of_a_view,
    ],
    ids=lambda f: f.__name__,
)
def test_what_could_be_told_apart_is_left_to_eager(function):
    check_left_to_eager(function, *inputs(), why="data")


def test_no_tensor_is_a_type_error():
    def function(a, b):
        a.data = 1

    for f in (function, thunder.jit(function)):
        with pytest.raises(TypeError):
            f(*inputs())


class NormalisedLinear(nn.Module):
    """Weights that are scaled to length 1 before each use, and a buffer that follows them."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(4, 4, generator=generator))
        self.register_buffer("average", torch.zeros(4, 4))

    def forward(self, x):
        self.weight.data = F.normalize(self.weight.data, dim=1)
        self.average.data = self.average.data * 0.9 + self.weight.data * 0.1
        return F.linear(x, self.weight)


@pytest.mark.parametrize("options", [{}, {"executors": []}], ids=str)
def test_weights_are_replaced_and_their_gradients_stay(options):
    def run(compile):
        module = NormalisedLinear()
        weight, function = module.weight, thunder.jit(module, **options) if compile else module
        said = []
        for i in range(3):
            x = torch.randn(3, 4, generator=torch.Generator().manual_seed(i))
            y = function(x)
            y.square().sum().backward()
            assert module.weight is weight and weight.is_leaf and weight.requires_grad
            said += [y.detach().clone(), weight.detach().clone(), weight.grad.clone(), module.average.clone()]
            with torch.no_grad():
                weight.sub_(0.1 * weight.grad)
            weight.grad = None
        if compile:
            assert thunder.cache_misses(function) == 1
        return said

    torch.testing.assert_close(run(True), run(False))


@pytest.mark.parametrize(
    "made", [lambda leaf: leaf, lambda leaf: leaf[1:], lambda leaf: leaf * 1], ids=["leaf", "view", "computed"]
)
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.data.add_(1),
        lambda x: x.data[:1].mul_(2),
        lambda x: x.data.view(-1).zero_(),
        lambda x: (x.data.add_(1), x.detach().add_(1)),
        lambda x: x.detach().add_(1),
    ],
    ids=["data", "part", "view", "both", "detached"],
)
def test_writes_that_autograd_does_not_see(made, write):
    """They leave a tensor's version, and so its graph, as it was; what detach() gives counts."""

    def f(x):
        write(x)
        return x * 2

    told = []
    for run in (f, thunder.jit(f)):
        for _ in range(2):
            leaf = torch.ones(3, 2, requires_grad=True)
            x = made(leaf)
            version = x._version
            y = run(x)
            told.append((x._version > version, type(x.grad_fn).__name__, x.tolist(), y.tolist()))
    assert told[:2] == told[2:]


class MaskedConvolution(nn.Conv2d):
    def __init__(self, *arguments, view=False):
        super().__init__(*arguments)
        self.view = view
        self.register_buffer("mask", torch.ones_like(self.weight))
        self.mask[:, :, 1:] = 0

    def forward(self, x):
        if self.view:
            self.weight[:, :, :2].data *= self.mask[:, :, :2]
        self.weight.data *= self.mask
        return super().forward(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("view", [False, True])
def test_data_that_is_multiplied_in_place_and_assigned_back(view, dtype):
    """`x.data *= y` assigns what x.data gave, which is no change."""

    def run(compile):
        torch.manual_seed(0)
        module = MaskedConvolution(2, 3, 3, view=view).to(dtype)
        weight, memory = module.weight, module.weight.data_ptr()
        function = thunder.jit(module) if compile else module
        said = []
        for n in (2, 2, 1, 5):
            y = function(torch.randn(n, 2, 5, 7, generator=torch.Generator().manual_seed(n)).to(dtype))
            y.float().square().sum().backward()
            assert module.weight is weight and weight.data_ptr() == memory and weight.is_leaf
            said += [y.detach().clone(), weight.detach().clone(), weight.grad.clone()]
            with torch.no_grad():
                weight.sub_(0.1 * weight.grad)
            weight.grad = None
        if compile:
            assert not thunder.compile_stats(function)["eager_calls"]
        return said

    torch.testing.assert_close(run(True), run(False))


def test_data_assigned_to_itself_is_no_change():
    def f(a, b):
        view = a[:1]
        a.data = a
        a.data = a.data
        a.data = a.detach()
        view.add_(1)
        view.data = view.data
        return a * 2

    assert outcome(thunder.jit(f)) == outcome(f)
