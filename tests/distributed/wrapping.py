"""Cases of what users do with wrapped modules beside plain training steps."""

import contextlib
import copy
import io
import pickle

import models
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from training import whole, wrap

import thunder
from thunder.distributed import FSDPType, clip_grad_norm_, ddp, fsdp, no_sync


def compiled(group, strategy, **options):
    return thunder.jit(wrap(models.make(), group, strategy, "BLOCK", **options))


def expected_gradients(batches):
    """Of the mean over the processes, on one process."""
    expected = models.make()
    for batch in batches:
        (models.loss_of(expected, batch) / len(batches)).backward()
    return {n: p.grad for n, p in expected.named_parameters()}


def check(model, expected, factor=1):
    for name, p in model.named_parameters():
        want = expected[name]
        assert (p.grad is None) == (want is None), name
        if want is not None:
            assert_close(whole(p.grad), want * factor, rtol=1e-6, atol=1e-9, msg=lambda m, n=name: f"{n}.grad: {m}")


def other_shapes(group, strategy):
    """A process compiles anew for its own batch shape, the others run what they have."""
    model = compiled(group, strategy)
    world, rank = group.size(), group.rank()
    for step in range(4):
        model.zero_grad()
        batches = [models.tokens(step, 1, batch=1 + (step * r) % 3, length=3 + r * (step % 2))[0] for r in range(world)]
        models.loss_of(model, batches[rank]).backward()
        check(model, expected_gradients(batches))


def evaluation(group, strategy):
    """Programs without gradients before, between and after those with."""
    model = compiled(group, strategy)
    rank, expected = group.rank(), models.make()
    batches = models.tokens(0, group.size())
    for _ in range(2):
        model.eval()
        with torch.no_grad():
            assert_close(model(batches[rank]), expected(batches[rank]))
        model.train()
        model.zero_grad()
        models.loss_of(model, batches[rank]).backward()
        check(model, expected_gradients(batches))


def two_forwards(group, strategy):
    """Two forwards before one backward, and a graph that is kept for a second one."""
    model = compiled(group, strategy)
    first, second = models.tokens(0, group.size()), models.tokens(1, group.size())
    mine = [batches[group.rank()] for batches in (first, second)]
    (models.loss_of(model, mine[0]) + models.loss_of(model, mine[1])).backward()
    sums = expected_gradients(first)
    others = expected_gradients(second)
    check(model, {n: g if g is None else g + others[n] for n, g in sums.items()})
    model.zero_grad()
    loss = models.loss_of(model, mine[0])
    loss.backward(retain_graph=True)
    check(model, sums)
    loss.backward()
    check(model, sums, 2)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right, self.never = (nn.Linear(4, 4).double() for _ in range(3))

    def forward(self, x, left, right):
        return (self.left(x).sum() if left else 0) + (self.right(x).sum() if right else 0) + x.sum()


def branches(group, strategy):
    """Processes use different parameters in one step; what no process uses has no gradient."""
    model, expected = thunder.jit(wrap(Branches(), group, strategy, "NONE")), Branches()
    rank, world = group.rank(), group.size()
    x = torch.arange(4.0).double()
    for step in range(3):
        model.zero_grad()
        expected.zero_grad()
        for r in range(world):
            left = step < 2 and (r + step) % 2 == 0
            (expected(x, left, not left or step == 1) / world).backward()
        left = step < 2 and (rank + step) % 2 == 0
        model(x, left, not left or step == 1).backward()
        check(model, {n: p.grad for n, p in expected.named_parameters()})


def state_dicts(group, strategy):
    """A state dict is global, and loading one writes into the shards."""
    model, other = compiled(group, strategy), models.make(seed=5)
    for name, value in model.state_dict().items():
        assert torch.equal(whole(value), models.make().state_dict()[name]), name
    if strategy == "ddp":
        model.load_state_dict(other.state_dict())
    else:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

        options = StateDictOptions(full_state_dict=True)
        set_model_state_dict(model._original, other.state_dict(), options=options)
    batch = models.tokens(0, 1)[0]
    assert_close(model(batch), other(batch))


def module_attributes(group, strategy):
    """The module reads shapes and dtypes of its parameters as if they were whole."""

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.arange(10.0).view(5, 2))

        def forward(self, x):
            rows, columns = self.weight.shape
            assert self.weight.size(0) == len(self.weight) == rows
            return (x.to(self.weight.dtype) @ self.weight.t()).view(rows) / columns + self.weight.numel()

    module = Reads()
    model = thunder.jit(wrap(copy.deepcopy(module), group, strategy, "AUTO"))
    x = torch.ones(1, 2, dtype=torch.float64)
    assert_close(model(x), module(x))


def function_around(group, strategy):
    """A compiled function that calls a wrapped module, and a module that is wrapped once it is compiled."""
    module = wrap(models.make(), group, strategy, "AUTO")
    step = thunder.jit(lambda batch: models.loss_of(module, batch))
    batches = models.tokens(0, group.size())
    step(batches[group.rank()]).backward()
    check(module, expected_gradients(batches))
    later = thunder.jit(models.make())
    later(batches[0])
    assert wrap(later, group, strategy, "AUTO") is later
    models.loss_of(later, batches[group.rank()]).backward()
    check(later, expected_gradients(batches))


