"""Transforms of torch.func inside of compiled functions on a GPU: what they give, and training with it, as in eager."""

import copy

import pytest
import torch
from devices import DEVICE
from eager_checks import eager_calls
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev, jvp, vmap
from torch.nn import functional as F

import thunder

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


class Residual(nn.Module):
    """Of a differential equation: first and second derivatives of a network at each point."""

    def __init__(self, features=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, features), nn.Tanh(), nn.Linear(features, features), nn.Tanh(), nn.Linear(features, 1)
        )

    def forward(self, points):
        u = lambda x: self.net(x).squeeze(-1)
        du = vmap(grad(u))(points)
        laplace = vmap(hessian(u))(points).diagonal(dim1=1, dim2=2).sum(1)
        return (du[:, 0] - 0.1 * laplace).float().square().mean()


class Adapted(nn.Module):
    """The loss of each task after steps of gradient descent on it."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.GELU(), nn.Linear(32, 4))

    def forward(self, points):
        def task(x):
            loss = lambda p: F.mse_loss(functional_call(self.net, p, (x,)).float(), x.float().flip(-1))
            p = dict(self.net.named_parameters())
            for _ in range(2):
                p = {k: v - 0.05 * g for (k, v), g in zip(p.items(), grad(loss)(p).values(), strict=True)}
            return loss(p)

        return vmap(task)(points.repeat(1, 2).expand(3, -1, -1)).mean()


class Curvature(nn.Module):
    """Products with the Hessian, and a Jacobian's size."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.SiLU(), nn.Linear(32, 3))

    def forward(self, points):
        energy = lambda x: self.net(x).float().square().mean()
        along = jvp(grad(energy), (points,), (torch.ones_like(points),))[1]
        return along.float().square().sum() + vmap(jacrev(self.net))(points).float().square().mean()


MODELS = {"residual": Residual, "adapted": Adapted, "curvature": Curvature}


def train(model, run, batches, dtype):
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    losses = []
    for points in batches:
        optimizer.zero_grad()
        loss = run(points.to(dtype))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().double())
    return torch.stack(losses), torch.cat([p.detach().double().flatten() for p in model.parameters()])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_training(name, dtype):
    torch.manual_seed(0)
    exact = MODELS[name]().to(DEVICE, torch.float64)
    ours, eagers = (copy.deepcopy(exact).to(dtype) for _ in range(2))
    batches = [torch.randn(n, 2, device=DEVICE, dtype=torch.float64) for n in (64, 64, 33, 17, 64, 1)]
    compiled = thunder.jit(ours)
    want = train(exact, exact, batches, torch.float64)
    got, other = train(ours, compiled, batches, dtype), train(eagers, eagers, batches, dtype)
    assert eager_calls(compiled) == {}
    for a, b, e in zip(got, other, want, strict=True):
        error, allowed = (a - e).norm(), (b - e).norm()
        assert error <= 2 * allowed + 4 * torch.finfo(dtype).eps * (1 + e.norm()), (error, allowed)


def images(channels=8):
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), nn.GroupNorm(2, channels), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, channels, 3, stride=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(channels, 10),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [16, 5, 1])
def test_gradients_of_each_picture(n, dtype):
    torch.manual_seed(0)
    net = images().to(DEVICE, torch.float64)
    x, y = torch.randn(n, 3, 16, 16, device=DEVICE, dtype=torch.float64), torch.randint(10, (n,), device=DEVICE)

    def loss(p, x, y):
        return F.cross_entropy(functional_call(net, p, (x[None],)), y[None])

    def fn(p, x, y):
        grads, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(p, x, y)
        norms = torch.stack([g.flatten(1).float().norm(dim=1) for g in grads.values()]).norm(dim=0)
        return list(grads.values()), norms, losses

    exact = {k: v.detach() for k, v in net.named_parameters()}
    given = {k: v.to(dtype) for k, v in exact.items()}
    compiled = thunder.jit(fn)
    want = fn(exact, x, y)[0]
    for _ in range(3):
        got, eagers = compiled(given, x.to(dtype), y)[0], fn(given, x.to(dtype), y)[0]
        for a, b, e in zip(got, eagers, want, strict=True):
            assert a.dtype == dtype and a.shape == b.shape
            error, allowed = (a.double() - e).norm(), (b.double() - e).norm()
            assert error <= 2 * allowed + 4 * torch.finfo(dtype).eps * (1 + e.norm()), (error, allowed)
    assert eager_calls(compiled) == {}


@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("n", [64, 5, 1])
def test_random_numbers_are_eagers(n, randomness):
    x = torch.randn(n, 33, device=DEVICE)

    def fn(x):
        loss = lambda r: (F.dropout(r * 2, 0.3) ** 2).sum() * torch.rand((), device=DEVICE)
        return vmap(grad(loss), randomness=randomness)(x)

    compiled = thunder.jit(fn)
    for _ in range(3):
        torch.manual_seed(0)
        want, after = fn(x), torch.rand(3, device=DEVICE)
        torch.manual_seed(0)
        torch.testing.assert_close(compiled(x), want)
        assert torch.equal(torch.rand(3, device=DEVICE), after)


def test_indices_of_each_sample():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), nn.Linear(16, 50)).to(DEVICE, torch.float64)
    parameters = {k: v.detach() for k, v in net.named_parameters()}

    def loss(p, t):
        return F.cross_entropy(functional_call(net, p, (t[:-1],)), t[1:])

    compiled = thunder.jit(lambda p, t: vmap(grad(loss), in_dims=(None, 0))(p, t))
    for n in (8, 3, 1, 16):
        tokens = torch.randint(50, (n, 12), device=DEVICE)
        want = vmap(grad(loss), in_dims=(None, 0))(parameters, tokens)
        torch.testing.assert_close(compiled(parameters, tokens), want)
    assert eager_calls(compiled) == {}
