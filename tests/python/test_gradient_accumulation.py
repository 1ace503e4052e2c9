"""Gradients that a backward adds to the leaves' `.grad` in place, and the many cases in which it must not."""

import threading

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU
from fusion_checks import ROUNDOFF, error
from process_memory import megabytes, reset_peak
from torch import nn

import thunder


def randn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, device=DEVICE)


def leaf(*shape, dtype=torch.float64):
    return randn(*shape, dtype=dtype).requires_grad_()


def in_place(f):
    """How many gradients were added in place."""
    return thunder.compile_stats(f)["accumulated_gradients"]


def linear(x, w):
    return torch.tanh(F.linear(x, w))


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


class Pair:
    """A function compiled and in eager, each with a weight of its own; the compiled one has run backward once, so that
    there is a `.grad` to add to."""

    def __init__(self, fn=linear, shape=(16, 8), x=(4, 8), ready=True, **options):
        self.fn, self.compiled = fn, thunder.jit(fn, **options)
        self.w = leaf(*shape)
        self.eager_w = self.w.detach().clone().requires_grad_()
        self.x = randn(*x)
        if ready:
            self.each(lambda f, w: f(self.x, w).sum().backward())
            assert in_place(self.compiled) == 0 and self.w.grad is not None

    def each(self, do):
        """What `do` gives for the compiled function and its weight, and for eager's."""
        return do(self.compiled, self.w), do(self.fn, self.eager_w)

    def backward(self):
        self.each(lambda f, w: f(self.x, w).sum().backward())

    def expect(self, count):
        """That the gradients agree, and how many were added in place."""
        close(self.w.grad, self.eager_w.grad)
        assert in_place(self.compiled) == count


# ---- sums ----------------------------------------------------------------------------------------------------------


def deep(x, w, v):
    return F.linear(torch.tanh(x @ w), v)


def biased(x, w, v):
    return torch.addmm(v[0], torch.tanh(torch.mm(x.flatten(0, -2), w)), v.t())


PROGRAMS = {
    "linear": (lambda x, w: F.linear(x, w), [(5, 24)], 1),
    "linear of no rows": (lambda x, w: F.linear(x[:0], w), [(5, 24)], None),
    "two products": (deep, [(24, 16), (7, 16)], 2),
    # v is also a bias, so its gradient is a sum.
    "addmm": (biased, [(24, 16), (16, 16)], 1),
    "transposed": (lambda x, w: x @ w.t(), [(5, 24)], 0),
    "rank one": (lambda x, w: F.linear(x[..., :1, :], w).sum((0, 1)), [(40, 24)], 1),
    "batches": (lambda x, w: x @ w, [(3, 24, 6)], 0),
    "one gradient for two leaves": (lambda x, w, v: F.linear(x, w + v), [(5, 24)] * 2, 0),
    "a gradient that makes another": (lambda x, w, v: F.linear(x, w + v * v), [(5, 24)] * 2, 0),
    "in float32": (lambda x, w: F.linear(x.float(), w.float()), [(5, 24)], None),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("steps", [2, 4])
def test_sums_over_micro_batches(name, dtype, steps):
    fn, shapes, products = PROGRAMS[name]
    compiled = thunder.jit(fn)
    weights = [leaf(*s, dtype=dtype) for s in shapes]
    xs = [randn(3, 8, 24, dtype=dtype) for _ in range(steps)]
    cotangents = [torch.randn_like(fn(x, *weights)) for x in xs]

    def sums(f, t):
        copies = [t(w.detach()).clone().requires_grad_() for w in weights]
        for x, g in zip(xs, cotangents, strict=True):
            f(t(x), *copies).backward(t(g))
        return [w.grad for w in copies]

    for got, eager, exact in zip(
        sums(compiled, lambda t: t), sums(fn, lambda t: t), sums(fn, lambda t: t.double()), strict=True
    ):
        assert got.dtype == eager.dtype and got.stride() == eager.stride()
        slack = 1e-9 if dtype == torch.float64 else 2 * error(eager, exact) + ROUNDOFF[dtype]
        assert error(got, exact) <= slack
    slow = ON_CPU and dtype == torch.float16
    if products is not None:
        assert in_place(compiled) == (0 if slow else products * (steps - 1))


def test_a_models_weights():
    model = nn.Sequential(
        nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64, bias=False), nn.SiLU(), nn.Linear(64, 10)
    ).to(DEVICE)
    batches = [(randn(4, 7, 32), torch.randint(10, (28,), device=DEVICE)) for _ in range(3)]

    def sums(f, dtype):
        model.to(dtype).zero_grad()
        for x, y in batches:
            F.cross_entropy(f(x.to(dtype)).flatten(0, -2), y).backward()
        return [p.grad for p in model.parameters()]

    compiled = thunder.jit(model)
    for got, eager, exact in zip(
        sums(compiled, torch.float32), sums(model, torch.float32), sums(model, torch.float64), strict=True
    ):
        assert error(got, exact) <= 2 * error(eager, exact) + ROUNDOFF[torch.float32]
    assert in_place(compiled) == 3 * 2


