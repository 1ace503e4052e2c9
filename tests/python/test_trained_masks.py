"""Attention whose mask requires a gradient: programs as they would run on a GPU, and results on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import thunder

BF16 = torch.bfloat16


class Layers(torch.nn.Module):
    """Several layers of attention with one mask, made of what they are given."""

    def __init__(self, make, n=3, **options):
        super().__init__()
        self.make, self.n, self.options = make, n, options

    def forward(self, q, bias, *more):
        mask = self.make(bias, *more)
        for _ in range(self.n):
            q = F.scaled_dot_product_attention(q, q, q, mask, **self.options)
        return q


def meta(*shape, dtype=BF16, grad=True):
    return torch.zeros(shape, dtype=dtype, device="meta", requires_grad=grad)


def simulated(make, q, *given, **options):
    return thunder.distributed.simulate(Layers(make, **options), (q, *given), world=1, strategy=None).traces


def lines(trace, *words):
    return [x.strip() for x in str(trace).splitlines() if " = " in x and all(w in x for w in words)]


def calls(trace, word):
    return [c for c in trace.calls if word in c.name]


SHAPES = [(2, 4, 49, 49), (1, 4, 49, 49), (2, 1, 49, 49), (4, 49, 49), (49, 49), (1, 4, 1, 49), (49, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [BF16, torch.float16, torch.float32], ids=str)
def test_the_kernel_with_a_gradient_of_the_mask(shape, dtype):
    forward, backward = simulated(lambda b: b, meta(2, 4, 49, 32, dtype=dtype), meta(*shape, dtype=dtype))
    assert len(calls(forward, "sdpaex_grad_forward_scaled_dot_product_efficient_attention")) == 3
    assert len(calls(backward, "efficient_attention_backward_with_mask")) == 3
    # Rows of 49 are stored in 64 once for all layers.
    assert len(lines(forward, "prims.pad(")) == 1
    assert "matmul" not in str(forward) + str(backward)


@pytest.mark.parametrize(
    ("reason", "mask", "options"),
    [
        ("another dtype", meta(1, 4, 49, 49, dtype=torch.float32), {}),
        ("dropout of products in eager", meta(1, 4, 49, 49).transpose(-1, -2), {"dropout_p": 0.1}),
    ],
)
def test_masks_that_are_left_to_products(reason, mask, options):
    mask = mask.detach().requires_grad_()
    forward, _ = simulated(lambda b: b, meta(2, 4, 49, 32), mask, **options)
    assert not calls(forward, "efficient") and lines(forward, "matmul"), reason


def test_no_gradient_no_backward_with_one():
    forward, backward = simulated(lambda b: b, meta(2, 4, 49, 32), meta(1, 4, 49, 49, grad=False))
    assert calls(forward, "attention") and not calls(backward, "with_mask")


def places(bias):
    return torch.arange(bias.shape[-1], device=bias.device)


def expanded_choice(seen):
    return lambda b: torch.where(seen(places(b)).expand(16, -1, -1, -1), b, torch.finfo(b.dtype).min)


def causal(p):
    return (p[:, None] >= p).view(1, 1, len(p), len(p))


def everywhere(p):
    return (p[:, None] >= p * 0).view(1, 1, len(p), len(p))


@pytest.mark.parametrize("seen", [causal, everywhere])
def test_a_mask_that_is_expanded_to_the_batch_is_made_once_for_it(seen):
    forward, backward = simulated(expanded_choice(seen), meta(16, 4, 64, 32), meta(1, 4, 64, 64))
    wide = [x for x in lines(forward, "[16, 4, 64, 64]") if "expand" not in x and "broadcast_in_dim" not in x]
    assert not wide, wide
    assert len(lines(forward, "prims.where(")) == (seen is causal)
    # The gradient is added up over the batch, in float32, layer by layer.
    sums = lines(backward, "prims.sum(")
    assert len(sums) == 3 and all('f32[4, 64, 64]"' in x for x in sums), sums
    rounded = lines(backward, "prims.convert_element_type(", "torch.bfloat16", "4, 64, 64]")
    assert len(rounded) == 1, rounded


def test_a_sum_does_not_wait_for_the_last_layer():
    """Each layer's gradient is large, and of no more use once it is added up."""

    class Blocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.ModuleList(torch.nn.Linear(128, 128) for _ in range(24))

        def forward(self, x, bias):
            for i in range(0, 24, 6):
                q, k, v = (f(x).unflatten(-1, (4, 32)).transpose(1, 2) for f in self.inner[i : i + 3])
                x = x + F.scaled_dot_product_attention(q, k, v, bias).transpose(1, 2).flatten(2)
                for f in self.inner[i + 3 : i + 6]:
                    x = F.layer_norm(x + F.gelu(f(x)), (128,))
            return x

    model = Blocks().to(dtype=BF16, device="meta")
    s = thunder.distributed.simulate(model, (meta(32, 256, 128), meta(1, 4, 256, 256)), world=1, strategy=None)
    text = str(s.traces[1]).splitlines()
    made = [i for i, x in enumerate(text) if "_with_mask(" in x]
    added = [i for i, x in enumerate(text) if "prims.sum(" in x and '"cuda:0 f32[4, 256, 256]"' in x]
    assert len(made) == len(added) == 4
    assert all(a < m for a, m in zip(added, made[1:], strict=False)), (made, added)


