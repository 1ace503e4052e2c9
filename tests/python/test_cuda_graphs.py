"""CUDA graphs as a transform.

On the CPU a stand-in records: its replay runs the program again and overwrites the memory of its results, as a graph's
replay does, so that whoever reads a recording's memory too late reads other numbers.  With `pytest --device cuda` the
same tests run with PyTorch's graphs.
"""

import contextlib
import gc
import threading
import warnings

import pytest
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


@pytest.fixture
def nets():
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
    assert counts(f)[1] == 3


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
    eager, other = (nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).to(DEVICE) for _ in range(2))
    other.load_state_dict(eager.state_dict())
    f = graphed(other)
    for _ in range(4):
        x = randn(6, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            run(x).square().sum().backward()
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
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="lie elsewhere at almost every call"):
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


# ---- the memory of the backward ------------------------------------------------------------------------------------


def test_training_replays_both(nets):
    eager, f, other = nets
    for _ in range(5):
        x = randn(3, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            run(x).square().sum().backward()
        same_gradients(eager, other)
    assert counts(f) == (2, 8, 1)


def test_gradients_of_arguments(nets):
    eager, f, _ = nets
    kept = []
    for _ in range(5):
        x = randn(3, 8, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        f(x).sum().backward()
        eager(y).sum().backward()
        kept.append((x, y))
    for x, y in kept:
        close(x.grad, y.grad)


@pytest.mark.parametrize("between", ["forward", "no_grad", "other shape", "dropped"])
def test_a_forward_before_the_backward(nets, between):
    eager, f, other = nets
    for n in (3, 5):
        train(f, other, [randn(n, 8) for _ in range(3)])
    other.zero_grad()
    for _ in range(3):
        x, y = randn(3, 8), randn(5 if between == "other shape" else 3, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            first = run(x)
            with torch.no_grad() if between == "no_grad" else contextlib.nullcontext():
                second = run(y)
            if between == "dropped":
                del second
            first.square().sum().backward()
            if between in ("forward", "other shape"):
                second.square().sum().backward()
        same_gradients(eager, other)


def test_a_graph_is_free_when_its_node_is_dropped(nets):
    _, f, _ = nets
    warm(nets)
    before = counts(f)
    for _ in range(5):
        f(randn(3, 8))
    assert counts(f) == (before[0], before[1] + 5, before[2])


def test_more_calls_at_a_time_than_graphs(nets):
    eager, f, other = nets
    warm(nets)
    ungraphed = counts(f)[2]
    xs = [randn(3, 8) for _ in range(7)]
    for run, module in ((f, other), (eager, eager)):
        module.zero_grad()
        results = [run(x) for x in xs]
        for y in reversed(results):
            y.square().sum().backward()
    same_gradients(eager, other)
    assert counts(f)[2] >= ungraphed + 3


def test_retained_graphs(nets):
    eager, f, other = nets
    warm(nets)
    for _ in range(3):
        x, y = randn(3, 8), randn(3, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            out = run(x)
            out.square().sum().backward(retain_graph=True)
            run(y)
            (out * 3).sum().backward()
        same_gradients(eager, other)


def test_a_second_backward_is_torchs_error(nets):
    _, f, _ = nets
    warm(nets)
    out = f(randn(3, 8)).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_gradients_accumulate(nets):
    eager, f, other = nets
    for accumulated in (4, 4):
        xs = [randn(3, 8) for _ in range(accumulated)]
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            for x in xs:
                run(x).square().sum().backward()
        same_gradients(eager, other)
    assert counts(f)[0] == 3  # a forward, and a second backward beside the one whose gradients are kept


def test_gradients_that_are_kept(nets):
    eager, f, other = nets
    kept = []
    for _ in range(5):
        x = randn(3, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad(set_to_none=True)
            run(x).square().sum().backward()
        kept.append([(p.grad.view(-1), q.grad.view(-1)) for p, q in zip(eager.parameters(), other.parameters(), strict=True)])
    for pairs in kept:
        for p, q in pairs:
            torch.testing.assert_close(q, p, rtol=1e-4, atol=1e-5)


def test_gradients_dropped_after_the_next_forward(nets):
    eager, f, other = nets
    for _ in range(5):
        x = randn(3, 8)
        for run, module in ((f, other), (eager, eager)):
            loss = run(x).square().sum()
            module.zero_grad()
            loss.backward()
        same_gradients(eager, other)
    assert counts(f)[0] == 2


def test_a_gradient_that_is_the_cotangent():
    f = graphed(lambda x, y: x + y)
    kept = []
    for i in range(5):
        x, y = randn(3, requires_grad=True), randn(3, requires_grad=True)
        f(x, y).backward(torch.full((3,), float(i), device=DEVICE))
        kept.append((x, y))
    for i, pair in enumerate(kept):
        for t in pair:
            assert t.grad.tolist() == [i] * 3


def test_cotangents_of_other_layouts_and_none():
    f = graphed(lambda x: (x * 2, x * x))
    for step in range(5):
        x = randn(3, 4, requires_grad=True)
        a, b = f(x)
        if step % 2:
            (b.t() * 3).sum().backward()
            close(x.grad, 6 * x.detach())
        else:
            a.sum().backward()
            close(x.grad, torch.full_like(x, 2))


@pytest.mark.parametrize("which", ["parameter", "output", "argument"])
def test_a_tensor_written_to_before_the_backward(which):
    weight = randn(3).requires_grad_()
    f = graphed(lambda x: torch.exp(x * weight))
    for _ in range(4):
        x = randn(3, requires_grad=True)
        y = f(x)
        with torch.no_grad():
            {"parameter": weight, "output": y, "argument": x}[which].mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_create_graph(nets):
    eager, f, _ = nets
    warm(nets)
    x = randn(3, 8, requires_grad=True)
    for _ in range(3):
        (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        (e,) = torch.autograd.grad(eager(x).sum(), x)
        close(g.detach(), e)


def test_saved_tensor_hooks_see_every_tensor(nets):
    eager, f, other = nets
    warm(nets)
    ungraphed = counts(f)[2]
    packed = []
    x = randn(3, 8)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t.clone(), lambda t: t):
        y = f(x)
    assert packed and counts(f)[2] == ungraphed + 1
    y.square().sum().backward()
    eager(x).square().sum().backward()
    same_gradients(eager, other)


def test_dispatch_modes_see_every_operator():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += 1
            return function(*args, **(kwargs or {}))

    f = graphed(lambda x: torch.sin(x) + 1)
    x = randn(3)
    for _ in range(3):
        f(x)
    with Seen() as seen:
        close(f(x), torch.sin(x) + 1)
    assert seen.count


def test_checkpointing(nets):
    from torch.utils.checkpoint import checkpoint

    eager, f, other = nets
    for _ in range(4):
        x = randn(3, 8)
        for run, module in ((f, other), (eager, eager)):
            module.zero_grad()
            checkpoint(run, x, use_reentrant=False).square().sum().backward()
        same_gradients(eager, other)


# ---- calls within calls, threads, what is given back ---------------------------------------------------------------


def test_recursion_through_a_hook(nets):
    eager, f, _ = nets
    warm(nets)
    seen = []
    x, y = randn(3, 8), randn(3, 8)
    out = f(x)
    out.register_hook(lambda g: seen.append(f(y)))
    out.square().sum().backward()
    close(seen[0], eager(y))


def test_threads(nets):
    eager, f, _ = nets
    warm(nets, 3)
    wrong = []

    def work(seed):
        generator = torch.Generator(DEVICE).manual_seed(seed)
        for _ in range(30):
            x = torch.randn(3, 8, device=DEVICE, generator=generator, requires_grad=True)
            y = f(x)
            (g,) = torch.autograd.grad(y.square().sum(), x)
            expected = eager(x)
            (e,) = torch.autograd.grad(expected.square().sum(), x)
            with torch.no_grad():
                z = f(x)
            good = torch.allclose(y, expected, atol=1e-4) and torch.allclose(g, e, atol=1e-4)
            if not good or not torch.allclose(z, expected, atol=1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_nothing_is_left_behind():
    import weakref

    module = Net().to(DEVICE)
    f = graphed(module)
    for _ in range(3):
        f(randn(3, 8)).sum().backward()
    gone = weakref.ref(module.a.weight)
    del f, module
    gc.collect()
    assert gone() is None


def test_the_compiled_function_may_go_before_its_backward():
    module = Net().to(DEVICE)
    f = graphed(module)
    for _ in range(3):
        module.zero_grad()
        out = f(randn(3, 8))
        out.sum().backward()
    x = randn(3, 8)
    out = f(x)
    del f
    gc.collect()
    module.zero_grad()
    out.sum().backward()
    close(module.b.bias.grad, torch.full((4,), 3.0, device=DEVICE))


def test_random_numbers_are_those_of_the_generator():
    plain = thunder.jit(lambda x: nn.functional.dropout(x, 0.5))
    f = graphed(lambda x: nn.functional.dropout(x, 0.5))
    x = torch.ones(64, device=DEVICE)
    for _ in range(2):
        f(x)
    results = []
    for run in (f, plain):
        torch.manual_seed(3)
        results.append([run(x) for _ in range(4)])
    for a, b in zip(*results, strict=True):
        close(a, b)
    assert not torch.equal(results[0][0], results[0][1])


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
        for a, b in zip(torch.utils._pytree.tree_leaves(f(x)), torch.utils._pytree.tree_leaves(program(x)), strict=True):
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


def test_without_the_transform_nothing_is_counted():
    f = thunder.jit(lambda x: x + 1)
    f(randn(2))
    assert "graphs" not in thunder.compile_stats(f)


# ---- with the stand-in ---------------------------------------------------------------------------------------------


@pytest.fixture
def recorder(monkeypatch):
    if ON_GPU:
        pytest.skip("drives the stand-in")
    return Recorder()


def test_a_recording_that_fails(recorder):
    recorder.fail = RuntimeError("out of luck")
    f = thunder.jit(lambda x: torch.cos(x) * 3, transforms=[Transform(recorder)])
    x = randn(4)
    f(x)
    with pytest.warns(RuntimeWarning, match="recording it failed: out of luck"):
        close(f(x), torch.cos(x) * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close(f(x), torch.cos(x) * 3)
    assert counts(f) == (0, 0, 2)  # the last call does not even ask


def test_a_backward_whose_recording_fails(recorder):
    module = Net()
    f = thunder.jit(module, transforms=[Transform(recorder)])
    eager = Net()
    eager.load_state_dict(module.state_dict())
    x = randn(3, 8)
    for step in range(4):
        module.zero_grad()
        out = f(x)
        if step == 1:
            recorder.fail = ValueError("not now")
        expected = pytest.warns(RuntimeWarning, match="the backward of .* not now") if step == 1 else contextlib.nullcontext()
        with expected:
            out.square().sum().backward()
        recorder.fail = None
        eager.zero_grad()
        eager(x).square().sum().backward()
        same_gradients(eager, module)


def test_a_failure_makes_older_recordings_worthless(recorder):
    f = thunder.jit(lambda x: torch.sin(x), transforms=[Transform(recorder)])
    for _ in range(3):
        f(randn(4))
    recorder.fail = RuntimeError("broken off")
    g = thunder.jit(lambda x: torch.sin(x) + 5, transforms=[Transform(recorder)])
    g(randn(4))
    with pytest.warns(RuntimeWarning, match="broken off"):
        g(randn(4))
    recorder.fail = None
    f(randn(4))
    assert counts(f) == (2, 3, 1)


def test_streams_have_recordings_of_their_own(recorder):
    f = thunder.jit(lambda x: torch.sin(x), transforms=[Transform(recorder)])
    f(randn(4))
    for stream in (1, 2, 1, 2, 2):
        recorder.current_stream = stream
        x = randn(4)
        close(f(x), torch.sin(x))
    assert counts(f) == (2, 5, 1)


def test_streams_that_come_and_go(recorder):
    f = thunder.jit(lambda x: torch.sin(x), transforms=[Transform(recorder)])
    for stream in range(1, 9):
        recorder.current_stream = stream
        x = randn(4)
        close(f(x), torch.sin(x))
    assert counts(f) == (7, 7, 1)


def test_a_backward_on_another_stream(recorder):
    module, eager = Net(), Net()
    eager.load_state_dict(module.state_dict())
    f = thunder.jit(module, transforms=[Transform(recorder)])
    train(f, module, [randn(3, 8)] * 2)
    before = counts(f)
    x = randn(3, 8)
    module.zero_grad()
    out = f(x)
    recorder.current_stream = 2
    out.square().sum().backward()
    eager(x).square().sum().backward()
    same_gradients(eager, module)
    recorder.current_stream = 1
    f(x)
    assert counts(f) == (before[0] + 1, before[1] + 2, before[2] + 1)


def test_while_somebody_else_records(recorder):
    f = thunder.jit(lambda x: torch.sin(x), transforms=[Transform(recorder)])
    for _ in range(3):
        f(randn(4))
    recorder.elsewhere = True
    x = randn(4)
    close(f(x), torch.sin(x))
    assert counts(f) == (1, 2, 2)


def test_only_programs_that_keep_nothing_share_memory(recorder):
    f = thunder.jit(Net(), transforms=[Transform(recorder)])
    for _ in range(2):
        with torch.no_grad():
            f(randn(3, 8))
    for _ in range(2):
        f(randn(3, 8)).sum().backward()
    assert recorder.shared == [True, False, False]


def test_a_program_without_a_warm_up(recorder):
    recorder.warm_up = False
    f = thunder.jit(lambda x: x * 2 + 1, transforms=[Transform(recorder)])
    x = randn(3)
    close(f(x), x * 2 + 1)
    assert counts(f) == (1, 1, 0)


def test_on_the_cpu_the_transform_warns(recorder):
    def program(a):
        return a * 2 + 1

    f = thunder.jit(program, transforms=[thunder.transforms.CUDAGraphTransform()])
    with pytest.warns(RuntimeWarning, match="forward of '.*program' runs without a CUDA graph: .*, which is on cpu"):
        assert f(torch.ones(2)).tolist() == [3, 3]


def test_a_program_that_does_nothing_is_no_reason_to_warn(recorder):
    f = thunder.jit(lambda x: x, transforms=[Transform(recorder)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = randn(3)
        assert f(x) is x


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


class Broken(thunder.transforms._Recorder):
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
@pytest.mark.fuser
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
