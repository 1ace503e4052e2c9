"""CUDA graphs as a transform: who owns the memory of a recording."""

import contextlib
import gc
import threading
import warnings

import pytest
import torch
from devices import DEVICE
from graph_checks import (
    Net,
    Transform,
    close,
    counts,
    graphed,
    randn,
    same_gradients,
    train,
    warm,
)
from torch import nn

import thunder

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
        kept.append(
            [(p.grad.view(-1), q.grad.view(-1)) for p, q in zip(eager.parameters(), other.parameters(), strict=True)]
        )
    for pairs in kept:
        for p, q in pairs:
            torch.testing.assert_close(q, p, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("write", ["clip", "multiply", "accumulate"])
def test_two_gradients_that_are_one_tensor(write):
    """Those of `a + b`."""

    def loss(a, b, x):
        return (torch.sin(a + b) * x).sum()

    graphed_loss = graphed(loss)
    for _ in range(4):
        x, values = randn(4), [randn(4), randn(4)]
        gradients = []
        for f in (loss, graphed_loss):
            leaves = [nn.Parameter(v.clone()) for v in values]
            for _ in range(2 if write == "accumulate" else 1):
                f(*leaves, x).backward()
            if write == "clip":
                nn.utils.clip_grad_norm_(leaves, 0.01)
            if write == "multiply":
                leaves[0].grad.mul_(0.5)
            gradients.append([p.grad.clone() for p in leaves])
        for got, want in zip(*gradients, strict=True):
            close(got, want)


def test_a_gradient_that_is_enlarged(nets):
    """Its storage moves."""
    eager, compiled, module = nets
    warm(nets, 3)
    for enlarged in (True, False, False):
        x = randn(3, 8)
        for run, m in ((eager, eager), (compiled, module)):
            m.zero_grad()
            run(x).square().sum().backward()
        same_gradients(eager, module)
        if enlarged:
            for m in (eager, module):
                m.a.weight.grad.resize_(1 << 12)


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


# ---- with the stand-in ---------------------------------------------------------------------------------------------


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
        expected = (
            pytest.warns(RuntimeWarning, match="the backward of .* not now") if step == 1 else contextlib.nullcontext()
        )
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
