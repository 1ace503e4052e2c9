"""Sums of rows by an index, against eager: who takes them, and how exact they are."""

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU
from fusion_checks import check

import thunder
from thunder import prims

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
on_the_cpu = pytest.mark.skipif(not ON_CPU, reason="a trap on a GPU, after which the process cannot use it")
ROWS, ENTRIES = (30, 90) if ON_CPU else (300, 1200)  # on a GPU small sums are PyTorch's


def normal(*shape, dtype=torch.float32, grad=False):
    return torch.randn(*shape, device=DEVICE).mul(4).to(dtype).requires_grad_(grad)


def numbers(below, *shape, least=0, dtype=torch.int64):
    return torch.randint(least, below, shape, device=DEVICE, dtype=dtype)


def calls(compiled, name):
    traces = [thunder.last_traces(compiled)[-1]]
    if thunder.last_backward_traces(compiled):
        traces.append(thunder.last_backward_traces(compiled)[-1])
    return [c for trace in traces for c in trace.calls if c.name == name]


def grouped(compiled):
    return len(calls(compiled, "rows_group_index"))


def summed(compiled):
    return len(calls(compiled, "rows_segment_sum"))


# ---- the two primitives ----------------------------------------------------------------------------------------------


def expected_sum(a, places, starts, weights, dim, length):
    exact = a.double() if a.is_floating_point() else a.long()
    ends = range(0, places.numel() + 1, length) if starts is None else starts.tolist()
    rows = []
    for begin, end in zip(ends[:-1], ends[1:], strict=True):
        total = torch.zeros_like(exact.select(dim, 0))
        for p in range(begin, end):
            if places[p] >= 0:
                row = exact.select(dim, int(places[p]))
                total = total + (row if weights is None else row * weights[p].to(exact))
        rows.append(total)
    return torch.stack(rows, dim)


