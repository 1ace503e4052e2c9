"""Models whose parameters ask for everything that a wrapping has to think of."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

TOKENS = 11


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, 2 * width + 3)  # rows that no world divides
        self.second = nn.Linear(2 * width + 3, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.norm(self.second(self.first(x).relu()))


class Model(nn.Module):
    """A tied weight, a frozen, an unused and a 0-d parameter, fewer rows than processes, a buffer."""

    def __init__(self, width=8, checkpointed=False):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(2)])
        self.head = nn.Linear(width, TOKENS, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(()))
        self.single = nn.Parameter(torch.ones(1, width))
        self.frozen = nn.Parameter(torch.full((width,), 2.0), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.full((width,), 0.5))
        self.checkpointed = checkpointed

    def forward(self, tokens):
        x = self.embedding(tokens) * self.frozen + self.shift
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x * self.single) * self.scale


def make(seed=0, dtype=torch.float64, kind=Model, **options):
    torch.manual_seed(seed)
    return kind(**options).to(dtype)


def tokens(step, world, batch=2, length=4):
    """Each process's batch of a step, stacked."""
    return torch.randint(0, TOKENS, (world, batch, length), generator=torch.Generator().manual_seed(step))


def loss_of(model, batch):
    return nn.functional.cross_entropy(model(batch).flatten(0, -2).double(), batch.flatten())
