"""Cases of transformers that parallelize_module was called on, and fully_shard over other processes: as eager."""

import contextlib

import pytest
import torch
from dtensors import (
    LENGTH,
    WHOLE,
    Columns,
    Pair,
    Rows,
    compare,
    compiled_without_eager,
    mesh_of,
    numbers,
    parallel,
    same,
)
from tensor_parallel import VOCABULARY, WIDTH, Language, collectives, plan_of_language, tokens
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional as F
from torch.testing import assert_close
from training import whole

import thunder


class Model(Language):
    """A language model whose blocks may be checkpointed, with a head of its own."""

    def __init__(self, checkpointed=False):
        super().__init__(checkpointed=checkpointed)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)


def plan_of(sequence):
    return {
        **plan_of_language(sequence),
        "head": Columns(input_layouts=LENGTH if sequence else WHOLE, output_layouts=WHOLE),
    }


def grid(*sizes, names=("dp", "tp")):
    return init_device_mesh("cpu", sizes, mesh_dim_names=names)


def sharded(module, mesh, again=True, **options):
    for block in module.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=again, **options)
    return fully_shard(module, mesh=mesh, reshard_after_forward=again, **options)


def language(group, way, **options):
    """A model, and which of the data its process has of how many."""
    kind, _, sequence = way.partition(" ")
    plan = plan_of(sequence == "sequence")
    if kind == "alone":
        return parallel(lambda: Model(**options), mesh_of(group), plan), 0, 1
    if kind == "copies":
        mesh = grid(2, 1, 2, names=("replicate", "shard", "tp"))
        data, own = mesh["replicate", "shard"], mesh["replicate"]
    else:
        mesh = grid(2, group.size() // 2)
        data = own = mesh["dp"]
    module = parallel(lambda: Model(**options), mesh["tp"], plan)
    return sharded(module, data, again=kind != "ZERO2"), own.get_local_rank(), own.size()


def loss_of(model, step, rank, world):
    batch = tokens(step, world)[rank]
    return F.cross_entropy(model(batch).flatten(0, 1), batch.flatten())


def clipped(module, norm):
    """The norm before. PyTorch 2.11 scales sums wrongly that were not added up, which eager's backward leaves."""
    for p in module.parameters():
        if isinstance(p.grad, DTensor) and p.grad.placements != p.placements:
            p.grad = p.grad.redistribute(placements=p.placements)
    return whole(nn.utils.clip_grad_norm_(module.parameters(), norm))


def steps(group, way, extra):
    """Three steps of AdamW, with eager's losses, norms, gradients and parameters."""
    options = {"checkpointed": extra == "checkpointing"}
    (expected, rank, world), (module, *_) = (language(group, way, **options) for _ in range(2))
    before = dict(module.named_parameters())
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (expected, module)]
    if extra == "after eager":
        for m, o in zip((expected, module), optimizers, strict=True):
            loss_of(m, 9, rank, world).backward()
            o.step()
            o.zero_grad()
    model = thunder.jit(module)
    if extra == "optimizer afterwards":
        optimizers[1] = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(3):
        losses, norms = [], []
        for m in (expected, model):
            for part in range(2 if extra == "accumulation" else 1):
                losses.append(loss_of(m, step + 10 * part, rank, world))
                losses[-1].backward()
            if way.endswith("sequence"):  # elsewhere PyTorch refuses plain gradients beside DTensors
                norms.append(clipped(m, 0.5))
        half = len(losses) // 2
        assert_close(losses[half:], losses[:half])
        assert_close(norms[1:], norms[:-1])
        same(model, expected, f"step {step}")
        for o in optimizers:
            o.step()
            o.zero_grad()
    same(model, expected, "in the end")
    compiled_without_eager(model)
    after = dict(model.named_parameters())
    assert after.keys() == before.keys() and all(after[n] is before[n] for n in before)
    assert thunder.compile_stats(model)["cache_misses"] == 1
    check_collectives(model, way)


def check_collectives(model, way):
    """A block's three projections read one gathered input, whose gradient is reduced once."""
    found = collectives(model)
    if way == "alone sequence":
        assert found["forward", "reduce_scatter"] == 3 and found["forward", "all_gather"] == 4, found  # of logits, too
        assert found["backward", "reduce_scatter"] == 3 and found["backward", "all_gather"] == 3, found
    elif way == "alone":
        assert found["forward", "all_reduce"] == 3 and found["forward", "all_gather"] == 1, found


def thunders_functions(group, way):
    """thunder.distributed's functions know which processes have the parts of what."""
    (expected, rank, world), (module, *_) = (language(group, way) for _ in range(2))
    model = thunder.jit(module)
    loss_of(expected, 0, rank, world).backward()
    with contextlib.nullcontext() if way.startswith("alone") else thunder.distributed.no_sync(model):
        loss_of(model, 0, rank, world).backward()
    if not way.startswith("alone"):
        thunder.distributed.sync_grads(model)
    same(model, expected)
    for m in (expected, model):
        loss_of(m, 1, rank, world).backward()
    same(model, expected)
    assert_close(thunder.distributed.clip_grad_norm_(model, 0.1), clipped(expected, 0.1))
    same(model, expected)


def mixed_precision(group):
    """FSDP's casts, of DTensors too."""
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    mesh, plan = grid(2, 2), plan_of(True)
    modules = [sharded(parallel(Model, mesh["tp"], plan).float(), mesh["dp"], mp_policy=policy) for _ in range(2)]
    expected, model = modules[0], thunder.jit(modules[1])
    losses = [loss_of(m, 0, mesh["dp"].get_local_rank(), 2) for m in (expected, model)]
    assert losses[0].dtype is losses[1].dtype
    assert_close(losses[1], losses[0], rtol=0.05, atol=0.05)
    for loss in losses:
        loss.backward()
    same(model, expected, rtol=0.05, atol=0.05)
    compiled_without_eager(model)


def errors(group):
    """What a module raises, what no program does at the first call, and later."""

    class Raising(Pair):
        def forward(self, x):
            if x.dim() == 3:
                raise ValueError("three dimensions")
            return super().forward(x) if x.shape[0] < 4 else super().forward(x.cumsum(0))

    def made(plan, kind=Raising):
        return fully_shard(parallel(kind, mesh["tp"], plan), mesh=mesh["dp"])

    mesh = grid(2, 2)
    plan = {"up": Columns(), "down": Rows()}
    expected, model = made(plan), thunder.jit(made(plan))
    for _ in range(2):
        with pytest.raises(ValueError, match="^three dimensions$"):
            model(numbers(1, 2, 8))
        compare(model, expected, numbers(3, 8))
    compiled_without_eager(model)
    # Over features, of which each process has a part.
    plan = {"up": Columns(use_local_output=False), "down": Rows()}

    class Soft(Pair):
        def forward(self, x):
            return self.down(self.up(x).softmax(-1) if x.shape[0] > 3 else self.up(x))

    expected, model = made(plan, Soft), thunder.jit(made(plan, Soft))
    with pytest.warns(UserWarning, match=r"softmax\(\) of a DTensor.*runs by eager"):
        compare(model, expected, numbers(4, 8))
    compare(model, expected, numbers(3, 8))
    assert not thunder.last_traces(model)
    model = thunder.jit(made(plan, Soft))
    compare(model, expected, numbers(3, 8))
    with pytest.raises(NotImplementedError, match=r"softmax\(\) of a DTensor.*only the function itself can run"):
        model(numbers(4, 8))
