#!/usr/bin/env python3
"""Asks PyTorch what shape and index operators return, and writes the answers as rows of cases_*.inc.

    python tests/cpp/ops/make_cases.py

A row is: operator | inputs | arguments | results.  An input is dtype[shape;strides], `$0` stands for the first of them.
A result is dtype[shape;strides],
    with `@` behind it if it shares memory with an input and `*` for a size that depends on
values; or the name of the exception.
"""

import pathlib
import warnings

import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
    "i32": torch.int32, "b8": torch.bool, "ui8": torch.uint8, "c64": torch.complex64, "c128": torch.complex128,
        "i16": torch.int16,
}  # fmt: skip
NAMES = {v: k for k, v in DTYPES.items()}


class In:
    def __init__(self, shape, strides=None, dtype="f32"):
        self.shape, self.dtype = tuple(shape), dtype
        self.strides = tuple(strides) if strides is not None else torch.empty(self.shape).stride()

    def make(self, fill):
        extent = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides,
            strict=True)) if 0 not in self.shape else 1
        dtype = DTYPES[self.dtype]
        if dtype is torch.bool:
            base = torch.ones(extent, dtype=dtype) if fill else torch.arange(extent) % 2 == 1
        elif dtype is torch.uint8:
            base = torch.ones(extent, dtype=dtype) if fill else (torch.arange(extent) % 2).to(dtype)
        elif dtype in (torch.int64, torch.int32):
            base = torch.zeros(extent, dtype=dtype)
        else:
            base = torch.arange(1, extent + 1).to(dtype)
        return base.as_strided(self.shape, self.strides)

    def __str__(self):
        return f"{self.dtype}[{','.join(map(str, self.shape))};{','.join(map(str, self.strides))}]"


class Ref:
    def __init__(self, i):
        self.i = i


def subst(x, tensors):
    if isinstance(x, Ref):
        return tensors[x.i]
    if isinstance(x, (list, tuple)):
        return type(x)(subst(i, tensors) for i in x)
    if isinstance(x, slice):
        return slice(subst(x.start, tensors), subst(x.stop, tensors), subst(x.step, tensors))
    return x


def text(x):
    if isinstance(x, Ref):
        return f"${x.i}"
    if isinstance(x, list):
        return "[" + ", ".join(map(text, x)) + "]"
    if isinstance(x, tuple):
        return "(" + ", ".join(map(text, x)) + ")"
    if isinstance(x, slice):
        return f"slice({text(x.start)}, {text(x.stop)}, {text(x.step)})"
    if x is Ellipsis:
        return "..."
    if isinstance(x, str):
        return f"'{x}'"
    if isinstance(x, torch.dtype):
        return f"torch.{NAMES[x]}"
    return repr(x)


def flat(out):
    if isinstance(out, (list, tuple)):
        return [y for x in out for y in flat(x)]
    return [out]


def describe(out, other, tensors):
    storages = {t.untyped_storage().data_ptr() for t in tensors if t.numel()}
    parts = []
    for o, p in zip(flat(out), flat(other), strict=True):
        if not isinstance(o, torch.Tensor):
            parts.append(type(o).__name__)
            continue
        star = lambda a, b: ",".join("*" if m != n else str(m) for m, n in zip(a, b, strict=True))
        alias = "@" if o.numel() and o.untyped_storage().data_ptr() in storages else ""
        parts.append(f"{NAMES[o.dtype]}[{star(o.shape, p.shape)};{star(o.stride(), p.stride())}]{alias}")
    return " ".join(parts)


CASES = []
FUNCTIONS = {
    "one_hot": F.one_hot, "pad": F.pad, "getitem": lambda x, k: x[k], "index": lambda x, i: torch.ops.aten.index(x, i),
    "numpy_T": lambda x: x.T, "slice": torch.ops.aten.slice, "slice_backward": torch.ops.aten.slice_backward,
        "select_backward": torch.ops.aten.select_backward,
    "diagonal_backward": torch.ops.aten.diagonal_backward, "unfold_backward": torch.ops.aten.unfold_backward,
    "value_selecting_reduction_backward": torch.ops.aten.value_selecting_reduction_backward, "adjoint": torch.adjoint,
    "mT": lambda x: x.mT, "mH": lambda x: x.mH, "H": lambda x: x.H, "linalg_diagonal": torch.linalg.diagonal,
}  # fmt: skip


