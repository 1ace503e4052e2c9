"""Processes that fail. This program imports PyTorch and forks one process for each rank of each case, which goes on as
a program that torchrun starts: an exception that nobody catches ends it.

A line of standard input is a task: {"seconds": DEADLINE, "processes": [[ARGUMENTS, STDOUT, STDERR], ...]}; the answer
is a list of exit codes, null for a process that did not end. What happens in a process is printed, a line of JSON each
with the time, of a clock that all processes share.
"""

import datetime
import json
import os
import signal
import sys
import time

import models
import torch
import torch.distributed._functional_collectives as functional
from torch import distributed, nn
from torch.testing import assert_close
from training import whole, wrap

import thunder
from thunder.distributed import (
    StateDictOptions,
    clip_grad_norm_,
    get_model_state_dict,
    load,
    no_sync,
    save,
    sync_grads,
)
from thunder.distributed import tensor_parallel as tp

VICTIM = 1
armed = {}  # what happens at a point of this process's programs, by its name
doing = ""  # "forward", "backward": what this process is at


def tell(what, **fields):
    print(json.dumps({"what": what, "at": time.monotonic(), **fields}), flush=True)


def kill():
    tell("event")
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    tell("event")
    raise ValueError("the file of shard 7 is gone")


def fail_alone():
    """As an exception does in multiprocessing, which does not call sys.excepthook."""
    tell("event")
    sys.stdout.flush()
    os._exit(1)


EVENTS = {"kill": kill, "fail": fail, "fail_alone": fail_alone}


def begin(what):
    global doing
    doing = what


@torch.library.custom_op("faults::point", mutates_args=())
def point(x: torch.Tensor, place: str) -> torch.Tensor:
    """A place in a program, and in its backward, where a process may fail."""
    if place in armed:
        time.sleep(0.3)  # until what was started before is done: the others wait for what this process never starts
        armed[place]()
    return x.clone()


@point.register_fake
def _(x, place):
    return torch.empty_like(x)


def _keep_place(ctx, inputs, output):
    ctx.place = inputs[1]


point.register_autograd(lambda ctx, g: (point(g, f"{ctx.place}, backward"), None), setup_context=_keep_place)


class WithPoints(models.Model):
    """The model with places between its blocks."""

    def forward(self, tokens):
        x = point(self.embedding(tokens) * self.frozen + self.shift, "before block 0")
        for i, block in enumerate(self.blocks, 1):
            x = point(block(x), f"before block {i}")
        return self.head(x * self.single) * self.scale


class Run:
    """A wrapped model and its steps."""

    def __init__(self, strategy, kind=models.Model, wrapping=None, **options):
        self.rank, self.world = distributed.get_rank(), distributed.get_world_size()
        module = models.make(kind=kind, **options)
        self.model = thunder.jit(wrap(module, distributed.group.WORLD, strategy, "BLOCK", **wrapping or {}))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2)

    def step(self, n, before_backward=lambda: None, outside=False):
        batch = models.tokens(n, self.world)[self.rank]
        if outside:
            tell("event")
            batch = batch + models.TOKENS
        begin("forward")
        out = self.model(batch)
        loss = torch.nn.functional.cross_entropy(out.flatten(0, -2), batch.flatten())
        before_backward()
        begin("backward")
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def compare(self, steps):
        expected = models.make()
        optimizer = torch.optim.AdamW(expected.parameters(), 1e-2)
        for n in range(steps):
            for batch in models.tokens(n, self.world):
                (models.loss_of(expected, batch) / self.world).backward()
            optimizer.step()
            optimizer.zero_grad()
        for p, q in zip(self.model.parameters(), expected.parameters(), strict=True):
            assert_close(whole(p.detach()), q.detach(), rtol=1e-6, atol=1e-6)


def at_a_step(strategy, event, place, victim=str(VICTIM), path=None):
    """Two steps, after which nothing is compiled any more; in the third one rank fails."""
    run = Run(strategy)
    run.step(0)
    run.step(1)
    if path is not None:
        save({"model": run.model, "step": 2}, path)
    failing = run.rank == int(victim)
    if failing and place == "between steps":
        EVENTS[event]()
    if failing and place == "in the program":
        run.step(2, outside=True)
    run.step(2, EVENTS[event] if failing and place == "before the backward" else lambda: None)
    run.step(3)


