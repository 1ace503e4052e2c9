"""Cases of processes with different numbers of batches: against one process that has all the data."""

import time

import models
import pytest
import torch
from torch import nn
from torch.distributed.algorithms.join import Join, Joinable
from torch.testing import assert_close
from training import whole, wrap

import thunder
from thunder.distributed import clip_grad_norm_, no_sync

OPTIMIZERS = {"SGD": (torch.optim.SGD, 0.1), "AdamW": (torch.optim.AdamW, 1e-2)}


def batch_of(rank, i, world, shapes=False):
    """A process's batch; `shapes`: later batches are of shapes that nobody has compiled."""
    return models.tokens(i, world, batch=1 + i % 3 if shapes else 2, length=3 + i if shapes else 4)[rank]


class Run:
    """A model, its reference, and an optimizer for each."""

    def __init__(self, group, strategy, optimizer="SGD", with_step=True, **options):
        self.group, self.world, self.rank = group, group.size(), group.rank()
        self.model, self.expected = thunder.jit(wrap(models.make(), group, strategy, "BLOCK")), models.make()
        kind, rate = OPTIMIZERS[optimizer]
        self.optimizer, self.reference = (kind(m.parameters(), rate) for m in (self.model, self.expected))
        self.options = {**options, "step": self.step} if with_step else options
        self.steps = 0

    def step(self):
        if self.options.get("step"):
            clip_grad_norm_(self.model, 0.5)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1

    def epoch(self, counts, shapes=False, micro=1):
        """As users write it; all but each `micro`-th batch within no_sync()."""
        with self.model.join(**self.options):
            for i in range(counts[self.rank] * micro):
                batch = batch_of(self.rank, i, self.world, shapes)
                if (i + 1) % micro:
                    with no_sync(self.model):
                        models.loss_of(self.model, batch).backward()
                else:
                    models.loss_of(self.model, batch).backward()
                    self.step()
        for i in range(max(counts)):
            self.step_of_reference([r for r in range(self.world) if counts[r] > i], i, shapes, micro)

    def step_of_reference(self, here, i, shapes=False, micro=1):
        """With the batches of the processes that have some."""
        number = self.world if self.options.get("divide_by_initial_world_size", True) else len(here)
        for r in here:
            for k in range(i * micro, i * micro + micro):
                (models.loss_of(self.expected, batch_of(r, k, self.world, shapes)) / number).backward()
        if self.options.get("step"):
            nn.utils.clip_grad_norm_(self.expected.parameters(), 0.5)
        self.reference.step()
        self.reference.zero_grad()

    def check(self):
        for (name, p), q in zip(self.model.named_parameters(), self.expected.parameters(), strict=True):
            assert_close(whole(p.detach()), q.detach(), rtol=1e-6, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}")

    def step_alike(self):
        """A step outside of a context, of all processes."""
        models.loss_of(self.model, batch_of(self.rank, 0, self.world)).backward()
        for r in range(self.world):
            (models.loss_of(self.expected, batch_of(r, 0, self.world)) / self.world).backward()
        for o in (self.optimizer, self.reference):
            o.step()
            o.zero_grad()


def steps(group, strategy, counts, optimizer="SGD", with_step=True, by_world=True, shapes=False, micro=1):
    """An epoch, and a step in which all processes have data again."""
    run = Run(group, strategy, optimizer, with_step, divide_by_initial_world_size=by_world)
    run.epoch(counts, shapes, micro)
    run.check()
    assert run.steps == (max(counts) if with_step else counts[run.rank])
    if with_step or optimizer == "SGD":
        run.step_alike()
        run.check()


def epochs(group, strategy):
    """Contexts one after the other; who has most data changes, and one has nothing to do."""
    run = Run(group, strategy, "AdamW")
    for counts in ([0, 3, 1, 0], [2, 2, 2, 2], [3, 0, 0, 4], [0, 0, 0, 0]):
        run.epoch(counts[: run.world])
        run.check()
    with run.model.join(enable=False):
        run.step_alike()
    run.check()
    assert isinstance(run.model, Joinable) and type(run.model) is thunder.module.ThunderModule


def other_calls(group, strategy):
    """Evaluation within the context, first of all, and by a context that PyTorch's class makes."""
    run = Run(group, strategy)
    with Join([run.model], step=run.step):
        for i in range(3 if run.rank == 1 else 0):
            with torch.no_grad():
                assert_close(run.model(batch_of(0, 0, run.world)), run.expected(batch_of(0, 0, run.world)))
            models.loss_of(run.model, batch_of(1, i, run.world)).backward()
            run.step()
            run.step_of_reference([1], i)
    for i in range(3 if run.rank != 1 else 0):
        run.step_of_reference([1], i)
    run.check()
    run.step_alike()
    run.check()


def terminations(group, strategy):
    """All processes raise once one has no more data, and go on."""
    run = Run(group, strategy, with_step=False, throw_on_early_termination=True)
    text = "exhausted all inputs" if run.rank == 0 else "Detected at least one rank that exhausted inputs"
    done = 0
    with pytest.raises(RuntimeError, match=text), run.model.join(**run.options):
        for i in range(1 + run.rank):
            models.loss_of(run.model, batch_of(run.rank, i, run.world)).backward()
            done += 1
    assert done == 1
    run.optimizer.zero_grad()
    run.step_alike()
    run.check()


def exceptions(group, strategy):
    """What all processes raise within a context leaves it."""
    run = Run(group, strategy)
    with pytest.raises(KeyError), run.model.join(**run.options):
        models.loss_of(run.model, batch_of(run.rank, 0, run.world)).backward()
        raise KeyError
    run.optimizer.zero_grad()
    run.step_alike()
    run.epoch([1, 2, 0, 1][: run.world])
    run.check()