def test_it_is_the_same_tensor_that_grows():
    p = Pair()
    before = p.w.grad
    alias, version, address = before.view(-1), before._version, before.data_ptr()
    p.backward()
    assert p.w.grad is before and before.data_ptr() == address and before._version > version
    assert torch.equal(alias, before.view(-1))
    p.expect(1)


def test_no_gradient_of_the_weights_size_is_made():
    size = 2048 if ON_CPU else 4096
    one = size * size * 4 / 2**20
    f, w = thunder.jit(linear), leaf(size, size, dtype=torch.float32)
    x = randn(2, size, dtype=torch.float32)
    f(x, w).sum().backward()
    loss = f(x, w).sum()

    def used(peak):
        if ON_CPU:
            return megabytes("VmHWM" if peak else "VmRSS")
        return (torch.cuda.max_memory_allocated if peak else torch.cuda.memory_allocated)() / 2**20

    thunder.empty_cache()  # what is kept for later would serve for it
    reset_peak() if ON_CPU else torch.cuda.reset_peak_memory_stats()
    before = used(False)
    loss.backward()
    assert in_place(f) == 1 and used(True) - before < 0.5 * one


def test_zero_grad_that_keeps_the_tensor():
    p = Pair()
    for _ in range(2):
        p.each(lambda f, w: torch.optim.SGD([w], 0.1).zero_grad(set_to_none=False))
        p.backward()
    p.expect(2)


def test_zero_grad_that_drops_the_tensor():
    p = Pair()
    for _ in range(2):
        p.each(lambda f, w: torch.optim.SGD([w], 0.1).zero_grad())
        p.backward()
    p.expect(0)


def test_numerics_of_eager_add_afterwards():
    w, x = leaf(16, 8, dtype=torch.float32), randn(4, 8, dtype=torch.float32)
    f = thunder.jit(F.linear, numerics="eager")
    (one,) = torch.autograd.grad(f(x, w).sum(), w)  # not eager's, whose product may round otherwise on a GPU
    for _ in range(3):
        f(x, w).sum().backward()
    assert torch.equal(w.grad, one + one + one) and in_place(f) == 0


# ---- backwards that are not plain -----------------------------------------------------------------------------------


def test_autograd_grad():
    p = Pair()
    before = p.w.grad.clone()
    got, want = p.each(lambda f, w: torch.autograd.grad(f(p.x, w).sum(), w)[0])
    close(got, want)
    assert torch.equal(p.w.grad, before)
    p.expect(0)


