"""torch.autograd.grad inside of compiled functions: gradients, and their gradients, are eager's."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import thunder

SHAPES = [(8, 4), (7, 5), (1, 3), (0, 3)]


def tensor(*shape, device="cpu", dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, device=device, requires_grad=True)


def compiled(fn):
    f = thunder.jit(fn)
    return f, lambda: dict(thunder.compile_stats(f)["eager_calls"])


def gradients(out, inputs):
    """Of everything that requires one, with weights that tell elements apart."""
    found = [t for t in (out if isinstance(out, (tuple, list)) else (out,)) if t is not None and t.requires_grad]
    total = sum((t * torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype, device=t.device).view(t.shape)).sum()
                for t in found)
    return torch.autograd.grad(total, inputs, allow_unused=True) if found else ()


def check(fn, *inputs, wanted=None, runs=2):
    """Results and gradients of several calls, none of them eager's."""
    wanted = [t for t in inputs if t.requires_grad] if wanted is None else wanted
    f, eager = compiled(fn)
    for _ in range(runs):
        expected = fn(*inputs)
        of_expected = gradients(expected, wanted)
        got = f(*inputs)
        assert_close(got, expected)
        for a, b in zip(*((t if isinstance(t, tuple) else (t,)) for t in (got, expected)), strict=True):
            assert (a is None) == (b is None) and (a is None or a.requires_grad == b.requires_grad)
        assert_close(gradients(got, wanted), of_expected)
    assert eager() == {} and thunder.cache_misses(f) == 1
    return f


def energy(x, w):
    return (torch.tanh(x @ w) ** 2).sum()


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_argument(shape, create):
    def forces(x, w):
        e = energy(x, w)
        (g,) = torch.autograd.grad(e, x, create_graph=create, retain_graph=True)
        return e, -g

    check(forces, tensor(*shape), tensor(shape[1], 6))


@pytest.mark.parametrize("shape", SHAPES)
def test_leaf_made_inside(shape):
    w = tensor(shape[1], 6)

    def residual(x):
        x = x.detach().requires_grad_(True)
        u = torch.tanh(x @ w)
        g = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        return (g.sum(1) - u[:, 0]).pow(2).sum()

    check(residual, torch.randn(shape, dtype=torch.float64), wanted=[w])


def test_intermediate_value_and_parameters():
    w, b = tensor(3, 4), tensor(4)

    def f(x):
        h = x.sin()
        y = (h @ w + b).exp().sum()
        gh, gw, gb = torch.autograd.grad(y, [h, w, b], create_graph=True)
        return gh * h, gw.sin(), gb

    check(f, tensor(5, 3), wanted=[w, b])


def test_grad_outputs():
    def f(x, g):
        y = x.sin() * x
        return torch.autograd.grad([y, y.exp()], [x], [g, 2 * g], create_graph=True)[0]

    check(f, tensor(5, 3), tensor(5, 3))
    check(lambda x: torch.autograd.grad([x.sin().sum(), (x * x).sum()], x, create_graph=True)[0], tensor(4))
    check(lambda x: torch.autograd.grad((x.sin().sum(), x.exp()), x, (None, x.detach()))[0], tensor(4))


def test_unused():
    def f(x, w):
        g = torch.autograd.grad(x.sin().sum(), (x, w), allow_unused=True, create_graph=True)
        return g[0] * w, g[1]

    check(f, tensor(4), tensor(4))

    def zeros(x, w):
        return torch.autograd.grad(x.sin().sum(), (x, w), materialize_grads=True)

    check(zeros, tensor(4), tensor(4))


def test_result_is_the_input():
    check(lambda x: torch.autograd.grad(x.sum() + x[0], x, create_graph=True)[0] * x, tensor(4))

    def same(x, g):
        a, b = torch.autograd.grad(x + x.sin().sin() * 0, [x, x], g)
        a.mul_(2)  # of its own
        return a + 0, b + 0, g * 1

    x, g = tensor(4), torch.ones(4, dtype=torch.float64)
    f = thunder.jit(lambda x, g: torch.autograd.grad(x * 1 + x, x, g)[0])
    assert_close(f(x, g), 2 * g)


def test_several_orders():
    def f(x, t):
        u = (x.sin() * t.exp()).sum(-1, keepdim=True)
        one = torch.ones_like(u)
        ut = torch.autograd.grad(u, t, one, create_graph=True)[0]
        ux = torch.autograd.grad(u, x, one, create_graph=True)[0]
        uxx = torch.autograd.grad(ux, x, torch.ones_like(ux), create_graph=True)[0]
        return ut + u * ux - 0.1 * uxx

    check(f, tensor(6, 1), tensor(6, 1))


def test_no_graph_in_no_gradient():
    """Inside of no_grad, with gradients switched on for a part."""

    def f(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            g = torch.autograd.grad(x.square().sum(), x)[0]
        return x.detach() - 0.1 * g

    x = torch.randn(5)
    g, eager = compiled(f)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            assert_close(g(x), f(x))
    assert eager() == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(8, 16), (5, 7)])
