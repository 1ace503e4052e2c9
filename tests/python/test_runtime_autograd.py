"""Compiled functions under autograd: all that torch.autograd lets a user do works, or raises what eager raises."""

import gc
import threading
import uuid
import weakref

import pytest
import torch
from process_memory import megabytes, reset_peak
from torch.testing import assert_close

import thunder
from thunder.extend import OperatorExecutor


def gelu_mlp(x, w1, w2):
    return torch.nn.functional.gelu(x @ w1.t()) @ w2.t()


def make(*shapes, requires_grad=True):
    return tuple(torch.randn(s, requires_grad=requires_grad) for s in shapes)


MLP = ((5, 8), (6, 8), (3, 6))


def agree(fn, compiled, args, retries=1):
    """Outputs and gradients of all arguments, for a random cotangent."""
    eager = fn(*args)
    for _ in range(retries):
        ours = compiled(*args)
        assert_close(ours, eager)
        g = torch.randn_like(eager)
        wanted = [a for a in args if a.requires_grad]
        for got, want in zip(
            torch.autograd.grad(ours, wanted, g), torch.autograd.grad(eager, wanted, g, retain_graph=True), strict=True
        ):
            assert_close(got, want)


def test_gradients():
    agree(gelu_mlp, thunder.jit(gelu_mlp), make(*MLP), retries=3)


def test_one_node_of_the_profilers_name():
    out = thunder.jit(gelu_mlp)(*make(*MLP))
    assert out.grad_fn.name().startswith("ThunderBackward")
    with torch.profiler.profile() as p:
        out.sum().backward()
    assert any("ThunderBackward" in e.key for e in p.key_averages())


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_frozen_arguments(frozen):
    args = list(make(*MLP))
    args[frozen] = args[frozen].detach()
    agree(gelu_mlp, thunder.jit(gelu_mlp), args)


def test_no_grad_and_inference_mode():
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    want = gelu_mlp(*args)
    with torch.no_grad():
        out = f(*args)
    assert not out.requires_grad
    assert_close(out, want.detach())
    with torch.inference_mode():
        out = f(*args)
    assert out.is_inference() and not out.requires_grad
    # A program compiled without gradients must not serve a call that needs them.
    agree(gelu_mlp, f, args)


def test_enable_grad_within_no_grad():
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    with torch.no_grad(), torch.enable_grad():
        assert f(*args).requires_grad


def test_retain_graph():
    f, (x, w1, w2) = thunder.jit(gelu_mlp), make(*MLP)
    out = f(x, w1, w2).sum()
    out.backward(retain_graph=True)
    once = x.grad.clone()
    out.backward()
    assert_close(x.grad, 2 * once)


def test_second_backward_is_torchs_error():
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    out = f(*args).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.backward()


def test_saved_tensor_hooks():
    f, (x, w1, w2) = thunder.jit(gelu_mlp), make(*MLP)
    packed, unpacked = [], []

    def pack(t):
        packed.append(t)
        return t.clone()

    def unpack(t):
        unpacked.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        out = f(x, w1, w2)
    assert packed and not unpacked
    out.sum().backward()
    assert len(unpacked) == len(packed)
    want = torch.autograd.grad(gelu_mlp(x, w1, w2).sum(), (x, w1, w2))
    for t, g in zip((x, w1, w2), want, strict=True):
        assert_close(t.grad, g)


def test_what_hooks_return_is_what_the_backward_uses():
    f, (x, w) = thunder.jit(lambda x, w: torch.matmul(x, w)), make((4, 5), (5, 6))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
        out = f(x, w)
    g = torch.randn(4, 6)
    got = torch.autograd.grad(out, x, g)[0]
    assert_close(got, 2 * (g @ w.t()))


@pytest.mark.parametrize("which", [1, 2], ids=["first", "second"])
def test_a_weight_changed_before_the_backward(which):
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    out = f(*args).sum()
    with torch.no_grad():
        args[which].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_a_weight_changed_whose_view_is_saved():
    # The backward needs w in another shape: a view, whose version must be the parameter's.
    def fn(x, w):
        return torch.matmul(x, w.view(8, 6).permute(0, 1))

    f, (x, w) = thunder.jit(fn), make((5, 8), (48,))
    out = f(x, w).sum()
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_an_output_changed_that_the_backward_needs():
    f, (x,) = thunder.jit(lambda x: torch.softmax(x, -1)), make((4, 5))
    out = f(x)
    with torch.no_grad():
        out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_an_input_changed_that_the_backward_does_not_need():
    f, (x, w) = thunder.jit(lambda x, w: torch.matmul(x, w)), make((4, 5), (5, 6))
    x = x.detach()
    frozen = w.detach()
    y = torch.randn(4, 5, requires_grad=True)
    out = f(y, frozen)
    with torch.no_grad():
        y.add_(1)
    out.sum().backward()
    assert_close(y.grad, frozen.sum(1).expand(4, 5))


