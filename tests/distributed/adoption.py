"""Cases of modules that PyTorch's data parallelism wraps: compiled, against the same module in eager."""

import contextlib
import warnings

import models
import pytest
import torch
from torch import distributed, nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode
from training import COPIES, Exact, mesh_of_replicas, whole

import thunder

# The reshard_after_forward of blocks and root; None: as FSDP chooses.
RESHARDS = {"fsdp": (None, None), "ZERO2": (False, False), "ZERO3": (True, True)}


def make(seed=0, **options):
    module = models.make(seed, **options)
    module.scale = nn.Parameter(torch.ones(1).double())  # fully_shard takes no parameter without dimensions
    return module


def mesh_of(group):
    return DeviceMesh.from_group(group, "cpu")


def wrap(module, group, way, **options):
    if way == "ddp":
        options = {"find_unused_parameters": True, **options}
        return DistributedDataParallel(module, process_group=group, **options)
    way, _, hybrid = way.partition(" ")
    of_blocks, of_root = RESHARDS[way]
    mesh = mesh_of_replicas(COPIES[hybrid]) if hybrid else mesh_of(group)
    for block in getattr(module, "blocks", ()):
        fully_shard(block, mesh=mesh, reshard_after_forward=of_blocks, **options)
    return fully_shard(module, mesh=mesh, reshard_after_forward=of_root, **options)


def same(actual, expected, what="", **tolerances):
    """Parameters and gradients, and that these are of one kind."""
    tolerances = {"rtol": 1e-6, "atol": 1e-8, **tolerances}
    for (name, p), (_, q) in zip(actual.named_parameters(), expected.named_parameters(), strict=True):

        def say(m, name=name):
            return f"{what} {name}: {m}"

        assert (p.grad is None) == (q.grad is None), say("one has no gradient")
        assert type(p) is type(q), say(f"{type(p)}, not {type(q)}")
        if q.grad is not None:
            assert type(p.grad) is type(q.grad) and p.grad.dtype is q.grad.dtype, say(type(p.grad))
            if isinstance(q.grad, DTensor):
                assert p.grad.placements == p.placements and p.grad.to_local().shape == q.grad.to_local().shape
            assert_close(whole(p.grad), whole(q.grad), msg=lambda m, s=say: s(f"gradient: {m}"), **tolerances)
        assert_close(whole(p.detach()), whole(q.detach()), msg=say, **tolerances)


def texts(model):
    return str(thunder.last_traces(model)[-1]), str(thunder.last_backward_traces(model)[-1])


def communicates(model, way):
    """The programs themselves have the collectives."""
    forward, backward = texts(model)
    way, _, hybrid = way.partition(" ")
    over = "_replicas" if hybrid and COPIES[hybrid] > 1 else ""
    assert ("torch_all_gather" in forward) == (way != "ddp")
    assert ("torch_all_gather" in backward) == (way in ("fsdp", "ZERO3"))
    assert f"torch_all_reduce{over}_prim_impl" in backward  # in sharded models of the vector that tells what is used
    assert (f"torch_reduce_scatter{over}_prim_impl" in backward) == (way != "ddp")


def accumulating(module, way):
    """Backwards of calls inside do not reduce gradients."""
    if way == "ddp":
        return module.no_sync()

    @contextlib.contextmanager
    def without():
        module.set_requires_gradient_sync(False)
        yield
        module.set_requires_gradient_sync(True)

    return without()


def train(model, optimizer, group, step, micro=1, way=None, through=None):
    for i in range(micro):
        batch = models.tokens(10 * step + i, group.size())[group.rank()]
        last = i == micro - 1
        with contextlib.nullcontext() if last else accumulating(through or model, way):
            (models.loss_of(model, batch) / micro).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if optimizer:
        optimizer.step()
    return norm


