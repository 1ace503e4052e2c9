"""What libraries do in a forward: they ask whether they are compiled, and move modules to where these are."""

import contextlib
import threading
import warnings

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.utils.dlpack import to_dlpack

import thunder


def wrong_for_compilers(x):
    """As masks that are given up only in eager: the way for compilers does not fit."""
    y = x * 2
    if torch.compiler.is_compiling():
        y = y + torch.ones(3, 5)
    return y.sum()


def right_for_compilers(x):
    return (x * 2 if torch.compiler.is_compiling() else x * 3).sum()


def test_a_way_for_compilers_that_raises_is_not_taken():
    f = thunder.jit(wrong_for_compilers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            x = torch.randn(4, 4, requires_grad=True)
            f(x).backward()
            assert torch.equal(x.grad, torch.full((4, 4), 2.0))
    assert thunder.cache_misses(f) == 1 and not thunder.compile_stats(f)["eager_calls"]
    assert not torch.compiler.is_compiling()


def test_a_way_for_compilers_that_fits_is_taken():
    x = torch.ones(2)
    assert thunder.jit(right_for_compilers)(x) == 4
    assert right_for_compilers(x) == 6


def test_an_error_of_both_ways_is_eagers():
    def f(x):
        return x + torch.ones(3, 5 if torch.compiler.is_compiling() else 6)

    with pytest.raises(RuntimeError, match=r"must match the size of tensor b \(6\)"):
        thunder.jit(f)(torch.ones(4, 4))
    assert not torch.compiler.is_compiling()


def test_ways_of_programs_within_programs():
    inner = thunder.jit(wrong_for_compilers)
    f = thunder.jit(lambda x: (inner(x), right_for_compilers(x)))
    x = torch.ones(4, 4)
    assert [t.item() for t in f(x)] in ([32.0, 32.0], [32.0, 48.0])


def test_other_threads_see_that_they_are_not_compiled():
    seen = []

    def work():
        seen.append((torch.compiler.is_compiling(), torch.compiler._is_compiling_flag))

    def f(x):
        compiled = torch.compiler.is_compiling(), torch.compiler._is_compiling_flag
        inside.set()
        done.wait(10)
        return x * (2 if all(compiled) else 3)

    inside, done = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: (inside.wait(10), work(), done.set()))
    other.start()
    assert torch.equal(thunder.jit(f)(torch.ones(2)), torch.full((2,), 2.0))
    other.join()
    assert seen == [(False, False)]


def by_getattr():
    return getattr(torch.compiler, "_is_compiling_flag")  # noqa: B009  # another way than an attribute's


@pytest.mark.parametrize(
    "asks",
    [
        torch.compiler.is_compiling,
        torch._dynamo.is_compiling,
        torch._dynamo.external_utils.is_compiling,
        lambda: torch.compiler._is_compiling_flag,
        lambda: vars(torch.compiler)["_is_compiling_flag"],
        by_getattr,
    ],
    ids=["compiler", "dynamo", "external_utils", "attribute", "entry", "getattr"],
)
def test_ways_to_ask(asks):
    x = torch.ones(())
    assert thunder.jit(lambda x: x + 1 if asks() else x)(x) == 2
    assert not asks()


def test_a_variable_of_the_same_name_is_the_programs_own():
    names = {"_is_compiling_flag": False}

    def f(x):
        return x + 1 if names["_is_compiling_flag"] else x

    g = thunder.jit(f)
    assert g(torch.ones(())) == 1
    names["_is_compiling_flag"] = True
    assert g(torch.ones(())) == 2


