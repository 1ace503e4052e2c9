"""Gradients that several processes accumulate together, compiled and in eager."""

import datetime
import faulthandler

import pytest
import torch
from devices import ON_CPU
from test_gradient_accumulation import close, in_place
from torch import nn

import thunder

SECONDS = 120  # that a process may take, and half of it a reduction


def worker(rank, world, folder):
    """Gradients after three micro-batches, two of them without a reduction, compiled and in eager."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    torch.distributed.init_process_group(
        "gloo", rank=rank, world_size=world, init_method=f"file://{folder}/store",
        timeout=datetime.timedelta(seconds=SECONDS / 2),
    )  # fmt: skip
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
        torch.save((results, counts[0]), f"{folder}/{rank}")
        # Where a DistributedDataParallel is the last to hold a process group, PyTorch waits for gloo's threads with the
        # GIL held, which these may want: one in some hundred runs stands still, in eager as well.
        del parallel, model, f
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.distributed
@pytest.mark.skipif(not ON_CPU, reason="its processes run on the CPU")
@pytest.mark.parametrize("world", [1, 2])
def test_distributed_data_parallel(world, tmp_path):
    torch.multiprocessing.spawn(worker, (world, str(tmp_path)), nprocs=world)
    gradients = []
    for rank in range(world):
        (got, want), count = torch.load(tmp_path / str(rank))
        for a, b in zip(got, want, strict=True):
            close(torch.tensor(a), torch.tensor(b))
        assert count == 0  # its hooks are on every leaf
        gradients.append(got)
    assert all(g == gradients[0] for g in gradients)
