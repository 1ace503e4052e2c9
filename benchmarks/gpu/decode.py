"""Tokens one by one with a static cache on one GPU: Thunder beside eager and torch.compile, the peers interleaved.

    python benchmarks/gpu/decode.py
    python benchmarks/gpu/decode.py --batches 1 --peers thunder --profile 15 --traces /tmp/decode
    python benchmarks/gpu/decode.py --cache-length 4096 --vocabulary 32000

A Hugging Face Llama of the shape of Llama 3.2 1B with random weights in bfloat16, its StaticCache, torch.no_grad(): a
prompt of 128 tokens and then one token a call, the likeliest one. torch.compile compiles the calls with one token, as
transformers' generate() does; Thunder those with the prompt, too. Each peer of a batch size is a process of its own
with empty caches; first calls come first, then the peers of a batch run in turns, three repetitions each.

    tokens/s     of all rows of the batch, from the first token's call to the end of the last on the GPU; the median
    best         of the repetitions
    host ms      of a token: until the model's call has returned, nothing synchronised
    first s      the first call with one token
    programs     that Thunder acquired
    distance     |logits - those in float32| / |those in float32| of a token behind the prompt
    floor        milliseconds to read all weights and the cache once at 4.8 TB/s, as tokens/s
"""

import argparse
import copy
import json
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path

import zoo
from headline import table

PEERS = "eager,torch.compile,torch.compile:reduce-overhead,thunder"
REPETITIONS = 3
BANDWIDTH = 4.8e12


class Decoder:
    """A model and its cache under one peer; the parent says what to do next."""

    def __init__(self, name, peer, options, lock):
        import torch
        from transformers import LlamaForCausalLM, StaticCache

        self.torch, self.peer, self.options = torch, peer, options
        self.batch, self.device = int(name.removeprefix("batch ")), torch.device(options.device)
        torch.manual_seed(0)
        config = config_of(options)
        with self.device:
            self.model = LlamaForCausalLM(config).to(getattr(torch, options.dtype)).eval()
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        self.cache = StaticCache(config=config, max_cache_len=options.cache_length)
        generator = torch.Generator(self.device).manual_seed(1)
        shape = (self.batch, options.prompt)
        self.prompt = torch.randint(config.vocab_size, shape, device=self.device, generator=generator)
        self.run = self.compiled()

    def compiled(self):
        kind, _, detail = self.peer.partition(":")
        if kind == "eager":
            return self.model
        if kind == "torch.compile":
            return self.torch.compile(self.model, mode=detail or None)
        if kind == "thunder":
            import thunder

            return thunder.jit(self.model, graphs={"": "auto", "graphs": True, "no-graphs": False}[detail])
        raise SystemExit(f"no peer is named {self.peer!r}: eager, torch.compile[:mode], thunder[:graphs|:no-graphs]")

    def synchronize(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def next(self, run, ids):
        return run(input_ids=ids, past_key_values=self.cache, use_cache=True).logits[:, -1:]

    def first(self):
        """The prompt and the first token behind it, which is compared with the same model in float32."""
        torch = self.torch
        with torch.no_grad():
            # Where torch.compile runs the prompt, the cache is not known to stay where it is.
            by = self.model if self.peer.startswith("torch.compile") else self.run
            token = self.next(by, self.prompt).argmax(-1)
            self.synchronize()
            start = time.perf_counter()
            logits = self.next(self.run, token).float()
            self.synchronize()
            seconds = time.perf_counter() - start
            exact = copy.deepcopy(self.model).float()
            wanted = exact(input_ids=torch.cat([self.prompt, token], 1), use_cache=False).logits[:, -1:]
        distance = ((logits - wanted).norm() / wanted.norm()).item()
        del exact, wanted
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.token = logits.argmax(-1)
        return {"first_s": seconds, "distance": distance, "floor": self.floor()}

    def floor(self):
        """Tokens a second, were the weights and the cache all that takes time."""
        weights = sum({p.data_ptr(): p.nbytes for p in self.model.parameters()}.values())
        layers = self.cache.layers
        return self.batch * BANDWIDTH / (weights + sum(t.nbytes for c in layers for t in (c.keys, c.values)))

    def tokens(self, count):
        """So many tokens; milliseconds of each call on the host."""
        host = []
        with self.torch.no_grad():
            for _ in range(count):
                start = time.perf_counter()
                logits = self.next(self.run, self.token)
                host.append((time.perf_counter() - start) * 1e3)
                self.token = logits.argmax(-1)
        return host

    def repeat(self):
        if self.cache.get_seq_length() + self.options.tokens + 12 > self.options.cache_length:
            raise SystemExit("the cache is too short for so many repetitions")
        self.tokens(12)
        self.synchronize()
        start = time.perf_counter()
        host = self.tokens(self.options.tokens)
        self.synchronize()
        seconds = time.perf_counter() - start
        return {"tokens_per_s": self.batch * self.options.tokens / seconds, "host_ms": statistics.median(host)}

    def facts(self):
        """What Thunder made of the model."""
        if not self.peer.startswith("thunder"):
            return {}
        import thunder

        stats = thunder.compile_stats(self.run)
        forward = str(thunder.last_traces(self.run)[-1])
        if self.options.traces:
            folder = Path(self.options.traces)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"batch{self.batch}.py").write_text(forward)
            (folder / f"batch{self.batch}_kernels.txt").write_text(thunder.last_kernels(self.run))
        calls = {}
        for call in thunder.last_traces(self.run)[-1].calls:
            if call.executor:
                calls[call.executor] = calls.get(call.executor, 0) + 1
        return {"programs": stats["cache_misses"], "graphs": stats.get("graphs"), "calls": calls}

    def profile(self):
        """(total ms, launches, name) of the longest kernels of eight tokens."""
        from torch.profiler import ProfilerActivity, profile

        self.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as record:
            self.tokens(8)
            self.synchronize()
        rows = [
            (e.self_device_time_total / 8e3, e.count / 8, e.key)
            for e in record.key_averages()
            if e.device_type.name == "CUDA"
        ]
        return {"kernels": sorted(rows, reverse=True)[: self.options.profile], "busy_ms": sum(r[0] for r in rows)}


