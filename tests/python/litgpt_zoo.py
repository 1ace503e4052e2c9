"""The architectures among litgpt's configs, narrowed: two layers, few and small heads, every switch as it was."""

import dataclasses
import importlib.util
import sys

import litgpt_import
import torch
from devices import DEVICE

HEAD = 16  # large enough that every rotary fraction of the zoo leaves an even number of elements
BLOCK = 16
WINDOW = 4


def _pattern(indices):
    """Two layers' worth of a pattern: one of each kind if it has both."""
    if indices is None:
        return None
    return [1, 0] if len(set(indices)) == 2 else indices[:2]


def _heads(full):
    """Few heads, the ratio of queries to keys as it was (up to 8)."""
    ratio = full.n_head // full.n_query_groups
    if ratio == 1:
        return 4, 4
    if full.n_query_groups == 1:
        return 4, 1
    ratio = min(ratio, 8)
    return 2 * ratio, 2


def _adjustments(full):
    # The original length must be in the range of the narrow model's positions, or the adjustment would not bend
    # anything.
    if full.rope_adjustments and "original_max_seq_len" in full.rope_adjustments:
        return {**full.rope_adjustments, "original_max_seq_len": BLOCK}
    return full.rope_adjustments


def narrow(Config, full):
    """`full` cut to a model that runs in milliseconds."""
    n_head, groups = _heads(full)
    wider = 0 if full.n_head * full.head_size == full.n_embd else 16
    changed = dict(
        n_layer=2,
        n_head=n_head,
        n_query_groups=groups,
        head_size=HEAD,
        n_embd=n_head * HEAD + wider,
        block_size=BLOCK,
        vocab_size=50,
        padded_vocab_size=64,
        intermediate_size=48,
        sliding_window_size=WINDOW if full.sliding_window_size else None,
        sliding_window_indices=_pattern(full.sliding_window_indices) if full.sliding_window_size else None,
        rope_indices=_pattern(full.rope_indices),
        rope_adjustments=_adjustments(full),
        attention_scores_scalar=HEAD + 4 if full.attention_scores_scalar else None,
    )
    if full.n_expert:
        changed.update(n_expert=4, n_expert_per_token=2)
        if full.moe_intermediate_size:
            changed.update(moe_intermediate_size=24)
    given = {f.name: getattr(full, f.name) for f in dataclasses.fields(full)}
    return Config(**{**given, **changed})


# Numbers that change no operator: of two configs that differ in these alone, one is tested.
_NUMBERS = ("name", "hf_config", "norm_eps", "rope_base", "padding_multiple", "rope_local_base_freq", "vocab_size")


def _key(config):
    values = [
        (f.name, bool(v) if f.name in ("attention_logit_softcapping", "final_logit_softcapping") else repr(v))
        for f in dataclasses.fields(config)
        if f.name not in _NUMBERS
        for v in [getattr(config, f.name)]
    ]
    norm = config.norm_class_name, "Gemma" in config.name, "OLMo" in config.name  # what Config.norm_class looks at
    adjusted = tuple(sorted(config.rope_adjustments or ()))
    return (*[v for v in values if v[0] != "rope_adjustments"], norm, adjusted, config.rope_local_base_freq is None)


# Switches of the model that no published config of this litgpt sets.
_EXTRA = {
    "latent-attention": dict(
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        parallel_residual=False,
        bias=False,
        rotary_percentage=1.0,
        latent_attention=dict(q_lora_rank=24, kv_lora_rank=20, qk_rope_head_dim=8, qk_nope_head_dim=12, v_head_dim=16),
        rope_adjustments=dict(
            factor=4.0, beta_fast=32.0, beta_slow=1.0, original_max_seq_len=8, mscale=1.0, mscale_all_dim=0.8
        ),
    ),
    "grouped-experts": dict(
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMoE",
        parallel_residual=False,
        bias=False,
        rotary_percentage=1.0,
        moe_intermediate_size=24,
        n_expert=8,
        n_expert_per_token=3,
        n_shared_expert=2,
        n_expert_groups=4,
        n_topk_groups=2,
        n_topk_scores_per_group=2,
        first_k_dense_replace=1,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
    ),
    "interleaved-rotary": dict(
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        parallel_residual=False,
        bias=False,
        rotary_percentage=0.5,
        rope_interleave=True,
        n_query_groups=2,
    ),
}


def architectures():
    """{name: narrowed Config}, one for each distinct architecture; names are those of the first config that has it."""
    _, Config = litgpt_import.load()
    from litgpt.config import configs

    found = {}
    for entry in configs:
        config = narrow(Config, Config(**entry))
        found.setdefault(_key(config), config)
    zoo = {config.name: config for config in found.values()}
    for name, switches in _EXTRA.items():
        zoo[name] = Config(
            name=name,
            n_layer=2,
            n_head=4,
            head_size=HEAD,
            n_embd=4 * HEAD,
            block_size=BLOCK,
            vocab_size=50,
            padded_vocab_size=64,
            intermediate_size=48,
            **switches,
        )
    return zoo


def float64_model():
    """litgpt.model with its float32 islands (norms, softmax, routers) in float64: the reference that rounds nowhere."""
    if "litgpt.model_float64" in sys.modules:
        return sys.modules["litgpt.model_float64"]
    litgpt_import.load()
    spec = importlib.util.find_spec("litgpt.model")
    source = spec.loader.get_source("litgpt.model")
    for old, new in (
        (".float()", ".double()"),
        ("torch.float32", "torch.float64"),
        ("dtype=torch.float)", "dtype=torch.float64)"),
    ):
        assert old in source
        source = source.replace(old, new)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("litgpt.model_float64", None))
    module.__file__ = spec.origin
    sys.modules[module.__name__] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)  # noqa: S102  # litgpt's own text
    return module


def build(config, dtype=torch.float32, module=None):
    """A model with random weights, the same for every dtype and module up to rounding."""
    if module is None:
        litgpt_import.load()
        import litgpt.model as module
    import litgpt.model

    # Config names the classes of its norms and MLPs in litgpt.model; the float64 module must be built of its own.
    replaced = {n: getattr(litgpt.model, n) for n in ("RMSNorm", "GptNeoxMLP", "LLaMAMLP", "GemmaMLP", "LLaMAMoE")}
    try:
        for n in replaced:
            setattr(litgpt.model, n, getattr(module, n))
        model = module.GPT(config)
    finally:
        for n, original in replaced.items():
            setattr(litgpt.model, n, original)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            # Norms start as the identity, with which a wrong gradient can hide.
            scale, offset = (
                (0.2, 1.0)
                if p.ndim == 1 and name.endswith("weight")
                else (0.3 if p.ndim == 1 else p.shape[-1] ** -0.5, 0)
            )
            p.copy_(offset + scale * noise)
    return model.to(DEVICE, dtype)


class WithLoss(torch.nn.Module):
    """Logits and the loss, as a training step computes them."""

    def __init__(self, gpt):
        super().__init__()
        self.gpt = gpt

    def forward(self, idx, targets):
        logits = self.gpt(idx)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))
        return logits, loss


def tokens(length=8, batch=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 50, (2, batch, length), generator=generator).to(DEVICE).unbind(0)