def steps(group, way, extra):
    """Three steps of AdamW, whose optimizer was made before the compilation."""
    checkpointed = extra == "checkpointing"
    modules = [wrap(make(checkpointed=checkpointed), group, way) for _ in range(2)]
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in modules]
    before = dict(modules[1].named_parameters())
    micro = 3 if extra in ("accumulation", "accumulation by the original") else 1
    if extra == "after eager":
        for m, o in zip(modules, optimizers, strict=True):
            train(m, o, group, 9)
            o.zero_grad()
    expected, model = modules[0], thunder.jit(modules[1])
    through = modules[1] if extra == "accumulation by the original" else model
    for step in range(3):
        norms = [
            train(expected, optimizers[0], group, step, micro, way),
            train(model, optimizers[1], group, step, micro, way, through),
        ]
        assert_close(whole(norms[1]), whole(norms[0]), rtol=1e-6, atol=0)
        same(model, expected, f"step {step}")
        for o in optimizers:
            o.zero_grad()
    communicates(model, way)
    assert thunder.compile_stats(model)["cache_misses"] == (2 if micro > 1 else 1)
    after = dict(model.named_parameters())
    assert after.keys() == before.keys() and all(after[n] is before[n] for n in before)


def exact(group, way):
    """Sums of whole numbers are exact, so that gradients have the bits of eager's."""
    expected, model = wrap(Exact(), group, way), thunder.jit(wrap(Exact(), group, way))
    data = torch.randint(-3, 4, (group.size(), 6, 5), generator=torch.Generator().manual_seed(1)).float()
    for m in (expected, model):
        # Eager divides by the world before it adds.
        (m(x=data[group.rank()]) * group.size()).backward()
    same(model, expected, rtol=0, atol=0)


def functions_of_thunders(group, way):
    """thunder.distributed's functions take the module, before its first call, too."""
    expected, model = wrap(make(), group, way), thunder.jit(wrap(make(), group, way))
    batches = [models.tokens(i, group.size())[group.rank()] for i in range(2)]
    with accumulating(expected, way):
        models.loss_of(expected, batches[0]).backward()
    with thunder.distributed.no_sync(model):
        models.loss_of(model, batches[0]).backward()
    for m in (expected, model):
        models.loss_of(m, batches[1]).backward()
    same(model, expected)
    norms = nn.utils.clip_grad_norm_(expected.parameters(), 0.1), thunder.distributed.clip_grad_norm_(model, 0.1)
    assert_close(norms[1], whole(norms[0]), rtol=1e-6, atol=0)
    same(model, expected)
    assert thunder.distributed.has_fsdp_modules(model) == (way != "ddp")


class Net(nn.Module):
    """With buffers that each forward changes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)
        self.double()

    def forward(self, x, scale=1.0):
        return self.last(self.norm(self.first(x)).relu()) * scale


def inputs(group, step):
    data = torch.randn(group.size(), 6, 4, generator=torch.Generator().manual_seed(step)).double()
    return data[group.rank()]


@pytest.mark.filterwarnings("ignore:.*broadcast_buffers:FutureWarning")
def buffers(group, broadcast):
    """Rank 0's buffers are everyone's in the forward, as often as in DistributedDataParallel."""
    expected, wrapper = (wrap(Net(), group, "ddp", broadcast_buffers=broadcast) for _ in range(2))
    model = thunder.jit(wrapper)
    for step, kind in enumerate(["train", "no_sync", "no_sync", "train", "eval", "unjitted", "train"]):
        x = inputs(group, step)
        for m in (expected, model):
            m.train(kind != "eval")
            with m.no_sync() if kind == "no_sync" else contextlib.nullcontext():
                called = wrapper if kind == "unjitted" and m is model else m
                out = called(x, scale=2.0).square().sum()
                if kind != "eval":
                    out.backward()
        if kind != "no_sync":
            same(model, expected, f"step {step}")
            for m in (expected, model):
                m.zero_grad()
        for (name, a), (_, b) in zip(model.named_buffers(), expected.named_buffers(), strict=True):
            assert_close(a, b, msg=lambda m, n=name, s=step: f"step {s}, {n}: {m}")


def unwrapped_calls(group):
    """The DistributedDataParallel object itself runs the compiled module; the module in it is each process's own."""
    wrapper = wrap(make(), group, "ddp")
    seen = []
    wrapper.register_forward_pre_hook(lambda m, args: seen.append(m))
    model, expected = thunder.jit(wrapper), wrap(make(), group, "ddp")
    batch = models.tokens(0, group.size())[group.rank()]
    for called in (model, wrapper, model):
        for m in (called, expected):
            m.zero_grad()
            models.loss_of(m, batch).backward()
        same(model, expected)
    assert len(seen) == 3 and seen[0] is wrapper
    assert thunder.compile_stats(model)["cache_misses"] == 1
    alone = make()
    model.zero_grad()
    for m in (alone, model.module):
        models.loss_of(m, batch).backward()
    same(model.module, alone)
    again = thunder.jit(wrapper)
    again.zero_grad()
    models.loss_of(again, batch).backward()
    same(again, expected)


