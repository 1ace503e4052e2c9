"""The models of zoo.py: what people train, in real sizes, with random weights and made-up data.

A function decorated with `model` builds one.  It takes `small`, for tests on a CPU: few layers and a small batch, the
same code; it returns a `Case`.  Weights are drawn on the device that is the default then.  `case` also builds any model
of timm's, and any decoder or encoder of transformers' in the sizes of its default configuration.
"""

import dataclasses
import importlib
import itertools
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

MODELS = {}


def itself(loss):
    return loss


@dataclasses.dataclass
class Case:
    """One model and one batch."""

    module: nn.Module
    batch: dict
    loss: Callable = lambda outputs: outputs.loss
    autocast: bool = False  # parameters in float32 under autocast to bfloat16; else all is bfloat16


def model(text):
    """Registers a builder under its own name, with one line about the model and the batch."""

    def register(build):
        MODELS[build.__name__.replace("_", "-")] = (build, text)
        return build

    return register


def half(build):
    """The module in bfloat16, made in it, so that float32 weights never exist."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return build()
    finally:
        torch.set_default_dtype(before)


def tokens(vocabulary, *shape):
    return torch.randint(0, vocabulary, shape)


def language_model(config, batch, length, autocast=False):
    """A decoder of `transformers` with its own loss."""
    from transformers import AutoModelForCausalLM

    def build():
        return AutoModelForCausalLM.from_config(config)

    ids = tokens(config.vocab_size, batch, length)
    return Case(build() if autocast else half(build), {"input_ids": ids, "labels": ids}, autocast=autocast)


# ---- decoders --------------------------------------------------------------------------------------------------------


@model("TinyLlama 1.1B (litgpt), 4 x 2048, bf16")
def tinyllama(small):
    import litgpt_import

    GPT, Config = litgpt_import.load()
    config = Config.from_name("tiny-llama-1.1b", **({"n_layer": 1, "padded_vocab_size": 500} if small else {}))
    gpt = half(lambda: GPT(config))
    length = 32 if small else 2048
    gpt.max_seq_length = length
    gpt.cos, gpt.sin = gpt.rope_cache()
    shape = (2 if small else 4, length)
    ids, targets = tokens(config.padded_vocab_size, *shape), tokens(config.padded_vocab_size, *shape)
    return Case(litgpt_import.with_loss(gpt), {"ids": ids, "targets": targets}, loss=itself)


def llama(small, batch, length):
    from transformers import LlamaConfig

    config = LlamaConfig(
        vocab_size=500 if small else 32000,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=1 if small else 16,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        use_cache=False,
    )
    return language_model(config, 1 if small else batch, 64 if small else length)


@model("Llama 1B (transformers), 2 x 4096, bf16")
def llama_1b(small):
    return llama(small, 2, 4096)


@model("Llama 1B (transformers), 3 x 1000, bf16")
def llama_1b_odd(small):
    return llama(small, 3, 1000)


@model("Qwen3 0.6B, 4 x 2048, bf16")
def qwen3(small):
    from transformers import Qwen3Config

    sizes = {"num_hidden_layers": 1, "vocab_size": 500} if small else {"num_hidden_layers": 28}
    config = Qwen3Config(
        hidden_size=1024,
        intermediate_size=3072,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
        use_cache=False,
        **sizes,
    )
    return language_model(config, 1 if small else 4, 64 if small else 2048)


@model("Mistral shape 1.2B, window 1024, 2 x 4096, bf16")
def mistral(small):
    from transformers import MistralConfig

    config = MistralConfig(
        vocab_size=500 if small else 32000,
        hidden_size=2048,
        intermediate_size=7168,
        num_hidden_layers=1 if small else 16,
        num_attention_heads=16,
        num_key_value_heads=4,
        sliding_window=16 if small else 1024,
        use_cache=False,
    )
    return language_model(config, 1 if small else 2, 64 if small else 4096)


@model("Gemma 3 1B, window 512, 2 x 2048, bf16")
def gemma3(small):
    from transformers import Gemma3TextConfig

    sizes = {"num_hidden_layers": 6, "vocab_size": 500, "sliding_window": 16} if small else {"num_hidden_layers": 26}
    config = Gemma3TextConfig(
        hidden_size=1152,
        intermediate_size=6912,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        use_cache=False,
        **sizes,
    )
    return language_model(config, 1 if small else 2, 64 if small else 2048)


def gpt2_config(small, dropout):
    from transformers import GPT2Config

    sizes = {"n_layer": 1, "vocab_size": 501} if small else {}
    return GPT2Config(
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=1,
        **sizes,
    )


@model("GPT-2 small, 16 x 1024, autocast, no dropout")
def gpt2(small):
    return language_model(gpt2_config(small, 0.0), 1 if small else 16, 64 if small else 1024, autocast=True)


@model("GPT-2 small, 16 x 1024, autocast, dropout 0.1")
def gpt2_dropout(small):
    return language_model(gpt2_config(small, 0.1), 1 if small else 16, 64 if small else 1024, autocast=True)


@model("OLMoE shape, 64 experts, 8 layers, 4 x 1024, bf16")
def olmoe(small):
    from transformers import OlmoeConfig

    sizes = {"num_hidden_layers": 1, "vocab_size": 500, "num_experts": 8} if small else {"num_hidden_layers": 8}
    config = OlmoeConfig(hidden_size=2048, intermediate_size=1024, use_cache=False, output_router_logits=False, **sizes)
    return language_model(config, 1 if small else 4, 32 if small else 1024)


@model("Mamba 130M (transformers, PyTorch's operators), 2 x 256, autocast")
def mamba(small):
    from transformers import MambaConfig

    config = MambaConfig(
        hidden_size=768, num_hidden_layers=1 if small else 24, vocab_size=501 if small else 50280, use_cache=False
    )
    return language_model(config, 1 if small else 2, 16 if small else 256, autocast=True)


# ---- encoders, encoder-decoders --------------------------------------------------------------------------------------


def bert_case(small, dropout, padded):
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"num_hidden_layers": 1, "vocab_size": 501} if small else {}
    config = BertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **sizes)
    batch, length = (2, 32) if small else (32, 512)
    ids = tokens(config.vocab_size, batch, length)
    inputs = {"input_ids": ids, "labels": ids}
    if padded:
        lengths = torch.randint(length // 4, length + 1, (batch, 1))
        inputs["attention_mask"] = (torch.arange(length) < lengths).long()
    return Case(BertForMaskedLM(config), inputs, autocast=True)


@model("BERT base, 32 x 512, autocast, no dropout")
def bert(small):
    return bert_case(small, 0.0, padded=False)


@model("BERT base, 32 x 512, autocast, no dropout, padded batch")
def bert_padded(small):
    return bert_case(small, 0.0, padded=True)


@model("BERT base, 32 x 512, autocast, dropout 0.1")
def bert_dropout(small):
    return bert_case(small, 0.1, padded=False)


@model("DeBERTa v3 small, 16 x 512, autocast, no dropout")
def deberta(small):
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

    config = DebertaV2Config(
        vocab_size=501 if small else 128100,
        hidden_size=768,
        num_hidden_layers=1 if small else 6,
        num_attention_heads=12,
        intermediate_size=3072,
        relative_attention=True,
        position_buckets=256,
        pos_att_type="p2c|c2p",
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pooler_dropout=0.0,
    )
    batch, length = (2, 32) if small else (16, 512)
    inputs = {"input_ids": tokens(config.vocab_size, batch, length), "labels": tokens(2, batch)}
    return Case(DebertaV2ForSequenceClassification(config), inputs, autocast=True)


@model("T5 base, 16 x 512 -> 128, bf16, no dropout")
def t5(small):
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"num_layers": 1, "vocab_size": 500} if small else {"num_layers": 12}
    config = T5Config(
        d_model=768,
        d_kv=64,
        d_ff=3072,
        num_heads=12,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        use_cache=False,
        **sizes,
    )
    batch, source, target = (2, 32, 16) if small else (16, 512, 128)
    ids, labels = tokens(config.vocab_size, batch, source), tokens(config.vocab_size, batch, target)
    return Case(half(lambda: T5ForConditionalGeneration(config)), {"input_ids": ids, "labels": labels})


@model("Whisper small, 16 x 30 s, 224 tokens, autocast")
def whisper(small):
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    layers = 1 if small else 12
    config = WhisperConfig(
        vocab_size=501 if small else 51865,
        d_model=768,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    batch, length = (1, 16) if small else (16, 224)
    inputs = {"input_features": torch.randn(batch, 80, 3000), "labels": tokens(config.vocab_size, batch, length)}
    return Case(WhisperForConditionalGeneration(config), inputs, autocast=True)


@model("wav2vec 2.0 base, 8 x 5 s, autocast")
def wav2vec2(small):
    return wav2vec2_case(small, apply_spec_augment=False)


@model("wav2vec 2.0 base, 8 x 5 s, autocast, spans masked at random")
def wav2vec2_masked(small):
    return wav2vec2_case(small, apply_spec_augment=True)


def wav2vec2_case(small, **options):
    from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

    parts = ("hidden", "attention", "activation", "feat_proj", "final")
    off = {"layerdrop": 0.0, **{f"{part}_dropout": 0.0 for part in parts}}
    sizes = {"num_hidden_layers": 1} if small else {}
    config = Wav2Vec2Config(**options, **off, **sizes)
    batch, samples = (1, 4000) if small else (8, 80000)
    inputs = {"input_values": torch.randn(batch, samples), "labels": tokens(2, batch)}
    return Case(Wav2Vec2ForSequenceClassification(config), inputs, autocast=True)


# ---- images ----------------------------------------------------------------------------------------------------------


class Labelled(nn.Module):
    """A classifier and its loss."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, images, labels):
        return F.cross_entropy(self.body(images), labels)


