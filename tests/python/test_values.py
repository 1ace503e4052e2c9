"""Programs that read the values of tensors: values are guards."""

import copy
import math
import threading

import pytest
import torch
from eager_checks import check_left_to_eager

import thunder


def check(f, calls, misses=None, grad=False, **options):
    """Compares the compiled function with eager on each tuple of arguments, results and what was written to them."""
    compiled = thunder.jit(f, **options)
    for n, args in enumerate(calls):
        ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
        if grad:
            for a in (*ours, *theirs):
                if isinstance(a, torch.Tensor) and a.is_floating_point():
                    a.requires_grad_()
        want, got = outcome(f, theirs), outcome(compiled, ours)
        assert type(got) is type(want), (n, got, want)
        if isinstance(want, Exception):
            assert str(got).partition("\n")[0] == str(want).partition("\n")[0]
            continue
        torch.testing.assert_close(got, want, equal_nan=True, msg=lambda m, n=n: f"call {n}: {m}")
        if grad:
            for result in (want, got):
                sum(r.sum() for r in leaves(result)).backward()
            for a, b in zip(ours, theirs, strict=True):
                if isinstance(a, torch.Tensor) and a.requires_grad:
                    torch.testing.assert_close(a.grad, b.grad, msg=lambda m, n=n: f"call {n}, gradient: {m}")
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    if misses is not None:
        assert thunder.cache_misses(compiled) == misses, thunder.explain_miss(compiled)
    return compiled


def outcome(f, args):
    try:
        return f(*args)
    except Exception as e:  # noqa: BLE001  # compared with eager's
        return e


def leaves(o):
    if isinstance(o, torch.Tensor):
        return [o] if o.requires_grad else []
    return [t for item in o for t in leaves(item)] if isinstance(o, (tuple, list)) else []


POSITIVE, NEGATIVE = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 3.0])


# ---- branches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grad", [False, True])
def test_a_branch_is_compiled_once_for_each_side(grad):
    def f(x):
        if (x * 2).sum() > 0:
            return x.sin()
        return x.cos()

    check(f, [(POSITIVE,), (-POSITIVE,), (POSITIVE * 2,), (-POSITIVE * 3,), (POSITIVE,)], misses=2, grad=grad)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: (x > 0).all(),
        lambda x: (x > 0).sum(),  # true for any count
        lambda x: bool((x < 0).any()),
        lambda x: not (x < 0).any(),
        lambda x: torch.equal(x, POSITIVE),
        lambda x: torch.allclose(x, POSITIVE),
        lambda x: torch.is_nonzero((x > 0).all()),
        lambda x: 3.0 in x,
        lambda x: x.sum() > 2 and x.min() > 0,
        lambda x: x.sum().item() > 2,
        lambda x: float(x.sum()) > 2,
        lambda x: int((x > 0).sum()) == 3,
        lambda x: (x > 0).tolist() == [True, True, True],
        lambda x: len(x[x > 0]) == 3,
        lambda x: x[x > 10].numel() == 0,
        lambda x: torch.nonzero(x > 10).shape[0] == 0,
        lambda x: [1, 2, 3, 4][(x > 0).sum()] == 4,
    ],
)
def test_questions(ask):
    def f(x):
        return x + 1 if ask(x) else x - 1

    compiled = check(f, [(POSITIVE,), (NEGATIVE,), (POSITIVE + 20,), (POSITIVE,), (-POSITIVE,)])
    misses = thunder.cache_misses(compiled)
    for x in (POSITIVE, NEGATIVE, POSITIVE + 20, -POSITIVE):
        torch.testing.assert_close(compiled(x.clone()), f(x))
    assert thunder.cache_misses(compiled) == misses > 1


def test_the_second_question_depends_on_the_first():
    def f(x, n):
        if x.sum() > 0:
            if x[n] > 2:
                return x * 2
            return x * 3
        return x.abs() if x.min() < -2 else x

    n = torch.tensor(2)
    calls = [(x, n) for x in (POSITIVE, NEGATIVE, -POSITIVE, POSITIVE / 4, -POSITIVE / 4)]
    check(f, calls + calls[::-1], misses=4)


