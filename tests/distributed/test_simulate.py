"""Steps of worlds that are not here, simulated by one process without a process group."""

import pytest
import torch
from torch import distributed
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

import thunder
from thunder import _C
from thunder.distributed import FSDPBucketingStrategy, simulate

WIDTH, LAYERS, VOCABULARY, BATCH, LENGTH = 256, 4, 1000, 2, 128


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, 64)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.h = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.table(tokens) + torch.arange(tokens.shape[1], device=tokens.device)[:, None].to(torch.bfloat16) / 1e3
        for block in self.h:
            x = block(x)
        return self.head(x)


def made(device="meta"):
    with torch.device(device):
        return Model().bfloat16(), torch.zeros(BATCH, LENGTH, dtype=torch.long)


def loss(logits):
    return logits.float().logsumexp(-1).mean()


def simulated(model, tokens, **settings):
    """In buckets of a block: automatic ones take all of so small a model together."""
    return simulate(model, (tokens,), loss=loss, bucketing_strategy=FSDPBucketingStrategy.BLOCK, **settings)


@pytest.fixture(scope="module")
def results():
    model, tokens = made()
    return {
        (strategy, world): simulated(model, tokens, world=world, strategy=strategy)
        for strategy in ("ddp", "zero2", "zero3")
        for world in (8, 4096)
    } | {(None, 1): simulated(model, tokens, world=1, strategy=None)}


def parameters():
    return sum(p.nbytes for p in made()[0].parameters())


def test_there_is_no_process_group(results):
    assert not distributed.is_initialized()
    assert all(not hasattr(made()[0], "_thunder_plan") for _ in results)


def test_alone(results):
    s = results[None, 1]
    assert s.waits == [] and s.communicators == {} and s.exposed == s.slowed == 0
    assert s.step == s.compute > 0
    # Parameters, tokens, and what was computed from them.
    assert s.inputs == parameters() + BATCH * LENGTH * 8
    assert s.peak > 2 * parameters()  # their gradients


@pytest.mark.parametrize("world", [8, 4096])
def test_what_is_communicated(results, world):
    zero3, zero2, ddp = (results[s, world] for s in ("zero3", "zero2", "ddp"))

    def kinds(s):
        return {(w.collective, w.backward) for w in s.waits}

    used = ("all_reduce", True)
    assert kinds(zero3) == {("all_gather", False), ("all_gather", True), ("reduce_scatter", True), used}
    assert kinds(zero2) == {("all_gather", False), ("reduce_scatter", True), used}
    assert kinds(ddp) == {used}
    gathered = sum(w.bytes for w in zero2.waits if w.collective == "all_gather")
    # Rows are padded to as many on each process.
    assert parameters() <= gathered and (world > 8 or gathered < 1.01 * parameters())
    if world == 8:  # without padding to so many processes the kernels are almost the same
        assert zero3.compute == pytest.approx(results[None, 1].compute, rel=0.1)


def test_larger_worlds_take_longer_and_hold_less(results):
    for strategy in ("ddp", "zero2", "zero3"):
        assert results[strategy, 4096].exposed > results[strategy, 8].exposed
    assert results["zero3", 8].inputs < results["ddp", 8].inputs / 7
    assert results["zero3", 4096].inputs < results["zero3", 8].inputs


def test_shards_in_several_copies(results):
    """They are gathered within a node, and hold as much as those of a world of one node."""
    model, tokens = made()
    hybrid = simulated(model, tokens, world=64, copies=8, strategy="zero3")
    whole = simulated(model, tokens, world=64, strategy="zero3")
    node = results["zero3", 8]
    assert hybrid.inputs == node.inputs and hybrid.peak == node.peak > whole.peak
    assert hybrid.communicators["simulated"] == node.communicators["simulated"] < whole.communicators["simulated"]
    assert hybrid.communicators["simulated.replicas"] > 0


def test_sums(results):
    for s in results.values():
        assert s.step == pytest.approx(s.compute + s.slowed + s.exposed)
        assert s.exposed == pytest.approx(sum(w.exposed for w in s.waits))
        assert max(bytes for _, bytes in s.memory) == s.peak
        assert all(s.step >= seconds for seconds in s.communicators.values())


def test_programs_are_those_of_the_device(results):
    forward, backward = results["zero3", 4096].traces
    assert "cuda:0" in str(forward) and "meta" not in str(forward) + str(backward)
    names = [c.name for c in forward.calls]
    assert any("cudnn" in n for n in names) and any(n.startswith("fusion") for n in names)
    assert "4096" in next(str(c) for c in forward.calls if "all_gather" in c.name)


