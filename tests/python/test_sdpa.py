"""The executor `sdpa` over the grid of what scaled_dot_product_attention takes, against float64.

Each case compiles one call, compares its output and its gradients with eager's in float64, and allows twice the error
that eager itself makes in the case's dtype.  PyTorch's own choice of a kernel says where the fused operator must
stand in the trace.
"""

import dataclasses
import itertools
import math
import zlib

import pytest
import torch
import torch.nn.functional as F
from short_run import taken

import thunder

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
MATH = 0  # SDPBackend.MATH in torch._fused_sdp_choice


@dataclasses.dataclass(frozen=True)
class Case:
    """One call: shapes, what the mask is, and how the tensors lie in memory."""

    dtype: torch.dtype = torch.float32
    batch: tuple = (2,)
    kv_batch: tuple | None = None
    heads: int | None = 4
    kv_heads: int | None = None
    rows: int = 6
    columns: int = 6
    head_size: int = 16
    value_size: int | None = None
    mask: str = "none"
    layout: str = "dense"
    causal: bool = False
    scale: float | None = None
    gqa: bool = False
    dropout: float = 0.0
    grads: str = "qkv"  # which of query, key, value and mask require grad

    def __str__(self):
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if getattr(self, f.name) != f.default}
        words = [f"{name}={value}" for name, value in given.items() if name != "dtype"]
        return "-".join([str(self.dtype)[6:], *words]).replace(" ", "")


# ---- operands ------------------------------------------------------------------------------------------------------


def laid_out(shape, layout, dtype, generator):
    """A tensor of random numbers with that place in memory."""
    *outer, n, size = shape
    make = lambda *s: torch.randn(s, generator=generator, dtype=torch.float64).to(dtype)
    if layout == "dense":
        return make(*shape)
    if layout == "heads inside":  # [batch, row, head, size], as a projection gives it
        return make(*outer[:-1], n, outer[-1], size).transpose(-2, -3)
    if layout == "cut":  # rows of a wider tensor
        return make(*outer, n, size + 5)[..., 3 : size + 3]
    if layout == "transposed":  # the last stride is not 1
        return make(*outer, size, n).transpose(-1, -2)
    if layout == "every second":
        return make(*outer, n, 2 * size)[..., ::2]
    if layout == "expanded":
        return make(*outer[:-1], 1, n, size).expand(*shape)
    raise ValueError(layout)


def bool_mask(shape, generator):
    m = torch.rand(shape, generator=generator) > 0.4
    m[..., 0] = True  # every row sees something
    return m


def make_mask(case, generator):
    if case.mask == "none":
        return None
    b, h, r, c = *case.batch, case.heads, case.rows, case.columns
    full = (b, h, r, c)
    additive = lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64).to(case.dtype)
    masks = {
        "bool": lambda: bool_mask(full, generator),
        "bool of two dims": lambda: bool_mask((r, c), generator),
        "bool broadcast over heads": lambda: bool_mask((b, 1, r, c), generator),
        "bool row": lambda: bool_mask((1, c), generator),
        "bool column": lambda: torch.ones(r, 1, dtype=torch.bool),
        "bool of three dims": lambda: bool_mask((h, r, c), generator),
        "bool expanded": lambda: bool_mask((b, 1, 1, c), generator).expand(b, h, r, c),
        "bool transposed": lambda: bool_mask((c, r), generator).t() | torch.eye(r, c, dtype=torch.bool),
        "bool with empty rows": lambda: bool_mask((r, c), generator) & (torch.arange(r) % 2 == 0)[:, None],
        "bool of nothing": lambda: torch.zeros(r, c, dtype=torch.bool),
        "float": lambda: additive(*full),
        "float of two dims": lambda: additive(r, c),
        "float broadcast over batch": lambda: additive(1, h, r, c),
        "float row": lambda: additive(b, 1, 1, c),
        "float transposed": lambda: additive(c, r).t(),
        "float every second": lambda: additive(r, 2 * c)[:, ::2],
        "float expanded": lambda: additive(1, h, 1, c).expand(b, h, r, c),
        "float of three dims": lambda: additive(h, r, c),
        "float with empty rows": lambda: additive(r, c).masked_fill((torch.arange(r) % 2 == 1)[:, None], -math.inf),
        "float32": lambda: additive(b, 1, r, c).float(),
        "trained": lambda: additive(1, h, r, c),
        "trained row": lambda: additive(1, c),
    }
    return masks[case.mask]()