def outer(group):
    """DistributedDataParallel around a compiled module: PyTorch's reducer, after the program's backward."""
    compiled = thunder.jit(make())
    model, expected = wrap(compiled, group, "ddp"), wrap(make(), group, "ddp")
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (expected, model)]
    for step in range(3):
        for m, o in zip((expected, model), optimizers, strict=True):
            train(m, o, group, step, 2, "ddp")
        same(model, expected, f"step {step}")
        for o in optimizers:
            o.zero_grad()
    assert thunder.cache_misses(compiled) == 1


def settings_of_ddp(group):
    """Each option of the constructor's gives eager's gradients; frozen and ignored parameters are left alone."""
    for options in (
        {"bucket_cap_mb": 1e-4},
        {"gradient_as_bucket_view": True},
        {"static_graph": True, "find_unused_parameters": False},
        {"device_mesh": mesh_of(group)},
    ):
        modules = []
        for _ in range(2):
            net = Net()
            net.norm = nn.Identity()
            net.first.bias.requires_grad_(False)
            DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["last.bias"])
            given = options if "device_mesh" in options else {"process_group": group, **options}
            modules.append(DistributedDataParallel(net, **{"find_unused_parameters": True, **given}))
        expected, model = modules[0], thunder.jit(modules[1])
        for step in range(2):
            for m in (expected, model):
                m(inputs(group, step)).square().sum().backward()
            same(model, expected, options)
        buckets = texts(model)[1].count("torch_all_reduce_prim_impl")
        assert buckets == (3 if "bucket_cap_mb" in options else 2), texts(model)[1]


def frees_the_reducer(group):
    """The memory of PyTorch's buckets goes with their hooks."""
    import weakref

    wrapper = wrap(make(), group, "ddp")
    reducer = weakref.ref(wrapper.reducer)
    model = thunder.jit(wrapper)
    model(models.tokens(0, 1)[0])
    assert reducer() is None


def refusals_of_ddp(group):
    def hook(state, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer() * 0)
        return future

    batch = models.tokens(0, 1)[0]
    wrapper = wrap(make(), group, "ddp")
    wrapper.register_comm_hook(None, hook)
    with pytest.raises(NotImplementedError, match=r"communication hook .*hook cannot be compiled.*thunder\.jit\(mod"):
        thunder.jit(wrapper)(batch)
    model = thunder.jit(wrap(make(), group, "ddp"))
    model(batch)
    with pytest.raises(NotImplementedError, match=r"DistributedDataParallel\.register_comm_hook\(\) has no effect"):
        model.register_comm_hook(None, hook)
    with pytest.raises(NotImplementedError, match=r"join\(\) has no effect.*call that of what thunder\.jit returned"):
        model._original.join()
    with pytest.raises(RuntimeError, match=r"reducer\._rebuild_buckets: the reducer is gone"):
        model.reducer._rebuild_buckets()
    lookup = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    model = thunder.jit(wrap(lookup, group, "ddp"))
    with pytest.warns(UserWarning, match="sparse gradients is not compiled. The module runs by eager") as seen:
        for _ in range(2):
            model(torch.tensor([group.rank()])).sum().backward()
    assert len(seen) == 1 and not thunder.last_traces(model)
    assert_close(lookup[1].bias.grad, torch.full((2,), 2.0))