def test_a_step_that_would_raise_on_the_other_side_is_not_run():
    def f(x, n):
        if n < 3:
            if x[n] > 1:  # out of range for a larger n
                return x * 2
        return x

    check(f, [(POSITIVE, torch.tensor(n)) for n in (1, 7, 0, 9, 2)], misses=3)


def test_early_exit_and_errors():
    def f(x):
        if x.sum() > 10:
            return x
        if torch.isnan(x).any():
            raise ValueError("a value is not a number")
        assert (x >= 0).all(), "negative"
        return x.sqrt()

    compiled = check(f, [(POSITIVE,), (POSITIVE * 5,), (POSITIVE * math.nan,), (NEGATIVE,), (POSITIVE,)])
    with pytest.raises(ValueError, match="not a number"):
        compiled(POSITIVE * math.nan)
    with pytest.raises(AssertionError, match="negative"):
        compiled(NEGATIVE)


@pytest.mark.parametrize("grad", [False, True])
def test_loops_until_converged(grad):
    def root(x):
        y = x
        steps = 0
        while (y * y - x).abs().max() > 1e-4 and steps < 20:
            y = (y + x / y) / 2
            steps += 1
        return y, steps

    def f(x):
        return root(x)[0]

    check(f, [(POSITIVE,), (POSITIVE * 1.01,), (POSITIVE * 100,), (POSITIVE,)], misses=2, grad=grad)


def test_gradient_clipping_by_a_branch():
    def f(x, most):
        norm = x.norm()
        if norm > most:
            x = x * (most / norm)
        return x * 2

    check(f, [(POSITIVE, 1.0), (POSITIVE / 10, 1.0), (POSITIVE * 3, 1.0)], misses=2, grad=False)
    check(lambda x: f(x, 1.0), [(POSITIVE,), (POSITIVE / 10,), (POSITIVE * 3,)], misses=2, grad=True)


@pytest.mark.parametrize("grad", [False, True])
def test_experts_that_no_token_chose_are_left_out(grad):
    torch.manual_seed(0)
    experts = [torch.nn.Linear(4, 4) for _ in range(3)]

    def f(x, chosen):
        out = torch.zeros_like(x)
        for i, expert in enumerate(experts):
            mask = chosen == i
            if mask.any():
                out[mask] = expert(x[mask])
        return out

    x = torch.randn(5, 4)
    choices = [torch.tensor(c) for c in ([0, 1, 2, 0, 1], [0, 0, 0, 0, 0], [2, 1, 0, 0, 0], [2, 2, 2, 2, 0])]
    check(f, [(x, c) for c in choices], misses=3, grad=grad)


def test_experts_by_index():
    experts = [torch.nn.Linear(4, 4) for _ in range(3)]

    def f(x, scores):
        weights, chosen = scores.softmax(-1).topk(2, -1)
        mask = torch.nn.functional.one_hot(chosen, 3).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for i in torch.greater(mask.sum((-1, -2)), 0).nonzero():
            k, token = torch.where(mask[i].squeeze(0))
            out.index_add_(0, token, experts[i](x[token]) * weights[token, k, None])
        return out

    torch.manual_seed(0)
    check(f, [(torch.randn(5, 4), torch.randn(5, 3)) for _ in range(4)], grad=True)


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_a_float_that_is_read_is_a_number_of_the_call():
    def f(x):
        scale = 1.0 / float(x.sum())
        return x * scale + x.max().item() * 2 - 1

    check(f, [(POSITIVE,), (POSITIVE * 3,), (NEGATIVE + 4,)], misses=1)


def test_comparisons_of_a_float_are_guards():
    def f(x):
        n = x.sum().item()
        if n > 4:
            return x / n
        return x * n

    check(f, [(POSITIVE,), (POSITIVE * 2,), (POSITIVE / 10,), (POSITIVE / 5,), (POSITIVE,)], misses=2)


