"""Cases of checkpoints, which run on each process."""

import models
import pytest
import torch
from training import whole, wrap

import thunder
from thunder.distributed import (
    StateDictOptions,
    get_model_state_dict,
    has_fsdp_modules,
    load,
    load_model_state_dict,
    save,
)

DATA = 4  # batches of a step, which every world shares out


def start(group, strategy, seed=0):
    module = models.make(seed)
    if group is not None:
        options = {"broadcast_from": None} if strategy == "ddp" else {}
        module = wrap(module, group, strategy, "BLOCK", **options)
    model = thunder.jit(module)
    return model, torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)


def train(model, optimizer, steps, group):
    rank, world = (group.rank(), group.size()) if group is not None else (0, 1)
    for step in steps:
        data = models.tokens(step, DATA)
        mine = data[rank::world] if rank < DATA % world or DATA % world == 0 else data[rank : rank + 1]
        models.loss_of(model, mine.flatten(0, 1)).backward()
        optimizer.step()
        optimizer.zero_grad()


def snapshot(model, optimizer):
    """Whole tensors: parameters by name, and the optimizer's state by parameter and field."""
    out = {name: whole(t).clone() for name, t in model.state_dict().items()}
    for number, fields in optimizer.state_dict()["state"].items():
        out.update({f"{number}.{field}": whole(t).clone() for field, t in fields.items()})
    return out


def assert_same(a, b):
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    for name, t in a.items():
        assert torch.equal(t, b[name]), name


def write(group, strategy, path):
    """Two steps, a checkpoint, and what is in it."""
    model, optimizer = start(group, strategy)
    train(model, optimizer, range(2), group)
    before = snapshot(model, optimizer)
    save({"model": model, "optimizer": optimizer, "step": 2, "rates": {"first": [0.5, "a"]}}, path)
    assert_same(snapshot(model, optimizer), before)
    return before


def read(group, strategy, path, written):
    """On another number of processes: the same state, and training goes on from it."""
    model, optimizer = start(group, strategy, seed=7)
    places = [getattr(p, "_local_tensor", p).data_ptr() for p in model.parameters()]
    state = {"model": model, "optimizer": optimizer, "step": 0, "rates": {"first": [0.0, ""]}}
    load(state, path, process_group=group)
    assert state["step"] == 2 and state["rates"] == {"first": [0.5, "a"]}
    assert [getattr(p, "_local_tensor", p).data_ptr() for p in model.parameters()] == places
    assert_same(snapshot(model, optimizer), written)
    train(model, optimizer, range(2, 4), group)


def resume(group, strategy, path):
    """Bits of a run with a checkpoint in the middle, loaded into a model that has trained, against one without."""
    model, optimizer = start(group, strategy)
    train(model, optimizer, range(2), group)
    save({"model": model, "optimizer": optimizer}, path, process_group=group)
    train(model, optimizer, range(2, 4), group)
    expected = snapshot(model, optimizer)
    again, fresh = start(group, strategy, seed=7)
    train(again, fresh, range(5, 6), group)  # programs that were compiled before the load see what it wrote
    load({"model": again, "optimizer": fresh}, path, process_group=group)
    train(again, fresh, range(2, 4), group)
    assert_same(snapshot(again, fresh), expected)


def by_state_dicts(group, strategy, path):
    """Through get_model_state_dict alone."""
    model, optimizer = start(group, strategy)
    train(model, optimizer, range(1), group)
    expected = snapshot(model, optimizer)
    save({"model": get_model_state_dict(model, StateDictOptions(), group.rank())}, path, process_group=group)
    train(model, optimizer, range(1, 2), group)
    state = {"model": get_model_state_dict(model, StateDictOptions(), group.rank())}
    load(state, path, process_group=group)
    load_model_state_dict(state["model"], model, StateDictOptions(), group.rank())
    for name, t in model.state_dict().items():
        assert torch.equal(whole(t), expected[name]), name


def whole_tensors(group, strategy, rank0_only, cpu_offload):
    """A full state dict is that of one process, and a process's loads into a wrapped model."""
    rank = group.rank()
    options = StateDictOptions(full_state_dict=True, cpu_offload=cpu_offload, rank0_only=rank0_only)
    model, _ = start(group, strategy)
    expected = models.make()
    state = get_model_state_dict(model, options, rank)
    if rank0_only and rank > 0:
        assert state == {}
    else:
        assert_same(state, expected.state_dict())
        assert not any(type(t) is not torch.Tensor for t in state.values())
        assert state["head.weight"] is state["embedding.weight"]
        expected.load_state_dict(state)

    other = models.make(seed=3)
    given = other.state_dict() if rank == 0 or not rank0_only else {}
    load_model_state_dict(given, model, options, rank)
    for name, t in model.state_dict().items():
        assert torch.equal(whole(t), other.state_dict()[name]), name
    models.loss_of(model, models.tokens(0, group.size())[rank]).backward()


def wrong_state_dicts(group, strategy):
    """What does not fit is refused on every process."""
    rank = group.rank()
    model, _ = start(group, strategy)
    options = StateDictOptions(full_state_dict=True, rank0_only=True)
    for change, text in (
        (lambda s: s.pop("blocks.0.first.bias"), "Missing key.*blocks.0.first.bias"),
        (lambda s: s.update(other=torch.ones(2)), "Unexpected key.*other"),
        (lambda s: s.update(single=torch.ones(2, 8)), "size mismatch for single"),
    ):
        state = models.make().state_dict()
        change(state)
        for o in (StateDictOptions(), options):
            with pytest.raises(RuntimeError, match=text):
                load_model_state_dict(state if rank == 0 or o is not options else {}, model, o, rank)


def kinds(group, strategy):
    module = models.make()
    assert not has_fsdp_modules(module)
    wrap(module, group, strategy, "BLOCK")
    for m in (module, thunder.jit(module), torch.nn.Sequential(module), torch.nn.Sequential(thunder.jit(module))):
        assert has_fsdp_modules(m) == (strategy != "ddp")


def overwrite(group, strategy, path):
    """A save that one process leaves by an exception does not harm the checkpoint before it."""
    model, optimizer = start(group, strategy)
    save({"model": model}, path)
    expected = snapshot(model, optimizer)
    train(model, optimizer, range(1), group)
    bad = {"model": model, "bad": (lambda: 0) if group.rank() == group.size() - 1 else 0}
    with pytest.raises(BaseException, match="pickle"):  # PyTorch's CheckpointException is no Exception
        save(bad, path)
    again, fresh = start(group, strategy, seed=7)
    load({"model": again}, path)
    assert_same(snapshot(again, fresh), expected)
    save({"model": model, "step": 1}, path)
    state = {"model": again, "step": 0}
    load(state, path)
    assert state["step"] == 1
    assert torch.equal(whole(again.single), whole(model.single))
