"""Modes, tracers, transforms and classes of tensors see of a compiled function what eager shows them."""

import gc
import warnings

import pytest
import torch
import torch.autograd.forward_ad as fw
from devices import DEVICE, ON_CPU
from eager_checks import eager_calls
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from watchers import AROUND, Doubling, DoublingOperators, Pack, Plain, Shouting, Weight, quiet, shown, trained, x3

import thunder

pytestmark = pytest.mark.fuser

FUNCTIONS = {
    "a kernel": lambda x: torch.mul(torch.sin(x), 2),
    "kernels and operators": lambda x: torch.mul(torch.sin(x), 2) + torch.cumsum(torch.exp(x) * x, 0),
}


WITHOUT_CUMSUM = [AROUND[n] for n in ("no tensor, with overrides", "masked tensor", "nested tensor", "jagged tensor")]


def same(got, want):
    if isinstance(want, dict):
        return same([*got.items()], [*want.items()])
    if isinstance(want, (list, tuple)):
        assert isinstance(got, (list, tuple)) and len(got) == len(want), (got, want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
    elif isinstance(want, torch.Tensor):
        torch.testing.assert_close(got, want)
    else:
        assert got == want, (got, want)


@pytest.mark.parametrize("fn", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_of_a_function(around, fn):
    with quiet():
        if around in WITHOUT_CUMSUM:
            fn = FUNCTIONS["a kernel"]
        want = around(fn)
        warm = thunder.jit(fn)
        warm(x3())
        warm(x3(requires_grad=True)).sum().backward()
        for f in (thunder.jit(fn), warm, warm):
            same(around(f), want)
    hits = thunder.compile_stats(warm)["cache_hits"]
    same(trained(warm, x3(requires_grad=True)), trained(fn, x3(requires_grad=True)))
    assert thunder.compile_stats(warm)["cache_hits"] == hits + 1, "what was compiled is gone"


def test_a_backward_is_not_differentiated_without_a_word():
    x = x3(requires_grad=True)
    y = thunder.jit(FUNCTIONS["a kernel"])(x)
    gradient = lambda ct: torch.autograd.grad(y, x, ct, retain_graph=True)[0]
    with pytest.raises(RuntimeError, match="Call the original function there"):
        torch.func.jvp(gradient, (x3(),), (x3(),))
    with fw.dual_level(), pytest.raises(RuntimeError, match="Call the original function there"):
        gradient(fw.make_dual(x3(), x3()))
    with fw.dual_level():
        same(gradient(x3()), torch.autograd.grad(FUNCTIONS["a kernel"](x), x, x3())[0])


# ---- modules --------------------------------------------------------------------------------------------------------


def make_net():
    torch.manual_seed(0)
    with torch.device(DEVICE):  # a module of fake tensors cannot be moved
        return nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


def state_of(m):
    return {k: v.detach() for k, v in m.named_parameters()}


def exported(m):
    ran = torch.export.export(m, (x3()[None],)).module()
    return ran(x3()[None] + 1)


def module_trace(m):
    return torch.jit.trace(m, x3()[None])(x3()[None] + 1)


def module_fx(m):
    graph = make_fx(lambda p, x: torch.func.functional_call(m, p, x))(state_of(m), x3()[None])
    return graph(state_of(m), x3()[None] + 1)


def module_gradients(m):
    return torch.func.grad(lambda p: torch.func.functional_call(m, p, (x3()[None],)).sum())(state_of(m))


def gradients_of_samples(m):
    loss = lambda p, x: torch.func.functional_call(m, p, (x[None],)).sum()
    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(state_of(m), torch.stack([x3(), x3() + 1]))


def ensemble(m):
    stacked = {k: torch.stack([v, v * 2]) for k, v in state_of(m).items()}
    return torch.func.vmap(lambda p: torch.func.functional_call(m, p, (x3()[None],)))(stacked)


def dual_parameters(m):
    with fw.dual_level():
        duals = {k: fw.make_dual(v, torch.ones_like(v)) for k, v in state_of(m).items()}
        return list(fw.unpack_dual(torch.func.functional_call(m, duals, (x3()[None],))))


def module_in_fake_mode(m):
    with FakeTensorMode(allow_non_fake_inputs=True):
        y = m(torch.randn(1, 3, device=DEVICE))
        return shown(y)


def module_modes(m):
    with Doubling() as f, DoublingOperators() as d:
        m(x3()[None]).sum().backward()
    grads = [p.grad for p in m.parameters()]
    m.zero_grad()
    return f.seen, d.seen, grads


def module_aot(m):
    from functorch.compile import aot_module, nop

    aot_module(m, nop)(x3()[None]).sum().backward()
    grads = [p.grad for p in m.parameters()]
    m.zero_grad()
    return grads


def module_dynamo(m):
    torch._dynamo.reset()
    torch.compile(m, backend="aot_eager")(x3()[None]).sum().backward()
    grads = [p.grad for p in m.parameters()]
    m.zero_grad()
    return grads


def module_flops(m):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode:
        m(x3()[None]).sum().backward()
    m.zero_grad()
    return mode.get_total_flops(), {str(k): v for k, v in mode.get_flop_counts()["Global"].items()}


def backward_flops(m):
    from torch.utils.flop_counter import FlopCounterMode

    loss = m(x3()[None]).sum()
    with FlopCounterMode(display=False) as mode:
        loss.backward()
    m.zero_grad()
    return mode.get_total_flops()


def backward_in_fake_mode(m):
    loss = m(x3()[None]).sum()
    grads = []
    for p in m.parameters():
        p.register_hook(lambda g: grads.append(shown(g)))
    with FakeTensorMode(allow_non_fake_inputs=True):
        loss.backward()
    m.zero_grad()
    return sorted(grads, key=str)


MODULES = {
    "export": exported,
    "jit.trace": module_trace,
    "make_fx": module_fx,
    "grad": module_gradients,
    "grad of samples": gradients_of_samples,
    "ensemble": ensemble,
    "dual parameters": dual_parameters,
    "fake mode": module_in_fake_mode,
    "modes": module_modes,
    "aot_module": module_aot,
    "compile": module_dynamo,
    "FlopCounterMode": module_flops,
    "FlopCounterMode, backward": backward_flops,
    "fake mode, backward": backward_in_fake_mode,
}


@pytest.mark.parametrize("around", MODULES.values(), ids=MODULES)
def test_of_a_module(around):
    with quiet():
        want = around(make_net())
        same(around(thunder.jit(make_net())), want)
        warm = thunder.jit(make_net())
        warm(x3()[None]).sum().backward()
        warm.zero_grad()
        for _ in range(2):
            same(around(warm), want)
    hits = thunder.compile_stats(warm)["cache_hits"]
    same(warm(x3()[None]), make_net()(x3()[None]))
    assert thunder.compile_stats(warm)["cache_hits"] == hits + 1, "what was compiled is gone"


def test_modules_made_in_fake_mode():
    def run(jit):
        with FakeTensorMode():
            m = jit(make_net())
            m(torch.randn(1, 3, device=DEVICE)).sum().backward()
            return [shown(m(torch.randn(1, 3, device=DEVICE))), *(shown(p.grad) for p in m.parameters())]

    same(run(thunder.jit), run(lambda m: m))


def test_parameters_that_become_other_tensors():
    def run(jit):
        torch.manual_seed(0)
        m, out = nn.Sequential(nn.Linear(3, 3), nn.GELU()).to(DEVICE), []
        f = jit(m)
        for kind in (Shouting, nn.Parameter, Plain, Weight, nn.Parameter):
            w = m[0].weight.detach().as_subclass(torch.Tensor)
            m[0].weight = nn.Parameter(w.as_subclass(kind)) if kind in (Shouting, Plain) else kind(w)
            y = f(x3()[None])
            out += [type(y).__name__, y.detach().as_subclass(torch.Tensor)]
        return out

    same(run(thunder.jit), run(lambda m: m))


def test_a_parameter_whose_class_is_assigned():
    m = nn.Linear(3, 3).to(DEVICE)
    f = thunder.jit(m)
    f(x3()[None])
    m.weight.__class__ = Weight
    f(x3()[None])
    assert list(eager_calls(f).values()) == [1]
    m.weight.__class__ = nn.Parameter
    f(x3()[None])
    assert list(eager_calls(f).values()) == [1]


def test_lazy_modules_are_compiled_once_they_know_their_sizes():
    m = nn.Sequential(nn.LazyLinear(4), nn.GELU()).to(DEVICE)
    f = thunder.jit(m)
    with quiet():
        got = [f(x3()[None]) for _ in range(3)]
    for y in got:
        same(y, m(x3()[None]))
    assert sum(eager_calls(f).values()) <= 1 and thunder.compile_stats(f)["cache_hits"] >= 1


# ---- what the function meets, or makes, on its way ----------------------------------------------------------------


def mode_inside(x):
    with Doubling():
        y = torch.sin(x)
    return y + torch.sin(x)


def dispatch_mode_inside(x):
    with DoublingOperators() as mode:
        y = torch.sin(x)
    return y + torch.sin(x), mode.seen


def dual_inside(x):
    with fw.dual_level():
        return fw.unpack_dual(torch.sin(fw.make_dual(x, torch.ones_like(x)))).tangent


def fake_inside(x):
    with FakeTensorMode() as mode:
        shape = tuple(torch.sin(mode.from_tensor(x)).shape)
    return x * shape[0]


def flops_inside(x):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode:
        y = x[None] @ x[:, None]
    return y * mode.get_total_flops()


def disabled_inside(x):
    with torch._C.DisableTorchFunction():
        return torch.sin(x) * 2


CAPTURED = {"shouting": x3().as_subclass(Shouting), "plain": x3().as_subclass(Plain), "weight": Weight(x3()),
            "pack": Pack(x3(), x3())}  # fmt: skip


def of_attribute(x):
    return x * CAPTURED["weight"].scale if isinstance(CAPTURED["weight"], Weight) else x


INSIDE = {
    "function mode": mode_inside,
    "dispatch mode": dispatch_mode_inside,
    "dual level": dual_inside,
    "fake mode": fake_inside,
    "FlopCounterMode": flops_inside,
    "DisableTorchFunction": disabled_inside,
    "vmap": lambda x: torch.vmap(torch.sin)(x),
    "grad": lambda x: torch.func.grad(lambda y: torch.sin(y).sum())(x),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,)),
    "as_subclass": lambda x: x.as_subclass(Plain) * 2,
    "a global with overrides": lambda x: torch.mul(CAPTURED["shouting"], x),
    "a global's class": lambda x: torch.mul(CAPTURED["plain"], x),
    "a global parameter's class": lambda x: torch.mul(CAPTURED["weight"], x),
    "an object with overrides": lambda x: torch.mul(CAPTURED["pack"], x),
    "an object with overrides, in Python": lambda x: F.softmax(CAPTURED["pack"], 0),
    "a global with overrides, in Python": lambda x: F.softmax(torch.mul(CAPTURED["shouting"], x), 0),
    "an attribute of a class": of_attribute,
}


