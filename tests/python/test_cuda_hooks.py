"""Hooks of gradients on a GPU, in 16 bits, with CUDA graphs and on another stream: what they see is eager's."""

import copy

import pytest
import torch
from devices import DEVICE
from eager_checks import eager_calls
from torch import nn
from torch.testing import assert_close

import thunder

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
LOG = []


def keep(gradient):
    LOG.append(gradient.clone())


def tolerance(dtype):
    return {"rtol": 2e-3, "atol": 2e-4} if dtype is torch.float32 else {"rtol": 4e-2, "atol": 4e-2}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Keeps the activation of a block, and its gradient by a hook."""

    def __init__(self, width=32, hooks=True):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(width) for _ in range(3)), nn.Linear(width, 5)
        self.hooks, self.activation = hooks, None

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x)
            if self.hooks and i == 1:
                x.retain_grad()
                x.register_hook(keep)
                x.register_hook(lambda g: g * 0.5)
                self.activation = x
        return self.head(x.mean(1))


def pair(model, dtype=torch.float32):
    torch.manual_seed(0)
    model = model().to(DEVICE, dtype)
    return model, copy.deepcopy(model)


def step(run, model, x):
    LOG.clear()
    model.zero_grad()
    run(x).float().square().sum().backward()
    kept = [] if model.activation is None else [model.activation.grad]
    return [p.grad for p in model.parameters()], list(LOG), kept


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2, 16, 32), (3, 7, 32), (1, 1, 32)])
def test_of_activations(shape, dtype):
    model, other = pair(Net, dtype)
    f = thunder.jit(model)
    for _ in range(4):
        x = torch.randn(shape, device=DEVICE, dtype=dtype)
        found = step(f, model, x), step(other, other, x)
        assert_close(*found, **tolerance(dtype))
        assert len(found[0][1]) == 1
    assert eager_calls(f) == {}


@pytest.mark.parametrize("dtype", FLOATS)
def test_of_modules(dtype):
    models = pair(lambda: Net(hooks=False), dtype)
    for m in models:
        m.blocks[1].register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,))
        m.blocks[1].up.register_full_backward_pre_hook(lambda module, go: keep(go[0]))
        m.blocks[0].down.register_full_backward_hook(lambda module, gi, go: keep(gi[0]))
    f = thunder.jit(models[0])
    for _ in range(4):
        x = torch.randn(2, 16, 32, device=DEVICE, dtype=dtype)
        found = step(f, models[0], x), step(models[1], models[1], x)
        assert_close(*found, **tolerance(dtype))
        assert len(found[0][1]) == 2
    assert eager_calls(f) == {}


@pytest.mark.parametrize("graphs", [True, "auto"])
def test_with_cuda_graphs(graphs):
    """A backward with hooks is run, and not replayed: each call's hook sees that call's gradient."""
    model, other = pair(Net)
    f = thunder.jit(model, transforms=[thunder.transforms.CUDAGraphTransform()] if graphs is True else [])
    for _ in range(12):
        x = torch.randn(2, 16, 32, device=DEVICE)
        assert_close(step(f, model, x), step(other, other, x), **tolerance(torch.float32))
    assert eager_calls(f) == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    model, other = pair(Net)
    f = thunder.jit(model)
    for _ in range(3):
        x, found = torch.randn(2, 16, 32, device=DEVICE), []
        for run, m in ((f, model), (other, other)):
            with torch.autocast(DEVICE, dtype=dtype):
                found.append(step(run, m, x))
        assert_close(*found, **tolerance(dtype))
    assert eager_calls(f) == {}


def test_varying_sizes():
    model, other = pair(Net)
    f = thunder.jit(model)
    for n in (4, 5, 9, 1, 16):
        x = torch.randn(2, n, 32, device=DEVICE)
        assert_close(step(f, model, x), step(other, other, x), **tolerance(torch.float32))
    assert eager_calls(f) == {} and thunder.cache_misses(f) <= 3


def test_optimizer_in_the_backward():
    models = pair(lambda: Net(hooks=False))
    for m in models:
        optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in m.parameters()}

        def update(p, optimizers=optimizers):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in m.parameters():
            p.register_post_accumulate_grad_hook(update)
    f = thunder.jit(models[0])
    for _ in range(5):
        x = torch.randn(2, 16, 32, device=DEVICE)
        for run in (f, models[1]):
            run(x).square().sum().backward()
    assert all(p.grad is None for p in models[0].parameters())
    assert_close([*models[0].parameters()], [*models[1].parameters()], **tolerance(torch.float32))
    assert eager_calls(f) == {}


@pytest.mark.skipif(DEVICE != "cuda", reason="streams are a GPU's")
def test_on_a_stream_of_its_own():
    model, other = pair(Net)
    f, stream = thunder.jit(model), torch.cuda.Stream()
    for _ in range(4):
        x = torch.randn(2, 16, 32, device=DEVICE)
        expected = step(other, other, x)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            found = step(f, model, x)
        torch.cuda.current_stream().wait_stream(stream)
        assert_close(found, expected, **tolerance(torch.float32))


def test_what_is_kept_is_not_overwritten():
    """A hook that keeps the gradient itself, and not a copy."""
    kept = []

    def f(x):
        h = x.sin()
        h.register_hook(kept.append)
        y = h.exp()
        y.register_hook(kept.append)
        return (y * h).cos()

    x, found = torch.randn(64, 33, device=DEVICE), []
    run = thunder.jit(f)
    for function in (run, run, f):
        kept.clear()
        t = x.clone().requires_grad_()
        function(t).sum().backward()
        found.append([t.grad, *kept])
    assert_close(found[0], found[2])
    assert_close(found[1], found[2])
    assert eager_calls(run) == {}
