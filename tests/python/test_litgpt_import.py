"""The models that many tests use are there."""

import litgpt_import
import torch


def test_tiny_gpt_runs():
    GPT, Config = litgpt_import.load()
    config = Config.from_name("pythia-14m", n_layer=1, n_embd=16, n_head=2, intermediate_size=32, block_size=8)
    logits = GPT(config)(torch.zeros(1, 4, dtype=torch.long))
    assert logits.shape == (1, 4, config.padded_vocab_size)
