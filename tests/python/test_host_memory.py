"""Memory on the CPU that programs give back is kept for their next run."""

import gc
import os
import subprocess
import sys
import threading

import pytest
import torch

import thunder

N = 1 << 16  # elements: a quarter of a megabyte


def stats():
    return thunder._C.host_cache_stats()


@pytest.fixture(autouse=True)
def nothing_kept():
    """And nothing of other tests' that goes meanwhile."""
    gc.collect()
    gc.disable()
    thunder.empty_cache()
    yield
    gc.enable()
    thunder.empty_cache()


def chain():
    """Results of an operator and of a fused kernel, and an intermediate between them."""
    return thunder.jit(lambda x: torch.cumsum(torch.sin(x) * 2 + x, 0).exp().neg())


def test_the_next_run_reuses_what_the_last_one_gave_back():
    f, x = chain(), torch.rand(N) - 1
    f(x)
    before = stats()
    for _ in range(5):
        f(x)
    after = stats()
    assert after["made"] == before["made"] and after["reused"] > before["reused"]
    assert after["live"] == before["live"]


def test_results_outlive_the_program_and_are_not_written_to():
    f, x = chain(), torch.rand(N) - 1
    results = [f(x + i) for i in range(4)]
    copies = [r.clone() for r in results]
    for i in range(4):
        f(x - i)
    for r, c in zip(results, copies, strict=True):
        assert torch.equal(r, c)
    assert len({r.data_ptr() for r in results}) == 4
    del f
    last = results.pop()
    results.clear()
    assert torch.equal(last, copies[-1])


def test_empty_cache_gives_all_that_is_kept_back():
    f, x = chain(), torch.rand(N) - 1
    f(x)
    f(x)
    assert stats()["cached"] > 0
    live = stats()["live"]
    thunder.empty_cache()
    assert stats()["cached"] == 0 and stats()["live"] == live


def test_memory_is_aligned_to_64_bytes():
    f = thunder.jit(lambda x: torch.cumsum(x, 0) * 2)
    for n in (N, N + 1, N + 3, N + 16):
        for _ in range(3):
            assert f(torch.rand(n)).data_ptr() % 64 == 0


def test_tensors_made_outside_of_programs_are_not_taken_from_it():
    f, x = chain(), torch.rand(N) - 1
    f(x)
    before = stats()
    kept = [torch.empty(N) for _ in range(4)]
    assert stats() == before
    del kept
    assert stats() == before


def test_storage_can_be_resized_shared_and_given_to_numpy():
    y = chain()(torch.rand(N) - 1)
    expected = y.clone()
    assert (y.numpy() == expected.numpy()).all()
    y.share_memory_()
    assert y.is_shared() and torch.equal(y, expected)
    z = chain()(torch.rand(N) - 1)
    expected = z.clone()
    z.resize_(2 * N)
    assert torch.equal(z[:N], expected)
    z.untyped_storage().resize_(0)
    assert z.untyped_storage().nbytes() == 0


def test_gradients_and_saved_tensors():
    def f(x, w):
        return torch.nn.functional.gelu(x @ w).sum()

    g = thunder.jit(f)
    x, w = torch.randn(256, 256), torch.randn(256, 256, requires_grad=True)
    expected = torch.autograd.grad(f(x, w), w)[0]
    kept = []
    for _ in range(4):
        pending = [g(x, w) for _ in range(3)]  # the saved tensors of several steps are alive at once
        for loss in reversed(pending):
            kept.append(torch.autograd.grad(loss, w)[0])
    for gradient in kept:
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-3)


def test_threads_run_and_free_each_others_results():
    f, x = chain(), torch.rand(N) - 1
    expected, wrong, results = f(x).clone(), [], []

    def work():
        for _ in range(20):
            y = f(x)
            if not torch.equal(y, expected):
                wrong.append(y)
            results.append(y)
            if len(results) > 5:
                results.pop(0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and all(torch.equal(y, expected) for y in results)


def in_a_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


SETUP = """
import os, torch, thunder
f = thunder.jit(lambda x: torch.cumsum(torch.sin(x) * 2 + x, 0).exp())
x = torch.rand(1 << 16) - 1
y = f(x); f(x)
stats = thunder._C.host_cache_stats
"""


def test_a_forked_child_keeps_nothing_and_can_run():
    code = (
        SETUP
        + """
child = os.fork()
if child == 0:
    torch.set_num_threads(1)  # as PyTorch's data loaders do: GNU's OpenMP waits for threads that a child does not have
    empty = stats()["cached"] == 0
    os._exit(0 if empty and torch.equal(f(x), y) and torch.equal(f(x), y) else 1)
print(os.waitpid(child, 0)[1], stats()["cached"] > 0, torch.equal(f(x), y))
"""
    )
    assert in_a_process(code) == ["0", "True", "True"]


def test_it_can_be_turned_off():
    code = SETUP + "\nthunder.empty_cache(); print(stats()['cached'], stats()['made'], torch.equal(f(x), y))"
    assert in_a_process(code, THUNDER_HOST_CACHE="0") == ["0", "0", "True"]


def test_the_profiler_sees_tensors_come_and_go():
    f, x = chain(), torch.rand(N) - 1
    f(x)
    with torch.profiler.profile(profile_memory=True) as p:
        y = f(x)
    sizes = [e.self_cpu_memory_usage for e in p.events() if e.self_cpu_memory_usage]
    assert sum(sizes) == y.nbytes
