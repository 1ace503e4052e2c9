"""Tensor.retain_grad() inside of compiled functions: `.grad` is eager's after each backward."""

import gc
import warnings
import weakref

import pytest
import torch
from devices import DEVICE
from eager_checks import eager_calls
from torch import nn
from torch.testing import assert_close

import thunder

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def kept_and_used(x):
    h = x.exp()
    h.retain_grad()
    return h, h.sin()


def compare(fn, loss, *shapes, calls=3, dtype=torch.float64, eager=False):
    """The gradients of arguments and results, in several calls."""
    f = thunder.jit(fn)
    for _ in range(calls):
        given = [torch.randn(s, dtype=dtype, device=DEVICE) for s in shapes]
        found = []
        for run in (f, fn):
            x = [t.clone().requires_grad_() for t in given]
            results = run(*x)
            loss(*results).backward()
            kept = [r.grad for r in results if r.retains_grad]
            assert kept and all(g is None or not g.requires_grad for g in kept)
            found.append(([t.grad for t in x], kept))
        # A kernel rounds to a half precision once, eager after each operator.
        eps = 4 * torch.finfo(dtype).eps
        assert_close(*found, **({"rtol": eps, "atol": eps} if dtype.itemsize == 2 else {}))
    assert bool(eager_calls(f)) == eager
    return f


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 8), (5, 7), (1, 1), (0, 3)])
def test_inside_and_outside(shape, dtype):
    def f(x):
        h = x.tanh()
        h.retain_grad()
        return h, h * 2

    compare(f, lambda h, y: (h * h).sum() + y.sum(), shape, dtype=dtype)
    compare(f, lambda h, y: y.sum(), shape, dtype=dtype)
    compare(f, lambda h, y: h.sum(), shape, dtype=dtype)


def test_read_before():
    def f(x, w):
        h = x @ w
        y = h.sin()
        h.retain_grad()
        h.retain_grad()
        return h, y + h

    compare(f, lambda h, y: (h * y).sum(), (4, 3), (3, 5))


def test_two_of_them():
    def f(x):
        h = x.exp()
        h.retain_grad()
        y = h.sin()
        y.retain_grad()
        return y.cos(), y, h

    compare(f, lambda z, y, h: z.sum() + (y * h).sum(), (4, 3))


def test_a_view():
    def f(x):
        h = x.exp()
        v = h.view(-1)
        v.retain_grad()
        return v, h.sin().sum() + v[1]

    compare(f, lambda v, y: (v * v).sum() + y, (2, 3))

    def of_an_argument(x):
        v = x[1:]
        v.retain_grad()
        return v, x.sin().sum() + v[0].sum()

    with pytest.warns(UserWarning, match="a view of what comes from outside"):
        compare(of_an_argument, lambda v, y: (v * v).sum() + y, (2, 3), eager=True)

    def with_its_base(x):
        h = x.exp()
        v = h.view(-1)
        v.retain_grad()
        return v, h

    with pytest.warns(UserWarning, match="are both returned"):
        compare(with_its_base, lambda v, y: (v * v).sum() + y.sum(), (2, 3), eager=True)


def test_one_part_of_several():
    def f(x):
        a, b = x.exp().chunk(2)
        a.retain_grad()
        return a, (a * b).sum()

    compare(f, lambda a, y: (a * a).sum() + y, (4, 3))


def test_written_later():
    def f(x):
        h = x * 3
        h.retain_grad()
        h.mul_(2)
        return h, h.sin()

    with pytest.warns(UserWarning, match="is written to"):
        compare(f, lambda h, y: (h * h).sum() + y.sum(), (2, 3), eager=True)

    def before(x):
        h = x * 2
        h.mul_(2)
        h.retain_grad()
        return h, h.sin()

    compare(before, lambda h, y: (h * h).sum() + y.sum(), (2, 3))


def test_with_hooks():
    def f(x):
        h = x.exp()
        h.register_hook(lambda g: 2 * g)
        h.retain_grad()
        h.register_hook(lambda g: g + 1)
        return h, h.sin()

    compare(f, lambda h, y: (h * h).sum() + y.sum(), (2, 3))


def test_a_leaf_and_what_is_none():
    def f(x):
        x.retain_grad()
        return x * 2

    f_, results = thunder.jit(f), []
    for run in (f_, f):
        leaf = torch.arange(3.0, requires_grad=True)
        run(leaf).sum().backward()
        base = torch.arange(3.0, requires_grad=True)
        computed = base * 3
        run(computed).sum().backward()
        assert not leaf.retains_grad and computed.retains_grad
        results.append((leaf.grad, base.grad, computed.grad))
    assert_close(*results)
    assert eager_calls(f_) == {}


