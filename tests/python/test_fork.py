"""Processes that are forked while kernels are compiled in the background, and while compiled functions run."""

import os
import shutil
import stat
import subprocess
import sys
import textwrap

import pytest

SETUP = """
    import copy, gc, multiprocessing, os, sys, threading, time
    import torch, thunder
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 8), nn.Softmax(-1))
    f = thunder.jit(model)
    x = torch.randn(4, 8)

    def result(m, y=None):
        m.zero_grad()
        y = m(x) if y is None else y
        y.pow(2).sum().backward()
        return [y.detach().clone()] + [p.grad.clone() for p in m.parameters()]

    want = result(model)

    def check(m=f, y=None):
        for a, b in zip(want, result(m, y), strict=True):
            torch.testing.assert_close(a, b)

    check()  # A module that another thread imports at a fork can never be imported in the child, whoever forks.

    def child(body):
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            body()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)

    def end(pid):
        assert os.waitpid(pid, 0)[1] == 0
"""

# After SETUP; the compiler takes half a second, so what follows a first call meets it at work.
PROGRAMS = {
    "backward": """
        y = f(x)
        end(child(lambda: check(y=y)))
        check(y=y)
    """,
    "call": """
        y = f(x)
        end(child(check))
        check()
    """,
    "a function of the same kernels": """
        y = f(x)
        end(child(lambda: check(thunder.jit(model))))
        check()
    """,
    "a new function": """
        y = f(x)
        def other():
            a = torch.randn(50)
            torch.testing.assert_close(thunder.jit(lambda a: a.sin() * a.cos() + 1)(a), a.sin() * a.cos() + 1)
        end(child(other))
        check()
    """,
    "exit": """
        y = f(x)
        pid = os.fork()
        if pid == 0:
            sys.exit()
        end(pid)
        check()
    """,
    "deleting": """
        y = f(x)
        def delete():
            global f, y
            del f, y
            gc.collect()
        end(child(delete))
        check()
    """,
    "before the first wait": """
        thread = threading.Thread(target=check)
        thread.start()
        time.sleep(0.2)
        for _ in range(3):
            end(child(lambda: check(thunder.jit(model))))
            time.sleep(0.1)
        thread.join()
    """,
    "many, and theirs": """
        y = f(x)
        pids = []
        for i in range(6):
            pids.append(child(lambda: check() if i % 3 else end(child(check))))
            time.sleep(0.1)
        check()
        for pid in pids:
            end(pid)
    """,
    "during backward in another thread": """
        def train():
            for _ in range(60):
                check(thunder.jit(model))
        failed = []
        def run():
            try:
                train()
            except Exception as e:
                failed.append(e)
        os.environ["CXX"] = os.environ["FAST_CXX"]
        thread = threading.Thread(target=run)
        thread.start()
        other = copy.deepcopy(model)
        def in_child():
            y = thunder.jit(other)(x)
            torch.testing.assert_close(y, want[0])
            y.sum().backward()
        while thread.is_alive():
            end(child(in_child))
        thread.join()
        assert not failed, failed
    """,
    "multiprocessing": """
        y = f(x)
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=check) for _ in range(2)]
        for p in processes:
            p.start()
        with context.Pool(2) as pool:
            pool.map(check, [f, model])
        for p in processes:
            p.join()
            assert p.exitcode == 0
        check()
    """,
    "subprocess": """
        import subprocess
        y = f(x)
        # By fork and by vfork.
        for options in [dict(preexec_fn=lambda: None), {}]:
            assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, **options).stdout == b"1\\n"
        check()
    """,
    "workers of a DataLoader": """
        from torch.utils.data import DataLoader
        scale = thunder.jit(lambda a: (a * 3 + 1).tanh())
        class Numbers(torch.utils.data.Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, i):
                return scale(torch.full((8,), float(i)))
        first = scale(torch.ones(8))
        y = f(x)
        for workers in [2, 1, 2]:
            batches = list(DataLoader(Numbers(), batch_size=4, num_workers=workers))
            torch.testing.assert_close(torch.cat(batches)[:, 0], (torch.arange(12.0) * 3 + 1).tanh())
            check()
    """,
}


@pytest.fixture(scope="module")
def slow_compiler(tmp_path_factory):
    found = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
    assert found, "a compiler is what was built with"
    script = tmp_path_factory.mktemp("compiler") / "slow"
    script.write_text(f'#!/bin/sh\ncase "$*" in *--version*) ;; *) sleep 0.5;; esac\nexec {found} "$@"\n')
    script.chmod(stat.S_IRWXU)
    return found, str(script)


def finish(arguments, tmp_path, slow_compiler):
    fast, slow = slow_compiler
    # With a GPU PyTorch's autograd starts threads, and refuses to run in a forked child.
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "CXX": slow, "FAST_CXX": fast}
    env["THUNDER_CACHE_DIR"] = str(tmp_path / "cache")
    done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.mark.parametrize("what", PROGRAMS)
def test_forks_while_kernels_are_compiled(what, tmp_path, slow_compiler):
    finish(["-c", textwrap.dedent(SETUP) + textwrap.dedent(PROGRAMS[what])], tmp_path, slow_compiler)


RECORDING = """
    import threading
    from graph_checks import Recorder, automatic

    class Slow(Recorder):
        def record(self, *arguments):
            recording.set()
            assert forked.wait(60)
            return super().record(*arguments)

    recording, forked = threading.Event(), threading.Event()
    graphed = automatic(lambda x: torch.sin(x) * 2, Slow())

    def fork():
        recording.wait()
        pids.append(child(lambda: torch.testing.assert_close(graphed(x), torch.sin(x) * 2)))
        forked.set()

    pids = []
    thread = threading.Thread(target=fork)
    thread.start()
    for _ in range(8):
        graphed(x)
    thread.join()
    end(pids[0])
"""


def test_a_child_does_not_wait_for_a_recording_of_its_parent(tmp_path, slow_compiler, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    finish(["-c", textwrap.dedent(SETUP) + textwrap.dedent(RECORDING)], tmp_path, slow_compiler)


SPAWNING = """
    import multiprocessing
    import torch, thunder

    torch.manual_seed(0)
    f = thunder.jit(torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.GELU()))
    x = torch.ones(4, 8)

    def check(module, want):
        torch.testing.assert_close(module(x), want)

    if __name__ == "__main__":
        want = f(x)
        process = multiprocessing.get_context("spawn").Process(target=check, args=(f, want.detach()))
        process.start()
        process.join()
        assert process.exitcode == 0
        want.sum().backward()
"""


def test_a_spawned_process_gets_a_compiled_module(tmp_path, slow_compiler):
    script = tmp_path / "program.py"  # spawned processes import the file of the program
    script.write_text(textwrap.dedent(SPAWNING))
    finish([str(script)], tmp_path, slow_compiler)
