"""Programs of all kinds of kernels, against eager: test_compilers.py runs this file once for each compiler."""

import random

import torch
import torch.nn.functional as F
from fusion_checks import check

import thunder


def causal_lm_loss(logits, labels):
    labels = F.pad(labels, (0, 1), value=-100)
    shifted = labels[..., 1:].contiguous().view(-1)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), shifted, ignore_index=-100)


def rotated(x, cos, sin):
    half = x.size(-1) // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def losses():
    for batch, length in ((4, 64), (4, 63), (2, 128), (1, 64), (3, 2), (8, 16)):
        logits = torch.randn(batch, length, 50, requires_grad=True)
        check(causal_lm_loss, logits, torch.randint(0, 50, (batch, length)))


def gathers():
    for n in (1, 15, 16, 64, 257):
        table, places = torch.randn(100, 7), torch.randint(0, 100, (n,))
        check(lambda t, p: t[p].exp() * 2 + p[:, None], table, places)
        picked = torch.randint(0, 7, (100, 1))
        check(lambda t, p: t.softmax(-1).gather(1, p).log().sum(), table.requires_grad_(), picked)
        out_of_range = places.clone()
        out_of_range[n // 2] = 100
        try:
            thunder.jit(lambda t, p: (t * 2).index_select(0, p) * 3 + p[:, None])(table, out_of_range)
        except IndexError:
            continue
        raise AssertionError("an index out of range is not reported")


def rows_and_columns():
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        for rows, cols in ((2, 3), (7, 33), (64, 64), (3, 5000), (300, 17)):
            x = torch.randn(rows, cols, dtype=dtype).requires_grad_()
            w, b = torch.randn(cols, dtype=dtype).requires_grad_(), torch.randn(cols, dtype=dtype).requires_grad_()
            check(lambda x, w, b: F.layer_norm(x, (x.size(-1),), w, b) * 2, x, w, b)
            check(lambda x: F.softmax(x * 1.5, -1) + 1, x)
            check(lambda x, w: F.gelu(x * w) + torch.tanh(x), x, w)
            check(lambda x, w, b: F.silu(x + w) * b, x, w, b)
            check(lambda x: (x.exp().sum(0), (x * 2).amax(-1)), x)


def moves():
    for n in (2, 8, 64):
        x = torch.randn(3, 5, n, requires_grad=True)
        check(rotated, x, torch.randn(5, n), torch.randn(5, n))
        check(lambda x: F.pad(x * 2, (1, 2)).exp().flip(-1), x)
        check(lambda x: torch.cat([x * 2, x.exp(), x[..., :1] + 1], -1), x)


def integers():
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        x = torch.randint(0, 100, (5, 37)).to(dtype)
        check(lambda x: ((x * 7 + 3) ^ (x >> 1)) & 63, x)
        check(lambda x: ((x + 1).sum(-1), (x * 2).amax(0), (x > 3).any(-1), (x + 1 > 3).all(0)), x)


def same_bits():
    x = torch.randn(64, 63)
    for f in (torch.exp, torch.tanh, F.gelu, torch.log1p, lambda x: x * 1.1 + x * x):
        y = x.abs().requires_grad_()
        thunder.jit(lambda x, f=f: f(x).amax(-1).sum())(y).backward()
        assert not y.grad.isnan().any(), f
        assert thunder.jit(lambda x, f=f: (f(x) == f(x).amax(-1, keepdim=True)).sum())(y.detach()) >= 64, f
    a = torch.rand(1000)
    assert not thunder.jit(lambda a, b: (a * a - b * b).sqrt())(a, a.clone()).isnan().any()


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    for program in (losses, gathers, rows_and_columns, moves, integers, same_bits):
        program()
        print(program.__name__, flush=True)
