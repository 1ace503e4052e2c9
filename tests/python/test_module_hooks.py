"""Backward hooks of modules and of parameters: what they see, and what they change, is eager's."""

import copy
import random
import warnings

import pytest
import torch
from devices import DEVICE
from eager_checks import eager_calls
from torch import nn
from torch.nn.modules import module as global_hooks
from torch.testing import assert_close

import thunder

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")
LOG = []


def clones(gradients):
    return tuple(None if g is None else g.clone() for g in gradients)


def after(name, change=None):
    def hook(module, grad_input, grad_output):
        LOG.append((name, clones(grad_input), clones(grad_output), torch.is_grad_enabled()))
        return change and tuple(None if g is None else change(g) for g in grad_input)

    return hook


def before(name, change=None):
    def hook(module, grad_output):
        LOG.append((name, clones(grad_output), torch.is_grad_enabled()))
        return change and tuple(None if g is None else change(g) for g in grad_output)

    return hook


def assert_same(found, **tolerances):
    """What hooks have seen, and what else is given."""
    (a, *others_a), (b, *others_b) = found
    assert [entry[0] for entry in a] == [entry[0] for entry in b]
    assert_close([entry[1:] for entry in a], [entry[1:] for entry in b], **tolerances)
    assert_close(others_a, others_b, **tolerances)


def seen(run, model, given, loss, wanted):
    LOG.clear()
    model.zero_grad()
    x = [t.clone().requires_grad_(wanted) for t in given]
    loss(run(*x)).backward()
    return list(LOG), [p.grad for p in model.parameters()], [t.grad for t in x]


def compare(model, *shapes, loss=lambda y: y.float().square().sum(), dtype=torch.float64, calls=3, hooks=1, f=None):
    model.to(DEVICE, dtype)
    f = f or thunder.jit(model)
    for wanted in (False, True):
        for _ in range(calls):
            given = [torch.randn(s, dtype=dtype, device=DEVICE) for s in shapes]
            found = [seen(run, model, given, loss, wanted) for run in (f, model)]
            close = 2e-2 if dtype.itemsize == 2 else None
            assert_same(found, rtol=close, atol=close)
            assert len(found[0][0]) == hooks
    assert eager_calls(f) == {}
    return f


def network(width=6):
    return nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 3))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [4, 7, 1, 0])
def test_of_one_layer(rows, dtype):
    model = network()
    model[2].register_full_backward_hook(after("layer"))
    compare(model, (rows, 5), dtype=dtype)


def test_what_they_change():
    model = network()
    model[4].register_full_backward_hook(after("last", lambda g: g * 2))
    model[2].register_full_backward_pre_hook(before("before", lambda g: g + 1))
    model[2].register_full_backward_hook(after("first", lambda g: g.sin()))
    model[2].register_full_backward_hook(after("second", lambda g: g * 3))
    model[0].register_full_backward_hook(after("input"))
    compare(model, (4, 5), hooks=5)


def test_of_the_whole_model():
    model = network()
    model.register_full_backward_hook(after("model", lambda g: g / 2))
    model.register_full_backward_pre_hook(before("before", lambda g: g * 2))
    compare(model, (4, 5), hooks=2)


def test_of_all_modules():
    model = network()
    handles = [
        global_hooks.register_module_full_backward_hook(after("all")),
        global_hooks.register_module_full_backward_pre_hook(before("all before")),
    ]
    try:
        f = compare(model, (4, 5), hooks=12)
    finally:
        for h in handles:
            h.remove()
    compare(model, (4, 5), hooks=0, f=f)


def test_registered_and_removed_later():
    model = network()
    f = compare(model, (4, 5), hooks=0)
    handle = model[2].register_full_backward_hook(after("late", lambda g: g * 2))
    compare(model, (4, 5), f=f)
    handle.remove()
    compare(model, (4, 5), hooks=0, f=f)
    model[0].register_full_backward_pre_hook(before("later"))
    compare(model, (4, 5), f=f)


class Several(nn.Module):
    def forward(self, x, scale, y):
        return x * scale, torch.zeros(2), (x + y).sin()


class Uses(nn.Module):
    def __init__(self, which):
        super().__init__()
        self.part, self.lin, self.which = Several(), nn.Linear(5, 5), which

    def forward(self, x, y):
        results = self.part(self.lin(x), 3, y)
        return sum(results[i].sum() for i in self.which)


