"""Calls of torch functions with arguments of every kind: ours gives eager's result, or eager's type of exception.

Cases come from the samples of PyTorch's operator database and from BASES.  One argument is replaced, or one that was
left out is given, by a value of another kind: None, numbers of all types, lists of one, tensors for numbers, numbers
out of range.  Cases run in child processes: what ends a process is a finding.

    python tests/python/fuzz_arguments.py --seed 0 --cases 20000 --jobs 2
"""

import argparse
import dataclasses
import functools
import json
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from op_checks import compare, name_of, op_db, samples, tensors

import thunder
from thunder import _C
from thunder._marks import is_internal, is_refusal

F = torch.nn.functional

# Name, and a value or what makes one.
VALUES = {
    "None": None, "0": 0, "1": 1, "-1": -1, "2": 2, "-2": -2, "7": 7, "-100": -100, "100": 100, "True": True,
    "False": False, "0.0": 0.0, "1.5": 1.5, "2.0": 2.0, "-0.5": -0.5, "nan": float("nan"), "1+2j": 1 + 2j, "'a'": "a",
    "'mean'": "mean", "[]": [], "()": (), "[1]": [1], "(0,)": (0,), "[2]": [2], "(-1,)": (-1,), "[0, 1]": [0, 1],
    "(1, 1)": (1, 1), "[0, 0]": [0, 0], "(1.5, 2)": (1.5, 2), "[None]": [None], "['a']": ["a"], "[True]": [True],
    "(2, 3, 4)": (2, 3, 4), "[[1]]": [[1]], "2 ** 40": 2**40, "2 ** 70": 2**70, "range(2)": range(2),
    "np.int64(1)": np.int64(1), "np.float32(1.5)": np.float32(1.5), "np.bool_(True)": np.bool_(True),
    "np.array([0])": np.array([0]), "float32": torch.float32, "int64": torch.int64, "bool": torch.bool,
    "complex64": torch.complex64, "device": torch.device("cpu"), "'cpu'": "cpu", "strided": torch.strided,
    "contiguous_format": torch.contiguous_format, "channels_last": torch.channels_last, "slice(None)": slice(None),
    "...": ..., "object": object, "{}": {}, "b'a'": b"a",
}  # fmt: skip
TENSORS = {
    "tensor(1)": lambda: torch.tensor(1), "tensor(1.5)": lambda: torch.tensor(1.5),
    "tensor(True)": lambda: torch.tensor(True),
    "tensor([0, 1])": lambda: torch.tensor([0, 1]), "tensor([0.5])": lambda: torch.tensor([0.5]),
    "tensor of 2 x 3": lambda: torch.arange(6.0).reshape(2, 3), "an empty tensor": lambda: torch.empty(0),
    "int32": lambda: torch.ones(3, dtype=torch.int32), "complex": lambda: torch.ones(2, dtype=torch.complex64),
}  # fmt: skip


def _x(*shape):
    return torch.arange(float(np.prod(shape))).reshape(shape) / 7