@pytest.mark.parametrize("fn", INSIDE.values(), ids=INSIDE)
def test_inside_of_a_function(fn):
    with quiet():
        want = fn(x3())
        f = thunder.jit(fn)
        for _ in range(2):
            got = f(x3())
            assert type(got) is type(want)
            same(shown(got), shown(want))


def test_what_is_found_out_once_is_not_found_out_again():
    f = thunder.jit(INSIDE["a global with overrides"])
    for _ in range(5):
        f(x3())
    stats = thunder.compile_stats(f)
    assert stats["cache_misses"] == 1 and stats["cache_hits"] == 4
    ((why, calls),) = eager_calls(f).items()
    assert calls == 5 and "Shouting" in why and "test_watchers.py" in why


# ---- bookkeeping ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [lambda: torch.quantize_per_tensor(x3(), 0.1, 0, torch.qint8), lambda: x3().cpu().to_mkldnn()],
    ids=["quantized", "mkldnn"],
)
def test_what_lies_in_memory_in_another_way(make):
    fn = lambda x: x.dequantize() if x.is_quantized else x.to_dense()
    f = thunder.jit(fn)
    same(f(make()), fn(make()))
    assert sum(eager_calls(f).values()) == 1


def test_stats_say_why():
    f = thunder.jit(FUNCTIONS["a kernel"])
    f(x3())
    with Doubling():
        f(x3())
        f(x3())
    with FakeTensorMode(allow_non_fake_inputs=True):
        f(x3())
    f(x3().as_subclass(Plain))
    assert eager_calls(f) == {
        "the torch function mode Doubling is active": 2,
        "the torch dispatch mode FakeTensorMode is active": 1,
        "an argument is a tensor of class Plain": 1,
    }


