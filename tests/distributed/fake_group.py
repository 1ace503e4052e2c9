"""A group whose other ranks do not exist, as PyTorch's backend "fake" makes it: what one process of many runs."""

import torch
from joins import check_shadow
from torch import distributed, nn
from torch.testing._internal.distributed.fake_pg import FakeStore

import thunder
from thunder.distributed import FSDPType, ddp, fsdp


def main():
    distributed.init_process_group("fake", rank=1, world_size=4, store=FakeStore())
    for kind in (ddp, fsdp):
        for strategy in FSDPType if kind is fsdp else (None,):
            model = nn.Sequential(nn.Linear(6, 10), nn.GELU(), nn.Linear(10, 5))
            model = kind(model) if strategy is None else kind(model, sharding_strategy=strategy)
            compiled = thunder.jit(model)
            for _ in range(2):
                y = compiled(torch.randn(3, 6))
                assert y.shape == (3, 5)
                y.sum().backward()
            for p in model.parameters():
                assert p.grad.shape == p.shape
            if kind is fsdp:
                assert model[0].weight.to_local().shape == (3, 6)
            stats = thunder.compile_stats(compiled)
            assert not stats["eager_calls"] and thunder.last_traces(compiled), stats
            check_shadow(compiled, torch.randn(3, 6))
    print("done")


if __name__ == "__main__":
    main()