def test_backward_into_chosen_inputs():
    p = Pair()
    p.each(lambda f, w: f(p.x, w).sum().backward(inputs=[w]))
    p.expect(0)
    p.x.requires_grad_()
    before = p.w.grad.clone()
    p.each(lambda f, w: f(p.x, w).sum().backward(inputs=[p.x]))
    assert torch.equal(p.w.grad, before)
    p.expect(0)


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph=True")
@pytest.mark.parametrize("retain", [True, False])
def test_create_graph(retain):
    p = Pair()
    p.each(lambda f, w: f(p.x, w).sum().backward(create_graph=True, retain_graph=retain))
    assert p.w.grad.requires_grad
    p.expect(0)
    p.backward()  # into a gradient with a history
    p.expect(0)


def test_a_graph_that_is_kept():
    p = Pair()

    def twice(f, w):
        out = f(p.x, w).sum()
        out.backward(retain_graph=True)
        out.backward()

    p.each(twice)
    p.expect(1)  # the engine announces only the run that is the last


def test_a_node_called_by_hand():
    p = Pair()
    before = p.w.grad.clone()
    g = randn(4, 16)
    got, want = p.each(lambda f, w: f(p.x, w).grad_fn(g) if f is p.compiled else torch.autograd.grad(f(p.x, w), w, g))
    close(got[1], want[0])
    assert torch.equal(p.w.grad, before)

    # Within a backward, of which the node is a part as well.
    seen = []
    out = p.compiled(p.x, p.w)
    node = out.grad_fn
    top = out * 2
    top.register_hook(lambda _: seen.append(node(g)[1]))
    top.sum().backward(retain_graph=True)
    p.each(lambda f, w: None if f is p.compiled else (f(p.x, w) * 2).sum().backward())
    close(seen[0], want[0])
    p.expect(0)


def test_anomaly_mode():
    p = Pair()
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly():
        p.backward()
    p.expect(0)


