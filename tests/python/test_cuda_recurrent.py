"""Recurrent layers on a GPU by cuDNN: eager's results, dtypes and gradients, and what CUDA graphs record of them."""

import copy

import pytest
import torch
from devices import DEVICE
from torch import nn

import thunder

pytestmark = pytest.mark.gpu

KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", **options),
}
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-3, torch.float64: 1e-9}


def states_of(module, batch, dtype):
    cells = module.num_layers * (2 if module.bidirectional else 1)
    out = module.proj_size or module.hidden_size
    h = torch.randn(cells, batch, out, device=DEVICE, dtype=dtype, requires_grad=True)
    if module.mode != "LSTM":
        return h
    return h, torch.randn(cells, batch, module.hidden_size, device=DEVICE, dtype=dtype, requires_grad=True)


def flat(*values):
    return [t for v in values for t in (flat(*v) if isinstance(v, (tuple, list)) else (v,))]


def step(f, module, x, state=None):
    """Results and gradients of inputs and parameters."""
    inputs = [t.detach().clone().requires_grad_() for t in flat(x, () if state is None else state)]
    given = [] if state is None else [tuple(inputs[1:]) if isinstance(state, tuple) else inputs[1]]
    results = flat(f(inputs[0], *given))
    sum((r.float() * torch.arange(r.numel(), device=DEVICE).view_as(r).sin()).sum() for r in results).backward()
    found = [*results, *(t.grad for t in inputs), *(p.grad for p in module.parameters())]
    module.zero_grad()
    return found


def same(ours, eagers, tolerance):
    for i, (a, b) in enumerate(zip(ours, eagers, strict=True)):
        assert (a is None) == (b is None), i
        if b is None:
            continue
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), i
        distance = (a - b).abs().max().item() if b.numel() else 0
        assert distance <= tolerance * max(b.abs().max().item(), 1), (i, distance)


def recorded(f):
    return any("recurrent" in line for line in str(thunder.last_traces(f)[-1]).splitlines() if "prim_impl" in line)


LAYERS = [
    (7, 3, {}), (1, 1, {}), (16, 8, dict(num_layers=2, batch_first=True)), (5, 4, dict(bidirectional=True, bias=False)),
    (9, 2, dict(num_layers=3, bidirectional=True, batch_first=True)),
]  # fmt: skip
PROJECTED = ("lstm", 6, 4, dict(proj_size=5, num_layers=2))


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("kind, steps, batch, options", [*((k, *l) for k in KINDS for l in LAYERS), PROJECTED], ids=str)
def test_results_and_gradients(kind, steps, batch, options, dtype):
    torch.manual_seed(0)
    module = KINDS[kind](6, 10, device=DEVICE, dtype=dtype, **options)
    compiled = thunder.jit(module)
    shape = (batch, steps, 6) if module.batch_first else (steps, batch, 6)
    for _ in range(2):
        x, state = torch.randn(shape, device=DEVICE, dtype=dtype), states_of(module, batch, dtype)
        for given in (None, state):
            same(step(compiled, module, x, given), step(module, module, x, given), TOLERANCE[dtype])
    assert recorded(compiled)
    module.eval()
    with torch.no_grad():
        same(flat(compiled(x, state)), flat(module(x, state)), TOLERANCE[dtype])


@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_autocast(kind, autocast):
    module = KINDS[kind](8, 128, num_layers=2, device=DEVICE)
    x, compiled = torch.randn(12, 4, 8, device=DEVICE), thunder.jit(module)
    for given in (None, states_of(module, 4, torch.float32)):
        with torch.autocast("cuda", autocast):
            same(step(compiled, module, x, given), step(module, module, x, given), 2e-2)
    assert recorded(compiled)


def test_weights_in_one_buffer_are_read_where_they_lie():
    def peak(f, x):
        with torch.no_grad():
            f(x)
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            f(x)
            return torch.cuda.max_memory_allocated() - before

    module = nn.LSTM(1024, 1024, device=DEVICE)
    x = torch.randn(2, 1, 1024, device=DEVICE)
    bytes_of_weights = sum(p.numel() for p in module.parameters()) * 4
    assert peak(thunder.jit(module), x) <= peak(module, x) + bytes_of_weights // 4


