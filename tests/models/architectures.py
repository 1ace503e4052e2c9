"""Architectures of Hugging Face transformers, narrowed: two layers, few heads, random weights, every switch as it is.

An entry names the model's class and what its config gets; which class of config that is follows from the model.
"""

import dataclasses
import functools

import torch
import transformers
from batches import (
    BATCH,
    LENGTH,
    TEXT,
    VOCABULARY,
    answer_span,
    audio_class,
    encoder_decoder,
    image,
    image_and_caption,
    image_and_text,
    image_class,
    image_question,
    image_segments,
    language,
    language_without_mask,
    of_size,
    patches_of_series,
    random_image,
    sequence_class,
    series,
    spectrogram_class,
    spectrogram_to_text,
    token_class,
    video_class,
)

POSITIONS = 256  # more than any batch is long


@dataclasses.dataclass(frozen=True)
class Architecture:
    model: str
    config: dict
    inputs: object  # function of (config, generator): the forward's arguments


_TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
_TEXT = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=64,
    **_TOKENS,
)
_GROUPED = _TEXT | dict(num_key_value_heads=2)
_EXPERTS = _GROUPED | dict(num_experts_per_tok=2, moe_intermediate_size=24)
# The names of GPT-2's time.
_GPT = dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, **_TOKENS)
_VISION = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=16,
    patch_size=4,
    num_channels=3,
    num_labels=3,
)
_SEQ2SEQ = dict(
    vocab_size=VOCABULARY,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
    decoder_start_token_id=1,
    forced_eos_token_id=2,
    **_TOKENS,
)
_T5 = dict(
    vocab_size=VOCABULARY,
    d_model=32,
    d_kv=8,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    pad_token_id=0,
    eos_token_id=1,
    decoder_start_token_id=0,
)
_SPEECH = dict(
    vocab_size=32,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    conv_dim=[16, 16, 16],
    conv_kernel=[10, 3, 2],
    conv_stride=[5, 2, 2],
    num_feat_extract_layers=3,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    classifier_proj_size=16,
    mask_time_length=2,
    num_labels=3,
)
_LATENT = dict(q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)
_STAGES = dict(num_channels=3, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], num_labels=3)


def _decoder(model, /, inputs=language, base=_GROUPED, **config):
    return Architecture(model, base | config, inputs)


def _encoder(model, /, inputs=language, base=_TEXT, **config):
    return Architecture(model, base | config, inputs)


_of = functools.partial

