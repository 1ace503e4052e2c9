#!/usr/bin/env python3
"""Asks PyTorch what neural network operators return, and writes the answers as rows of cases_*.inc (see make_cases.py).

    python tests/cpp/ops/make_nn_cases.py
"""

import torch
import torch.nn.functional as F
from make_cases import FUNCTIONS, In, Ref, case, write

I64 = "i64"
A, B, C, D = (Ref(i) for i in range(4))
aten = torch.ops.aten


def of_functional(*names):
    FUNCTIONS.update({n: getattr(F, n) for n in names})


def dtypes(shape, strides=None):
    return [In(shape, strides, t) for t in ("f32", "f64", "bf16", "f16", "i64", "b8")]


LAYOUTS = [In([4, 6]), In([4, 6], [1, 4]), In([4, 6], [12, 2]), In([4, 6], [0, 1]), In([]), In([0, 6]),
           In([2, 3, 4, 6]), In([2, 3, 4, 6], [72, 1, 18, 3]), In([6])]  # fmt: skip


def matmul_cases():
    shapes = [
        [],
        [3],
        [4],
        [2, 3],
        [3, 4],
        [4, 3],
        [5, 2, 3],
        [5, 3, 4],
        [1, 3, 4],
        [6, 1, 2, 3],
        [2, 0],
        [0, 3],
        [5, 2, 4],
    ]
    for s in shapes:
        for t in shapes:
            case("matmul", [In(s), In(t)], A, B)
    case("matmul", [In([5, 3, 2], [6, 1, 3]), In([3, 4], [1, 3])], A, B)
    case("matmul", [In([2, 3], dtype="f64"), In([3, 4])], A, B)
    case("matmul", [In([2, 3], dtype="bf16"), In([3, 4], dtype="bf16")], A, B)
    case("matmul", [In([2, 3], dtype=I64), In([3, 4], dtype=I64)], A, B)
    case("matmul", [In([2, 3], dtype="b8"), In([3, 4], dtype="b8")], A, B)
    for op in ("mm", "mv", "dot", "bmm", "outer", "kron", "vdot"):
        for s, t in (
            ([2, 3], [3, 4]),
            ([2, 3], [3]),
            ([3], [3]),
            ([3], [4]),
            ([5, 2, 3], [5, 3, 4]),
            ([2, 3], [4, 5]),
            ([5, 2, 3], [4, 3, 4]),
        ):
            case(op, [In(s), In(t)], A, B)
        case(op, [In([3], dtype="f64"), In([3])], A, B)
    for s in ([2, 4], [4], [2, 1], [], [5], [3, 2, 4]):
        case("addmm", [In(s), In([2, 3]), In([3, 4])], A, B, C)
        case("baddbmm", [In(s), In([3, 2, 3]), In([3, 3, 4])], A, B, C, beta=0.5, alpha=2)
        case("addbmm", [In(s), In([3, 2, 3]), In([3, 3, 4])], A, B, C)
        case("addmv", [In(s), In([4, 3]), In([3])], A, B, C)
        case("addr", [In(s), In([2]), In([4])], A, B, C)
    case("addmm", [In([2, 4]), In([2, 3]), In([4, 4])], A, B, C)
    case("addmm", [In([2, 4], dtype="f64"), In([2, 3]), In([3, 4])], A, B, C)
    case("addmm", [In([2, 4]), In([2, 3]), In([3, 4])], A, B, C, beta=0)
    of_functional("linear", "bilinear")
    for x in ([3], [2, 3], [5, 2, 3], [0, 3], [], [4]):
        for w in ([4, 3], [3], [2, 4, 3], [0, 3]):
            case("linear", [In(x), In(w)], A, B)
    for b in ([4], [1], [], [2, 4], [5], [3, 2, 4]):
        case("linear", [In([2, 3]), In([4, 3]), In(b)], A, B, C)
    case("linear", [In([2, 3], dtype="f64"), In([4, 3])], A, B)
    case("linear", [In([2, 3]), In([4, 3]), In([4], dtype="f64")], A, B, C)
    case("bilinear", [In([2, 3]), In([2, 4]), In([5, 3, 4]), In([5])], A, B, C, D)
    case("bilinear", [In([2, 3]), In([2, 4]), In([5, 4, 3])], A, B, C)
    for s in ([3, 4, 5],):
        case("tensordot", [In(s), In([4, 5, 6])], A, B, 2)
        case("tensordot", [In(s), In([5, 4, 6])], A, B, ([1, 2], [1, 0]))
        case("tensordot", [In(s), In([5, 4, 6])], A, B, 2)
        case("tensordot", [In(s), In([5, 4, 6])], A, B, 4)


