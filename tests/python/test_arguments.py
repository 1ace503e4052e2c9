"""Arguments of every kind: eager's result, or eager's type of exception; and a slice of fuzz_arguments.py."""

import fuzz_arguments
import numpy as np
import pytest
import torch
from op_checks import compare

import thunder

F = torch.nn.functional
CASES = 200  # `make fuzz` runs 20,000
X = torch.arange(3.0)

CALLS = {
    "convolution of lists of one": lambda x: torch.convolution(
        x.reshape(1, 1, 1, 3).expand(1, 2, 5, 3), torch.ones(3, 2, 2, 2), None, (1,), (0,), (1,), False, (0,), 1
    ),
    "transposed convolution of lists of one": lambda x: torch.convolution(
        x.reshape(1, 1, 1, 3).expand(1, 2, 5, 3), torch.ones(2, 3, 2, 2), None, (2,), (0,), (1,), True, (1,), 1
    ),
    "convolution of no stride": lambda x: torch.convolution(
        x.reshape(1, 1, 1, 3), torch.ones(1, 1, 1, 1), None, (), (0,), (1,), False, (0,), 1
    ),
    "convolution of numbers": lambda x: torch.convolution(x.sum(), x.sum(), None, (1,), (0,), (1,), False, (0,), 1),
    "tensor of strings": lambda x: torch.tensor(["a"]),
    "sizes that are floats": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 1, 3), (1.5, 2)),
    "amax over None": lambda x: torch.amax(x, dim=None),
    "type": lambda x: x.type(),
    "type of a dtype": lambda x: x.type(torch.int64),
    "type of a name": lambda x: x.type("torch.DoubleTensor"),
    "full of a tensor": lambda x: torch.full((2, 3), torch.tensor(1.5)),
    "full of what the program computes": lambda x: torch.full((2, 3), x.sum()),
    "full_like of an int64": lambda x: torch.full_like(x, (x > 1).sum()),
    "an int for a list of ints": lambda x: torch.full(3, 1.5),
    "an int for a list of strides": lambda x: torch.convolution(
        x.reshape(1, 1, 1, 3), torch.ones(1, 1, 1, 1), None, 1, (0,), (1,), False, (0,), 1
    ),
    "an int for a list of dims": lambda x: x.reshape(1, 3).sum(0),
    "a list of one for two sizes": lambda x: F.adaptive_avg_pool2d(x.reshape(1, 1, 3), [2]),
    "NumPy's bool as a number": lambda x: (
        torch.full((2,), np.bool_(True)), x.long() + np.bool_(True), torch.tensor(np.bool_(True)), x.clamp(np.bool_(1))
    ),
    "NumPy's bool as a flag": lambda x: x.sum(0, keepdim=np.bool_(True)),
    "ranges of bools": lambda x: (torch.arange(True), torch.arange(False, 3), torch.arange(0, 5, True), x),
    "sym_min": lambda x: (torch.sym_min(2, 3), torch.sym_max(2.0, 3)),
    "a bool for a dtype": lambda x: x.sum(dtype=True),
    "a number for keepdim": lambda x: x.sum(dim=0, keepdim=100),
    "a layout for a number": lambda x: x.clamp(torch.strided),
    "bytes for a list": lambda x: F.conv1d(x.reshape(1, 1, 3), torch.ones(1, 1, 1), dilation=b"a"),
    "a tensor for alpha": lambda x: torch.add(x, x, alpha=torch.tensor(2)),
}


def outcome(fn, x):
    try:
        return fn(x), None
    except Exception as e:
        return None, e


@pytest.mark.parametrize("options", [{}, {"cache": "symbolic values"}], ids=["constant", "symbolic"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls(call, options):
    expected, error = outcome(call, X)
    actual, ours = outcome(thunder.jit(call, **options), X)
    assert type(ours) is type(error), f"eager: {error!r}, compiled: {ours!r}"
    if error is None:
        compare(actual, expected)


def test_symbolic_sizes_in_sym_min():
    f = thunder.jit(lambda x: x[: torch.sym_min(x.shape[0], 4)] * 2, cache="symbolic values")
    for n in (3, 5, 7, 2):
        x = torch.randn(n)
        torch.testing.assert_close(f(x), x[:4] * 2)


def test_random_arguments():
    findings = fuzz_arguments.in_process(0, CASES)
    assert not findings, "\n".join(f"seed {seed}: {text}" for seed, text in findings)


def test_a_case_that_ends_the_process_is_a_finding(monkeypatch):
    monkeypatch.setattr(fuzz_arguments, "_CHILD", fuzz_arguments._CHILD.replace(
        "import fuzz_arguments\n", "import os, fuzz_arguments\nfuzz_arguments.difference = lambda case: os._exit(3)\n"))
    found = fuzz_arguments.in_process(0, 4)
    assert len({seed for seed, _ in found}) > 1 and all("the process ended with 3" in text for _, text in found)
