"""Seeds and states of random generators that a program sets and reads: the numbers are eager's, in every call."""

import contextlib
import linecache
import traceback

import pytest
import torch
from eager_checks import check_left_to_eager

import thunder

OWN = torch.Generator()


def fork(x):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        n = torch.rand(1)
    return n.item(), torch.rand(1).item()


def same_again(x):
    state = torch.get_rng_state()
    a = torch.rand(1)
    torch.set_rng_state(state)
    return (a - torch.rand(1)).item(), a.item()


def own_generator(x):
    OWN.manual_seed(3)
    return torch.empty(1).uniform_(generator=OWN).item()


def own_state(x):
    state = OWN.get_state()
    a = torch.rand(2, generator=OWN)
    OWN.set_state(state)
    return a, torch.rand(2, generator=OWN), torch.rand(3)


def made_inside(x):
    generator = torch.Generator().manual_seed(11)
    return torch.randn(3, generator=generator), torch.randn(2, generator=generator)


def made_without_a_seed(x):
    return torch.rand(3, generator=torch.Generator())


def seeded_by_argument(x, seed):
    torch.manual_seed(seed)
    return torch.rand(8) + x


def large_seed(x):
    torch.manual_seed(2**64 - 3)
    return torch.rand(2)


def negative_seed(x):
    torch.manual_seed(-5)
    return torch.rand(2)


def bound_method(x):
    seed = OWN.manual_seed
    seed(4)
    return torch.rand(2, generator=OWN)


def returned_state(x):
    before = torch.get_rng_state()
    torch.rand(3)
    return before, torch.get_rng_state()


def given_state(x, state):
    torch.set_rng_state(state)
    return torch.rand(4)


def dropout_twice_the_same(x):
    state = torch.get_rng_state()
    a = torch.nn.functional.dropout(x, 0.5)
    torch.set_rng_state(state)
    return a, torch.nn.functional.dropout(x, 0.5)


def cuda_seed(x):
    torch.cuda.manual_seed(3)
    torch.cuda.manual_seed_all(4)
    return torch.rand(2)


def returns_the_generator(x):
    return torch.manual_seed(2) is torch.default_generator, OWN.manual_seed(2) is OWN, torch.rand(1)


STATE = torch.Generator().manual_seed(77).get_state()
CASES = [
    (fork, ()),
    (same_again, ()),
    (own_generator, ()),
    (own_state, ()),
    (made_inside, ()),
    (made_without_a_seed, ()),
    (seeded_by_argument, (5,)),
    (large_seed, ()),
    (negative_seed, ()),
    (bound_method, ()),
    (returned_state, ()),
    (given_state, (STATE,)),
    (dropout_twice_the_same, ()),
    (cuda_seed, ()),
    (returns_the_generator, ()),
]


def numbers(f, arguments, calls=4):
    """What calls in a row give, and the numbers that come then."""
    torch.manual_seed(7)
    OWN.manual_seed(8)
    out = []
    for _ in range(calls):
        result = f(torch.ones(8), *arguments)
        out.extend(result if isinstance(result, tuple) else (result,))
        out.extend([torch.rand(1), torch.rand(1, generator=OWN)])
    return out


@pytest.mark.parametrize("options", [{}, {"executors": []}, {"cache": "symbolic values"}, {"rng": "fused"}], ids=str)
@pytest.mark.parametrize("f, arguments", CASES, ids=lambda a: getattr(a, "__name__", None))
def test_numbers_and_states_are_eagers(f, arguments, options):
    want, got = numbers(f, arguments), numbers(thunder.jit(f, **options), arguments)
    for w, g in zip(want, got, strict=True):
        assert torch.equal(w, g) if isinstance(w, torch.Tensor) else w == g


def test_gradients_flow_past_seeds():
    def f(x):
        torch.manual_seed(3)
        return (torch.nn.functional.dropout(x, 0.5) * x).sum()

    grads = []
    for call in (f, thunder.jit(f), thunder.jit(f)):
        x = torch.arange(16.0, requires_grad=True)
        call(x).backward()
        grads.append(x.grad)
    assert torch.equal(grads[0], grads[1]) and torch.equal(grads[0], grads[2])


def test_an_acquisition_that_ends_early_leaves_the_generators_alone():
    def f(x):
        drawn = torch.rand(3)
        torch.manual_seed(1)
        return x * torch.initial_seed(), drawn

    results = []
    for call in (f, thunder.jit(f)):
        torch.manual_seed(5)
        with pytest.warns(UserWarning, match="known only when") if call is not f else contextlib.nullcontext():
            results.append((*call(torch.ones(1)), torch.get_rng_state()))
    assert all(map(torch.equal, *results))


def sets_before_it_raises(x):
    OWN.manual_seed(4)
    torch.manual_seed(1)
    torch.rand(3, generator=OWN)
    torch.rand(3)
    raise ValueError("stop")


def raises_within_a_fork(x):
    torch.rand(2)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        torch.rand(2)
        raise ValueError("stop")


@pytest.mark.parametrize("f", [sets_before_it_raises, raises_within_a_fork])
def test_states_behind_an_exception_are_eagers(f):
    states = []
    for call in (f, thunder.jit(f)):
        torch.manual_seed(5)
        OWN.manual_seed(6)
        for _ in range(2):
            with pytest.raises(ValueError, match="stop"):
                call(torch.ones(1))
        states.append((torch.get_rng_state(), OWN.get_state()))
    assert all(map(torch.equal, *states))


@pytest.mark.parametrize("f", [lambda x: torch.initial_seed(), lambda x: torch.seed(), lambda x: OWN.seed(),
                               lambda x: OWN.initial_seed(), lambda x: OWN.clone_state()])
def test_what_only_the_run_knows_is_left_to_eager(f):
    why = r"known only when .* runs(.|\n)*test_generators.py"
    check_left_to_eager(f, torch.ones(1), why=why, compare=False)


def test_a_branch_on_numbers_behind_a_seed_is_left_to_eager():
    def f(x):
        torch.manual_seed(1)
        return x + 1 if torch.rand(()) < 0.5 else x

    check_left_to_eager(f, torch.ones(1), why="sets or reads a generator's state")


def test_a_seed_that_is_an_argument():
    def f(x, seed):
        torch.manual_seed(seed)
        OWN.manual_seed(seed + 1)
        return x + torch.rand(3), torch.rand(2, generator=OWN), torch.randn_like(x)

    compiled = thunder.jit(f)
    for seed in (0, 1, 5, 2, 7, 7, 123456):
        x = torch.ones(3)
        assert all(map(torch.equal, compiled(x, seed), f(x, seed)))
    assert thunder.cache_misses(compiled) <= 4, thunder.compile_stats(compiled)["last_miss"]


def test_the_text_of_the_program_is_nothing_that_it_depends_on():
    """Seeding CUDA before it is there keeps a stack, and so reads source files."""

    def f(x):
        linecache.getline(__file__, 1)
        linecache.checkcache()
        torch.manual_seed(0)
        return x + torch.rand_like(x), len(traceback.format_stack()) > 0

    linecache.getline(__file__, 1)
    compiled = thunder.jit(f)
    for _ in range(3):
        got, want = compiled(torch.ones(3)), f(torch.ones(3))
        assert torch.equal(got[0], want[0]) and got[1] == want[1]
    assert thunder.cache_misses(compiled) == 1, thunder.compile_stats(compiled)["not_cached"]
