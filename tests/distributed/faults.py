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
from torch import distributed
from torch.testing import assert_close
from training import whole, wrap

import thunder
from thunder.distributed import save

VICTIM = 1


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


class Run:
    """A wrapped model and its steps."""

    def __init__(self, strategy, **options):
        self.rank, self.world = distributed.get_rank(), distributed.get_world_size()
        self.model = thunder.jit(wrap(models.make(**options), distributed.group.WORLD, strategy, "BLOCK"))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2)

    def step(self, n, before_backward=lambda: None, outside=False):
        batch = models.tokens(n, self.world)[self.rank]
        if outside:
            tell("event")
            batch = batch + models.TOKENS
        out = self.model(batch)
        loss = torch.nn.functional.cross_entropy(out.flatten(0, -2), batch.flatten())
        before_backward()
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
    if run.rank == VICTIM:
        time.sleep(float(seconds))
        tell("event")
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
        tell("raised", kind=type(e).__name__, text=str(e))
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