def test_numbers_that_are_no_numbers():
    def f(x):
        n = x.sum().item()
        if not math.isfinite(n):
            return x.nan_to_num() if math.isnan(n) else -x
        return x * n

    calls = [(POSITIVE * s,) for s in (1, 2, math.nan, 3, math.inf, math.nan, -math.inf)]
    check(f, calls, misses=3)


def test_an_int_becomes_a_symbol_when_it_turns_out_to_vary():
    def f(x, n):
        return x[: n.item()] * 2

    x = torch.arange(12.0)
    compiled = check(f, [(x, torch.tensor(n)) for n in (5, 5, 7, 9, 4, 5)], misses=2)
    want = [x[:n] * 2 for n in (1, 0, -2, 11)]
    for n, w in zip((1, 0, -2, 11), want, strict=True):
        torch.testing.assert_close(compiled(x, torch.tensor(n)), w)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: x[:n],
        lambda x, n: x[n:],
        lambda x, n: x[: int(n)],
        lambda x, n: x[: n.item()].sum() + n.item(),
        lambda x, n: torch.zeros(n) + n,
        lambda x, n: torch.arange(n.item()) * 2,
        lambda x, n: torch.stack([x * i for i in range(n)]),
        lambda x, n: x.roll(int(n)),
        lambda x, n: x.narrow(0, 1, n.item()),
        lambda x, n: x.expand(int(n), -1).sum(0),
        lambda x, n: torch.full((2,), n.item()),
        lambda x, n: (x, n.item(), n.item() + 1, n.item() / 2, -n.item(), n.item() ** 2),
        lambda x, n: x * (n.item() if n > 3 else 1),
        lambda x, n: [x, x * 2][len(f"{n.item()} {int(n):3d}") % 2],
        lambda x, n: {n.item(): x}[int(n)],
        lambda x, n: torch.split(x, [n.item(), 12 - n.item()])[0],
        lambda x, n: math.sqrt(n) * x,
        lambda x, n: x[torch.arange(12) < n],
        lambda x, n: x.view(2, -1)[:, : n.item() // 2].sum(),
        lambda x, n: round(n.item() / 3, 2) * x,
        lambda x, n: x[n.item() : n.item() + 2],
        lambda x, n: torch.ones(2, 12).tril(n.item()),
    ],
)
@pytest.mark.parametrize("cache", ["constant values", "symbolic values", "no caching"])
def test_uses_of_an_int(f, cache):
    x = torch.randn(12)
    check(f, [(x, torch.tensor(n)) for n in (5, 7, 3, 5, 2, 7, 1, 8)], cache=cache)


def test_lists_of_numbers():
    def f(x, sizes):
        return [part.sum() for part in x.split(sizes.tolist())]

    x = torch.arange(6.0)
    check(f, [(x, torch.tensor(s)) for s in ([1, 2, 3], [2, 2, 2], [1, 2, 3], [4, 2])], misses=3)


def test_a_list_of_values_is_the_programs_own():
    def f(x):
        values = x.tolist()
        values.append(7)
        return values

    compiled = thunder.jit(f)
    for _ in range(3):
        assert compiled(torch.tensor([1, 2])) == [1, 2, 7]
    assert thunder.cache_misses(compiled) == 1


def test_numbers_are_constants_for_the_gradient():
    def f(x):
        return (x * x.sum().item()).sum() + x.prod() / float(x.max())

    check(f, [(POSITIVE,), (POSITIVE + 1,)], misses=1, grad=True)


@pytest.mark.parametrize("cls", [torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d])
def test_running_averages(cls):
    ours, theirs = cls(3, momentum=None), cls(3, momentum=None)
    compiled = thunder.jit(ours)
    for _ in range(4):
        x = torch.randn(4, 3, *[2] * int(cls.__name__[-2]))
        torch.testing.assert_close(compiled(x), theirs(x))
        torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))
    assert thunder.cache_misses(compiled) == 1


# ---- writes, views, state -------------------------------------------------------------------------------------------


