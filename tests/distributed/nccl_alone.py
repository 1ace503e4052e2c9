"""Training steps in a process group of NCCL's that has one process."""

import itertools

import torch
import training
from test_training import BUCKETINGS, EXTRAS, STRATEGIES
from torch import distributed

if __name__ == "__main__":
    store = distributed.HashStore()
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    for settings in itertools.product(STRATEGIES, BUCKETINGS, EXTRAS):
        training.steps(distributed.group.WORLD, *settings, "cuda")
    distributed.destroy_process_group()
    print("done")