def test_dtypes(shape, dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(shape[1], 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, 1)).to(dtype)

    def penalty(x):
        y = model(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.mean() + ((g.norm(dim=1) - 1) ** 2).mean()

    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    f, eager = compiled(penalty)
    wide = copy.deepcopy(model).double()

    def reference(x):
        y = wide(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.mean() + ((g.norm(dim=1) - 1) ** 2).mean()

    exact = torch.autograd.grad(reference(x.detach().double().requires_grad_()), list(wide.parameters()))
    eagers = torch.autograd.grad(penalty(x), list(model.parameters()))
    ours = torch.autograd.grad(f(x), list(model.parameters()))
    assert eager() == {}
    slack = 4 * torch.finfo(dtype).eps
    for a, b, e in zip(ours, eagers, exact, strict=True):
        error, allowed = (a.double() - e).norm(), (b.double() - e).norm()
        assert error <= 2 * allowed + slack * (1 + e.norm()), (error, allowed)


class Forces(nn.Module):
    """Forces of an energy: the positions begin to require a gradient in forward()."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, pos):
        near = pos.sum()  # before: no gradient flows
        pos.requires_grad_(True)
        e = self.net(pos).sum() + (pos**3).sum()
        return e, -torch.autograd.grad(e, pos, create_graph=self.training)[0], near


@pytest.mark.parametrize("training", [True, False])
def test_argument_that_begins_to_require_a_gradient(training):
    torch.manual_seed(0)
    model = Forces().double().train(training)
    reference = copy.deepcopy(model)
    f, eager = compiled(model)
    optimizers = [torch.optim.SGD(m.parameters(), 0.01) for m in (model, reference)]
    for n in (5, 5, 7, 1, 9):
        pos = torch.randn(n, 3, dtype=torch.float64)
        found = []
        for run, optimizer in zip((f, reference), optimizers, strict=True):
            own = pos.clone()
            e, force, near = run(own)
            assert own.requires_grad and own.is_leaf and not near.requires_grad
            assert force.requires_grad == training
            optimizer.zero_grad()
            if training:
                (e + force.square().sum()).backward()
                optimizer.step()
            found.append((e.detach(), force.detach(), near, own.grad))
        assert_close(found[0], found[1])
    assert_close(list(model.parameters()), list(reference.parameters()))
    assert eager() == {} and thunder.cache_misses(f) <= 3
    with pytest.raises(RuntimeError, match="floating point"):
        f(torch.ones(2, 3, dtype=torch.int64))


def test_the_same_argument_again():
    def f(x):
        x.requires_grad_()
        return torch.autograd.grad(x.square().sum(), x)[0]

    g, eager = compiled(f)
    x = torch.randn(3)
    for _ in range(3):
        assert_close(g(x), 2 * x.detach())
    assert eager() == {}


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.2), nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 3), nn.Softplus(), nn.Flatten()
        )
        self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 1))

    def forward(self, x):
        return self.head(self.body(x))


def test_gradient_penalty_trains_as_eager():
    torch.manual_seed(1)
    critic = Critic().double()
    other = copy.deepcopy(critic)

    def loss(critic, x):
        x = x.detach().requires_grad_()
        score = critic(x)
        (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
        return score.mean() + 10 * ((g.flatten(1).norm(dim=1) - 1) ** 2).mean()

    f, eager = compiled(loss)
    optimizers = [torch.optim.Adam(m.parameters(), 0.01) for m in (critic, other)]
    for _ in range(4):
        x = torch.randn(3, 1, 6, 6, dtype=torch.float64)
        losses = []
        for run, m, optimizer in zip((f, loss), (critic, other), optimizers, strict=True):
            optimizer.zero_grad()
            value = run(m, x)
            value.backward()
            optimizer.step()
            losses.append(value.detach())
        assert_close(*losses)
    assert_close(list(critic.parameters()), list(other.parameters()))
    assert eager() == {}


def test_adapted_parameters():
    """MAML: the loss after a step of gradient descent, differentiated through it."""
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def f(x, y):
        given = dict(model.named_parameters())
        for _ in range(2):
            loss = F.mse_loss(torch.func.functional_call(model, given, (x,)), y)
            grads = torch.autograd.grad(loss, list(given.values()), create_graph=True)
            given = {k: p - 0.1 * g for (k, p), g in zip(given.items(), grads, strict=True)}
        return F.mse_loss(torch.func.functional_call(model, given, (x,)), y)

    x, y = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, 1, dtype=torch.float64)
    check(f, x, y, wanted=list(model.parameters()))


def test_dropout_uses_one_mask():
    def f(x):
        y = F.dropout(x * 2, 0.5)
        g = torch.autograd.grad(y.sum(), x)[0]
        return y.detach() - g * x.detach()

    g, eager = compiled(f)
    for _ in range(2):
        assert_close(g(tensor(64)), torch.zeros(64, dtype=torch.float64))
    assert eager() == {}


def test_attention():
    def f(q, k, v):
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.autograd.grad(y.square().sum(), q)[0]  # of which eager has no second derivative

    check(f, tensor(2, 3, 5, 4), tensor(2, 3, 5, 4), tensor(2, 3, 5, 4))

    def twice(q, k, v):
        y = (q @ k.mT).softmax(-1) @ v
        return torch.autograd.grad(y.square().sum(), (q, v), create_graph=True)

    check(twice, tensor(2, 3, 5, 4), tensor(2, 3, 5, 4), tensor(2, 3, 5, 4))


NORMS = {
    "layer": (lambda: nn.LayerNorm(4), (6, 4)),
    "group": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "batch": (lambda: nn.BatchNorm1d(4), (6, 4)),
    "batch, not in training": (lambda: nn.BatchNorm1d(4).eval(), (6, 4)),
    "rms": (lambda: nn.RMSNorm(4), (6, 4)),
    "instance": (lambda: nn.InstanceNorm1d(4, affine=True), (3, 4, 5)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name):
    """Rules that read statistics, through which no gradient flows."""
    make, shape = NORMS[name]
    norm = make().double()
    x = tensor(*shape)

    def f(x):
        return torch.autograd.grad(norm(x).exp().sum(), (x, *norm.parameters()), create_graph=True)

    check(f, x, wanted=[x, *norm.parameters()])


CONVOLUTIONS = {
    "1d": (F.conv1d, (2, 4, 9), (6, 4, 3), {"stride": 2}),
    "2d": (F.conv2d, (2, 4, 5, 6), (6, 2, 3, 3), {"padding": 1, "groups": 2}),
    "2d, dilated": (F.conv2d, (1, 3, 7, 7), (2, 3, 3, 3), {"dilation": 2, "padding": (2, 1)}),
    "3d": (F.conv3d, (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), {}),
    "transposed": (F.conv_transpose2d, (2, 4, 5, 5), (4, 3, 3, 3), {"stride": 2, "output_padding": 1}),
    "1 by 1": (F.conv2d, (1, 1, 1, 1), (1, 1, 1, 1), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    fn, of_x, of_w, given = CONVOLUTIONS[name]
    channels = of_w[1] if "transpose" in fn.__name__ else of_w[0]

    def f(x, w, b):
        return torch.autograd.grad(fn(x, w, b, **given).tanh().sum(), (x, w, b), create_graph=True)

    check(f, tensor(*of_x), tensor(*of_w), tensor(channels))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_that_hang_together_outside():
    """A gradient flows on outside of the function where one argument was computed from another."""

    def f(x, u):
        return torch.autograd.grad((u.sin() * x).sum(), x, create_graph=True)[0]

    g, eager = compiled(f)
    x = tensor(4)
    leaf = tensor(4)
    assert_close(g(x, leaf), f(x, leaf))
    assert eager() == {}
    for u in (x.exp(), x.view(4), leaf):
        assert_close(g(x, u), f(x, u))
    assert sum(eager().values()) >= 2


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


EAGER = {
    "not used": (lambda x: torch.autograd.grad((x.detach() * 2).sum(), x), RuntimeError),
    "one of them not": (lambda x: torch.autograd.grad(x.sum(), (x, x.sin())), RuntimeError),
    "no scalar": (lambda x: torch.autograd.grad(x.sin(), x), RuntimeError),
    "a batch that is none": (lambda x: torch.autograd.grad(x.sin().sum(), x, x[0], is_grads_batched=True), IndexError),
    "a graph that was freed": (
        lambda x: (lambda y: (torch.autograd.grad(y, x), torch.autograd.grad(y, x)))(x.sin().sum()), RuntimeError
    ),
    "a gradient of its own": (
        lambda x: torch.autograd.grad(torch.autograd.grad(Exp.apply(x).sum(), x, create_graph=True)[0].sum(), x), None
    ),
}


@pytest.mark.parametrize("name", EAGER)
def test_left_to_eager(name):
    fn, raises = EAGER[name]
    f, eager = compiled(fn)
    for _ in range(2):
        x = tensor(4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if raises:
                with pytest.raises(raises):
                    fn(x)
                with pytest.raises(raises):
                    f(x)
            else:
                assert_close(f(x), fn(x))
    assert sum(eager().values()) == 2 and all("autograd.grad" in why for why in eager())


def test_a_parameter_with_a_hook():
    w = tensor(4)
    w.register_hook(lambda g: 2 * g)
    f, eager = compiled(lambda x: torch.autograd.grad((x * w).sum(), w)[0])
    x = tensor(4)
    with pytest.warns(UserWarning, match="has hooks"):
        assert_close(f(x), 2 * x.detach())
    assert sum(eager().values()) == 1


def test_a_function_of_its_own_without_graph():
    check(lambda x: torch.autograd.grad(Exp.apply(x).sin().sum(), x)[0], tensor(4))
