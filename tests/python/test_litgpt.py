"""Every distinct architecture among litgpt's models: forward, loss, gradients and inference agree with eager."""

import contextlib
import os
import statistics

import litgpt_zoo as zoo
import pytest
import torch
from devices import DEVICE
from short_run import taken, turn

import thunder

ZOO = zoo.architectures()
everywhere = pytest.mark.parametrize("name", ZOO)
# Of what says little more with each of them; `make test-all` takes all.
SAMPLED = list(ZOO) if os.environ.get("THUNDER_ALL_SAMPLES") else list(ZOO)[::12]

# Between two computations in float32, of which neither is exact: the roundings of two layers.
ROUNDINGS = 32 * torch.finfo(torch.float32).eps


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def results(fn, model, batch):
    """Logits, loss and all gradients, by name."""
    model.zero_grad()
    logits, loss = fn(*batch)
    loss.backward()
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return {"logits": logits.detach(), "loss": loss.detach(), **grads}


def error(got, want):
    """The relative Frobenius norm of the difference, in float64."""
    got, want = got.double(), want.double()
    return ((got - want).norm() / want.norm().clamp_min(1e-300)).item()


def is_mixture(config):
    return config.mlp_class_name == "LLaMAMoE"


@contextlib.contextmanager
def recorded_routing(module):
    """Keeps which experts each call of a router chose."""
    chosen = []
    topk, grouped = torch.topk, module.GroupedTopkRouter.get_topk_indices

    def record_topk(*args, **kwargs):
        result = topk(*args, **kwargs)
        chosen.append(result.indices)
        return result

    def record_grouped(self, scores):
        chosen.append(grouped(self, scores))
        del chosen[-3:-1]  # the choices within it
        return chosen[-1]

    # The model reads torch.topk from its module's `torch`; only there is it another.
    try:
        torch.topk, module.GroupedTopkRouter.get_topk_indices = record_topk, record_grouped
        yield chosen
    finally:
        torch.topk, module.GroupedTopkRouter.get_topk_indices = topk, grouped


@contextlib.contextmanager
def given_routing(module, chosen):
    """Makes routers choose the experts of `chosen`: near a tie, rounding would send a token elsewhere."""
    topk, grouped = torch.topk, module.GroupedTopkRouter.get_topk_indices
    left = iter(chosen)

    def given_topk(scores, k):
        indices = next(left)
        assert indices.shape == (*scores.shape[:-1], k)
        return scores.gather(-1, indices), indices

    try:
        torch.topk, module.GroupedTopkRouter.get_topk_indices = given_topk, lambda self, scores: next(left)
        yield
        assert next(left, None) is None, "routers ran less often than in the reference"
    finally:
        torch.topk, module.GroupedTopkRouter.get_topk_indices = topk, grouped


@everywhere
def test_float64(name):
    model = zoo.WithLoss(zoo.build(ZOO[name], torch.float64, zoo.float64_model()))
    batch = zoo.tokens()
    want = results(model, model, batch)
    got = results(thunder.jit(model), model, batch)
    assert got.keys() == want.keys()
    errors = {n: error(got[n], want[n]) for n in want}
    assert max(errors.values()) <= 1e-9, errors


def reference(model, config, batch):
    """Results of `model` computed in float64 from its own (rounded) weights, and the routing."""
    module = zoo.float64_model()
    twin = zoo.WithLoss(zoo.build(config, torch.float64, module))
    twin.load_state_dict(model.state_dict())
    for (_, mine), (_, theirs) in zip(twin.named_buffers(), model.named_buffers(), strict=True):
        mine.copy_(theirs)
    with recorded_routing(module) as chosen:
        return results(twin, twin, batch), chosen


def check_error_is_eagers(name, dtype, batch):
    import litgpt.model

    config = ZOO[name]
    model = zoo.WithLoss(zoo.build(config, dtype))
    exact, chosen = reference(model, config, batch)

    def run(fn):
        with given_routing(litgpt.model, chosen) if is_mixture(config) else contextlib.nullcontext():
            return results(fn, model, batch)

    eager, ours = run(model), run(thunder.jit(model))
    assert ours.keys() == eager.keys() == exact.keys()
    errors = {n: (error(ours[n], exact[n]), error(eager[n], exact[n])) for n in exact}
    # Of a scalar, the loss, eager's error is a single draw, which may happen to be none: the errors of all results tell
    # what is usual.  The rounding of the result itself is nobody's error.
    usual = statistics.median(eagers for _, eagers in errors.values())
    bound = {
        n: 2 * (max(e[1], usual) if exact[n].numel() == 1 else e[1]) + torch.finfo(dtype).eps for n, e in errors.items()
    }
    wrong = {n: e for n, e in errors.items() if e[0] > bound[n]}
    assert not wrong, wrong


