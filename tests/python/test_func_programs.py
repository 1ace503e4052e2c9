"""Programs with transforms of torch.func in a compiled function: results and gradients are eager's."""

import copy

import pytest
import torch
from eager_checks import eager_calls
from func_checks import check, mlp, tensor
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vmap
from torch.nn import functional as F
from torch.testing import assert_close

import thunder


@pytest.mark.parametrize("n", [8, 5, 1])
def test_physics_informed_loss(n):
    net = mlp(2, 16, 16, 1)

    def u(x):
        return net(x).squeeze(-1)

    def loss(x):
        du = vmap(grad(u))(x)
        d2u = vmap(hessian(u))(x)
        laplace = d2u.diagonal(dim1=1, dim2=2).sum(1)
        return ((du[:, 0] - 0.1 * laplace) ** 2).mean() + vmap(u)(x).square().mean()

    check(loss, tensor(n, 2), wanted=list(net.parameters()))


@pytest.mark.parametrize("n", [8, 3, 1])
def test_gradients_of_each_sample(n):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, stride=2, groups=2),
        nn.GroupNorm(2, 6), nn.GELU(), nn.AvgPool2d(1), nn.Flatten(), nn.Linear(6, 5)
    ).double()
    parameters = {k: v.detach() for k, v in net.named_parameters()}

    def loss(p, x, y):
        return F.cross_entropy(functional_call(net, p, (x.unsqueeze(0),)), y.unsqueeze(0))

    def fn(p, x, y):
        return vmap(grad(loss), in_dims=(None, 0, 0))(p, x, y)

    check(fn, parameters, tensor(n, 3, 6, 6), torch.randint(5, (n,)))


def test_private_training_step():
    """Clipped gradients of each sample, as a step of SGD."""
    net = mlp(6, 8, 3)

    def fn(p, x, y):
        def loss(p, x, y):
            return F.cross_entropy(functional_call(net, p, (x,)), y)

        grads, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(p, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1)
        new = {k: p[k] - 0.1 * torch.einsum("n,n...->...", scale, g) / len(x) for k, g in grads.items()}
        return new, losses.mean()

    check(fn, {k: v.detach() for k, v in net.named_parameters()}, tensor(7, 6), torch.randint(3, (7,)))


def test_adapted_parameters():
    """MAML: gradients of the loss after two steps of gradient descent."""
    net = mlp(3, 8, 1)

    def fn(x, y):
        def loss(p):
            return F.mse_loss(functional_call(net, p, (x,)), y)

        p = dict(net.named_parameters())
        for _ in range(2):
            p = {k: v - 0.1 * g for (k, v), g in zip(p.items(), grad(loss)(p).values(), strict=True)}
        return loss(p)

    check(fn, tensor(6, 3), tensor(6, 1), wanted=list(net.parameters()))


def test_adapted_parameters_of_several_tasks():
    net = mlp(3, 8, 1)

    def fn(p, x, y):
        def task(x, y):
            def loss(p):
                return F.mse_loss(functional_call(net, p, (x,)), y)

            grads = grad(loss)(p)
            return loss({k: p[k] - 0.1 * grads[k] for k in p})

        return vmap(task)(x, y).mean()

    check(fn, {k: v.detach().requires_grad_() for k, v in net.named_parameters()}, tensor(4, 6, 3), tensor(4, 6, 1))


@pytest.mark.parametrize("of", [jacrev, jacfwd], ids=["jacrev", "jacfwd"])
def test_neural_tangent_kernel(of):
    net = mlp(3, 5, 2)
    parameters = {k: v.detach() for k, v in net.named_parameters()}

    def fn(p, a, b):
        def single(p, x):
            return functional_call(net, p, (x.unsqueeze(0),)).squeeze(0)

        left, right = (vmap(of(single), (None, 0))(p, x) for x in (a, b))
        left, right = ([j.flatten(2) for j in side.values()] for side in (left, right))
        return torch.stack([torch.einsum("Naf,Mbf->NMab", i, j) for i, j in zip(left, right, strict=True)]).sum(0)

    check(fn, parameters, tensor(4, 3), tensor(3, 3))


def test_gradient_penalty():
    critic = mlp(4, 8, 1)

    def fn(x):
        g = vmap(grad(lambda s: critic(s).sum()))(x)
        return critic(x).mean() + 10 * ((g.norm(dim=1) - 1) ** 2).mean()

    check(fn, tensor(5, 4), wanted=list(critic.parameters()))


def test_forward_sensitivities():
    def fn(k, x0):
        def solve(k):
            x = x0
            for _ in range(4):
                x = x + 0.1 * (-k * x + x.roll(1))
            return x

        return jvp(solve, (k,), (torch.ones_like(k),))

    check(fn, tensor(3), tensor(3))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.qkv, self.norm = nn.Embedding(11, 8), nn.Linear(8, 24), nn.LayerNorm(8)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens):
        x = self.words(tokens)
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(-2, -3) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(x + y.transpose(-2, -3).flatten(-2))


@pytest.mark.parametrize("n", [4, 3])
def test_gradients_of_each_sequence(n):
    torch.manual_seed(0)
    net = Attention().double()
    parameters = {k: v.detach() for k, v in net.named_parameters()}

    def loss(p, tokens):
        logits = functional_call(net, p, (tokens.unsqueeze(0),))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[1:])

    check(lambda p, t: vmap(grad(loss), in_dims=(None, 0))(p, t), parameters, torch.randint(11, (n, 6)))


def test_an_ensemble_of_convolutions():
    def fn(w, b, x):
        def loss(w, b, x):
            return F.conv2d(x, w, b, padding=1).square().sum()

        return vmap(grad(loss, argnums=(0, 1, 2)), in_dims=(0, 0, None))(w, b, x)

    check(fn, tensor(3, 4, 2, 3, 3, requires_grad=True), tensor(3, 4, requires_grad=True), tensor(2, 2, 5, 5))


def test_other_sizes_run_the_same_program():
    net = mlp(2, 8, 1)
    compiled = thunder.jit(lambda x: vmap(grad(lambda s: net(s).sum()))(x))
    for n in (4, 7, 2, 9, 16):
        x = tensor(n, 2)
        assert_close(compiled(x), vmap(grad(lambda s: net(s).sum()))(x))
    assert thunder.cache_misses(compiled) == 2
    assert eager_calls(compiled) == {}


def test_a_module_inside():
    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(3, 8, 1)
            self.register_buffer("scale", torch.ones((), dtype=torch.float64) * 2)

        def energy(self, x):
            return (self.net(x) * self.scale).sum()

        def forward(self, x):
            forces, energy = grad_and_value(self.energy)(x)
            return energy, -forces

    module = Field()
    other = copy.deepcopy(module)
    compiled = thunder.jit(module)
    optimizers = [torch.optim.SGD(m.parameters(), 0.01) for m in (module, other)]
    for n in (5, 5, 7, 1):
        x = tensor(n, 3)
        for run, optimizer in zip((compiled, other), optimizers, strict=True):
            optimizer.zero_grad()
            energy, forces = run(x)
            (energy**2 + forces.square().sum()).backward()
            optimizer.step()
        assert_close(list(module.parameters()), list(other.parameters()))
    assert eager_calls(compiled) == {}
