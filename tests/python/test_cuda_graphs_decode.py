"""graphs="auto" where tokens are generated one by one, with a cache of keys and values that the caller holds."""

import pytest
import torch
from devices import DEVICE
from graph_checks import ON_GPU, Recorder, automatic, counts
from torch import nn
from torch.nn import functional as F

import thunder

WIDTH, HEADS, LENGTH = 32, 4, 24
LAYERS = 8 if ON_GPU else 2
VOCABULARY = 50


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, keys, values, at, mask):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        keys.index_copy_(2, at, k)
        values.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(x)))


class Cache:
    """As Hugging Face's static cache: tensors that stay, and a count of its own."""

    def __init__(self, batch, length=LENGTH):
        shape = (batch, HEADS, length, WIDTH // HEADS)
        self.keys = [torch.zeros(shape, device=DEVICE) for _ in range(LAYERS)]
        self.values = [torch.zeros(shape, device=DEVICE) for _ in range(LAYERS)]
        self.seen = torch.zeros((), dtype=torch.int64, device=DEVICE)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids, cache):
        at = cache.seen + torch.arange(ids.shape[1], device=ids.device)
        mask = torch.arange(cache.keys[0].shape[2], device=ids.device) <= at[:, None]
        x = self.embedding(ids)
        for layer, k, v in zip(self.layers, cache.keys, cache.values, strict=True):
            x = layer(x, k, v, at, mask)
        cache.seen.add_(ids.shape[1])
        return self.head(x)


@torch.no_grad()
def generate(run, cache, prompt, tokens=16):
    logits = [run(prompt, cache)]
    for _ in range(tokens):
        logits.append(run(logits[-1][:, -1:].argmax(-1), cache))
    return logits


def same(a, b):
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


def pair():
    """Compiled without graphs and with the default, and prompts."""
    torch.manual_seed(0)
    model = Model().to(DEVICE).eval()
    generator = torch.Generator(DEVICE).manual_seed(1)
    prompts = [torch.randint(VOCABULARY, (2, 5), device=DEVICE, generator=generator) for _ in range(4)]
    return thunder.jit(model, graphs=False), automatic(model), prompts


def test_a_cache_is_read_and_written_where_it_lies():
    plain, f, prompts = pair()
    caches = Cache(2), Cache(2)
    same(generate(plain, caches[0], prompts[0]), generate(f, caches[1], prompts[0]))
    same(caches[0].keys + caches[0].values + [caches[0].seen], caches[1].keys + caches[1].values + [caches[1].seen])
    assert thunder.cache_misses(f) == 2
    found = thunder.compile_stats(f)["graphs"]
    assert found["captures"] == 1 and found["replays"] >= 10, found
    if not ON_GPU:
        assert found["bytes"] < 2 * caches[0].keys[0].nbytes  # nothing of the caches


def test_the_epilogue_is_a_part_of_the_graph():
    _, f, prompts = pair()
    cache = Cache(2)
    generate(f, cache, prompts[0])
    epilogue = str(thunder.last_epilogue_traces(f)[-1])
    assert epilogue.count("copy_") == 2 * LAYERS + 1
    forward = str(thunder.last_traces(f)[-1])
    assert forward.count("index_copy__prim_impl(") == 2 * LAYERS
    versions = cache.keys[0]._version, cache.seen._version
    with torch.no_grad():
        f(prompts[0][:, :1], cache)
    assert (cache.keys[0]._version, cache.seen._version) == (versions[0] + 1, versions[1] + 1)


def test_a_new_cache_for_each_generation():
    plain, f, prompts = pair()
    kept = []
    for prompt in prompts:
        caches = Cache(2), Cache(2)
        kept.append(caches)  # so that no address comes back
        same(generate(plain, caches[0], prompt), generate(f, caches[1], prompt))
    found = thunder.compile_stats(f)["graphs"]
    assert found["captures"] == len(prompts) and not found["why"], found


def test_the_same_cache_begun_anew():
    plain, f, prompts = pair()
    caches = Cache(2), Cache(2)
    for prompt in prompts:
        for cache in caches:
            cache.seen.zero_()
            for t in cache.keys + cache.values:
                t.zero_()
        same(generate(plain, caches[0], prompt), generate(f, caches[1], prompt))
    assert counts(f)[0] <= 2  # the prompt's program, too


