"""Cases of programs that communicate by themselves: values, gradients and order as eager's, in the same process."""

import warnings

import models
import pytest
import torch
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import distributed, nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint
from training import whole, wrap

import thunder
from thunder.distributed._plan import second_group

# ---- of one call ----------------------------------------------------------------------------------------------------


def all_reduce(x, group):
    return functional.all_reduce(x * 2, "sum", group) * x


def all_gather(x, group):
    return functional.all_gather_tensor(x * 2, 0, group).sin()


def all_gather_columns(x, group):
    return functional.all_gather_tensor_autograd(x.exp(), 1, group).sin()


def reduce_scatter(x, group):
    return functional.reduce_scatter_tensor(x.exp(), "sum", 0, group).sin()


def reduce_scatter_columns(x, group):
    return functional.reduce_scatter_tensor_autograd(x.exp(), "sum", 1, group).sin()


def exchange(x, group):
    return functional.all_to_all_single(x.exp(), None, None, group).sin()


def uneven_exchange(x, group):
    world, rank = group.size(), group.rank()
    sent = [1] * (world - 1) + [x.shape[0] - world + 1]  # the last process gets the rest
    received = [x.shape[0] - world + 1 if rank == world - 1 else 1] * world
    return functional.all_to_all_single_autograd(x.exp(), received, sent, group).sin()


def broadcast(x, group):
    return functional.broadcast(x.exp(), 1, group).sin() + x


def permuted(x, group):
    world = group.size()
    return functional.permute_tensor(x.flatten().exp(), [(i + 1) % world for i in range(world)], group).sin()


def reduced_together(x, group):
    a, b = functional.all_reduce_coalesced([x.exp(), x * 2], "sum", group)
    return a * b


def gathered_together(x, group):
    a, b = functional.all_gather_into_tensor_coalesced([x.exp(), x * 2], group)
    return a * b


def scattered_together(x, group):
    a, b = functional.reduce_scatter_tensor_coalesced([x.exp(), x * 2], "sum", [0, 0], group)
    return a * b


def operators(x, group):
    started = torch.ops._c10d_functional.all_reduce(x.exp(), "sum", group.group_name)
    other = x.sin()
    return torch.ops._c10d_functional.wait_tensor(started) * other


def waited_for(x, group):
    started = functional.all_reduce(x.exp(), "sum", group)
    other = x.sin()
    return started.wait() * other


def nn_all_reduce(x, group):
    return differentiable.all_reduce(x.exp(), group=group) * x


def nn_largest(x, group):
    return differentiable.all_reduce(x.exp(), distributed.ReduceOp.MAX, group) * x


def nn_broadcast(x, group):
    return differentiable.broadcast(x.exp(), 1, group) * x


def nn_all_gather(x, group):
    return torch.cat(differentiable.all_gather(x.t().exp(), group)).sin()


def nn_reduce_scatter(x, group):
    parts = list(x.exp().chunk(group.size()))
    return differentiable.reduce_scatter(torch.empty_like(parts[0]), parts, group=group).sin()


def nn_exchange(x, group):
    return differentiable.all_to_all_single(torch.empty_like(x), x.exp(), group=group).sin()


DIFFERENTIATED = [
    all_reduce, all_gather, all_gather_columns, reduce_scatter, reduce_scatter_columns, exchange, uneven_exchange,
    broadcast, permuted, reduced_together, gathered_together, scattered_together, operators, waited_for,
    nn_all_reduce, nn_largest, nn_broadcast, nn_all_gather, nn_reduce_scatter, nn_exchange,
]


def outcome(fn, group, with_grad):
    rank = group.rank()
    x = (torch.arange(72.0, dtype=torch.float64).view(12, 6) / 72 + rank).requires_grad_(with_grad)
    y = fn(x)
    if not y.requires_grad:
        return y.clone(), None
    (y * torch.linspace(1, 2, y.numel()).view_as(y)).sum().backward()
    return y.detach().clone(), x.grad


