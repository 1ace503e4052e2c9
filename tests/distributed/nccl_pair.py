"""Collectives by copies between two GPUs: beside NCCL's, in training steps, and when a process is killed."""

import itertools
import os
import signal
import sys
import time

import torch
import training
from test_training import BUCKETINGS, EXTRAS, STRATEGIES
from torch import distributed

import thunder
from thunder import _C
from thunder.distributed import _peers


def check_collectives(group):
    """Sums of small integers are exact in every order."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        for n in (1, 2, 1000, 100_001, 9 << 20):
            generator = torch.Generator("cuda").manual_seed(group.rank())
            x = torch.randint(-3, 4, (2 * n,), device="cuda", generator=generator).to(dtype)
            for op, name in ((distributed.ReduceOp.SUM, "sum"), (distributed.ReduceOp.AVG, "avg")):
                expected = x.clone()
                distributed.all_reduce(expected, op)
                if group.rank() == n % 2:
                    torch.cuda._sleep(10_000_000)
                assert torch.equal(_C.all_reduce(group.group_name, x.clone(), name, "a sum"), expected), (dtype, n)


def check_what_is_reached(group):
    """The owner writes to its part as soon as the gather of the values before is over."""

    @thunder.jit
    def gather(x):
        whole = x.new_empty((2 * x.shape[0],))
        distributed.all_gather_into_tensor(whole, x)
        return whole

    sizes = (1, 1000, 9 << 20)
    shards, _kept = _peers.reachable(group, [torch.empty(n, device="meta") for n in sizes])
    staged = torch.empty(5000, device="cuda")
    for i in range(30):
        for x in [*shards, staged]:
            if group.rank() == i % 2:
                torch.cuda._sleep(1_000_000)
            x.fill_(2 * i + group.rank())
            whole = gather(x)
            x.fill_(-1)
            expected = torch.tensor([2.0 * i, 2.0 * i + 1], device="cuda").repeat_interleave(x.shape[0])
            assert torch.equal(whole, expected), (i, x.shape)


def killed(group):
    """The rank that is left raises, and its streams do not wait for ever."""
    x = torch.ones(20 << 20, device="cuda")
    if group.rank() == 1:
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGKILL)
    start, error = time.monotonic(), None
    while error is None and time.monotonic() < start + 20:
        try:
            _C.all_reduce(group.group_name, x, "avg", "a sum")
            torch.cuda.synchronize()
        except RuntimeError as e:
            error = str(e)
    torch.cuda.synchronize()
    seconds = time.monotonic() - start
    assert error and "rank 1" in error and seconds < 9, (error, seconds)


def main(rank, file):
    torch.cuda.set_device(rank)
    store = distributed.FileStore(file, 2)
    distributed.init_process_group("nccl", store=store, rank=rank, world_size=2)
    group = distributed.group.WORLD
    _peers.LEAST_BYTES = 0
    _peers.share_memory(group, gathers=True, reduces=True)
    assert _peers._shared[group.group_name][1], "the GPUs are not linked"
    check_collectives(group)
    check_what_is_reached(group)
    for settings in itertools.product(STRATEGIES, BUCKETINGS, EXTRAS):
        training.steps(group, *settings, "cuda")
    print("steps done", flush=True)
    killed(group)
    print("done", flush=True)
    os._exit(0)  # a destructor would wait for the other process


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