@pytest.mark.parametrize("which", [(0, 2), (0,), (2,)])
def test_several_arguments_and_results(which):
    model = Uses(which)
    model.part.register_full_backward_hook(after("part", lambda g: g * 2))
    model.part.register_full_backward_pre_hook(before("before", lambda g: g * 3))
    compare(model, (4, 5), (4, 5), hooks=2)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 2), nn.Linear(5, 3)

    def forward(self, x):
        h = self.body(x).tanh()
        return self.a(h), self.b(h)


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_results_that_no_loss_uses(used):
    model = Heads()
    for name in ("body", "a", "b"):
        getattr(model, name).register_full_backward_hook(after(name, lambda g: 2 * g))
    compare(model, (4, 5), loss=lambda y: sum(y[i].sum() for i in used), hooks=1 + len(used))


def test_a_tuple_of_which_one_is_used():
    class Both(nn.Module):
        def forward(self, x):
            return x.sin(), x.cos()

    model = nn.Sequential(nn.Linear(5, 5), Both())
    model[1].register_full_backward_hook(after("both"))
    for used in (0, 1):
        compare(model, (4, 5), loss=lambda y, used=used: y[used].sum())


def test_a_module_called_twice():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(5, 5)

        def forward(self, x):
            return self.lin(self.lin(x).sin())

    model = Twice()
    model.lin.register_full_backward_hook(after("lin", lambda g: g * 2))
    compare(model, (4, 5), hooks=2)


def test_autocast():
    model = network().to(DEVICE)
    model[2].register_full_backward_hook(after("layer", lambda g: g * 2))
    f = thunder.jit(model)
    for _ in range(3):
        x, found = torch.randn(4, 5, device=DEVICE), []
        for run in (f, model):
            LOG.clear()
            model.zero_grad()
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                y = run(x)
            y.float().square().sum().backward()
            found.append((list(LOG), [p.grad for p in model.parameters()]))
        assert_same(found, rtol=3e-2, atol=3e-2)
        assert found[0][0][0][1][0].dtype == found[1][0][0][1][0].dtype
    assert eager_calls(f) == {}


def test_without_gradients():
    model = network()
    model[2].register_full_backward_hook(after("layer"))
    f, x = thunder.jit(model), torch.randn(4, 5)
    with torch.no_grad():
        assert_close(f(x), model(x))
    with torch.inference_mode():
        assert_close(f(x), model(x))
    assert eager_calls(f) == {}


def test_retained_graph():
    model = network().double()
    model[2].register_full_backward_hook(after("layer", lambda g: g * 2))
    f, x, found = thunder.jit(model), torch.randn(4, 5, dtype=torch.float64), []
    for run in (f, model):
        LOG.clear()
        model.zero_grad()
        y = run(x).sum()
        y.backward(retain_graph=True)
        y.backward()
        found.append((list(LOG), [p.grad for p in model.parameters()]))
    assert_same(found)
    assert len(found[0][0]) == 2


def test_what_eager_refuses():
    model = network()
    model[2].register_full_backward_hook(lambda module, gi, go: (gi[0], gi[0]))
    for run in (thunder.jit(model), model):
        with pytest.raises(RuntimeError, match="invalid number of grad_input"):
            run(torch.randn(4, 5)).sum().backward()
    in_place = nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True))
    in_place[0].register_full_backward_hook(after("layer"))
    for run in (thunder.jit(in_place), in_place):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            run(torch.randn(4, 5)).sum().backward()


