"""Cases of checkpoints of tensor parallel models whose parameters are sharded by rows, too."""

import pytest
import torch
from checkpoints import assert_same
from dtensor_models import Model, grid, plan_of, sharded
from dtensors import mesh_of
from tensor_parallel import made, tokens
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional as F
from torch.testing import assert_close

import thunder
from thunder.distributed import FSDPType, StateDictOptions, fsdp, load, save
from thunder.distributed import tensor_parallel as tp

FULL = StateDictOptions(full_state_dict=True)


def start(group, way, seed=0):
    """By "ours 2x2": who made it parallel, and over how many processes of data and of layers; None: one process."""
    if group is None:
        model = thunder.jit(made(Model, seed))
        return model, torch.optim.AdamW(model.parameters(), 1e-2)
    whose, _, sizes = way.partition(" ")
    data, layers = map(int, sizes.split("x"))
    mesh = {"tp": mesh_of(group)} if data == 1 else grid(data, layers)
    torch.manual_seed(seed)
    if whose == "ours":
        module = tp.parallelize(Model().double(), mesh["tp"], plan_of(True))
        if data > 1:
            module = fsdp(module, mesh=mesh["dp"], sharding_strategy=FSDPType.ZERO3)
    else:
        module = parallelize_module(Model().double(), mesh["tp"], plan_of(True))
        if data > 1:
            module = sharded(module, mesh["dp"])
    model = thunder.jit(module)
    return model, torch.optim.AdamW(model.parameters(), 1e-2)


def train(model, optimizer, steps):
    """All processes on the same data."""
    for step in steps:
        batch = tokens(step)[0]
        F.cross_entropy(model(batch).flatten(0, 1), batch.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def snapshot(model, optimizer):
    """Whole tensors: parameters by name, and the optimizer's state by number and field."""
    out = {n: t.clone() for n, t in thunder.distributed.get_model_state_dict(model, FULL).items()}
    for number, fields in thunder.distributed.get_optimizer_state_dict(optimizer, FULL)["state"].items():
        out |= {f"{number}.{field}": t.clone() for field, t in fields.items()}
    return out


def write(group, way, path):
    model, optimizer = start(group, way)
    train(model, optimizer, range(2))
    save({"model": model, "optimizer": optimizer}, path)
    written = snapshot(model, optimizer)
    stored = FileSystemReader(path).read_metadata().state_dict_metadata
    for name, t in made(Model).state_dict().items():
        assert stored[f"model.{name}"].size == t.shape
    return written


def read(group, way, path, written):
    """The same bits on other processes, in the same memory, and training goes on."""
    model, optimizer = start(group, way, seed=1)
    if group is not None:
        train(model, optimizer, range(1))  # programs that were compiled before see what is loaded
    places = [getattr(p, "_local_tensor", p).data_ptr() for p in model.parameters()]
    state = {"model": model, "optimizer": optimizer}
    load(state, path)
    assert [getattr(p, "_local_tensor", p).data_ptr() for p in model.parameters()] == places
    assert_same(snapshot(model, optimizer), written)
    if group is None:
        return
    expected, reference = start(None, None)
    load({"model": expected, "optimizer": reference}, path, process_group=group)
    for m, o in ((model, optimizer), (expected, reference)):
        train(m, o, range(2, 3))
    assert_close(snapshot(model, optimizer), snapshot(expected, reference), rtol=1e-6, atol=1e-8)


def groups(group):
    """Groups do not say how they lie to each other, which whole tensors need not know."""
    mesh, expected = grid(2, 2), made(Model)
    model = tp.column_parallel(made(Model), "blocks.*.mlp.up", mesh["tp"].get_group())
    fsdp(model, process_group=mesh["dp"].get_group())
    with pytest.raises(NotImplementedError, match=r"dimensions of one mesh.*use full_state_dict"):
        thunder.distributed.get_model_state_dict(model)
    assert_same(tp.full_state_dict(model), expected.state_dict())
