"""cuDNN's attention kernels are compiled in threads when a program is made: what else happens then is as it was."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import thunder

pytestmark = pytest.mark.gpu

PROGRAM = """
import torch
import torch.nn.functional as F
import thunder

make = lambda: torch.randn(2, 8, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
q, k, v = make(), make(), make()
state = torch.cuda.get_rng_state()
f = thunder.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
y = f(q, k, v)
# The gradient's kernel is being compiled now.
graph, x = torch.cuda.CUDAGraph(), torch.ones(4, device="cuda")
with torch.cuda.graph(graph):
    z = x * 2
graph.replay()
assert z.tolist() == [2, 2, 2, 2]
assert torch.equal(state, torch.cuda.get_rng_state())
assert "cudnn" in str(thunder.last_traces(f)[-1])
print("done")
"""


def test_a_capture_and_the_end_of_the_process_meanwhile():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_memory_of_a_large_batch():
    """Sequences before batches, as nn.MultiheadAttention has them: a batch of one lies within all of the memory."""

    def make():
        return torch.randn(512, 96, 8, 64, device="cuda", dtype=torch.bfloat16).permute(1, 2, 0, 3).requires_grad_()

    q, k, v = make(), make(), make()
    compiled = thunder.jit(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))

    def peak():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        compiled(q, k, v).sum().backward()
        torch.cuda.synchronize()
        q.grad = k.grad = v.grad = None
        return torch.cuda.max_memory_allocated() - before

    first = peak()
    assert "cudnn" in str(thunder.last_traces(compiled)[-1])
    assert first <= peak() + (64 << 20)
