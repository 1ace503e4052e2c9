"""Gradients with create_graph=True, differentiated once more: they equal eager's, or an error says why."""

import gc
import weakref

import pytest
import short_run
import torch
from op_checks import gradient_dtype, name_of, op_db, samples, tensors
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import thunder

PARTS = 8
# PyTorch's operator runs again, and reads statistics that the first run has replaced: an error of its own.
READS_WHAT_IT_WRITES = {"_batch_norm_with_update", "_native_batch_norm_legit"}


def scalar(found):
    """Of everything that has a gradient, with weights that tell elements apart."""
    found = [t for t in tensors(found) if t.requires_grad and t.dtype.is_floating_point]
    return sum((t * torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype).view(t.shape)).sum() for t in found)


def derivatives(fn, inputs, orders=2):
    """The gradients of each order, of all inputs; None where there is none."""
    out, value = [], scalar(fn())
    for order in range(orders):
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            break
        last = order + 1 == orders
        grads = torch.autograd.grad(value, inputs, create_graph=not last, allow_unused=True)
        out.append([g if g is None else g.detach() for g in grads])
        value = scalar([g for g in grads if g is not None])
    return out


def check(fn, *inputs, orders=2):
    """Twice, since a second call runs what the first one made."""
    wanted = tensors(inputs)
    ours = thunder.jit(fn)
    expected = derivatives(lambda: fn(*inputs), wanted, orders)
    assert len(expected) == orders and any(g is not None and g.abs().sum() > 0 for g in expected[-1])
    for _ in range(2):
        assert_close(derivatives(lambda: ours(*inputs), wanted, orders), expected)


def tensor(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def weight_norm(x, v, g):
    return F.linear(x, torch._weight_norm(v, g, 0)).sin()


PROGRAMS = {
    "mlp": (lambda x, w: torch.tanh(F.linear(torch.tanh(x), w)), [(4, 3), (5, 3)]),
    "softmax": (lambda x: x.softmax(-1) * x.log_softmax(0), [(4, 5)]),
    "layer norm": (lambda x, w: F.layer_norm(x, (5,), w) ** 2, [(4, 5), (5,)]),
    "group norm": (lambda x: F.group_norm(x, 2).exp(), [(3, 4, 5)]),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True).exp(), [(6, 4)]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1).tanh(), [(2, 3, 5, 5), (4, 3, 3, 3)]),
    "transposed convolution": (lambda x, w: F.conv_transpose1d(x, w, stride=2).tanh(), [(2, 3, 5), (3, 4, 3)]),
    "pooling": (lambda x: F.avg_pool2d(F.max_pool2d(x.sin(), 2), 2).exp(), [(2, 3, 8, 8)]),
    "attention by its definition": (lambda q, k, v: (q @ k.mT).softmax(-1) @ v, [(2, 3, 4), (2, 5, 4), (2, 5, 4)]),
    "indices": (lambda x: x[[0, 2, 0]].prod(0) * x[1:, ::2].square().sum(), [(4, 5)]),
    "one element": (lambda x: x.exp() * x.sin(), [()]),
    "weight norm": (weight_norm, [(4, 3), (5, 3), (5, 1)]),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.arange(4) % 3) ** 2, [(4, 3)]),
    "written in place": (lambda x: x.clone().mul_(x).sin_(), [(4, 5)]),
    "recurrence": (lambda x, w: sum(torch.tanh(x @ w**i) for i in range(4)), [(2, 3), (3, 3)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    fn, shapes = PROGRAMS[name]
    check(fn, *(tensor(*s) for s in shapes), orders=3 if name in ("mlp", "softmax", "one element") else 2)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.2), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3), nn.Softplus(), nn.Flatten()
        )
        self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 1))

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("compiled", [True, False])
def test_gradient_penalty_trains_as_eager(compiled):
    """WGAN-GP: the loss holds the norm of the critic's gradient; three steps."""
    torch.manual_seed(1)
    critic = Critic().double()
    state = {k: v.clone() for k, v in critic.state_dict().items()}
    batches = [torch.randn(3, 1, 6, 6, dtype=torch.float64) for _ in range(3)]

    def train(run):
        optimizer = torch.optim.SGD(critic.parameters(), 0.1)
        critic.load_state_dict(state)
        losses = []
        for batch in batches:
            x = batch.clone().requires_grad_()
            score = run(x)
            (g,) = torch.autograd.grad(score.sum(), x, create_graph=True)
            loss = score.mean() + 10 * ((g.flatten(1).norm(dim=1) - 1) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().clone() for p in critic.parameters()]

    expected = train(critic)
    run = thunder.jit(critic) if compiled else thunder.jit(lambda x: critic(x))
    assert_close(train(run), expected)
    assert expected[0][0] != expected[0][2]


def test_what_is_not_differentiated():
    def f(x):
        with torch.no_grad():
            a = x * 2
        return a * x.sin() + x.detach() * x.cos() * x

    check(f, tensor(4))


def test_an_argument_twice_and_an_argument_with_a_history():
    x = tensor(4, 4)
    check(lambda a, b: a.sin() @ b, x, x)
    w = tensor(4, 4)
    ours = thunder.jit(lambda a: a.sin().square())
    for run in (ours, lambda a: a.sin().square()):
        h = (x @ w).tanh()
        (g,) = torch.autograd.grad(run(h).sum(), x, create_graph=True)
        x.grad = w.grad = None
        g.square().sum().backward()
        if run is ours:
            got = x.grad, w.grad
    assert_close(got, (x.grad, w.grad))


