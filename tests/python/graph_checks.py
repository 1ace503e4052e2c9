"""Programs as CUDA graphs: what the tests of thunder.transforms.CUDAGraphTransform share.

On the CPU a stand-in records: its replay runs the program again and overwrites the memory of its results, as a graph's
replay does, so that whoever reads a recording's memory too late reads other numbers.  With `pytest --device cuda` the
same tests run with PyTorch's graphs.
"""

import torch
from devices import DEVICE, ON_CPU
from torch import nn

import thunder

ON_GPU = not ON_CPU


class Recorder:
    """Of programs on the CPU."""

    device = "cpu"
    warm_up = True

    def __init__(self):
        self.current_stream = 1
        self.elsewhere = False
        self.fail = None
        self.shared = []

    def capturing(self):
        return self.elsewhere

    def stream(self, index):
        return self.current_stream

    def record(self, run, index, shared):
        self.shared.append(shared)
        with torch.random.fork_rng(devices=[]):
            run()  # a capture draws nothing
        if self.fail:
            raise self.fail
        return run


class Transform:
    def __init__(self, recorder):
        self.recorder = recorder

    def graph_recorder(self):
        return self.recorder


def transform():
    return thunder.transforms.CUDAGraphTransform() if ON_GPU else Transform(Recorder())


def graphed(f):
    return thunder.jit(f, transforms=[transform()])


def counts(f):
    return tuple(thunder.compile_stats(f)["graphs"].values())


def randn(*shape, **options):
    return torch.randn(*shape, device=DEVICE, **options)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)) * torch.sigmoid(self.a(x)))


def make_nets():
    """A module, a compiled one with the same parameters, and the module below that."""
    torch.manual_seed(0)
    eager = Net().to(DEVICE)
    other = Net().to(DEVICE)
    other.load_state_dict(eager.state_dict())
    return eager, graphed(other), other


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def same_gradients(eager, other):
    for (name, p), q in zip(eager.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def train(run, module, xs):
    for x in xs:
        module.zero_grad()
        run(x).square().sum().backward()


def warm(nets, calls=2):
    train(nets[1], nets[2], [randn(3, 8) for _ in range(calls)])
    nets[2].zero_grad()
