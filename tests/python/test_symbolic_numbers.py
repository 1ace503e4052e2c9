"""Numbers with cache="symbolic values", and what is said of programs that were compiled again."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from symbolic_checks import FLOATS, R, check, jit
from torch import nn

import thunder

# ---- numbers ---------------------------------------------------------------------------------------------------------

NUMBERS = {
    "product": lambda x, s: x * s + 2,
    "arithmetic": lambda x, s: x * (s * 2 - 1) / s + (3 - s) // 2 + s % 3,
    "power": lambda x, s: x.abs() ** s,
    "power of the number": lambda x, s: x * abs(s) ** 0.5,
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "clamp": lambda x, s: x.clamp(-abs(s), abs(s)),
    "full": lambda x, s: x + torch.full((4,), s),
    "tensor": lambda x, s: x + torch.tensor(s),
    "where": lambda x, s: torch.where(x > s, x, s),
    "masked fill": lambda x, s: x.masked_fill(x > 0, s),
    "leaky relu": lambda x, s: F.leaky_relu(x, abs(s)),
    "lerp": lambda x, s: torch.lerp(x, x * 2, s),
    "largest": lambda x, s: x * max(s, -100.0, s - 1),
    "kept in a list": lambda x, s: x * sum([s, s, 1]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_float_that_is_computed_with_is_no_reason_to_compile(name):
    x = R(3, 4)
    compiled = check(NUMBERS[name], [(x, s) for s in FLOATS], compiles=2)
    assert thunder.cache_hits(compiled) >= 2


def test_an_int_that_is_computed_with_is_no_reason_to_compile():
    check(lambda x, n: x * n + n // 2 + n**2 + n / 4, [(R(3, 4), n) for n in range(2, 22)], compiles=1)


def test_an_int_is_a_size():
    calls = [(R(9, 8), k) for k in (2, 3, 7, 5)]
    check(lambda x, k: x[:k] * torch.ones(k, 1), calls, compiles=1)
    check(lambda x, k: F.pad(x, (k, 0)).narrow(1, k, 8), calls, compiles=1)


def test_0_1_and_negative_ints_have_programs_of_their_own():
    check(lambda x, n: x * n, [(R(3), n) for n in (0, 1, -1, 2, 3, 0, 1, -1)], compiles=4)
    check(lambda x, d: x.sum(d), [(R(3, 4), d) for d in (0, 1, -1, -2)], compiles=4)


def test_an_int_used_as_a_dimension_specializes():
    f = check(lambda x, d: x.sum(d), [(R(2, 3, 4, 5), d) for d in (2, 3, 2, 3)], compiles=2)
    assert any("int argument 0" in g for g in thunder.compile_stats(f)["guards"])


def test_a_branch_on_a_float_is_a_guard():
    check(lambda x, s: x * s if s > 3 else x - s, [(R(3), s) for s in (2.5, 3.5, 7.25, 0.3, -4.0)], compiles=2)
    check(lambda x, s, r: x * s if s * 2 <= r else x - s, [(R(3), s, 5.0) for s in (2.25, 2.5, 3.0, 2.75)], compiles=2)


def test_floats_that_are_0_or_1():
    check(lambda x, s: F.dropout(x, s, training=False) * s, [(R(3), s) for s in (0.0, 1.0, 0.5, 0.25)], compiles=4)


def test_a_float_that_an_operator_must_know_specializes():
    check(lambda x, s: F.layer_norm(x, (4,), eps=s), [(R(3, 4), s) for s in (0.1, 0.2, 0.1)], compiles=2)
    check(lambda x, s: x * math.exp(s), [(R(3, 4), s) for s in (0.1, 0.2, 0.1)], compiles=2)


def test_numbers_in_containers_and_keywords():
    f = jit(lambda x, *, options: x * options["scale"] + options["shift"][0] * options["n"])
    for s in FLOATS:
        options = {"scale": s, "shift": [2 * s, 5], "n": 3}
        x = R(3)
        torch.testing.assert_close(f(x, options=options), x * s + 2 * s * 3)
    assert thunder.cache_misses(f) == 1


def test_numbers_in_dataclasses_are_constants():
    @dataclasses.dataclass
    class Options:
        scale: float

    check(lambda x, o: x * o.scale, [(R(3), Options(s)) for s in (2.5, 3.5, 2.5)], compiles=2)


def test_division_by_a_number_that_becomes_zero():
    f = jit(lambda x, s, r: x * (1 / (s - r)))
    assert torch.equal(f(torch.ones(2), 3.0, 2.5), torch.full((2,), 2.0))
    with pytest.raises(ZeroDivisionError):
        f(torch.ones(2), 2.5, 2.5)
    assert torch.equal(f(torch.ones(2), 3.0, 2.75), torch.full((2,), 4.0))


def test_numbers_come_out_as_python_numbers():
    f = jit(lambda x, s, n: (x * s, s * 2, s, n, n + 1, n / 2))
    for s, n in ((2.5, 7), (3.25, 9)):
        _, *numbers = f(R(2), s, n)
        assert numbers == [s * 2, s, n, n + 1, n / 2]
        assert [type(k) for k in numbers] == [float, float, int, int, float]
    assert thunder.cache_misses(f) == 1


def test_special_floats_are_constants():
    calls = [(R(3), s) for s in (float("inf"), -float("inf"), 2.5, 1e30)]
    check(lambda x, s: torch.minimum(x, torch.tensor(s)) * 2, calls, compiles=3)


def test_numbers_that_outlive_their_trace():
    class Longest(nn.Module):
        def __init__(self):
            super().__init__()
            self.longest = 0

        def forward(self, x):
            if x.shape[0] > self.longest:
                self.longest = x.shape[0]
            return x * self.longest

    module, eager = Longest(), Longest()
    compiled = jit(module)
    for n in (3, 2, 5, 4, 5, 3, 9, 8):
        x = R(n, 2)
        torch.testing.assert_close(compiled(x), eager(x))
        assert module.longest == eager.longest and f"{module.longest + 1}" == f"{eager.longest + 1}"
    kept = []
    f = jit(lambda x, s: (kept.append((x.shape[0], s * 2)), x)[1])
    f(R(4), 2.5)
    assert kept[0][0] == 4 and kept[0][0] * 2 == 8 and kept[0][1] == 5.0 and list(range(kept[0][0])) == [0, 1, 2, 3]
    g = jit(lambda x: x * kept[0][0] + kept[0][1])
    torch.testing.assert_close(g(torch.ones(2)), torch.full((2,), 9.0))


def test_a_cache_that_grows_with_each_token():
    def step(x, cache):
        q, k, v = x.chunk(3, -1)
        if cache is not None:
            k, v = (torch.cat([old, new], 1) for old, new in zip(cache, (k, v), strict=True))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return y[:, -1:].repeat(1, 1, 3), (k, v)

    compiled = jit(step)
    for prompt in (5, 3, 8):
        x = R(2, prompt, 12)
        outputs = []
        for f in (step, compiled):
            token, cache, tokens = x, None, []
            for _ in range(32):
                token, cache = f(token, cache)
                tokens.append(token)
            outputs.append(torch.cat(tokens))
        torch.testing.assert_close(*outputs)
    assert thunder.cache_misses(compiled) <= 3


# ---- explanations ----------------------------------------------------------------------------------------------------


def test_a_miss_names_the_guard_and_the_line():
    def f(x):
        if x.shape[0] > 4:
            return x * 2
        return x

    compiled = jit(f)
    compiled(R(8, 2))
    compiled(R(3, 2))
    why = thunder.explain_miss(compiled)
    assert "size 0 of tensor argument 0" in why and "test_symbolic_numbers.py" in why and "in f" in why, why
    line = f.__code__.co_firstlineno + 1
    assert f"test_symbolic_numbers.py:{line}" in why, why


def test_a_miss_of_a_specialized_number_says_what_it_is_now():
    compiled = jit(lambda x, n: sum(x * i for i in range(n)))
    compiled(R(2), 3)
    compiled(R(2), 4)
    why = thunder.explain_miss(compiled)
    assert "== 3" in why and "now 4" in why and "int argument 0" in why and "test_symbolic_numbers.py" in why, why


def test_a_miss_of_a_float_names_the_comparison():
    compiled = jit(lambda x, s: x if s < 2 else -x)
    compiled(R(2), 3.0)
    compiled(R(2), 1.5)
    assert "f0 < 2" in thunder.explain_miss(compiled)


def test_a_miss_without_a_failed_guard_says_how_the_arguments_differ():
    compiled = jit(lambda x, y=None: x * 2)
    x = R(4, 3)
    why = []
    y = x.double()
    for args in ((x,), (R(1, 3),), (x.t(),), (y,), (y, None), (y, x)):
        compiled(*args)
        why.append(thunder.explain_miss(compiled))
    assert why[0] == "the first call"
    assert "tensor argument 0 is cpu float32 [1, n]" in why[1] and "was compiled for cpu float32 [n, n]" in why[1]
    assert "strides=[1, " in why[2]
    assert "float64" in why[3]
    assert "an argument that is no tensor" in why[4]
    assert "2 tensors among the arguments" in why[5]
    with torch.no_grad():
        compiled(y, x)
    assert "grad mode" in thunder.explain_miss(compiled)


def test_a_miss_of_constant_values_names_the_tensor():
    compiled = thunder.jit(lambda x, y: x + y.sum(), cache="constant values")
    compiled(R(3), R(4))
    compiled(R(3), R(5))
    why = thunder.explain_miss(compiled)
    assert why == (
        "tensor argument 1 is cpu float32 [5] strides=[1], the program was compiled for cpu float32 [4] strides=[1]"
    )


def test_other_options_take_values_as_they_are():
    f = thunder.jit(lambda x, s: x * s)
    for s in (2.5, 3.5):
        f(R(3), s)
    assert thunder.cache_misses(f) == 2
    assert thunder.compile_stats(f)["guards"] == []


def test_an_error_of_the_user_is_about_the_numbers():
    f = jit(lambda x: x.view(3, -1))
    f(R(6, 2))
    with pytest.raises(RuntimeError, match=r"invalid for input of size 10[\s\S]*test_symbolic_numbers.py"):
        f(R(5, 2))
