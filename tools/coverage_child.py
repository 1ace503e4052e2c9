"""Runs entries of PyTorch's databases against eager, a request and an answer a line; tools/coverage.py starts it."""

import json
import os
import pathlib
import re
import sys
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "python")]

import torch  # noqa: E402
from op_checks import (  # noqa: E402
    EagerFails,
    check_error,
    check_forward,
    check_gradient,
    check_module,
    dtypes_of,
    gradient_dtype,
    is_generic,
    module_db,
    module_inputs,
    module_name,
    name_of,
    op_db,
    samples,
    training_modes,
    why_no_gradient,
)

DEFAULT = ("default",)  # the other mode is the suite's: twice as many kernels to compile


def reason(error):
    """The first line that says something, without what differs from run to run."""
    if isinstance(error, RecursionError):
        return "RecursionError"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    text = " ".join(lines[:3]) if lines[0].startswith("Tensor-likes") else lines[0]
    text = re.sub(r"0x[0-9a-f]+", "0x...", text)
    kind = type(error).__name__
    return (text if kind == "AssertionError" else f"{kind}: {text}")[:300]


def forward(op, device, most):
    for dtype in dtypes_of(op, device):
        for sample in samples(op, device, dtype, most):
            yield str(dtype)[6:], lambda sample=sample: check_forward(op, sample, DEFAULT)


def gradient(op, device, most):
    dtype = gradient_dtype(op, device)
    if dtype is not None:
        for sample in samples(op, device, dtype, most, requires_grad=True):
            yield str(dtype)[6:], lambda sample=sample: check_gradient(op, sample, DEFAULT)


def errors(op, device, most):
    if op.error_inputs_func is not None:
        for error in op.error_inputs(device):
            yield "", lambda error=error: check_error(op, error)


def module(info, device, most):
    for dtype in (torch.float32, torch.float64):
        for training in training_modes(info):
            for sample in module_inputs(info, device, dtype, training, most):
                yield (
                    f"{str(dtype)[6:]}{'' if training else ', eval'}",
                    lambda s=sample, d=dtype, t=training: check_module(info, s, device, d, t, DEFAULT),
                )


PARTS = {"forward": forward, "gradient": gradient, "errors": errors, "module": module}


def run(part, entry, device, most):
    """{"samples", "passed", "generic": samples that called an operator without a record, "failures": {where: why}},
    and "absent": why there is no sample, if the database says that there are some"""
    out = {"samples": 0, "passed": 0, "generic": 0, "failures": {}}
    if part == "gradient" and entry.supports_autograd and gradient_dtype(entry, device) is None:
        out["absent"] = why_no_gradient(entry, device)
    checks = PARTS[part](entry, device, most)
    while True:
        where = "samples"
        try:
            where, check = next(checks)
            out["samples"] += 1
            jitted = check()
            out["passed"] += 1
            out["generic"] += jitted is not None and is_generic(jitted)
        except StopIteration:
            return out
        except EagerFails:
            out["samples"] -= 1
        except Exception as error:
            out["failures"].setdefault(where, reason(error))
            if where == "samples":
                return out


def main():
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", "(?s).*runs by eager PyTorch")  # which would be compared with itself
    torch.set_num_threads(1)
    os.environ.setdefault("THUNDER_VERIFY", "1")
    answers = sys.stdout
    sys.stdout = sys.stderr
    ops = {name_of(op): op for op in op_db}
    modules = {module_name(info): info for info in module_db}
    for line in sys.stdin:
        part, name, device, most = json.loads(line)
        entry = (modules if part == "module" else ops)[name]
        print(json.dumps(run(part, entry, device, most)), file=answers, flush=True)


if __name__ == "__main__":
    main()