def test_the_report(results):
    lines = str(results["zero3", 4096]).splitlines()
    assert lines[0].startswith("step ") and any(line.startswith("memory: inputs ") for line in lines)
    assert any("all_gather of h.0.norm.weight" in line or "all_gather of table.weight" in line for line in lines)
    assert [line for line in lines if line.startswith("note: ")]


def test_the_model_may_be_anywhere_and_stays_as_it_is(results):
    model, tokens = made("cpu")
    before = {name: (p, p.clone()) for name, p in model.named_parameters()}
    s = simulated(model, tokens, world=8)
    assert s.step == pytest.approx(results["zero3", 8].step) and s.peak == results["zero3", 8].peak
    assert all(p is before[n][0] and p.equal(before[n][1]) for n, p in model.named_parameters())
    # It can still be run, and simulated as a compiled module.
    jitted = thunder.jit(model)
    jitted(tokens).sum().backward()
    assert simulated(jitted, tokens, world=8).step == s.step
    by_aten = thunder.jit(model, executors=["aten"])
    unfused = simulated(by_aten, tokens, world=8)
    assert unfused.compute > s.compute and not any("fusion" in c.name for c in unfused.traces[0].calls)
    # Executors that are given, also none, take the place of the compiled module's.
    assert simulated(by_aten, tokens, world=8, executors=thunder.get_default_executors()).step == s.step
    assert simulated(jitted, tokens, world=8, executors=[]).step == unfused.step


def test_cost_tables(tmp_path, results):
    model, tokens = made()
    free = "fabric nvlink * alpha=0us bandwidth=1000000TB/s\ncontention 0\n"
    path = tmp_path / "free.txt"
    path.write_text(free)
    for fabric in (free, str(path)):
        s = simulate(model, (tokens,), world=8, loss=loss, fabric=fabric)
        assert s.step == pytest.approx(s.compute) and s.compute == pytest.approx(results["zero3", 8].compute)
    slow = simulate(model, (tokens,), world=8, loss=loss, node=2)
    assert slow.step > results["zero3", 8].step


def test_a_whole_table(tmp_path):
    model, tokens = made()
    # Without a line for communication, and then with one.
    text = "device mine 9.0 91700\nmemory 1TB/s\nlaunch 1us\npeak product bf16 100TFLOP/s\npeak product f32 10TFLOP/s\n"
    path = tmp_path / "mine.costs"
    path.write_text(text + "node 4 links\nfabric links * alpha=1us bandwidth=100GB/s\nspread 0.1\n")
    alone = simulate(model, (tokens,), world=1, strategy=None, loss=loss, device=text)
    s = simulate(model, (tokens,), world=4, loss=loss, device=str(path))
    assert alone.spread == 0 and s.spread == pytest.approx(0.1 * (s.compute + s.slowed))
    assert s.step == pytest.approx(s.compute + s.slowed + s.exposed + s.spread)
    with pytest.raises(ValueError, match="no line 'node ...', and the program communicates"):
        simulate(model, (tokens,), world=4, loss=loss, device=text)
    with pytest.raises(ValueError, match="have 4 processes and no fabric between them, and the program is for 8"):
        simulate(model, (tokens,), world=8, loss=loss, device=str(path))
    # The table's own fabric, with fewer processes on a node.
    more = "fabric wire * alpha=9us bandwidth=1GB/s\n"
    path.write_text(path.read_text() + more + "node 4 links wire\n")
    near, far = (simulate(model, (tokens,), world=4, node=n, loss=loss, device=str(path)) for n in (4, 2))
    assert near.step == pytest.approx(s.step) and far.step > near.step


def test_buckets():
    model, tokens = made()
    strategies = thunder.distributed.FSDPBucketingStrategy
    counts = {
        s: len(simulate(model, (tokens,), world=8, loss=loss, bucketing_strategy=s).waits)
        for s in (strategies.NONE, strategies.BLOCK, strategies.AUTO)
    }
    assert counts[strategies.NONE] > counts[strategies.BLOCK] > counts[strategies.AUTO]
    many = simulate(model, (tokens,), world=8, strategy="ddp", loss=loss, bucket_size_in_mb=0.5)
    assert len(many.waits) > 2


def test_without_a_loss_and_without_gradients():
    model, tokens = made()
    assert len(simulate(model, (tokens,), world=8).traces) == 2
    with torch.no_grad():
        s = simulate(model, (), {"tokens": tokens}, world=8)
    assert len(s.traces) == 1 and {w.collective for w in s.waits} == {"all_gather"}