def test_two_forwards_before_a_backward():
    f, (x, w1, w2) = thunder.jit(gelu_mlp), make(*MLP)
    x2 = torch.randn(5, 8, requires_grad=True)
    a, b = f(x, w1, w2), f(x2, w1, w2)
    b.sum().backward()
    a.sum().backward()
    want = torch.autograd.grad(gelu_mlp(x, w1, w2).sum() + gelu_mlp(x2, w1, w2).sum(), (x, x2, w1, w2))
    for t, g in zip((x, x2, w1, w2), want, strict=True):
        assert_close(t.grad, g)


def test_the_output_is_the_input_of_the_next_call():
    f = thunder.jit(lambda x, w: torch.softmax(torch.matmul(x, w), -1))
    x, w = make((4, 5), (5, 5))

    def chain(g):
        return g(g(g(x, w), w), w)

    eager = chain(lambda x, w: torch.softmax(torch.matmul(x, w), -1))
    ours = chain(f)
    assert_close(ours, eager)
    g = torch.randn(4, 5)
    for a, b in zip(torch.autograd.grad(ours, (x, w), g), torch.autograd.grad(eager, (x, w), g), strict=True):
        assert_close(a, b)


def test_a_call_within_a_call():
    inner = thunder.jit(gelu_mlp)
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    depths = []

    # Runs in the middle of the outer call's bookkeeping, and again in the middle of its backward.
    def pack(t):
        if len(depths) < 3:
            depths.append(inner(*args))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: (inner(*args), t)[1]):
        out = f(*args)
    assert len(depths) == 3
    out.sum().backward()
    for t, g in zip(args, torch.autograd.grad(gelu_mlp(*args).sum(), args), strict=True):
        assert_close(t.grad, g)
    for d in depths:
        assert_close(d, gelu_mlp(*args))