class Case:
    def __init__(self, op, fn, inputs, args, kwargs):
        self.op, self.fn, self.args, self.kwargs = op, fn, args, kwargs
        self.inputs = inputs if isinstance(inputs, list) else [inputs]

    def __call__(self, *tensors):
        return self.fn(*subst(self.args, tensors), **{k: subst(v, tensors) for k, v in self.kwargs.items()})

    def __str__(self):
        shown = ", ".join([text(a) for a in self.args] + [f"{k}={text(v)}" for k, v in self.kwargs.items()])
        return f"torch.{self.op} | {' '.join(map(str, self.inputs))} | {shown}"

    def expected(self):
        results = []
        for fill in (0, 1):
            tensors = [i.make(fill) for i in self.inputs]
            try:
                results.append((self(*tensors), tensors))
            except Exception as e:
                return type(e).__name__
        return describe(results[0][0], results[1][0], results[0][1])


def case(op, inputs, *args, **kwargs):
    methods = ("view", "expand", "repeat", "unfold", "view_as", "expand_as")
    fn = FUNCTIONS.get(op) or (None if op in methods else getattr(torch, op, None)) or getattr(torch.Tensor, op)
    CASES.append(Case(op, fn, inputs, args, kwargs))


def setitem(inputs, key, value):
    def fn(x, k, v):
        y = x.clone()
        y[k] = v
        return y

    CASES.append(Case("setitem", fn, inputs, (Ref(0), key, value), {}))


def write(name):
    rows = dict.fromkeys(f"{c} | {c.expected()}" for c in CASES)
    (HERE / f"{name}.inc").write_text("".join(f'R"case({r})case",\n' for r in rows))
    print(name, len(rows))
    CASES.clear()


X = Ref(0)
S = slice
SCALAR, VEC, MAT = In([]), In([4]), In([3, 4])
CUBE = In([2, 3, 4])
SHAPES = [
    SCALAR, VEC, MAT, CUBE, In([3, 4], [1, 3]), In([2, 3, 4], [1, 8, 2]), In([2, 3, 4], [24, 8, 2]), In([4, 1, 3],
        [0, 5, 1]),
    In([0]), In([2, 0, 3]), In([1, 1]), In([2, 3, 4, 5], [60, 1, 15, 3]), In([2, 3, 4, 5]), In([1, 3, 1], [7, 2, 9]),
    In([3, 4], [8, 2]),
]  # fmt: skip