def at_a_collective(strategy, event, place, in_flight):
    """In the third step one process fails at a place of its program."""
    wrapping = {} if strategy == "ddp" else {"in_flight_mb": float(in_flight)}
    run = Run(strategy, WithPoints, wrapping)
    run.step(0)
    run.step(1)
    if run.rank == VICTIM:
        armed[place] = EVENTS[event]
    run.step(2)
    run.step(3)


COLLECTIVES = {
    "all_reduce": lambda x, group: functional.all_reduce(x, "sum", group),
    "all_gather": lambda x, group: functional.all_gather_tensor_autograd(x, 0, group),
    "reduce_scatter": lambda x, group: functional.reduce_scatter_tensor_autograd(x, "sum", 0, group),
    "broadcast": lambda x, group: functional.broadcast(x, 0, group),
    "all_to_all": lambda x, group: functional.all_to_all_single(x, None, None, group),
}


def in_a_function(collective, event):
    """A compiled function communicates by itself."""
    group = distributed.group.WORLD
    f = thunder.jit(lambda x: COLLECTIVES[collective](point(x.exp(), "before"), group).sin())
    x = torch.arange(12.0).view(6, 2)
    f(x)
    f(x)
    if distributed.get_rank() == VICTIM:
        armed["before"] = EVENTS[event]
    begin("forward")
    f(x)
    f(x)


class Parallel(nn.Module):
    """Two layers that lie on all processes, behind one that each has whole."""

    def __init__(self):
        super().__init__()
        self.first, self.up, self.down = nn.Linear(6, 6), nn.Linear(6, 9), nn.Linear(9, 6)
        tp.column_parallel(self, "up", distributed.group.WORLD)
        tp.row_parallel(self, "down", distributed.group.WORLD)

    def forward(self, x):
        x = point(self.first(x).relu(), "before the layers")
        return point(self.down(self.up(x).relu()), "behind the layers")


def in_parallel_layers(event, place):
    model = thunder.jit(Parallel())
    for n in range(4):
        if n == 2 and distributed.get_rank() == VICTIM:
            armed[place] = EVENTS[event]
        begin("forward")
        loss = model(torch.ones(4, 6)).square().mean()
        begin("backward")
        loss.backward()


def at_an_agreement(strategy, event, place):
    """One process does not come to where all agree."""
    first, again = place == "first wrapping", place == "second wrapping"
    if again:
        Run(strategy).step(0)
    run = None if first or again else Run(strategy)
    # The first process's order of collectives is what the others compile by.
    if distributed.get_rank() == (VICTIM if run is None else 0):
        time.sleep(0.3)
        EVENTS[event]()
    begin(place)
    if run is None:
        run = Run(strategy)
    run.step(0)


def at_a_call(call, event, path):
    """One process does not come to a call that communicates outside of programs."""
    run = Run("ZERO2")
    save({"model": run.model}, path)
    with no_sync(run.model):
        models.loss_of(run.model, models.tokens(0, run.world)[run.rank]).backward()
    if run.rank == VICTIM:
        time.sleep(0.3)
        EVENTS[event]()
    begin(call)
    if call == "clip_grad_norm_":
        clip_grad_norm_(run.model, 1.0)
    elif call == "sync_grads":
        sync_grads(run.model)
    elif call == "load":
        load({"model": run.model}, path)
    else:
        get_model_state_dict(run.model, StateDictOptions(full_state_dict=True))


class Shallow(models.Model):
    """The model, of which a call may leave out the last block."""

    def forward(self, tokens, layers=2):
        x = self.embedding(tokens) * self.frozen + self.shift
        for block in self.blocks[:layers]:
            x = block(x)
        return self.head(x * self.single) * self.scale


def other_program(strategy, difference):
    """One process's program is another one of the same model: what it communicates is the same."""

    def loss_of(model, n, rank):
        other = rank == VICTIM and n > 0
        batch = models.tokens(n, world, length=7 if other and difference == "shape" else 4)[rank]
        out = model(batch, 1 if other and difference == "layers" else 2)
        return nn.functional.cross_entropy(out.flatten(0, -2), batch.flatten())

    rank, world = distributed.get_rank(), distributed.get_world_size()
    expected = models.make(kind=Shallow)
    model = thunder.jit(wrap(models.make(kind=Shallow), distributed.group.WORLD, strategy, "BLOCK"))
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2) for m in (model, expected)]
    for n in range(4):
        loss_of(model, n, rank).backward()
        for r in range(world):
            (loss_of(expected, n, r) / world).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for p, q in zip(model.parameters(), expected.parameters(), strict=True):
        assert_close(whole(p.detach()), q.detach(), rtol=1e-6, atol=1e-6)
    assert thunder.compile_stats(model)["cache_misses"] == (2 if rank == VICTIM else 1)
    tell("finished")


