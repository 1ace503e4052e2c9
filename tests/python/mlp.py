"""A model for tests of modules."""

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)
        self.dropout = nn.Dropout(dropout)
        self.scale = 1.0

    def forward(self, x):
        return self.b(self.dropout(torch.relu(self.a(x)))) * self.scale
