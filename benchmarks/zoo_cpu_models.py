"""The models of zoo_cpu.py: small ones of many families, written with PyTorch alone, with random weights and made-up
data.  A builder returns (module, arguments, loss of the result).
"""

import torch
from torch import nn
from torch.nn import functional as F

MODELS = {}


def model(build):
    MODELS[build.__name__] = build
    return build


def labels(classes, *shape):
    targets = torch.randint(0, classes, shape)

    def loss(logits):
        return F.cross_entropy(logits.reshape(-1, classes), targets.reshape(-1))

    return loss


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layers = kind(256, 256, num_layers=2, batch_first=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


@model
def lstm():
    return Recurrent(nn.LSTM), [torch.randn(8, 50, 256)], labels(10, 8)


@model
def gru():
    return Recurrent(nn.GRU), [torch.randn(8, 50, 256)], labels(10, 8)


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


@model
def resnet():
    module = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2), Residual(128, 128, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    return module, [torch.randn(8, 3, 32, 32)], labels(10, 8)


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, rotary=False):
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.qkv = nn.Linear(width, 3 * width, bias=not rotary)
        self.out = nn.Linear(width, width, bias=not rotary)

    def forward(self, x, angles=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.rotary:
            q, k = self.turned(q, angles), self.turned(k, angles)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    @staticmethod
    def turned(x, angles):
        cos, sin = angles
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, first):
        super().__init__()
        self.attention, self.first = Attention(width, heads), first
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        if self.first:
            x = x + self.attention(self.norms[0](x))
            return x + self.mlp(self.norms[1](x))
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.mlp(x))


class Bert(nn.Module):
    def __init__(self, vocabulary, width, heads, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(EncoderLayer(width, heads, False) for _ in range(layers)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        return self.head(self.layers(self.norm(self.words(ids) + self.places(places))))


@model
def bert():
    return Bert(2000, 256, 4, 4), [torch.randint(0, 2000, (4, 128))], labels(2000, 4, 128)


class LlamaLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads, causal=True, rotary=True)
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x, angles):
        x = x + self.attention(self.norms[0](x), angles)
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocabulary, width, heads, layers):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, size, 2) / size))

    def forward(self, ids):
        angles = torch.outer(torch.arange(ids.size(1), device=ids.device), self.rates).repeat(1, 2)
        angles, x = (angles.cos(), angles.sin()), self.words(ids)
        for layer in self.layers:
            x = layer(x, angles)
        return self.head(self.norm(x))


@model
def llama():
    return Llama(1000, 256, 4, 4), [torch.randint(0, 1000, (4, 100))], labels(1000, 4, 100)


class Vit(nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 65, width))
        self.layers = nn.Sequential(*(EncoderLayer(width, heads, True) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, 100)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.size(0), -1, -1), x), dim=1) + self.places
        return self.head(self.layers(x)[:, 0])


@model
def vit():
    return Vit(192, 3, 4), [torch.randn(8, 3, 64, 64)], labels(100, 8)


class MixerLayer(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.along, self.across = (
            nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n)) for n in (length, width)
        )

    def forward(self, x):
        x = x + self.along(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.across(self.norms[1](x))


class Mixer(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.layers = nn.Sequential(*(MixerLayer(64, width) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, 100)

    def forward(self, images):
        return self.head(self.layers(self.patches(images).flatten(2).transpose(1, 2)).mean(dim=1))


@model
def mixer():
    return Mixer(192, 4), [torch.randn(8, 3, 64, 64)], labels(100, 8)


class Dlrm(nn.Module):
    def __init__(self, tables, rows, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1)
        )
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers, categories):
        x = self.dense(numbers)
        found = torch.stack([x, *(t(categories[:, i]) for i, t in enumerate(self.tables))], dim=1)
        products = torch.bmm(found, found.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((x, products), dim=1)).squeeze(1)


@model
def dlrm():
    targets = torch.rand(512).round()
    module, batch = Dlrm(8, 1000, 64), [torch.randn(512, 13), torch.randint(0, 1000, (512, 8, 4))]
    return module, batch, lambda logits: F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))


class Graph(nn.Module):
    """Graph convolutions: the mean over a node's neighbours, then a layer."""

    def __init__(self, width, layers):
        super().__init__()
        self.own, self.of_others = (nn.ModuleList(nn.Linear(width, width) for _ in range(layers)) for _ in range(2))
        self.head = nn.Linear(width, 10)

    def forward(self, x, source, target):
        count = torch.zeros(x.size(0), dtype=x.dtype).index_add(0, target, torch.ones_like(target, dtype=x.dtype))
        for own, of_others in zip(self.own, self.of_others, strict=True):
            total = torch.zeros_like(x).index_add(0, target, x[source])
            x = F.relu(own(x) + of_others(total / count.clamp(min=1).unsqueeze(1)))
        return self.head(x)


@model
def gnn():
    source, target = torch.randint(0, 2000, (2, 12000))
    return Graph(128, 3), [torch.randn(2000, 128), source, target], labels(10, 2000)
