"""Cases of Fabric with our strategies, which run on each of all processes, against one process without Lightning."""

import contextlib
import os
from pathlib import Path

import models
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from training import whole

import thunder


@contextlib.contextmanager
def launched(group):
    """As on a process that a launcher has started."""
    before = os.environ.get("LOCAL_RANK")
    os.environ["LOCAL_RANK"] = str(group.rank())
    try:
        yield
    finally:
        if before is None:
            del os.environ["LOCAL_RANK"]
        else:
            os.environ["LOCAL_RANK"] = before


def strategy_named(name, **options):
    from thunder.distributed.lightning.fabric import ThunderDDPStrategy, ThunderFSDPStrategy

    if name == "ddp":
        return ThunderDDPStrategy(bucket_size_in_mb=0.001, **options)
    return ThunderFSDPStrategy(sharding_strategy=name, bucketing_strategy="block", **options)


def fabric_of(group, strategy, precision="32-true"):
    import lightning

    fabric = lightning.Fabric(accelerator="cpu", devices=group.size(), strategy=strategy, precision=precision)
    fabric.launch()
    assert fabric.world_size == group.size() and fabric.global_rank == group.rank()
    return fabric


def loss_of(model, batch):
    """Fabric gives outputs in float32."""
    return nn.functional.cross_entropy(model(batch).flatten(0, -2).float(), batch.flatten())


class Reference:
    """One process with the data of all."""

    def __init__(self, world, low=None, autocast=False):
        self.world, self.autocast = world, autocast
        self.model = models.make().to(low) if low else models.make()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2)

    def step(self, number, clip=None):
        for i in range(2):
            for batch in models.tokens(2 * number + i, self.world):
                with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
                    loss = loss_of(self.model, batch)
                (loss / 2 / self.world).backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), clip) if clip else None
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def check(self, model, rtol=1e-5, atol=1e-5):
        for (name, p), q in zip(model.named_parameters(), self.model.parameters(), strict=True):
            got = whole(p.detach())
            assert_close(got, q.detach(), rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}")


def step(fabric, model, optimizer, number, clip=None):
    for i in range(2):
        with fabric.no_backward_sync(model, enabled=i == 0):
            loss = loss_of(model, models.tokens(2 * number + i, fabric.world_size)[fabric.global_rank])
            fabric.backward(loss / 2)
    norm = fabric.clip_gradients(model, optimizer, max_norm=clip) if clip else None
    optimizer.step()
    optimizer.zero_grad()
    return norm


def set_up(fabric, seed):
    module = models.make(seed=seed)
    return fabric.setup(module, torch.optim.AdamW(module.parameters(), 1e-2))


def steps(group, strategy):
    """Three steps with accumulation and clipping."""
    with launched(group):
        fabric = fabric_of(group, strategy_named(strategy, executors=["sdpa", "fuser"]))
        reference = Reference(group.size())
        model, optimizer = set_up(fabric, seed=group.rank())
        for number in range(3):
            norm = step(fabric, model, optimizer, number, clip=0.1)
            assert_close(norm, reference.step(number, clip=0.1), rtol=1e-5, atol=0, check_dtype=False)
        reference.check(model)
        assert thunder.compile_stats(model._forward_module).cache_misses == 2  # with and without reductions


def checkpoints(group, strategy, path, options):
    """Training goes on from a checkpoint in other modules."""
    with launched(group):
        fabric = fabric_of(group, strategy_named(strategy, **options))
        reference = Reference(group.size())
        model, optimizer = set_up(fabric, seed=0)
        step(fabric, model, optimizer, 0)
        reference.step(0)
        fabric.save(path, {"model": model, "optimizer": optimizer, "step": 1, "names": ["a"]})
        model, optimizer = set_up(fabric, seed=5)
        state = {"model": model, "optimizer": optimizer, "step": 0}
        rest = fabric.load(path, state)
        assert state["step"] == 1 and rest == {"names": ["a"]}
        reference.check(model)
        step(fabric, model, optimizer, 1)
        reference.step(1)
        reference.check(model)
        with pytest.raises(KeyError, match="'missing'"):
            fabric.load(path, {"model": model, "missing": 0})
        if Path(path).is_file():
            _read_by_one_process(path, group.size(), reference)
            fabric.load_raw(path + ".raw", model)
            assert_close(model.state_dict()["scale"], torch.full((), 3.0, dtype=torch.float64))


