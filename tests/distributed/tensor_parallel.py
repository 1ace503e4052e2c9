"""Cases of tensor parallel models, which run on each process: against one process that has the whole model."""

import functools
import re

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint
from training import whole

import thunder
from thunder.distributed import FSDPType, clip_grad_norm_, ddp, fsdp
from thunder.distributed import tensor_parallel as tp
from thunder.distributed.tensor_parallel._layers import sharding_of
from thunder.distributed.tensor_parallel._regions import own_part

WIDTH, HEADS, VOCABULARY, PADDING = 24, 6, 35, 20  # a vocabulary that no world divides


class Mlp(nn.Module):
    def __init__(self, width=8, hidden=13):  # uneven in every world
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        heads = (*x.shape[:2], -1, WIDTH // HEADS)  # as many as this process has
        q, k, v = (w(x).view(heads).transpose(1, 2) for w in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)])
        self.attention = Attention()
        self.mlp = Mlp(WIDTH, 4 * WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class Language(nn.Module):
    """Its head is the embedding's weight."""

    def __init__(self, layers=1, checkpointed=False):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PADDING)
        self.blocks = nn.ModuleList([Block() for _ in range(layers)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        self.checkpointed = checkpointed

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x))


def made(kind, seed=0, **options):
    torch.manual_seed(seed)
    return kind(**options).double()


def mesh_of(group):
    return DeviceMesh.from_group(group, "cpu")


def plan_of_language(sequence):
    """Both ways as PyTorch's tutorials have them."""
    between = Shard(1) if sequence else Replicate()
    plan = {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "blocks.*.attention.[qkv]": ColwiseParallel(),
        "blocks.*.attention.out": RowwiseParallel(output_layouts=between),
        "blocks.*.mlp.up": ColwiseParallel(),
        "blocks.*.mlp.down": RowwiseParallel(output_layouts=between),
        "head": ColwiseParallel(input_layouts=between),
    }
    if sequence:
        whole_input = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
        plan |= {
            "blocks.*.norms.*": SequenceParallel(),
            "norm": SequenceParallel(),
            "blocks.*.attention": whole_input,
            "blocks.*.mlp": whole_input,
        }
    return plan


def tokens(step, world=1, batch=2, length=12):
    t = torch.randint(0, VOCABULARY, (world, batch, length), generator=torch.Generator().manual_seed(step))
    t[..., 1] = PADDING
    return t


def part(value, parameter):
    """Of the whole model's parameter, or gradient, what is a process's."""
    s = sharding_of(parameter)
    return value if s is None else own_part(value, s.dim, s.sizes, s.p)


def same_gradients(model, expected):
    for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
        if q.grad is not None:
            message = functools.partial("{}.grad: {}".format, name)
            assert_close(whole(p.grad), part(q.grad, p), rtol=1e-6, atol=1e-9, msg=message)