@pytest.mark.filterwarnings("ignore:RNN module weights:UserWarning")
@pytest.mark.parametrize("biases", [True, False])
def test_weights_that_lie_elsewhere(biases):
    shapes = [(40, 6), (40, 10), *([(40,), (40,)] if biases else [])]
    weights = [torch.randn(s, device=DEVICE, requires_grad=True) for s in shapes]
    x, h = torch.randn(5, 3, 6, device=DEVICE), torch.zeros(1, 3, 10, device=DEVICE)

    def run(x):
        return torch.lstm(x, (h, h), weights, biases, 1, 0.0, True, False, False)

    compiled, found = thunder.jit(run), []
    for f in (compiled, run):
        results = f(x)
        sum(r.square().sum() for r in results).backward()
        found.append([*results, *(w.grad for w in weights)])
        for w in weights:
            w.grad = None
    same(*found, 1e-3)
    assert recorded(compiled)


def test_frozen_weights_and_inputs():
    module = nn.LSTM(6, 10, num_layers=2, device=DEVICE)
    module.weight_ih_l0.requires_grad_(False)
    compiled, x = thunder.jit(module), torch.randn(5, 3, 6, device=DEVICE)
    same(step(compiled, module, x), step(module, module, x), 1e-3)
    for p in module.parameters():
        p.requires_grad_(False)
    found = []
    for f in (compiled, module):
        leaf = x.clone().requires_grad_()
        f(leaf)[0].sum().backward()
        found.append([leaf.grad])
    same(*found, 1e-3)


