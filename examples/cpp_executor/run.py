#!/usr/bin/env python3
"""Builds the executor of this folder, loads it, and trains a step with it.

python examples/cpp_executor/run.py [BUILD_FOLDER]
"""

import pathlib
import subprocess
import sys
import tempfile

import torch

import thunder
import thunder.executors

HERE = pathlib.Path(__file__).resolve().parent


def build(folder):
    """The library. CMake of pip serves as well as the system's."""
    cmake = [sys.executable, "-m", "cmake"]
    subprocess.run([*cmake, "-S", HERE, "-B", folder, f"-DPython_EXECUTABLE={sys.executable}"], check=True)
    subprocess.run([*cmake, "--build", folder], check=True)
    return pathlib.Path(folder) / "libfused_loss.so"


def loss_of(logits, target):
    return torch.nn.functional.cross_entropy(logits * 0.5, target)


def main(folder):
    executor = thunder.executors.load(build(folder))
    print("loaded:", executor.name, executor.version)
    print("default list:", ", ".join(e.name for e in thunder.get_default_executors()))

    step = thunder.jit(loss_of, executors=["fused_loss", "fuser"])
    logits = torch.randn(512, 32000, requires_grad=True)
    target = torch.randint(0, 32000, (512,))
    loss = step(logits, target)
    loss.backward()
    print(thunder.last_traces(step)[-1])
    print(thunder.last_backward_traces(step)[-1])

    expected = loss_of(logits, target)
    (gradient,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(logits.grad, gradient)
    print("The loss and its gradient are those of PyTorch.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