@pytest.mark.parametrize(
    "name, dtype",
    [(name, dtype) for name in ZOO for dtype in turn(name, [torch.float32, torch.bfloat16])],
    ids=str,
)
def test_error_is_eagers(name, dtype):
    check_error_is_eagers(name, dtype, zoo.tokens())


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("shape", [(16, 4), (16, 1), (7, 3), (2, 1)], ids=lambda s: f"{s[1]}x{s[0]}")
def test_shapes(name, shape):
    check_error_is_eagers(name, torch.float32, zoo.tokens(*shape))


@pytest.mark.parametrize("name", SAMPLED)
def test_single_operators_as_kernels(name, monkeypatch):
    monkeypatch.setenv("THUNDER_FUSE_SINGLE", "1")
    check_error_is_eagers(name, torch.float32, zoo.tokens())


def generate(fn, gpt, prefill=5, steps=3):
    """Logits of a prefill and of single tokens after it; the model's caches are filled on the way."""
    idx, _ = zoo.tokens()
    outputs = []
    with torch.no_grad():
        pos = torch.arange(prefill, device=DEVICE)
        outputs.append(fn(idx[:, :prefill], pos))
        for i in range(prefill, prefill + steps):
            # A copy: whether a tensor is aligned to 16 bytes is part of the key.
            outputs.append(fn(idx[:, i : i + 1].clone(), torch.tensor([i], device=DEVICE)))
    caches = [block.attn.kv_cache for block in gpt.transformer.h]
    return outputs, [t.clone() for c in caches for t in (c.k, c.v)]


def with_cache(config):
    gpt = zoo.build(config)
    gpt.set_kv_cache(batch_size=2, max_seq_length=12, device=DEVICE)
    return gpt


@pytest.mark.parametrize("name", [name for name in ZOO if taken(f"a cache {name}", 2)])
def test_inference_with_a_cache(name):
    config = ZOO[name]
    gpt = with_cache(config)
    compiled = thunder.jit(gpt)
    prefill = 5 if config.sliding_window_size is None else 3  # a ring buffer takes no more at once
    want, want_caches = _eager(config, prefill)
    got, caches = generate(compiled, gpt, prefill)
    for a, b in zip([*got, *caches], [*want, *want_caches], strict=True):
        assert a.shape == b.shape and error(a, b) <= ROUNDINGS
    # The prefill, and one program for all single tokens; ring buffers look at a position's value to decide how much of
    # the cache there is, so there is one for each position until they are full.
    if config.sliding_window_size is None:
        assert thunder.cache_misses(compiled) == 2, thunder.explain_miss(compiled)


def _eager(config, prefill):
    gpt = with_cache(config)
    return generate(gpt, gpt, prefill)


def test_batched_positions():
    # Each sequence at its own position: the cache is written row by row, through views of views.
    config = ZOO["Llama-3-8B"]
    idx, _ = zoo.tokens()
    pos = torch.tensor([[0, 1, 2, 3], [2, 3, 4, 5]], device=DEVICE)

    def run(gpt, fn):
        with torch.no_grad():
            first = fn(idx[:, :4], pos)
            second = fn(idx[:, 4:5], pos[:, -1:] + 1)
        return (
            first,
            second,
            *(t for block in gpt.transformer.h for t in (block.attn.kv_cache.k, block.attn.kv_cache.v)),
        )

    eager, ours = with_cache(config), with_cache(config)
    for a, b in zip(run(ours, thunder.jit(ours)), run(eager, eager), strict=True):
        assert error(a, b) <= ROUNDINGS


def test_chunked_head():
    model = zoo.build(ZOO["Llama-3-8B"], torch.float64, zoo.float64_model())
    idx, _ = zoo.tokens()
    got = thunder.jit(model)(idx, lm_head_chunk_size=3)
    want = model(idx, lm_head_chunk_size=3)
    assert [t.shape for t in got] == [t.shape for t in want]
    for a, b in zip(got, want, strict=True):
        assert error(a, b) <= 1e-9


def test_the_zoo_has_every_switch():
    """The narrowing loses none: each field of Config that differs among the configs still does."""
    configs = list(ZOO.values())
    for field in (
        "parallel_residual",
        "norm_class_name",
        "mlp_class_name",
        "bias",
        "attn_bias",
        "rotary_percentage",
        "norm_qk",
        "norm_qk_type",
        "post_attention_norm",
        "post_mlp_norm",
        "shared_attention_norm",
        "scale_embeddings",
        "norm_1",
        "lm_head_bias",
        "gelu_approximate",
        "rope_condense_ratio",
    ):
        assert len({getattr(c, field) for c in configs}) > 1, field
    for field in (
        "sliding_window_size",
        "attention_logit_softcapping",
        "final_logit_softcapping",
        "rope_indices",
        "rope_adjustments",
        "latent_attention",
        "n_expert_groups",
        "attention_scores_scalar",
    ):
        assert len({getattr(c, field) is None for c in configs}) == 2, field
    assert {c.n_head // c.n_query_groups for c in configs} >= {1, 2, 3, 4, 8}