def test_what_was_written_before_the_read_counts():
    def f(x):
        x.add_(1)
        y = x.sin() if x.sum() > 3 else x.cos()
        x.mul_(-1)
        return y, x.cos() if x.sum() > -3 else x.sin()

    check(f, [(POSITIVE,), (NEGATIVE,), (POSITIVE - 4,), (POSITIVE,)])


def test_reads_through_views():
    def f(x):
        row = x[1]
        x.t()[0] += 1
        if row[0] > 1:
            row.zero_()
        return x * 2, row

    check(f, [(torch.full((2, 3), v),) for v in (0.5, -3.0, 1.0, -2.0)], misses=2)


def test_a_buffer_that_the_program_updates():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.tensor(0))

        def forward(self, x):
            self.n += 1
            if self.n % 2 == 0:
                return x * 2
            return x + self.n

    ours, theirs = Counter(), Counter()
    compiled = thunder.jit(ours)
    for _ in range(6):
        torch.testing.assert_close(compiled(POSITIVE), theirs(POSITIVE))
    assert ours.n == 6
    assert thunder.cache_misses(compiled) == 2


def test_captured_tensors():
    threshold = torch.tensor(2.0)

    def f(x):
        return x * 2 if x.sum() > threshold else x

    compiled = thunder.jit(f)
    torch.testing.assert_close(compiled(POSITIVE), POSITIVE * 2)
    threshold.fill_(100.0)
    torch.testing.assert_close(compiled(POSITIVE), POSITIVE)
    threshold.fill_(1.0)
    torch.testing.assert_close(compiled(POSITIVE), POSITIVE * 2)
    assert thunder.cache_misses(compiled) == 2


def test_numbers_that_are_kept():
    class Log(torch.nn.Module):
        def forward(self, x):
            self.seen = x.sum().item()
            self.count = int((x > 0).sum())
            return x * 2

    ours = Log()
    compiled = thunder.jit(ours)
    for x in (POSITIVE, NEGATIVE, POSITIVE * 2):
        compiled(x)
        assert ours.seen == x.sum().item()
        assert ours.count == int((x > 0).sum())
    assert thunder.cache_misses(compiled) == 1


def test_an_argument_that_is_also_a_captured_tensor():
    kept = torch.ones(3)

    def f(x):
        return x * kept if torch.equal(x, kept) else x * kept + 1

    compiled = thunder.jit(f)
    for x in (kept, torch.full((3,), 2.0), kept.clone(), kept):
        torch.testing.assert_close(compiled(x), f(x))


def test_memory_shared_by_inputs():
    def f(a, b):
        a.add_(1)
        return a * 2 if b.sum() > 4 else a + b

    compiled = thunder.jit(f)
    for value in (0.0, 3.0, 0.0):
        ours, theirs = torch.full((4,), value), torch.full((4,), value)
        torch.testing.assert_close(compiled(ours[:3], ours[1:]), f(theirs[:3], theirs[1:]))
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_modes():
    def f(x):
        with torch.no_grad():
            y = x * 2
        if y.sum() > 0:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = x.view(3, 1) @ x.view(1, 3)
                return z.float() if z.sum() > 50 else z.float() * 2
        return x

    check(f, [(POSITIVE,), (POSITIVE * 3,), (-POSITIVE,), (POSITIVE,)], misses=3, grad=True)
    with torch.no_grad():
        check(f, [(POSITIVE,), (POSITIVE * 3,), (-POSITIVE,), (POSITIVE,)], misses=3)
    with torch.inference_mode():
        check(f, [(POSITIVE,), (POSITIVE * 3,), (-POSITIVE,), (POSITIVE,)], misses=3)


def test_custom_operators_and_lists_of_tensors():
    def f(xs):
        total = sum(x.sum() for x in xs)
        return [x / total for x in xs] if total > 1 else xs[0] + 1

    check(f, [([POSITIVE, NEGATIVE],), ([NEGATIVE, NEGATIVE],), ([POSITIVE, POSITIVE * 2],)], misses=2)


