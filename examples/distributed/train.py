"""Trains a small language model on several processes, on made-up tokens, and goes on from its checkpoint.

    torchrun --nproc-per-node 2 examples/distributed/train.py --strategy zero3 --checkpoint /tmp/checkpoint
"""

import argparse
import os
import time

import torch
from torch import distributed, nn

import thunder
from thunder.distributed import FSDPType, clip_grad_norm_, ddp, fsdp, load, no_sync, save

TOKENS, WIDTH, LENGTH = 256, 128, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        heads = [t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1)]
        attended = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Model(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))


def loss_of(model, rank, step):
    """On counting sequences, others on each process and in each step."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    first = torch.randint(0, TOKENS, (8, 1), generator=generator)
    tokens = ((first + torch.arange(LENGTH + 1)) % TOKENS).to(next(model.parameters()).device)
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=["ddp", "zero2", "zero3"], default="zero3")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--checkpoint", help="a folder; training goes on from it if it is there")
    args = parser.parse_args()

    distributed.init_process_group()
    rank = distributed.get_rank()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    model = Model().to("cuda" if torch.cuda.is_available() else "cpu")
    if args.strategy == "ddp":
        model = ddp(model)
    else:
        model = fsdp(model, broadcast_from=0, sharding_strategy=FSDPType[args.strategy.upper()])
    model = thunder.jit(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    state = {"model": model, "optimizer": optimizer, "step": 0}
    if args.checkpoint and os.path.exists(args.checkpoint):
        load(state, args.checkpoint)

    for step in range(state["step"], state["step"] + args.steps):
        start = time.perf_counter()
        with no_sync(model):
            for i in range(args.micro_batches - 1):
                (loss_of(model, rank, 100 * step + i) / args.micro_batches).backward()
        loss = loss_of(model, rank, 100 * step + args.micro_batches - 1)
        (loss / args.micro_batches).backward()
        norm = clip_grad_norm_(model, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            ms = 1e3 * (time.perf_counter() - start)
            print(f"step {step}: loss {loss.item():.3f}, norm {norm.item():.3f}, {ms:.0f} ms", flush=True)
    state["step"] += args.steps
    if args.checkpoint:
        save(state, args.checkpoint)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