def shape_cases():
    for size, stride in [((2, 2), (4, 2)), ((2, 3), (6, 2)), ((3, 2), (1, 1)), ((2, 2), (0, 1)), ((1, 3), (1, 2))]:
        case("as_strided", MAT, X, size, stride)
    for x in SHAPES:
        n = 1
        for s in x.shape:
            n *= s
        r = len(x.shape)
        for target in [(n,), (-1,), (n, 1), (1, n), (), (2, -1), (-1, 4), (3, 2, -1), (-1, 1, 2), x.shape, (5, 7),
            (-1, -1), (4, 6), (12, 2), (2, 12), (-2, 3)]:
            case("reshape", x, X, target)
            case("view", x, X, target)
        for a in range(-r - 1, r + 1):
            for op in ("squeeze", "unsqueeze", "unbind"):
                case(op, x, X, a)
            case("select", x, X, a, 0)
            case("select", x, X, a, -1)
            case("select", x, X, a, 5)
            case("narrow", x, X, a, 0, 1)
            case("narrow", x, X, a, -1, 1)
            case("narrow", x, X, a, 1, 9)
            case("slice", x, X, a, 0, -1, 2)
            case("slice", x, X, a, 1)
            case("slice", x, X, a, -9, 9)
            case("slice", x, X, a, 2, 1)
            case("slice", x, X, a, 0, 1, 0)
            case("split", x, X, 2, a)
            case("chunk", x, X, 3, a)
            case("flip", x, X, [a])
            case("tensor_split", x, X, 3, a)
            case("tensor_split", x, X, [1, 2], a)
            case("repeat_interleave", x, X, 2, a)
            case("unfold", x, X, a, 2, 1)
            case("roll", x, X, 1, a)
            case("transpose", x, X, a, 0)
            case("transpose", x, X, a, -1)
            case("flatten", x, X, a)
            case("flatten", x, X, 0, a)
            case("unflatten", x, X, a, (2, -1))
            case("unflatten", x, X, a, (-1, 1))
            case("movedim", x, X, a, 0)
            case("stack", x, [X, X], a)
            case("cat", x, [X, X], a)
            case("swapaxes", x, X, a, 0)
            case("sort", x, X, a)
            case("topk", x, X, 2, a)
            case("kthvalue", x, X, 1, a)
            case("median", x, X, a)
            case("mode", x, X, a)
        for op in ("squeeze", "flatten", "ravel", "t", "numpy_T", "mT", "atleast_1d", "atleast_2d", "atleast_3d",
            "detach", "diag", "diag_embed", "flipud", "fliplr", "msort", "argsort", "diagonal", "median", "rot90",
            "hsplit"):  # fmt: skip
            case(op, x, X, *([2] if op == "hsplit" else []))
        case("permute", x, X, tuple(reversed(range(r))))
        case("permute", x, X, tuple(range(r)))
        case("permute", x, X, (0, 0))
        case("permute", x, X, (1, 0, 2))
        case("squeeze", x, X, (0, -1))
        case("flip", x, X, tuple(range(r)))
        case("flip", x, X, (0, 0))
        case("roll", x, X, 3)
        case("roll", x, X, (1, -1), (0, 1))
        case("roll", x, X, (1, 2), 0)
        for k in range(-1, 5):
            case("rot90", x, X, k)
        case("rot90", x, X, 1, (-1, 0))
        for d in (1, -1, 7):
            case("diagonal", x, X, d)
            case("diagonal", x, X, 0, -1, -2)
            case("diag", x, X, d)
            case("diag_embed", x, X, d, 0, -1)
        case("repeat_interleave", x, X, 3)
        case("repeat_interleave", x, X, 0)
        case("repeat_interleave", x, X, -1)
        for reps in [(), (2,), (1, 2), (2, 1, 3), (1, 1, 1), (1, 1, 1, 1), (0, 1, 2), (2, 2, 1, 1, 3)]:
            case("repeat", x, X, reps)
            case("tile", x, X, reps)
        for size in [x.shape, (-1,) * r, (5,) + x.shape, (1,) + x.shape, (2, 1, 3, 4), (3, 4), (4, 6, 3), (-1, 3),
            (1,), (4,), (1, 1), (2, 2)]:
            case("expand", x, X, size)
            case("broadcast_to", x, X, size)
        for p in [(1, 1), (0, 0), (-1, 2), (1, 0, 2, 3), (0, 0, 0, 0, 1, 1), (-2, -2), (-9, 1), (1,), (1, 1, 1, 1, 1,
            1, 1, 1, 1, 1)]:
            case("pad", x, X, p)
            case("pad", x, X, p, value=1.5)
        case("movedim", x, X, (0, 1), (-1, 0))
        case("movedim", x, X, (0, 1), (1, 1))
        case("as_strided", x, X, (1,), (1,))
        case("as_strided", x, X, (1, 1), (2,))
        case("hstack", x, [X, X])
        case("vstack", x, [X, X])
        case("dstack", x, [X, X])
        case("column_stack", x, [X, X])
        case("meshgrid", x, X, X, indexing="ij")
    for p, mode in [((1, 1), "reflect"), ((2, 1), "replicate"), ((1, 2), "circular"), ((1, 1, 2, 0), "reflect"), ((1,
        1, 2, 1), "replicate"), ((1, 2, 0, 1), "circular"), ((1, 1, 1, 1, 1, 0), "reflect"), ((1, 1, 1, 1, 1, 1),
        "replicate"), ((0, 1, 1, 0, 1, 1), "circular"), ((5, 5), "reflect"), ((5, 0), "circular"), ((-1, 1),
        "circular"), ((-1, 1), "replicate"), ((1, 1), "wrong")]:  # fmt: skip
        for x in [VEC, MAT, CUBE, In([2, 3, 4], [1, 8, 2]), In([2, 3, 4, 5]), In([2, 3, 4, 5], [60, 1, 15, 3]),
            In([2, 2, 3, 4, 3]), In([2, 2, 3, 4, 3], [72, 1, 24, 6, 2])]:
            case("pad", x, X, p, mode)
    for x in [CUBE, In([2, 3, 6], [18, 1, 3]), In([6])]:
        for d in (0, 1, 2, -1):
            for sizes in [(1, 2), (2, 1, 3), (1, 1), (4,), (0, 2, 2), (6, 0), [2, 4], (-1, 3)]:
                case("split", x, X, sizes, d)
                case("split_with_sizes", x, X, sizes, d)
                case("tensor_split", x, X, sizes, d)
            for n in (1, 2, 4, 10, 0, -1):
                case("chunk", x, X, n, d)
                case("split", x, X, n, d)
                case("tensor_split", x, X, n, d)
        for op in ("vsplit", "dsplit", "hsplit"):
            for how in (1, 2, 3, (1,), 0):
                case(op, x, X, how)
    rearrangements()
    many_inputs()
    dtype_cases()
    backward_cases()