def config_of(options):
    from transformers import LlamaConfig

    if options.small:
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 2}
        return LlamaConfig(**sizes, num_hidden_layers=2, vocab_size=200, max_position_embeddings=512)
    return LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=options.layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=options.vocabulary,
        max_position_embeddings=max(8192, options.cache_length),
        tie_word_embeddings=True,
    )


# ---- the parent ------------------------------------------------------------------------------------------------------


def measure(options):
    lock = multiprocessing.get_context("fork").Lock()
    groups = [
        [zoo.Child(f"batch {batch}", peer, options, lock, Decoder) for peer in options.peers.split(",")]
        for batch in options.batches.split(",")
    ]
    for child in (c for group in groups for c in group):
        child.answer()
    first = zoo.first_steps(groups)
    for group in groups:
        rounds = {child: [] for child in group}
        for i in range(REPETITIONS):
            for child in group[i % len(group) :] + group[: i % len(group)]:
                if found := child.call("repeat"):
                    rounds[child].append(found)
        for child in group:
            yield finish(child, first[child], rounds[child], options)


def finish(child, first, rounds, options):
    record = {"peer": f"{child.name}: {child.peer}"}
    if not child.failed:
        speeds = [r["tokens_per_s"] for r in rounds]
        record |= first | {"tokens_per_s": statistics.median(speeds), "best": max(speeds)}
        record |= {"host_ms": statistics.median(r["host_ms"] for r in rounds)} | child.call("facts")
        if options.profile and options.device == "cuda":
            record |= child.call("profile")
    if child.failed:
        return {"peer": f"{record['peer']} (failed)", "failed": child.failed}
    child.close()
    return record


COLUMNS = (
    ("tokens/s", "tokens_per_s", ".1f"),
    ("best", "best", ".1f"),
    ("host ms", "host_ms", ".3f"),
    ("first s", "first_s", ".1f"),
    ("programs", "programs", "d"),
    ("distance", "distance", ".1e"),
    ("floor", "floor", ".1f"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=PEERS, help="also thunder:graphs, thunder:no-graphs, torch.compile:MODE")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=100, help="of one repetition")
    parser.add_argument("--cache-length", type=int, default=1024)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one answer of a process")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="the N longest kernels of a token")
    parser.add_argument("--traces", default="", metavar="FOLDER", help="write Thunder's final traces and kernels there")
    parser.add_argument("--json", action="store_true", help="a JSON line a peer, too")
    parser.add_argument("--small", action="store_true", help="a tiny model: whether it runs")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import transformers  # PyTorch, before the processes fork; nothing may touch the GPU before

    rows = []
    for row in measure(options):
        rows.append(row)
        for milliseconds, count, name in row.get("kernels", ()):
            print(f"  {milliseconds:9.4f} ms  x{count:<6} {name[:110]}")
        if "graphs" in row:
            print(f"{row['peer']}: {json.dumps(row['calls'])}, graphs {json.dumps(row['graphs'])}")
        if options.json:
            print(json.dumps(row))
        sys.stdout.flush()
    facts = zoo.machine(options)
    shape = f"{options.prompt} + {REPETITIONS} x {options.tokens + 12} tokens, cache of {options.cache_length}"
    versions = f"torch {facts['torch']}, transformers {transformers.__version__}, {facts['commit']}"
    print(f"{facts['device']}, {versions}; {shape}")
    print(table(rows, COLUMNS))
    return sum("failed" in row for row in rows)


if __name__ == "__main__":
    sys.exit(main())