def state_dicts(group, way, path):
    """Names and values are eager's, and PyTorch's checkpoints are read and written."""
    model, expected = thunder.jit(wrap(make(), group, way)), wrap(make(), group, way)
    keys = list(expected.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for again in range(2):
        assert list(model.state_dict()) == keys
        for name, value in get_model_state_dict(model).items():
            assert torch.equal(whole(value), whole(get_model_state_dict(expected)[name])), name
        if again == 0:
            for m in (model, expected):
                models.loss_of(m, models.tokens(0, group.size())[group.rank()]).backward()
    train(model, optimizer, group, 1)
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=path, process_group=group)
    loaded = thunder.jit(wrap(make(seed=3), group, way))
    models.loss_of(loaded, models.tokens(0, 1)[0])
    parts = get_model_state_dict(loaded)
    dcp.load({"model": parts}, checkpoint_id=path, process_group=group)
    set_model_state_dict(loaded._original, parts)
    batch = models.tokens(2, 1)[0]
    assert_close(loaded(batch), model(batch))
    full = StateDictOptions(full_state_dict=True)
    whole_state = get_model_state_dict(model._original, options=full)
    other = make(seed=4)
    other.load_state_dict(whole_state)
    assert_close(model(batch), other(batch))


def mixed_precision(group, policy, tolerance):
    """Casts of parameters, inputs and outputs are FSDP's, of each module that fully_shard was applied to."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
            self.last = nn.Linear(6, 3)

        def forward(self, x, mask=None):
            h = x["h"] if policy.cast_forward_inputs else x["h"].to(policy.param_dtype)
            types = [h.dtype]
            for block in self.blocks:
                h = block(h).relu()
                types.append(h.dtype)
            return self.last(h.to(self.last.weight.dtype)), types

    policy = MixedPrecisionPolicy(**policy)
    modules = [wrap(Both(), group, "fsdp", mp_policy=policy) for _ in range(2)]
    expected, model = modules[0], thunder.jit(modules[1])
    x = torch.randn(group.size(), 4, 6, generator=torch.Generator().manual_seed(0))[group.rank()]
    outs = []
    for m in (expected, model):
        out, types = m({"h": x})
        out.float().square().sum().backward()
        outs.append((out, types))
    assert outs[0][0].dtype is outs[1][0].dtype and outs[0][1] == outs[1][1]
    assert_close(outs[1][0], outs[0][0], rtol=tolerance, atol=tolerance)
    same(model, expected, rtol=tolerance, atol=tolerance)
    dtype = {torch.bfloat16: "bf16", torch.float32: "f32"}
    backward = texts(model)[1]
    reduced = policy.reduce_dtype or policy.param_dtype or torch.float32
    scatters = [line for line in backward.splitlines() if "torch_reduce_scatter_prim_impl" in line]
    assert scatters and all(f"cpu {dtype[reduced]}[" in line for line in scatters), scatters


def methods_of_fsdp(group):
    """What FSDP's methods do to a compiled module."""
    module, expected = wrap(make(), group, "fsdp"), wrap(make(), group, "fsdp")
    model = thunder.jit(module)
    batch = models.tokens(0, group.size())[group.rank()]

    def check():
        for m in (model, expected):
            m.zero_grad()
            models.loss_of(m, batch).backward()
        same(model, expected)

    model.set_modules_to_forward_prefetch(list(module.blocks))
    check()
    model.set_modules_to_backward_prefetch([module.blocks[0]])
    model.set_is_last_backward(True)
    model.zero_grad()
    expected.zero_grad()
    model.unshard()
    assert_close(module.embedding.weight, make().embedding.weight)
    assert not isinstance(module.embedding.weight, DTensor)
    for m in (model, expected):
        models.loss_of(m, batch).backward()
    same(model, expected)
    model.unshard(async_op=True).wait()
    model.reshard()
    check()
    with pytest.raises(RuntimeError, match=r"FSDPBlock was called outside of the compiled module"):
        module.blocks[0](torch.ones(2, 8).double())
    with pytest.raises(RuntimeError, match=r"FSDPModel was called outside of the compiled module"):
        module(batch)
    module.blocks[0].set_requires_gradient_sync(False)
    with pytest.raises(NotImplementedError, match=r"set_requires_gradient_sync\(\) was set for some modules only"):
        model(batch)
    module.blocks[0].set_requires_gradient_sync(True)
    check()
    for name in ("set_custom_all_gather", "set_gradient_divide_factor", "set_reshard_after_forward"):
        with pytest.raises(NotImplementedError, match=rf"FSDPModule\.{name}\(\) has no effect"):
            getattr(model, name)(None)
    again = thunder.jit(module)
    for m in (again, expected):
        m.zero_grad()
        models.loss_of(m, batch).backward()
    same(again, expected)
    assert_close(model.eval()(batch), expected(batch))