def rearrangements():
    for x in [SCALAR, VEC, MAT, CUBE, In([3, 4], [1, 3])]:
        for op in ("adjoint", "mH", "H", "resolve_conj", "resolve_neg"):
            case(op, x, X)
    for x in [In([2, 8, 3, 4]), In([2, 8, 3, 4], [96, 1, 32, 8]), In([8, 3, 4]), In([3, 4]), In([2, 3, 4, 6]), In([2,
        3, 4, 6], [72, 1, 18, 3]), In([2, 2, 8, 2, 2])]:
        for r in (1, 2, 3, 0):
            case("pixel_shuffle", x, X, r)
            case("pixel_unshuffle", x, X, r)
    for tensors in ([MAT, VEC, SCALAR], [MAT, In([2, 2], dtype="f64")], [CUBE], [In([0, 2]), MAT]):
        case("block_diag", tensors, *[Ref(i) for i in range(len(tensors))])
    case("cartesian_prod", [VEC, In([3]), In([2])], Ref(0), Ref(1), Ref(2))
    case("cartesian_prod", [VEC], Ref(0))
    case("cartesian_prod", [VEC, MAT], Ref(0), Ref(1))
    start = In([], dtype="i64")
    for x in [VEC, MAT, In([3, 4], [1, 3]), SCALAR]:
        case("narrow", [x, start], X, -1, Ref(1), 2)
        case("narrow", [x, start], X, 1, Ref(1), 1)
        case("narrow", [x, In([1], dtype="i64")], X, 0, Ref(1), 1)


def many_inputs():
    cl = In([2, 3, 4, 5], [60, 1, 15, 3])
    lists = [
        [MAT, In([2, 4])], [MAT, In([3, 2])], [MAT, VEC], [In([0]), MAT], [MAT, In([0])], [SCALAR, SCALAR], [SCALAR],
            [cl, cl],
        [cl, In([2, 3, 4, 5])], [In([3, 4], [1, 3]), In([3, 4], [1, 3])], [MAT, In([3, 4], dtype="f64")],
        [MAT, In([3, 4], dtype="i64")], [In([3, 4], dtype="b8"), In([3, 4], dtype="i64")], [MAT, SCALAR], [CUBE,
            MAT], [VEC, In([1])],
        [In([4], dtype="bf16"), In([4], dtype="f16")], [In([1, 4]), In([3, 1]), In([])], [In([2, 4, 1, 1], [4, 1, 4,
            4]), In([2, 4, 1, 1], [4, 1, 4, 4])],
    ]  # fmt: skip
    for tensors in lists:
        refs = [Ref(i) for i in range(len(tensors))]
        for d in (0, 1, -1):
            case("cat", tensors, refs, d)
            case("stack", tensors, refs, d)
        for op in ("hstack", "vstack", "dstack", "column_stack"):
            case(op, tensors, refs)
        case("broadcast_tensors", tensors, *refs)
        case("meshgrid", tensors, *refs, indexing="xy")
        case("meshgrid", tensors, refs, indexing="ij")
        case("atleast_2d", tensors, *refs)
        if len(tensors) == 2:
            case("expand_as", tensors, *refs)
            case("view_as", tensors, *refs)
            case("reshape_as", tensors, *refs)
    case("cat", [], [])
    case("stack", [], [])


