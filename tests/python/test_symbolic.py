"""cache="symbolic values": one program for many sizes and numbers, with eager's results and gradients.

Each program is called with several sizes; how often it may compile is part of the test.
"""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import thunder

R = torch.randn
SIZES = [(3, 4), (5, 7), (8, 8), (2, 9), (6, 4)]
FLOATS = [2.5, 3.5, -7.25, 0.3]


def jit(f):
    return thunder.jit(f, cache="symbolic values")


def is_float(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def call(f, args, grad):
    """The result, and the gradients of the tensors among `args`."""
    args = [x.detach().clone().requires_grad_(grad) if is_float(x) else x for x in args]
    out = f(*args)
    if not (is_float(out) and out.requires_grad):
        return out, []
    out.backward(torch.ones_like(out) * torch.arange(1, out.numel() + 1).reshape(out.shape).to(out.dtype).cos())
    return out.detach(), [x.grad for x in args if is_float(x)]


def check(f, calls, compiles, grad=True):
    """Calls the compiled function on each of `calls`, compares with eager, counts compilations; returns it."""
    compiled = jit(f)
    for args in calls:
        want, want_grads = call(f, args, grad)
        got, got_grads = call(compiled, args, grad)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(got_grads, want_grads)
    stats = thunder.compile_stats(compiled)
    assert stats["not_symbolic"] == ""
    assert thunder.cache_misses(compiled) <= compiles, (stats["guards"], stats["last_miss"])
    return compiled


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
    assert "size 0 of tensor argument 0" in why and "test_symbolic.py" in why and "in f" in why, why
    line = f.__code__.co_firstlineno + 1
    assert f"test_symbolic.py:{line}" in why, why


def test_a_miss_of_a_specialized_number_says_what_it_is_now():
    compiled = jit(lambda x, n: sum(x * i for i in range(n)))
    compiled(R(2), 3)
    compiled(R(2), 4)
    why = thunder.explain_miss(compiled)
    assert "== 3" in why and "now 4" in why and "int argument 0" in why and "test_symbolic.py" in why, why


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
    compiled = thunder.jit(lambda x, y: x + y.sum())
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
    with pytest.raises(RuntimeError, match=r"invalid for input of size 10[\s\S]*test_symbolic.py"):
        f(R(5, 2))


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