def operands(case):
    """query, key, value and mask; those in `case.grads` require grad."""
    g = torch.Generator().manual_seed(zlib.crc32(str(case).encode()))
    heads = () if case.heads is None else (case.heads,)
    kv_heads = heads if case.kv_heads is None else (case.kv_heads,)
    kv_batch = case.batch if case.kv_batch is None else case.kv_batch
    value_size = case.head_size if case.value_size is None else case.value_size
    query = laid_out((*case.batch, *heads, case.rows, case.head_size), case.layout, case.dtype, g)
    key = laid_out((*kv_batch, *kv_heads, case.columns, case.head_size), case.layout, case.dtype, g)
    value = laid_out((*kv_batch, *kv_heads, case.columns, value_size), case.layout, case.dtype, g)
    tensors = [query, key, value, make_mask(case, g)]
    names = zip("qkvm", tensors, strict=True)
    return [t if t is None else t.detach().requires_grad_(name in case.grads) for name, t in names]


def attention(case):
    def call(query, key, value, mask):
        return F.scaled_dot_product_attention(
            query, key, value, mask, case.dropout, case.causal, scale=case.scale, enable_gqa=case.gqa
        )

    return call


# ---- comparison ----------------------------------------------------------------------------------------------------


def run(fn, tensors, cotangent):
    """The output and the gradients of what requires grad."""
    out = fn(*tensors)
    wanted = [t for t in tensors if t is not None and t.requires_grad]
    return [out.detach(), *(torch.autograd.grad(out, wanted, cotangent) if wanted else ())]


def double(t):
    if t is None or not t.is_floating_point():
        return t
    return t.detach().double().requires_grad_(t.requires_grad)


def error(x, reference):
    return ((x.double() - reference).norm() / reference.norm().clamp_min(1e-30)).item()


def fused(trace):
    return [c.name for c in trace.calls if c.name.startswith("sdpaex_")]


def expects_kernel(case, tensors):
    choice = torch._fused_sdp_choice(
        *tensors, dropout_p=case.dropout, is_causal=case.causal, scale=case.scale, enable_gqa=case.gqa
    )
    return choice != MATH


def check_claim(case, tensors, compiled):
    forward = fused(thunder.last_traces(compiled)[-1])
    if not expects_kernel(case, tensors):
        assert not forward
        return
    trained = any(t is not None and t.requires_grad for t in tensors)
    kernel = "scaled_dot_product_flash_attention_for_cpu"
    assert forward == [f"sdpaex_grad_forward_{kernel}" if trained else f"sdpaex_{kernel}"]
    if trained and tensors[0].numel():
        assert fused(thunder.last_backward_traces(compiled)[-1]) == [f"sdpaex_{kernel}_backward"]


def check(case):
    tensors = operands(case)
    fn = attention(case)
    compiled = thunder.jit(fn)
    shape = fn(*(t if t is None else t.detach() for t in tensors)).shape
    cotangent = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(case.dtype)

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        reference = run(fn, [double(t) for t in tensors], cotangent.double())
    eager, ours = run(fn, tensors, cotangent), run(compiled, tensors, cotangent)
    check_claim(case, tensors, compiled)
    # In float64 eager's own decomposition is the reference, and rounds too.
    slack = torch.finfo(case.dtype).eps * (8 if case.dtype == torch.float64 else 0.25)
    for name, mine, theirs, exact in zip(["out", *case.grads], ours, eager, reference, strict=False):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape, name
        if name == "out":
            assert mine.stride() == theirs.stride() or 0 in mine.shape
        if exact.numel() == 0:
            continue
        mistake, allowed = error(mine, exact), 2 * error(theirs, exact) + slack
        assert mistake <= allowed, f"{name}: error {mistake:.3g}, eager's {error(theirs, exact):.3g}"


def cases(*grids):
    out = {}
    for grid in grids:
        for values in itertools.product(*grid.values()):
            case = Case(**dict(zip(grid, values, strict=True)))
            if taken(str(case), 3):
                out[str(case)] = case
    return [pytest.param(case, id=name) for name, case in out.items()]


# ---- the grid ------------------------------------------------------------------------------------------------------

MASKS = (
    "bool", "bool of two dims", "bool broadcast over heads", "bool row", "bool column", "bool of three dims",
    "bool expanded", "bool transposed", "bool with empty rows", "bool of nothing", "float", "float of two dims",
    "float broadcast over batch", "float row", "float transposed", "float every second", "float expanded",
    "float of three dims", "float with empty rows", "float32",
)  # fmt: skip
TRAINED_MASKS = ("trained", "trained row")
HEAD_SIZES = (1, 8, 16, 33, 64, 96, 128)
LAYOUTS = ("heads inside", "cut", "transposed", "every second", "expanded")
GROUPED = {"heads": (4,), "kv_heads": (1, 2, 4), "gqa": (True,)}
SUBSETS = tuple("".join(s) for n in range(4) for s in itertools.combinations("qkv", n))


