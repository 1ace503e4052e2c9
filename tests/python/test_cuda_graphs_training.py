"""graphs="auto" in training: what a user does with results, gradients and parameters gives the same bits without."""

import contextlib
import copy
import threading
import time

import pytest
import torch
from devices import DEVICE
from graph_checks import ON_GPU, Deep, automatic, counts, deep_pair, randn
from torch import nn

import thunder

STEPS = 12


def same(a, b):
    assert torch.equal(a, b), (a - b).abs().max()


def same_state(modules):
    for (name, p), q in zip(modules[0].named_parameters(), modules[1].named_parameters(), strict=True):
        assert torch.equal(p, q[1]), name
        assert (p.grad is None) == (q[1].grad is None), name
        assert p.grad is None or torch.equal(p.grad, q[1].grad), f"the gradient of {name}"


def batches(n=STEPS, rows=4, width=32):
    generator = torch.Generator(DEVICE).manual_seed(1)
    return [torch.randn(rows, width, device=DEVICE, generator=generator) for _ in range(n)]


def both(step, make_optimizer=None, steps=STEPS, **options):
    """`step(run, module, optimizer, x, kept)` for each, from the same seed; what it keeps must stay as it is."""
    runs, modules = deep_pair(**options)
    optimizers = [make_optimizer(m.parameters()) if make_optimizer else None for m in modules]
    kept, copies = ([], []), ([], [])
    for x in batches(steps):
        for i in range(2):
            torch.manual_seed(7)
            step(runs[i], modules[i], optimizers[i], x.clone(), kept[i])
            copies[i].extend(t.clone() for t in kept[i][len(copies[i]) :])
        same_state(modules)
    for a, b, c in zip(*kept, copies[0], strict=True):
        same(a, b)
        same(a, c)
    assert counts(runs[1])[1] > 0, thunder.compile_stats(runs[1])["graphs"]
    return runs[1]


def plain(run, module, optimizer, x, kept):
    optimizer.zero_grad()
    loss = run(x).square().mean()
    loss.backward()
    optimizer.step()
    kept.append(loss.detach())


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(optimizer):
    f = both(plain, OPTIMIZERS[optimizer])
    assert counts(f)[0] == 2


def test_dropout_draws_the_same_numbers():
    both(plain, OPTIMIZERS["sgd"], dropout=0.3)


def test_gradients_are_the_callers_own():
    def step(run, module, optimizer, x, kept):
        module.zero_grad(set_to_none=True)
        out = run(x)
        kept.append(out.detach())
        out.square().sum().backward()
        kept.extend(p.grad for p in module.parameters())

    both(step)


def test_views_of_gradients_outlive_them():
    def step(run, module, optimizer, x, kept):
        module.zero_grad()
        run(x).square().sum().backward()
        kept.append(module.head.weight.grad.view(-1)[1:5])

    both(step)


def test_gradients_accumulate():
    def step(run, module, optimizer, x, kept):
        module.zero_grad()
        for scale in (1.0, 2.0, 3.0):
            (run(x * scale).square().mean() / 3).backward()

    both(step)


def test_gradients_that_are_zeroed_in_place():
    def step(run, module, optimizer, x, kept):
        module.zero_grad(set_to_none=False)
        run(x).square().mean().backward()
        for p in module.parameters():
            kept.append(p.grad.clone())

    both(step)


def test_clipping_and_writes_to_gradients():
    def step(run, module, optimizer, x, kept):
        optimizer.zero_grad()
        run(x).square().sum().backward()
        kept.append(torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5))
        for p in module.parameters():
            p.grad.add_(1e-3)
        optimizer.step()

    both(step, OPTIMIZERS["sgd"])


def test_a_scaler():
    scalers = {}

    def step(run, module, optimizer, x, kept):
        scaler = scalers.setdefault(module, torch.amp.GradScaler(DEVICE, init_scale=128.0, growth_interval=3))
        optimizer.zero_grad()
        scaler.scale(run(x).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    both(step, OPTIMIZERS["sgd"])


def test_under_autocast():
    def step(run, module, optimizer, x, kept):
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16):
            out = run(x)
        out.float().square().mean().backward()
        optimizer.step()

    both(step, OPTIMIZERS["sgd"])


def test_hooks_of_parameters_and_results():
    seen = {}

    def step(run, module, optimizer, x, kept):
        if module not in seen:
            to = seen[module] = []

            def keep(p):
                to.append(p.grad)
                p.grad = None

            module.head.weight.register_hook(lambda g: to.append(g))
            module.blocks[0].up.weight.register_post_accumulate_grad_hook(keep)
        module.zero_grad()
        out = run(x)
        out.register_hook(lambda g: g * 2)
        out.square().mean().backward()
        kept.extend(seen[module][-2:])

    both(step)


def test_a_graph_that_is_kept():
    def step(run, module, optimizer, x, kept):
        module.zero_grad()
        out = run(x)
        out.square().mean().backward(retain_graph=True)
        kept.append(run(x + 1).detach())
        out.sum().backward()

    both(step)


