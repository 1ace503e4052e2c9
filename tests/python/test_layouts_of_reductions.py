"""Reductions, norms and losses of tensors that do not lie in the order of their dimensions, beside eager's."""

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU
from short_run import taken
from torch.testing import assert_close

import thunder

FUNCTIONS = {
    "sum of images": lambda x: (x * 2).sum((2, 3)),
    "mean of the first": lambda x: x.exp().mean(0),
    "mean of all but channels": lambda x: (x * x).mean((0, 2, 3)),
    "loss": lambda x: F.mse_loss(x * 2, torch.ones_like(x)),
    "logits": lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
    "centred": lambda x: x - x.mean((2, 3), keepdim=True),
    "largest": lambda x: (x + 1).amax((1, 2)),
    "softmax of channels": lambda x: x.softmax(1),
    "softmax of rows": lambda x: (x * 0.5).log_softmax(-1),
    "softmax of all": lambda x: x.flatten().softmax(0),
    "group norm": lambda x: F.group_norm(x, 4),
    "layer norm of channels": lambda x: F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],)).permute(0, 3, 1, 2),
    "squeeze and excite": lambda x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    "standardised": lambda x: (x - x.mean()) / (x.std() + 1),
}
LAYOUTS = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "batch last": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
    "every second": lambda x: x.repeat_interleave(2, 3)[..., ::2],
}
SHAPES = [(2, 32, 16, 24), (3, 20, 27, 23), (70, 64, 7, 9), (1, 16, 1, 1), (2, 16, 1, 40), (0, 16, 4, 4)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_as_eager(f, layout, dtype, request):
    generator = torch.Generator().manual_seed(0)
    compiled = thunder.jit(f)
    for shape in SHAPES:
        if ON_CPU and not taken(f"{request.node.name} {shape}", 2):
            continue
        x = layout(torch.randn(shape, generator=generator).to(DEVICE, dtype))
        outcomes = []
        for g in (f, compiled):
            y = x.detach().requires_grad_()
            try:
                out = g(y)
            except Exception as error:  # eager refuses what has no elements
                outcomes.append(type(error))
                continue
            out.backward(torch.linspace(-1, 1, out.numel(), device=DEVICE).to(dtype).view(out.shape))
            outcomes.append((out, y.grad))
        if isinstance(outcomes[0], type):
            assert outcomes[1] is outcomes[0]
            continue
        (expected, gradient), (actual, other) = outcomes
        near = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
        near["equal_nan"] = True  # a mean of nothing
        assert_close(actual, expected, **near)
        assert_close(other, gradient, **near)
        strides = [[s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (actual, expected)]
        assert strides[0] == strides[1] or actual.numel() == 0
