"""Gradients that several processes accumulate together, compiled and in eager."""

import pytest
import torch
from devices import ON_CPU
from test_gradient_accumulation import close, in_place
from torch import nn

import thunder


def worker(rank, world, file, queue):
    """Gradients after three micro-batches, two of them without a reduction, compiled and in eager."""
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world, init_method=f"file://{file}")
    try:
        results, counts = [], []
        for compile in (thunder.jit, lambda m: m):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).double()
            f = compile(model)
            parallel = nn.parallel.DistributedDataParallel(f)
            torch.manual_seed(1 + rank)
            for synced in (False, False, True):
                parallel.require_backward_grad_sync = synced
                parallel(torch.randn(3, 8).double()).sum().backward()
            results.append([p.grad.tolist() for p in model.parameters()])
            counts.append(in_place(f) if compile is thunder.jit else 0)
        queue.put((rank, results, counts[0]))
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.distributed
@pytest.mark.skipif(not ON_CPU, reason="its processes run on the CPU")
@pytest.mark.parametrize("world", [1, 2])
def test_distributed_data_parallel(world, tmp_path):
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=worker, args=(r, world, str(tmp_path / "store"), queue)) for r in range(world)]
    for p in processes:
        p.start()
    gradients = {}
    for _ in processes:
        rank, (got, want), count = queue.get(timeout=120)
        for a, b in zip(got, want, strict=True):
            close(torch.tensor(a), torch.tensor(b))
        assert count == 0  # its hooks are on every leaf
        gradients[rank] = got
    for p in processes:
        p.join()
        assert p.exitcode == 0
    for rank in range(1, world):
        assert gradients[rank] == gradients[0]
