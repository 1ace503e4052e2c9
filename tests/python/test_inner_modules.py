"""Functions that eager runs, whose modules are compiled on their own."""

import copy
import io
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from eager_checks import eager_calls
from torch import nn
from torch.nn import functional as F

import thunder

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*runs by eager PyTorch")


def mlp(n=8, hidden=16, out=4):
    return nn.Sequential(nn.Linear(n, hidden), nn.GELU(), nn.Linear(hidden, out))


def inner(f):
    return thunder.compile_stats(f).inner_modules


def hits(f):
    return [thunder.cache_hits(module) for module in inner(f).values()]


class Middle(nn.Module):
    """Its values are needed on the way."""

    def __init__(self, scale=2.0):
        super().__init__()
        self.encoder, self.decoder, self.scale = mlp(), mlp(4, 16, 8), scale

    def forward(self, x):
        z = self.encoder(x)
        if z.detach().float().numpy().size > 10**6:
            z = z * self.scale
        return self.decoder(z.relu())


def assert_same_training(model, reference, call, steps=4, shape=(5, 8)):
    for _ in range(steps):
        x = torch.randn(shape)
        got, want = call(x), reference(x)
        torch.testing.assert_close(got, want)
        got.square().sum().backward()
        want.square().sum().backward()
        for p, q in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)


def training_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def backward_of(model):
    def step(x):
        loss = model(x).sum()
        loss.backward()
        return loss

    return step


@pytest.mark.parametrize("batch", [1, 5, 8])
@pytest.mark.parametrize("cache", ["varying values", "constant values", "symbolic values"])
def test_a_training_step(batch, cache):
    model = mlp()
    reference = copy.deepcopy(model)
    step = thunder.jit(training_step(model, torch.optim.AdamW(model.parameters())), cache=cache)
    expected = training_step(reference, torch.optim.AdamW(reference.parameters()))
    for _ in range(5):
        x, y = torch.randn(batch, 8), torch.randint(4, (batch,))
        torch.testing.assert_close(step(x, y), expected(x, y))
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p, q)
    assert list(inner(step)) == ["Sequential"] and hits(step) == [3]


def test_a_module_around_what_cannot_be_compiled():
    model = Middle()
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    assert_same_training(model, reference, compiled)
    assert list(inner(compiled)) == ["Sequential", "Sequential_2"] and hits(compiled) == [2, 2]
    assert thunder.last_backward_traces(inner(compiled)["Sequential"])


def test_inner_modules_of_inner_modules():
    model = nn.Sequential(nn.Linear(8, 8), Middle(), mlp())
    reference = copy.deepcopy(model)
    seen = []

    @thunder.jit
    def f(x):
        seen.append(x.detach().numpy())  # keeps the function from being compiled, as the module's own line does
        return model(x)

    assert_same_training(model, reference, f, steps=5)
    (whole,) = inner(f).values()
    assert list(inner(whole)) == ["Middle", "Sequential"]
    assert list(inner(inner(whole)["Middle"])) == ["Sequential", "Sequential_2"]


def test_one_warning_names_the_line():
    model = Middle()
    compiled = thunder.jit(nn.Sequential(mlp(8, 8, 8), model))
    with pytest.warns(UserWarning, match=r"(?s)in forward.*compiled where they can be") as warned:
        for _ in range(4):
            compiled(torch.randn(2, 8))
    assert len(warned) == 1


def test_single_operators_and_containers_are_not_compiled():
    linear, layers = nn.Linear(8, 8), nn.ModuleList([nn.Linear(8, 8), mlp()])

    @thunder.jit
    def f(x):
        x = layers[1](layers[0](linear(x)).relu())
        return x.detach().numpy()

    for _ in range(3):
        f(torch.randn(3, 8))
    assert list(inner(f)) == ["Sequential"]


def test_another_module_takes_its_place():
    @thunder.jit
    def f(model, x):
        return model(x) + float(x.detach().numpy()[0, 0])

    for _ in range(3):
        model, x = mlp(), torch.randn(3, 8)
        for _ in range(3):
            torch.testing.assert_close(f(model, x), model(x) + x[0, 0].item())
    assert sum(eager_calls(f).values()) == 9


def test_an_inner_module_is_compiled_by_the_functions_options():
    model = mlp()
    f = thunder.jit(lambda x: model(x).detach().numpy(), executors=["aten"], numerics="eager")
    for _ in range(3):
        f(torch.randn(3, 8))
    (module,) = inner(f).values()
    assert not thunder.last_kernels(module) and thunder.last_traces(module)


def test_none_without_a_cache_or_where_all_is_compiled():
    model = mlp()
    f = thunder.jit(lambda x: model(x).detach().numpy(), cache="no caching")
    f(torch.randn(3, 8)), f(torch.randn(3, 8))
    assert inner(f) == {}
    compiled = thunder.jit(model)
    compiled(torch.randn(3, 8))
    assert inner(compiled) == eager_calls(compiled) == {}


