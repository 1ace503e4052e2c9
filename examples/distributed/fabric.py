"""Trains the model of train.py with Lightning Fabric, which starts the processes, and goes on from its checkpoint.

    python examples/distributed/fabric.py --devices 2 --strategy zero3 --precision bf16-mixed --checkpoint /tmp/fabric
"""

import argparse
import os
import time

import lightning
import torch
from train import Model, loss_of

from thunder.distributed.lightning.fabric import ThunderDDPStrategy, ThunderFSDPStrategy


def strategy_named(name):
    if name == "ddp":
        return ThunderDDPStrategy()
    return ThunderFSDPStrategy(sharding_strategy=name, bucketing_strategy="BLOCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=["ddp", "zero2", "zero3"], default="zero3")
    parser.add_argument("--accelerator", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--precision", choices=["32-true", "bf16-mixed", "bf16-true"], default="32-true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--micro-batches", type=int, default=2)
    parser.add_argument("--checkpoint", help="a file (ddp) or folder; training goes on from it if it is there")
    args = parser.parse_args()

    fabric = lightning.Fabric(
        accelerator=args.accelerator,
        devices=args.devices,
        precision=args.precision,
        strategy=strategy_named(args.strategy),
    )
    fabric.launch()
    fabric.seed_everything(0)
    model = Model()
    model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
    state = {"model": model, "optimizer": optimizer, "step": 0}
    if args.checkpoint and os.path.exists(args.checkpoint):
        fabric.load(args.checkpoint, state)

    for step in range(state["step"], state["step"] + args.steps):
        start = time.perf_counter()
        for i in range(args.micro_batches):
            with fabric.no_backward_sync(model, enabled=i < args.micro_batches - 1):
                loss = loss_of(model, fabric.global_rank, 100 * step + i)
                fabric.backward(loss / args.micro_batches)
        norm = fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        mean = fabric.all_reduce(loss.detach())
        ms = 1e3 * (time.perf_counter() - start)
        fabric.print(f"step {step}: loss {mean.item():.3f}, norm {norm.item():.3f}, {ms:.0f} ms", flush=True)
    state["step"] += args.steps
    if args.checkpoint:
        fabric.save(args.checkpoint, state)


if __name__ == "__main__":
    main()
