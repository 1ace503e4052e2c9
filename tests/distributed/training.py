"""Cases of training steps, which run on each process: against one process that has all the data."""

import contextlib
import copy
import functools

import models
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.testing import assert_close

import thunder
from thunder.distributed import FSDPBucketingStrategy, FSDPType, clip_grad_norm_, ddp, fsdp, no_sync, sync_grads


@functools.cache
def mesh_of_replicas(copies=2):
    """So many copies of shards over the rest of four processes."""
    return init_device_mesh("cpu", (copies, 4 // copies), mesh_dim_names=("replicas", "shards"))


COPIES = {"hybrid": 2, "hybrid of one": 1, "hybrid of four": 4}


def wrap(module, group, strategy, bucketing, **options):
    if strategy == "ddp":
        size = {"NONE": 0, "LAYER": 0.001, "BLOCK": 0.01, "AUTO": "auto"}[bucketing]
        return ddp(module, bucket_size_in_mb=size, process_group=group, **options)
    strategy, _, hybrid = strategy.partition(" ")
    where = {"mesh": mesh_of_replicas(COPIES[hybrid])} if hybrid else {"process_group": group}
    return fsdp(
        module,
        sharding_strategy=FSDPType[strategy],
        bucketing_strategy=FSDPBucketingStrategy[bucketing],
        **where,
        **options,
    )


def whole(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def steps(group, strategy, bucketing, extra, device="cpu"):
    """Three steps of AdamW, their gradients and the parameters after them."""
    rank, world = group.rank(), group.size()
    options = {"checkpointed": extra == "checkpointing"}
    expected, module = (models.make(seed=seed, **options).to(device) for seed in (0, rank))
    source = {} if strategy == "ddp" else {"broadcast_from": 0}
    model = thunder.jit(wrap(module, group, strategy, bucketing, **source))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    reference = torch.optim.AdamW(expected.parameters(), 1e-2)
    for step in range(3):
        micro = 3 if extra == "accumulation" else 1
        for i in range(micro):
            batches = models.tokens(10 * step + i, world).to(device)
            for batch in batches:
                (models.loss_of(expected, batch) / world / micro).backward()
            if i < micro - 1:
                with no_sync(model):
                    (models.loss_of(model, batches[rank]) / micro).backward()
            else:
                (models.loss_of(model, batches[rank]) / micro).backward()
        if extra == "clipping":
            norm = clip_grad_norm_(model, 0.1)
            assert_close(norm, nn.utils.clip_grad_norm_(expected.parameters(), 0.1), rtol=1e-6, atol=0)
        for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None), name
            if q.grad is not None:
                assert_close(whole(p.grad), q.grad, rtol=1e-6, atol=1e-9, msg=lambda m, n=name: f"{n}.grad: {m}")
        for o in (optimizer, reference):
            o.step()
            o.zero_grad()
    for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert_close(whole(p.detach()), q.detach(), rtol=1e-6, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")
    assert thunder.compile_stats(model)["cache_misses"] == (2 if extra == "accumulation" else 1)


class Exact(nn.Module):
    """Gradients that are whole numbers of a few bits."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.arange(n * 5.0).view(n, 5) % 5 - 2) for n in (7, 1, 4)])

    def forward(self, x):
        return sum((x @ w.t()).relu().sum() for w in self.weights)


def exact_gradients(group, strategy):
    """Sums of whole numbers are exact, so that gradients have the bits of one process's."""
    rank, world = group.rank(), group.size()
    module, expected = Exact(), Exact()
    model = thunder.jit(wrap(module, group, strategy, "AUTO"))
    data = torch.randint(-3, 4, (world, 6, 5), generator=torch.Generator().manual_seed(1)).float()
    model(data[rank]).backward()
    expected(data.flatten(0, 1)).backward()
    for p, q in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(whole(p.grad), q.grad / world)


def kept_in_place(group, strategy):
    """Products are added to what no_sync() keeps, and never to a cotangent that the caller holds."""
    rank, world = group.rank(), group.size()
    module = nn.Sequential(nn.Linear(5, 7, bias=False), nn.ReLU(), nn.Linear(7, 3))
    for p in module.parameters():
        p.data = torch.randint(-2, 3, p.shape, generator=torch.Generator().manual_seed(p.numel())).float()
    expected = copy.deepcopy(module)
    model = thunder.jit(wrap(module, group, strategy, "AUTO"))
    data = torch.randint(-3, 4, (3, world, 1, 5), generator=torch.Generator().manual_seed(1)).float()
    cotangent = torch.ones(1, 3)
    for i in range(3):
        # The bias of a batch of one has the cotangent itself for its gradient.
        with no_sync(model) if i < 2 else contextlib.nullcontext():
            model(data[i, rank]).backward(cotangent)
        for x in data[i]:
            expected(x).backward(torch.ones(1, 3) / world)
    assert torch.equal(cotangent, torch.ones(1, 3))
    for p, q in zip(model.parameters(), expected.parameters(), strict=True):
        assert_close(whole(p.grad), q.grad, rtol=1e-6, atol=1e-6)
    # Two weights, in the second and the third backward; ZeRO3 keeps rows, which are reduced first.
    assert thunder.compile_stats(model)["accumulated_gradients"] == (0 if strategy == "ZERO3" else 4)


def gathers(run):
    """How many times PyTorch gathered."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return sum(e.count for e in profile.key_averages() if "c10d::_allgather_base_" in e.key)


def gathered_once(group, strategy):
    """Micro-batches of a step share what the first one gathers, until a parameter is written to."""
    rank, world = group.rank(), group.size()
    expected, module = models.make(), models.make()
    model = thunder.jit(wrap(module, group, strategy, "LAYER"))

    def backward(i, sync):
        batches = models.tokens(i, world)
        with contextlib.nullcontext() if sync else no_sync(model):
            models.loss_of(model, batches[rank]).backward()
        for batch in batches:
            (models.loss_of(expected, batch) / world).backward()

    def halve():
        with torch.no_grad():
            for p in (*model.parameters(), *expected.parameters()):
                p.mul_(0.5)

    once = gathers(lambda: backward(0, True))
    assert once > 1
    counts = [gathers(lambda i=i: backward(i, i == 4)) for i in range(1, 5)]
    after = gathers(lambda: backward(5, True))
    halve()
    counts += [gathers(lambda i=i: backward(i, False)) for i in (6, 7)]
    halve()
    counts += [gathers(lambda i=i: backward(i, i == 9)) for i in (8, 9)]
    backward(10, False)
    sync_grads(model)
    counts += [gathers(lambda: backward(11, False)), gathers(lambda: sync_grads(model))]
    if strategy == "ZERO2":
        assert [after, *counts] == [once, once, 0, 0, 0, once, 0, once, 0, once, 0]
    else:
        assert [after, *counts] == [once] * 10 + [0]
    for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
        if q.grad is not None:
            assert_close(whole(p.grad), q.grad, rtol=1e-6, atol=1e-7, msg=lambda m, n=name: f"{n}.grad: {m}")


def written_by_one(group):
    """One process alone writes to its parameters between micro-batches, and gathers where the other does not."""
    model = thunder.jit(wrap(models.make(), group, "ZERO2", "LAYER"))
    batch = models.tokens(0, group.size())[group.rank()]
    for micro in range(3):
        if micro == 1 and group.rank() == 1:
            with torch.no_grad():
                next(model.parameters()).mul_(1.0)
        with no_sync(model) if micro < 2 else contextlib.nullcontext():
            models.loss_of(model, batch).backward()


def mixed_precision(group, strategy):
    """Parameters are gathered in bfloat16 and gradients reduced in float32."""
    rank, world = group.rank(), group.size()
    module, expected = models.make(dtype=torch.float32), models.make(dtype=torch.float32)
    expected.shift.data = expected.shift.bfloat16()
    module.shift.data = module.shift.bfloat16()
    options = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    model = thunder.jit(wrap(module, group, strategy, "BLOCK", **options))
    batches = models.tokens(0, world)
    out = model(batches[rank])
    assert out.dtype is torch.bfloat16 or out.dtype is torch.float32  # the 0-d scale stays float32
    nn.functional.cross_entropy(out.flatten(0, -2).float(), batches[rank].flatten()).backward()
    low = {n: p.detach().bfloat16() if p.dim() > 0 else p.detach() for n, p in expected.named_parameters()}
    eager = {n: p.clone().requires_grad_() for n, p in low.items()}
    exact = {n: p.double().requires_grad_() for n, p in low.items()}
    for batch in batches:
        for parameters in (eager, exact):
            out = torch.func.functional_call(expected, parameters, (batch,)).flatten(0, -2)
            wide = torch.promote_types(out.dtype, torch.float32)
            (nn.functional.cross_entropy(out.to(wide), batch.flatten()) / world).backward()
    for name, p in model.named_parameters():
        if not p.requires_grad or exact[name].grad is None:
            continue
        assert p.grad.dtype is torch.float32 and p.dtype is torch.float32
        # Twice eager's own rounding, and one of the largest gradient.
        rounding = 2 * (eager[name].grad - exact[name].grad).abs().max() + exact[name].grad.abs().max() / 256
        difference = (whole(p.grad) - exact[name].grad).abs().max()
        assert difference <= rounding, f"{name}.grad differs by {difference:.3g}, eager's by half of {rounding:.3g}"