def parts(group):
    """Blocks alone, ignored parameters: what fully_shard was not applied to is each process's own."""
    modules = []
    for _ in range(2):
        module = make()
        fully_shard(module.blocks[0], mesh=mesh_of(group))
        fully_shard(module.blocks[1], mesh=mesh_of(group), ignored_params={module.blocks[1].norm.weight})
        modules.append(module)
    expected, model = modules[0], thunder.jit(modules[1])
    for step in range(2):
        for m in (expected, model):
            models.loss_of(m, models.tokens(step, group.size())[group.rank()]).backward()
        same(model, expected, f"step {step}")
    assert not isinstance(model.embedding.weight, DTensor)
    assert "torch_reduce_scatter_prim_impl" in texts(model)[1]


def groups_are_buckets(group):
    """One collective for each call of fully_shard; the root's parameters are kept for the backward."""
    model = thunder.jit(wrap(make(), group, "fsdp"))
    models.loss_of(model, models.tokens(0, 1)[0]).backward()
    forward, backward = texts(model)
    assert forward.count("torch_all_gather_prim_impl") == 3 and backward.count("torch_reduce_scatter_prim_impl") == 3
    gathered_again = [line for line in backward.splitlines() if "torch_all_gather_prim_impl" in line]
    assert len(gathered_again) == 2 and all("blocks." in line for line in gathered_again), gathered_again


def regions(group):
    """A block that is compiled within a module that eager runs; a compiled module itself cannot be sharded."""
    expected, model = (wrap(make(), group, "fsdp") for _ in range(2))
    model.blocks[1] = thunder.jit(model.blocks[1])
    for step in range(2):
        for m in (expected, model):
            m.zero_grad()
            models.loss_of(m, models.tokens(step, group.size())[group.rank()]).backward()
        for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None), name
            if q.grad is not None:
                assert_close(whole(p.grad), whole(q.grad), msg=lambda m, n=name: f"{n}: {m}")
    assert "torch_reduce_scatter_prim_impl" in texts(model.blocks[1])[1]
    with pytest.raises(TypeError, match=r"cannot become FSDPThunderModule.*jit\(fully_shard\(module\)\)"):
        fully_shard(thunder.jit(make()), mesh=mesh_of(group))


def meta_device(group):
    """Compiled while parameters have no memory yet."""
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    for part in (module[0], module):
        fully_shard(part, mesh=mesh_of(group))
    model = thunder.jit(module)
    model.to_empty(device="cpu")
    torch.manual_seed(2)
    values = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    set_model_state_dict(module, values.state_dict(), options=StateDictOptions(full_state_dict=True))
    x = torch.ones(2, 4) * (group.rank() + 1)
    model(x).sum().backward()
    for rank in range(group.size()):
        (values(torch.ones(2, 4) * (rank + 1)).sum() / group.size()).backward()
    for p, q in zip(model.parameters(), values.parameters(), strict=True):
        assert_close(whole(p.grad), q.grad)