class Moving(nn.Module):
    """As the router of a mixture of experts, which computes in a type of its own."""

    def __init__(self, move):
        super().__init__()
        self.layer, self.norm, self.move = nn.Linear(4, 4), nn.BatchNorm1d(4), move

    def forward(self, x):
        self.layer = self.move(self.layer)
        return self.move(self.norm)(self.layer(x))


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m.to(torch.float32),
        lambda m: m.float(),
        lambda m: m.cpu(),
        lambda m: m.to("cpu"),
        lambda m: m.to(m.bias),
    ],
    ids=["dtype", "float", "cpu", "device", "like"],
)
def test_a_module_that_is_moved_to_where_it_is(move):
    torch.manual_seed(0)
    model, other = Moving(move), Moving(move)
    other.load_state_dict(model.state_dict())
    compiled = thunder.jit(model)
    for i in range(4):
        x = torch.randn(3, 4)
        for m in (compiled, other):
            m(x).square().sum().backward()
            if i == 1:
                m.zero_grad()  # in the other steps gradients add up, on what the forward moves
        for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, msg=name)
        for a, b in zip(model.buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(a, b)
    assert thunder.cache_misses(compiled) == 1


def test_a_module_that_changes_is_left_to_eager():
    compiled = thunder.jit(Moving(lambda m: m.to(torch.float64)))
    with pytest.warns(UserWarning, match=r"\[grad\] reading .grad"):
        compiled(torch.randn(3, 4, dtype=torch.float64))


def test_sizes_that_only_a_run_knows_are_left_to_eager():
    gru = nn.GRU(3, 2)

    def packed(x, lengths):
        return gru(nn.utils.rnn.pack_padded_sequence(x, lengths))[1]

    f = thunder.jit(packed)
    with pytest.warns(UserWarning, match=r"^\[size\](.|\n)*test_library_ways.py"):
        for _ in range(4):
            x, lengths = torch.randn(5, 2, 3), torch.tensor([5, 3])
            torch.testing.assert_close(f(x, lengths), packed(x, lengths))
    assert thunder.cache_misses(f) == 1


@pytest.mark.filterwarnings("ignore:.*compiling raised:RuntimeWarning")
def test_what_cannot_be_acquired_is_not_acquired_for_ever():
    x, f = torch.ones(3), thunder.jit(to_dlpack)
    for _ in range(8):
        assert torch.equal(torch.from_dlpack(f(x)), x)
    assert thunder.cache_misses(f) == 3
    assert "compiling raised" in str(thunder.compile_stats(f)["eager_calls"])


class Asking(nn.Module):
    """Asks which tensor it has, and leaves the rest to eager."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.tied = self.weight

    def forward(self, x):
        known = {self.weight: 2.0}
        y = x * self.weight * known.get(self.tied, 3.0) if self.weight is self.tied else x
        with torch._C.DisableTorchFunction():
            return y * 2


def test_a_module_of_eager_is_looked_at_once():
    compiled = thunder.jit(Asking())
    for _ in range(4):
        assert compiled(torch.ones(3)).sum().item() == 12
    assert thunder.cache_misses(compiled) == 1


class Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.no_grad():
            torch.default_generator.seed()
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_refusal_leaves_the_grad_mode():
    f = thunder.jit(lambda x: Refused.apply(x))
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            with pytest.warns(UserWarning, match=r"\[seed\]") if enabled else contextlib.nullcontext():
                f(torch.ones(3, requires_grad=True))
            assert torch.is_grad_enabled() == enabled


@pytest.mark.parametrize(
    "check",
    [
        lambda x: torch._check((x > 0).all().item()),
        lambda x: torch._check((x > 0).all().item(), lambda: "not all"),
        lambda x: torch._check_value(x.sum().item() > 0, lambda: f"not {x.shape}"),
    ],
)
def test_checks_of_values(check):
    def f(x):
        check(x)
        return x * 2

    compiled = thunder.jit(f)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))
    assert thunder.cache_misses(compiled) == 1 and not thunder.compile_stats(compiled)["eager_calls"]
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        f(-torch.ones(3))
    with pytest.raises(theirs.type) as ours:
        compiled(-torch.ones(3))
    assert str(ours.value) == str(theirs.value)
