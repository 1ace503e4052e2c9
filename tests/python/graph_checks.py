"""Programs as CUDA graphs: what the tests of `graphs=True` and `graphs="auto"` share.

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
        self.kept = 1000  # bytes, by each recording
        self.refusal = None
        self.total, self.free = 1 << 40, 1 << 40
        self.issued, self.device_takes, self.behind = 500.0, 400.0, False
        self.other_streams = False
        self.not_ready = 0  # how often a timer has nothing yet

    def capturing(self):
        return self.elsewhere

    def stream(self, index):
        return self.current_stream

    def record(self, run, index, shared, pool):
        assert pool is None  # a run that is repeated would find what it reads freed
        self.shared.append(shared)
        with torch.random.fork_rng(devices=[]):
            run()  # a capture draws nothing
        if self.fail:
            raise self.fail
        return run, self.kept, object()

    def refuses(self):
        return self.refusal

    def memory(self, index):
        return self.total, self.free

    def others_have_streams(self, index):
        return self.other_streams

    def timer(self):
        return Timer(self)


class Timer:
    """Of one run, whose times the test decides."""

    def __init__(self, recorder):
        self.recorder, self.wait = recorder, recorder.not_ready

    def stop(self):
        self.times = self.recorder.issued, self.recorder.device_takes, self.recorder.behind

    def read(self):
        self.wait -= 1
        return None if self.wait >= 0 else self.times


_on_gpu = None


def recorder_on_gpu():
    """PyTorch's graphs, with times that say that a recording pays.  One for all functions, like the default recorder.

    Other processes on the same GPU make measured times long.  `test_measured_times_decide` uses measured times.
    """
    global _on_gpu
    if _on_gpu is None:

        class WithTimes(thunder._graphs.Recorder):
            issued, device_takes, behind, not_ready = 500.0, 400.0, False, 0

            def timer(self):
                return Timer(self)

        _on_gpu = WithTimes()
    return _on_gpu


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
    stats = thunder.compile_stats(f)["graphs"]
    return stats["captures"], stats["replays"], stats["ungraphed"]


def reasons(f):
    """Why programs are not recorded, as one text."""
    return "; ".join(thunder.compile_stats(f)["graphs"]["why"])


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


# ---- graphs="auto" -------------------------------------------------------------------------------------------------


def automatic(f, recorder=None, **options):
    """`thunder.jit(f)` with another recorder than the default one, whose times the test decides."""
    before = thunder._graphs._automatic
    thunder._graphs._automatic = recorder or (recorder_on_gpu() if ON_GPU else Recorder())
    try:
        return thunder.jit(f, **options)
    finally:
        thunder._graphs._automatic = before


class Block(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.down(torch.nn.functional.gelu(self.up(self.norm(x)))))


class Deep(nn.Module):
    """So many launches that the host is what takes the time."""

    def __init__(self, blocks=12, width=32, dropout=0.0):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(blocks))
        self.head = nn.Linear(width, 8)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def deep_pair(blocks=12 if ON_GPU else 2, **options):
    """The same module twice: compiled without graphs and with the default; and the two modules."""
    torch.manual_seed(0)
    plain, other = (Deep(blocks, **options).to(DEVICE) for _ in range(2))
    other.load_state_dict(plain.state_dict())
    return (thunder.jit(plain, graphs=False), automatic(other)), (plain, other)