def evaluated_by_one(strategy):
    """One process calls the model once more than the others do, who go on to communicate gradients."""
    run = Run(strategy)
    run.step(0)
    tell("event")
    if run.rank == VICTIM:
        with torch.no_grad():
            run.model(models.tokens(0, run.world)[run.rank])
    run.step(1)
    run.step(2)
    run.compare(3)
    tell("finished")


def other_function(difference):
    """One process communicates in another way."""
    group = distributed.group.WORLD

    def f(x, other):
        if other and difference == "kind":
            return functional.all_gather_tensor(x, 0, group)[:6]
        if other and difference == "size":
            x = torch.cat([x, x])
        y = functional.all_reduce(x, "sum", group)
        return y if other and difference == "fewer" else functional.all_reduce(y.sin()[:2], "sum", group)

    f = thunder.jit(f)
    x = torch.arange(12.0).view(6, 2)
    f(x, False)
    tell("event")
    for _ in range(3):
        f(x, distributed.get_rank() == VICTIM)
    tell("finished")


def at_a_checkpoint(strategy, event, path):
    """One process does not come to the second checkpoint."""
    run = Run(strategy)
    run.step(0)
    run.step(1)
    save({"model": run.model, "step": 2}, path)
    run.step(2)
    if run.rank == VICTIM:
        time.sleep(0.3)
        EVENTS[event]()
    begin("save")
    save({"model": run.model, "step": 3}, path)


def other_model(strategy, difference):
    """One rank wraps another model, or wraps it in another way."""
    different = distributed.get_rank() == VICTIM
    tell("event")
    options = {"width": {"width": 9}, "dtype": {"dtype": torch.float32}}.get(difference, {}) if different else {}
    Run({"strategy": "ZERO2"}.get(difference, strategy) if different else strategy, **options)


def missing(strategy):
    """One rank lives and never wraps its model."""
    tell("event")
    if distributed.get_rank() == VICTIM:
        time.sleep(8)
        tell("finished")
        return
    Run(strategy)


def late(strategy, seconds):
    """One rank comes to its second step late."""
    run = Run(strategy)
    run.step(0)
    tell("event")
    if run.rank == VICTIM:
        time.sleep(float(seconds))
    run.step(1)
    run.compare(2)
    tell("finished")


def destroyed(strategy, steps):
    """The process group ends after some steps."""
    run = Run(strategy)
    for n in range(int(steps)):
        run.step(n)
    distributed.barrier()
    distributed.destroy_process_group()
    tell("event")
    run.step(5)
    tell("finished")


def never_initialised(strategy):
    if distributed.is_initialized():
        distributed.destroy_process_group()
    tell("event")
    wrap(models.make(), None, strategy, "BLOCK")


def main(rank, world, port, seconds, case, *args):
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=float(seconds))
    # As under torchrun, no rank hosts the store.
    store = distributed.TCPStore("localhost", int(port), None, False, timeout)
    distributed.init_process_group("gloo", store=store, rank=int(rank), world_size=int(world), timeout=timeout)
    try:
        globals()[case](*args)
    except Exception as e:
        tell("raised", kind=type(e).__name__, text=str(e), doing=doing)
        raise  # uncaught, as in a program that knows of no faults


def exit_codes(processes, seconds):
    """None for those that do not end in time, which are killed."""
    codes, end = {}, time.monotonic() + seconds
    while len(codes) < len(processes) and time.monotonic() < end:
        for process in processes:
            ended, status = os.waitpid(process, os.WNOHANG) if process not in codes else (0, 0)
            if ended:
                codes[process] = os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    for process in processes:
        if process not in codes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    return [codes.get(p) for p in processes]


def arguments_of_a_process():
    """Serves tasks; returns in the processes alone."""
    for line in sys.stdin:
        task, processes = json.loads(line), []
        for arguments, *outputs in task["processes"]:
            process = os.fork()
            if process == 0:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                for number, path in enumerate(outputs, 1):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), number)
                return arguments
            processes.append(process)
        print(json.dumps(exit_codes(processes, task["seconds"])), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main(*arguments_of_a_process())