def dtype_cases():
    for x in [In([3, 4]), In([3, 4], [1, 3]), In([4, 1], [1, 1]), In([3, 4], dtype="f64"), In([]), In([3, 3])]:
        for t in (torch.int32, torch.float64, torch.int16, torch.float32, torch.bool):
            case("view", x, X, t)
    for x in [In([3, 2]), In([3, 2], [1, 3]), In([3, 2], [3, 1]), In([2]), In([3, 3]), In([]), In([3, 2],
        dtype="i64"), In([3, 2], dtype="f64")]:
        case("view_as_complex", x, X)
    for x in [In([3, 2], dtype="c64"), In([3, 2], [1, 3], dtype="c64"), In([], dtype="c64"), In([2])]:
        case("view_as_real", x, X)
    for x in [In([3], dtype="i64"), In([], dtype="i64"), In([2, 3], dtype="i64"), In([3], dtype="i32"), In([0],
        dtype="i64")]:
        for n in (1, 4, 0, -5):
            case("one_hot", x, X, n)


def backward_cases():
    g = In([3, 2, 4])
    case("slice_backward", g, X, [3, 5, 4], 1, 1, 3, 1)
    case("slice_backward", g, X, [3, 5, 4], -2, -4, -2, 1)
    case("slice_backward", g, X, [3, 5, 4], 1, 1, 5, 2)
    case("slice_backward", In([3, 0]), X, [3, 5], 1, 2, 2, 2)
    case("select_backward", In([3, 4]), X, [3, 5, 4], 1, 2)
    case("select_backward", In([3, 4]), X, [3, 5, 4], -2, -1)
    case("select_backward", In([3, 4], [1, 3]), X, [3, 5, 4], 1, 2)
    case("diagonal_backward", In([2, 3]), X, [3, 2, 4], 1, 0, 2)
    case("unfold_backward", In([2, 4, 2]), X, [2, 5], 1, 2, 1)
    case("value_selecting_reduction_backward", [In([3, 2]), In([3, 2], dtype="i64")], X, 1, Ref(1), [3, 5], True)
    case("value_selecting_reduction_backward", [In([3]), In([3], dtype="i64")], X, 1, Ref(1), [3, 5], False)