# What the database does not call, or not with all parameters.
BASES = {
    "convolution": (
        torch.convolution, lambda: ((_x(1, 2, 5), _x(3, 2, 2), None, (1,), (0,), (1,), False, (0,), 1), {})
    ),
    "convolution of images": (
        torch.convolution, lambda: ((_x(1, 2, 5, 5), _x(3, 2, 2, 2), None, (1,), (0,), (1,), False, (0,), 1), {})
    ),
    "conv2d": (F.conv2d, lambda: ((_x(1, 2, 5, 5), _x(3, 2, 2, 2), None, 1, 0, 1, 1), {})),
    "conv_transpose2d": (F.conv_transpose2d, lambda: ((_x(1, 2, 5, 5), _x(2, 3, 2, 2), None, 1, 0, 0, 1, 1), {})),
    "tensor": (torch.tensor, lambda: (([1, 2],), {"dtype": None})),
    "as_tensor": (torch.as_tensor, lambda: (([1, 2],), {})),
    "adaptive_avg_pool2d": (F.adaptive_avg_pool2d, lambda: ((_x(1, 2, 4, 4), (2, 2)), {})),
    "adaptive_max_pool2d": (F.adaptive_max_pool2d, lambda: ((_x(1, 2, 4, 4), (2, 2)), {})),
    "max_pool2d": (F.max_pool2d, lambda: ((_x(1, 2, 4, 4), 2, 2, 0, 1, False, False), {})),
    "avg_pool2d": (F.avg_pool2d, lambda: ((_x(1, 2, 4, 4), 2, 2, 0, False, True, None), {})),
    "interpolate": (F.interpolate, lambda: ((_x(1, 2, 4, 4),), {"size": None, "scale_factor": 2, "mode": "nearest"})),
    "amax": (torch.amax, lambda: ((_x(2, 3),), {"dim": 1, "keepdim": False})),
    "amin": (torch.Tensor.amin, lambda: ((_x(2, 3),), {"dim": (0, 1)})),
    "sum": (torch.sum, lambda: ((_x(2, 3),), {"dim": 1, "keepdim": False, "dtype": None})),
    "any": (torch.any, lambda: ((_x(2, 3),), {"dim": 1})),
    "max": (torch.max, lambda: ((_x(2, 3), 1, False), {})),
    "std": (torch.std, lambda: ((_x(2, 3), 1), {"correction": 1, "keepdim": False})),
    "type": (torch.Tensor.type, lambda: ((_x(2, 3),), {"dtype": None})),
    "to": (torch.Tensor.to, lambda: ((_x(2, 3), torch.float64), {})),
    "full": (torch.full, lambda: (((2, 3), 1.5), {"dtype": None})),
    "full_like": (torch.full_like, lambda: ((_x(2, 3), 1.5), {})),
    "new_full": (torch.Tensor.new_full, lambda: ((_x(2, 3), (2, 3), 1), {})),
    "zeros": (torch.zeros, lambda: (((2, 3),), {"dtype": None})),
    "arange": (torch.arange, lambda: ((0, 5, 2), {"dtype": None})),
    "linspace": (torch.linspace, lambda: ((0, 5, 3), {})),
    "eye": (torch.eye, lambda: ((2, 3), {})),
    "sym_min": (torch.sym_min, lambda: ((2, 3), {})),
    "sym_max": (torch.sym_max, lambda: ((2, 3), {})),
    "sym_float": (torch.sym_float, lambda: ((2,), {})),
    "sym_not": (torch.sym_not, lambda: ((True,), {})),
    "view": (torch.Tensor.view, lambda: ((_x(2, 3), 3, 2), {})),
    "reshape": (torch.Tensor.reshape, lambda: ((_x(2, 3), (3, 2)), {})),
    "permute": (torch.permute, lambda: ((_x(2, 3), (1, 0)), {})),
    "transpose": (torch.transpose, lambda: ((_x(2, 3), 0, 1), {})),
    "expand": (torch.Tensor.expand, lambda: ((_x(1, 3), 2, 3), {})),
    "repeat": (torch.Tensor.repeat, lambda: ((_x(2, 3), 2, 1), {})),
    "split": (torch.split, lambda: ((_x(4, 3), 2, 0), {})),
    "cat": (torch.cat, lambda: (([_x(2, 3), _x(2, 3)], 0), {})),
    "stack": (torch.stack, lambda: (([_x(2, 3), _x(2, 3)], 0), {})),
    "getitem": (torch.Tensor.__getitem__, lambda: ((_x(2, 3), 0), {})),
    "squeeze": (torch.squeeze, lambda: ((_x(1, 3), 0), {})),
    "dropout": (F.dropout, lambda: ((_x(2, 3),), {"p": 0.0, "training": True})),
    "softmax": (F.softmax, lambda: ((_x(2, 3), 1), {"dtype": None})),
    "cross_entropy": (F.cross_entropy, lambda: ((_x(2, 3), torch.tensor([0, 1])), {"weight": None, "ignore_index": -100,
                                                 "reduction": "mean", "label_smoothing": 0.0})),
    "layer_norm": (F.layer_norm, lambda: ((_x(2, 3), (3,)), {"weight": None, "bias": None, "eps": 1e-5})),
    "batch_norm": (F.batch_norm, lambda: ((_x(2, 3), None, None), {"training": True, "momentum": 0.1, "eps": 1e-5})),
    "embedding": (F.embedding, lambda: ((torch.tensor([0, 1]), _x(2, 3)), {"padding_idx": None})),
    "one_hot": (F.one_hot, lambda: ((torch.tensor([0, 1]), 3), {})),
    "pad": (F.pad, lambda: ((_x(2, 3), (1, 1)), {"mode": "constant", "value": None})),
    "add": (torch.add, lambda: ((_x(2, 3), 1), {"alpha": 1})),
    "div": (torch.div, lambda: ((_x(2, 3), 2), {"rounding_mode": None})),
    "clamp": (torch.clamp, lambda: ((_x(2, 3), 0, 1), {})),
    "where": (torch.where, lambda: ((_x(2, 3) > 0.5, _x(2, 3), 0), {})),
    "masked_fill": (torch.masked_fill, lambda: ((_x(2, 3), _x(2, 3) > 0.5, 0), {})),
    "gather": (torch.gather, lambda: ((_x(2, 3), 1, torch.tensor([[0], [1]])), {})),
    "attention": (F.scaled_dot_product_attention, lambda: ((_x(1, 2, 4, 8),) * 3, {"attn_mask": None, "dropout_p": 0.0,
                                                            "is_causal": False, "scale": None})),
}  # fmt: skip

