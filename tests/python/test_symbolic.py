"""cache="symbolic values": one program for many sizes and numbers, with eager's results and gradients.

Each program is called with several sizes; how often it may compile is part of the test.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from symbolic_checks import SIZES, R, call, check, jit
from torch import nn

import thunder

# ---- sizes -----------------------------------------------------------------------------------------------------------


def attention(q):
    scores = q @ q.transpose(-2, -1) / q.shape[-1] ** 0.5
    mask = torch.full((q.shape[-2], q.shape[-2]), float("-inf")).triu(1)
    return (scores + mask).softmax(-1) @ q


def write_into_slice(x):
    y = x.clone()
    y[1:] = 0
    y[0, : x.shape[1] // 2] *= 3
    return y


# name: (program, arguments for sizes n, m)
PROGRAMS = {
    "pointwise": (lambda x: F.gelu(x * 2 + 1).sin(), lambda n, m: (R(n, m),)),
    "two operands": (lambda x, y: x * y + y, lambda n, m: (R(n, m), R(n, m))),
    "broadcast": (lambda x, y: x + y, lambda n, m: (R(n, m), R(m))),
    "broadcast both": (lambda x, y: x * y, lambda n, m: (R(n, 1), R(m))),
    "sum": (lambda x: x.sum(), lambda n, m: (R(n, m),)),
    "sum rows": (lambda x: x.sum(0), lambda n, m: (R(n, m),)),
    "mean": (lambda x: x.mean(-1, keepdim=True), lambda n, m: (R(n, m),)),
    "amax": (lambda x: x.amax(-1), lambda n, m: (R(n, m),)),
    "var": (lambda x: x.var(-1), lambda n, m: (R(n, m),)),
    "std": (lambda x: x.std(0), lambda n, m: (R(n, m),)),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda n, m: (R(n, m),)),
    "softmax": (lambda x: x.softmax(-1), lambda n, m: (R(n, m),)),
    "layer norm": (lambda x: F.layer_norm(x, (8,)), lambda n, m: (R(n, m, 8),)),
    "linear": (lambda x, w, b: F.linear(x, w, b), lambda n, m: (R(n, m, 8), R(16, 8), R(16))),
    "matmul": (lambda x, y: x @ y, lambda n, m: (R(n, m), R(m, n))),
    "bmm": (lambda x, y: torch.bmm(x, y), lambda n, m: (R(n, m, 4), R(n, 4, m))),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ki", x, y), lambda n, m: (R(n, m), R(m, 5))),
    "view": (lambda x: x.view(x.shape[0] * x.shape[1], 2).t().reshape(-1), lambda n, m: (R(n, m, 2),)),
    "heads": (lambda x: x.view(x.size(0), -1, 2, 4).transpose(1, 2).flatten(2), lambda n, m: (R(n, m, 8),)),
    "permute": (lambda x: x.permute(2, 0, 1).reshape(8, -1), lambda n, m: (R(n, m, 8),)),
    "transposed operand": (lambda x: x * 2 + 1, lambda n, m: (R(n, m).t(),)),
    "sliced operand": (lambda x: x.sin().sum(0), lambda n, m: (R(n, m + 3)[:, 1:-1],)),
    "cat": (lambda x, y: torch.cat([x, y.sin()], 0), lambda n, m: (R(n, 4), R(m, 4))),
    "stack": (lambda x: torch.stack([x, x * 2], 1), lambda n, m: (R(n, m),)),
    "split": (lambda x: x.split([2, x.shape[0] - 2])[1], lambda n, m: (R(n + 2, m),)),
    "slice": (lambda x: x[1:, : x.shape[1] // 2], lambda n, m: (R(n, 2 * m),)),
    "write into a slice": (write_into_slice, lambda n, m: (R(n, m),)),
    "pad": (lambda x: F.pad(x, (0, x.shape[0])), lambda n, m: (R(n, m),)),
    "roll": (lambda x: x.roll(1, 0), lambda n, m: (R(n, m),)),
    "cumsum": (lambda x: x.cumsum(0), lambda n, m: (R(n, m),)),
    "sort": (lambda x: x.sort(-1)[0], lambda n, m: (R(n, m),)),
    "index": (lambda x: x[torch.arange(x.shape[0]), 1], lambda n, m: (R(n, m),)),
    "expand": (lambda x: x.unsqueeze(1).expand(-1, 5, -1).sum(1), lambda n, m: (R(n, m),)),
    "repeat": (lambda x: x.repeat(2, 1), lambda n, m: (R(n, m),)),
    "arange": (lambda x: x + torch.arange(x.shape[-1]), lambda n, m: (R(n, m),)),
    "linspace": (lambda x: x * torch.linspace(0, 1, x.shape[1]), lambda n, m: (R(n, m),)),
    "tril": (lambda x: x.tril(), lambda n, m: (R(n, m),)),
    "sizes as numbers": (lambda x: x.sum() / x.shape[0] + x.shape[1] / 2 + x.numel() ** 0.5, lambda n, m: (R(n, m),)),
    "attention": (attention, lambda n, m: (R(n, 2, m, 8),)),
    "sdpa": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda n, m: (R(n, 2, m, 8), R(n, 2, m, 8), R(n, 2, m, 8)),
    ),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1, stride=2), lambda n, m: (R(n, 4, m + 3, m + 5), R(6, 4, 3, 3))),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), lambda n, m: (R(n, 4, m),)),
    "embedding": (lambda i, w: F.embedding(i, w), lambda n, m: (torch.randint(0, 10, (n, m)), R(10, 6))),
    "cross entropy": (
        lambda x, t: F.cross_entropy(x.view(-1, x.size(-1)), t.view(-1)),
        lambda n, m: (R(n, m, 10), torch.randint(0, 10, (n, m))),
    ),
    "mask": (lambda x: x[x > 0].sum(), lambda n, m: (R(n, m),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_for_many_sizes(name):
    program, arguments = PROGRAMS[name]
    # A slice without the first row has a program of its own where one row is left.
    check(program, [arguments(n, m) for n, m in SIZES], compiles=2 if name == "write into a slice" else 1)


@pytest.mark.parametrize("executors", [["fuser"], ["aten"], ["sdpa", "fuser"]], ids="+".join)
def test_each_executor_runs_or_leaves_symbolic_sizes(executors):
    f = thunder.jit(lambda x, w: F.gelu(attention(x) @ w).softmax(-1), executors=executors, cache="symbolic values")
    for n, m in SIZES:
        args = (R(n, 2, m, 8), R(8, 8))
        eager = call(lambda x, w: F.gelu(attention(x) @ w).softmax(-1), args, True)
        torch.testing.assert_close(call(f, args, True), eager)
    assert thunder.cache_misses(f) == 1


def test_sizes_0_and_1_have_programs_of_their_own():
    sizes = [(1, 4), (3, 1), (0, 4), (3, 0), (1, 1), (5, 6), (1, 7), (9, 1), (2, 2)]
    check(lambda x: (x * 2).sum(-1), [(R(*s),) for s in sizes], compiles=6)


def test_twenty_batch_sizes_of_a_model():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
            self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = (y.view(b, t, 4, c // 4).transpose(1, 2) for y in self.qkv(self.norm(x)).split(c, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
            return x + self.mlp(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(50, 16), nn.Embedding(64, 16)
            self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(16, 50)

        def forward(self, i, target):
            x = self.tokens(i) + self.places(torch.arange(i.size(1), device=i.device))
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy(self.head(x).view(-1, 50), target.view(-1))

    torch.manual_seed(0)
    model = Model()
    compiled = jit(model)
    for k in range(20):
        batch = torch.randint(0, 50, (2, 2 + k % 7, 2 + 3 * k))
        results = []
        for f in (model, compiled):
            model.zero_grad()
            f(*batch).backward()
            results.append([p.grad.clone() for p in model.parameters()])
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    # The second of a batch lies on a multiple of 16 bytes or not.
    assert thunder.cache_misses(compiled) == 2
    assert thunder.cache_hits(compiled) == 18


def test_a_size_that_must_equal_another_is_a_guard():
    f = jit(lambda x, y: x + y)
    assert f(R(3), R(3)).shape == (3,)
    assert f(R(5), R(5)).shape == (5,)
    with pytest.raises(RuntimeError, match=r"must match[\s\S]*test_symbolic.py"):
        f(R(4), R(5))
    assert f(R(6), R(6)).shape == (6,)
    assert thunder.cache_misses(f) == 2  # and the one that failed


@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize(
    "make", [lambda c, n: c.abs().view(n, -1), lambda c, n: c[: c.shape[0] // n].abs()], ids=["view", "slice"]
)
def test_a_computed_size_that_is_1_is_repeated(rows, make):
    """Else a kernel would read behind the tensor."""
    f = lambda b, c: (b + make(c, rows)).sin() * b
    check(f, [(R(rows, 4), R(rows)), (R(rows, 5), R(rows)), (R(rows, 3), R(3 * rows)), (R(rows, 2), R(2 * rows))], 3)


@pytest.mark.parametrize("lengths", [(4, 1, 5), (1, 4, 1), (3, 1, 1, 2)])
@pytest.mark.parametrize("cache", ["varying values", "symbolic values"])
@pytest.mark.parametrize("make", [lambda c: c.view(2, -1), lambda c: c[: c.shape[0] // 2]], ids=["view", "slice"])
def test_a_computed_size_that_is_1_in_some_calls(make, cache, lengths):
    f = lambda b, c: (b + make(c)).sin()
    compiled = thunder.jit(f, cache=cache)
    for n in lengths:
        args = R(3, 2, n), R(2 * n)
        torch.testing.assert_close(call(compiled, args, True), call(f, args, True))


def test_a_constant_that_a_size_meets_is_a_guard():
    weight = R(4, 8)
    f = jit(lambda x: F.linear(x, weight))
    for n in (2, 3, 4):
        f(R(n, 8))
    assert thunder.cache_misses(f) == 1
    (size,) = thunder.compile_stats(f)["guards"]
    assert "== 8" in size and "size 1 of tensor argument 0" in size and "test_symbolic.py" in size


def test_the_layout_of_an_argument_is_guarded():
    f = jit(lambda x: x.view(-1) if x.is_contiguous() else x.reshape(-1) * 2)
    for n in (3, 4, 5):
        x = R(n, 4)
        torch.testing.assert_close(f(x), x.view(-1))
        torch.testing.assert_close(f(x.t()), x.t().reshape(-1) * 2)
    assert thunder.cache_misses(f) == 2


def test_strides_are_symbols():
    f = jit(lambda x: x.as_strided((x.size(0),), (x.stride(0),)) * 2)
    for n, m in SIZES:
        x = R(n, m)[:, :-1]
        torch.testing.assert_close(f(x), x[:, 0] * 2)
    assert thunder.cache_misses(f) == 1


# ---- what needs the number itself ------------------------------------------------------------------------------------


def loop(x):
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i] * i
    return total


def test_a_loop_over_a_size_specializes_that_size_alone():
    calls = [(R(n, m),) for n in (2, 3) for m in (2, 3, 5)]
    check(loop, calls, compiles=2)


def test_a_branch_on_a_size_is_a_guard():
    check(lambda x: x * 2 if x.shape[0] > 4 else x + 1, [(R(n, 3),) for n in range(2, 12)], compiles=2)


def test_parity_is_a_guard():
    check(lambda x: x * 2 if x.shape[0] % 2 == 0 else x + 1, [(R(n, 3),) for n in range(2, 12)], compiles=2)


USES = {
    "f-string": lambda x: x * len(f"{'a' * 3}{x.shape[0]}"),
    "str": lambda x: x * len(str(x.shape[0])),
    "index of a list": lambda x: x * [5.0, 6.0, 7.0, 8.0, 9.0][x.shape[0]],
    "slice of a list": lambda x: x * len([1, 2, 3, 4, 5][: x.shape[0]]),
    "dict": lambda x: x * {2: 5.0, 3: 6.0, 4: 7.0}[x.shape[0]],
    "set": lambda x: x * (x.shape[0] in {3, 4}),
    "repetition": lambda x: x * len([0] * x.shape[0]),
    "int": lambda x: x * int(x.shape[0]),
    "float": lambda x: x * float(x.shape[0]),
    "math": lambda x: x * math.sqrt(x.shape[0]),
    "bits": lambda x: x * (x.shape[0] & 1) * (x.shape[0] << 2),
    "bit_length": lambda x: x * x.shape[0].bit_length(),
    "round": lambda x: x * round(x.shape[0] / 3),
}


@pytest.mark.parametrize("name", USES)
def test_what_needs_the_number_specializes(name):
    calls = [(R(n, m),) for n in (2, 3, 4, 2, 3) for m in (3, 5)]
    check(USES[name], calls, compiles=3)


def test_a_size_is_an_int():
    def f(x):
        n, m = x.shape
        assert isinstance(n, int) and isinstance(x.shape, torch.Size) and len(x.shape) == 2
        assert x.size() == x.shape and x.size(1) == m and -n + n == 0 and +n == n
        assert divmod(n, 2) == (n // 2, n % 2) and max(n, 1) == n and abs(-n) == n and bool(n)
        assert x.shape[:-1] + (m,) == x.shape
        return x.view(m, n)

    check(f, [(R(n, m),) for n, m in SIZES if n != m], compiles=3)


def test_sizes_come_out_as_ints():
    f = jit(lambda x: (x * 2, x.shape[0], x.shape[0] * 2 + 1, x.shape, {"half": x.shape[1] / 2}))
    for n, m in SIZES:
        _, rows, odd, shape, d = f(R(n, m))
        assert (rows, odd, shape, d) == (n, 2 * n + 1, (n, m), {"half": m / 2})
        assert type(rows) is type(odd) is int and type(shape) is torch.Size
    assert thunder.cache_misses(f) == 1


def test_data_dependent_sizes_beside_symbols():
    check(lambda x: x.nonzero().float().sum(0) * x.shape[0], [(R(n, m),) for n, m in SIZES], 1, grad=False)


def test_in_place_writes_reach_the_arguments():
    f = jit(lambda x, y: (x.mul_(2), x[1:].add_(y), x.t())[-1])
    for n, m in SIZES:
        x, y = R(n, m), R(m)
        want = (x * 2).clone()
        want[1:] += y
        got = f(x, y)
        torch.testing.assert_close(x, want)
        torch.testing.assert_close(got, want.t())
        assert got.data_ptr() == x.data_ptr()
    assert thunder.cache_misses(f) == 2  # one for x[1:] of a single row


@pytest.mark.parametrize("write", [False, True])
def test_arguments_that_share_memory(write):
    def f(x, y):
        if write:
            x.mul_(2)
        return x * y + 1

    compiled = jit(f)
    for n in (4, 5, 6):
        for first, second in (((0, n), (0, n)), ((0, n), (1, n + 1)), ((2, n + 2), (0, n))):
            base = R(n + 2, 4)
            results = []
            for g in (f, compiled):
                memory = base.clone()
                results.append((g(memory[slice(*first)], memory[slice(*second)]), memory))
            torch.testing.assert_close(results[1], results[0])
    # A program that writes to shared memory knows how it is shared.
    assert thunder.cache_misses(compiled) == (9 if write else 1)


def test_inputs_and_targets_of_one_batch():
    f = jit(lambda x, y, w: F.cross_entropy(F.embedding(x, w).flatten(0, 1), y.flatten()))
    w = R(10, 10)
    for n, m in SIZES:
        batch = torch.randint(0, 10, (n, m))
        x, y = batch[:, :-1], batch[:, 1:]
        torch.testing.assert_close(f(x, y, w), F.cross_entropy(w[x].flatten(0, 1), y.flatten()))
    assert thunder.cache_misses(f) == 1


def test_the_same_tensor_twice_is_another_program():
    f = jit(lambda x, y: x * y)
    for n in (3, 4, 5):
        x, y = R(n), R(n)
        torch.testing.assert_close(f(x, x), x * x)
        torch.testing.assert_close(f(x, y), x * y)
    assert thunder.cache_misses(f) == 2


# ---- random programs -------------------------------------------------------------------------------------------------

STEPS = {
    "sin": lambda x: x.sin(),
    "scale": lambda x: x * x.shape[0] / (x.shape[1] + 1),
    "transpose": lambda x: x.t(),
    "softmax": lambda x: x.softmax(-1),
    "centre": lambda x: x - x.mean(0),
    "norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "product": lambda x: x @ x.t() @ x,
    "cat": lambda x: torch.cat([x, x[:1]], 0),
    "drop": lambda x: x[1:] if x.shape[0] > 2 else x,
    "half": lambda x: x[:, : x.shape[1] // 2 + 1],
    "flat": lambda x: x.reshape(-1).view(x.shape[1], x.shape[0]),
    "pad": lambda x: F.pad(x, (1, 0)),
    "add row": lambda x: x + x[0],
    "outer": lambda x: x.sum(1, keepdim=True) * x.sum(0),
    "repeat": lambda x: x.repeat(1, 2),
    "cumsum": lambda x: x.cumsum(1),
    "in place": lambda x: x.clone().mul_(2),
}


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=2, max_size=5),
)
def test_random_programs_of_random_sizes(steps, sizes):
    def program(x):
        for step in steps:
            x = STEPS[step](x)
        return x

    compiled = jit(program)
    for n, m in sizes:
        args = (torch.rand(n, m, dtype=torch.float64),)
        try:
            want = call(program, args, True)
        except (RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                call(compiled, args, True)
            continue
        torch.testing.assert_close(call(compiled, args, True), want)
    assert thunder.compile_stats(compiled)["not_symbolic"] == ""


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from(["+", "-", "*", "/", "//", "%", "<"]), min_size=1, max_size=5),
    st.lists(
        st.tuples(st.floats(-100, 100), st.floats(-100, 100, allow_subnormal=False), st.integers(-3, 50)),
        min_size=2,
        max_size=5,
    ),
)
def test_random_arithmetic_is_pythons(operators, numbers):
    import operator

    table = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
             "%": operator.mod, "<": lambda a, b: a if a < b else b}  # fmt: skip

    def compute(a, b, n):
        x, y = n, a
        for op in operators:
            x, y = table[op](x, y), b
        return x, x + n

    f = jit(lambda t, *args: (t, *compute(*args)))
    for args in numbers:
        try:
            want = compute(*args)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                f(torch.ones(1), *args)
            continue
        got = f(torch.ones(1), *args)[1:]
        assert repr(got) == repr(want), (args, got, want)