def same_steps(model, expected, loss, expected_loss, clip=None, factor=1):
    """Three steps of AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    reference = torch.optim.AdamW(expected.parameters(), 1e-2)
    for step in range(3):
        a, b = loss(step), expected_loss(step)
        if factor == 1:
            assert_close(a, b)
        a.backward()
        b.backward()
        if clip is not None:
            want = nn.utils.clip_grad_norm_(expected.parameters(), clip)
            assert_close(clip_grad_norm_(model, clip), want, rtol=1e-6, atol=0)
        same_gradients(model, expected)
        for o in (optimizer, reference):
            o.step()
            o.zero_grad()
    for (name, p), q in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert_close(whole(p.detach()), part(q.detach(), p), rtol=1e-6, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")


def collectives(model):
    """How often the programs communicate, by what."""
    out = {}
    for kind, traces in (("forward", thunder.last_traces(model)), ("backward", thunder.last_backward_traces(model))):
        lines = [line for line in str(traces[-1]).splitlines() if "_prim_impl(" in line and "FUTURE" in line]
        for name in ("all_reduce", "all_gather", "reduce_scatter"):
            out[kind, name] = sum(f"torch_{name}_prim_impl" in line for line in lines)
    return out


# ---- models ---------------------------------------------------------------------------------------------------------


def mlp(group, jit=True):
    expected, model = made(Mlp), made(Mlp, seed=group.rank())
    tp.column_parallel(model, "up", group)
    tp.row_parallel(model, "down", group)
    assert model.up.weight.untyped_storage().nbytes() == model.up.weight.nbytes
    # The parameters are the first process's: those of seed 0.
    assert torch.equal(model.up.weight, expected.up.weight.chunk(group.size())[group.rank()])
    model = thunder.jit(model) if jit else model
    x = [torch.randn(5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    same_steps(model, expected, lambda i: model(x[i]).square().mean(), lambda i: expected(x[i]).square().mean(), 0.1)
    if jit:
        assert thunder.compile_stats(model)["cache_misses"] == 1
        found = collectives(model)
        assert found["forward", "all_reduce"] == 1 and found["backward", "all_reduce"] == 0, found


def gathered_features(group):
    """A module by itself: whole features in and out, each way."""
    world = group.size()
    x = torch.randn(4, 6, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for kind in ("column", "row"):
        expected = made(nn.Linear, in_features=9, out_features=7)
        model = nn.Sequential(made(nn.Linear, in_features=9, out_features=7))
        if kind == "column":
            tp.column_parallel(model, "0", group, gather_output=True)
        else:
            tp.row_parallel(model, "0", group, split_input=True)
        results = []
        for f in (expected, model, thunder.jit(model)):
            f.zero_grad()
            leaf = x.clone().requires_grad_()
            y = f(leaf)
            (y * torch.linspace(1, 2, y.numel(), dtype=torch.float64).view_as(y)).sum().backward()
            results.append((y.detach(), leaf.grad))
            if f is not expected:
                same_gradients(f, expected)
        assert_close(results[1], results[0])
        assert_close(results[2], results[0])
    indices = torch.arange(12).view(3, 4)
    for apply, options in ((tp.column_parallel, {"gather_output": True}), (tp.row_parallel, {})):
        # Fewer vectors than elements, and fewer elements than processes.
        expected = made(nn.Embedding, num_embeddings=12, embedding_dim=world - 1 or 1)
        model = nn.Sequential(made(nn.Embedding, num_embeddings=12, embedding_dim=world - 1 or 1))
        apply(model, "0", group, **options)
        compiled = thunder.jit(model)
        assert_close(compiled(indices), expected(indices))
        compiled(indices).square().sum().backward()
        expected(indices).square().sum().backward()
        same_gradients(compiled, expected)


def resharded(group):
    """A module by itself that takes and gives parts along other dimensions than its features."""
    world, rank = group.size(), group.rank()
    x = torch.randn(2 * world, world, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weights = torch.linspace(1, 2, 14 * world * world, dtype=torch.float64).view(2 * world, world, 7)
    for style, given, output in ((ColwiseParallel, 0, 1), (ColwiseParallel, 1, 0), (ColwiseParallel, -1, 0),
                                 (RowwiseParallel, 0, 1), (RowwiseParallel, 1, 2), (RowwiseParallel, -1, 0)):
        expected = made(nn.Linear, in_features=9, out_features=7)
        model = nn.Sequential(made(nn.Linear, in_features=9, out_features=7))
        plan = {"0": style(input_layouts=Shard(given), output_layouts=Shard(output))}
        tp.parallelize(model, group, plan)
        leaf = x.clone().requires_grad_()
        y = expected(leaf)
        (y * weights).sum().backward()
        for f in (model, thunder.jit(model)):
            f.zero_grad()
            own = chunk_of(x, given, world, rank).clone().requires_grad_()
            z = f(own)
            (z * chunk_of(weights, output, world, rank)).sum().backward()
            assert_close(z, chunk_of(y.detach(), output, world, rank), msg=lambda m, p=plan: f"{p}: {m}")
            assert_close(own.grad, chunk_of(leaf.grad, given, world, rank), msg=lambda m, p=plan: f"{p}: {m}")
            same_gradients(f, expected)
        assert not thunder.compile_stats(f)["eager_calls"], plan


def resharded_repeatedly(group):
    """gloo's threads free tensors that Python has seen while the next collective starts."""
    for _ in range(50):
        resharded(group)


