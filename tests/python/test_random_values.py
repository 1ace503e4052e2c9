"""Programs that read values that they have drawn (`if torch.rand(()) < p:`): the numbers, and those after them, are
eager's."""

import pytest
import torch
from devices import DEVICE
from eager_checks import check_left_to_eager
from torch import nn
from torch.nn import functional as F

import thunder

OPTIONS = pytest.mark.parametrize("options", [{}, {"executors": []}, {"cache": "symbolic values"}], ids=str)


def outcome(function, seed, *args, parameters=()):
    """Results, gradients and the next random number of each generator."""
    torch.manual_seed(seed)
    args = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
    result = function(*args)
    result = result if isinstance(result, tuple) else (result,)
    leaves = [t for t in (*args, *parameters) if t.requires_grad]
    loss = sum(r.sum() for r in result if r.requires_grad)
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if leaves and torch.is_tensor(loss) else ()
    gradients = [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, leaves, strict=False)]
    after = torch.rand(2), torch.rand(2, device=DEVICE)
    return [r.detach() for r in result], gradients, after


def check(function, *args, options=None, calls=24, most=None, parameters=()):
    compiled = thunder.jit(function, **(options or {}))
    for seed in range(calls):
        want = outcome(function, seed % (2 * calls // 3), *args, parameters=parameters)
        got = outcome(compiled, seed % (2 * calls // 3), *args, parameters=parameters)
        torch.testing.assert_close(got, want, msg=lambda m, seed=seed: f"seed {seed}: {m}")
    if most is not None:
        assert thunder.cache_misses(compiled) <= most, thunder.explain_miss(compiled)
    assert thunder.cache_hits(compiled) > 0


def x(requires_grad=False):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 4, generator=generator).to(DEVICE).requires_grad_(requires_grad)


class LayerDrop(nn.Module):
    """Layers that are left out at random, as wav2vec 2.0 is trained, among dropouts that draw, too."""

    def __init__(self, dropout):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.dropout = dropout

    def forward(self, x):
        for layer in self.layers:
            x = F.dropout(x, self.dropout, training=self.training)
            if self.training and torch.rand([]) < 0.3:
                continue
            x = torch.relu(layer(x)) + 0.1 * torch.randn_like(x)
        return F.dropout(x, self.dropout, training=self.training)


@OPTIONS
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_layers_that_are_left_out_at_random(dropout, options):
    module = LayerDrop(dropout).to(DEVICE)
    check(module, x(requires_grad=True), options=options, most=8, parameters=tuple(module.parameters()))


def test_only_questions_are_drawn_ahead():
    """What the program draws after its last question is in the program, where kernels may use it."""
    module = LayerDrop(0.2).train()
    compiled = thunder.jit(module)
    torch.manual_seed(3)
    compiled(x().cpu())
    program = str(thunder.last_traces(compiled)[0])
    assert program.count("dropout") == 1, program


def branch(x):
    return x * 2 if torch.rand(()) > 0.5 else -x


def drawn_value_is_used_again(x):
    d = torch.rand(())
    return x * d if d > 0.5 else x - d


def item(x):
    return x + 1 if torch.rand(1).item() < 0.5 else x * torch.rand(4).to(x)


def loop(x):
    n = 0
    while torch.rand(()) < 0.7 and n < 3:
        x = x + torch.randn(4).to(x)
        n += 1
    return x


def written_in_place(x):
    noise = torch.zeros(4).normal_()
    if torch.bernoulli(torch.tensor(0.5)):
        noise.mul_(2)
    return x + noise.to(x)


def drawn_before_but_not_asked(x):
    a = torch.randn(3, 4).to(x)
    b = torch.randperm(4).to(x)
    return (x + a, b * 1.0) if torch.rand(()) < 0.5 else (x * b, a.sum())


def dimension(x):
    return F.normalize(x, dim=int(torch.randint(2, ())))


def sizes(x):
    n = int(torch.randint(2, 5, ()))
    return x[:, :n].sum(0) + torch.rand(n).to(x)


def multinomial(x):
    i = int(torch.multinomial(torch.tensor([0.5, 0.25, 0.25]), 1))
    return x[i] * 2


def of_a_dropout(x):
    return x + 1 if F.dropout(x, 0.5).sum() > 0 else x - torch.rand_like(x)


def under_modes(x):
    with torch.no_grad():
        flip = torch.rand(()) < 0.5
    return x.flip(0) * torch.rand(()).to(x) if flip else x * 1


@OPTIONS
@pytest.mark.parametrize("requires_grad", [False, True], ids=["", "gradient"])
@pytest.mark.parametrize(
    "function",
    [
        branch,
        drawn_value_is_used_again,
        item,
        loop,
        written_in_place,
        drawn_before_but_not_asked,
        dimension,
        sizes,
        multinomial,
        under_modes,
    ],
    ids=lambda f: f.__name__,
)
def test_drawn_values_are_eagers(function, requires_grad, options):
    check(function, x(requires_grad), options=options)


def test_a_value_of_a_dropout():
    check(of_a_dropout, x())


def test_questions_that_fail_are_drawn_again():
    """Programs that ask for more, or for other things, are tried first: what they drew is drawn again."""

    def f(x, n):
        for _ in range(n):
            if torch.rand(()) < 0.5:
                return x + torch.rand(())
        return x - torch.rand(())

    compiled = thunder.jit(f)
    for seed in range(12):
        for n in (3, 1, 2):
            torch.manual_seed(seed)
            want, after = f(x().cpu(), n), torch.rand(2)
            torch.manual_seed(seed)
            assert torch.equal(compiled(x().cpu(), n), want) and torch.equal(torch.rand(2), after)
    assert thunder.cache_hits(compiled) > 12


def test_an_error_behind_a_question_draws_what_eager_draws():
    def f(x):
        if torch.rand(()) < 2:
            raise ValueError("no")

    states = []
    for run in (f, thunder.jit(f)):
        torch.manual_seed(0)
        with pytest.raises(ValueError, match="no"):
            run(x())
        states.append(torch.get_rng_state())
    assert torch.equal(*states)


def test_what_cannot_be_drawn_ahead_is_left_to_eager():
    """A draw that a gradient goes through, before the question."""

    def f(p):
        drawn = torch.bernoulli(p)
        return drawn if torch.rand(()) < 0.5 else -drawn

    why = r"depends on random numbers.*test_random_values.py"
    check_left_to_eager(f, torch.full((2,), 0.5, requires_grad=True), why=why, compare=False)


def test_with_one_input_for_all_calls_nothing_is_asked():
    compiled = thunder.jit(branch, cache="same input")
    check_left_to_eager(branch, x(), why="depends on random numbers", compiled=compiled, compare=False)


@pytest.mark.parametrize("squeeze", [lambda t: t.squeeze(), lambda t: t.squeeze(0), lambda t: t.clone().squeeze_()])
def test_a_length_of_one_that_random_numbers_decide(squeeze):
    """The number of dimensions depends on it: a program for each."""

    def f(x):
        return squeeze(x[torch.rand(x.shape) > 0.5]) * 2

    compiled, ranks = thunder.jit(f), set()
    for seed in range(24):
        torch.manual_seed(seed % 16)
        expected = f(torch.ones(3))
        torch.manual_seed(seed % 16)
        actual = compiled(torch.ones(3))
        torch.testing.assert_close(actual, expected)
        ranks.add(actual.ndim)
    assert ranks == {0, 1} and thunder.cache_misses(compiled) <= 4


class Experts(nn.Module):
    """Behind a dropout: which experts are asked, and by how many tokens each."""

    def __init__(self, experts, dropout):
        super().__init__()
        self.dropout = dropout
        self.router = nn.Linear(4, experts)
        self.experts = nn.ModuleDict({f"expert {i}": nn.Linear(4, 4) for i in range(experts)})

    def forward(self, x):
        x = self.dropout(x)
        chosen = F.one_hot(self.router(x).argmax(-1, keepdim=True), len(self.experts)).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for i in torch.greater(chosen.sum((-1, -2)), 0).nonzero():
            _, tokens = torch.where(chosen[i].squeeze(0))
            found = self.experts[f"expert {i[0]}"](x[None, tokens].reshape(-1, x.shape[-1]))
            out.index_add_(0, tokens, found)
        return x + out


# A GPU's dropout draws within one operator, whose result requires a gradient.
DROPOUTS = {"dropout": lambda x: F.dropout(x, 0.2), "native": lambda x: torch.native_dropout(x, 0.2, True)[0]}


@OPTIONS
@pytest.mark.parametrize("dropout", DROPOUTS.values(), ids=DROPOUTS)
@pytest.mark.parametrize(("tokens", "experts"), [(64, 2), (5, 3), (1, 2)])
def test_a_loop_whose_length_random_numbers_decide(tokens, experts, dropout, options):
    torch.manual_seed(0)
    model = Experts(experts, dropout).to(DEVICE)
    x = torch.randn(tokens, 4, device=DEVICE, requires_grad=True)
    check(lambda t: model(t), x, options=options, calls=12, parameters=tuple(model.parameters()))
    compiled = thunder.jit(model)
    for seed in range(6):
        outcome(compiled, seed, x)
    assert not thunder.compile_stats(compiled)["eager_calls"]
