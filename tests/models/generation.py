"""Greedy generation with a growing cache, compared with eager token by token.

With symbolic values one program reads the prompt and one makes all further tokens, however long the cache is.
"""

import copy
import time

import architectures as zoo
import torch

import thunder

DECODERS = ["llama", "gemma2", "gpt2", "qwen3", "mistral"]
TOKENS = 32
MOST_COMPILATIONS = 3


def generate(model):
    prompt = torch.randint(5, zoo.VOCABULARY, (zoo.BATCH, 6), generator=torch.Generator().manual_seed(3))
    start = time.perf_counter()
    # No end of sequence: all of them are wanted.
    tokens = model.generate(
        prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, use_cache=True, eos_token_id=None
    )
    return tokens, time.perf_counter() - start


def check_generation(name):
    model = zoo.build(name).eval()
    eager = copy.deepcopy(model)
    want, eager_time = generate(eager)
    model.forward = thunder.jit(model.forward, cache="symbolic values")
    got, our_time = generate(model)
    row = {"eager s": eager_time, "s": our_time, "compilations": thunder.cache_misses(model.forward)}
    if not torch.equal(got, want):
        different = (got != want).nonzero()[:, 1].min().item() if got.shape == want.shape else "?"
        row["failure"] = f"other tokens than eager's, the first at {different}"
    elif row["compilations"] > MOST_COMPILATIONS:
        row["failure"] = f"compiled too often, at last because {thunder.explain_miss(model.forward)}"
    return row
