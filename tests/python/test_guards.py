"""What a compiled module assumes about the world is checked on every call."""

import subprocess
import sys
from pathlib import Path

import torch
from devices import DEVICE

import thunder


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.scale = 2.0

    def forward(self, x):
        return self.inner(x) * self.scale


def agree(compiled, model, x):
    torch.testing.assert_close(compiled(x), model(x))


def test_many_writes_between_two_calls():
    model = Scaled()
    compiled = thunder.jit(model)
    x = torch.randn(2, 3)
    for scale in (2.0, 3.0, 2.0, 2.0, 5.0):
        model.scale = -1.0
        model.scale = scale
        agree(compiled, model, x)
    assert thunder.cache_misses(compiled) == 3


def test_a_write_that_changes_nothing_is_a_hit():
    model = Scaled()
    compiled = thunder.jit(model)
    x = torch.randn(2, 3)
    compiled(x)
    model.scale = float("2.0")
    model.inner.weight = model.inner.weight
    compiled(x)
    assert thunder.cache_misses(compiled) == 1


def test_two_compiled_functions_watch_one_module():
    model = Scaled()
    first, second = thunder.jit(model), thunder.jit(model)
    x = torch.randn(2, 3)
    first(x), second(x)
    del first
    model.scale = 4.0
    agree(second, model, x)
    third = thunder.jit(model)
    agree(third, model, x)
    model.inner.register_forward_hook(lambda module, args, out: out + 1)
    agree(second, model, x)
    agree(third, model, x)


def test_swapped_tensors():
    model = Scaled()
    compiled = thunder.jit(model)
    x = torch.randn(2, 3)
    with torch.no_grad():
        agree(compiled, model, x)
        torch.utils.swap_tensors(model.inner.weight, torch.nn.Parameter(torch.randn(3, 3)))
        agree(compiled, model, x)
        torch.utils.swap_tensors(model.inner.weight, torch.nn.Parameter(torch.randn(3, 3, dtype=torch.float64)))
        torch.utils.swap_tensors(model.inner.bias, torch.nn.Parameter(torch.randn(3, dtype=torch.float64)))
        agree(compiled, model, x.double())


def test_metadata_of_a_parameter_changes_in_place():
    model = Scaled()
    compiled = thunder.jit(model)
    x = torch.randn(2, 3)
    agree(compiled, model, x)
    model.inner.weight.requires_grad_(False)
    assert [p.grad is None for p in run_backward(compiled, model, x)] == [True, False]
    model.inner.weight.data = torch.randn(5, 3)
    model.inner.bias.data = torch.randn(5)
    agree(compiled, model, x)
    model.double()
    agree(compiled, model, x.double())


def run_backward(compiled, model, x):
    compiled(x).sum().backward()
    return [model.inner.weight, model.inner.bias]


AT_EXIT = """
import sys
sys.path.insert(0, {folder!r})
import torch, thunder
from graph_checks import graphed

net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).to({device!r})
compiled, recorded = thunder.jit(net), graphed(net)
for f in (compiled, recorded):
    for _ in range(3):
        loss = f(torch.randn(3, 8, device={device!r})).sum()
        loss.backward()
"""


def test_functions_that_live_to_the_end_of_the_process():
    """The interpreter empties the dicts that are watched when the functions that watch them are gone."""
    text = AT_EXIT.format(folder=str(Path(__file__).parent), device=DEVICE)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