def test_hooks_run_as_in_eager():
    model, seen = Middle(), []
    model.encoder.register_forward_hook(lambda m, args, out: seen.append(out.shape) or out * 2)
    model.decoder.register_forward_pre_hook(lambda m, args: seen.append(args[0].shape))
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    assert_same_training(model, reference, compiled)
    assert seen == [(5, 4), (5, 4)] * 8


def test_what_copies_or_saves_the_module_meanwhile_gets_the_module():
    model, made = mlp(), []

    @thunder.jit
    def f(x):
        y = model(x)
        made.append(copy.deepcopy(model))
        torch.save(model, buffer := io.BytesIO())
        made.append(buffer)
        return y.detach().numpy()

    for _ in range(3):
        x = torch.randn(3, 8)
        f(x)
    copied, buffer = made[-2:]
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    for p in model.parameters():
        p.data.zero_()
    for other in (copied, loaded):
        with torch.no_grad():
            assert other(x).abs().sum() > 0
            for p in other.parameters():
                p.zero_()
            assert other(x).abs().sum() == 0
    assert "forward" not in model.__dict__


def test_the_module_is_its_own_after_an_exception():
    model = mlp()

    @thunder.jit
    def f(x, fails):
        y = model(x).detach().numpy()
        if fails:
            raise KeyError("mine")
        return y

    for fails in (True, False, True, False):
        if fails:
            with pytest.raises(KeyError, match="mine"):
                f(torch.randn(3, 8), fails)
        else:
            f(torch.randn(3, 8), fails)
        assert "forward" not in model.__dict__ and sys.getprofile() is None


def test_a_forward_that_somebody_has_replaced_stays():
    model = mlp()
    before = model.forward
    model.forward = lambda x: before(x) * 3

    @thunder.jit
    def f(x):
        return torch.tensor(model(x).detach().numpy())

    x = torch.randn(3, 8)
    for _ in range(3):
        torch.testing.assert_close(f(x), before(x).detach() * 3)
    assert inner(f) == {}


def test_a_profiler_of_the_users_stays():
    model, events = mlp(), []
    f = thunder.jit(lambda x: model(x).detach().numpy())
    sys.setprofile(profiler := lambda frame, event, _: events.append(event))
    try:
        f(torch.randn(3, 8))
        assert sys.getprofile() is profiler
    finally:
        sys.setprofile(None)
    assert events and inner(f) == {}
    for _ in range(3):
        f(torch.randn(3, 8))
    assert hits(f) == [1]


def test_a_compiled_function_inside_has_its_own():
    inside, outside = Middle(), mlp(8, 16, 8)
    compiled = thunder.jit(inside)

    @thunder.jit
    def f(x):
        y = compiled(outside(x))
        return y, y.detach().numpy()

    for _ in range(4):
        f(torch.randn(3, 8))
    assert list(inner(f)) == ["Sequential"] and list(inner(compiled)) == ["Sequential", "Sequential_2"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes_and_autocast(dtype):
    model = Middle().to(dtype)
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    for n in (1, 3, 8):
        x = torch.randn(n, 8, dtype=dtype)
        for scope in (torch.enable_grad(), torch.no_grad(), torch.autocast("cpu", torch.bfloat16)):
            if dtype == torch.bfloat16 or not isinstance(scope, torch.autocast):
                with scope:
                    want = reference(x)
                    torch.testing.assert_close(compiled(x), want, rtol=0.05, atol=0.05)


def test_train_and_eval():
    model = nn.Sequential(Middle(), nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)))
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    for training in (True, True, False, False, True):
        x = torch.randn(6, 8)
        for m in (compiled, reference):
            m.train(training)
        torch.manual_seed(3)
        got = compiled(x)
        torch.manual_seed(3)
        torch.testing.assert_close(got, reference(x))
    for (name, b), c in zip(model.named_buffers(), reference.buffers(), strict=True):
        torch.testing.assert_close(b, c, msg=name)


def test_two_networks_that_train_each_other():
    def made():
        torch.manual_seed(5)
        g, d = mlp(4, 16, 8), mlp(8, 16, 1)
        optimizers = [torch.optim.Adam(m.parameters(), 1e-3) for m in (g, d)]

        def step(real, noise):
            fake = g(noise)
            for o in optimizers:
                o.zero_grad()
            loss_d = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
            loss_d.backward()
            optimizers[1].step()
            loss_g = F.softplus(-d(fake)).mean()
            loss_g.backward()
            optimizers[0].step()
            return loss_d.item(), loss_g.item()

        return step

    step, expected = thunder.jit(made()), made()
    for _ in range(6):
        real, noise = torch.randn(5, 8), torch.randn(5, 4)
        assert step(real, noise) == pytest.approx(expected(real, noise), rel=1e-4)
    assert len(inner(step)) == 2 and min(hits(step)) >= 3


def test_threads():
    model = Middle()
    reference, compiled = copy.deepcopy(model), thunder.jit(model)
    compiled(torch.randn(2, 8))
    wrong = []

    def run():
        for _ in range(20):
            x = torch.randn(2, 8)
            with torch.no_grad():
                if not torch.allclose(compiled(x), reference(x), atol=1e-5):
                    wrong.append(x)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and "forward" not in model.encoder.__dict__