def timm_model(name, batch, small, channels_last=False, **options):
    import timm

    body = timm.create_model(name, **options)
    images = torch.randn(2 if small else batch, *body.pretrained_cfg["input_size"])
    if channels_last:
        body, images = body.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    labels = tokens(1000, images.shape[0])
    return Case(Labelled(body), {"images": images, "labels": labels}, loss=itself, autocast=True)


@model("ViT base, 128 x 224, autocast")
def vit(small):
    return timm_model("vit_base_patch16_224", 128, small)


@model("Swin tiny, 128 x 224, autocast")
def swin(small):
    return timm_model("swin_tiny_patch4_window7_224", 128, small, drop_path_rate=0.0)


@model("ConvNeXt tiny, 128 x 224, autocast")
def convnext(small):
    return timm_model("convnext_tiny", 128, small)


@model("ResNet-50, 128 x 224, channels last, autocast")
def resnet50(small):
    return timm_model("resnet50", 128, small, channels_last=True)


@model("ResNet-50, 128 x 224, autocast")
def resnet50_first(small):
    return timm_model("resnet50", 128, small)


@model("EfficientNet-B0, 128 x 224, channels last, autocast")
def efficientnet(small):
    return timm_model("efficientnet_b0", 128, small, channels_last=True, drop_rate=0.0, drop_path_rate=0.0)