def _read_by_one_process(path, world, reference):
    stored = torch.load(path)
    other = Reference(world)
    other.model.load_state_dict(stored["model"])
    other.optimizer.load_state_dict(stored["optimizer"])
    other.step(1)
    reference.check(other.model)
    if torch.distributed.get_rank() == 0:
        torch.save({**other.model.state_dict(), "scale": torch.full((), 3.0)}, path + ".raw")
    torch.distributed.barrier()


def precision(group, strategy, name):
    with launched(group):
        fabric = fabric_of(group, strategy_named(strategy), name)
        low = torch.bfloat16 if name == "bf16-true" else torch.float32
        reference = Reference(group.size(), low, autocast=name == "bf16-mixed")
        model = fabric.setup(models.make().float())
        optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), 1e-2))
        assert all(p.dtype is low for p in model.parameters())
        for number in range(2):
            step(fabric, model, optimizer, number)
            reference.step(number)
        reference.check(model, rtol=0.05, atol=0.02)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x):
        return self.second(self.first(x).relu())


def meta_device(group):
    with launched(group):
        fabric = fabric_of(group, strategy_named("ZERO3"))
        with fabric.init_module(empty_init=True):
            module = Plain()
        assert all(p.is_meta for p in module.parameters())
        torch.manual_seed(group.rank())
        model = fabric.setup(module)
        values = [whole(p.detach()) for p in model.parameters()]
        torch.manual_seed(0)
        assert_close(values, [p.detach() for p in Plain().parameters()], rtol=0, atol=0)


def services(group, strategy):
    """What Fabric asks of a strategy besides training."""
    with launched(group):
        fabric = fabric_of(group, strategy_named(strategy, jit=False))
        rank, world = group.rank(), group.size()
        fabric.barrier()
        assert fabric.broadcast({"from": rank}) == {"from": 0}
        assert fabric.all_reduce(torch.tensor(float(rank))).item() == (world - 1) / 2
        assert fabric.all_gather(torch.tensor(rank)).tolist() == list(range(world))
        torch.manual_seed(0)
        model = fabric.setup(Plain())
        assert not isinstance(model._forward_module, thunder.ThunderModule)
        compiled = thunder.jit(lambda x: model._forward_module(x).square().mean())
        optimizer = fabric.setup_optimizers(torch.optim.SGD(model.parameters(), 0.1))
        x = torch.full((2, 5), rank + 1.0)
        fabric.backward(compiled(x) * float("inf"))
        before = [whole(p.grad).clone() for p in model.parameters()]
        with pytest.raises(RuntimeError, match="non-finite|is (nan|inf)"):
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
        assert_close([whole(p.grad) for p in model.parameters()], before, equal_nan=True)
        fabric.clip_gradients(model, optimizer, clip_val=0.5)
        assert all(whole(p.grad).nan_to_num().abs().max() <= 0.5 for p in model.parameters())


def set_ups(group):
    """Modules that are compiled already, and optimizers that have stepped."""
    with launched(group):
        fabric = fabric_of(group, strategy_named("ZERO2"))
        torch.manual_seed(0)
        compiled = thunder.jit(Plain(), executors=["aten"])
        compiled(torch.ones(2, 5))
        model = fabric.setup(compiled)
        assert model._forward_module is compiled and thunder.compile_data(compiled).process_group_for_ddp is not None
        model(torch.ones(2, 5)).sum().backward()
        assert compiled.second.bias.grad.full_tensor().tolist() == [2.0] * 3
        other = Plain()
        optimizer = torch.optim.SGD(other.parameters(), 0.1, momentum=0.9)
        other(torch.ones(2, 5)).sum().backward()
        optimizer.step()
        with pytest.raises(RuntimeError, match="state for whole parameters"):
            fabric.setup(other, optimizer)


def options(_):
    """Those that nobody takes, or that have no effect, are refused."""
    from thunder.distributed.lightning.fabric import ThunderDDPStrategy, ThunderFSDPStrategy

    with pytest.raises(TypeError, match="has the options sharding_strategy, bogus"):
        ThunderDDPStrategy(sharding_strategy="ZERO3", bogus=1)
    with pytest.raises(ValueError, match="'ZERO1'; it has ZERO2, ZERO3"):
        ThunderFSDPStrategy(sharding_strategy="ZERO1")
    with pytest.raises(ValueError, match="without effect for jit=False: executors"):
        ThunderDDPStrategy(jit=False, executors=["sdpa"])
