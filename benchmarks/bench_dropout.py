"""What do random numbers cost in training?  An MLP and a transformer block with dropout of 0.1, float32, one thread,
forward and backward: eager, Thunder with eager's numbers, and Thunder with numbers drawn inside kernels.

`saved` are the megabytes that are kept for the backward beyond inputs and parameters.
"""

import json

from common import child, child_arguments, emit, interleaved, no_garbage_collection, summary

PEERS = ("eager", "thunder", "thunder, rng=fused")
CASES = ("mlp", "block", "chain")


def mlp(width=1024, rows=1024):
    import torch
    from torch import nn

    layers = []
    for _ in range(2):
        layers += [nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1)]
    return nn.Sequential(*layers), torch.randn(rows, width)


def block(width=512, heads=8, batch=8, length=128):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, -1))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
            x = x + F.dropout(self.out(y.transpose(1, 2).flatten(2)), 0.1)
            return x + F.dropout(self.down(F.dropout(F.gelu(self.up(self.norm2(x))), 0.1)), 0.1)

    return Block(), torch.randn(batch, length, width)


def chain(rows=2048, width=2048):
    """No products: what the numbers themselves cost."""
    import torch
    from torch import nn

    return nn.Sequential(nn.GELU(), nn.Dropout(0.1), nn.SiLU(), nn.Dropout(0.1)), torch.randn(rows, width)


def saved_megabytes(run, known):
    import torch

    sizes = {}

    def keep(t):
        if t.untyped_storage().data_ptr() not in known:
            sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        result = run()
    del result
    return sum(sizes.values()) / 2**20


def measure(case):
    import torch

    import thunder

    torch.manual_seed(0)
    module, x = globals()[case]()
    x.requires_grad_()
    wanted = [x, *module.parameters()]
    runs = {
        "eager": module,
        "thunder": thunder.jit(module),
        "thunder, rng=fused": thunder.jit(module, rng="fused"),
    }
    g = torch.randn_like(module(x))
    steps = {peer: lambda f=f: torch.autograd.grad(f(x), wanted, g) for peer, f in runs.items()}
    for step in steps.values():
        step()
        step()
    known = {t.untyped_storage().data_ptr() for t in wanted}
    saved = {peer: saved_megabytes(lambda f=f: f(x), known) for peer, f in runs.items()}
    with no_garbage_collection():
        times = interleaved(steps)
    print(json.dumps({peer: {**summary(t, 1e3), "saved": saved[peer]} for peer, t in times.items()}))


def main():
    arguments = child_arguments()
    if arguments is not None:
        return measure(arguments[0])
    for case in CASES:
        results = child(__file__, case)
        for peer in PEERS:
            t, eager = results[peer], results["eager"]
            ratios = dict(ratio=t["median"] / eager["median"], ratio_min=t["min"] / eager["min"])
            line = dict(milliseconds=t["median"], milliseconds_min=t["min"], saved=t["saved"])
            emit("dropout", peer=peer, case=case, **line, **({} if peer == "eager" else ratios))


if __name__ == "__main__":
    main()
