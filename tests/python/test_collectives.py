"""Communication that a user's function does itself: between two processes, every call as eager's."""

import datetime

import pytest
import torch
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

import thunder

pytestmark = pytest.mark.skipif(not distributed.is_gloo_available(), reason="this PyTorch is built without gloo")

WORLD = 2


def in_place(x):
    y = x * 2
    distributed.all_reduce(y)
    return y + 1


def largest(x):
    y = x * 2
    distributed.all_reduce(y, op=distributed.ReduceOp.MAX, group=distributed.group.WORLD)
    return y


def sent_to_all(x):
    y = x * 2
    distributed.broadcast(y, 1)
    return y


def gathered(x):
    y = torch.empty(WORLD * x.shape[0])
    distributed.all_gather_into_tensor(y, x * 2)
    return y


def scattered(x):
    y = torch.empty(x.shape[0] // WORLD)
    distributed.reduce_scatter_tensor(y, x.exp())
    return y


def exchanged(x):
    y = torch.empty_like(x)
    distributed.all_to_all_single(y, x * 3)
    return y


def read_by_one_rank(x):
    y = x * 2
    distributed.all_reduce(y)
    return y if distributed.get_rank() == 0 else x


def twice_on_one_rank(x):
    first = functional.all_reduce(x, "sum", distributed.group.WORLD)
    again = x if distributed.get_rank() == 0 else x * 2
    return first + functional.all_reduce(again, "sum", distributed.group.WORLD)


def with_a_list(x):
    parts = [torch.empty_like(x) for _ in range(WORLD)]
    distributed.all_gather(parts, x * 2)
    return torch.cat(parts)


def of_objects(x):
    objects = [None] * WORLD
    distributed.all_gather_object(objects, distributed.get_rank() + 1)
    return x * sum(objects)


def waited_for(x):
    y = x * 2
    distributed.all_reduce(y, async_op=True).wait()
    return y


def by_a_method(x):
    y = x * 2
    distributed.group.WORLD.allreduce([y]).wait()
    return y


def asks(x):
    return x * distributed.get_rank() + distributed.get_world_size()


RECORDED = [in_place, largest, sent_to_all, gathered, scattered, exchanged, read_by_one_rank, twice_on_one_rank, asks,
            with_a_list, waited_for]
LEFT = [of_objects, by_a_method]


def same_results(fn, rank):
    compiled = thunder.jit(fn)
    for i in range(3):
        x = torch.arange(4.0) + rank + i
        assert_close(compiled(x), fn(x), rtol=0, atol=0)
    stats = thunder.compile_stats(compiled)
    assert len(stats["eager_calls"]) == (fn in LEFT), (fn.__name__, stats)
    assert thunder.cache_misses(compiled) == 1


def same_gradients(rank):
    for collective in (lambda y: differentiable.all_reduce(y), lambda y: distributed.all_reduce(y)):

        def f(x, collective=collective):
            y = x * 2
            reduced = collective(y)
            return (y if reduced is None else reduced) * 3

        gradients = []
        for g in (f, thunder.jit(f)):
            x = (torch.arange(4.0) + rank).requires_grad_()
            g(x).sum().backward()
            gradients.append(x.grad)
        assert_close(*gradients)


def same_buffer(rank):
    """What is not an argument is written in every call."""
    buffers = [torch.ones(2) * (rank + 1) for _ in range(2)]

    def f(x, buffer):
        distributed.all_reduce(buffer)
        return x + buffer

    eager, compiled = (lambda x, b=b: f(x, b) for b in buffers)
    compiled = thunder.jit(compiled)
    for i in range(3):
        x = torch.ones(2) * i
        assert_close(compiled(x), eager(x))
        assert_close(*buffers)


def sharded(module):
    mesh = init_device_mesh("cpu", (WORLD,))  # the default is a GPU, on which PyTorch 2.11's gloo crashes
    for part in (module[0], module[2], module):
        fully_shard(part, mesh=mesh)
    return module


WRAPPED = {
    "jit(DDP)": lambda m: thunder.jit(DistributedDataParallel(m)),
    "DDP(jit)": lambda m: DistributedDataParallel(thunder.jit(m)),
    "jit(fully_shard)": lambda m: thunder.jit(sharded(m)),
}


def trained(wrap, rank):
    """The parameters after three steps, each rank's on its own data."""
    torch.manual_seed(0)
    module = wrap(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for i in range(3):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(10 * rank + i))
        module(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.full_tensor() if isinstance(p, DTensor) else p for p in module.parameters()]


def same_training(rank):
    expected = trained(DistributedDataParallel, rank)
    for name, wrap in WRAPPED.items():
        for actual, e in zip(trained(wrap, rank), expected, strict=True):
            assert_close(actual, e, msg=lambda text, name=name: f"{name}: {text}")


def barrier_in_every_call(rank):
    store = distributed.distributed_c10d._get_default_store()

    def f(x):
        distributed.barrier()
        return x + 1

    compiled = thunder.jit(f)
    for i in range(3):
        if rank == 1:
            torch.rand(2000, 2000).matmul(torch.rand(2000, 2000))  # so that it comes later
            store.set(f"came {i}", "1")
        compiled(torch.ones(2))
        assert store.check([f"came {i}"]), f"call {i} did not wait"


def process(rank, file):
    limit = datetime.timedelta(seconds=60)
    distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=WORLD, timeout=limit)
    try:
        for fn in RECORDED + LEFT:
            same_results(fn, rank)
        same_gradients(rank)
        same_buffer(rank)
        same_training(rank)
        barrier_in_every_call(rank)
    finally:
        distributed.destroy_process_group()


def test_two_processes(tmp_path):
    torch.multiprocessing.spawn(process, (tmp_path / "store",), nprocs=WORLD)


def test_without_a_process_group_errors_are_eagers():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        thunder.jit(in_place)(torch.ones(2))