# Neither results nor errors are the arguments' doing alone.
_LEFT_OUT = ("jiterator", "ops.", "_efficient_attention", "_flash_attention")


@dataclasses.dataclass
class Case:
    name: str
    function: object
    make: object  # () -> (args, kwargs), always new tensors
    place: object  # an index or a name
    value: str

    def arguments(self):
        args, kwargs = self.make()
        value = TENSORS[self.value]() if self.value in TENSORS else VALUES[self.value]
        if isinstance(self.place, int):
            return (*args[: self.place], value, *args[self.place + 1 :]), kwargs
        return args, {**kwargs, self.place: value}

    def __str__(self):
        return f"{self.name}, argument {self.place!r}: {self.value}"


def _copied(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(v) for v in value)
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return value


@functools.cache
def _parameters():
    """By function, the names of its record's parameters."""
    names = {}
    for op in _C.ops():
        for path in op.python:
            names.setdefault(path, []).extend(p["name"] for p in op.params)
    return names


@functools.cache
def bases():
    """(name, function, what makes its arguments, names of parameters)"""
    found = [(f"{name}()", function, make, []) for name, (function, make) in BASES.items()]
    for op in op_db:
        if op.op is None or torch.float32 not in op.supported_dtypes("cpu") or name_of(op).startswith(_LEFT_OUT):
            continue
        if any(word in op.name for word in ("batch_norm", "empty", "sparse")):
            continue
        names = _parameters().get(f"torch.{op.name}", [])
        found.append((name_of(op), op, functools.partial(_sampled, op), sorted({*names})))
    return found


def _sampled(op):
    sample = _first_sample(op)
    return _copied((sample.input, *sample.args)), _copied(sample.kwargs)


@functools.cache
def _first_sample(op):
    torch.manual_seed(0)
    return samples(op, "cpu", torch.float32, 3)[-1]


