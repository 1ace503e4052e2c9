"""The recipe of float8 layers written with PyTorch's operators in float32, and models to compare on."""

import contextlib
import copy

import torch
from devices import DEVICE, ON_CPU
from torch import nn

import thunder
from thunder.transforms import Float8

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


_rounds = True


@contextlib.contextmanager
def unrounded():
    """Within it the recipe keeps every number as it is, and adds to no history."""
    global _rounds
    _rounds = False
    try:
        yield
    finally:
        _rounds = True


def rounded(x, dtype, amax=None):
    """What float8 makes of a tensor, in float32; `amax`: what fills the type's range, else its own largest number."""
    if not _rounds:
        return x.detach().float()
    most = torch.finfo(dtype).max
    scale = (x.detach().abs().max().float() if amax is None else amax).clamp(min=1e-12) / most
    return (x.detach().float() * (1 / scale)).clamp(-most, most).to(dtype).float() * scale


class Seen:
    """The largest numbers of a layer's tensors in the last backwards, for delayed scaling."""

    def __init__(self, length):
        self.length, self.last = length, {"x": [], "w": [], "g": []}

    def amax(self, kind):
        return max(self.last[kind]) if self.last[kind] else None

    def add(self, **maxima):
        for kind, x in maxima.items():
            self.last[kind] = [x.detach().abs().max().float(), *self.last[kind]][: self.length]


class Emulated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, seen=None):
        given = {kind: seen.amax(kind) if seen else None for kind in "xwg"}
        x8, w8 = rounded(x, E4M3, given["x"]), rounded(w, E4M3, given["w"])
        ctx.save_for_backward(x8, w8)
        ctx.of = x.dtype, w.dtype, None if b is None else b.dtype
        ctx.seen = seen, given["g"], {"x": x.detach(), "w": w.detach().clone()}
        with torch.autocast(DEVICE, enabled=False):
            y = x8 @ w8.t()
        return (y if b is None else y + b.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        x8, w8 = ctx.saved_tensors
        seen, amax, others = ctx.seen
        if seen and _rounds:
            seen.add(g=g, **others)
        g8 = rounded(g, E5M2, amax)
        rows = g8.reshape(-1, g8.shape[-1]), x8.reshape(-1, x8.shape[-1])
        bias = None if ctx.of[2] is None else g.float().reshape(-1, g.shape[-1]).sum(0).to(ctx.of[2])
        return (g8 @ w8).to(ctx.of[0]), (rows[0].t() @ rows[1]).to(ctx.of[1]), bias, None


def emulated(model, names, history=0):
    """A copy in which these layers compute as the recipe says; with a history, as delayed scaling says."""
    out = copy.deepcopy(model)
    for name in names:
        layer, seen = out.get_submodule(name), Seen(history) if history else None
        layer.forward = lambda x, layer=layer, seen=seen: Emulated.apply(x, layer.weight, layer.bias, seen)
    return out


def small(dtype=torch.float32):
    torch.manual_seed(0)
    layers = nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 48, bias=False), nn.GELU(), nn.Linear(48, 16)
    return nn.Sequential(*layers).to(DEVICE, dtype)


def in_float8(model, names=("0", "2"), **options):
    return thunder.jit(model, transforms=[Float8(filter=list(names), **options)])


def stats(compiled):
    return thunder.compile_stats(compiled)["float8"]


def calls(traces):
    return [c.name for c in traces[-1].calls]


def close(a, b, dtype, exact=None):
    """Equal up to roundings of the layers' own type; float8's are ten times as large.

    A GPU's float8 products keep some 14 bits of a sum, and its functions have other last bits.  That moves a few
    numbers to their neighbours in float8, so there as much is allowed as float8 itself changes: |b - exact|, where
    `exact` is what the recipe gives unrounded.  Numbers rounded independently differ by 1.4 times that.
    """
    bound = {torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 8e-3}[dtype]
    error, size = _distance(a, b), b.float().norm().item()
    allowed = bound * size if ON_CPU or exact is None else max(bound * size, _distance(b, exact))
    assert error <= allowed, (error, size, allowed)


def _distance(a, b):
    return (a.float() - b.float()).norm().item()


def agree(ours, recipe, dtype):
    """What two functions return, lists of tensors.  The recipe's is asked twice: with its roundings and without."""
    mine, theirs = ours(), recipe()
    with unrounded():
        exact = recipe()
    for a, b, e in zip(mine, theirs, exact, strict=True):
        close(a, b, dtype, e)


def trained(m, loss, *xs):
    """The gradients of a module's parameters, of which each must have one, and of the inputs that require one."""
    m.zero_grad()
    for x in xs:
        x.grad = None
        loss(m(x)).backward()
    leaves = [*(x for x in xs if x.requires_grad), *(p for p in m.parameters() if p.requires_grad)]
    assert all(leaf.grad is not None for leaf in leaves), [n for n, p in m.named_parameters() if p.grad is None]
    return [leaf.grad.clone() for leaf in leaves]


def squares(y):
    return y.float().square().sum()


def gradients_of(compiled, reference, x, dtype):
    """Runs both forward and backward on the same numbers; compares results and all gradients."""
    leaf, seed, results = x.clone().requires_grad_(), torch.randint(1 << 30, ()).item(), []

    def product(y):
        results.append(y.detach())
        torch.manual_seed(seed)
        return (y * torch.randn_like(y)).sum()

    def run(m):
        gradients = trained(m, product, leaf)
        return [results.pop(), *gradients]

    agree(lambda: run(compiled), lambda: run(reference), dtype)


def both(compiled, reference, *shape, dtype):
    torch.manual_seed(1)
    gradients_of(compiled, reference, torch.randn(*shape, dtype=dtype, device=DEVICE), dtype)


def losses_of(make):
    """Of three steps of AdamW with what `make` makes of a small model."""
    torch.manual_seed(0)
    data, targets = torch.randn(3, 64, 32), torch.randint(0, 16, (3, 64))
    model, losses = make(small()), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for x, t in zip(data, targets, strict=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