@pytest.mark.parametrize(
    "case",
    cases(
        {"dtype": DTYPES, "head_size": HEAD_SIZES, "causal": (False, True), "scale": (None, 0.3), "columns": (6, 9)},
        {"dtype": DTYPES, "head_size": (16,), "rows": (1, 40), "columns": (1, 70), "causal": (False, True)},
        {"dtype": DTYPES, "scale": (-0.2, 0.0, 1.0)},
        {"dtype": DTYPES, "head_size": (16,), "value_size": (8, 33), "causal": (False, True)},
    ),
)
def test_sizes(case):
    check(case)


@pytest.mark.parametrize(
    "case",
    cases(
        {"dtype": DTYPES, "mask": MASKS, "columns": (6, 9)},
        {"dtype": DTYPES, "mask": TRAINED_MASKS, "grads": ("qkvm", "m")},
        {"dtype": DTYPES, "mask": ("bool of two dims", "float", "trained"), "head_size": (33,), "scale": (0.3,)},
        {"dtype": DTYPES, "mask": ("bool", "float row"), "layout": LAYOUTS},
    ),
)
def test_masks(case):
    check(case)


@pytest.mark.parametrize(
    "case",
    cases(
        {"dtype": DTYPES, **GROUPED, "causal": (False, True)},
        {"dtype": DTYPES, **GROUPED, "mask": ("bool broadcast over heads", "float")},
        {"dtype": DTYPES, **GROUPED, "mask": ("trained",), "grads": ("qkvm",)},
        {"dtype": DTYPES, **GROUPED, "batch": ((),)},
    ),
)
def test_grouped_heads(case):
    check(case)


@pytest.mark.parametrize(
    "case",
    cases(
        {"dtype": DTYPES, "layout": LAYOUTS, "causal": (False, True), "columns": (6, 9)},
        {"dtype": DTYPES, "batch": ((), (2, 3)), "causal": (False, True)},
        {"dtype": DTYPES, "batch": ((3,), ()), "heads": (None,), "causal": (False, True)},
        {"dtype": DTYPES, "batch": ((3,), ()), "heads": (None,), "layout": ("transposed",)},
        {"dtype": DTYPES, "batch": ((0,), (1,)), "causal": (False, True)},
        {"dtype": DTYPES, "rows": (0, 3), "columns": (0, 3)},
        {"dtype": DTYPES, "kv_batch": ((1,),), "causal": (False, True)},
        {"dtype": DTYPES, "kv_heads": (1,), "mask": ("none", "float")},
    ),
)
def test_layouts_and_ranks(case):
    check(case)


@pytest.mark.parametrize("case", cases({"dtype": DTYPES, "grads": SUBSETS, "mask": ("none", "bool", "float")}))
def test_what_requires_grad(case):
    check(case)


# ---- dropout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", ["none", "bool", "float"])
def test_dropout_draws_eagers_numbers(dtype, mask):
    case = Case(dtype=dtype, mask=mask, dropout=0.4)
    tensors, fn = operands(case), attention(case)
    compiled = thunder.jit(fn)
    cotangent = torch.randn(2, 4, 6, 16, dtype=dtype)
    results = []
    for f in (fn, compiled):
        torch.manual_seed(3)
        results.append(run(f, tensors, cotangent))
    check_claim(case, tensors, compiled)
    for mine, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p):
    """With values of 1 an output is the sum of a row's kept weights: 1 on average, with the variance of that sum."""
    columns = 16
    query, key = torch.zeros(64, 8, 32, 8), torch.zeros(64, 8, columns, 8)  # so all weights are 1 / columns
    value = torch.ones(64, 8, columns, 8, requires_grad=True)
    out = thunder.jit(attention(Case(dropout=p)))(query, key, value, None)
    sums = out[..., 0].detach()
    variance = p / (1 - p) / columns
    assert abs(sums.mean() - 1) < 6 * math.sqrt(variance / sums.numel())
    assert abs(sums.var() / variance - 1) < 0.1
    torch.testing.assert_close(out[..., :1].expand_as(out), out)  # a weight is dropped for all of a value's elements
    # The backward drops the same weights: the gradient of a sum of the output is that sum, divided among the values.
    (g,) = torch.autograd.grad(out[..., 0].sum(), value)
    torch.testing.assert_close(g[..., 0].sum(), sums.sum())


