"""torch.autograd.grad inside of compiled functions on a GPU: training with gradients of gradients, against eager's."""

import copy

import pytest
import torch
from devices import DEVICE
from torch import nn

import thunder

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


class Critic(nn.Module):
    """Scores of images, and the penalty on the gradient's length that WGAN-GP trains with."""

    def __init__(self, channels=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1), nn.SiLU(), nn.GroupNorm(2, channels),
            nn.Conv2d(channels, channels, 3, stride=2), nn.Softplus(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, 1))

    def forward(self, x):
        x = x.detach().requires_grad_()
        score = self.head(self.body(x))
        (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        return score.float().mean() + 10 * ((g.float().flatten(1).norm(dim=1) - 1) ** 2).mean()


class Forces(nn.Module):
    """Energy and forces: the positions begin to require a gradient in forward()."""

    def __init__(self, features=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, features), nn.SiLU(), nn.Linear(features, 1))

    def forward(self, pos):
        pos.requires_grad_(True)
        far = (pos[:, None] - pos[None]).square().sum(-1, keepdim=True)
        energy = self.net((-far).exp()).sum()
        force = -torch.autograd.grad(energy, pos, create_graph=self.training)[0]
        return energy.float() / 100 + force.float().square().mean()


class Residual(nn.Module):
    """Of a differential equation: second derivatives of a network by its inputs."""

    def __init__(self, features=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, features), nn.Tanh(), nn.Linear(features, 1))

    def forward(self, points):
        x, t = (c.detach().requires_grad_() for c in points.split(1, 1))
        u = self.net(torch.cat((x, t), 1))
        of = lambda y, z: torch.autograd.grad(y, z, torch.ones_like(y), create_graph=True)[0]
        residual = of(u, t) + u * of(u, x) - 0.1 * of(of(u, x), x)
        return residual.float().square().mean()


CASES = {
    "penalty": (Critic, [(4, 3, 16, 16), (3, 3, 9, 7), (1, 3, 5, 5)]),
    "forces": (Forces, [(16, 3), (7, 3), (1, 3)]),
    "residual": (Residual, [(64, 2), (33, 2), (1, 2)]),
}


def gradients(run, model, x):
    model.zero_grad()
    loss = run(x)
    loss.backward()
    return [loss.detach().double(), *(p.grad.double() for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CASES)
def test_as_exact_as_eager(name, dtype):
    make, shapes = CASES[name]
    torch.manual_seed(0)
    model = make().to(DEVICE, dtype)
    wide = copy.deepcopy(model).double()
    run = thunder.jit(model)
    for shape in (*shapes, shapes[0]):
        x = torch.randn(shape, device=DEVICE).to(dtype)
        exact = gradients(wide, wide, x.double())
        eagers, ours = gradients(model, model, x.clone()), gradients(run, model, x.clone())
        assert len(ours) == len(eagers) == len(exact)
        for a, b, e in zip(ours, eagers, exact, strict=True):
            # Eager's own float16 may overflow, which says nothing of what is allowed.
            error, allowed = (a - e).norm(), (b - e).norm().nan_to_num(0, 0)
            assert error <= 2 * allowed + 8 * torch.finfo(dtype).eps * (1 + e.norm()), (shape, error, allowed, e.norm())
    assert thunder.compile_stats(run)["eager_calls"] == {}


@pytest.mark.parametrize("name", CASES)
def test_trains_as_eager(name):
    make, shapes = CASES[name]
    torch.manual_seed(0)
    model = make().to(DEVICE)
    other = copy.deepcopy(model)
    run = thunder.jit(model)
    optimizers = [torch.optim.SGD(m.parameters(), 1e-3) for m in (model, other)]
    for _ in range(6):
        x = torch.randn(shapes[0], device=DEVICE)
        losses = []
        for f, m, optimizer in ((run, model, optimizers[0]), (other, other, optimizers[1])):
            losses.append(gradients(f, m, x.clone())[0])
            optimizer.step()
        torch.testing.assert_close(*losses, rtol=1e-3, atol=1e-4)
    assert thunder.compile_stats(run)["eager_calls"] == {} and thunder.cache_misses(run) == 1


class Watched(nn.Module):
    """Keeps the gradient of its activations, which it halves."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 1)
        self.seen = []

    def keep(self, gradient):
        self.seen.append(gradient.clone())
        return gradient / 2

    def forward(self, x):
        h = self.first(x)
        h.register_hook(self.keep)
        return self.last(h.tanh()).square().mean()


def test_hooks_are_called_in_every_backward():
    torch.manual_seed(0)
    model = Watched().to(DEVICE)
    other = copy.deepcopy(model)
    run = thunder.jit(model)
    for step in range(1, 9):  # by then programs run as graphs where they can
        x = torch.randn(5, 8, device=DEVICE)
        torch.testing.assert_close(gradients(run, model, x), gradients(other, other, x), rtol=1e-4, atol=1e-5)
        assert len(model.seen) == len(other.seen) == step
        torch.testing.assert_close(model.seen, other.seen, rtol=1e-4, atol=1e-5)
    assert thunder.compile_stats(run)["eager_calls"] == {}
