#!/usr/bin/env python3
"""Runs one program with a freshly built extension: the last step of a build.

    python tools/try_build.py EXTENSION COMPILER

A toolchain that does not fit PyTorch's shows here, with the reason, and not as a crash of the user's first program.
"""

import importlib
import os
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def program(extension):
    import torch

    # This checkout's package with this extension, whatever is installed.
    sys.path.insert(0, str(ROOT))
    sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__module__.startswith("_editable")]
    spec = importlib.util.spec_from_file_location("thunder._C", extension)
    sys.modules["thunder._C"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["thunder._C"])
    import thunder

    torch.set_num_threads(1)
    for f in (lambda a: a + 1, lambda a: (a * 3).sin() * a.exp() + a.sum(-1, keepdim=True)):
        a = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        results, gradients = [], []
        for g in (f, thunder.jit(f)):
            results.append(g(a))
            gradients += torch.autograd.grad(results[-1].pow(2).sum(), a)
        torch.testing.assert_close(*results)
        torch.testing.assert_close(*gradients)


def main():
    extension, compiler = sys.argv[1:3]
    if sys.argv[3:] == ["here"]:
        return program(extension)
    environment = {**os.environ, "THUNDER_CACHE_SIZE": "0", "OMP_NUM_THREADS": "1"}
    environment.setdefault("CXX", compiler)
    command = [sys.executable, __file__, extension, compiler, "here"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.stderr.strip():
        print(done.stderr.strip()[-4000:], file=sys.stderr)
    if done.returncode == 0:
        return 0
    if done.returncode < 0:
        how = f"it ended by {signal.Signals(-done.returncode).name}"
    else:
        how = "it failed, see above"
    sys.exit(
        f"\nThe extension was built by {compiler}, but one program with it does not run: {how}.\n"
        "The compiler may not fit the C++ library that PyTorch uses. Build with the distribution's own compiler "
        "(CXX=g++), from an empty build folder."
    )


if __name__ == "__main__":
    sys.exit(main())