def test_two_threads():
    f = thunder.jit(gelu_mlp)
    f(*make(*MLP))
    failures = []

    def job(seed):
        try:
            g = torch.Generator().manual_seed(seed)
            for _ in range(50):
                args = tuple(torch.randn(s, generator=g).requires_grad_() for s in MLP)
                agree(gelu_mlp, f, args)
        except BaseException as e:  # reported by the main thread
            failures.append(e)

    threads = [threading.Thread(target=job, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


def several(x, w):
    h = torch.matmul(x, w)
    return torch.softmax(h, -1), torch.nn.functional.gelu(h), torch.argmax(h, -1)


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_several_outputs_of_which_some_get_no_gradient(used):
    f, args = thunder.jit(several), make((4, 5), (5, 6))
    ours, eager = f(*args), several(*args)
    assert not ours[2].requires_grad
    for a, b in zip(ours, eager, strict=True):
        assert_close(a, b)
    weights = [torch.randn(4, 6) for _ in used]
    for a, b in zip(
        torch.autograd.grad([ours[i] for i in used], args, weights),
        torch.autograd.grad([eager[i] for i in used], args, weights),
        strict=True,
    ):
        assert_close(a, b)


def test_the_same_tensor_passed_twice():
    f, (x,) = thunder.jit(lambda a, b: torch.matmul(a, b.t())), make((4, 5))
    f(x, x).sum().backward()
    ours, x.grad = x.grad, None
    (x @ x.t()).sum().backward()
    assert_close(ours, x.grad)


def test_non_contiguous_inputs_and_cotangents():
    args = (torch.randn(8, 5).t().requires_grad_(), torch.randn(6, 16)[:, ::2].requires_grad_(), make((3, 6))[0])
    f = thunder.jit(gelu_mlp)
    agree(gelu_mlp, f, args)
    for g in (torch.ones(()).expand(5, 3), torch.randn(3, 5).t(), torch.randn(5, 6)[:, ::2]):
        got = torch.autograd.grad(f(*args), args, g)
        want = torch.autograd.grad(gelu_mlp(*args), args, g)
        for a, b in zip(got, want, strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x, lambda x: x[None].permute(2, 0, 1)])
def test_the_backward_sees_cotangents_in_the_layout_of_the_outputs(view, cache):
    """Whatever layout they come in, and whatever the sizes are."""
    seen = []

    def watch(g):
        seen.append([s for s, n in zip(g.stride(), g.shape, strict=True) if n > 1])
        return g * 1

    operator = OperatorExecutor("watching_" + uuid.uuid4().hex[:8]).register_operator("watch", like=watch, fn=watch)

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return operator(g) * 2

    compiled = thunder.jit(lambda x: Doubled.apply(view(x)), cache=cache)
    for shape in ((3, 4), (5, 6)):
        x = torch.randn(shape, requires_grad=True)
        out = compiled(x)
        strides = [s for s, n in zip(out.stride(), out.shape, strict=True) if n > 1]
        contiguous, expanded = torch.randn(out.shape), torch.ones(()).expand(out.shape)
        for cotangent in (contiguous, contiguous.mT.contiguous().mT, expanded):
            seen.clear()
            (gradient,) = torch.autograd.grad(out, x, cotangent, retain_graph=True)
            assert seen == [strides]
            assert_close(gradient, 2 * torch.autograd.grad(view(x), x, cotangent)[0])


def test_gradients_of_some_inputs_only():
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    (got,) = torch.autograd.grad(f(*args).sum(), args[1:2])
    (want,) = torch.autograd.grad(gelu_mlp(*args).sum(), args[1:2])
    assert_close(got, want)


def test_hooks_on_inputs_and_outputs_run():
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    seen = []
    args[0].register_hook(lambda g: seen.append("input"))
    out = f(*args)
    out.register_hook(lambda g: seen.append("output") or g * 2)
    out.sum().backward()
    assert seen == ["output", "input"]
    want = torch.autograd.grad(2 * gelu_mlp(*args).sum(), args)
    assert_close(args[1].grad, want[1])


def test_an_unused_input_has_no_gradient():
    f = thunder.jit(lambda x, y: torch.softmax(x, -1))
    x, y = make((3, 4), (3, 4))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad(f(x, y).sum(), y)


def test_no_reference_cycle():
    f, (x,) = thunder.jit(lambda x: torch.softmax(x, -1)), make((3, 4))  # its output is saved
    gc.collect()
    gc.disable()
    try:
        out = f(x)
        alive = weakref.ref(out.untyped_storage())
        node = weakref.ref(out)
        del out
        assert node() is None and alive() is None
    finally:
        gc.enable()


def live_megabytes():
    """What tensors hold, not what is kept for later ones."""
    thunder.empty_cache()
    return megabytes("VmRSS")


def chain(x):
    for _ in range(8):
        x = torch.sin(x)
    return x


@pytest.mark.parametrize("retain", [False, True])
def test_the_backward_frees_saved_tensors_as_it_runs(retain):
    # Operators: a kernel's backward computes the chain again, and saves nothing of it.
    f, size = thunder.jit(chain, executors=["aten"]), 8 * 2**20
    one = size * 4 / 2**20
    x = torch.zeros(size, requires_grad=True, device="cpu")  # whose memory the process's size shows
    g = torch.ones(size, device="cpu")
    f(x).backward(g)  # compiles, and makes x.grad
    freed = []
    for _ in range(3):  # what else goes on in the process counts, too
        out = f(x)
        before = live_megabytes()
        out.backward(g, retain_graph=retain)
        freed.append(before - live_megabytes())
        del out
    # Eight saved tensors go, or stay.
    assert min(map(abs, freed)) < 2 * one if retain else max(freed) > 6 * one, freed
    out = f(x)
    reset_peak()
    before = megabytes("VmHWM")
    out.backward(g)
    assert megabytes("VmHWM") - before < 3 * one


def test_gradient_accumulation_into_the_same_parameter():
    f, (x, w1, w2) = thunder.jit(gelu_mlp), make(*MLP)
    for _ in range(3):
        f(x, w1, w2).sum().backward()
    want = torch.autograd.grad(gelu_mlp(x, w1, w2).sum(), w1)[0]
    assert_close(w1.grad, 3 * want)


def test_anomaly_mode():
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly(check_nan=True):
        f(*args).sum().backward()
    assert args[0].grad is not None
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly(check_nan=True):
        out = f(*args)
        with pytest.raises(RuntimeError, match="returned nan values"):
            out.backward(torch.full_like(out, float("nan")))


def test_checkpointing_a_compiled_function():
    f, args = thunder.jit(gelu_mlp), make(*MLP)
    out = torch.utils.checkpoint.checkpoint(f, *args, use_reentrant=False)
    got = torch.autograd.grad(out.sum(), args)
    want = torch.autograd.grad(gelu_mlp(*args).sum(), args)
    for a, b in zip(got, want, strict=True):
        assert_close(a, b)
