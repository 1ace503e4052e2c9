"""Attention as models write it by hand, and other batches of matrix products."""

import torch
from torch import nn


class Windows(nn.Module):
    """Attention within windows, with a bias of positions and a mask of neighbouring windows (Swin)."""

    def __init__(self, rows=49, heads=3, size=32, masked=True):
        super().__init__()
        self.heads, self.scale = heads, size**-0.5
        self.qkv, self.out = nn.Linear(heads * size, 3 * heads * size), nn.Linear(heads * size, heads * size)
        self.table = nn.Parameter(torch.randn(2 * rows - 1, heads))
        places = torch.arange(rows)
        self.register_buffer("index", (places[:, None] - places + rows - 1).view(-1))
        hidden = torch.zeros(4, rows, rows)
        hidden[1, : rows // 2, rows // 2 :] = hidden[3, rows // 3 :, : rows // 3] = -100.0
        self.register_buffer("mask", hidden if masked else None)

    def forward(self, x):
        windows, rows, width = x.shape
        q, k, v = self.qkv(x).reshape(windows, rows, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * self.scale) @ k.transpose(-2, -1)
        scores = scores + self.table[self.index].view(rows, rows, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        if self.mask is not None:
            seen = scores.view(windows // 4, 4, self.heads, rows, rows) + self.mask[None, :, None]
            scores = seen.view(windows, self.heads, rows, rows)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(windows, rows, width))


def attention(q, k, v):
    """Of heads within rows."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return (torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v).transpose(1, 2)


def by_einsum(q, k, v):
    weights = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
    return torch.einsum("bhqk,bkhd->bqhd", weights, v)


def linear_attention(q, k, v):
    q, k, v = (t.transpose(1, 2) for t in (q.sigmoid(), k.sigmoid(), v))
    return (q @ (k.transpose(-2, -1) @ v)).transpose(1, 2)


def added(q, k, v):
    q, k, v = (t.transpose(1, 2).flatten(0, 1) for t in (q, k, v))
    scores = torch.baddbmm(k.new_ones(()).expand(len(q), q.shape[1], k.shape[1]), q, k.mT, alpha=0.3)
    return torch.bmm(scores.softmax(-1), v)


PROGRAMS = {f.__name__: f for f in (attention, by_einsum, linear_attention, added)}
