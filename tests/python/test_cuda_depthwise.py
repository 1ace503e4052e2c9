"""Depthwise convolutions of images that lie channels last, on a GPU: their numbers against float64, and what is left to
others."""

import pytest
import torch
import torch.nn.functional as F

import thunder

pytestmark = pytest.mark.gpu

ROUNDOFF = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
LAST = torch.channels_last


def names(traces):
    return [c.name for c in traces[-1].calls if "convolution" in c.name]


def taken(compiled):
    forward, backward = names(thunder.last_traces(compiled)), names(thunder.last_backward_traces(compiled))
    return forward == ["depthwise_convolution"] and backward == ["depthwise_convolution_backward"]


def operands(batch, channels, height, width, kernel, bias=True, dtype=torch.bfloat16, memory_format=LAST):
    numbers = torch.Generator("cuda").manual_seed(0)
    make = lambda *shape: torch.randn(shape, device="cuda", generator=numbers).to(dtype)
    kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
    x = make(batch, channels, height, width).to(memory_format=memory_format)
    return x, make(channels, 1, *kernel), make(channels) if bias else None


def gradients(f, inputs, cotangent):
    inputs = [t if t is None else t.detach().requires_grad_() for t in inputs]
    out = f(*inputs)
    given = [t for t in inputs if t is not None]
    return [out.detach(), *torch.autograd.grad(out, given, cotangent.to(out.dtype))]


def check(x, w, b, stride=1, padding=0, dilation=1, by=True, cotangent=None):
    """Results and gradients as near to float64's as rounding the operands' products once would be."""
    f = lambda x, w, b=None: F.conv2d(x, w, b, stride, padding, dilation, x.shape[1])
    exact = lambda x, w, b=None: f(*(t if t is None else t.double() for t in (x, w, b)))
    if cotangent is None:
        out = f(x, w, b)
        cotangent = torch.randn(out.shape, device="cuda", generator=torch.Generator("cuda").manual_seed(1)).to(x.dtype)
        cotangent = cotangent.to(memory_format=LAST)
    compiled = thunder.jit(f)
    got, wanted = gradients(compiled, (x, w, b), cotangent), gradients(exact, (x, w, b), cotangent)
    eager = gradients(f, (x, w, b), cotangent)
    assert taken(compiled) == by
    for a, e, y in zip(got, wanted, eager, strict=True):
        assert (a.dtype, a.shape) == (y.dtype, y.shape)
        if a.numel():
            error = (a.double() - e).norm() / e.norm().clamp(min=1e-30)
            assert error <= 2 * ROUNDOFF[x.dtype], (a.shape, error)
    assert got[0].is_contiguous(memory_format=LAST) == eager[0].is_contiguous(memory_format=LAST)
    return compiled