def test_an_output_that_the_loss_leaves_out():
    def f(x, w):
        return (x * w).sin(), x.exp(), w.cos()

    x, w = tensor(5), tensor(5)
    for used in [(0,), (1,), (0, 2)]:
        found = []
        for run in (thunder.jit(f), f):
            out = run(x, w)
            grads = torch.autograd.grad(
                sum(out[i].sum() for i in used), (x, w), create_graph=True, allow_unused=True
            )
            second = [
                g if g is None else torch.autograd.grad(g.sum(), (x, w), allow_unused=True, retain_graph=True)
                for g in grads
            ]
            found.append(second)
        assert [g is None for g in found[0]] == [g is None for g in found[1]]
        assert_close(found[0], found[1])


def test_through_the_cotangent():
    f = thunder.jit(lambda x: x.sin())
    x, g = tensor(4), tensor(4)
    (grad,) = torch.autograd.grad(f(x), x, g, create_graph=True)
    assert_close(torch.autograd.grad(grad.sum(), g)[0], x.cos())


def test_autocast_of_the_caller_changes_nothing():
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(4, 8, requires_grad=True)
    found = []
    for run in (thunder.jit(module), module):
        with torch.autocast("cpu", torch.bfloat16):
            (g,) = torch.autograd.grad(run(x).float().sum(), x, create_graph=True)
        module.zero_grad()
        g.square().sum().backward()
        found.append((g.detach(), module[0].weight.grad))
    assert_close(found[0], found[1], rtol=2e-2, atol=2e-2)


def test_sizes_that_change():
    f = thunder.jit(lambda x, w: F.layer_norm(x, (5,)).tanh() @ w)
    for n in (4, 7, 1, 2, 9):
        x, w = tensor(n, 5), tensor(5, 3)
        eager = derivatives(lambda x=x, w=w: F.layer_norm(x, (5,)).tanh() @ w, [x, w])
        assert_close(derivatives(lambda x=x, w=w: f(x, w), [x, w]), eager)
    assert thunder.cache_misses(f) <= 3


def test_jacobian_and_hessian():
    f = thunder.jit(lambda x: (x.sin() * x.flip(0)).sum())
    x = torch.randn(5, dtype=torch.float64)
    expected = torch.autograd.functional.hessian(lambda x: (x.sin() * x.flip(0)).sum(), x)
    assert_close(torch.autograd.functional.hessian(f, x), expected)
    assert torch.autograd.gradgradcheck(f, x.clone().requires_grad_())


def test_memory_is_not_kept_for_it():
    f, x = thunder.jit(lambda x: x * 3), tensor(4)
    h = x * 2
    out, lives = f(h), weakref.ref(h)
    del h
    gc.collect()
    assert lives() is None
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    assert_close(g.detach(), torch.full_like(x, 6))
    with pytest.raises(RuntimeError, match="input 0 of the call is gone"):
        g.sum().backward()


def test_an_input_that_was_written_to():
    f = thunder.jit(lambda x, b: x.sin() + b)
    x, b = tensor(4), torch.randn(4, dtype=torch.float64)
    out = f(x, b)
    expected = x.cos().detach()
    b.add_(1)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    assert_close(g.detach(), expected)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        g.sum().backward()


def test_a_graph_that_was_freed():
    f = thunder.jit(lambda x: x.sin())
    x = tensor(4)
    out = f(x).sum()
    torch.autograd.grad(out, x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(out, x, create_graph=True)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin()

    @staticmethod
    def backward(ctx, g):
        return 2 * g


REFUSED = {
    "random numbers": (lambda x: F.dropout(x, 0.5) * x, "random numbers"),
    "a gradient of its own": (lambda x: Doubled.apply(x) * x, "a gradient of its own"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    """Where the function cannot be run again to the same end, gradients are right, and their gradients an error."""
    fn, why = REFUSED[name]
    f, x = thunder.jit(fn), tensor(4)
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=f"double backward is not supported.*{why}"):
        g.sum().backward()


def or_zeros(g, other):
    """A gradient that is not there is zeros, and both are None where neither is."""
    return torch.zeros_like(other) if g is None and other is not None else g


# What a call says that is not run again; an input that was written to is none of it.
MAY_BE_REFUSED = ("random numbers", "a gradient of its own", "has effects", "does not follow")


def checked(op, sample):
    """Whether the operator's second derivative was compared."""
    inputs = [t for t in tensors([sample.input, *sample.args, *sample.kwargs.values()]) if t.requires_grad]

    def run(fn):
        torch.manual_seed(0)
        return derivatives(lambda: fn(sample.input, *sample.args, **sample.kwargs), inputs)

    try:
        expected = run(op.op)
    except RuntimeError:
        return False  # eager's: its operator has no second derivative for this sample
    try:
        got = run(thunder.jit(lambda *args, **kwargs: op.op(*args, **kwargs)))
    except RuntimeError as e:
        if "double backward is not supported" in str(e) and any(why in str(e) for why in MAY_BE_REFUSED):
            return False
        raise
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            assert_close(or_zeros(x, y), or_zeros(y, x), equal_nan=True)
    return len(expected) > 1


@pytest.mark.parametrize("part", range(PARTS))
def test_operators(part):
    compared, differ = 0, []
    for op in op_db[part::PARTS]:
        dtype = gradient_dtype(op, "cpu") if op.supports_gradgrad else None
        if dtype != torch.float64 or not short_run.taken("second " + name_of(op), 3):
            continue
        for sample in samples(op, "cpu", dtype, 4 if short_run.ALL else 1, requires_grad=True, only=0.5):
            try:
                compared += checked(op, sample)
            except Exception as e:
                if name_of(op) in READS_WHAT_IT_WRITES and "modified by an inplace operation" in str(e):
                    continue
                differ.append(f"{name_of(op)}: {type(e).__name__} {str(e).splitlines()[0]}")
    assert not differ and compared > 5, "\n".join(differ)