def test_a_mode_that_counts_operations():
    from torch.utils.flop_counter import FlopCounterMode

    p = Pair()
    flops = []

    def count(f, w):
        with FlopCounterMode(display=False) as mode:
            f(p.x, w).sum().backward()
        flops.append(mode.get_total_flops())

    p.each(count)
    assert flops[0] == flops[1]
    p.expect(0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    from torch.utils.checkpoint import checkpoint

    p = Pair()
    p.x.requires_grad_()
    p.each(lambda f, w: checkpoint(lambda x: f(x, w), p.x, use_reentrant=reentrant).sum().backward())
    p.expect(1)


def test_saved_tensor_hooks():
    p = Pair()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        p.backward()
    p.expect(1)


def test_programs_that_run_as_graphs():
    from graph_checks import transform

    f, w = thunder.jit(linear, transforms=[transform()]), leaf(16, 8)
    eager_w = w.detach().clone().requires_grad_()
    w.grad, eager_w.grad = torch.zeros_like(w), torch.zeros_like(w)  # the first run is none of a graph
    for _ in range(5):
        x = randn(4, 8)
        f(x, w).sum().backward()
        linear(x, eager_w).sum().backward()
    close(w.grad, eager_w.grad)
    assert in_place(f) == 0 and thunder.compile_stats(f)["graphs"]["replays"]


# ---- hooks ---------------------------------------------------------------------------------------------------------


def accumulator(w):
    return w.view_as(w).grad_fn.next_functions[0][0]


def node_of(w, attach):
    node = accumulator(w)
    attach(node)
    return node  # lives as long as somebody holds it, and the hook with it


HOOKS = {
    "tensor": lambda w, see: w.register_hook(lambda g: see(g) or 3 * g),
    "after accumulation": lambda w, see: w.register_post_accumulate_grad_hook(lambda p: see(p.grad)),
    "node": lambda w, see: node_of(w, lambda n: n.register_hook(lambda _, g: see(g[0]))),
    "before node": lambda w, see: node_of(w, lambda n: n.register_prehook(lambda g: see(g[0]) or (2 * g[0],))),
    "multi": lambda w, see: torch.autograd.graph.register_multi_grad_hook([w], lambda g: see(g[0])),
    "any": lambda w, see: torch.autograd.graph.register_multi_grad_hook([w], see, mode="any"),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_hooks_see_what_eager_shows(kind):
    p = Pair()
    seen = {}

    def run(f, w):
        handle = HOOKS[kind](w, lambda g: seen.setdefault(f, []).append(g.clone()))
        for _ in range(2):
            f(p.x, w).sum().backward()
        return handle

    p.each(run)
    assert len(seen[p.compiled]) == len(seen[p.fn]) == 2
    for got, want in zip(seen[p.compiled], seen[p.fn], strict=True):
        close(got, want)
    p.expect(0)


def test_a_hook_on_the_compiled_functions_node():
    p = Pair()
    seen = []
    out = p.compiled(p.x, p.w)
    out.grad_fn.register_hook(lambda gradients, _: seen.append(gradients[1].clone()))
    out.sum().backward()
    p.each(lambda f, w: None if f is p.compiled else f(p.x, w).sum().backward())
    close(seen[0], p.eager_w.grad / 2)
    p.expect(0)


def test_hooks_elsewhere_do_not_matter():
    p = Pair()
    seen = []

    def run(f, w):
        out = f(p.x, w)
        out.register_hook(lambda g: 2 * g)
        out.grad_fn.register_prehook(lambda g: seen.append(f))
        out.sum().backward()

    p.each(run)
    assert len(seen) == 2
    p.expect(1)


# ---- leaves and their gradients -------------------------------------------------------------------------------------


def flat_buffer(w):
    buffer = torch.zeros(2 * w.numel(), dtype=w.dtype, device=w.device)
    return buffer[w.numel() :].view(w.shape)


# With how many of two backwards add in place.
GRADIENTS = {
    "by row": (lambda w: randn(*w.shape), 2),
    "part of a buffer": (flat_buffer, 2),
    "by column": (lambda w: randn(*w.shape[::-1]).t(), 2),
    "with gaps": (lambda w: randn(w.shape[0], 2 * w.shape[1])[:, ::2], 0),
    "negated": (lambda w: torch._neg_view(randn(*w.shape)), 0),
    "with requires_grad": (lambda w: leaf(*w.shape), 0),
    "sparse": (lambda w: randn(*w.shape).to_sparse(), 1),  # the sum is not sparse any more
}


@pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout contract")
@pytest.mark.parametrize("kind", GRADIENTS)
def test_kinds_of_gradients(kind):
    make, count = GRADIENTS[kind]
    p = Pair(ready=False)
    given = make(p.w)
    p.w.grad, p.eager_w.grad = given, given.detach().clone().requires_grad_(given.requires_grad)
    for _ in range(2):
        p.backward()
    assert p.w.grad.layout == p.eager_w.grad.layout
    p.expect(count)


def test_a_gradient_of_another_type():
    p = Pair(ready=False)
    for w in (p.w, p.eager_w):
        w.grad_dtype = torch.float32
        w.grad = torch.ones(w.shape, device=DEVICE)
    p.backward()
    assert p.w.grad.dtype == torch.float32
    torch.testing.assert_close(p.w.grad, p.eager_w.grad)
    assert in_place(p.compiled) == 0


@pytest.mark.parametrize("kind", ["expanded", "inference"])
def test_gradients_that_eager_refuses(kind):
    p = Pair(ready=False)

    def run(f, w):
        with torch.inference_mode(kind == "inference"):
            w.grad = randn(1).expand(w.shape) if kind == "expanded" else randn(*w.shape)
        with pytest.raises(RuntimeError) as e:
            f(p.x, w).sum().backward()
        return str(e.value)

    got, want = p.each(run)
    assert got == want and in_place(p.compiled) == 0


def test_a_leaf_that_stops_requiring_gradients():
    p = Pair()

    def run(f, w):
        out = f(p.x, w).sum()
        w.requires_grad_(False)
        out.backward()

    p.each(run)
    p.expect(0)


def test_a_gradient_that_is_dropped_between_forward_and_backward():
    p = Pair()

    def run(f, w):
        out = f(p.x, w).sum()
        w.grad = None
        out.backward()

    p.each(run)
    p.expect(0)


def test_a_weight_that_is_no_leaf():
    p = Pair()
    p.each(lambda f, w: f(p.x, w * 1).sum().backward())
    p.expect(0)


# ---- memory that is shared ------------------------------------------------------------------------------------------


def test_a_gradient_in_the_memory_of_an_input():
    # The gradient of w is written before x has been read for that of v, or after: as eager orders it, x stays as it is.
    def fn(x, v, w):
        return F.linear(torch.tanh(F.linear(x, v)), w)

    compiled = thunder.jit(fn)
    for shared in ("x", "v"):
        results = []
        for f in (compiled, fn):
            torch.manual_seed(0)
            x, v, w = randn(8, 8), leaf(8, 8), leaf(8, 8)
            v.grad, w.grad = torch.zeros_like(v), torch.zeros_like(w)
            f(x, v, w).sum().backward()
            out = f(x, v, w)
            (v if shared == "x" else w).grad = x.detach() if shared == "x" else v.data
            out.sum().backward()
            results.append((v.grad, w.grad, x, v.detach()))
        for got, want in zip(*results, strict=True):
            close(got, want)


def test_a_gradient_that_is_the_cotangent():
    p = Pair(shape=(8, 8), x=(8, 8))
    p.each(lambda f, w: f(p.x, w).backward(w.grad))
    p.expect(0)


def test_two_leaves_with_one_gradient():
    def run(f):
        torch.manual_seed(0)
        x, v, w = randn(4, 8), leaf(8, 8), leaf(8, 8)
        v.grad = w.grad = torch.zeros_like(v)
        f(x, v, w).sum().backward()
        assert v.grad is w.grad
        return v.grad

    def fn(x, v, w):
        return F.linear(torch.tanh(F.linear(x, v)), w)

    compiled = thunder.jit(fn)
    close(run(compiled), run(fn))
    assert in_place(compiled) == 2


# ---- weights that are used several times ----------------------------------------------------------------------------


def test_a_weight_that_is_used_twice_within():
    p = Pair(lambda x, w: F.linear(torch.tanh(F.linear(x, w)), w), shape=(8, 8))
    p.backward()
    p.expect(0)


def test_a_weight_that_is_passed_twice():
    p = Pair(lambda x, a, b: F.linear(torch.tanh(F.linear(x, a)), b), shape=(8, 8), ready=False)
    for _ in range(2):
        p.each(lambda f, w: f(p.x, w, w).sum().backward())
    close(p.w.grad, p.eager_w.grad)


def test_a_weight_that_is_used_outside_as_well():
    p = Pair()
    p.each(lambda f, w: (f(p.x, w).sum() + (w * w).sum() + F.linear(p.x, w).sin().sum()).backward())
    p.expect(1)


def test_one_backward_through_several_calls():
    p = Pair()
    xs = [randn(4, 8) for _ in range(3)]
    p.each(lambda f, w: sum(f(x, w).sum() for x in xs).backward())
    p.expect(3)


def test_threads():
    p = Pair(shape=(512, 512), x=(4, 512))
    count, threads = 40, 3
    xs = [randn(4, 512) for _ in range(threads)]
    failures = []

    def work(x):
        try:
            for _ in range(count):
                p.compiled(x, p.w).sum().backward()
        except BaseException as e:  # reported by the main thread
            failures.append(e)

    running = [threading.Thread(target=work, args=(x,)) for x in xs]
    for t in running:
        t.start()
    for t in running:
        t.join()
    assert not failures, failures[0]
    for x in xs:
        for _ in range(count):
            p.fn(x, p.eager_w).sum().backward()
    p.expect(threads * count)