# ---- executors and errors ------------------------------------------------------------------------------------------


def test_without_the_executor_attention_is_opened():
    case = Case()
    tensors = operands(case)
    compiled = thunder.jit(attention(case), executors=[])
    torch.testing.assert_close(compiled(*tensors), attention(case)(*tensors))
    assert not fused(thunder.last_traces(compiled)[-1])


def test_frozen_under_no_grad():
    case = Case()
    tensors = operands(case)
    compiled = thunder.jit(attention(case))
    with torch.no_grad():
        torch.testing.assert_close(compiled(*tensors), attention(case)(*tensors))
    assert fused(thunder.last_traces(compiled)[-1]) == ["sdpaex_scaled_dot_product_flash_attention_for_cpu"]


def test_one_result_of_two_uses():
    """Two attentions of shared operands: their gradients add up."""

    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True) + F.scaled_dot_product_attention(k, q, v)

    tensors = operands(Case(dtype=torch.float64))[:3]
    cotangent = torch.randn(2, 4, 6, 16, dtype=torch.float64)
    for mine, theirs in zip(run(thunder.jit(fn), tensors, cotangent), run(fn, tensors, cotangent), strict=True):
        torch.testing.assert_close(mine, theirs)


def _x(*shape, dtype=torch.float32, **kwargs):
    return torch.zeros(shape, dtype=dtype, **kwargs)


MISTAKES = {
    "dtypes differ": ((_x(1, 2, 3, 8), _x(1, 2, 3, 8, dtype=torch.float64), _x(1, 2, 3, 8)), {}),
    "integers": ((_x(1, 2, 3, 8, dtype=torch.int64),) * 3, {}),
    "one dimension": ((_x(8),) * 3, {}),
    "head sizes differ": ((_x(1, 2, 3, 8), _x(1, 2, 3, 9), _x(1, 2, 3, 8)), {}),
    "key and value lengths differ": ((_x(2, 3, 8), _x(2, 4, 8), _x(2, 5, 8)), {}),
    "heads differ": ((_x(1, 4, 3, 8), _x(1, 2, 3, 8), _x(1, 2, 3, 8)), {}),
    "heads do not divide": ((_x(1, 4, 3, 8), _x(1, 3, 3, 8), _x(1, 3, 3, 8)), {"enable_gqa": True}),
    "mask of integers": ((_x(1, 2, 3, 8),) * 3 + (_x(3, 3, dtype=torch.int64),), {}),
    "mask of another float": ((_x(1, 2, 3, 8),) * 3 + (_x(3, 3, dtype=torch.float64),), {}),
    "mask of half and float query": ((_x(1, 2, 3, 8),) * 3 + (_x(3, 3, dtype=torch.float16),), {}),
    "mask does not broadcast": ((_x(1, 2, 3, 8),) * 3 + (_x(4, 4),), {}),
    "mask of one dimension": ((_x(1, 2, 3, 8),) * 3 + (_x(3),), {}),
    "mask and causal": ((_x(2, 3, 8),) * 3 + (_x(3, 3),), {"is_causal": True}),
    "trained mask and causal": ((_x(1, 2, 3, 8),) * 3 + (_x(3, 3, requires_grad=True),), {"is_causal": True}),
    "dropout above 1": ((_x(1, 2, 3, 8),) * 3, {"dropout_p": 1.5}),
    "dropout below 0": ((_x(1, 2, 3, 8),) * 3, {"dropout_p": -0.5}),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_eagers_errors(name):
    args, kwargs = MISTAKES[name]
    try:
        eager = F.scaled_dot_product_attention(*args, **kwargs)
    except Exception as e:
        with pytest.raises(type(e)):
            thunder.jit(F.scaled_dot_product_attention)(*args, **kwargs)
    else:
        torch.testing.assert_close(thunder.jit(F.scaled_dot_product_attention)(*args, **kwargs), eager)


def test_lengths_that_eagers_kernel_does_not_check():
    """PyTorch's flash kernel takes a value shorter than the key and reads past its end: a warning says so."""
    with pytest.warns(RuntimeWarning, match="batch2"):
        thunder.jit(F.scaled_dot_product_attention)(_x(1, 2, 3, 8), _x(1, 2, 5, 8), _x(1, 2, 4, 8))


def test_mask_and_causal_together():
    """The flash kernel takes both, and eager lets it."""
    case = Case(mask="float of two dims", causal=True)
    tensors = operands(case)
    compiled = thunder.jit(attention(case))
    torch.testing.assert_close(compiled(*tensors), attention(case)(*tensors))
    check_claim(case, tensors, compiled)