class _Gather:
    def __init__(self):
        from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultAllGather

        self.default = DefaultAllGather()

    def allocate(self, *args, **kwargs):
        return self.default.allocate(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        return self.default(*args, **kwargs)


def _divided(module, group):
    fully_shard(module, mesh=mesh_of(group))
    module.set_force_sum_reduction_for_comms(True)  # gloo has no other
    module.set_gradient_divide_factor(1.0)


class Waits(nn.Module):
    """What no program can have."""

    def forward(self, x):
        distributed.barrier(self.group)
        return x.relu()


def _waiting(module, group, way):
    module[1] = Waits()
    module[1].group = group
    return wrap(module, group, way)


LEFT_TO_EAGER = {
    "communicates with other processes": lambda m, g: _waiting(m, g, "fsdp"),
    "with other processes (barrier())": lambda m, g: _waiting(m, g, "ddp"),
    "set_requires_all_reduce": lambda m, g: fully_shard(m, mesh=mesh_of_replicas()).set_requires_all_reduce(False),
    "CPUOffloadPolicy": lambda m, g: fully_shard(
        m, mesh=mesh_of(g), offload_policy=CPUOffloadPolicy(pin_memory=False)
    ),
    "shards of other dimensions": lambda m, g: fully_shard(
        m, mesh=mesh_of(g), shard_placement_fn=lambda p: Shard(1) if p.shape == (8, 4) else None
    ),
    "custom communication": lambda m, g: fully_shard(m, mesh=mesh_of(g)).set_custom_all_gather(_Gather()),
    "set_gradient_divide_factor": _divided,
    "register_fsdp_forward_method": lambda m, g: register_fsdp_forward_method(
        fully_shard(m, mesh=mesh_of(g)), "apply"
    ),
    "requires_gradient_sync": lambda m, g: (
        fully_shard(m[0], mesh=mesh_of(g)),
        fully_shard(m, mesh=mesh_of(g)),
        m[0].set_requires_gradient_sync(False),
    ),
}


def left_to_eager(group, reason):
    """What programs do not do runs as before, with one warning."""

    def made():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        wrapper = LEFT_TO_EAGER[reason](module, group)
        return wrapper if isinstance(wrapper, nn.Module) else module

    expected, module = made(), made()
    model = thunder.jit(module)
    x = torch.ones(2, 4) * (group.rank() + 1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            model(x).sum().backward()
    text = [str(w.message) for w in seen if str(w.message).startswith("[jit]")]
    assert len(text) == 1 and reason in text[0] and "runs by eager" in text[0], text
    for _ in range(2):
        expected(x).sum().backward()
    same(model, expected)
    assert not thunder.last_traces(model)


def eager_on_some(group, way):
    """One process has a program and the other cannot have one: both raise, and nothing waits for ever."""
    from thunder.distributed import _adopt

    _adopt._MOST_COMPILATION = 2.0
    model = thunder.jit(wrap(Exact(), group, way))
    x = torch.ones(6, 5)
    if group.rank() == 0:
        watched = FlopCounterMode(display=False)
        with pytest.raises(NotImplementedError, match="where only the function itself can run"), watched:
            model(x)
        thunder._C.post_failure("gave up")
    else:
        with pytest.raises(RuntimeError, match="rank 0 failed: gave up"):
            model(x).backward()


def errors(group, way):
    """What the module's own code raises is what the caller gets."""

    class Raises(nn.Linear):
        def forward(self, x):
            if x.dim() == 3:
                raise ValueError("three dimensions")
            return super().forward(x)

    model = thunder.jit(wrap(Raises(3, 2), group, way))
    for _ in range(2):
        with pytest.raises(ValueError, match="^three dimensions$"):
            model(torch.ones(1, 2, 3))
        model(torch.ones(2, 3)).sum().backward()
    assert_close(whole(model.get_parameter(("module." if way == "ddp" else "") + "bias").grad), torch.full((2,), 4.0))