FEW = [all_reduce, all_gather_columns, reduce_scatter, broadcast, nn_all_gather]


def same_as_eager(group, every):
    warnings.simplefilter("ignore", FutureWarning)
    for fn in DIFFERENTIATED if every else FEW:
        for with_grad in (False, True):

            def f(x, fn=fn):
                return fn(x, group)

            expected, compiled = outcome(f, group, with_grad), thunder.jit(f)
            for _ in range(2):
                for actual, e in zip(outcome(compiled, group, with_grad), expected, strict=True):
                    assert (actual is None) == (e is None), fn.__name__
                    if e is not None:
                        assert_close(actual, e, msg=lambda m, n=fn.__name__: f"{n}: {m}")
            stats = thunder.compile_stats(compiled)
            assert not stats["eager_calls"], (fn.__name__, stats)
            assert stats["cache_misses"] == 1, (fn.__name__, stats)


def errors(group):
    """Where eager's backward or forward raises, compiled functions raise the same."""

    def backward(x):
        return functional.all_reduce(x, "max", group)

    x = torch.ones(4, requires_grad=True)
    for f in (backward, thunder.jit(backward)):
        y = f(x)
        with pytest.raises(RuntimeError, match="only supports 'sum' reduction, got 'max'"):
            y.sum().backward()


# ---- in place -------------------------------------------------------------------------------------------------------


def listed(x, group):
    parts = [torch.empty_like(x) for _ in range(group.size())]
    distributed.all_gather(parts, x * 2, group)
    return torch.cat(parts)


def of_scalars(x, group):
    parts = [torch.empty((), dtype=x.dtype) for _ in range(group.size())]
    distributed.all_gather(parts, x.sum(), group)
    return torch.stack(parts)