def test_a_second_backward():
    module, x = nn.GRU(6, 10, num_layers=2, device=DEVICE), torch.randn(5, 3, 6, device=DEVICE, requires_grad=True)
    out = thunder.jit(module)(x)[0]
    first, second = (torch.autograd.grad(out.square().sum(), x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    eager = torch.autograd.grad(module(x)[0].square().sum(), x)[0]
    same([second], [eager], 1e-3)


def test_evaluation_has_gradients():
    """cuDNN has them in training alone, and eager refuses."""
    module, x = nn.LSTM(6, 10, device=DEVICE), torch.randn(5, 3, 6, device=DEVICE)
    trained = step(module, module, x)
    module.eval()
    same(step(thunder.jit(module), module, x), trained, 1e-3)


def test_dropout_between_layers():
    module = nn.LSTM(16, 32, num_layers=3, dropout=0.5, device=DEVICE)
    compiled, x = thunder.jit(module), torch.randn(8, 4, 16, device=DEVICE)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(step(compiled, module, x))
    same(found[0], found[1], 1e-4)
    assert not torch.equal(found[0][0], found[2][0])
    assert all(p is not None and p.abs().sum() > 0 for p in found[0])
    module.eval()
    with torch.no_grad():
        same(flat(compiled(x)), flat(module(x)), 1e-3)
    # In the mean it is what the module gives without dropout, about.
    module.train()
    mean = torch.stack([compiled(x)[0].detach() for _ in range(200)]).mean(0)
    module.eval()
    assert (mean - module(x)[0]).abs().mean() < 0.002


@pytest.mark.parametrize("twice", [False, True])
def test_training_is_recorded_by_cuda_graphs(twice):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.body = nn.Embedding(50, 16), nn.LSTM(16, 32, 2, batch_first=True)
            self.head = nn.Linear(32, 7)

        def forward(self, ids):
            return self.head(self.body(self.embed(ids))[0])

    modules = [Tagger().to(DEVICE)]
    modules.append(copy.deepcopy(modules[0]))
    compiled = thunder.jit(modules[0])
    losses = []
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in modules]
    for seed in range(14):
        torch.manual_seed(seed)
        ids, labels = torch.randint(50, (4, 9), device=DEVICE), torch.randint(7, (36,), device=DEVICE)
        for f, optimizer in zip((compiled, modules[1]), optimizers, strict=True):
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.cross_entropy(f(ids).flatten(0, 1).float(), labels)
            if twice:
                loss.backward(retain_graph=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    torch.testing.assert_close(losses[::2], losses[1::2], rtol=2e-2, atol=2e-2)
    graphs = thunder.compile_stats(compiled)["graphs"]
    assert graphs["replays"] > 0 and not graphs["why"], graphs


def test_lengths_and_batches_that_change():
    module = nn.GRU(6, 10, num_layers=2, batch_first=True, device=DEVICE)
    compiled = thunder.jit(module)
    for batch, steps in ((3, 5), (4, 9), (1, 1), (2, 17), (6, 4)):
        x = torch.randn(batch, steps, 6, device=DEVICE)
        same(step(compiled, module, x), step(module, module, x), 1e-3)
    assert thunder.cache_misses(compiled) <= 3


def test_sizes_that_do_not_fit_and_no_steps():
    module = nn.LSTM(6, 10, device=DEVICE)
    for shape in ((4, 3, 7), (0, 3, 6)):
        raised = []
        for f in (module, thunder.jit(module)):
            with pytest.raises(RuntimeError) as caught:
                f(torch.randn(shape, device=DEVICE))
            raised.append(str(caught.value).splitlines()[0])
        assert raised[0] == raised[1]


def test_with_and_without_cudnn():
    module, x = nn.GRU(6, 10, device=DEVICE), torch.randn(5, 3, 6, device=DEVICE)
    compiled = thunder.jit(module)
    for enabled in (True, False, True):
        with torch.backends.cudnn.flags(enabled=enabled):
            same(step(compiled, module, x), step(module, module, x), 1e-4)
            assert recorded(compiled) == (thunder.cache_misses(compiled) == 1)  # the last trace that was made
            if enabled:
                continue
            leaf = x.clone().requires_grad_()  # what cuDNN's gradients do not have
            (gradient,) = torch.autograd.grad(compiled(leaf)[0].sum(), leaf, create_graph=True)
            gradient.square().sum().backward()
            assert leaf.grad.abs().sum() > 0
            module.zero_grad()
    assert thunder.cache_misses(compiled) == 2


def test_inference_keeps_nothing():
    module, x = nn.GRU(6, 10, device=DEVICE).eval(), torch.randn(5, 3, 6, device=DEVICE)
    compiled = thunder.jit(module)
    with torch.no_grad():
        same(flat(compiled(x)), flat(module(x)), 1e-4)
    assert "'gru', 1, False, False)" in str(thunder.last_traces(compiled)[-1])


def test_weights_without_biases_in_a_larger_buffer():
    """What lies behind them is no bias."""
    module = nn.Sequential(nn.Linear(3, 6), nn.LSTM(6, 10, bias=False), nn.Flatten()).to(DEVICE)
    parameters = list(module[1].parameters()) + list(module[0].parameters())
    torch.nn.utils.vector_to_parameters(torch.randn(sum(p.numel() for p in parameters), device=DEVICE), parameters)
    x, found = torch.randn(5, 3, 3, device=DEVICE), []
    for f in (thunder.jit(lambda x: module[1](module[0](x))[0]), lambda x: module[1](module[0](x))[0]):
        with torch.no_grad():
            found.append([f(x)])
    same(*found, 1e-3)


def test_gradients_inside_a_program_within_a_backward():
    """A recomputed forward is no backward, although the engine runs it."""
    module = nn.GRU(6, 10, device=DEVICE)

    def slopes(x):
        out = module(x)[0]
        sums = out.square().sum(), out.sin().sum()
        return sum(torch.autograd.grad(s, x, retain_graph=True)[0].square().sum() for s in sums)

    x, found = torch.randn(5, 3, 6, device=DEVICE), []
    for f in (thunder.jit(slopes), slopes):
        values = []

        class Recomputed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sum()

            @staticmethod
            def backward(ctx, gradient, f=f, values=values):
                with torch.enable_grad():
                    leaf = ctx.saved_tensors[0].detach().requires_grad_()
                    values.append(f(leaf).detach())
                return leaf * gradient

        Recomputed.apply(x.clone().requires_grad_()).backward()
        found.append(values)
    same(*found, 1e-3)


def test_create_graph_is_refused_as_in_eager():
    module, x = nn.GRU(6, 10, device=DEVICE), torch.randn(5, 3, 6, device=DEVICE, requires_grad=True)
    for f in (module, thunder.jit(module)):
        with pytest.raises(RuntimeError):
            (gradient,) = torch.autograd.grad(f(x)[0].sum(), x, create_graph=True)
            gradient.sum().backward()
