"""Worker processes for a whole test run, with a gloo group for each size of world.

`Workers.run(world, case, ...)` calls `case(group, ...)` on the first `world` processes and gives their results. A case
that raises on any process raises here, with every process's traceback; one that hangs ends the processes.
"""

import datetime
import importlib
import multiprocessing
import os
import socket
import traceback

MOST = 4


def _work(rank, port, pipe):
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    # Every trace is verified, as in the other tests.
    os.environ["THUNDER_VERIFY"] = "1"
    timeout = datetime.timedelta(seconds=60)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=MOST, timeout=timeout
    )
    groups = {n: distributed.new_group(list(range(n))) for n in range(1, MOST)}
    groups[MOST] = distributed.group.WORLD
    while (task := pipe.recv()) is not None:
        world, module, name, args = task
        try:
            result = getattr(importlib.import_module(module), name)(groups[world], *args)
            pipe.send((True, result))
        except BaseException as e:
            pipe.send((False, (type(e).__name__, str(e), traceback.format_exc())))
    distributed.destroy_process_group()


class Workers:
    def __init__(self):
        self._context = multiprocessing.get_context("spawn")
        self._workers = []

    def _start(self):
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        for rank in range(MOST):
            here, there = self._context.Pipe()
            process = self._context.Process(target=_work, args=(rank, port, there), daemon=True)
            process.start()
            there.close()
            self._workers.append((process, here))

    def outcomes(self, world, case, *args, seconds=40):
        """For each process (True, result) or (False, (exception's class, message, traceback))."""
        if not self._workers:
            self._start()
        used = self._workers[:world]
        for _, pipe in used:
            pipe.send((world, case.__module__, case.__name__, args))
        outcomes = []
        for rank, (_, pipe) in enumerate(used):
            try:
                if not pipe.poll(seconds):
                    raise TimeoutError(f"rank {rank} of {world} hangs in {case.__name__}{args}")
                outcomes.append(pipe.recv())
            except (TimeoutError, EOFError):
                self.stop()
                raise
        return outcomes

    def run(self, world, case, *args, seconds=40):
        outcomes = self.outcomes(world, case, *args, seconds=seconds)
        failed = [f"rank {rank}:\n{what[2]}" for rank, (ok, what) in enumerate(outcomes) if not ok]
        if failed:
            self.stop()  # what the others have left of collectives is not known
            raise AssertionError("\n".join(failed))
        return [result for _, result in outcomes]

    def stop(self):
        for process, pipe in self._workers:
            process.kill()
            pipe.close()
        for process, _ in self._workers:
            process.join()
        self._workers = []