def failures(group, strategy):
    """What one process raises reaches those that wait for it."""
    run = Run(group, strategy)
    if run.rank == 0:
        with pytest.raises(RuntimeError, match="rank 1 failed: KeyError"), run.model.join(**run.options):
            pass
        return
    with pytest.raises(KeyError), run.model.join(**run.options):
        models.loss_of(run.model, batch_of(1, 0, run.world)).backward()
        run.step()
        raise KeyError
    thunder._C.post_failure("KeyError")  # as at the end of a process


def calls_of_two_kinds(group, strategy):
    run = Run(group, strategy)
    with pytest.raises(RuntimeError, match="some do so with gradients"), run.model.join(**run.options):
        if run.rank < 2:
            with torch.set_grad_enabled(run.rank == 0):
                run.model(batch_of(0, 0, run.world))
    run.epoch([1, 2, 0])  # nothing had started
    run.check()


def functions_around(group, strategy):
    """Programs of a function tell the others nothing, compiled before the context or in it."""
    for before in (True, False):
        run = Run(group, strategy)

        @thunder.jit
        def loss_of(batch, run=run):
            return models.loss_of(run.model, batch)

        if before:
            loss_of(batch_of(0, 0, run.world)).backward()
        with pytest.raises(NotImplementedError, match="do not know of this call"), run.model.join(**run.options):
            loss_of(batch_of(0, 0, run.world))
        run.optimizer.zero_grad()
        run.step_alike()
        run.check()


def joined_within_no_sync(group, strategy):
    """What a process has kept when its data ends is not lost."""
    run = Run(group, strategy)
    with run.model.join(**run.options):
        with no_sync(run.model):
            models.loss_of(run.model, batch_of(run.rank, 0, run.world)).backward()
        if run.rank == 1:
            models.loss_of(run.model, batch_of(1, 1, run.world)).backward()
            run.step()
    (models.loss_of(run.expected, batch_of(0, 0, run.world)) / run.world).backward()
    for i in range(2):
        (models.loss_of(run.expected, batch_of(1, i, run.world)) / run.world).backward()
    run.step_of_reference([], 0)
    run.check()


def collectives_in(fn):
    """What a call starts: kinds, shapes and dtypes, in order."""
    with torch.profiler.profile(record_shapes=True) as profile:
        fn()
    return [(e.name, e.input_shapes) for e in profile.events() if e.name.startswith("c10d::")]


def shadows_are_alike(group, strategy):
    model = thunder.jit(wrap(models.make(), group, strategy, "BLOCK"))
    check_shadow(model, batch_of(0, 0, group.size()))


def a_late_rank(group, strategy):
    """The last rank's shards are waited for by one rank, and that one by a rank of the other copy: nobody differs."""
    model = thunder.jit(wrap(models.make(), group, strategy, "BLOCK"))
    for step in range(2):
        if step and group.rank() == group.size() - 1:
            time.sleep(4)  # longer than the watch's patience
        model(batch_of(0, 0, group.size())).sum().backward()


def check_shadow(model, batch):
    """A shadow step starts what a program starts."""
    plan = model._original._thunder_plan.plan

    def step():
        model(batch).sum().backward()

    step()  # compiles
    there = collectives_in(step)
    assert len(there) > 1
    assert collectives_in(lambda: plan.shadow(True, True, True)) == there
    with torch.no_grad():
        model(batch)
        there = collectives_in(lambda: model(batch))
    assert collectives_in(lambda: plan.shadow(False, False, True)) == there


def mixed_precision(group, strategy):
    """A process without data gives what one with a loss of zero gives, in the plan's dtypes."""
    gradients, options = [], {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    for joins in (False, True):
        module = models.make(dtype=torch.float32)
        module.shift.data = module.shift.bfloat16()
        model = thunder.jit(wrap(module, group, strategy, "BLOCK", **options))

        def step(model=model):
            gradients.append([p.grad if p.grad is None else whole(p.grad) for p in model.parameters()])

        has_data = group.rank() > 0
        with model.join(step=step) if joins else torch.enable_grad():
            if has_data or not joins:
                (models.loss_of(model, batch_of(group.rank(), 0, group.size())) * has_data).backward()
                step()
    for p, q in zip(*gradients, strict=True):
        assert (p is None) == (q is None) and (p is None or torch.equal(p, q))


def backwards(group, strategy):
    """A call without its backward is noticed before others wait for it."""
    run = Run(group, strategy)
    with pytest.raises(RuntimeError, match="0 backwards followed a call"), run.model.join(**run.options):
        run.model(batch_of(0, 0, run.world))
        run.model(batch_of(0, 0, run.world))


def refusals(group, strategy):
    run = Run(group, strategy)
    if strategy != "ddp":
        with pytest.raises(NotImplementedError, match=r"needs join\(step=...\)"):
            run.model.join()
        with pytest.raises(NotImplementedError, match=r"or replicate the module by ddp"):
            Join([run.model])
        run.model.join(enable=False)
    with pytest.raises(RuntimeError, match="wrap it with"):
        thunder.jit(nn.Linear(2, 2)).join()
    with pytest.raises(RuntimeError, match="no parameter with a gradient"):
        thunder.jit(wrap(nn.Linear(2, 2).requires_grad_(False), group, strategy, "AUTO")).join()

    class Joins(nn.Linear):
        def join(self, words, separator=" "):
            return separator.join(words)

    assert thunder.jit(Joins(2, 2)).join(["its", "own"]) == "its own"