class Denoiser(nn.Module):
    """A diffusion model and the loss of its training."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, noise, **inputs):
        return F.mse_loss(self.body(**inputs, return_dict=False)[0][:, : noise.shape[1]].float(), noise.float())


@model("DiT B/2 (diffusers), 64 x 32 x 32 latents, autocast")
def dit(small):
    from diffusers import DiTTransformer2DModel

    body = DiTTransformer2DModel(
        num_layers=1 if small else 12, num_attention_heads=12, attention_head_dim=64, sample_size=32
    )
    batch = 1 if small else 64
    noise = torch.randn(batch, 4, 32, 32)
    inputs = {"hidden_states": noise + 1, "timestep": tokens(1000, batch), "class_labels": tokens(1000, batch)}
    return Case(Denoiser(body), {"noise": noise, **inputs}, loss=itself, autocast=True)


@model("Stable Diffusion's U-Net shape, half its width (diffusers), 8 x 64 x 64, autocast")
def unet(small):
    from diffusers import UNet2DConditionModel

    widths = (32, 32, 64, 64) if small else (160, 320, 640, 640)
    body = UNet2DConditionModel(sample_size=64, block_out_channels=widths, cross_attention_dim=768)
    batch = 1 if small else 8
    noise = torch.randn(batch, 4, 64, 64)
    inputs = {
        "sample": noise + 1,
        "timestep": tokens(1000, batch),
        "encoder_hidden_states": torch.randn(batch, 77, 768),
    }
    return Case(Denoiser(body), {"noise": noise, **inputs}, loss=itself, autocast=True)


class Painter(nn.Module):
    """The generator of CycleGAN: images halved twice, blocks of two convolutions, and doubled twice."""

    def __init__(self, width, blocks):
        super().__init__()

        def normed(convolution):
            return [convolution, nn.InstanceNorm2d(convolution.out_channels), nn.ReLU()]

        def half(n):
            return [nn.ReflectionPad2d(1), nn.Conv2d(n, n, 3), nn.InstanceNorm2d(n)]

        self.down = nn.Sequential(
            nn.ReflectionPad2d(3),
            *normed(nn.Conv2d(3, width, 7)),
            *normed(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)),
            *normed(nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1)),
        )
        self.blocks = nn.ModuleList(
            nn.Sequential(*half(4 * width), nn.ReLU(), *half(4 * width)) for _ in range(blocks)
        )
        self.up = nn.Sequential(
            *normed(nn.ConvTranspose2d(4 * width, 2 * width, 3, stride=2, padding=1, output_padding=1)),
            *normed(nn.ConvTranspose2d(2 * width, width, 3, stride=2, padding=1, output_padding=1)),
            nn.ReflectionPad2d(3),
            nn.Conv2d(width, 3, 7),
            nn.Tanh(),
        )

    def forward(self, image, target):
        x = self.down(image)
        for block in self.blocks:
            x = x + block(x)
        return nn.functional.l1_loss(self.up(x), target)


@model("CycleGAN's generator, 8 x 256 x 256, autocast")
def cyclegan(small):
    size, batch = (64, 1) if small else (256, 8)
    images = {"image": torch.randn(batch, 3, size, size), "target": torch.rand(batch, 3, size, size)}
    return Case(Painter(8 if small else 64, 2 if small else 9), images, loss=itself, autocast=True)


class Segmenter(nn.Module):
    """A U-Net over volumes: two convolutions a scale, instance norms, transposed convolutions upwards (as nnU-Net)."""

    def __init__(self, widths, classes):
        super().__init__()

        def scale(n, out):
            halves = ([nn.Conv3d(k, out, 3, padding=1), nn.InstanceNorm3d(out, affine=True)] for k in (n, out))
            return nn.Sequential(*(layer for half in halves for layer in (*half, nn.LeakyReLU(0.01))))

        self.down = nn.ModuleList(scale(n, out) for n, out in itertools.pairwise((1, *widths)))
        self.up = nn.ModuleList(nn.ConvTranspose3d(2 * n, n, 2, stride=2) for n in widths[:-1])
        self.joined = nn.ModuleList(scale(2 * n, n) for n in widths[:-1])
        self.head = nn.Conv3d(widths[0], classes, 1)

    def forward(self, volume, labels):
        x, scales = self.down[0](volume), []
        for down in self.down[1:]:
            scales.append(x)
            x = down(F.max_pool3d(x, 2))
        for up, joined in zip(reversed(self.up), reversed(self.joined), strict=True):
            x = joined(torch.cat([up(x), scales.pop()], 1))
        return F.cross_entropy(self.head(x), labels)


@model("U-Net over volumes, 2 x 96 x 96 x 96, autocast")
def unet3d(small):
    size, widths = (16, (4, 8, 16)) if small else (96, (32, 64, 128, 256))
    volumes = {"volume": torch.randn(2, 1, size, size, size), "labels": tokens(3, 2, size, size, size)}
    return Case(Segmenter(widths, 3), volumes, loss=itself, autocast=True)


# ---- tables and graphs -----------------------------------------------------------------------------------------------


class Recommender(nn.Module):
    """Embeddings of categories, their products in pairs with the dense features, and a click's probability (DLRM)."""

    def __init__(self, tables, rows, width, dense):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(
            nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width)
        )
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(width + pairs, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)
        )
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)

    def forward(self, dense, categories, clicks):
        x = self.bottom(dense)
        found = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        each = torch.stack([x, *found], dim=1)
        products = torch.bmm(each, each.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return F.binary_cross_entropy_with_logits(self.top(torch.cat([x, products], dim=1)).squeeze(1), clicks)


@model("DLRM, 26 tables of 100,000 x 64, batch 8192, float32 under autocast")
def dlrm(small):
    rows, batch = (100, 8) if small else (100_000, 8192)
    inputs = {
        "dense": torch.randn(batch, 13),
        "categories": tokens(rows, batch, 26, 4),
        "clicks": tokens(2, batch).float(),
    }
    return Case(Recommender(26, rows, 64, 13), inputs, loss=itself, autocast=True)


class NodeClassifier(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x, edges, labels):
        return F.cross_entropy(self.body(x, edges), labels)


@model("GraphSAGE (torch_geometric), 3 layers of 256, 100,000 nodes, 1,000,000 edges, autocast")
def graphsage(small):
    from torch_geometric.nn import GraphSAGE

    nodes, edges = (50, 200) if small else (100_000, 1_000_000)
    inputs = {"x": torch.randn(nodes, 128), "edges": tokens(nodes, 2, edges), "labels": tokens(47, nodes)}
    return Case(NodeClassifier(GraphSAGE(128, 256, num_layers=3, out_channels=47)), inputs, loss=itself, autocast=True)


# ---- any model of a library's ----------------------------------------------------------------------------------------


def of_transformers(kind, model_type, small):
    """With the dropout of its configuration, 8 x 512 tokens, autocast."""
    import transformers

    config = transformers.AutoConfig.for_model(model_type, **({"num_hidden_layers": 2} if small else {}))
    module = getattr(transformers, kind).from_config(config)
    ids = tokens(config.get_text_config().vocab_size, *((2, 32) if small else (8, 512)))
    return Case(module, {"input_ids": ids, "labels": ids}, autocast=True)


LIBRARIES = {
    "timm": lambda name, small: timm_model(name, 64, small),
    "causal": lambda name, small: of_transformers("AutoModelForCausalLM", name, small),
    "masked": lambda name, small: of_transformers("AutoModelForMaskedLM", name, small),
}


def case(name, small):
    """`name`: of MODELS, or `timm:NAME`, `causal:MODEL_TYPE`, `masked:MODEL_TYPE`.  Raises KeyError for another one."""
    library, _, of_library = name.partition(":")
    return LIBRARIES[library](of_library, small) if of_library else MODELS[name][0](small)


importlib.import_module("zoo_reference")  # registers its models