def test_inside_checkpoints_and_custom_functions():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.big = bool(x.sum() > 3)
            return x * 3 if ctx.big else x

        @staticmethod
        def backward(ctx, g):
            return g * 3 if ctx.big else g

    def block(x):
        return x.sin() * 2 if x.sum() > 0 else x.cos()

    def f(x):
        return Scaled.apply(torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False))

    check(f, [(POSITIVE,), (-POSITIVE,), (POSITIVE / 5,), (POSITIVE,)], grad=True)


# ---- what stays refused ---------------------------------------------------------------------------------------------


def test_sizes_of_as_strided_that_are_tensors():
    def f(x, n):
        rows = torch.div(n, 2, rounding_mode="trunc")
        return x.as_strided((rows, 2), (2, 1)) * 1, x.view(-1)[1:].as_strided((2, rows), (1, 1), rows)

    check(f, [(torch.arange(12.0), torch.tensor(n)) for n in (4, 5, 8, 9)])


def test_a_length_that_was_drawn_is_no_guess():
    def f(x):
        kept = x[torch.rand(3) > 2]
        return x if kept.shape[0] == 0 else -x

    check_left_to_eager(f, POSITIVE, why="depends on the values in a tensor")


# ---- how it is told, and how it is run ------------------------------------------------------------------------------


def test_checks_are_printed_and_misses_explained():
    def f(x):
        if x.sum() > 2:
            return x
        return x * 2

    compiled = thunder.jit(f)
    compiled(POSITIVE)
    assert "bool() == True, asked at" in str(thunder.last_prologue_traces(compiled)[0])
    compiled(NEGATIVE)
    why = thunder.explain_miss(compiled)
    assert "bool() == True" in why and "now False" in why and "test_values.py" in why


def test_steps_are_shared_by_the_sides_of_a_branch():
    runs = []
    executor = thunder.extend.OperatorExecutor("counting")

    def counted(x):
        runs.append(1)
        return x * 2

    double = executor.register_operator("counted_double", like=lambda x: x * 2, fn=counted)

    def f(x):
        y = double(x).sum()
        for limit in (0, 10, 20, 30, 40):
            if y < limit:
                return x + limit
        return x

    compiled = thunder.jit(f)
    for scale in (-1, 1, 2, 3, 5, 6, 7):
        compiled(POSITIVE * scale)
    runs.clear()
    torch.testing.assert_close(compiled(POSITIVE * 6), POSITIVE * 6)
    assert len(runs) == 1


def test_what_led_to_a_value_is_not_computed_twice():
    def f(x, w):
        y = (x @ w).relu()
        if y.sum() > 100:
            return y, y[0]
        return (y @ w).sin(), y.t()

    compiled = check(f, [(torch.ones(3, 3) * s, torch.ones(3, 3)) for s in (1, 9, 2, 8)], misses=2)
    for _ in range(2):
        ours, _ = compiled(torch.ones(3, 3) * 9, torch.ones(3, 3))
        ours.zero_()  # the caller's own memory
    assert "matmul" not in str(thunder.last_traces(compiled)[0])
    check(f, [(torch.ones(3, 3) * s, torch.ones(3, 3)) for s in (1, 9, 2, 8)], misses=2, grad=True)


def test_threads():
    def f(x):
        n = x.sum().item()
        return x * n if n > 0 else x - n

    compiled = thunder.jit(f)
    failed = []

    def work(seed):
        g = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(3, generator=g)
            if not torch.allclose(compiled(x), f(x)):
                failed.append(x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_without_the_interpreter(monkeypatch):
    monkeypatch.setenv("THUNDER_INTERPRETER", "0")

    def f(x, n):
        y = x[: n.item()] * float(x.sum())
        if y.max() > 2:
            return y
        return y * int(n)

    check(f, [(x, torch.tensor(n)) for x, n in ((POSITIVE, 2), (POSITIVE / 9, 2), (POSITIVE, 3), (POSITIVE, 2))])