@pytest.mark.parametrize("dtype", list(ROUNDOFF), ids=str)
@pytest.mark.parametrize("stride", [1, 2, (1, 2), (2, 1)], ids=str)
@pytest.mark.parametrize("kernel", [3, 5, 7, (3, 5), (1, 7), (7, 1), 2, 4], ids=str)
def test_filters(kernel, stride, dtype):
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    sy, sx = (stride, stride) if isinstance(stride, int) else stride
    by = sy <= height and sx <= width
    check(*operands(2, 24, 19, 22, kernel, dtype=dtype), stride, (height // 2, width // 2), by=by)


@pytest.mark.parametrize("channels", [2, 3, 6, 8, 30, 100, 132, 260])
def test_channels(channels):
    check(*operands(2, channels, 9, 8, 3), padding=1)
    check(*operands(2, channels, 9, 8, 7, bias=False), padding=3)


@pytest.mark.parametrize("batch", [1, 3, 65])
@pytest.mark.parametrize("size", [(1, 2), (2, 3), (7, 7), (14, 13), (56, 57), (130, 5)], ids=str)
def test_sizes(size, batch):
    check(*operands(batch, 16, *size, 5), padding=2)
    check(*operands(batch, 16, *size, 3), 2, 1)


@pytest.mark.parametrize("padding", [0, 1, 2, (0, 2)], ids=str)
def test_padding(padding):
    check(*operands(2, 16, 10, 11, 5), padding=padding)
    check(*operands(2, 16, 10, 11, 5), 2, padding)


def test_more_images_than_blocks_keep_busy():
    check(*operands(200, 64, 33, 31, 3), padding=1)


def test_nothing():
    x, w, b = operands(0, 8, 5, 5, 3)
    compiled = thunder.jit(lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 8))
    assert compiled(x, w, b).shape == (0, 8, 5, 5)


@pytest.mark.parametrize("kind", ["channels first", "repeated", "slice"])
def test_cotangents_that_lie_otherwise(kind):
    x, w, b = operands(2, 16, 9, 10, 3)
    g = torch.randn(2, 16, 9, 10, device="cuda", dtype=torch.bfloat16)
    if kind == "repeated":
        g = g[:, :, :1, :1].expand(2, 16, 9, 10)
    elif kind == "slice":
        g = torch.randn(2, 9, 10, 17, device="cuda", dtype=torch.bfloat16)[..., 1:].permute(0, 3, 1, 2)
    check(x, w, b, padding=1, cotangent=g)


def test_images_that_are_not_aligned():
    x, w, b = operands(2, 16, 9, 10, 3)
    behind = torch.empty(x.numel() + 1, device="cuda", dtype=x.dtype)[1:].view(2, 9, 10, 16).permute(0, 3, 1, 2)
    check(behind.copy_(x), w, b, padding=1)


@pytest.mark.parametrize("wanted", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1)], ids=str)
def test_some_gradients(wanted):
    inputs = operands(2, 16, 9, 10, 3)
    f = lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 16)
    results = []
    for call in (thunder.jit(f), lambda *a: f(*(t.double() for t in a))):
        leaves = [t.detach().requires_grad_(bool(needs)) for t, needs in zip(inputs, wanted, strict=True)]
        call(*leaves).square().sum().backward()
        results.append([t.grad for t in leaves])
    for a, e in zip(*results, strict=True):
        assert (a is None) == (e is None)
        if a is not None:
            assert (a - e).norm() <= 2e-2 * e.norm()


def test_what_is_left_to_others():
    x, w, b = operands(2, 16, 30, 30, 3)
    check(x, w, b, padding=2, dilation=2, by=False)
    check(x, w, b, stride=3, by=False)
    check(*operands(2, 16, 30, 30, 9), padding=4, by=False)
    check(x.contiguous(), w, b, padding=1, by=False)
    # Two filters a channel.
    compiled = thunder.jit(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 16))
    compiled(x, w.repeat(2, 1, 1, 1).requires_grad_())
    assert names(thunder.last_traces(compiled)) != ["depthwise_convolution"]


def separable(channels=24):
    nn = torch.nn
    block = lambda k, s: nn.Sequential(
        nn.Conv2d(channels, 2 * channels, 1, bias=False), nn.BatchNorm2d(2 * channels), nn.SiLU(),
        nn.Conv2d(2 * channels, 2 * channels, k, s, k // 2, groups=2 * channels, bias=False),
        nn.BatchNorm2d(2 * channels), nn.SiLU(), nn.Conv2d(2 * channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
    )  # fmt: skip
    blocks = block(3, 1), block(5, 2), block(7, 1)
    return nn.Sequential(nn.Conv2d(3, channels, 3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1))


@pytest.mark.parametrize("memory_format", [LAST, torch.contiguous_format], ids=str)
@pytest.mark.parametrize("autocast", [True, False], ids=["autocast", "float32"])
def test_training_steps(autocast, memory_format):
    """A network of separable convolutions: losses of five steps as eager's; in 16 bits whichever way its images lie."""
    losses = []
    for compile in (lambda m: m, thunder.jit):
        torch.manual_seed(0)
        module = separable().cuda().to(memory_format=memory_format)
        run, optimizer = compile(module), torch.optim.SGD(module.parameters(), 0.05)
        x = torch.randn(5, 3, 33, 30, device="cuda").to(memory_format=memory_format)
        losses.append([])
        for _ in range(5):
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                loss = run(x).float().square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=5e-2 if autocast else 1e-2)
    depthwise = names(thunder.last_traces(run)).count("depthwise_convolution")
    assert depthwise == (3 if autocast or memory_format == LAST else 0)
    assert names(thunder.last_backward_traces(run)).count("depthwise_convolution_backward") == depthwise