def test_a_transform_that_would_be_left_out_is_an_error():
    f = thunder.jit(FUNCTIONS["a kernel"], transforms=[lambda trace: trace])
    same(f(x3()), FUNCTIONS["a kernel"](x3()))
    with Doubling(), pytest.raises(NotImplementedError, match="Doubling is active, where only the function itself"):
        f(x3())


def test_a_device_for_what_is_made_is_no_watcher():
    f = thunder.jit(lambda x: x + torch.ones(3))
    with torch.device(DEVICE):
        same(f(x3()), x3() + 1)
    x = x3()
    with torch.device("meta"), pytest.raises(RuntimeError):
        f(x)
    g = thunder.jit(lambda x: torch.ones(3))
    with torch.device("meta"):
        assert g(x3()).device.type == "meta"
    assert not eager_calls(f) and not eager_calls(g)


def test_modes_of_another_thread_do_not_matter():
    import threading

    f = thunder.jit(FUNCTIONS["a kernel"])
    f(x3())
    inside, done = threading.Event(), threading.Event()

    def hold():
        with Doubling(), DoublingOperators():
            inside.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    f(x3())
    done.set()
    thread.join()
    assert not eager_calls(f)


def test_numbers_where_operators_take_tensors():
    """PyTorch shows a mode numbers in place of tensors that are wrapped numbers, and maximum() takes none."""

    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def f(x, n):
        return x.clamp(-1, n) * x.exp() * x.long().clamp(0, 3)

    for n in (0.5, 1):
        for options in ({}, {"cache": "symbolic values"}):
            a, b = (x3(requires_grad=True) for _ in range(2))
            y = thunder.jit(f, **options)(a, n)
            with Passing():
                y.sum().backward()
            f(b, n).sum().backward()
            torch.testing.assert_close(a.grad, b.grad)