ARCHITECTURES = {
    # decoders
    "llama": _decoder("LlamaForCausalLM"),
    "mistral": _decoder("MistralForCausalLM", sliding_window=4),
    "ministral": _decoder("MinistralForCausalLM", sliding_window=4, head_dim=8),
    "mixtral": _decoder("MixtralForCausalLM", num_local_experts=4, base=_EXPERTS),
    "qwen2": _decoder("Qwen2ForCausalLM", use_sliding_window=True, sliding_window=4, max_window_layers=1),
    "qwen3": _decoder("Qwen3ForCausalLM", head_dim=16),
    "qwen2_moe": _decoder(
        "Qwen2MoeForCausalLM", base=_EXPERTS, num_experts=4, shared_expert_intermediate_size=24,
        output_router_logits=True,
    ),
    "qwen3_moe": _decoder("Qwen3MoeForCausalLM", base=_EXPERTS, num_experts=4, head_dim=16),
    "qwen3_next": _decoder(
        "Qwen3NextForCausalLM", base=_EXPERTS, num_experts=4, head_dim=8, shared_expert_intermediate_size=24,
        linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
    ),
    "gemma": _decoder("GemmaForCausalLM", head_dim=16),
    "gemma2": _decoder("Gemma2ForCausalLM", head_dim=16, sliding_window=4, query_pre_attn_scalar=16),
    "gemma3": _decoder(
        "Gemma3ForCausalLM", head_dim=16, sliding_window=4, query_pre_attn_scalar=16,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "phi": _decoder("PhiForCausalLM"),
    "phi3": _decoder("Phi3ForCausalLM"),
    "phimoe": _decoder("PhimoeForCausalLM", base=_EXPERTS, num_local_experts=4),
    "falcon": _decoder("FalconForCausalLM", base=_TEXT),
    "gpt2": _decoder("GPT2LMHeadModel", base=_GPT),
    "gpt_bigcode": _decoder("GPTBigCodeForCausalLM", base=_GPT),
    "gpt_neo": _decoder(
        "GPTNeoForCausalLM", base=_TEXT, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
        window_size=4,
    ),
    "gpt_neox": _decoder("GPTNeoXForCausalLM", base=_TEXT),
    "gptj": _decoder("GPTJForCausalLM", base=_GPT, rotary_dim=4),
    "gpt_oss": _decoder(
        "GptOssForCausalLM", base=_EXPERTS, num_local_experts=4, head_dim=8, sliding_window=4,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "codegen": _decoder("CodeGenForCausalLM", base=_GPT, rotary_dim=4),
    "opt": _decoder("OPTForCausalLM", base=_TEXT, ffn_dim=48, word_embed_proj_dim=16),
    "bloom": _decoder("BloomForCausalLM", base=_TEXT, n_layer=2, n_head=4),
    "mpt": _decoder("MptForCausalLM", base=_TEXT, d_model=32, n_layers=2, n_heads=4, max_seq_len=64),
    "stablelm": _decoder("StableLmForCausalLM", use_qkv_bias=True, qk_layernorm=True, use_parallel_residual=True),
    "starcoder2": _decoder("Starcoder2ForCausalLM", sliding_window=4),
    "cohere": _decoder("CohereForCausalLM", use_qk_norm=True),
    "cohere2": _decoder("Cohere2ForCausalLM", sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
    "olmo": _decoder("OlmoForCausalLM", clip_qkv=1.0),
    "olmo2": _decoder("Olmo2ForCausalLM"),
    "olmo3": _decoder(
        "Olmo3ForCausalLM", sliding_window=4, layer_types=["sliding_attention", "full_attention"]
    ),
    "olmoe": _decoder("OlmoeForCausalLM", base=_EXPERTS, num_experts=4),
    "granite": _decoder("GraniteForCausalLM", embedding_multiplier=2.0, logits_scaling=3.0),
    "granitemoe": _decoder("GraniteMoeForCausalLM", base=_EXPERTS, num_local_experts=4),
    "deepseek_v2": _decoder(
        "DeepseekV2ForCausalLM", base=_EXPERTS | _LATENT, num_key_value_heads=4, n_routed_experts=4,
        n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1, topk_method="group_limited_greedy",
    ),
    "deepseek_v3": _decoder(
        "DeepseekV3ForCausalLM", base=_EXPERTS | _LATENT, num_key_value_heads=4, n_routed_experts=8,
        n_shared_experts=1, first_k_dense_replace=1, n_group=2, topk_group=1,
    ),
    "glm": _decoder("GlmForCausalLM", head_dim=8),
    "glm4": _decoder("Glm4ForCausalLM", head_dim=8),
    "nemotron": _decoder("NemotronForCausalLM", head_dim=8),
    "persimmon": _decoder("PersimmonForCausalLM", base=_TEXT),
    "smollm3": _decoder("SmolLM3ForCausalLM", no_rope_layers=[1, 0]),
    "helium": _decoder("HeliumForCausalLM", head_dim=8),
    "biogpt": _decoder("BioGptForCausalLM", base=_TEXT),
    "xglm": _decoder(
        "XGLMForCausalLM", base=_TEXT, d_model=32, num_layers=2, attention_heads=4, ffn_dim=48
    ),
    "ctrl": _decoder("CTRLLMHeadModel", base=_GPT, dff=48),
    "openai-gpt": _decoder("OpenAIGPTLMHeadModel", base=_GPT),
    "dbrx": _decoder(
        "DbrxForCausalLM", base=_TEXT, d_model=32, n_heads=4, n_layers=2, max_seq_len=64,
        ffn_config={"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
        attn_config={"kv_n_heads": 2, "clip_qkv": 1.0, "rope_theta": 10000.0},
    ),
    "lfm2": _decoder("Lfm2ForCausalLM", layer_types=["conv", "full_attention"], block_multiple_of=8),
    "diffllama": _decoder("DiffLlamaForCausalLM"),
    # recurrent
    "mamba": _decoder("MambaForCausalLM", inputs=language_without_mask, base=_TEXT, state_size=4),
    "mamba2": _decoder(
        "Mamba2ForCausalLM", inputs=language_without_mask, base=_TEXT, state_size=4, num_heads=8, head_dim=8,
        n_groups=2, chunk_size=4,
    ),
    "falcon_mamba": _decoder("FalconMambaForCausalLM", inputs=language_without_mask, base=_TEXT, state_size=4),
    "rwkv": _decoder(
        "RwkvForCausalLM", inputs=language_without_mask, base=_TEXT, attention_hidden_size=32, context_length=64
    ),
    "recurrent_gemma": _decoder(
        "RecurrentGemmaForCausalLM", head_dim=8, lru_width=32, attention_window_size=4,
        block_types=["recurrent", "attention"], num_key_value_heads=1,
    ),
    "bamba": _decoder(
        "BambaForCausalLM", mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=4, mamba_chunk_size=4,
        attn_layer_indices=[1],
    ),
    "jamba": _decoder(
        "JambaForCausalLM", num_experts=4, num_experts_per_tok=2, mamba_d_state=4, mamba_dt_rank=4,
        attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        use_mamba_kernels=False,
    ),
    # encoders
    "bert": _encoder("BertForMaskedLM"),
    "bert-sequence": _encoder("BertForSequenceClassification", inputs=sequence_class),
    "bert-answer": _encoder("BertForQuestionAnswering", inputs=answer_span),
    "roberta": _encoder("RobertaForMaskedLM"),
    "roberta-prelayernorm": _encoder("RobertaPreLayerNormForMaskedLM"),
    "xlm-roberta": _encoder("XLMRobertaForTokenClassification", inputs=token_class),
    "camembert": _encoder("CamembertForMaskedLM"),
    "distilbert": _encoder("DistilBertForMaskedLM", dim=32, n_layers=2, n_heads=4, hidden_dim=48),
    "albert": _encoder("AlbertForMaskedLM", embedding_size=16),
    "electra": _encoder("ElectraForMaskedLM", embedding_size=16),
    "deberta": _encoder(
        "DebertaForMaskedLM", relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=8
    ),
    "deberta-v2": _encoder(
        "DebertaV2ForMaskedLM", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=4
    ),
    "mpnet": _encoder("MPNetForMaskedLM"),
    "megatron-bert": _encoder("MegatronBertForMaskedLM"),
    "mobilebert": _encoder(
        "MobileBertForMaskedLM", embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16
    ),
    "squeezebert": _encoder("SqueezeBertForMaskedLM", embedding_size=32),
    "rembert": _encoder("RemBertForMaskedLM", input_embedding_size=16, output_embedding_size=16),
    "roformer": _encoder("RoFormerForMaskedLM"),
    "convbert": _encoder("ConvBertForMaskedLM", embedding_size=32),
    "ernie": _encoder("ErnieForMaskedLM"),
    "esm": _encoder("EsmForMaskedLM", position_embedding_type="rotary", mask_token_id=4),
    "fnet": _encoder("FNetForMaskedLM", inputs=language_without_mask),
    "funnel": _encoder(
        "FunnelForMaskedLM", base=_TOKENS, vocab_size=VOCABULARY, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8,
        d_inner=48,
    ),
    "ibert": _encoder("IBertForMaskedLM"),
    "modernbert": _encoder("ModernBertForMaskedLM", local_attention=4, cls_token_id=3, sep_token_id=4),
    "nystromformer": _encoder(
        "NystromformerForMaskedLM", inputs=language_without_mask, segment_means_seq_len=LENGTH, num_landmarks=4
    ),
    "xlnet": _encoder("XLNetLMHeadModel", base=_TOKENS, vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=4,
                      d_inner=48),
    "xlm": _encoder("XLMWithLMHeadModel", base=_TEXT, emb_dim=32, n_layers=2, n_heads=4),
    "canine": _encoder("CanineForSequenceClassification", inputs=_of(sequence_class), downsampling_rate=2,
                       local_transformer_stride=4, num_hash_buckets=64),
    # encoder-decoders
    "t5": Architecture("T5ForConditionalGeneration", _T5, encoder_decoder),
    "mt5": Architecture("MT5ForConditionalGeneration", _T5 | dict(feed_forward_proj="gated-gelu"), encoder_decoder),
    "umt5": Architecture("UMT5ForConditionalGeneration", _T5, encoder_decoder),
    "longt5": Architecture("LongT5ForConditionalGeneration", _T5 | dict(local_radius=3), encoder_decoder),
    "switch_transformers": Architecture(
        "SwitchTransformersForConditionalGeneration", _T5 | dict(num_experts=4, expert_capacity=8), encoder_decoder
    ),
    "bart": Architecture("BartForConditionalGeneration", _SEQ2SEQ, encoder_decoder),
    "mbart": Architecture("MBartForConditionalGeneration", _SEQ2SEQ, encoder_decoder),
    "pegasus": Architecture("PegasusForConditionalGeneration", _SEQ2SEQ, encoder_decoder),
    "marian": Architecture("MarianMTModel", _SEQ2SEQ, encoder_decoder),
    "m2m_100": Architecture("M2M100ForConditionalGeneration", _SEQ2SEQ, encoder_decoder),
    "blenderbot": Architecture("BlenderbotForConditionalGeneration", _SEQ2SEQ, encoder_decoder),
    "led": Architecture(
        "LEDForConditionalGeneration",
        _SEQ2SEQ | dict(attention_window=4, max_encoder_position_embeddings=64, max_decoder_position_embeddings=64),
        encoder_decoder,
    ),
    "prophetnet": Architecture(
        "ProphetNetForConditionalGeneration",
        _TOKENS | dict(
            vocab_size=VOCABULARY, hidden_size=32, num_encoder_layers=2, num_decoder_layers=2,
            num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
            max_position_embeddings=64, decoder_start_token_id=1,
        ),
        encoder_decoder,
    ),
    # vision
    "vit": Architecture("ViTForImageClassification", _VISION, image_class),
    "deit": Architecture("DeiTForImageClassification", _VISION, image_class),
    "beit": Architecture(
        "BeitForImageClassification",
        _VISION | dict(use_relative_position_bias=True, use_shared_relative_position_bias=False, out_indices=[1]),
        image_class,
    ),
    "dinov2": Architecture("Dinov2ForImageClassification", _VISION, image_class),
    "vit_mae": Architecture(
        "ViTMAEForPreTraining",
        _VISION | dict(decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2,
                       decoder_intermediate_size=24),
        image,
    ),
    "swin": Architecture(
        "SwinForImageClassification",
        dict(image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=4, num_labels=3),
        image_class,
    ),
    "swinv2": Architecture(
        "Swinv2ForImageClassification",
        dict(image_size=16, patch_size=2, embed_dim=8, depths=[2, 1], num_heads=[2, 4], window_size=4, num_labels=3),
        image_class,
    ),
    "convnext": Architecture(
        "ConvNextForImageClassification",
        dict(num_stages=2, hidden_sizes=[8, 16], depths=[1, 2], image_size=32, num_labels=3), image_class,
    ),
    "convnextv2": Architecture(
        "ConvNextV2ForImageClassification",
        dict(num_stages=2, hidden_sizes=[8, 16], depths=[1, 2], image_size=32, num_labels=3), image_class,
    ),
    "resnet": Architecture("ResNetForImageClassification", _STAGES, _of(image_class, size=32)),
    "regnet": Architecture("RegNetForImageClassification", _STAGES | dict(groups_width=4), _of(image_class, size=32)),
    "mobilenet_v2": Architecture(
        "MobileNetV2ForImageClassification", dict(image_size=96, depth_multiplier=0.25, num_labels=3), image_class
    ),
    "efficientnet": Architecture(
        "EfficientNetForImageClassification",
        dict(image_size=96, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=640 // 8 * 4, num_labels=3),
        image_class,
    ),
    "segformer": Architecture(
        "SegformerForSemanticSegmentation",
        dict(num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[3, 3],
             strides=[2, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=3),
        _of(image_segments, size=16),
    ),
    "poolformer": Architecture(
        "PoolFormerForImageClassification",
        dict(depths=[1, 1], hidden_sizes=[8, 16], patch_sizes=[3, 3], strides=[2, 2], padding=[1, 1],
             num_encoder_blocks=2, num_labels=3),
        _of(image_class, size=16),
    ),
    "pvt": Architecture(
        "PvtForImageClassification",
        dict(image_size=32, num_encoder_blocks=2, depths=[1, 1], sequence_reduction_ratios=[2, 1], hidden_sizes=[8, 16],
             patch_sizes=[4, 2], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], num_labels=3),
        image_class,
    ),
    "cvt": Architecture(
        "CvtForImageClassification",
        dict(patch_sizes=[3, 3, 3], patch_stride=[2, 2, 1], patch_padding=[1, 1, 1], embed_dim=[8, 8, 16],
             num_heads=[1, 1, 2], depth=[1, 2, 3], drop_path_rate=[0.0, 0.0, 0.0], attention_drop_rate=[0.0] * 3,
             drop_rate=[0.0] * 3, num_labels=3),
        _of(image_class, size=16),
    ),
    "mobilevit": Architecture(
        "MobileViTForImageClassification",
        dict(image_size=96, hidden_sizes=[8, 16, 16], neck_hidden_sizes=[8, 8, 8, 16, 16, 16, 32],
             num_attention_heads=2, patch_size=2, num_labels=3),
        image_class,
    ),
    "videomae": Architecture(
        "VideoMAEForVideoClassification", _VISION | dict(num_frames=4, tubelet_size=2), video_class
    ),
    # several kinds of data
    "clip": Architecture(
        "CLIPModel",
        dict(text_config=_TEXT, vision_config=_VISION, projection_dim=16), image_and_text,
    ),
    "siglip": Architecture("SiglipModel", dict(text_config=_TEXT | dict(projection_size=32), vision_config=_VISION),
                           image_and_text),
    "altclip": Architecture(
        "AltCLIPModel",
        dict(text_config=_TEXT | dict(project_dim=16), vision_config=_VISION | dict(projection_dim=16),
             projection_dim=16),
        image_and_text,
    ),
    "blip": Architecture(
        "BlipForConditionalGeneration",
        dict(text_config=_TEXT | dict(encoder_hidden_size=32, sep_token_id=4), vision_config=_VISION,
             projection_dim=16),
        image_and_caption,
    ),
    "git": Architecture(
        "GitForCausalLM", _TEXT | dict(vision_config=_VISION),
        lambda config, g: language(config, g) | {"pixel_values": random_image(config.vision_config, g)},
    ),
    "vilt": Architecture(
        "ViltForQuestionAnswering", _TEXT | _VISION, image_question,
    ),
    # audio
    "wav2vec2": Architecture("Wav2Vec2ForSequenceClassification", _SPEECH, audio_class),
    "hubert": Architecture("HubertForSequenceClassification", _SPEECH, audio_class),
    "wavlm": Architecture("WavLMForSequenceClassification", _SPEECH, audio_class),
    "sew": Architecture("SEWForSequenceClassification", _SPEECH | dict(squeeze_factor=2), audio_class),
    "data2vec-audio": Architecture("Data2VecAudioForSequenceClassification", _SPEECH, audio_class),
    "whisper": Architecture(
        "WhisperForConditionalGeneration",
        _SEQ2SEQ | dict(num_mel_bins=8, max_source_positions=16, max_target_positions=64, suppress_tokens=None,
                        begin_suppress_tokens=None),
        spectrogram_to_text,
    ),
    "audio-spectrogram-transformer": Architecture(
        "ASTForAudioClassification",
        _VISION | dict(max_length=24, num_mel_bins=16, frequency_stride=4, time_stride=4), spectrogram_class,
    ),
    # time series
    "time_series_transformer": Architecture(
        "TimeSeriesTransformerForPrediction",
        dict(prediction_length=4, context_length=8, lags_sequence=[1, 2], num_time_features=2, d_model=16,
             encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
             encoder_ffn_dim=16, decoder_ffn_dim=16),
        series,
    ),
    "patchtst": Architecture(
        "PatchTSTForPrediction",
        dict(num_input_channels=2, context_length=16, patch_length=4, patch_stride=4, prediction_length=4, d_model=16,
             num_attention_heads=2, num_hidden_layers=2, ffn_dim=24),
        patches_of_series,
    ),
}


def _zero(value):
    if isinstance(value, (list, tuple)):
        return [_zero(v) for v in value]
    return type(value)(0) if isinstance(value, (float, int)) and not isinstance(value, bool) else value


def _without_dropout(config):
    """Probabilities to 0: training, but nothing is dropped."""
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PreTrainedConfig):
            _without_dropout(value)
        elif "drop" in name:
            setattr(config, name, _zero(value))
    return config


_LONGEST = ("max_position_embeddings", "n_positions", "max_seq_len", "max_encoder_position_embeddings",
            "max_decoder_position_embeddings")


def build(name, positions=None):
    """The model with random weights, in training mode.  `positions`: how many it has, else what the entry says."""
    entry = ARCHITECTURES[name]
    model_class = getattr(transformers, entry.model)
    longer = {key: positions for key in _LONGEST if positions and key in entry.config}
    config = _without_dropout(model_class.config_class(**entry.config | longer))
    torch.manual_seed(0)
    model = model_class(config)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        # What starts as zeros and ones, or very small, hides wrong gradients.
        for p in model.parameters():
            if p.is_floating_point():
                scale = 0.1 if p.ndim < 2 else 0.5 * p.shape[-1] ** -0.5
                p.add_(scale * torch.randn(p.shape, generator=generator))
    return model.train()


def takes_any_length(name):
    return ARCHITECTURES[name].inputs in TEXT


def inputs(name, config, seed, batch=BATCH, length=LENGTH):
    """The forward's arguments.  What is no text has its length from the config."""
    with of_size(batch, length):
        return ARCHITECTURES[name].inputs(config, torch.Generator().manual_seed(seed))