def index_cases():
    long = lambda *s, strides=None: In(s, strides, "i64")
    for x in [SCALAR, VEC, MAT, CUBE, In([2, 3, 4], [1, 8, 2]), In([2, 3, 4, 5], [60, 1, 15, 3]), In([0, 3])]:
        simple = [
            0, -1, 5, None, ..., True, False, (), S(None), S(1, None), S(None, -1), S(None, None, 2), S(3, 1),
                S(-100, 100), S(1, 2, 3), S(None, None, -1),
            (0, 1), (0, ...), (..., 0), (..., None), (None, 0), (S(None), 0), (S(None), S(1, 3)), (0, 0, 0), (..., 0,
                ...), (S(None), None, S(0, 1)),
            (None, ..., None), (S(1), ..., -1), [0, 1], [[0, 1], [1, 0]], [True, False], [], ([0, 1], [0, 1]),
                (S(None), [0, 1]), ([0], S(None), [1]),
            (0, [0, 1]), ([0, 1], 0), (True, 0), (0, True), (S(None), True), 1.5, (0, S(None, None, 0)), (..., S(0,
                2)), (..., S(2, None)),
        ]  # fmt: skip
        for key in simple:
            case("getitem", x, X, key)
    I, J, K = Ref(1), Ref(2), Ref(3)
    layouts = [CUBE, In([2, 3, 4], [1, 8, 2]), In([2, 3, 4], [12, 1, 3]), In([2, 3, 4, 5]), In([2, 3, 4, 5], [60, 1,
        15, 3]), In([2, 3, 4, 5], [1, 40, 10, 2])]
    indices = [(long(2), long(2)), (long(), long(2)), (long(5, 1), long(2)), (long(2, 3), long(2, 3, strides=[1,
        2])), (In([2], dtype="i32"), long(1)), (long(0), long(0)), (long(2), long(3)), (long(2, 2, strides=[1, 2]),
        long())]  # fmt: skip
    keys = [
        I, (I, J), (I, S(None), J), (S(None), I, J), (S(None), I), (..., I), (I, ..., J), (0, I), (I, 0, J), (None,
            I), (I, None, J), (I, None),
        (S(1, None), I, 0), (S(None), None, I), (S(None), S(None), I), (I, S(0, 2)), (0, S(None), I), (S(None), 0,
            I), (I, J, None),
    ]  # fmt: skip
    for x in layouts:
        for i, j in indices:
            for key in keys:
                case("getitem", [x, i, j], X, key)
    masks = [
        (In([2], dtype="b8"), I), (In([2, 3], dtype="b8"), I), (In([2, 3, 4], dtype="b8"), I), (In([3], dtype="b8"),
            (S(None), I)), (In([3, 4], dtype="b8"), (S(None), I)),
        (In([4], dtype="b8"), (..., I)), (In([2], dtype="ui8"), I), (In([], dtype="b8"), I), (In([5], dtype="b8"),
            I), (In([3], dtype="b8"), (0, I)), (In([2, 3, 4, 5], dtype="b8"), I),
    ]  # fmt: skip
    for x in [CUBE, In([2, 3, 4], [1, 8, 2])]:
        for mask, key in masks:
            case("getitem", [x, mask], X, key)
            case("masked_select", [x, mask], X, I)
            if mask.shape:
                case("index", [x, mask], X, [I])
        case("getitem", [x, In([2], dtype="b8"), long()], X, (I, J))
        case("getitem", [x, In([3], dtype="b8"), long(1)], X, (J, I))
        case("index", [x, long(2), long(2)], X, [None, I, J])
        case("index", [x, long(2), long(2)], X, [I, None, J])
        case("index", [x, In([2])], X, [I])
    for x in [SCALAR, VEC, MAT, In([3, 4], [1, 3], "b8"), In([0])]:
        case("nonzero", In(x.shape, x.strides, "b8"), X)
        case("nonzero", In(x.shape, x.strides, "b8"), X, as_tuple=True)
        case("where", In(x.shape, x.strides, "b8"), X)
        case("argwhere", In(x.shape, x.strides, "b8"), X)
    for x in [SCALAR, VEC, MAT, In([3, 4], [1, 3]), CUBE, In([2, 3, 4], [1, 8, 2])]:
        for i in [long(2), long(), long(2, 2), In([2], dtype="i32"), In([2]), long(1, 4), long(3, 4), long(3, 1),
            long(2, 3, 2), long(2, 2, 2), long(0)]:
            for d in (0, 1, -1):
                src = In(i.shape)
                case("index_select", [x, i], X, d, I)
                case("gather", [x, i], X, d, I)
                case("take_along_dim", [x, i], X, I, d)
                case("take_along_dim", [x, i], X, I)
                case("take", [x, i], X, I)
                case("scatter", [x, i, src], X, d, I, J)
                case("scatter", [x, i], X, d, I, 2.0)
                case("scatter", [x, i, src], X, d, I, J, reduce="add")
                case("scatter", [x, i], X, d, I, 2.0, reduce="multiply")
                case("scatter_add", [x, i, src], X, d, I, J)
                case("scatter_reduce", [x, i, src], X, d, I, J, "amax")
                case("scatter_reduce", [x, i, src], X, d, I, J, "mean", include_self=False)
                case("index_fill", [x, i], X, d, I, 1.0)
                case("index_fill", [x, i, In([])], X, d, I, J)
                if x.shape:
                    s = list(x.shape)
                    if d < len(s):
                        s[d] = i.shape[0] if i.shape else 1
                    source = In(s)
                    case("index_add", [x, i, source], X, d, I, J)
                    case("index_add", [x, i, source], X, d, I, J, alpha=2)
                    case("index_copy", [x, i, source], X, d, I, J)
                    case("index_copy", [x, i, In(source.shape, dtype="f64")], X, d, I, J)
    case("scatter_reduce", [MAT, long(3, 4), MAT], X, 0, I, J, "wrong")
    case("scatter", [MAT, long(3, 4), In([3, 4], dtype="f64")], X, 0, I, J)
    for x in [MAT, In([3, 4], [1, 3]), In([3, 4], [8, 2])]:
        case("index_put", [x, long(2), In([2, 4])], X, [I], J)
        case("index_put", [x, long(2), In([4])], X, [I], J)
        case("index_put", [x, long(2), In([])], X, [I], J, accumulate=True)
        case("index_put", [x, long(2), In([3])], X, [I], J)
        case("index_put", [x, long(2), In([2, 4], dtype="f64")], X, [I], J)
        case("index_put", [x, In([3], dtype="b8"), In([])], X, [I], J)
        case("index_put", [x, long(2), long(2), In([2])], X, [I, J], K)
        case("put", [x, long(2), In([2])], X, I, J)
        case("masked_scatter", [x, In([3, 4], dtype="b8"), In([3, 4])], X, I, J)
        case("masked_scatter", [x, In([4], dtype="b8"), In([3, 4])], X, I, J)
        case("masked_scatter", [x, In([4]), In([3, 4])], X, I, J)
        case("select_scatter", [x, In([4])], X, I, 0, 1)
        case("select_scatter", [x, In([3])], X, I, 1, -1)
        case("select_scatter", [x, In([4])], X, I, 1, 0)
        case("slice_scatter", [x, In([3, 2])], X, I, 1, 1, 3)
        case("slice_scatter", [x, In([2, 4])], X, I, 0, step=2)
        case("slice_scatter", [x, In([2, 4])], X, I, 0, -1)
        case("diagonal_scatter", [x, In([3])], X, I)
        case("diagonal_scatter", [x, In([2])], X, I, -1)
        case("diagonal_scatter", [x, In([4])], X, I)
        case("as_strided_scatter", [x, In([2])], X, I, (2,), (1,))
    setitem_cases(long)
    search_cases(long)
    unique_cases()


