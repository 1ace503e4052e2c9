"""Pre-trains a litgpt model with sharded parameters on made-up tokens; goes on from the last checkpoint in --out.

    torchrun --nproc-per-node 2 examples/distributed/pretrain_litgpt.py --out /tmp/pretrain
    torchrun --nproc-per-node 8 examples/distributed/pretrain_litgpt.py --model tiny-llama-1.1b --precision bf16-true \
        --length 2048 --micro-batch 4 --out /data/pretrain

It needs `pip install lightning litgpt`.
"""

import argparse
import math
import os
import time
from pathlib import Path

import lightning
import torch
from litgpt.config import Config
from litgpt.model import GPT
from torch.utils.data import DataLoader, Dataset

from thunder.distributed.lightning.fabric import ThunderFSDPStrategy

SMALL = {
    "name": "small", "n_layer": 4, "n_head": 4, "n_embd": 128, "intermediate_size": 352, "vocab_size": 256,
    "padded_vocab_size": 256, "rotary_percentage": 1.0, "bias": False, "parallel_residual": False,
    "norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP",
}  # fmt: skip


class Tokens(Dataset):
    """Sequences [length + 1] that count in steps of 1 to 3, modulo the vocabulary; each index is one of its own."""

    def __init__(self, vocabulary, length, count, seed=0):
        self.vocabulary, self.length, self.count, self.seed = vocabulary, length, count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + index)
        first = torch.randint(self.vocabulary, (), generator=generator)
        step = torch.randint(1, 4, (), generator=generator)
        return (first + step * torch.arange(self.length + 1)) % self.vocabulary


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a name of litgpt's; without it a model of 1 M parameters")
    parser.add_argument("--strategy", choices=["zero2", "zero3"], default="zero3")
    parser.add_argument("--precision", choices=["32-true", "bf16-mixed", "bf16-true"], default="32-true")
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--micro-batches", type=int, default=2, help="of one step, on each process")
    parser.add_argument("--steps", type=int, default=40, help="in all, those of earlier runs included")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--out", type=Path, help="a folder for checkpoints")
    return parser.parse_args()


def learning_rate(args, step):
    """Linear warm-up, then a cosine down to a tenth."""
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    done = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.55 + 0.45 * math.cos(math.pi * done))


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def last_checkpoint(out):
    found = sorted(out.glob("step-*/meta.pt")) if out and out.exists() else []
    return found[-1].parent if found else None


@torch.no_grad()
def validate(fabric, model, loader):
    model.eval()
    loss = torch.stack([loss_of(model, tokens) for tokens in loader]).mean()
    model.train()
    return fabric.all_reduce(loss).item()


def train(fabric, args, state, batches, validation):
    model, optimizer = state["model"], state["optimizer"]
    seen = args.micro_batches * args.micro_batch * args.length * fabric.world_size
    while state["step"] < args.steps:
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(args, state["step"])
        total = torch.zeros((), device=fabric.device)
        for i in range(args.micro_batches):
            with fabric.no_backward_sync(model, enabled=i < args.micro_batches - 1):
                loss = loss_of(model, next(batches)) / args.micro_batches
                fabric.backward(loss)
            total += loss.detach()
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        state["step"] += 1
        mean = fabric.all_reduce(total).item()
        rate = seen / (time.perf_counter() - start)
        fabric.print(f"step {state['step']}: loss {mean:.4f}, {rate:.0f} tokens/s", flush=True)
        if state["step"] % args.save_every == 0 or state["step"] == args.steps:
            fabric.print(f"step {state['step']}: validation loss {validate(fabric, model, validation):.4f}", flush=True)
            if args.out:
                fabric.save(args.out / f"step-{state['step']:08d}", state)


def main():
    args = arguments()
    fabric = lightning.Fabric(
        accelerator="cuda" if torch.cuda.is_available() else "cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
        precision=args.precision,
        strategy=ThunderFSDPStrategy(sharding_strategy=args.strategy, bucketing_strategy="BLOCK"),
    )
    fabric.launch()
    fabric.seed_everything(0)
    config = Config.from_name(args.model) if args.model else Config(block_size=args.length, **SMALL)
    with fabric.init_module(empty_init=True):  # memory comes with the set-up, as reset_parameters() fills it
        model = GPT(config)
        model.max_seq_length = args.length
    model = fabric.setup(model)
    optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1))
    state = {"model": model, "optimizer": optimizer, "step": 0}
    resume = last_checkpoint(args.out)
    if resume:
        fabric.load(resume, state)
        fabric.print(f"goes on from {resume}")
    each = args.micro_batch * args.micro_batches * fabric.world_size
    rest = range(each * state["step"], each * args.steps)
    data = torch.utils.data.Subset(Tokens(config.vocab_size, args.length, each * args.steps), rest)
    held_out = Tokens(config.vocab_size, args.length, 2 * args.micro_batch * fabric.world_size, seed=1)
    batches, validation = fabric.setup_dataloaders(
        DataLoader(data, args.micro_batch), DataLoader(held_out, args.micro_batch)
    )
    train(fabric, args, state, iter(batches), validation)


if __name__ == "__main__":
    main()