def test_a_hook_made_in_each_call():
    class Makes(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(5, 5)

        def forward(self, x):
            found = []
            handle = self.lin.register_full_backward_hook(lambda m, gi, go: found.append(1))
            y = self.lin(x)
            handle.remove()
            return y, found

    model = Makes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in (thunder.jit(model), model):
            y, found = run(torch.randn(4, 5))
            y.sum().backward()
            assert found == [1]


def test_the_old_kind():
    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model[0].register_backward_hook(after("old"))
        f = thunder.jit(model)
        x = torch.randn(4, 5)
        found = [seen(run, model, [x], lambda y: y.sum(), True) for run in (f, model)]
    assert_same(found)


def test_training_with_clipped_gradients():
    """A hook that limits what flows back, and optimizer steps."""
    torch.manual_seed(0)
    models = [network().double()]
    models.append(copy.deepcopy(models[0]))
    for m in models:
        m[2].register_full_backward_hook(lambda module, gi, go: tuple(g.clamp(-0.01, 0.01) for g in gi))
    f = thunder.jit(models[0])
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in models]
    for _ in range(4):
        x = torch.randn(8, 5, dtype=torch.float64)
        for run, optimizer in zip((f, models[1]), optimizers, strict=True):
            optimizer.zero_grad()
            run(x).square().sum().backward()
            optimizer.step()
    assert_close([*models[0].parameters()], [*models[1].parameters()])
    assert eager_calls(f) == {}


# ---- of parameters ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
def test_optimizer_in_the_backward(when):
    torch.manual_seed(0)
    models = [network().to(DEVICE)]
    models.append(copy.deepcopy(models[0]))

    def in_backward(model):
        optimizers = {p: torch.optim.AdamW([p], lr=0.01) for p in model.parameters()}

        def step(p):
            optimizers[p].step()
            optimizers[p].zero_grad()
            LOG.append(p.grad is None)

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(step)

    if when == "before":
        in_backward(models[0])
    f = thunder.jit(models[0])
    if when == "after":
        f(torch.randn(8, 5, device=DEVICE)).sum().backward()
        models[0].zero_grad()
        in_backward(models[0])
    in_backward(models[1])
    LOG.clear()
    for _ in range(4):
        x = torch.randn(8, 5, device=DEVICE)
        for run in (f, models[1]):
            run(x).square().sum().backward()
    assert len(LOG) == 4 * 12 and all(LOG)
    assert_close([*models[0].parameters()], [*models[1].parameters()])
    assert eager_calls(f) == {}


@pytest.mark.parametrize("when", ["before", "after"])
def test_hooks_of_parameters(when):
    model = network().double()
    f = thunder.jit(model)
    x = torch.randn(4, 5, dtype=torch.float64)
    if when == "after":
        f(x).sum().backward()
    model[2].weight.register_hook(lambda g: LOG.append(g.clone()) or 2 * g)
    found = []
    for run in (f, model):
        LOG.clear()
        model.zero_grad()
        run(x).sum().backward()
        found.append((list(LOG), [p.grad for p in model.parameters()]))
    assert_close(*found)
    assert len(found[0][0]) == 1 and eager_calls(f) == {}


# ---- all together ----------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """Layers whose results are used more than once, and a module that is called twice."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(width, width) for _ in range(4))
        self.act, self.kept = nn.Tanh(), []

    def forward(self, x):
        p = self.act(self.a(x))
        q = self.b(x).sin()
        return self.d(self.act(self.c(p * q)) + p)


def register(rng, model, name):
    """A hook of some kind on some module."""
    module = rng.choice([model.a, model.b, model.c, model.d, model.act, model])
    change = rng.choice([None, lambda g: 2 * g])

    def of_tensor(gradient):
        LOG.append((name, gradient.clone()))
        return change and change(gradient)

    def keep(module, args, output):
        output.retain_grad()
        model.kept.append(output)

    kind = rng.randrange(4)
    if kind == 0:
        module.register_forward_hook(lambda module, args, output: output.register_hook(of_tensor) and None)
    elif kind == 1:
        module.register_full_backward_hook(after(name, change))
    elif kind == 2:
        module.register_full_backward_pre_hook(before(name, change))
    else:
        module.register_forward_hook(keep)


@pytest.mark.parametrize("seed", range(10))
def test_hooks_of_all_kinds(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = Net(rng.choice([1, 3, 8])).double().to(DEVICE)
    for n in range(rng.randint(2, 7)):
        register(rng, model, f"hook {n}")
    f = thunder.jit(model)
    for wanted in (True, False, True):
        given = [torch.randn(rng.choice([1, 4, 5]), model.a.in_features, dtype=torch.float64, device=DEVICE)]
        found = []
        for run in (f, model):
            model.kept.clear()
            found.append((*seen(run, model, given, lambda y: y.square().sum(), wanted), [t.grad for t in model.kept]))
        assert_same(found)
    assert eager_calls(f) == {}
