"""Batches of small matrix products: the programs that a GPU would run."""

import re

import pytest
import torch
from product_programs import PROGRAMS, Windows
from torch.testing import assert_close

import thunder

BF16 = torch.bfloat16


class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Autocast(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        with torch.autocast("cuda", BF16):
            return self.body(x)


def simulated(module, *shapes, dtype=BF16, grad=True):
    given = [torch.zeros(s, dtype=dtype, device="meta", requires_grad=grad) for s in shapes]
    return thunder.distributed.simulate(module.to("meta"), given, world=1, strategy=None).traces


def lines(trace, word):
    return [x.strip() for x in str(trace).splitlines() if x.startswith("  ") and " = " in x and word in x]


def run(trace, word):
    """What is run by that name, not what a kernel stands for."""
    return [x for x in lines(trace, word) if not x.startswith("#")]


def in_memory(trace):
    """The types of all that is written: results of calls that are no views."""
    views = ("view", "transpose", "permute", "reshape", "expand", "slice", "squeeze", "Tensor.t")
    out, is_view = [], False
    for x in str(trace).splitlines():
        if x.startswith("  ") and not x.strip().startswith("#") and " = " in x:
            is_view = any(f"{v}(" in x or f"{v}_prim_impl(" in x for v in views)
        if (found := re.search(r'# (t\d+): "cuda:0 (.*?)"', x)) and not x.startswith("    # t") and not is_view:
            out.append(found[2])
    return out


def is_read_by_blas(trace):
    """Of each batch of products, whether its matrices lie at one distance, by rows or by columns."""
    types = dict(re.findall(r'# (t\d+): "cuda:0 (.*?)"', str(trace)))

    def numbers(pattern, name):
        found = re.search(pattern, types[name])
        return [int(n) for n in found[1].split(", ")] if found else []

    def reads(name):
        shape, strides = numbers(r"\[(.*?)\]", name), numbers(r"strides=\((.*?)\)", name)
        if not strides:
            return True
        *batch, below, beside = strides
        one = all(batch[i] == batch[i + 1] * shape[i + 1] for i in range(len(batch) - 1))
        return one and ((beside == 1 and below >= shape[-1]) or (below == 1 and beside >= shape[-2]))

    for x in [*run(trace, "torch.bmm("), *run(trace, "torch.matmul(")]:
        a, b = re.search(r"\((t\d+), (t\d+)\)", x).groups()
        if len(numbers(r"\[(.*?)\]", b)) > 2:
            yield reads(a) and reads(b)


def test_windows_have_no_hidden_copies():
    """6 products in two programs, whose operands BLAS reads, in rows of 56."""
    forward, backward = simulated(Autocast(Windows()), (4096, 49, 96), dtype=torch.float32)
    assert len(run(forward, "torch.bmm(")) == 2 and len(run(backward, "torch.bmm(")) == 4
    for trace in (forward, backward):
        assert all(is_read_by_blas(trace))
        assert not [t for t in in_memory(trace) if "49, 49]" in t and "4096" in t]
    # One kernel for the softmax, none that only pads, query, key and value in two, and one that writes the bias as 4096
    # windows read it.
    kernels = lines(forward, "fusion")
    assert len([k for k in kernels if "t" in k]) <= 7, kernels


def test_windows_save_what_the_backward_reads():
    """The copies of query, key and value, but not the projection that they are parts of, nor the weights."""
    forward, backward = simulated(Autocast(Windows()), (4096, 49, 96), dtype=torch.float32)
    saved = re.findall(r'# t\d+: "cuda:0 (.*?)"', str(backward).split("del C0")[0])
    assert "bf16[4096, 49, 288]" not in " ".join(saved), saved
    assert sum("4096, 3, 49, 56]" in t for t in saved) + sum("12288, 49, 56]" in t for t in saved) <= 1, saved
    assert not lines(backward, "prims.pad(t") or "f32[3, 49" in " ".join(lines(backward, "prims.pad(t"))


@pytest.mark.parametrize("rows", [49, 64, 121])
@pytest.mark.parametrize("name", PROGRAMS)
def test_products_are_of_what_blas_reads(name, rows):
    forward, backward = simulated(Program(PROGRAMS[name]), *[(1024, rows, 4, 64)] * 3)
    for trace in (forward, backward):
        assert not run(trace, "einsum") and not run(trace, "baddbmm")
        assert all(is_read_by_blas(trace)), trace
        assert rows % 8 != 0 or not lines(trace, "prims.pad("), trace
    assert len([*is_read_by_blas(forward)]) == 2 and len([*is_read_by_blas(backward)]) == 4


def test_float32_is_copied_and_not_padded():
    forward, _ = simulated(Program(PROGRAMS["attention"]), *[(64, 49, 4, 64)] * 3, dtype=torch.float32)
    assert len(run(forward, "torch.bmm(")) == 2
    assert not lines(forward, "prims.pad(") and lines(forward, "prims.restride(")


def test_without_gradients():
    (forward,) = [t for t in simulated(Program(PROGRAMS["attention"]), *[(1024, 49, 4, 64)] * 3, grad=False) if t]
    assert len(run(forward, "torch.bmm(")) == 2 and lines(forward, "prims.pad(")


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_the_cpu_products_stay(name):
    f = PROGRAMS[name]
    given = [torch.randn(3, 7, 2, 5, requires_grad=True) for _ in "qkv"]
    compiled = thunder.jit(f)
    assert_close(compiled(*given), f(*given))
    assert not lines(thunder.last_traces(compiled)[-1], "prims.restride(")
    mine, eager = (torch.autograd.grad(g(*given).square().sum(), given) for g in (compiled, f))
    for a, b in zip(mine, eager, strict=True):
        assert_close(a, b, rtol=1e-4, atol=1e-5)
