"""CUDA graphs as a transform: what calls give, which programs are refused, and what only a GPU can show."""

import pytest
import torch
from devices import DEVICE
from graph_checks import (
    ON_GPU,
    Net,
    Transform,
    close,
    counts,
    graphed,
    randn,
    same_gradients,
    transform,
    warm,
)
from torch import nn
from torch.nn import functional as F

import thunder

# ---- forward -------------------------------------------------------------------------------------------------------


def test_a_replay_gives_what_the_program_gives():
    weight = randn(8)
    f = graphed(lambda x: torch.tanh(x * weight).sum(-1))
    for _ in range(5):
        x = randn(4, 8)
        close(f(x), torch.tanh(x * weight).sum(-1))
    assert counts(f) == (1, 4, 1)


def test_outputs_stay_as_they_were():
    f = graphed(lambda x: (x * 2, x.sum()))
    xs = [randn(5) for _ in range(6)]
    results = [f(x) for x in xs]
    for x, (double, total) in zip(xs, results, strict=True):
        close(double, x * 2)
        close(total, x.sum())


def test_shapes_have_graphs_of_their_own():
    f = graphed(lambda x: torch.exp(x).cumsum(0))
    for _ in range(3):
        for n in (3, 7, 11):
            x = randn(n)
            close(f(x), torch.exp(x).cumsum(0))
    assert counts(f) == (3, 6, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: randn(1, 6).expand(4, 6),
        lambda: randn(9, 12)[::2, 1::3],
        lambda: randn(6, 4).t(),
        lambda: randn(40).as_strided((4, 6), (5, 2)),
        lambda: randn(0, 6),
    ],
    ids=["expanded", "gaps", "transposed", "overlapping", "empty"],
)
def test_layouts_of_arguments(make):
    f = graphed(lambda x: torch.sin(x) + x)
    for _ in range(4):
        x = make()
        close(f(x), torch.sin(x) + x)
    assert counts(f)[1] == (0 if ON_GPU and not x.numel() else 3)  # on a GPU nothing is launched, so nothing recorded


def test_the_same_tensor_twice_and_an_argument_returned():
    f = graphed(lambda x, y: (x, x * y, y))
    for _ in range(4):
        x = randn(3)
        a, b, c = f(x, x)
        assert a is x and c is x
        close(b, x * x)
    assert counts(f)[1] == 3


def test_an_output_given_twice():
    def program(x):
        y = x + 1
        return y, y

    f = graphed(program)
    for _ in range(3):
        a, b = f(randn(3))
        assert a is b


def test_buffers_that_the_program_writes():
    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3, device=DEVICE))

        def forward(self, x):
            self.seen += x
            return self.seen * 2

    eager, other = Count(), Count()
    f = graphed(other)
    for _ in range(5):
        x = randn(3)
        close(f(x), eager(x))
        close(other.seen, eager.seen)
    assert counts(f)[1] >= 3


def test_batch_norm_trains():
    torch.manual_seed(0)
    # Without a bias, whose gradient in front of a batch norm is nothing but rounding.
    eager, other = (nn.Sequential(nn.Linear(8, 4, bias=False), nn.BatchNorm1d(4)).to(DEVICE) for _ in range(2))
    other.load_state_dict(eager.state_dict())
    f = graphed(other)
    for _ in range(4):
        x = randn(6, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            (run(x) ** 3).sum().backward()  # the sum of squares is the same for all weights
        same_gradients(eager, other)
        close(other[1].running_var, eager[1].running_var)


def test_arguments_that_the_program_writes():
    f = graphed(lambda x: x.mul_(2).exp())
    for _ in range(4):
        x = randn(5)
        y = x.clone()
        close(f(x), y.mul_(2).exp())
        close(x, y)


# ---- parameters that move ------------------------------------------------------------------------------------------


def test_a_parameter_that_moves_is_read_where_it_is(nets):
    eager, f, other = nets
    for step in range(6):
        if step in (3, 4):
            new = randn(16, 8)
            eager.a.weight.data, other.a.weight.data = new, new.clone()
        x = randn(3, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            run(x).square().sum().backward()
        same_gradients(eager, other)
    assert counts(f)[0] == 6


def test_a_parameter_replaced(nets):
    eager, f, other = nets
    warm(nets)
    with torch.no_grad():
        for module in (eager, other):
            module.b.bias = nn.Parameter(torch.arange(4.0, device=DEVICE))
    for _ in range(3):
        x = randn(3, 8)
        close(f(x), eager(x))


def test_parameters_that_move_at_every_call_end_the_recording():
    module = nn.Linear(4, 4).to(DEVICE)
    f = graphed(module)
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="elsewhere at almost every call"):
        for _ in range(12):
            module.weight.data = module.weight.data.clone()
            x = randn(2, 4)
            close(f(x), torch.nn.functional.linear(x, module.weight, module.bias))
    assert counts(f)[0] < 10


def test_steps_of_an_optimizer(nets):
    eager, f, other = nets
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01, foreach=True) for m in (eager, other)]
    for _ in range(6):
        x = randn(3, 8)
        losses = []
        for run, optimizer in zip((eager, f), optimizers, strict=True):
            losses.append(run(x).square().mean())
            optimizer.zero_grad()
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-4)
    assert counts(f)[:2] == (2, 10)


