"""Cases of what litgpt's strategies for Thunder ask of us, and of these strategies themselves."""

import models
import pytest
import torch
from fabric_cases import Reference, fabric_of, launched, step
from training import whole, wrap
from wrapping import check, expected_gradients

import thunder
from thunder.distributed import skip_data_parallel_grad_sync, sync_grads


def compile_data(group, strategy):
    model = thunder.jit(models.make())
    data = thunder.compile_data(model)
    assert data.is_module and data.process_group_for_ddp is None and thunder.compile_stats(model).last_traces is None
    module = data.fn
    data.fn = wrap(module, group, strategy, "BLOCK")
    data.process_group_for_ddp = module.process_group_for_ddp
    assert data.fn is module is model._model and data.process_group_for_ddp is group
    assert getattr(model, "use_ddp" if strategy == "ddp" else "use_fsdp")
    batches = models.tokens(0, group.size())
    models.loss_of(model, batches[group.rank()]).backward()
    check(model, expected_gradients(batches))
    assert "all_reduce" in str(thunder.compile_stats(model).last_backward_traces[-1])
    with pytest.raises(TypeError, match="in place"):
        data.fn = models.make()
    with pytest.raises(RuntimeError, match="process group"):
        data.process_group_for_ddp = None


def reductions_on_request(group, strategy):
    """Gradients kept by some processes alone, reduced without a further backward, beside what `.grad` holds."""
    rank, world = group.rank(), group.size()
    model = thunder.jit(wrap(models.make(), group, strategy, "BLOCK"))
    other = thunder.jit(wrap(models.make(), group, strategy, "BLOCK"))
    first, second = models.tokens(0, world), models.tokens(1, world)
    models.loss_of(model, first[rank]).backward()
    with skip_data_parallel_grad_sync():
        loss = models.loss_of(model, second[rank])  # a forward gathers on all processes
        if rank > 0 or strategy == "ZERO3":
            loss.backward()
        models.loss_of(other, first[rank]).backward()
    if strategy != "ZERO3":
        check(model, expected_gradients(first))
    sync_grads(model)
    sync_grads(other)
    sums = _gradients(first, range(world))
    for name, g in _gradients(second, range(world) if strategy == "ZERO3" else range(1, world)).items():
        sums[name] = sums[name] if g is None else sums[name] + g
    check(model, sums)
    check(other, _gradients(first, range(world)))
    sync_grads(model)  # of nothing
    check(model, sums)


def _gradients(batches, ranks):
    expected = models.make()
    for rank in ranks:
        (models.loss_of(expected, batches[rank]) / len(batches)).backward()
    return {n: p.grad for n, p in expected.named_parameters()}


def strategies(group, strategy, path, kind):
    """litgpt's own, from its repository."""
    import litgpt_import

    litgpt_import.load()
    from extensions.thunder.strategies import ThunderDDPStrategy, ThunderFSDPStrategy

    with launched(group):
        if strategy == "ddp":
            made = ThunderDDPStrategy(executors=("sdpa", "nvfuser", "torch"))
        else:
            made = ThunderFSDPStrategy(sharding_strategy=strategy, bucketing_strategy="BLOCK", state_dict_type=kind)
        fabric = fabric_of(group, made)
        reference = Reference(group.size())
        model = fabric.setup(models.make())
        optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), 1e-2))
        for number in range(2):
            step(fabric, model, optimizer, number)
            reference.step(number)
        reference.check(model)
        fabric.save(path, {"model": model})
        other = fabric.setup(models.make(seed=3))
        made.load_checkpoint(path, {"model": other._forward_module})
        for p, q in zip(other.parameters(), model.parameters(), strict=True):
            assert torch.equal(whole(p), whole(q))