def chunk_of(x, dim, world, rank):
    """As torch.chunk(), which gives fewer chunks where some would be empty."""
    chunks = x.chunk(world, dim)
    return chunks[rank] if rank < len(chunks) else x.narrow(dim, 0, 0)


def language(group, sequence, checkpointed=False):
    """A transformer with tied embedding and head, whose logits are never gathered."""
    expected = made(Language, checkpointed=checkpointed)
    model = made(Language, seed=group.rank(), checkpointed=checkpointed)
    tp.parallelize(model, mesh_of(group), plan_of_language(sequence))
    assert model.head.weight is model.embedding.weight
    compiled = thunder.jit(model)

    def loss(step):
        t = tokens(step)[0]
        logits = compiled(t)
        return parallel_loss(logits, t)

    @thunder.jit
    def parallel_loss(logits, t):
        return tp.vocabulary_parallel_cross_entropy(logits, t, group, vocabulary=VOCABULARY, ignore_index=3)

    def expected_loss(step):
        t = tokens(step)[0]
        return F.cross_entropy(expected(t).flatten(0, 1), t.flatten(), ignore_index=3)

    same_steps(compiled, expected, loss, expected_loss, 0.05)
    found = collectives(compiled)
    if sequence:
        assert found["forward", "reduce_scatter"] == 3 and found["forward", "all_reduce"] == 0, found
        assert found["forward", "all_gather"] == 3, found
    else:
        assert found["forward", "all_reduce"] == 3 and found["forward", "all_gather"] == 0, found
        assert found["backward", "all_reduce"] >= 3, found
    assert not thunder.compile_stats(compiled)["eager_calls"]
    other = tokens(7, batch=3, length=6)[0]
    with torch.no_grad():  # the optimizers' rounding may differ
        assert_close(compiled(other), expected(other).chunk(group.size(), -1)[group.rank()], rtol=1e-5, atol=1e-5)


def same_order(step, names, world):
    """All processes start the collectives of all groups in one order, though their parts' shapes differ."""
    found = []
    for trace in (thunder.last_traces(step)[-1], thunder.last_backward_traces(step)[-1]):
        for line in str(trace).splitlines():
            start = re.match(r"\s*p\d+ = torch_(\w+)_prim_impl\(\[.*?\], (?:'(?:sum|avg|max)', )?'(.*?)'", line)
            if start:
                found.append((start[1], names.get(start[2], "dp")))
    assert {group for _, group in found} == {"dp", "tp"}, found
    every = [None] * world.size()
    distributed.all_gather_object(every, found, group=world)
    assert all(other == found for other in every), every


def with_data_parallelism(world, strategy):
    """Two processes' data times two processes' parameters, against one process."""
    assert world.size() == 4
    mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
    rank = mesh["dp"].get_local_rank()
    expected, model = made(Language), made(Language)
    tp.parallelize(model, mesh["tp"], plan_of_language(strategy == "ZERO3"))
    if strategy == "ddp":
        ddp(model, process_group=mesh["dp"].get_group())
    else:
        fsdp(model, mesh=mesh["dp"], sharding_strategy=FSDPType[strategy])
    group = mesh["tp"].get_group()

    @thunder.jit
    def step_of(t):
        return tp.vocabulary_parallel_cross_entropy(model(t), t, group, vocabulary=VOCABULARY)

    def expected_loss(step):
        batch = tokens(step, 2).flatten(0, 1)
        return F.cross_entropy(expected(batch).flatten(0, 1), batch.flatten())

    same_steps(model, expected, lambda i: step_of(tokens(i, 2)[rank]), expected_loss, 0.05, factor=2)
    same_order(step_of, {mesh["tp"].get_group().group_name: "tp"}, world)
    full = tp.full_state_dict(model)
    for name, value in expected.state_dict().items():
        assert_close(full[name], value, rtol=1e-6, atol=1e-6)
    other = made(Language, seed=9).state_dict()
    tp.load_full_state_dict(model, other)
    assert_close(tp.full_state_dict(model), dict(other), rtol=0, atol=0)


