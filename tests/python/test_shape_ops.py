"""Shape and index operators compiled, against eager: values, layouts, what they share memory with, gradients.

The cases are those of tests/cpp/ops/make_cases.py, from which the C++ tests of the metas are made, too.
"""

import pathlib
import sys

import pytest
import torch

import thunder

sys.path.append(str(pathlib.Path(__file__).parents[1] / "cpp" / "ops"))
import make_cases  # noqa: E402

PER_OPERATOR = 60  # of each operator's cases, evenly spread
# What PyTorch itself gets wrong: the gradient of as_strided_scatter's first input is 0 where it was not written, and
# not where it was.
NO_GRADIENT = {"as_strided_scatter"}


def cases_by_operator():
    make_cases.CASES.clear()
    make_cases.shape_cases()
    make_cases.index_cases()
    by_op = {}
    for case in make_cases.CASES:
        by_op.setdefault(case.op, {})[str(case)] = case
    return {op: list(cases.values()) for op, cases in by_op.items()}


CASES = cases_by_operator()


def sample(cases):
    return cases[:: max(1, len(cases) // PER_OPERATOR)]


def eager(case, requires_grad=False):
    """(inputs, flat results) or nothing if the case is an error or gives no tensors."""
    inputs = [i.make(0) for i in case.inputs]
    for t in inputs:
        if requires_grad and t.is_floating_point():
            t.requires_grad_()
    try:
        results = make_cases.flat(case(*inputs))
    except Exception:
        return None
    return (inputs, results) if all(isinstance(r, torch.Tensor) for r in results) else None


def storage(t):
    return t.untyped_storage().data_ptr()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", CASES)
def test_forward(op):
    ran = 0
    for case in sample(CASES[op]):
        expected = eager(case)
        if expected is None:
            continue
        inputs, results = expected
        got = make_cases.flat(thunder.jit(case)(*inputs))
        assert len(got) == len(results), str(case)
        for a, b in zip(got, results, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=lambda m, c=case: f"{c}\n{m}")
            if a.numel():
                assert a.stride() == b.stride(), str(case)
                shared = [[storage(r) == storage(i) for i in inputs] for r in (a, b)]
                assert shared[0] == shared[1], str(case)
        ran += 1
    assert ran


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [op for op in CASES if op not in NO_GRADIENT])
def test_gradient(op):
    torch.manual_seed(0)
    for case in sample(CASES[op]):
        # A leaf whose elements share memory has no gradient of its own for each.
        if any(0 in i.strides for i in case.inputs):
            continue
        expected = eager(case, requires_grad=True)
        if expected is None:
            continue
        inputs, results = expected
        got = make_cases.flat(thunder.jit(case)(*inputs))
        pairs = [(a, b) for a, b in zip(got, results, strict=True) if b.requires_grad and a.requires_grad]
        leaves = [i for i in inputs if i.requires_grad]
        if not pairs or not leaves:
            continue
        cotangents = [torch.randn_like(b) for _, b in pairs]
        try:
            wanted = torch.autograd.grad([b for _, b in pairs], leaves, cotangents, allow_unused=True)
        except RuntimeError:  # PyTorch has no rule for it
            continue
        gradients = torch.autograd.grad([a for a, _ in pairs], leaves, cotangents, allow_unused=True)
        for a, b in zip(gradients, wanted, strict=True):
            a, b = (torch.zeros(()) if g is None else g for g in (a, b))
            torch.testing.assert_close(a.expand_as(b) if a.dim() == 0 else a, b, equal_nan=True, msg=lambda m,
                c=case: f"{c}\n{m}")


FOUR_DIMENSIONS = {
    "conv2d": lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
    "conv2d, grouped": lambda x, w: torch.nn.functional.conv2d(x, w[:, :1], padding=1, groups=4),
    "batch_norm": lambda x, w: torch.nn.functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda x, w: torch.nn.functional.group_norm(x, 2),
    "max_pool2d": lambda x, w: torch.nn.functional.max_pool2d(x, 2),
    "avg_pool2d": lambda x, w: torch.nn.functional.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x, w: torch.nn.functional.adaptive_avg_pool2d(x, 2),
}


@pytest.mark.parametrize("name", FOUR_DIMENSIONS)
def test_channels_last_with_gaps(name):
    # Part of a sequence of pixels, as pictures: channels last to ATen, though there are gaps between them.
    def f(x, w):
        picture = x[:, 1:].transpose(1, 2).view(2, 4, 4, 4)
        return FOUR_DIMENSIONS[name](picture, w).relu()

    x, w = torch.randn(2, 17, 4), torch.randn(4, 4, 3, 3)
    inputs = [[t.clone().requires_grad_() for t in (x, w)] for _ in range(2)]
    got, want = thunder.jit(f)(*inputs[0]), f(*inputs[1])
    assert got.stride() == want.stride()
    torch.testing.assert_close(got, want)
    gradient = torch.randn_like(want)
    got.backward(gradient)
    want.backward(gradient)
    for a, b in zip(*inputs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_a_tensor_says_where_to_split():
    places = torch.tensor([2, 5], device="cpu")
    x = torch.randn(7, requires_grad=True)
    for f in (
        lambda x: torch.tensor_split(x, torch.tensor([2, 5], device="cpu")),
        lambda x: x.tensor_split(torch.tensor(3, device="cpu")),
        lambda x: torch.tensor_split(x, tensor_indices_or_sections=torch.arange(1, 3, device="cpu")),
        lambda x: torch.tensor_split(x, indices=[1]) + torch.tensor_split(x, sections=2),
    ):
        got, want = thunder.jit(f)(x), f(x)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(*(torch.autograd.grad(r[1].sum(), x)[0] for r in (got, want)))
    with pytest.raises(RuntimeError, match="int64 on the CPU|on the CPU, in int64"):
        thunder.jit(lambda x: x.tensor_split(places.int()))(x)
