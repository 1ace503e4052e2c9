"""Cases of processes with different numbers of batches, and a module that PyTorch's data parallelism wraps."""

import adoption
import models
import pytest
import torch
from joins import batch_of
from torch import nn
from torch.testing import assert_close
from training import whole

import thunder


class Counts(nn.Module):
    """A buffer that each forward writes to."""

    def __init__(self):
        super().__init__()
        self.model = adoption.make()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, tokens):
        self.seen.add_(1)
        return self.model(tokens) * (1 + self.seen.double() / 100)


def adopted(group, way, broadcast=True):
    """DistributedDataParallel and fully_shard of PyTorch's, once they have been called; against DDP in eager."""
    rank, world = group.rank(), group.size()
    options = {"broadcast_buffers": broadcast} if way == "ddp" else {}
    model = thunder.jit(adoption.wrap(Counts(), group, way, **options))
    expected = adoption.wrap(Counts(), group, "ddp", broadcast_buffers=broadcast)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, expected)]

    def step(optimizer):
        optimizer.step()
        optimizer.zero_grad()

    if way != "ddp":
        with pytest.raises(RuntimeError, match="call the module once"):
            model.join(step=print)
    for counts in ([1, 1, 1, 1], [0, 3, 2, 1], [2, 0, 0, 0]):
        first = counts[0] == counts[1]
        for m, o in zip((model, expected), optimizers, strict=True):
            given = {"step": lambda: step(optimizers[0])} if m is model and way != "ddp" else {}
            context = torch.enable_grad() if first else m.join(**given)
            with context:
                for i in range(counts[rank]):
                    models.loss_of(m, batch_of(rank, i, world)).backward()
                    step(o)
        for (name, p), (_, q) in zip(model.named_parameters(), expected.named_parameters(), strict=True):
            assert_close(whole(p.detach()), q.detach(), rtol=1e-6, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}")
        if way == "ddp":
            assert_close(dict(model.named_buffers()), dict(expected.named_buffers()))
