"""Networks of convolutions, norms and poolings of images and volumes, in both layouts, beside eager and float64."""

import copy

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE
from torch import nn

import thunder


class Network(nn.Module):
    """Down, up and across, as a U-Net."""

    def __init__(self, width=16):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(groups, width) for groups in (4, 16, 1))
        self.down = nn.Conv2d(width, width, 3, stride=2)
        self.up = nn.Conv2d(width, width, 3, padding=1)
        self.last = nn.Conv2d(2 * width, 3, 1)

    def forward(self, x):
        x = self.first(x)
        y = self.down(F.pad(F.silu(self.norms[0](x)), (0, 1, 0, 1)))
        y = F.interpolate(F.silu(self.norms[1](y)), size=x.shape[-2:], mode="nearest")
        return self.last(torch.cat([self.norms[2](self.up(y)) + x, x], 1))


class Painter(nn.Module):
    """Down, across and up, as an image-to-image generator."""

    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norms = nn.ModuleList(
            nn.InstanceNorm2d(n, affine=a) for n, a in ((width, False), (2 * width, True), (width, True))
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 3, stride=2, padding=1, output_padding=1)
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(F.pad(x, (1, 1, 1, 1), mode="reflect"))))
        y = F.relu(self.norms[1](self.down(y)))
        return torch.tanh(self.last(F.relu(self.norms[2](self.up(y)))))


class Volumes(nn.Module):
    """Down and up over three dimensions, which are made of the two of the images."""

    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv3d(3, width, 3, padding=1)
        self.down = nn.Conv3d(width, 2 * width, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm3d(width), nn.InstanceNorm3d(2 * width), nn.GroupNorm(2, 2 * width)])
        self.up = nn.ConvTranspose3d(2 * width, width, 3, stride=2, padding=1, output_padding=1)
        self.last = nn.Conv3d(2 * width, 3, 1)

    def forward(self, x):
        height, width = (n // 2 * 2 for n in x.shape[-2:])
        x = self.first(torch.stack([x, -x, x.flip(-1), x * x, x + 1, 2 * x], 2)[..., :height, :width])
        y = self.norms[1](self.down(F.relu(F.max_pool3d(self.norms[0](x), 2))))
        y = self.up(self.norms[2](y + F.avg_pool3d(F.relu(y), 3, stride=1, padding=1)))
        return self.last(torch.cat([x, y], 1))


def gradients(function, module, x, autocast):
    module.zero_grad()
    x = x.detach().requires_grad_()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
        y = function(x)
    y.double().square().mean().backward()
    return {"x": x.grad, "y": y.detach(), **{n: p.grad.clone() for n, p in module.named_parameters()}}


@pytest.mark.parametrize("autocast", [True, False], ids=["autocast", "float32"])
@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (3, 3, 17, 11), (1, 3, 9, 6)], ids=str)
@pytest.mark.parametrize("network", [Network, Painter, Volumes])
def test_a_network(network, shape, last, autocast):
    torch.manual_seed(0)
    module, x = network().to(DEVICE), torch.randn(shape, device=DEVICE)
    if last:
        module = module.to(memory_format=torch.channels_last_3d if network is Volumes else torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    exact = copy.deepcopy(module).double()
    truth = gradients(exact, exact, x.double(), False)
    # The bias before a norm of single channels has no gradient: its error counts beside the others' gradients.
    least = 1e-2 * max(right.norm() for right in truth.values())
    eager = gradients(module, module, x, autocast)
    compiled = thunder.jit(module)
    for _ in range(2):
        ours = gradients(compiled, module, x, autocast)
        assert ours["y"].stride() == eager["y"].stride() and ours["y"].dtype == eager["y"].dtype
        for name, right in truth.items():
            scale = right.norm().clamp_min(least)
            allowed, error = ((g[name].double() - right).norm() / scale for g in (eager, ours))
            assert error <= 2 * allowed + (3e-2 if autocast else 1e-4), (name, error, allowed)