def test_no_gradient():
    def f(x):
        h = x * 2
        h.retain_grad()
        return h

    with pytest.raises(RuntimeError, match="can't retain_grad"), torch.no_grad():
        thunder.jit(f)(torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        thunder.jit(f)(torch.ones(3))


def test_whether_it_does():
    def f(x):
        h = x * 2
        before = h.retains_grad
        h.retain_grad()
        return h, before, h.retains_grad

    f = thunder.jit(f)
    _, before, after = f(torch.ones(3, requires_grad=True))
    assert (before, after) == (False, True) and eager_calls(f) == {}


def test_several_backwards_and_calls():
    f = kept_and_used
    f_, found = thunder.jit(f), []
    for run in (f_, f):
        x = torch.arange(6.0, dtype=torch.float64).view(2, 3).requires_grad_()
        (a, y), (b, z) = run(x), run(2 * x)
        y.sum().backward(retain_graph=True)
        z.sum().backward()
        y.square().sum().backward()
        found.append((a.grad, b.grad, x.grad))
    assert_close(*found)


def test_written_outside():
    def f(x):
        h = x * 3
        h.retain_grad()
        return h, h * 2

    f_, found = thunder.jit(f), []
    for run in (f_, f):
        x = torch.arange(6.0, dtype=torch.float64).requires_grad_()
        h, y = run(x)
        h.mul_(2)
        (h.sum() + y.sum()).backward()
        found.append((h.grad, x.grad, h.retains_grad))
    assert found[0][2] and found[1][2]
    assert_close(found[0][:2], found[1][:2])


def test_a_result_that_is_gone():
    f = kept_and_used
    x = torch.ones(3, requires_grad=True)
    h, y = thunder.jit(f)(x)
    alive = weakref.ref(h)
    del h
    gc.collect()
    assert alive() is None
    y.sum().backward()
    assert x.grad is not None


def test_sizes_that_vary():
    f = kept_and_used
    f_ = thunder.jit(f)
    for n in (4, 5, 7, 1, 16):
        found = []
        given = torch.randn(n, 3)
        for run in (f_, f):
            x = given.clone().requires_grad_()
            h, y = run(x)
            (y * h).sum().backward()
            found.append((x.grad, h.grad))
        assert_close(*found)
    assert eager_calls(f_) == {} and thunder.cache_misses(f_) <= 3


class Camera:
    """Grad-CAM by a forward hook that keeps an activation."""

    def __init__(self, layer):
        self.activation = None
        layer.register_forward_hook(self.keep)

    def keep(self, module, args, output):
        output.retain_grad()
        self.activation = output

    def map(self):
        a = self.activation
        return (a * a.grad.mean((2, 3), keepdim=True)).sum(1).relu().detach()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("layer", [0, 1, 4])
def test_grad_cam(layer, autocast):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(6, 4),
    ).to(DEVICE)  # fmt: skip
    camera, f = Camera(model[layer]), thunder.jit(model)
    for _ in range(3):
        x, maps = torch.randn(2, 3, 12, 12, device=DEVICE), []
        for run in (f, model):
            model.zero_grad()
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
                scores = run(x)
            scores.amax(1).sum().backward()
            maps.append((camera.map(), [p.grad.clone() for p in model.parameters()]))
        assert_close(*maps, rtol=3e-2 if autocast else None, atol=3e-2 if autocast else None)
    assert eager_calls(f) == {}


def test_gradients_that_are_computed_inside():
    def f(x):
        h = x.exp()
        h.retain_grad()
        (g,) = torch.autograd.grad(h.sin().sum(), x)
        return h, g * 2

    f_, found = thunder.jit(f), []
    with pytest.warns(UserWarning, match="torch.autograd.grad or torch.func through"):
        for run in (f_, f):
            x = torch.arange(3.0, dtype=torch.float64).requires_grad_()
            h, g = run(x)
            found.append((h.grad, g))
    assert_close(*found)


def test_in_a_checkpoint():
    kept = []

    def f(x, w):
        def part(t):
            h = t.sin()
            h.retain_grad()
            kept.append(h)
            return h.exp()

        return torch.utils.checkpoint.checkpoint(part, x @ w, use_reentrant=False) + 1

    f_, found = thunder.jit(f), []
    given = [torch.randn(3, 3, dtype=torch.float64) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some releases of PyTorch leave it to eager
        for run in (f_, f):
            kept.clear()
            x, w = (t.clone().requires_grad_() for t in given)
            run(x, w).sum().backward()
            found.append((x.grad, w.grad, kept[0].grad))
    assert_close(*found)


def test_the_trace():
    f = kept_and_used
    f = thunder.jit(f)
    f(torch.ones(3, requires_grad=True))[1].sum().backward()
    assert "keep_gradient(0, " in str(thunder.last_backward_traces(f)[-1])


def test_second_derivatives():
    f = kept_and_used
    f_, found = thunder.jit(f), []
    for run in (f_, f):
        x = torch.arange(3.0, dtype=torch.float64).requires_grad_()
        _, y = run(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        found.append(g.detach())
    assert_close(*found)
    x = torch.arange(3.0, requires_grad=True)
    (g,) = torch.autograd.grad(f_(x)[1].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        g.sum().backward()


def test_gradients_that_can_be_differentiated():
    f = kept_and_used
    f = thunder.jit(f)
    x = torch.arange(3.0, requires_grad=True)
    h, y = f(x)
    torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        h.grad.sum().backward()


def test_results_that_no_loss_uses():
    def f(x):
        a, b = x.exp(), x.sin()
        a.retain_grad()
        b.retain_grad()
        return a, b, a * 2, b * 3

    f_ = thunder.jit(f)
    for used in range(4):
        found = []
        for run in (f_, f):
            x = torch.arange(3.0, dtype=torch.float64).requires_grad_()
            results = run(x)
            results[used].sum().backward()
            found.append([x.grad, *(r.grad for r in results[:2])])
        assert_close(*found)
        assert (found[0][1] is None) == bool(used % 2)
    assert eager_calls(f_) == {}