def test_nothing_is_kept_alive():
    import weakref

    f = thunder.jit(FUNCTIONS["a kernel"])
    x = x3().as_subclass(Plain)
    alive = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert alive() is None


@pytest.mark.filterwarnings("error")
@pytest.mark.skipif(not ON_CPU, reason="gloo's mesh is one of CPUs")
def test_distributed_tensors():
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("PyTorch without torch.distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = dist.HashStore()
        dist.init_process_group("gloo", rank=0, world_size=1, store=store)
        try:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            from torch.distributed.tensor import DTensor, Shard, distribute_module, distribute_tensor

            mesh = init_device_mesh("cpu", (1,))
            fn = FUNCTIONS["a kernel"]
            f, x = thunder.jit(fn), distribute_tensor(x3(), mesh, [Shard(0)])
            got = f(x)
            assert isinstance(got, DTensor)
            same(got.to_local(), fn(x3()))
            m = distribute_module(make_net(), mesh)
            compiled = thunder.jit(m)
            y = compiled(distribute_tensor(x3()[None], mesh, [Shard(0)]))
            assert isinstance(y, DTensor)
            y.sum().backward()
            want = make_net()
            want(x3()[None]).sum().backward()
            for p, q in zip(m.parameters(), want.parameters(), strict=True):
                same(p.grad.full_tensor(), q.grad)
            assert sum(eager_calls(compiled).values()) == 1
            sharded = thunder.jit(fully_shard(make_net(), mesh=mesh))
            for _ in range(2):
                sharded(x3()[None]).sum().backward()
            same([p.grad.full_tensor() for p in sharded.parameters()], [p.grad * 2 for p in want.parameters()])
        finally:
            dist.destroy_process_group()