def made(seed):
    r = random.Random(seed)
    of_database = r.random() < 0.6
    name, function, make, names = r.choice([b for b in bases() if b[0].endswith("()") != of_database])
    args, kwargs = make()
    place = r.choice([*range(len(args)), *kwargs, *r.sample(names, min(2, len(names)))])
    return Case(name, function, make, place, r.choice([*VALUES, *VALUES, *TENSORS]))


# ---- running ---------------------------------------------------------------------------------------------------------


def _outcome(fn, case):
    torch.manual_seed(0)
    try:
        args, kwargs = case.arguments()
        return fn(*args, **kwargs), None
    except Exception as e:
        return None, e


def difference(case):
    """What differs from eager; None if nothing does."""
    expected, eagers = _outcome(case.function, case)
    actual, error = _outcome(thunder.jit(lambda *args, **kwargs: case.function(*args, **kwargs)), case)
    if error is not None:
        if type(error) is type(eagers) and (not is_internal(error) or is_internal(eagers)):
            return None
        if eagers is not None and "not compiled with CUDA" in str(error):
            return None
        if is_refusal(error):
            return None
        eager = "gives a result" if eagers is None else f"raises {eagers!r:.300}"
        return f"raises {type(error).__name__}: {str(error)[:300]}; eager {eager}"
    if eagers is not None:
        return f"gives {str(actual)[:80]}; eager raises {eagers!r:.300}"
    try:
        if any(t.numel() > 2**28 for t in tensors(expected)):  # of expand(), which takes no memory
            ours = [t.shape for t in tensors(actual)]
            return None if ours == [t.shape for t in tensors(expected)] else f"shapes {ours}"
        if tensors(expected) and all(torch.is_tensor(t) for t in tensors(expected)):
            compare(actual, expected)
        elif not (actual == expected or actual != actual):
            return f"gives {actual}; eager {expected}"
    except AssertionError as e:
        return f"other results: {str(e)[:300]}"
    return None


def run(first, last, report):
    """The cases of these seeds; `report` is called with (seed, kind, text) before eager and ours, and of findings."""
    warnings.simplefilter("ignore")
    for seed in range(first, last):
        try:
            case = made(seed)
        except Exception:  # a sample that cannot be made here
            continue
        report(seed, "eager", str(case))
        _outcome(case.function, case)
        report(seed, "ours", str(case))
        found = difference(case)
        if found is not None:
            report(seed, "finding", f"{case}: {found}")
    report(last, "end", "")


_CHILD = """
import json, resource, sys
sys.path.insert(0, {folder!r})
resource.setrlimit(resource.RLIMIT_AS, (1 << 35, 1 << 35))
import fuzz_arguments
from thunder import _C
_C.remove_default_executor("fuser")  # arguments are what is tried, not kernels
log = open({log!r}, "w")
fuzz_arguments.run({first}, {last}, lambda *line: (log.write(json.dumps(line) + "\\n"), log.flush()))
"""


def in_process(first, last, timeout=900):
    """Findings of these seeds, each in a process that may end: (seed, text)."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        while first < last:
            log = Path(folder) / f"log{first}"
            source = _CHILD.format(folder=str(Path(__file__).parent), log=str(log), first=first, last=last)
            process = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=timeout)
            lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
            found += [(seed, text) for seed, kind, text in lines if kind == "finding"]
            if not lines:
                raise RuntimeError(process.stderr[-2000:])
            seed, kind, text = lines[-1]
            if kind == "end":
                break
            if kind == "ours":  # where eager ends the process, so may ours
                found.append((seed, f"{text}: the process ended with {process.returncode}"))
            first = seed + 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    from concurrent.futures import ThreadPoolExecutor

    ends = range(options.seed, options.seed + options.cases, 500)
    last = options.seed + options.cases
    with ThreadPoolExecutor(options.jobs) as pool:
        parts = pool.map(lambda first: in_process(first, min(first + 500, last)), ends)
        found = [f for part in parts for f in part]
    for seed, text in found:
        print(f"seed {seed}: {text}")
    print(f"{options.cases} cases, {len(found)} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