@pytest.mark.parametrize("recorded_first", [True, False], ids=["used up", "kept"])
def test_a_backward_that_uses_up_what_is_saved_beside_one_that_keeps_it(recorded_first):
    """The recording of the first overwrites what is saved; the second, and what runs after it, must find it."""
    steps = iter(range(4 * STEPS))

    def step(run, module, optimizer, x, kept):
        keeps = (next(steps) // 2 % 12 < 8) != recorded_first
        module.zero_grad()
        out = run(x)
        out.square().mean().backward(retain_graph=keeps)
        if keeps:
            out.sum().backward(retain_graph=True)
            out.mul(2).mean().backward()

    both(step, steps=2 * STEPS)


def test_gradients_of_gradients():
    def step(run, module, optimizer, x, kept):
        x.requires_grad_()
        (g,) = torch.autograd.grad(run(x).square().sum(), x, create_graph=True)
        kept.append(g.detach())
        module.zero_grad()
        g.square().sum().backward()

    both(step)


def test_saved_tensors_hooks():
    def step(run, module, optimizer, x, kept):
        module.zero_grad()
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
        with hooks if len(kept) % 3 == 2 else contextlib.nullcontext():
            out = run(x)
        kept.append(out.detach())
        out.square().mean().backward()

    both(step)


def test_several_calls_before_their_backwards():
    def step(run, module, optimizer, x, kept):
        module.zero_grad()
        outs = [run(x * scale) for scale in (1.0, 2.0, 0.5)]
        kept.extend(o.detach() for o in outs)
        for out in reversed(outs):
            out.square().mean().backward()

    both(step)


def test_results_that_are_kept_with_their_graphs():
    def step(run, module, optimizer, x, kept):
        module.zero_grad()
        out = run(x)
        out.square().mean().backward()
        kept.append(out)  # and with it the node

    both(step)


def test_evaluation_between_steps():
    def step(run, module, optimizer, x, kept):
        with torch.no_grad():
            kept.append(run(x))
        with torch.inference_mode():
            kept.append(run(x * 2).clone())
        plain(run, module, optimizer, x, kept)

    both(step, OPTIMIZERS["sgd"])


def test_inference_mode_alone():
    (_, f), (module, _) = deep_pair()
    with torch.inference_mode():
        expected = [thunder.jit(module, graphs=False)(x) for x in batches()]
        for x, y in zip(batches(), expected, strict=True):
            out = f(x)
            same(out, y)
            assert out.is_inference()
    assert counts(f)[1] > 0


def test_parameters_that_are_replaced_and_moved():
    def step(run, module, optimizer, x, kept):
        if len(kept) in (7, 10):
            module.head.weight.data = module.head.weight.data.clone()
            module.head.bias = nn.Parameter(module.head.bias.detach() * 2)
        module.zero_grad()
        loss = run(x).square().mean()
        loss.backward()
        kept.append(loss.detach())

    both(step)


def test_gradients_of_arguments():
    def step(run, module, optimizer, x, kept):
        x.requires_grad_()
        run(x).square().sum().backward()
        kept.append(x.grad)
        module.zero_grad()

    both(step)


def test_a_backward_of_a_part():
    def step(run, module, optimizer, x, kept):
        module.zero_grad()
        run(x)[:, :3].square().mean().backward(inputs=[module.head.weight])
        kept.append(module.head.weight.grad)

    both(step)


@pytest.mark.parametrize("before", [True, False], ids=["recorded before", "from the start"])
def test_threads(before):
    runs, modules = deep_pair()
    expected = [thunder.jit(modules[0], graphs=False)(x).detach() for x in batches()]
    wrong = []
    for x in batches() if before else ():
        runs[1](x).sum().backward()
    recorded = counts(runs[1])[0]
    assert bool(recorded) == before

    def work():
        for _ in range(3):
            for x, y in zip(batches(), expected, strict=True):
                out = runs[1](x)
                (g,) = torch.autograd.grad(out.sum(), modules[1].head.bias)
                if not torch.equal(out, y) or not torch.equal(g, torch.full_like(g, 4)):
                    wrong.append(x)
        together.wait()  # the last one would be alone

    together = threading.Barrier(4)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    # While several threads call, none records: PyTorch's state of a recording is that of the process.
    assert counts(runs[1])[0] == recorded
    assert "several threads" in str(thunder.compile_stats(runs[1])["graphs"]["why"])
    time.sleep(0.2)  # a thread is gone a little later than Python's
    for _ in range(3):
        for x, y in zip(batches(), expected, strict=True):
            assert torch.equal(runs[1](x), y)
    assert counts(runs[1])[1] > 0


def test_a_copy_of_the_module():
    torch.manual_seed(0)
    f = automatic(Deep(2).to(DEVICE))
    for x in batches():
        f(x).sum().backward()
    g = copy.deepcopy(f)
    for x in batches(3):
        same(f(x).detach(), g(x).detach())


def test_batch_norm():
    torch.manual_seed(0)
    modules = [
        nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())]).to(DEVICE)
        for _ in range(2)
    ]
    for module in modules:
        module.load_state_dict(modules[0].state_dict())
    runs = [thunder.jit(modules[0], graphs=False), automatic(modules[1])]
    for x in batches(width=16, rows=6):
        for run, module in zip(runs, modules, strict=True):
            module.zero_grad()
            run(x).square().mean().backward()
        same_state(modules)
        for a, b in zip(modules[0].buffers(), modules[1].buffers(), strict=True):
            same(a, b)
    for a, b in zip(modules[0].buffers(), modules[1].buffers(), strict=True):
        # A run may write twice, by the operator and by the epilogue; a replay's epilogue writes once.
        assert a._version == b._version or (ON_GPU and b._version > STEPS)
    assert counts(runs[1])[1] > 0