def listed_parts(x, group):
    part = torch.empty(x.shape[0] // group.size(), x.shape[1], dtype=x.dtype)
    distributed.reduce_scatter(part, list(x.exp().chunk(group.size())), distributed.ReduceOp.MAX, group)
    return part


def open_ended(x, group):
    y, z = x * 2, torch.empty(x.shape[0] * group.size(), x.shape[1], dtype=x.dtype)
    first = distributed.all_reduce(y, group=group, async_op=True)
    second = distributed.all_gather_into_tensor(z, x.exp(), group, async_op=True)
    other = x.sin()
    first.wait()
    second.wait()
    return torch.cat([y * other, z])


def uneven_in_place(x, group):
    world, rank = group.size(), group.rank()
    sent = [1] * (world - 1) + [x.shape[0] - world + 1]
    received = [x.shape[0] - world + 1 if rank == world - 1 else 1] * world
    y = torch.empty(sum(received), x.shape[1], dtype=x.dtype)
    distributed.all_to_all_single(y, x.exp(), received, sent, group)
    return y


def argument(x, group):
    y = x.clone()
    distributed.broadcast(y, group=group, group_src=group.size() - 1)
    return y + x


def without_gradients(x, group):
    """What carries gradients outside may be reduced under no_grad."""
    w = x.detach().requires_grad_()
    with torch.no_grad():
        y = w * 2
        distributed.all_reduce(y, group=group)
    return w * y


IN_PLACE = [listed, of_scalars, listed_parts, open_ended, uneven_in_place, argument, without_gradients]


def in_place(group):
    for fn in IN_PLACE:

        def f(x, fn=fn):
            return fn(x, group)

        compiled = thunder.jit(f)
        for i in range(2):
            x = torch.arange(24.0, dtype=torch.float64).view(12, 2) / 24 + group.rank() + i
            assert_close(compiled(x.clone()), f(x.clone()), msg=lambda m, n=fn.__name__: f"{n}: {m}")
        stats = thunder.compile_stats(compiled)
        assert not stats["eager_calls"], (fn.__name__, stats)


def written_afterwards(group):
    """A process that does not read what is gathered may write to what it gave."""

    def f(x):
        gathered = functional.all_gather_tensor_autograd(x, 0, group)
        x.mul_(0)
        return gathered if group.rank() == 0 else x

    n = 1 << 18  # long enough on the way to be seen
    compiled = thunder.jit(f)
    for _ in range(3):
        x = torch.full((n,), 1.0 + group.rank())
        y = compiled(x)
        assert torch.equal(x, torch.zeros(n))
        if group.rank() == 0:
            assert torch.equal(y, torch.arange(1.0, group.size() + 1).repeat_interleave(n))


# ---- in programs ----------------------------------------------------------------------------------------------------


def two_groups_of_workers(group):
    """Collectives of two groups stay in the program's order, in the forward and in the backward."""
    other = second_group(group)

    def f(x):
        a = functional.all_reduce(x.exp(), "sum", group)
        b = functional.all_reduce(x * 3, "sum", other)
        return functional.all_reduce(a * b, "sum", group)

    x = torch.linspace(0, 1, 5) + group.rank()
    results = []
    for g in (f, compiled := thunder.jit(f)):
        leaf = x.clone().requires_grad_()
        y = g(leaf)
        y.sum().backward()
        results.append((y.detach(), leaf.grad))
    assert_close(*results)
    names = [group.group_name, other.group_name]
    for trace, order in ((thunder.last_traces(compiled)[-1], [0, 1, 0]),
                         (thunder.last_backward_traces(compiled)[-1], [0, 1, 0])):
        found = [line.split("'sum', '")[1].split("'")[0] for line in str(trace).splitlines()
                 if line.lstrip().startswith("p") and "torch_all_reduce_prim_impl" in line]
        assert found == [names[i] for i in order], trace


def checkpointed(group):
    """What a checkpoint communicates is computed again, or kept: the gradients are the same."""

    def block(x):
        return functional.all_reduce(x.sin(), "sum", group).exp()

    def f(x):
        return checkpoint(block, checkpoint(block, x, use_reentrant=False), use_reentrant=False)

    results = []
    for g in (f, thunder.jit(f)):
        x = (torch.linspace(0, 1, 5) / 3 + group.rank() / 4).requires_grad_()
        g(x).sum().backward()
        results.append(x.grad)
    assert_close(*results)


class Communicating(nn.Module):
    """A module that means its own activations over the processes."""

    def __init__(self, module, group):
        super().__init__()
        self.module, self.group = module, group

    def forward(self, tokens):
        x = self.module(tokens)
        total = functional.all_reduce(x.mean((0, 1)), "sum", self.group)
        seen = x.detach().abs().max()
        distributed.all_reduce(seen, distributed.ReduceOp.MAX, self.group)
        return x - total / self.group.size() + seen * 0


def inside_wrapped(group, strategy):
    """Of a wrapped model: its own collectives and the compiler's, in two groups."""
    rank, world = group.rank(), group.size()
    expected = models.make()
    model = thunder.jit(wrap(Communicating(models.make(), group), group, strategy, "BLOCK"))
    for step in range(2):
        batches = models.tokens(step, world)
        outs = [expected(b) for b in batches]
        mean = sum(o.mean((0, 1)) for o in outs) / world
        for o, b in zip(outs, batches, strict=True):
            (nn.functional.cross_entropy((o - mean).flatten(0, -2), b.flatten()) / world).backward(retain_graph=True)
        models.loss_of(model, batches[rank]).backward()
        for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None), name
            if q.grad is not None:
                assert_close(whole(p.grad), q.grad, rtol=1e-6, atol=1e-9, msg=lambda m, n=name: f"{n}.grad: {m}")
        model.zero_grad()
        expected.zero_grad()


def other_shapes(group):
    """Batches of other sizes: each process's program has its own."""
    compiled = thunder.jit(lambda x: functional.all_reduce(x.sum(0), "sum", group) + x)
    for n in (2, 3, 5):
        x = torch.ones(n + group.rank(), 4)
        total = sum(n + r for r in range(group.size()))
        assert_close(compiled(x), torch.full_like(x, total + 1))