def setitem_cases(long):
    I, J = Ref(1), Ref(2)
    for key in [0, S(1, None), (..., 0), (S(None), S(1, 3)), None, ..., (0, 1), (S(None), S(None, None, 2)), (None, 0)]:
        setitem([CUBE], key, 2)
        for v in [In([]), In([1]), In([4]), In([3, 4]), In([1, 1, 1, 4]), In([3, 4], dtype="f64"), In([5])]:
            setitem([CUBE, v], key, I)
    for key in [I, (S(None), I), (I, 0), (..., I), (0, I), (S(1, 2), I), (None, I)]:
        for i in [long(2), long(), In([2], dtype="b8"), In([3], dtype="b8")]:
            setitem([CUBE, i], key, 1.5)
            for v in [In([]), In([1]), In([1, 1, 1, 1, 1]), In([4]), In([2, 1]), In([2, 3, 4]), In([], dtype="f64"),
                In([4], dtype="f64")]:
                setitem([CUBE, i, v], key, J)


def unique_cases():
    for x in [In([4], dtype="b8"), In([3, 4], dtype="b8"), In([4, 3], [1, 4], dtype="b8"), In([0], dtype="b8")]:
        for inverse in (False, True):
            for counts in (False, True):
                case("unique", x, X, return_inverse=inverse, return_counts=counts)
                case("unique_consecutive", x, X, return_inverse=inverse, return_counts=counts)
    for x in [In([4], dtype="b8"), In([4, 3], [0, 1], dtype="b8")]:
        case("unique", x, X, return_inverse=True, return_counts=True, dim=-1)
        case("unique_consecutive", x, X, return_inverse=True, return_counts=True, dim=-1)
    case("bincount", In([0], dtype="i64"), X, minlength=3)
    case("bincount", In([2, 2], dtype="i64"), X)
    case("bincount", In([2]), X)
    case("bincount", [In([2], dtype="i64"), In([3])], X, Ref(1))


def search_cases(long):
    I = Ref(1)
    for s, v in [(In([4]), MAT), (MAT, In([3, 2])), (MAT, VEC), (In([4]), In([])), (In([]), VEC), (VEC, In([3],
        dtype="f64")), (In([4]), In([3, 4], [1, 3]))]:
        case("searchsorted", [s, v], X, I)
        case("searchsorted", [s, v], X, I, out_int32=True, side="right")
        case("searchsorted", [s, v], X, I, side="wrong")
        case("searchsorted", [s, v], X, I, side="left", right=True)
        case("searchsorted", [s], X, 1.5)
        case("bucketize", [v, s], X, I)
        case("bucketize", [s], 1.5, X)


if __name__ == "__main__":
    shape_cases()
    write("cases_shape")
    index_cases()
    write("cases_index")