def refusals(group, strategy):
    """What cannot be done says what to do instead."""
    module = wrap(models.make(), group, strategy, "AUTO")
    model = thunder.jit(module)
    batch = models.tokens(0, 1)[0]
    with pytest.raises(RuntimeError, match="distributed already"):
        ddp(model, process_group=group)
    with pytest.raises(TypeError, match="copy it before"):
        copy.deepcopy(module)
    with pytest.raises(TypeError, match="state_dict"):
        pickle.dump(module, io.BytesIO())
    with pytest.raises(NotImplementedError, match="processes, which compiled programs alone know"):
        thunder.jit(module)(torch.nested.nested_tensor([torch.ones(2)]))
    model(batch)
    module.blocks[0].first.weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"blocks\.0\.first\.weight\.requires_grad is False"):
        model(batch)
    module.blocks[0].first.weight.requires_grad_(True)
    module.blocks[0].first.weight = nn.Parameter(torch.zeros(19, 8, dtype=torch.float64))
    with pytest.raises(RuntimeError, match=r"blocks\.0\.first\.weight .*replaced"):
        model(batch)


def transports(group):
    """gloo's collectives stay its own; a name that is none is refused before anything is communicated."""
    for distribute in (ddp, fsdp):
        with pytest.raises(ValueError, match='"auto" or "backend" was expected, got \'copies\''):
            distribute(nn.Linear(4, 2), process_group=group, transport="copies")
        for transport in ("auto", "backend"):
            model = thunder.jit(distribute(nn.Linear(4, 2), process_group=group, transport=transport))
            model(torch.ones(3, 4)).sum().backward()
            assert all(p.grad is not None for p in model.parameters())


def refusals_of_shards(group):
    class Asks(nn.Module):
        def __init__(self, use):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 2))
            self.use = use

        def forward(self, x):
            return self.use(self, x)

    def returns(self, x):
        return self.weight

    def asks(self, x):
        return x * 2 if self.weight.sum() > 0 else x

    def writes(self, x):
        with torch.no_grad():
            self.weight.mul_(2)
        return x @ self.weight.t()

    for use, message in ((returns, "returns"), (asks, "sharded parameter"), (writes, "writes to")):
        model = thunder.jit(fsdp(Asks(use), process_group=group))
        with pytest.raises(NotImplementedError, match=message):
            model(torch.ones(3, 2))


def autocast(group, strategy):
    """Under autocast gradients are those of eager on one process, within the rounding of bfloat16."""
    model, expected = thunder.jit(wrap(models.make().float(), group, strategy, "AUTO")), models.make().float()
    batches = models.tokens(0, group.size())
    with torch.autocast("cpu", torch.bfloat16):
        models.loss_of(model, batches[group.rank()]).backward()
        for batch in batches:
            (models.loss_of(expected, batch) / group.size()).backward()
    for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
        if q.grad is not None:
            assert_close(whole(p.grad), q.grad, rtol=0.05, atol=0.02, msg=lambda m, n=name: f"{n}.grad: {m}")


def meta_device(group):
    """Parameters on the meta device get values from their modules' own initialisation."""
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    torch.manual_seed(1)
    model = thunder.jit(fsdp(module, broadcast_from=0, sharding_strategy=FSDPType.ZERO3, process_group=group))
    out = model(torch.ones(2, 4))
    out.sum().backward()
    torch.manual_seed(1)
    expected = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    assert_close(out, expected(torch.ones(2, 4)))


def no_sync_alone(group, strategy):
    """Nothing is reduced within no_sync(), and what was kept is reduced later, once."""
    model = compiled(group, strategy)
    batches = [models.tokens(i, group.size()) for i in range(3)]
    with no_sync(model):
        models.loss_of(model, batches[0][group.rank()]).backward()
        if not strategy.startswith("ZERO3"):
            assert all(p.grad is None for p in model.parameters())
    with contextlib.suppress(RuntimeError):
        with no_sync(model):
            raise RuntimeError
    models.loss_of(model, batches[1][group.rank()]).backward()
    first, second = map(expected_gradients, batches[:2])
    check(model, {n: g if g is None else g + second[n] for n, g in first.items()})
    model.zero_grad()
    models.loss_of(model, batches[2][group.rank()]).backward()
    check(model, expected_gradients(batches[2]))


def norms(group, strategy, norm_type):
    model = compiled(group, strategy)
    batches = models.tokens(0, group.size())
    models.loss_of(model, batches[group.rank()]).backward()
    gradients = [g for g in expected_gradients(batches).values() if g is not None]
    want = nn.utils.get_total_norm(gradients, norm_type)
    assert_close(clip_grad_norm_(model, 1e-3, norm_type), want, rtol=1e-6, atol=0)
    norm = nn.utils.get_total_norm([whole(p.grad) for p in model.parameters() if p.grad is not None], norm_type)
    assert_close(norm.item(), min(want.item(), 1e-3), rtol=1e-3, atol=0)