def copies_of(module, how):
    if how == "deepcopy":
        return copy.deepcopy(module)
    if how == "copy":
        return copy.copy(module)
    if how == "pickle":
        return pickle.loads(pickle.dumps(module))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("how", ["deepcopy", "copy", "pickle", "save"])
def test_a_copy_that_the_function_makes_is_one_of_the_module_alone(how, hooked):
    model, copies = mlp(), []
    if hooked:
        model.register_forward_hook(keep_output)

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        copies.append(copies_of(model, how))
        return loss, model(x)

    compiled, x = thunder.jit(step), torch.randn(3, 8)
    for _ in range(4):
        compiled(x)
    made = copies[-1]
    assert set(made.__dict__) == set(model.__dict__) == set(mlp().__dict__)
    # A shallow copy shares the children, and no other one does.
    made._modules = {**made._modules, "2": nn.Linear(16, 3)}
    assert made(x).shape == (3, 3) and model(x).shape == (3, 4)


def keep_output(module, args, output):
    module.kept = output.detach()
    del module.kept


def test_forward_called_by_a_hook_and_by_itself():
    class Recursive(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 16, 8)

        def forward(self, x, depth):
            y = self.body(x)
            return self(y, depth - 1) if depth > 0 and y.sum().item() < 1e9 else y

    model, seen = Recursive(), []
    model.register_forward_pre_hook(lambda module, args: seen.append(module.__class__.forward(module, args[0], 0)))

    def step(x):
        loss = model(x, 2).sum()
        loss.backward()
        return loss, len(seen)

    compiled = thunder.jit(step)
    for n in (1, 2, 5, 8):
        x = torch.randn(n, 8)
        seen.clear()
        got = compiled(x)
        seen.clear()
        torch.testing.assert_close(got, step(x))
    assert "forward" not in model.__dict__ and "_compiled_call_impl" not in model.__dict__


def test_a_module_with_a_compiled_call_of_its_own_is_left_alone():
    model, calls = mlp(), []

    def own(*args):
        calls.append(1)
        return model._call_impl(*args)

    model._compiled_call_impl = own

    step = backward_of(model)
    compiled = thunder.jit(step)
    for n in range(1, 5):
        x = torch.randn(n, 8)
        calls.clear()
        torch.testing.assert_close(compiled(x), step(x))
        assert len(calls) >= 2
    assert model._compiled_call_impl is own and not inner(compiled)


@pytest.mark.parametrize("sizes", [[8], [5, 8, 1, 3]])
@pytest.mark.parametrize("what", ["gradients", "a counter"])
def test_an_environment_that_is_never_the_same(what, sizes):
    model, seen = mlp(), {"calls": 0}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        loss = model(x).square().mean()
        if what == "gradients":
            optimizer.zero_grad()
        else:
            seen["calls"] += 1
            seen[str(seen["calls"])] = True
        loss.backward()
        optimizer.step()
        return loss

    compiled, reference = thunder.jit(step), copy.deepcopy(model)
    for i in range(24):
        x = torch.randn(sizes[i % len(sizes)], 8)
        got, want = compiled(x), reference(x).square().mean()
        torch.testing.assert_close(got, want)
        reference.load_state_dict(model.state_dict())
    assert thunder.cache_misses(compiled) <= 6
    assert hits(compiled)[0] >= 16


def test_a_refusal_ends_with_its_cause():
    model, settings = mlp(), {"backward": True}

    def step(x):
        y = model(x).sum()
        if settings["backward"]:
            y.backward()
        return y

    compiled = thunder.jit(step)
    for n in (1, 2, 3, 5, 8):
        compiled(torch.randn(n, 8))
    settings["backward"] = False
    before = dict(eager_calls(compiled))
    for n in (8, 5):
        x = torch.randn(n, 8)
        torch.testing.assert_close(compiled(x), step(x))
    assert eager_calls(compiled) == before


def test_modules_of_a_function_that_is_refused_whatever_its_arguments_are():
    model = mlp()

    compiled = thunder.jit(backward_of(model))
    for n in range(1, 12):
        compiled(torch.randn(n, 8))
    assert thunder.cache_misses(compiled) == 3 and hits(compiled)[0] >= 7


def in_a_thread(f):
    thread = threading.Thread(target=f)
    thread.start()
    thread.join()


def in_a_pool(f):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(f).result()


POOL = ThreadPoolExecutor(1)


@pytest.mark.parametrize("run", [in_a_thread, in_a_pool, lambda f: POOL.submit(f).result()])
def test_a_function_with_threads(run):
    model = mlp()

    def f(x):
        results = []
        run(lambda: results.append(model(x * 2)))
        return results[0] + model(x)

    compiled = thunder.jit(f)
    for n in (1, 5, 8, 8, 5):
        x = torch.randn(n, 8)
        torch.testing.assert_close(compiled(x), f(x))
    assert hits(compiled)[0] > 0
