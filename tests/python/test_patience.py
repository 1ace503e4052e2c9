"""Functions whose programs are never used again are left to eager, for a while (csrc/jit/patience.h)."""

import random
import warnings

import pytest
import torch

import thunder

PROGRAMS = 32


def calls(fn, values):
    """What each call of `fn` returned, and how many of them compiled."""
    before = thunder.compile_stats(fn)["cache_misses"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        out = [fn(*v) for v in values]
    return out, thunder.compile_stats(fn)["cache_misses"] - before


def scaled(x, text):
    return x * len(text) + 1


def texts(first, count, x):
    return [(x, f"text {i}") for i in range(first, first + count)]


def test_what_never_comes_twice_is_compiled_ever_more_rarely():
    fn, x = thunder.jit(scaled), torch.randn(3)
    out, compiled = calls(fn, texts(0, PROGRAMS, x))
    assert compiled == PROGRAMS
    for first, count in ((PROGRAMS, PROGRAMS), (2 * PROGRAMS + 1, 2 * PROGRAMS)):
        out, compiled = calls(fn, texts(first, count, x))
        assert compiled == 0
        assert all(torch.equal(o, scaled(*v)) for o, v in zip(out, texts(first, count, x), strict=True))
        assert calls(fn, texts(first + count, 1, x))[1] == 1
    (why,) = thunder.compile_stats(fn)["eager_calls"]
    assert "served one call" in why and thunder.compile_stats(fn)["eager_calls"][why] == 3 * PROGRAMS


def test_the_user_is_told_once():
    fn, x = thunder.jit(scaled), torch.randn(3)
    calls(fn, texts(0, PROGRAMS, x))
    with pytest.warns(UserWarning, match="served one call") as told:
        for v in texts(PROGRAMS, 5, x):
            fn(*v)
    assert len(told) == 1


def test_programs_there_are_go_on_serving_calls():
    fn, x = thunder.jit(scaled), torch.randn(3)
    calls(fn, texts(0, PROGRAMS, x))
    hits = thunder.compile_stats(fn)["cache_hits"]
    assert calls(fn, texts(0, PROGRAMS, x))[1] == 0
    assert thunder.compile_stats(fn)["cache_hits"] == hits + PROGRAMS
    # One that was used again is the end of the pause.
    assert calls(fn, texts(PROGRAMS, PROGRAMS, x))[1] == PROGRAMS


def test_a_program_in_use_does_not_excuse_the_others():
    fn, x = thunder.jit(scaled), torch.randn(3)
    fn(x, "always")
    fn(x, "always")
    compiled = 0
    for v in texts(0, 2 * PROGRAMS, x):
        fn(x, "always")
        compiled += calls(fn, [v])[1]
    assert compiled == PROGRAMS


def test_random_numbers_of_python():
    layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def dropped(x):
        for layer in layers:
            if random.random() < 0.3:
                continue
            x = x + layer(x).relu()
        return x.sum()

    fn, x = thunder.jit(dropped), torch.randn(2, 8)
    for i in range(3 * PROGRAMS):
        random.seed(i)
        expected = dropped(x)
        random.seed(i)
        (out,), _ = calls(fn, [(x,)])
        torch.testing.assert_close(out, expected)
        if out.requires_grad:
            out.backward()
    assert thunder.compile_stats(fn)["cache_misses"] <= PROGRAMS + 1


@pytest.mark.parametrize("options", [{"cache": "no caching"}, {"sharp_edges": "error"}], ids=str)
def test_who_asked_for_compilation_gets_it(options):
    fn, x = thunder.jit(scaled, **options), torch.randn(3)
    assert calls(fn, texts(0, 2 * PROGRAMS, x))[1] == 2 * PROGRAMS


def test_a_transform_is_never_left_out():
    fn, x = thunder.jit(scaled, transforms=[lambda trace: trace]), torch.randn(3)
    assert calls(fn, texts(0, 2 * PROGRAMS, x))[1] == 2 * PROGRAMS