# ---- on a GPU ------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_gradients_that_another_stream_reads():
    """What is dropped after record_stream() is not overwritten before that stream has read it."""
    runs, modules = deep_pair()
    side = torch.cuda.Stream()
    sums = ([], [])
    for x in batches(30):
        for i in range(2):
            modules[i].zero_grad()
            runs[i](x).square().sum().backward()
            g = modules[i].head.weight.grad
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(2_000_000)
                sums[i].append(g.sum())
            g.record_stream(side)
            modules[i].zero_grad()
    torch.cuda.synchronize()
    for a, b in zip(*sums, strict=True):
        same(a, b)
    assert counts(runs[1])[1] > 0


@pytest.mark.gpu
def test_a_forward_on_another_stream_than_the_step():
    runs, modules = deep_pair()
    side = torch.cuda.Stream()
    for x in batches(20):
        for run, module in zip(runs, modules, strict=True):
            module.zero_grad()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                run(x).square().sum().backward()
            torch.cuda.current_stream().wait_stream(side)
        same_state(modules)
    assert counts(runs[1])[1] > 0


@pytest.mark.gpu
def test_a_graph_of_the_users_around_it():
    (_, f), (module, _) = deep_pair()
    x = randn(4, 32)
    with torch.no_grad():
        for i in range(3):
            for _ in range(i * 4):
                f(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = f(x)
            x.normal_()
            graph.replay()
            torch.testing.assert_close(y, module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_large_models_are_left_alone():
    module = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(8)]).cuda()
    f = thunder.jit(module)
    for _ in range(10):
        f(torch.randn(8192, 4096, device="cuda")).sum().backward()
        module.zero_grad()
        torch.cuda.synchronize()  # a host far ahead would not know yet how long the device takes
    found = thunder.compile_stats(f)["graphs"]
    assert found["captures"] == 0 and found["bytes"] == 0
    assert any("device" in why for why in found["why"]), found


@pytest.mark.gpu
def test_memory_stays():
    (_, f), (_, module) = deep_pair()
    given = batches(10, rows=300)

    def steps(n):
        for i in range(n):
            module.zero_grad()
            f(given[i % len(given)]).square().sum().backward()
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    steps(20)
    before = steps(10)
    assert steps(50) == before


@pytest.mark.gpu
def test_recordings_keep_what_a_step_needs_anyway():
    """The backward lies in the forward's memory, and frees what is saved as it goes."""
    (_, first), (_, module) = deep_pair()  # the first recordings of two threads hold cuBLAS's workspaces
    for x in batches(24):
        module.zero_grad()
        first(x).sum().backward()
    assert counts(first)[0] == 2
    (plain_run, f), modules = deep_pair(blocks=40, width=256)
    most = 0
    for i, x in enumerate(batches(24, rows=512, width=256)):
        for run, module in zip((plain_run, f), modules, strict=True):
            module.zero_grad()
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            run(x).square().sum().backward()
            if run is plain_run and i == 20:
                most = torch.cuda.max_memory_allocated() - before
    found = thunder.compile_stats(f)["graphs"]
    assert found["captures"] == 2 and found["replays"] > 20
    assert found["bytes"] < 1.2 * most + (8 << 20), (found, most)
    same_state(modules)


@pytest.mark.gpu
def test_a_small_model_is_issued_faster():
    import time

    (plain_run, f), modules = deep_pair(blocks=24)

    def milliseconds(run, module, x):
        times = []
        for _ in range(30):
            module.zero_grad()
            torch.cuda.synchronize()
            start = time.perf_counter()
            run(x).square().sum().backward()
            times.append(time.perf_counter() - start)
        return sorted(times)[15] * 1e3

    x = randn(4, 32)
    without, with_graphs = (milliseconds(r, m, x) for r, m in zip((plain_run, f), modules, strict=True))
    print(f"issued in {without:.2f} ms without graphs, {with_graphs:.2f} with")
    assert with_graphs < 0.6 * without