def test_two_caches_in_turns():
    plain, f, prompts = pair()
    ours, theirs = [Cache(2) for _ in range(2)], [Cache(2) for _ in range(2)]
    with torch.no_grad():
        for step in range(20):
            ids = prompts[step % 4][:, : 5 if step < 2 else 1]
            assert torch.equal(f(ids, ours[step % 2]), plain(ids, theirs[step % 2]))
    same(ours[0].keys + ours[1].values, theirs[0].keys + theirs[1].values)
    assert counts(f)[1] == 0


def test_caches_that_never_stay_end_the_trying():
    plain, f, prompts = pair()
    with torch.no_grad():
        for step in range(60):
            ours, theirs = Cache(2), Cache(2)
            ids = prompts[step % 4][:, :1]
            assert torch.equal(f(ids, ours), plain(ids, theirs))
            same(ours.keys, theirs.keys)
            kept = ours  # noqa: F841  # so that the next one lies elsewhere
    found = thunder.compile_stats(f)["graphs"]
    assert found["captures"] == 0 or found["replays"] == 0 or ON_GPU
    assert any("lies elsewhere in each call" in why for why in found["why"]) or ON_GPU, found


def test_inference_mode():
    plain, f, prompts = pair()
    with torch.inference_mode():
        caches = Cache(2), Cache(2)
        same(generate(plain, caches[0], prompts[0]), generate(f, caches[1], prompts[0]))
        same(caches[0].keys, caches[1].keys)
    assert counts(f)[1] >= 10


def test_a_growing_cache_is_left_alone():
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, 2 * WIDTH).to(DEVICE)

    def step(x, keys, values):
        k, v = layer(x).chunk(2, -1)
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        return F.scaled_dot_product_attention(x, keys, values), keys, values

    f = automatic(step)
    with torch.no_grad():
        keys, values = (torch.zeros(2, 3, WIDTH, device=DEVICE) for _ in range(2))
        for _ in range(30):
            x = torch.randn(2, 1, WIDTH, device=DEVICE)
            wanted = step(x, keys, values)
            out, keys, values = f(x, keys, values)
            torch.testing.assert_close(out, wanted[0])
    assert counts(f)[0] == 0 and thunder.cache_misses(f) == 2


def test_recordings_of_batches_side_by_side():
    plain, f, prompts = pair()
    for _ in range(2):
        for rows in (1, 2):
            caches = Cache(rows), Cache(rows)
            same(generate(plain, caches[0], prompts[0][:rows]), generate(f, caches[1], prompts[0][:rows]))
    assert counts(f)[1] >= 20


def test_asked_for_it_is_recorded_in_the_second_run():
    torch.manual_seed(0)
    model = Model().to(DEVICE).eval()
    recorder = None if ON_GPU else Recorder()
    before = thunder._graphs.Recorder
    if recorder:
        thunder._graphs.Recorder = lambda: recorder
    try:
        f = thunder.jit(model, graphs=True)
    finally:
        thunder._graphs.Recorder = before
    plain = thunder.jit(model, graphs=False)
    prompt = torch.arange(10, device=DEVICE).view(2, 5)
    caches = Cache(2), Cache(2)
    # Who asks for graphs has a program for each length; the plain one has the length as a symbol, and other kernels.
    for plain_out, out in zip(generate(plain, caches[0], prompt), generate(f, caches[1], prompt), strict=True):
        torch.testing.assert_close(out, plain_out)
    assert counts(f) == (1, 15, 2)


@pytest.mark.gpu
def test_a_token_is_one_launch():
    from torch.profiler import ProfilerActivity, profile

    _, f, prompts = pair()
    cache = Cache(2)
    generate(f, cache, prompts[0], tokens=10)
    with torch.no_grad():
        token = prompts[0][:, :1].contiguous()  # strides as those of the tokens before
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as record:
            f(token, cache)
            torch.cuda.synchronize()
    names = {e.key: e.count for e in record.key_averages()}
    launches = sum(n for key, n in names.items() if key.startswith("cudaGraphLaunch"))
    others = sum(n for key, n in names.items() if key.startswith(("cudaLaunchKernel", "cuLaunchKernel")))
    assert launches == 1 and others <= 4, names  # the copies of the token and of its logits