def einsum_cases():
    def einsum(equation, *shapes):
        case("einsum", [In(s) for s in shapes], equation, *[Ref(i) for i in range(len(shapes))])

    einsum("ij,jk->ik", [2, 3], [3, 4])
    einsum("ij,jk", [2, 3], [3, 4])
    einsum("bij,bjk->bik", [5, 2, 3], [1, 3, 4])
    einsum("...ij,...jk->...ik", [5, 2, 3], [3, 4])
    einsum("ii->i", [3, 3])
    einsum("ii", [3, 3])
    einsum("ij->", [2, 3])
    einsum("i,j->ij", [3], [4])
    einsum("bhqd,bhkd->bhqk", [2, 3, 4, 5], [2, 3, 6, 5])
    einsum("bn,anm,bm->ba", [2, 5], [3, 5, 4], [2, 4])
    einsum("ij,jk->il", [2, 3], [3, 4])
    einsum("ij,jk->ii", [2, 3], [3, 4])
    einsum("ij,jk->ik", [2, 3], [4, 4])
    einsum("ij->ij", [2, 3, 4])
    einsum("ij,jk->ik", [2, 3])
    einsum("ii->i", [3, 4])


def activation_cases():
    plain = ["relu", "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "softplus", "logsigmoid", "hardswish",
             "hardsigmoid", "hardtanh", "leaky_relu", "softshrink", "hardshrink", "softsign", "tanhshrink", "rrelu",
             "glu"]  # fmt: skip
    of_functional(*plain, "threshold", "prelu")
    for op in plain:
        for x in [*LAYOUTS, *dtypes([4, 6])]:
            case(op, x, A)
    case("gelu", In([3]), A, approximate="tanh")
    case("gelu", In([3]), A, approximate="fast")
    case("glu", In([4, 5]), A)
    case("glu", In([4, 5]), A, 0)
    case("glu", In([4, 6]), A, 2)
    case("softshrink", In([3]), A, -1.0)
    case("celu", In([3]), A, 0.0)
    case("rrelu", In([3]), A, 0.5, 0.2)
    case("threshold", In([3]), A, 0.5, 1)
    for w in ([3], [1], [2], [], [1, 3]):
        case("prelu", [In([2, 3, 4]), In(w)], A, B)
    case("prelu", [In([]), In([1])], A, B)
    case("prelu", [In([2, 3], [1, 2]), In([3])], A, B)
    case("prelu", [In([2, 3]), In([3], dtype="f64")], A, B)
    for op, extra in (
        ("gelu_backward", {}),
        ("silu_backward", {}),
        ("mish_backward", {}),
        ("hardswish_backward", {}),
        ("hardsigmoid_backward", {}),
    ):
        FUNCTIONS[op] = getattr(aten, op)
        for x in LAYOUTS:
            case(op, [x, x], A, B, **extra)
        case(op, [In([4, 6]), In([4, 6], [1, 4])], A, B)
    for op, args in (("threshold_backward", (0.5,)), ("hardtanh_backward", (-1.0, 1.0)),
                     ("leaky_relu_backward", (0.1, False)), ("softshrink_backward", (0.5,)),
                     ("hardshrink_backward", (0.5,)), ("softplus_backward", (1.0, 20.0)),
                     ("glu_backward", (-1,))):  # fmt: skip
        FUNCTIONS[op] = getattr(aten, op)
        case(op, [In([4, 6]), In([4, 6], [1, 4])], A, B, *args) if op != "glu_backward" else None
        case(op, [In([4, 6], [1, 4]), In([4, 6])], A, B, *args) if op != "glu_backward" else None
        for x in LAYOUTS:
            g = x if op != "glu_backward" or not x.shape else In([*x.shape[:-1], x.shape[-1] // 2])
            case(op, [g, x], A, B, *args)


def softmax_cases():
    FUNCTIONS.update({"softmax": torch.softmax, "log_softmax": torch.log_softmax, "_safe_softmax": aten._safe_softmax,
                      "_softmax_backward_data": aten._softmax_backward_data,
                      "_log_softmax_backward_data": aten._log_softmax_backward_data, "softmin": F.softmin})  # fmt: skip
    for op in ("softmax", "log_softmax", "_safe_softmax"):
        for x in [*LAYOUTS, *dtypes([4, 6])]:
            for dim in (0, -1, 2):
                case(op, x, A, dim)
        case(op, In([4, 6], dtype=I64), A, 0, dtype=torch.float64)
        case(op, In([4, 6], dtype="bf16"), A, 0, dtype=torch.float32)
    case("softmin", In([4, 6]), A, 1)
    for op in ("_softmax_backward_data", "_log_softmax_backward_data"):
        for x in LAYOUTS:
            case(op, [x, x], A, B, 0, torch.float32)


def norm_cases():
    of_functional("layer_norm", "rms_norm", "normalize", "cosine_similarity", "group_norm", "instance_norm")
    for x in [In([2, 5, 3]), In([2, 5, 3], [3, 6, 1]), In([0, 5, 3]), *dtypes([2, 5, 3])]:
        for shape in ([3], [5, 3], [2, 5, 3], [4], [], [1, 2, 5, 3]):
            case("layer_norm", x, A, shape)
            case("rms_norm", x, A, shape) if shape else None
        for w in (In([3], dtype=x.dtype), In([3], dtype="f32"), In([3], dtype="f64"), In([2])):
            case("layer_norm", [x, w, w], A, [3], B, C, 1e-3)
            case("rms_norm", [x, w], A, [3], B)
        case("native_layer_norm", x, A, [3], None, None, 1e-5)
        case("normalize", x, A)
    case(
        "native_layer_norm",
        [In([2, 5, 3], dtype="bf16"), In([5, 3], dtype="f32"), In([5, 3], dtype="f32")],
        A,
        [5, 3],
        B,
        C,
        1e-5,
    )
    for s, t in (([2, 3], [2, 3]), ([2, 3], [3]), ([2, 3], [4])):
        case("cosine_similarity", [In(s), In(t)], A, B)
    for x in [
        In([2, 6, 4, 5]),
        In([2, 6]),
        In([2, 6, 4, 5], [120, 1, 30, 6]),
        In([2, 5, 3]),
        In([6]),
        In([2, 6, 3], dtype="bf16"),
        In([2, 6, 3], dtype=I64),
    ]:
        case("group_norm", x, A, 3)
        case("group_norm", [x, In([6], dtype=x.dtype), In([6], dtype=x.dtype)], A, 2, B, C)
        case("group_norm", [x, In([5], dtype=x.dtype)], A, 2, B)
        case("instance_norm", x, A)
        case("instance_norm", [x, In([6], dtype=x.dtype), In([6], dtype=x.dtype)], A, weight=B, bias=C)
    FUNCTIONS["_native_batch_norm_legit_functional"] = aten._native_batch_norm_legit_functional
    for x in (
        In([4, 3, 5, 6]),
        In([4, 3]),
        In([4, 3, 5, 6], [90, 1, 18, 3]),
        In([4, 3, 5], [15, 1, 3]),
        In([4, 3, 5], dtype="bf16"),
    ):
        case("_native_batch_norm_legit_functional", [x, In([3]), In([3])], A, None, None, B, C, True, 0.1, 1e-5)
        case("native_batch_norm", x, A, None, None, None, None, True, 0.1, 1e-5)
        case("native_batch_norm", [x, In([3]), In([3])], A, None, None, B, C, False, 0.1, 1e-5)


def embedding_cases():
    FUNCTIONS["embedding.functional"] = F.embedding
    for i in (
        In([5], dtype=I64),
        In([2, 5], dtype="i32"),
        In([2, 5], [1, 2], I64),
        In([], dtype=I64),
        In([0, 2], dtype=I64),
        In([3]),
        In([3], dtype="b8"),
    ):
        for w in (In([10, 4]), In([10, 4], [1, 10]), In([10]), In([10, 4], dtype="bf16"), In([2, 10, 4])):
            case("embedding.functional", [i, w], A, B)
    for p in (3, -1, 9, 10, -10, -11):
        case("embedding.functional", [In([5], dtype=I64), In([10, 4])], A, B, padding_idx=p)
    case("embedding.functional", [In([5], dtype=I64), In([10, 4])], A, B, scale_grad_by_freq=True)
    FUNCTIONS["embedding_backward"] = aten.embedding_backward
    for g, i in (
        (In([5, 4]), In([5], dtype=I64)),
        (In([2, 3, 4]), In([2, 3], dtype=I64)),
        (In([2, 3, 4], [12, 1, 3]), In([2, 3], [1, 2], I64)),
    ):
        for padding, scale in ((-1, False), (1, False), (-1, True)):
            case("embedding_backward", [g, i], A, B, 10, padding, scale, False)


def conv_cases():
    of_functional("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
    for n in (1, 2, 3):
        op, transposed = f"conv{n}d", f"conv_transpose{n}d"
        for x in ([2, 4, *[7] * n], [4, *[7] * n], [2, 3, *[7] * n], [2, 4, *[2] * n], [4]):
            case(op, [In(x), In([6, 4, *[3] * n]), In([6])], A, B, C)
            case(op, [In(x), In([6, 4, *[2] * n])], A, B, stride=2, padding=1, dilation=2)
            case(op, [In(x), In([6, 2, *[3] * n])], A, B, groups=2)
            case(op, [In(x), In([6, 4, *[2] * n])], A, B, padding="same")
            case(transposed, [In(x), In([4, 3, *[3] * n]), In([3])], A, B, C, stride=2, padding=1, output_padding=1)
        x = In([2, 4, *[7] * n])
        case(op, [x, In([6, 4, *[3] * n], dtype="f64")], A, B)
        case(op, [x, In([6, 4, *[3] * n]), In([5])], A, B, C)
        case(op, [x, In([6, 4, *[3] * n])], A, B, stride=0)
        case(op, [x, In([6, 4, *[3] * n])], A, B, padding=-1)
        case(op, [x, In([6, 4, *[3] * n])], A, B, padding="same", stride=2)
        case(op, [x, In([6, 4, *[3] * n])], A, B, padding="wrong")
        case(transposed, [x, In([4, 3, *[3] * n])], A, B, output_padding=2)
    last = In([2, 4, 7, 7], [196, 1, 28, 4])
    case("conv2d", [last, In([6, 4, 3, 3])], A, B)
    case("conv2d", [In([2, 4, 7, 7]), In([6, 4, 3, 3], [36, 1, 12, 4])], A, B)


def pool_cases():
    of_functional("avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d")
    for n in (1, 2, 3):
        FUNCTIONS[f"max_pool{n}d"] = getattr(torch, f"max_pool{n}d")
        for x in ([2, 4, *[7] * n], [4, *[7] * n], [2, 4, *[2] * n]):
            for op in (f"max_pool{n}d", f"avg_pool{n}d"):
                case(op, In(x), A, 3)
                case(op, In(x), A, 2, 1)
                case(op, In(x), A, 3, stride=2, padding=1, ceil_mode=True)
                case(op, In(x), A, 3, padding=2)
    for op in ("max_pool2d", "avg_pool2d"):
        case(op, In([2, 4, 7, 7], [196, 1, 28, 4]), A, 3)
    for x in ([2, 4, 7], [4, 7], [7]):
        case("adaptive_avg_pool1d", In(x), A, 3)
    for x in ([2, 4, 7, 7], [4, 7, 7], [7, 7]):
        for size in (1, 3, [3, 2], [None, 2]):
            if len(x) > 2 or isinstance(size, list):
                case("adaptive_avg_pool2d", In(x), A, size)


def loss_cases():
    both = [
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
        "binary_cross_entropy_with_logits",
        "soft_margin_loss",
    ]
    of_functional(*both, "cross_entropy", "nll_loss")
    reductions = ("none", "mean", "sum", "wrong")
    for op in both:
        for x, y in ((In([3, 4]), In([3, 4])), (In([3, 4], [1, 3]), In([3, 4])), (In([3, 4]), In([4])),
                     (In([3, 4]), In([5])), (In([3, 4], dtype="bf16"), In([3, 4], dtype="bf16")),
                     (In([3, 4]), In([3, 4], dtype="f64")), (In([]), In([])),
                     (In([3, 4], dtype=I64), In([3, 4], dtype=I64))):  # fmt: skip
            if x.dtype == I64 and op in ("l1_loss", "kl_div", "soft_margin_loss", "binary_cross_entropy_with_logits"):
                continue
            for reduction in reductions:
                case(op, [x, y], A, B, reduction=reduction)
    case("kl_div", [In([3, 4]), In([3, 4])], A, B, reduction="batchmean", log_target=True)
    case("smooth_l1_loss", [In([3, 4]), In([3, 4])], A, B, beta=-1.0)
    case("smooth_l1_loss", [In([3, 4]), In([3, 4])], A, B, beta=0.0)
    case("huber_loss", [In([3, 4]), In([3, 4])], A, B, delta=0.0)
    case("mse_loss", [In([3, 4]), In([3, 4])], A, B, size_average=False)
    case("mse_loss", [In([3, 4]), In([3, 4])], A, B, reduce=False)
    for x, y in (([3, 4], [3]), ([4], []), ([4], [1]), ([4], [2]), ([3, 4, 5], [3, 5]), ([2, 4, 3, 5], [2, 3, 5]),
                 ([2, 4, 3, 5, 2], [2, 3, 5, 2]), ([3, 4], [2]), ([3, 4, 5], [3, 6]), ([3, 4], [3, 2]),
                 ([], [])):  # fmt: skip
        for reduction in reductions:
            case("cross_entropy", [In(x), In(y, dtype=I64)], A, B, reduction=reduction)
            case("nll_loss", [In(x), In(y, dtype=I64)], A, B, reduction=reduction, ignore_index=0)
            case(
                "cross_entropy",
                [In(x), In(y, dtype=I64), In([4])],
                A,
                B,
                weight=C,
                reduction=reduction,
                label_smoothing=0.1,
            )
            case("cross_entropy", [In(x), In(x)], A, B, reduction=reduction)
    logits, labels = In([3, 4]), In([3], dtype=I64)
    case("cross_entropy", [logits, In([3], dtype="i32")], A, B)
    case("cross_entropy", [logits, In([3])], A, B)
    case("cross_entropy", [logits, In([3, 4], dtype=I64)], A, B)
    case("cross_entropy", [logits, logits], A, B, ignore_index=0)
    case("cross_entropy", [logits, logits, In([4])], A, B, weight=C, label_smoothing=0.1)
    case("cross_entropy", [logits, logits, In([5])], A, B, weight=C)
    case("cross_entropy", [logits, labels], A, B, label_smoothing=1.5)
    case("cross_entropy", [logits, labels, In([5])], A, B, weight=C)
    case("cross_entropy", [logits, labels, In([4], dtype="f64")], A, B, weight=C)
    case("cross_entropy", [In([3, 4], dtype="bf16"), labels], A, B)
    case("cross_entropy", [In([3, 4], dtype=I64), labels], A, B)
    case("cross_entropy", [In([3, 4], [1, 3]), labels], A, B, reduction="none")


def dropout_cases():
    of_functional("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d")
    for x in [*LAYOUTS, In([4, 6], dtype="bf16"), In([4, 6], dtype=I64)]:
        case("dropout", x, A, 0.5)
        case("dropout", x, A, 0.5, False)
        case("dropout", x, A, 1.0)
        case("dropout", x, A, 1.5)
        case("alpha_dropout", x, A, 0.5, True) if x.dtype != I64 else None
    for op, x in (
        ("dropout1d", [2, 3, 4]),
        ("dropout1d", [3, 4]),
        ("dropout2d", [2, 3, 4, 5]),
        ("dropout2d", [2, 3, 4]),
        ("dropout3d", [2, 3, 4, 5, 6]),
        ("dropout3d", [3, 4, 5, 6]),
    ):
        case(op, In(x), A, 0.5)


def attention_cases():
    of_functional("scaled_dot_product_attention")

    def sdpa(q, k=None, v=None, mask=None, **kwargs):
        k = q if k is None else k
        v = k if v is None else v
        inputs = [x if isinstance(x, In) else In(x) for x in (q, k, v)] + ([mask] if mask is not None else [])
        case("scaled_dot_product_attention", inputs, A, B, C, *([D] if mask is not None else []), **kwargs)

    base = [2, 4, 5, 8]
    inside = In(base, [160, 8, 32, 1])
    for q in (
        base,
        inside,
        In(base, [480, 24, 96, 1]),
        In(base, [640, 160, 32, 2]),
        In(base, [160, 40, 1, 5]),
        [4, 5, 8],
        [5, 8],
        [8],
        [2, 4, 0, 8],
        [2, 2, 4, 5, 8],
    ):
        sdpa(q)
        sdpa(q, is_causal=True)
        sdpa(q, scale=-0.5)
        sdpa(q, dropout_p=0.5)
    for t in ("f64", "bf16", "f16", "i64"):
        sdpa(In(base, dtype=t), In(base, dtype=t), In(base, dtype=t))
    for k, v in (([2, 4, 7, 8], None), ([2, 4, 5, 7], None), (base, [2, 4, 5, 7]), ([3, 4, 5, 8], None),
                 ([2, 2, 5, 8], None), (In(base, dtype="f64"), None), ([2, 4, 0, 8], None), ([2, 1, 5, 8], None),
                 ([1, 4, 5, 8], None)):  # fmt: skip
        sdpa(base, k, v)
        sdpa(inside, k, v, is_causal=True)
        sdpa(inside, k, v, enable_gqa=True)
    sdpa(base, [2, 2, 5, 8], [2, 1, 5, 8], enable_gqa=True)
    sdpa(base, [2, 3, 5, 8], enable_gqa=True)
    sdpa([5, 8], [5, 8], enable_gqa=True)
    for m in ([5, 5], [1, 5], [5, 1], [2, 4, 5, 5], [1, 1, 5, 5], [2, 1, 5, 5], [4, 5, 5], [5], [5, 6], [3, 4, 5, 5]):
        for t in ("f32", "b8", "f64", "i64"):
            sdpa(inside, mask=In(m, dtype=t))
        sdpa(In(base, dtype="bf16"), mask=In(m, dtype="f32"), **{})
    sdpa(inside, mask=In([5, 5], [1, 5]))
    sdpa(inside, mask=In([5, 5]), is_causal=True)
    sdpa(inside, mask=In([5, 5]), is_causal=True, dropout_p=0.5)
    sdpa(base, dropout_p=1.5)


if __name__ == "__main__":
    torch.manual_seed(0)
    for cases in (
        matmul_cases,
        einsum_cases,
        activation_cases,
        softmax_cases,
        norm_cases,
        embedding_cases,
        conv_cases,
        pool_cases,
        dropout_cases,
    ):
        cases()
    write("cases_nn")
    loss_cases()
    write("cases_loss")
    attention_cases()
    write("cases_attention")