SHAPES = [
    ((7,), 0), ((7, 1), 0), ((7, 64), 0), ((7, 130), -2), ((3, 7), 1), ((2, 7, 3, 5), 1), ((3, 7, 264), 1),
    ((7, 16), 0), ((7, 33), 0), ((2, 7, 31), 1), ((7, 120), 0), ((19, 7), 1), ((2, 8, 7), 2),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_segment_sum(shape, dim, dtype):
    for weighted in (False, True):
        for length in (0, 4):
            a = normal(*shape).to(dtype)
            weights = normal(24).to(dtype) if weighted else None
            places = numbers(7, 24, least=-1)
            starts = None if length else torch.tensor([0, 0, 3, 3, 10, 24, 24], device=DEVICE)
            compiled = thunder.jit(lambda a, p, s, w, n=length: prims.segment_sum(a, p, s, w, dim, n, True))
            got = compiled(a, places, starts, weights)
            assert summed(compiled) == 1
            want = expected_sum(a, places, starts, weights, dim, length)
            if dtype.is_floating_point:
                eps = torch.finfo(torch.float32 if dtype.itemsize == 2 else dtype).eps
                torch.testing.assert_close(
                    got.double(), want, rtol=torch.finfo(dtype).eps, atol=64 * eps * float(want.abs().max())
                )
            else:
                assert torch.equal(got, want.to(dtype))


def test_segment_sum_of_long_segments():
    n = 3000
    a, places = normal(50, 40), numbers(50, n)
    for starts in ([0, n], [0, 1, n - 1, n], [0, 100, 100, 1500, n], list(range(0, n + 1, 60))):
        compiled = thunder.jit(lambda a, p, s: prims.segment_sum(a, p, s, None, 0, 0, False))
        got = compiled(a, places, torch.tensor(starts, device=DEVICE))
        want = torch.stack([a.double()[places[b:e]].sum(0) for b, e in zip(starts[:-1], starts[1:], strict=True)])
        assert (got - want).abs().max() < 2e-5 * want.abs().max()


# On a GPU PyTorch's operator adds up few elements.
COLUMNS = [(21, 1700), (1700, 21)] + ([(21, 150), (8, 64), (150, 21)] if ON_CPU else [])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("rows, columns", COLUMNS)
def test_segment_sum_of_columns(rows, columns, dtype):
    # Rows and segments that fill no whole tile; rows and columns of the operand in either order.
    index = numbers(columns, 2 * columns)
    for a in (normal(rows, 2 * columns), normal(2 * columns, rows).t()):
        a = a.to(dtype)
        compiled = thunder.jit(lambda a, i: torch.zeros(rows, columns, dtype=dtype, device=DEVICE).index_add(1, i, a))
        got = compiled(a, index)
        assert "segment_sum" in str(thunder.last_traces(compiled)[-1])
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        want = torch.zeros(rows, columns, dtype=wide, device=DEVICE).index_add(1, index, a.to(wide))
        if dtype.is_floating_point:
            torch.testing.assert_close(got, want.to(dtype), rtol=4 * torch.finfo(dtype).eps, atol=1e-5)
        else:
            assert torch.equal(got, want.to(dtype))


def test_segment_sum_of_nothing():
    none = torch.zeros(0, dtype=torch.int64, device=DEVICE)
    compiled = thunder.jit(lambda a, p, s: prims.segment_sum(a, p, s, None, 0, 0, False))
    zeros = torch.zeros(4, dtype=torch.int64, device=DEVICE)
    assert torch.equal(compiled(normal(5, 3), none, zeros), torch.zeros(3, 3, device=DEVICE))
    assert torch.equal(compiled(normal(0, 3), none, zeros), torch.zeros(3, 3, device=DEVICE))
    assert compiled(normal(5, 3), none, zeros[:1]).shape == (0, 3)
    assert compiled(normal(5, 0), numbers(5, 6), torch.tensor([0, 6], device=DEVICE)).shape == (1, 0)


@pytest.mark.parametrize("layout", ["columns", "steps", "middle", "expanded"])
def test_segment_sum_of_other_layouts(layout):
    a = {
        "columns": lambda: normal(20, 7).t(),
        "steps": lambda: normal(14, 40)[::2, 3:23],
        "middle": lambda: normal(5, 7, 20).transpose(0, 1),
        "expanded": lambda: normal(1, 20).expand(7, 20),
    }[layout]()
    places, starts = numbers(7, 12), torch.tensor([0, 5, 12], device=DEVICE)
    compiled = thunder.jit(lambda a, p, s: prims.segment_sum(a, p, s, None, 0, 0, False))
    want = torch.stack([a[places[:5]].sum(0), a[places[5:]].sum(0)])
    torch.testing.assert_close(compiled(a, places, starts), want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("groups", [1, 5, 4000, 40000])
def test_group_index(groups, dtype):
    for n in (0, 1, 33, 3000, 20000):
        for skips in (False, True):
            index = numbers(groups, n, least=-1 if skips else 0, dtype=dtype)
            compiled = thunder.jit(lambda i, s=skips: prims.group_index(i, groups, s))
            order, starts = compiled(index)
            assert grouped(compiled) == 1
            at_end = torch.where(index < 0, groups, index)
            assert torch.equal(order, at_end.sort(stable=True)[1])
            assert torch.equal(starts, torch.searchsorted(at_end.sort()[0], torch.arange(groups + 1, device=DEVICE)))


@on_the_cpu
def test_out_of_range():
    index, x = numbers(5, 40), normal(40, 16)
    for wrong in (-1, 5, 2**40):
        index[7] = wrong
        compiled = thunder.jit(lambda i, x: torch.zeros(5, 16).index_add(0, i, x))
        with pytest.raises(RuntimeError):  # as eager has it
            compiled(index, x)
        assert summed(compiled) == 1
        taken = thunder.jit(lambda i, x: torch.zeros(5, 16).index_add(0, i.clamp(0, 4), x.index_select(0, i)))
        with pytest.raises(IndexError):
            taken(index, x[:5])
        assert summed(taken) == 1


# ---- what becomes of programs ----------------------------------------------------------------------------------------


def wide(index):
    return index.unsqueeze(1).expand(-1, 64)


INTO_ZEROS = {
    "index_add": lambda x, i: x.new_zeros(ROWS, 64).index_add(0, i, x),
    "index_add of columns": lambda x, i: x.new_zeros(64, ROWS).index_add(1, i, x.t().contiguous()),
    "index_add, alpha": lambda x, i: x.new_zeros(ROWS, 64).index_add(0, i, x, alpha=3),
    "scatter_add": lambda x, i: x.new_zeros(ROWS, 64).scatter_add(0, wide(i), x),
    "scatter_reduce": lambda x, i: x.new_zeros(ROWS, 64).scatter_reduce(0, wide(i), x, "sum"),
    "mean": lambda x, i: x.new_zeros(ROWS, 64).scatter_reduce(0, wide(i), x, "mean", include_self=False),
    "index_put": lambda x, i: x.new_zeros(ROWS, 64).index_put((i - ROWS,), x, accumulate=True),
}
INTO_ROWS = {
    "index_add": lambda x, i: x[:ROWS].index_add(0, i, x),
    "mean with itself": lambda x, i: x[:ROWS].scatter_reduce(0, wide(i), x, "mean"),
    "mean without itself": lambda x, i: x[:ROWS].scatter_reduce(0, wide(i), x, "mean", include_self=False),
    "sum without itself": lambda x, i: x[:ROWS].scatter_reduce(0, wide(i), x, "sum", include_self=False),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("form", [*INTO_ZEROS, *(f"{f}, into rows" for f in INTO_ROWS)])
def test_forms(form, dtype):
    into_rows = form.endswith(", into rows")
    f = INTO_ROWS[form.removesuffix(", into rows")] if into_rows else INTO_ZEROS[form]
    index, x = numbers(ROWS, ENTRIES), normal(ENTRIES, 64, dtype=dtype, grad=True)
    # A sum is rounded once, and what is added to it, or divides it, rounds once more.
    compiled = check(lambda x: f(x, index), x, fused=False)
    assert summed(compiled) == 1 and grouped(compiled) == 1


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype):
    index, x = numbers(ROWS, ENTRIES), numbers(100, ENTRIES, 64, dtype=dtype)
    compiled = check(lambda x: x.new_zeros(ROWS, 64).index_add(0, index, x), x, fused=False)
    assert summed(compiled) == 1


def test_several_indices():
    rows, columns = numbers(9, 60), numbers(9, 60)
    x = normal(64, 9, 9, grad=True) if ON_CPU else normal(2000, 9, 9, grad=True)
    assert summed(check(lambda x: x[:, rows, columns] * 2, x, fused=False)) == 1
    assert summed(check(lambda x: x[:, rows, columns - 9, None] * 2, x, fused=False)) == 1
    square = numbers(9, 5, 12)
    assert summed(check(lambda x: x[:, square] * 2, x, fused=False)) == 1


def test_an_index_is_grouped_once_and_rows_are_read_where_they_are():
    source, target = numbers(ROWS, ENTRIES), numbers(ROWS, ENTRIES)

    def layer(x):
        return torch.zeros_like(x).index_add(0, target, x.index_select(0, source))

    def program(x):
        count = x.new_zeros(ROWS).scatter_add(0, target, x.new_ones(ENTRIES))
        x = layer(x).tanh() / count.clamp(min=1).unsqueeze(1)
        return layer(x) + x.new_zeros(ROWS, 64).scatter_add(0, wide(target), x.index_select(0, source).sin())

    compiled = check(program, normal(ROWS, 64, grad=True), fused=False)
    # forward: by target; backward: by source
    assert grouped(compiled) == 2
    assert summed(compiled) == 5
    assert not calls(compiled, "torch.scatter_add") and not calls(compiled, "torch.index_add")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_counts_are_exact(dtype):
    index, x = torch.zeros(ENTRIES, dtype=torch.int64, device=DEVICE), normal(ENTRIES, 64, dtype=dtype)

    def program(x):
        count = x.new_zeros(ROWS).scatter_add(0, index, x.new_ones(ENTRIES))
        return count, x.new_zeros(ROWS, 64).index_add(0, index, x)

    count, _ = thunder.jit(program)(x)
    assert count[0] == torch.tensor(ENTRIES).to(dtype) and not count[1:].any()


def left_alone(f, *args):
    compiled = check(f, *args, fused=False)
    assert summed(compiled) == 0
    return compiled


def test_left_to_pytorch():
    index = numbers(ROWS, ENTRIES)
    left_alone(lambda x: x.new_zeros(ROWS).index_add(0, index, x), normal(ENTRIES))  # narrow
    left_alone(lambda x: x.index_add(0, index[:3], x[:3]), normal(ROWS, 64))  # mostly a copy
    left_alone(lambda x: x.new_zeros(ROWS, 64).index_put((index,), x[0], accumulate=True), normal(ENTRIES, 64))
    left_alone(lambda x: torch.zeros(ROWS, 64, dtype=torch.bool, device=DEVICE).index_add(0, index, x > 0),
               normal(ENTRIES, 64))  # fmt: skip
    elements = numbers(ROWS, ENTRIES, 64)
    left_alone(lambda x: x.new_zeros(ROWS, 64).scatter_add(0, elements, x), normal(ENTRIES, 64))
    left_alone(lambda x: x.new_zeros(ROWS, 64).scatter_reduce(0, wide(index), x, "amax"), normal(ENTRIES, 64))


def test_eager_numerics_keep_rounding_after_each_addition():
    index, x = numbers(ROWS, ENTRIES), normal(ENTRIES, 64, dtype=torch.bfloat16)
    compiled = thunder.jit(lambda x: x.new_zeros(ROWS, 64).index_add(0, index, x), numerics="eager")
    got = compiled(x)
    assert summed(compiled) == 0
    if ON_CPU:
        assert torch.equal(got, x.new_zeros(ROWS, 64).index_add(0, index, x))


def test_without_the_executor():
    index, x = numbers(ROWS, ENTRIES), normal(ENTRIES, 64, grad=True)
    compiled = thunder.jit(lambda x: x.new_zeros(ROWS, 64).index_add(0, index, x), executors=["fuser"])
    torch.testing.assert_close(compiled(x), x.new_zeros(ROWS, 64).index_add(0, index, x))
    assert summed(compiled) == 0


def test_other_sizes_run_the_same_program():
    compiled = thunder.jit(lambda x, i: torch.zeros_like(x).index_add(0, i, x[i]))
    for n in (ENTRIES, ENTRIES + 7, 2 * ENTRIES, ENTRIES + 1):
        x, i = normal(ROWS, 64, grad=True), numbers(ROWS, n)
        got, want = compiled(x, i), torch.zeros_like(x).index_add(0, i, x[i])
        torch.testing.assert_close(got, want)
        gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (got, want)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-2)
    assert thunder.cache_misses(compiled) == 2


def test_watched_backward():
    index, x = numbers(ROWS, ENTRIES), normal(ROWS, 64, grad=True)
    compiled = thunder.jit(lambda x: x.index_select(0, index) * 2)
    y = compiled(x)
    cotangents = normal(3, ENTRIES, 64)
    got = torch.autograd.grad(y, x, cotangents, is_grads_batched=True)[0]
    torch.testing.assert_close(got, torch.stack([2 * torch.zeros_like(x).index_add(0, index, c) for c in cotangents]))


def test_the_same_each_time():
    index, x = numbers(5, 4096), normal(5, 512, dtype=torch.bfloat16, grad=True)
    compiled = thunder.jit(lambda x: F.embedding(index, x) * 1)
    g = normal(4096, 512, dtype=torch.bfloat16)
    first, *others = [torch.autograd.grad(compiled(x), x, g)[0] for _ in range(10)]
    assert all(torch.equal(first, other) for other in others)


def test_deterministic_algorithms():
    index, x = numbers(ROWS, ENTRIES), normal(ENTRIES, 64, grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        assert summed(check(lambda x: x.new_zeros(ROWS, 64).index_add(0, index, x), x, fused=False)) == 1
    finally:
        torch.use_deterministic_algorithms(False)


# ---- embeddings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
def test_embedding(index, dtype):
    ids = numbers(ROWS, 4, ENTRIES // 4, dtype=index)
    for padding in (None, -2):
        for by_frequency in (False, True):
            compiled = check(
                lambda w, p=padding, s=by_frequency: F.embedding(ids, w, padding_idx=p, scale_grad_by_freq=s),
                normal(ROWS, 64, dtype=dtype, grad=True),
                fused=False,
            )
            assert summed(compiled) == 1


BAGS = {
    "rows": lambda: (numbers(ROWS, ENTRIES // 5, 5), None),
    "offsets": lambda: (numbers(ROWS, ENTRIES), torch.tensor([0, 3, 3, 10, ENTRIES], device=DEVICE)),
    "none": lambda: (numbers(ROWS, 0), torch.tensor([0, 0], device=DEVICE)),
}


def bags_in_eager(input, weight, offsets, per_sample_weights=None, **options):
    """On a GPU PyTorch has not all gradients in bfloat16: in float32 there, and rounded once."""
    if ON_CPU or weight.dtype != torch.bfloat16:
        return F.embedding_bag(input, weight, offsets, per_sample_weights=per_sample_weights, **options)
    each = None if per_sample_weights is None else per_sample_weights.float()
    return F.embedding_bag(input, weight.float(), offsets, per_sample_weights=each, **options).bfloat16()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("kind", BAGS)
def test_embedding_bag(kind, mode, dtype):
    input, offsets = BAGS[kind]()
    for options in ({}, {"padding_idx": -1}, {"include_last_offset": offsets is not None}):
        for cols in (1, 7, 64):
            compiled = check(
                lambda w, o=options: F.embedding_bag(input, w, offsets, mode=mode, **o),
                normal(ROWS, cols, dtype=dtype, grad=True),
                fused=False,
                eager=lambda w, o=options: bags_in_eager(input, w, offsets, mode=mode, **o),
            )
            assert not thunder.compile_stats(compiled)["eager_calls"]
            assert "embedding_bag_padding_idx" not in str(thunder.last_traces(compiled)[-1])
            assert summed(compiled) >= 2 or mode == "max"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", BAGS)
def test_embedding_bag_with_weights(kind, dtype):
    input, offsets = BAGS[kind]()
    weight, each = normal(ROWS, 16, dtype=dtype, grad=True), normal(*input.shape, dtype=dtype, grad=True)
    for padding in (None, 0):
        options = {"mode": "sum", "padding_idx": padding}
        check(
            lambda w, e, o=options: F.embedding_bag(input, w, offsets, per_sample_weights=e, **o),
            weight,
            each,
            fused=False,
            eager=lambda w, e, o=options: bags_in_eager(input, w, offsets, per_sample_weights=e, **o),
        )


def test_padding_does_not_count_whatever_it_is():
    input = numbers(ROWS, ENTRIES // 5, 5)
    weight = normal(ROWS, 64)
    weight[3] = torch.inf
    weight.requires_grad_()
    compiled = thunder.jit(lambda w: F.embedding_bag(input, w, mode="mean", padding_idx=3))
    torch.testing.assert_close(compiled(weight), F.embedding_bag(input, weight, mode="mean", padding_idx=3))
    compiled(weight).sum().backward()
    assert not weight.grad[3].any() and weight.grad.isfinite().all()


def test_module_with_its_options():
    for options in ({"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"mode": "max"}, {}):
        torch.manual_seed(0)
        ours = torch.nn.EmbeddingBag(ROWS, 16, device=DEVICE, **options)
        torch.manual_seed(0)
        theirs = torch.nn.EmbeddingBag(ROWS, 16, device=DEVICE, **options)
        input = numbers(ROWS, 8, 4)
        got, want = thunder.jit(ours)(input), theirs(input)
        torch.testing.assert_close(got, want)
        for out in (got, want):
            out.square().sum().backward()
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
        torch.testing.assert_close(ours.weight, theirs.weight)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (lambda i, w: (i, w, i[0]), ValueError),
        (lambda i, w: (i[0], w), ValueError),
        (lambda i, w: (i[None], w), ValueError),
        (lambda i, w: (i, w[0]), ValueError),
        (lambda i, w: (i, w, None, None, 2.0, False, "other"), ValueError),
        (lambda i, w: (i, w, None, None, 2.0, False, "mean", False, w[:8, :4]), NotImplementedError),
    ],
)
def test_refused_bags(arguments, error):
    input, weight = numbers(ROWS, 8, 4), normal(ROWS, 16)
    for f in (F.embedding_bag, thunder.jit(F.embedding_bag)):
        with pytest.raises(error):
            f(*arguments(input, weight))


@on_the_cpu
def test_bags_out_of_range():
    input, weight = numbers(ROWS, 8, 4), normal(ROWS, 16, grad=True)
    input[1, 2] = ROWS
    for f in (F.embedding_bag, thunder.jit(F.embedding_bag)):
        with pytest.raises(RuntimeError):
            f(input, weight)
        with pytest.raises(RuntimeError):
            f(input[0], weight, torch.tensor([0, 5]))