# ---- PyTorch's plans ------------------------------------------------------------------------------------------------


def as_pytorch(group, sequence):
    """PyTorch's own parallelize_module and ours give the same; a compiled module of PyTorch's stays right."""
    mesh, plan = mesh_of(group), plan_of_language(sequence)
    plan["head"] = ColwiseParallel(input_layouts=Shard(1) if sequence else Replicate(), output_layouts=Replicate())
    torches = parallelize_module(untied(), mesh, dict(plan))
    model = thunder.jit(tp.parallelize(untied(), mesh, plan))
    t = tokens(0)[0]
    results = []
    for f in (torches, thunder.jit(torches), model):
        f.zero_grad()
        y = f(t)
        F.cross_entropy(y.flatten(0, 1), t.flatten()).backward()
        results.append(y.detach())
        for (name, p), q in zip(f.named_parameters(), torches.parameters(), strict=True):
            if f is model:
                assert_close(p.grad, part(whole(q.grad), p), msg=name)
    assert_close(results[1], results[0])
    assert_close(results[2], results[0])


def untied():
    model = made(Language)
    model.head.weight = nn.Parameter(model.head.weight.detach().clone())
    return model


def prepared(group):
    """Layouts of a module's inputs and outputs, positional and by name."""

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x, scale=x)

    class Inner(nn.Module):
        def forward(self, x, scale):
            return x * scale.cumsum(-1)

    model = Outer()
    n = group.size()
    plan = {
        "inner": PrepareModuleInput(
            input_layouts=(Replicate(),), desired_input_layouts=(Shard(0),), use_local_output=True,
            input_kwarg_layouts={"scale": Replicate()}, desired_input_kwarg_layouts={"scale": Shard(0)},
        ),
        "": PrepareModuleOutput(output_layouts=(Shard(0),), desired_output_layouts=(Shard(1),)),
    }
    tp.parallelize(model, group, plan)
    x = torch.randn(2 * n, 3 * n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = []
    for f in (model, thunder.jit(model)):
        leaf = x.clone().requires_grad_()
        y = f(leaf)
        y.square().sum().backward()
        results.append((y.detach(), leaf.grad))
    leaf = x.clone().requires_grad_()
    expected = leaf * leaf.cumsum(-1)
    expected.square().sum().backward()
    for y, g in results:
        assert_close(y, expected.detach().chunk(n, 1)[group.rank()])
        assert_close(g, leaf.grad)


# ---- the loss -------------------------------------------------------------------------------------------------------


def losses(group, every):
    world, rank = group.size(), group.rank()
    generator = torch.Generator().manual_seed(2)
    target = torch.randint(0, VOCABULARY, (3, 5), generator=generator)
    target[1, 2] = target[2] = -100
    values = torch.randn(3, 5, VOCABULARY, dtype=torch.float64, generator=generator) * 30
    cases = [(r, s) for r in ("mean", "sum", "none") for s in (0.0, 0.1, 1.0)] if every else [("mean", 0.1)]
    for reduction, smoothing in cases:
        options = {"reduction": reduction, "label_smoothing": smoothing}

        def parallel(logits, options=options):
            return tp.vocabulary_parallel_cross_entropy(logits, target, group, vocabulary=VOCABULARY, **options)

        full = values.clone().requires_grad_()
        expected = F.cross_entropy(full.flatten(0, 1), target.flatten(), **options)
        weights = torch.linspace(1, 2, expected.numel(), dtype=torch.float64).view_as(expected)
        (expected * weights).sum().backward()
        for f in (parallel, thunder.jit(parallel)):
            leaf = values.chunk(world, -1)[rank].clone().requires_grad_()
            loss = f(leaf)
            assert_close(loss.flatten(), expected.detach().flatten(), check_stride=False)
            (loss.flatten() * weights.flatten()).sum().backward()
            assert_close(leaf.grad, full.grad.chunk(world, -1)[rank])
    with pytest.raises(ValueError, match="were expected for a target"):
        tp.vocabulary_parallel_cross_entropy(values, target, group, vocabulary=VOCABULARY)
    low = values.chunk(world, -1)[rank].bfloat16()
    loss = thunder.jit(lambda x: tp.vocabulary_parallel_cross_entropy(x, target, group, vocabulary=VOCABULARY))(low)
    assert loss.dtype is torch.bfloat16
    want = F.cross_entropy(values.flatten(0, 1).bfloat16().float(), target.flatten()).bfloat16()
    assert_close(loss, want)


# ---- what cannot be done --------------------------------------------------------------------------------------------


def refusals(group):
    def refused(match, error, apply, *args, **options):
        with pytest.raises(error, match=match):
            apply(made(Language), *args, **options)

    refused("no module 'mlp.up'", ValueError, tp.column_parallel, "mlp.up", group)
    refused("a Linear or an Embedding was expected", NotImplementedError, tp.row_parallel, "norm", group)
    refused("no multiple of the unit 5", ValueError, tp.column_parallel, "blocks.0.mlp.up", group, unit=5)
    refused("shared with a module that was sharded", ValueError, tp.row_parallel, "embedding", group)
    refused("use_local_output=False", NotImplementedError, tp.parallelize, group,
            {"head": ColwiseParallel(use_local_output=False)})
    with pytest.raises(TypeError, match="ProcessGroup or a DeviceMesh"):
        tp.copy_to_group(torch.ones(2), "tp")
    with pytest.raises(ValueError, match="tensor parallel column (up|down)"):
        tp.column_parallel(made(Mlp), ["up", "down"][group.rank()], group)
    compiled, x = thunder.jit(made(Mlp)), torch.ones(2, 8, dtype=torch.float64)
    whole = compiled(x)
    tp.row_parallel(tp.column_parallel(compiled, compiled.up, group), "d*", group)
    assert_close(compiled(x), whole)
    wrapped = ddp(made(Mlp), process_group=group)
    with pytest.raises(RuntimeError, match="distributed already"):
        tp.column_parallel(wrapped, "up", group)


def checkpoints(group, directory):
    """Parts are written as DTensors: a checkpoint is read without tensor parallelism, and the other way round."""

    def stepped(model, steps):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        for step in range(steps):
            y = model(tokens(step)[0])
            (y * y).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return optimizer

    plan = {**plan_of_language(False), "head": ColwiseParallel(output_layouts=Replicate())}
    model = tp.parallelize(made(Language), mesh_of(group), plan)
    plain = made(Language)
    state = {"model": model, "optimizer": stepped(model, 2)}
    expected = stepped(plain, 2).state_dict()["state"]
    thunder.distributed.save(state, directory)
    other = made(Language, seed=7)
    read = {"model": other, "optimizer": stepped(other, 0)}
    thunder.distributed.load(read, directory, process_group=group)
    assert_close(dict(other.state_dict()), dict(plain.state_dict()), rtol=1e-6, atol=1e-6)
    assert_close(read["optimizer"].state_dict()["state"], expected, rtol=1e-6, atol=1e-9)
    other = tp.parallelize(made(Language, seed=8), mesh_of(group), plan)
    read = {"model": other, "optimizer": stepped(other, 0)}
    thunder.distributed.load(read, directory)
    for (name, p), q in zip(other.named_parameters(), model.parameters(), strict=True):
        assert torch.equal(p, q), name
        for key, value in state["optimizer"].state[q].items():
            assert torch.equal(read["optimizer"].state[p][key], value), (name, key)