@pytest.mark.parametrize("dtype", [torch.float32, BF16], ids=str)
@pytest.mark.parametrize("form", ["choice", "sum", "expanded", "permuted", "rows"])
def test_narrow_masks_on_the_cpu(form, dtype):
    torch.manual_seed(0)
    seen = torch.rand(5, 1, 7, 9) > 0.4
    seen[..., 0] = True
    make = {
        "choice": lambda b: torch.where(seen[:1].expand(5, 1, 7, 9), b, float("-inf")),
        "sum": lambda b: b.expand(5, 4, 7, 9) + seen[0].to(b.dtype),
        "expanded": lambda b: b.expand(5, 4, 7, 9),
        "permuted": lambda b: b.expand(5, 4, 7, 9).permute(1, 0, 2, 3).exp().permute(1, 0, 2, 3),
        "rows": lambda b: (b[:, :, :1].expand(5, 4, 7, 9) * 2).to(b.dtype),
    }[form]

    def f(q, k, bias):
        mask = make(bias)
        for _ in range(2):
            q = F.scaled_dot_product_attention(q, k, k, mask)
        return q

    given = [torch.randn(s, dtype=dtype, requires_grad=True) for s in ((5, 4, 7, 8), (5, 4, 9, 8), (1, 4, 7, 9))]
    compiled = thunder.jit(f)
    mine, eager = compiled(*given), f(*given)
    tolerance = {"rtol": 0.05, "atol": 0.05} if dtype == BF16 else {"rtol": 1e-4, "atol": 1e-5}
    assert_close(mine, eager, **tolerance)
    grads = [torch.autograd.grad(y.float().square().sum(), given) for y in (mine, eager)]
    for a, b in zip(*grads, strict=True):
        assert_close(a, b, **tolerance | {"atol": tolerance["atol"] * max(1, b.abs().max().item())})


def test_a_wide_mask_that_is_returned_is_as_it_was():
    def f(q, bias):
        mask = bias.expand(3, 2, 4, 4) + 1
        return F.scaled_dot_product_attention(q, q, q, mask), mask

    q, bias = torch.randn(3, 2, 4, 8), torch.randn(1, 2, 4, 4)
    (y, mask), (want, wide) = thunder.jit(f)(q, bias), f(q, bias)
    assert_close(y, want)
    assert torch.equal(mask, wide) and mask.stride() == wide.stride()
