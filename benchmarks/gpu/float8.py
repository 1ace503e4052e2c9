"""TinyLlama-1.1B, micro batch 4 x 2048, forward and backward in float8: Thunder beside torch.compile with torchao.

    python benchmarks/gpu/float8.py
    python benchmarks/gpu/float8.py --peers torch.compile:torchao,thunder:delayed --profile 25
    python benchmarks/gpu/float8.py --losses                       # 200 steps of a small model, bf16 and float8

Peers: `torch.compile` and `thunder` in bf16; `torch.compile:torchao` with torchao's float8 training (dynamic scaling,
one scale a tensor); `thunder:dynamic` and `thunder:delayed`. All with float8 have the same layers in it, which are
printed. Each peer is a process of its own with empty caches; then they run in turns, and nothing else runs meanwhile.
Gradients are None before a step.

    ms         CUDA events, the median of all steps; `least`: the shortest step
    ratio      of `ms` to that of torch.compile:torchao
    spread     (largest - smallest) / median of the repetitions' medians
    peak GB    torch.cuda.max_memory_allocated in the steps after the first
    first s    the first step, until its gradients are there
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import time

import peer as litgpt_peer
import zoo
from headline import machine, table

PEERS = "torch.compile,torch.compile:torchao,thunder,thunder:dynamic,thunder:delayed"
REFERENCE = "torch.compile:torchao"
COLUMNS = (
    ("ms", "ms", ".2f"),
    ("least", "least", ".2f"),
    ("ratio", "ratio", ".3f"),
    ("spread", "spread", ".1%"),
    ("peak GB", "peak_gb", ".2f"),
    ("first s", "first_s", ".1f"),
    ("layers", "float8_layers", "d"),
    ("loss", "loss", ".5f"),
)


def chosen_layers(module):
    """Those that thunder.transforms.Float8 takes by itself."""
    from thunder.transforms import Float8

    layers = Float8().float8_layers(module)[0]
    return [name for name, _, why in layers if not why]


def transforms_of(scaling, **options):
    from thunder.transforms import Float8

    return [Float8(scaling=scaling, **options)] if scaling else []


class Peer(zoo.Peer):
    """The model under one peer, in its own process; the parent says what to do next."""

    def __init__(self, name, peer, options, lock):
        import litgpt_import
        import torch

        self.torch, self.peer, self.lock, self.device = torch, peer, lock, torch.device(options.device)
        gpt, *self.inputs = litgpt_peer.build(options)
        self.module = litgpt_import.with_loss(gpt)
        self.layers = chosen_layers(self.module)
        self.run = self.compiled()
        self.parameters = list(self.module.parameters())

    def compiled(self):
        kind, _, detail = self.peer.partition(":")
        if kind == "thunder":
            import thunder

            return thunder.jit(self.module, transforms=transforms_of(detail))
        if kind != "torch.compile" or detail not in ("", "torchao"):
            raise SystemExit(f"no peer is named {self.peer!r}: {PEERS}")
        if detail:
            from torchao.float8 import convert_to_float8_training

            convert_to_float8_training(self.module, module_filter_fn=lambda module, name: name in self.layers)
        return self.torch.compile(self.module)

    def step(self):
        loss = self.run(*self.inputs)
        loss.backward()
        return loss.detach()

    def first(self):
        self.synchronize()
        start = time.perf_counter()
        loss = self.step()
        self.synchronize()
        first = time.perf_counter() - start
        self.clear()
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()
        return {"first_s": first, "loss": loss.item()}

    def repeat(self, seconds):
        found = super().repeat(seconds)
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()  # the next peer's
        return found

    def in_float8(self):
        """The names of the layers, as the peer itself says."""
        if self.peer == REFERENCE:
            modules = self.module.named_modules()
            return {"names": [name for name, m in modules if type(m).__name__ == "Float8Linear"]}
        if ":" in self.peer:
            import thunder

            return {"names": thunder.compile_stats(self.run)["float8"]["layers"]}
        return {"names": []}


def measure(options):
    lock = multiprocessing.get_context("fork").Lock()
    children = [zoo.Child(options.model, peer, options, lock, Peer) for peer in options.peers.split(",")]
    rows = {c.peer: {"peer": c.peer} for c in children}
    for child in children:  # compile one by one: first steps are measured
        child.answer()
        child.ask("first")
        rows[child.peer] |= child.answer()
    times = {c.peer: [] for c in children}
    for _ in range(options.repetitions):
        for child in children:
            child.ask("repeat", options.seconds)
            found = child.answer()
            if found:
                times[child.peer].append(found["ms"])
                # Later rounds do not count the memory of a CUDA graph, which the first one has recorded.
                peaks = (rows[child.peer].get("peak_gb"), found["peak_gb"])
                rows[child.peer]["peak_gb"] = max((p for p in peaks if p is not None), default=None)
    names = {}
    for child in children:
        child.ask("in_float8")
        names[child.peer] = child.answer().get("names", [])
        rows[child.peer]["float8_layers"] = len(names[child.peer])
        if options.traces:
            child.ask("traces", f"{options.traces}/{child.peer.replace(':', '-')}")
            child.answer()
        if options.profile:
            child.ask("profile", options.profile)
            show_kernels(child.peer, child.answer())
        child.close()
    fill_in(rows, times)
    show_layers(names)
    return list(rows.values())


def fill_in(rows, times):
    for peer, repetitions in times.items():
        if not repetitions:
            rows[peer]["peer"] += " (failed)"
            continue
        medians = [statistics.median(r) for r in repetitions]
        every = [ms for r in repetitions for ms in r]
        rows[peer] |= {
            "ms": statistics.median(every),
            "least": min(every),
            "spread": (max(medians) - min(medians)) / statistics.median(medians),
        }
    reference = rows.get(REFERENCE, {}).get("ms")
    for row in rows.values():
        if reference and "ms" in row:
            row["ratio"] = row["ms"] / reference


def show_kernels(peer, found):
    print(f"{peer}: the longest kernels of one step")
    for milliseconds, count, name in found.get("kernels", []):
        print(f"  {milliseconds:9.3f} ms  x{count:<5} {name[:120]}")
    sys.stdout.flush()


def show_layers(names):
    known = [n for n in names.values() if n]
    if not known:
        return
    equal = all(sorted(n) == sorted(known[0]) for n in known)
    same = "the same for all peers" if equal else "NOT THE SAME FOR ALL PEERS"
    print(f"layers in float8, {same}:")
    for peer, found in names.items():
        if found and (peer == REFERENCE or same.startswith("NOT") or REFERENCE not in names):
            print(f"  {peer}: {', '.join(found)}")


# ---- losses ----------------------------------------------------------------------------------------------------------


def small_model(options):
    """A model with its loss in float32, and a stream of batches from a Markov chain: the same for each call."""
    import litgpt_import
    import torch

    GPT, Config = litgpt_import.load()
    width, heads = options.width, options.width // 64
    sizes = dict(n_layer=4, n_head=heads, n_query_groups=heads, n_embd=width, intermediate_size=width * 11 // 4)
    config = Config.from_name("tiny-llama-1.1b", block_size=256, padded_vocab_size=width, **sizes)
    device = torch.device(options.device)

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gpt = GPT(config)

        def forward(self, ids, targets):
            return torch.nn.functional.cross_entropy(self.gpt(ids).float().flatten(0, 1), targets.flatten())

    torch.manual_seed(0)
    with device:
        module = Loss().bfloat16()
        module.gpt.cos, module.gpt.sin = module.gpt.rope_cache(device=device)
    numbers = torch.Generator().manual_seed(1)
    following = torch.softmax(3 * torch.randn(width, width, generator=numbers), -1)

    def batch(rows=16, length=256):
        ids = torch.empty(rows, length + 1, dtype=torch.long)
        ids[:, 0] = torch.randint(0, width, (rows,), generator=numbers)
        for i in range(length):
            ids[:, i + 1] = torch.multinomial(following[ids[:, i]], 1, generator=numbers)[:, 0]
        return ids[:, :-1].to(device), ids[:, 1:].to(device)

    return module, batch


def losses(scaling, options):
    import torch

    import thunder

    module, batch = small_model(options)
    keep = transforms_of(scaling, filter=lambda name, m: not name.endswith("lm_head"))
    run = thunder.jit(module, transforms=keep)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    out = []
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = run(*batch())
        loss.backward()
        optimizer.step()
        out.append(loss.detach())
    out = [loss.item() for loss in out]
    if scaling:
        print(f"{scaling}: {len(thunder.compile_stats(run)['float8']['layers'])} layers in float8", flush=True)
    return out


def compare_losses(options):
    import torch

    last = max(1, options.steps // 10)
    found = {name: losses(None if name == "bf16" else name, options) for name in ("bf16", "dynamic", "delayed")}
    mean = {name: statistics.fmean(each[-last:]) for name, each in found.items()}
    rows = [
        {
            "scaling": name,
            **{f"step {i}": each[i - 1] for i in (1, options.steps // 2, options.steps)},
            "mean": mean[name],
            "difference": mean[name] / mean["bf16"] - 1,
        }
        for name, each in found.items()
    ]
    steps = [(f"step {i}", f"step {i}", ".5f") for i in (1, options.steps // 2, options.steps)]
    where = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    print(f"losses of {options.steps} steps; `mean`: of the last {last}; torch {torch.__version__}, {where}")
    print(table(rows, (*steps, ("mean", "mean", ".5f"), ("difference", "difference", "+.3%")), "scaling"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=PEERS)
    parser.add_argument("--model", default="tiny-llama-1.1b", help="litgpt's name of the configuration")
    parser.add_argument("--layers", type=int, default=0, help="0: as many as the model has")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of steps in each repetition of a peer")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for what a process is asked")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="the N longest kernels of one step")
    parser.add_argument("--traces", default="", metavar="FOLDER", help="write Thunder's final traces and kernels there")
    parser.add_argument("--json", action="store_true", help="a JSON line a peer, too")
    parser.add_argument("--losses", action="store_true", help="train a small model instead")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=512, help="of the small model, a multiple of 64")
    options = parser.parse_args()
    if options.losses:
        return compare_losses(options)
    rows = measure(options)
    if options.json:
        for row in rows:
            print(json.dumps(row))
    options.forward = False
    print(machine(options))
    print(table(rows, COLUMNS), flush=True)
    return None if all("ms" in row for row in rows) else sys.exit(1)


if __name__ == "__main__":
    main()
