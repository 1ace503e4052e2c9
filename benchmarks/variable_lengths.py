"""Training steps on batches of random lengths: Thunder beside torch.compile(dynamic=True) and eager.

    python benchmarks/variable_lengths.py [--device cpu|cuda] [--small] [--batches 30] [--rounds 5] [--threads 1]

The model is a Llama, written with PyTorch alone.  The batches have random lengths, among them 1, 2, 3, odd ones and
powers of two.  Each peer is a process of its own; the processes run in turns.  The first turn goes through all batches
and counts compilations ("acquisitions": Thunder's misses, torch.compile's graphs).  The others are the steady state,
where each batch is a step of forward, loss and backward.  A row has:

    acquisitions   programs that were compiled for all of the batches
    first s        the first step, with its compilation; `all first s`: the first step on each batch, together
    median, least  milliseconds of a steady step, by the median and the least of its rounds, the mean over the batches
    distance       |gradients - those of float64| / |those of float64|, the largest of three batches
"""

import argparse
import copy
import json
import math
import multiprocessing
import random
import statistics
import time
import traceback

import torch
import torch.nn.functional as F
from torch import nn

PEERS = "eager", "torch.compile", "thunder"


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, hidden = heads, width * 8 // 3 // 32 * 32
        self.norm, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def rotated(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, x, cos, sin):
        batch, length, width = x.shape
        h = self.norm(x)
        q, k, v = (p(h).view(batch, length, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocabulary, width, heads, layers, most):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(float(most)), 1e4 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens, targets):
        length = tokens.shape[1]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length])
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def lengths(count, most):
    """Random ones, the first as long as many; 1, 2, 3 and powers of two are among them."""
    rng = random.Random(0)
    chosen = [rng.randrange(1, most + 1) for _ in range(count)]
    for at, n in zip(range(3, count, 4), (1, most, 2, most // 2, 3, most // 4, most - 1), strict=False):
        chosen[at] = n
    return chosen


class Peer:
    def __init__(self, peer, options):
        torch.set_num_threads(options.threads)
        torch.manual_seed(0)
        self.device = options.device
        vocabulary, width, heads, layers, most, rows = (
            (512, 64, 4, 2, 64, 2) if options.small else (8000, 512, 8, 4, 512, 4)
        )
        dtype = torch.bfloat16 if self.device == "cuda" else torch.float32
        self.module = Llama(vocabulary, width, heads, layers, most).to(self.device)
        self.module.to(dtype)
        self.batches = []
        for n in lengths(options.batches, most):
            tokens = torch.randint(0, vocabulary, (rows, n + 1), device=self.device)
            self.batches.append((tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))
        self.peer, self.run = peer, self.compiled(peer)

    def compiled(self, peer):
        if peer == "eager":
            return self.module
        if peer == "torch.compile":
            return torch.compile(self.module, dynamic=True)
        import thunder

        return thunder.jit(self.module)

    def acquisitions(self):
        if self.peer == "eager":
            return 0
        if self.peer == "torch.compile":
            return torch._dynamo.utils.counters["stats"]["unique_graphs"]
        import thunder

        return thunder.cache_misses(self.run)

    def step(self, batch):
        self.module.zero_grad(set_to_none=True)
        self.wait()
        start = time.perf_counter()
        self.run(*batch).backward()
        self.wait()
        return time.perf_counter() - start

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def first(self):
        seconds = [self.step(batch) for batch in self.batches]
        return {"first_s": seconds[0], "all_first_s": sum(seconds), "acquisitions": self.acquisitions()}

    def distance(self):
        exact = copy.deepcopy(self.module).double()
        worst = 0.0
        for batch in self.batches[:4:2] + self.batches[3:4]:
            exact.zero_grad(set_to_none=True)
            exact(*batch).backward()
            self.step(batch)
            wrong = total = 0.0
            for got, want in zip(self.module.parameters(), exact.parameters(), strict=True):
                wrong += (got.grad.double() - want.grad).square().sum().item()
                total += want.grad.square().sum().item()
            worst = max(worst, math.sqrt(wrong / total))
        return {"distance": worst}

    def turn(self):
        self.step(self.batches[0])  # what ran before was another process
        return {"ms": [self.step(batch) * 1e3 for batch in self.batches], "acquisitions": self.acquisitions()}


def serve(connection, peer, options):
    try:
        one = Peer(peer, options)
        while True:
            connection.send(getattr(one, connection.recv())())
    except EOFError:
        pass
    except Exception as e:  # the row says what went wrong
        traceback.print_exc()
        connection.send({"failed": f"{type(e).__name__}: {(str(e).splitlines() or [''])[0][:80]}"})


class Child:
    def __init__(self, peer, options):
        context = multiprocessing.get_context("spawn" if options.device == "cuda" else "fork")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, peer, options), daemon=True)
        self.process.start()
        theirs.close()

    def call(self, what):
        self.connection.send(what)
        return self.connection.recv()

    def close(self):
        self.process.kill()
        self.process.join()


def measure(options):
    """{peer: what its row says}"""
    children = {peer: Child(peer, options) for peer in options.peers}
    found = {peer: child.call("first") for peer, child in children.items()}
    for peer, child in children.items():
        if "failed" not in found[peer]:
            found[peer].update(child.call("distance"))
    alive = [peer for peer in children if "failed" not in found[peer]]
    steps = {peer: [] for peer in alive}
    for i in range(options.rounds):
        for peer in alive[i % len(alive) :] + alive[: i % len(alive)]:
            turn = children[peer].call("turn")
            steps[peer].append(turn["ms"])
            found[peer]["acquisitions"] = turn["acquisitions"]
    for child in children.values():
        child.close()
    for peer in alive:
        per_batch = list(zip(*steps[peer], strict=True))
        found[peer]["median_ms"] = statistics.mean(statistics.median(ms) for ms in per_batch)
        found[peer]["least_ms"] = statistics.mean(min(ms) for ms in per_batch)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--small", action="store_true", help="a model that fits any machine")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS))
    parser.add_argument("--json", action="store_true", help="a JSON line instead of a table")
    options = parser.parse_args()
    found = measure(options)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'peer':14} acquisitions   first s  all first s    median     least  distance")
    for peer, r in found.items():
        if "failed" in r:
            print(f"{peer:14} {r['failed']}")
            continue
        print(f"{peer:14} {r['acquisitions']:12} {r['first_s']:9.2f} {r['all_first_s']:12.2f} {r['median_ms']:9.2f} "
              f"{r['least_ms']:9.2f}  {r['distance']:.1e}")


if __name__ == "__main__":
    main()