def test_errors():
    model, tokens = made()
    for options, message in [
        ({"device": "a100"}, "there is no cost table for 'a100'; there are 'h100', 'h200', and a table of your own"),
        ({"strategy": "zero1"}, "unknown strategy 'zero1'; there are 'ddp', 'zero2', 'zero3', None"),
        ({"world": 0}, "a world of at least one process was expected, got 0"),
        ({"copies": 3}, "3 copies of shards do not fit the strategy zero3 and world=16"),
        ({"copies": 2, "strategy": "ddp"}, "2 copies of shards do not fit the strategy ddp and world=16"),
        ({"fabric": "nvlink+"}, "fabric='nvlink[+]' is neither a file, nor lines of a cost table, nor names"),
        ({"fabric": "ethernet+infiniband"}, "no line 'fabric ethernet all_gather ...'"),
        ({"fabric": "launch 3us\nlaunch 3\n"}, r"\[cost table\] line \d+: expected a time such as 2ns"),
        ({"fabric": "launch 3us\n", "node": 8}, "node=8 was given beside a cost table"),
    ]:
        with pytest.raises(ValueError, match=message):
            simulate(model, (tokens,), **{"world": 16, **options})
    with pytest.raises(TypeError, match="args is a tuple"):
        simulate(model, tokens, world=8)
    # A failure leaves nothing behind.
    assert simulate(model, (tokens,), world=8).step > 0


class Small(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)
        self.register_buffer("ones", torch.ones(64))
        self.function = forward

    def forward(self, x):
        return self.function(self, x)


def flow(self, x):
    return self.linear(x) if x.sum().item() > 0 else x


def lengths(self, x):
    return self.linear(x[x.sum(1) > 0])


@pytest.mark.parametrize(
    "forward, message", [(flow, "depends on the values"), (lengths, "known only when the program runs")]
)
def test_values_are_not_known(forward, message):
    model = Small(forward)
    before = list(model.parameters())
    with pytest.raises(NotImplementedError, match=message):
        simulate(model, (torch.ones(4, 64),), world=8)
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))


def autocast(self, x):
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return self.linear(x) * self.ones


def places(self, x):
    made = torch.zeros(64, device=self.linear.weight.device) + torch.ones(64, device=x.device)
    return self.linear(x) + made if self.linear.weight.is_cuda and x.is_cuda else None


def test_the_program_sees_the_device():
    s = simulate(Small(autocast), (torch.ones(4, 64),), world=8)
    products = [line for line in s.traces[0].python().splitlines() if "linear(" in line]
    assert len(products) == 1 and '"cuda:0 bf16[4, 64]' in products[0]
    assert len(simulate(Small(places), (torch.ones(4, 64),), world=8).traces) == 2


class Storages(TorchDispatchMode):
    """The most bytes of tensors that were there at a time, behind each operator that runs."""

    def __init__(self, tensors):
        super().__init__()
        self.alive, self.peak = {}, 0
        self._add(tensors)

    def _add(self, values):
        for t in torch.utils._pytree.tree_leaves(values):
            if isinstance(t, torch.Tensor):
                storage = t.untyped_storage()
                self.alive.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        self.peak = max(self.peak, self.bytes())

    def bytes(self):
        self.alive = {k: v for k, v in self.alive.items() if not v[0].expired()}
        return sum(n for _, n in self.alive.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.bytes()  # the place of a storage that is gone may be that of the next
        result = func(*args, **(kwargs or {}))
        self._add(result)
        return result


def convolutions():
    m = torch.nn
    layers = m.Conv2d(3, 16, 3), m.BatchNorm2d(16), m.ReLU(), m.MaxPool2d(2), m.Conv2d(16, 8, 3), m.Flatten()
    return m.Sequential(*layers, m.Linear(8 * 13 * 13, 10)), torch.randn(4, 3, 32, 32)


@pytest.mark.parametrize("make", [lambda: made("cpu"), convolutions], ids=["transformer", "convolutions"])
def test_memory_is_what_a_run_takes(make):
    model, x = make()

    def program(x):
        return loss(model(x))

    # Fused kernels on the CPU write into their operands, which those of a GPU do not.
    step = thunder.jit(program, executors=["sdpa", "aten"])
    step(x).backward()
    traces = thunder.last_traces(step)[-1], thunder.last_backward_traces(step)[-1]
    s = _C.simulate(*traces, _C.CostTable.built_in("h200"))
    for p in model.parameters():
        p.grad = None
    _C.set_ignores_watchers(True)  # else a mode sees eager
    try:
        with Storages([*model.parameters(), *model.buffers(), x]) as storages:
            step(x).backward()
    finally:
        _C.set_ignores_watchers(False)
    assert storages.peak == pytest.approx(s.peak, rel=1e-3)
    assert storages.bytes() == pytest.approx(s.memory[-1][1], rel=1e-3)
