"""Models of zoo.py whose code stands here: a recurrent one, and two with complex numbers, as reference code has."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from zoo_models import Case, half, itself, model, tokens


def rotations(head, length):
    frequencies = 1.0 / 500000.0 ** (torch.arange(0, head, 2)[: head // 2].float() / head)
    angles = torch.outer(torch.arange(length), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def rotated(x, turns):
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * turns[: x.shape[1], None]).flatten(3).type_as(x)


class Block(nn.Module):
    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, width // heads
        self.norm, self.inner_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.wq, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, groups * self.head, bias=False)
        self.wv = nn.Linear(width, groups * self.head, bias=False)
        self.w1, self.w3 = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)

    def forward(self, x, turns):
        y = self.norm(x)
        q = rotated(self.wq(y).unflatten(-1, (self.heads, self.head)), turns)
        k = rotated(self.wk(y).unflatten(-1, (self.groups, self.head)), turns)
        v = self.wv(y).unflatten(-1, (self.groups, self.head))
        k, v = (t.repeat_interleave(self.heads // self.groups, 2) for t in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        x = x + self.wo(y.transpose(1, 2).flatten(2))
        y = self.inner_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class ReferenceLlama(nn.Module):
    def __init__(self, layers, vocabulary, length, width=2048):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, 32, 8, 5632) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("turns", rotations(width // 32, length), persistent=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, self.turns)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


@model("Llama 1B as its reference code writes it (complex rotary embedding), 2 x 4096, bf16")
def llama_complex(small):
    layers, vocabulary, batch, length = (1, 500, 1, 64) if small else (16, 32000, 2, 4096)
    module = half(lambda: ReferenceLlama(layers, vocabulary, length))
    return Case(module, {"ids": tokens(vocabulary, batch, length)}, itself)


class Diagonal(nn.Module):
    """A diagonal state-space layer, as a convolution over the whole sequence: https://arxiv.org/abs/2206.11893."""

    def __init__(self, width, states):
        super().__init__()
        self.step = nn.Parameter(torch.rand(width) * math.log(100.0) + math.log(1e-3))
        self.decay = nn.Parameter(torch.full((width, states), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(states).float().repeat(width, 1))
        self.c = nn.Parameter(torch.randn(width, states, 2) * 0.5**0.5)
        self.d, self.mix, self.norm = nn.Parameter(torch.randn(width)), nn.Linear(width, 2 * width), nn.LayerNorm(width)

    def kernel(self, length):
        a = -torch.exp(self.decay) + 1j * self.frequency
        turn = a * torch.exp(self.step)[:, None]
        c = torch.view_as_complex(self.c) * (torch.exp(turn) - 1.0) / a
        powers = torch.exp(turn[..., None] * torch.arange(length, device=turn.device))
        return 2 * (c[..., None] * powers).sum(1).real

    def forward(self, x):
        length = x.shape[1]
        u = self.norm(x).transpose(1, 2).float()
        spectrum = torch.fft.rfft(self.kernel(length), n=2 * length) * torch.fft.rfft(u, n=2 * length)
        y = torch.fft.irfft(spectrum, n=2 * length)[..., :length] + u * self.d[:, None]
        return x + F.glu(self.mix(F.gelu(y).transpose(1, 2).to(x.dtype)), -1)


@model("S4D, 6 layers of 512 with 32 states, 32 x 1024, autocast")
def s4d(small):
    width, layers, batch, length = (16, 1, 2, 32) if small else (512, 6, 32, 1024)
    module = nn.Sequential(*(Diagonal(width, 32) for _ in range(layers)), nn.Linear(width, 10))
    batches = {"input": torch.randn(batch, length, width)}
    return Case(module, batches, lambda y: y.float().square().mean(), autocast=True)


@model("LSTM 2 x 512, 64 x 128 steps, autocast")
def lstm(small):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10_000, 256)
            self.body = nn.LSTM(256, 512, num_layers=2, batch_first=True)
            self.head = nn.Linear(512, 100)

        def forward(self, ids, labels):
            return F.cross_entropy(self.head(self.body(self.embed(ids))[0]).flatten(0, 1), labels.flatten())

    shape = (2, 8) if small else (64, 128)
    return Case(Tagger(), {"ids": tokens(10_000, *shape), "labels": tokens(100, *shape)}, loss=itself, autocast=True)