# ---- programs that cannot be recorded ------------------------------------------------------------------------------

OTHER = "cpu" if ON_GPU else "meta"
REFUSED = {
    "the host waits for a result": lambda x: x[x > 0].sum(),
    "which is on": lambda x: (x + 1, torch.ones(2, device=OTHER) + 1),
}


@pytest.mark.parametrize("why", REFUSED)
def test_refused(why):
    program = REFUSED[why]
    f = graphed(program)
    x = randn(6)
    with pytest.warns(RuntimeWarning, match=rf"\[CUDAGraphTransform\].*without a CUDA graph.*{why}") as seen:
        f(x)
    for _ in range(3):
        for a, b in zip(
            torch.utils._pytree.tree_leaves(f(x)), torch.utils._pytree.tree_leaves(program(x)), strict=True
        ):
            assert a.device == b.device and (a.is_meta or torch.equal(a, b))
    assert len(seen) == 1
    assert counts(f)[:2] == (0, 0)


def test_operators_in_python_are_refused():
    def double(x):
        return x * 2

    executor = thunder.extend.OperatorExecutor("doubles", version="1")
    op = executor.register_operator("double", like=double, fn=lambda x: x.mul(2))
    executor.register_implementation("torch.exp", op)
    f = thunder.jit(lambda x: torch.exp(x) + 1, executors=[executor], transforms=[transform()])
    x = randn(3)
    with pytest.warns(RuntimeWarning, match="is Python code"):
        f(x)
    close(f(x), x * 2 + 1)


def test_without_graphs_nothing_is_counted():
    f = thunder.jit(lambda x: x + 1, graphs=False)
    f(randn(2))
    assert "graphs" not in thunder.compile_stats(f)


# ---- on a GPU ------------------------------------------------------------------------------------------------------


def on_gpu(f):
    return thunder.jit(f, transforms=[thunder.transforms.CUDAGraphTransform()])


def gpu_nets():
    torch.manual_seed(0)
    eager, other = Net().cuda(), Net().cuda()
    other.load_state_dict(eager.state_dict())
    return eager, on_gpu(other), other


@pytest.mark.gpu
def test_a_step_is_two_launches_of_graphs():
    from torch.profiler import ProfilerActivity, profile

    _, f, other = gpu_nets()
    x = torch.randn(3, 8, device="cuda")
    for _ in range(4):
        other.zero_grad()
        f(x).square().sum().backward()
    other.zero_grad()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as record:
        f(x).square().sum().backward()
        torch.cuda.synchronize()
    launches = sum(e.count for e in record.key_averages() if "GraphLaunch" in e.key)
    assert launches == 2


@pytest.mark.gpu
def test_memory_does_not_grow():
    _, f, other = gpu_nets()

    def steps(n):
        for _ in range(n):
            other.zero_grad()
            f(torch.randn(300, 8, device="cuda")).square().sum().backward()
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    before = steps(5)
    assert steps(50) == before


@pytest.mark.gpu
def test_inside_a_graph_of_the_user():
    weight = torch.randn(8, device="cuda")
    f = on_gpu(lambda x: torch.tanh(x * weight).sum(-1))
    x = torch.randn(4, 8, device="cuda")
    for _ in range(3):
        f(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x)
    x.normal_()
    graph.replay()
    close(y, torch.tanh(x * weight).sum(-1))
    close(f(x), torch.tanh(x * weight).sum(-1))


@pytest.mark.gpu
def test_on_a_side_stream():
    eager, f, other = gpu_nets()
    streams = [torch.cuda.Stream(), torch.cuda.current_stream(), torch.cuda.Stream()]
    for step in range(12):
        stream = streams[step % 3]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x = torch.randn(3, 8, device="cuda")
            for run, module in ((f, other), (eager, eager)):
                module.zero_grad()
                run(x).square().sum().backward()
            same_gradients(eager, other)
        torch.cuda.synchronize()
    assert counts(f)[1] > 6


class Broken(thunder._graphs.Recorder):
    def record(self, run, index, shared):
        return super().record(lambda: (run(), torch.cuda.synchronize()), index, shared)


@pytest.mark.gpu
def test_a_capture_that_is_broken_off_leaves_everything_usable():
    x = torch.ones(64, device="cuda")
    good = on_gpu(lambda x: nn.functional.dropout(x, 0.5) * 2)
    for _ in range(3):
        good(x)
    bad = thunder.jit(lambda x: nn.functional.dropout(x, 0.25) + 1, transforms=[Transform(Broken())])
    bad(x)
    with pytest.warns(RuntimeWarning, match="recording it failed"):
        bad(x)
    results = []
    for run in (good, thunder.jit(lambda x: nn.functional.dropout(x, 0.5) * 2)):
        torch.manual_seed(5)
        results.append([run(x) for _ in range(3)])
    for a, b in zip(*results, strict=True):
        close(a, b)
    close(bad(x).min(), torch.ones((), device="cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_language_model_trains_as_without_graphs(dtype):
    import litgpt_import

    GPT, Config = litgpt_import.load()
    torch.manual_seed(0)
    models = [GPT(Config.from_name("pythia-14m", n_layer=2)).to("cuda", dtype) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    runs = [thunder.jit(models[0]), on_gpu(models[1])]
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]
    for _ in range(5):
        ids = torch.randint(0, 1000, (2, 16), device="cuda")
        losses = []
        for run, optimizer in zip(runs, optimizers, strict=True):
            logits = run(ids).float()
            losses.append(nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()))
            optimizer.zero_grad()
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-3)
    assert counts(runs[1]) == (2, 8, 1)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(runs[1](ids), runs[0](ids), rtol=2e-2, atol=2e-2)


@pytest.mark.gpu
def test_a_call_costs_little():
    """The host's share of a replay, beside a program of many operators."""
    import time

    module = nn.Sequential(*[nn.Linear(16, 16) for _ in range(30)]).cuda()
    f = on_gpu(module)
    x = torch.randn(2, 16, device="cuda")
    with torch.no_grad():
        for _ in range(20):
            f(x)
        times = []
        for _ in range(100):
            torch.cuda.synchronize()
            start = time.perf_counter()
            f(x)
            times.append(time.perf_counter() - start)
    microseconds = sorted(times)[len(times) // 2] * 1e6
    print(f"a call takes {microseconds:.1f} us")
    assert microseconds < 150


# ---- random numbers ------------------------------------------------------------------------------------------------


def test_replays_draw_numbers_of_their_own():
    f = thunder.jit(lambda x: F.dropout(x, 0.5) * 2, rng="fused", transforms=[transform()])
    if not ON_GPU:  # states on the CPU are drawn by the host
        y = f(torch.ones(64, 64))
        assert counts(f)[0] == 0 and 0.4 < (y != 0).float().mean() < 0.6
        return
    x = torch.ones(64, 64, device=DEVICE, requires_grad=True)
    masks = []
    for _ in range(6):
        y = f(x)
        (g,) = torch.autograd.grad(y.sum(), x)
        close(g, y.detach())
        masks.append(y.detach() != 0)
        assert 0.4 < masks[-1].float().mean() < 0.6
    assert counts(f)[1] > 0
    assert all(not torch.equal(a, b) for a, b in zip(masks, masks[1:], strict=False))
    runs = []
    for _ in range(2):
        torch.manual_seed(7)
        runs.append([f(x).detach().clone() for _ in range(3)])
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a, b)
