"""Strides of results are eager's, also of operands that are transposed, expanded, or have gaps and odd strides.

Those that a program is told are the trace's, by which executors go.
"""

import itertools

import pytest
import torch
from aliasing_checks import difference
from short_run import ALL

import thunder

OPERANDS = {
    "plain": torch.arange(12.0).view(3, 4) / 12 + 0.1,
    "transposed": (torch.arange(12.0).view(4, 3) / 9 + 0.2).t(),
    "gaps": (torch.arange(24.0).view(3, 8) / 7 - 1)[:, ::2],
    "rows": (torch.arange(4.0) / 3 + 0.3).expand(3, 4),
    "columns": (torch.arange(3.0).view(3, 1) + 0.5).expand(3, 4),
    "column": torch.arange(3.0).view(3, 1) / 2 - 0.4,
    "odd column": torch.arange(1.0, 10.0).as_strided((3, 1), (2, 7)),
    "one": torch.ones(20).as_strided((1, 1), (5, 9)),
    "vector": torch.arange(4.0) / 5 + 0.1,
    "led by 1": (torch.arange(20.0) / 11 + 0.1).as_strided((1, 3, 4), (1, 1, 3)),
}
OPERATORS = {
    "add": lambda a, b, c: a + b + c,
    "where": lambda a, b, c: torch.where(a > 0.5, b, c),
    "lerp": torch.lerp,
    "lerp by less than a half": lambda a, b, c: torch.lerp(a, b, 0.25),
    "lerp by more than a half": lambda a, b, c: torch.lerp(b, c, 0.75),
    "addcmul": torch.addcmul,
    "addcmul by a number": lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
    "addcdiv": torch.addcdiv,
    "clamp": lambda a, b, c: torch.clamp(a, b, c),
}


def with_strides(operator):
    def program(*operands):
        result = operator(*operands)
        return result, [t.stride() for t in result] if isinstance(result, tuple) else result.stride()

    return program


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("name", OPERATORS)
def test_pointwise_operators(name, cache):
    wrong, program = [], with_strides(OPERATORS[name])
    every = 7 if ALL else 91
    for names in itertools.islice(itertools.product(OPERANDS, repeat=3), 0, None, every):
        operands = [OPERANDS[n] for n in names]
        # Eager's gradient of clamp() is none of broadcast bounds.
        grad = name != "clamp" or len({t.shape for t in operands}) == 1
        found = difference(program, operands, grad=grad, compiled=thunder.jit(program, cache=cache))
        wrong += [(names, found)] if found else []
    assert not wrong, wrong[:3]


POWERS = {
    "alone": lambda x: 2.0**x,
    "in a kernel": lambda x: (2**x) * 3 + x,
    "before another": lambda x: torch.pow(3, x).exp(),
    "transposed back": lambda x: (0.5 ** x.t()).t() * x,
}


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("name", POWERS)
def test_a_number_to_the_power_of_a_tensor(name, cache):
    for operand in ("transposed", "gaps", "columns"):
        compiled = thunder.jit(POWERS[name], cache=cache)
        found = difference(POWERS[name], [OPERANDS[operand]], grad=True, compiled=compiled)
        assert not found, (operand, found)


CHANNELS_LAST = torch.arange(40.0).view(2, 1, 4, 5).to(memory_format=torch.channels_last)
COMPLEX = {
    "a channel": CHANNELS_LAST,
    "one image": CHANNELS_LAST[:1].expand(2, 3, 4, 5),
    "transposed": OPERANDS["transposed"],
    "overlapping": torch.arange(9.0).as_strided((2, 3, 2), (1, 2, 1)),
}


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_of_parts(name, cache):
    f = with_strides(lambda x: torch.complex(x, x))
    assert not difference(f, [COMPLEX[name]], grad=True, compiled=thunder.jit(f, cache=cache))


BATCH = torch.arange(24.0).view(2, 3, 4) / 5
EINSUMS = {
    "ij,jk->ki": (OPERANDS["plain"], OPERANDS["plain"].t()),
    "ij,jk->ik": (OPERANDS["plain"], OPERANDS["transposed"].t()),
    "bij,bjk->kbi": (BATCH, BATCH.mT),
    "bij,bkj->bki": (BATCH, BATCH + 1),
    "i,j->ji": (OPERANDS["vector"], OPERANDS["vector"] + 1),
    "ai,bi,ci->abc": (OPERANDS["plain"],) * 3,
    "...ij,...jk->ik...": (BATCH, BATCH.mT),
}


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("equation", EINSUMS)
def test_einsum(equation, cache):
    f = with_strides(lambda *operands: torch.einsum(equation, *operands))
    assert not difference(f, list(EINSUMS[equation]), grad=True, compiled=thunder.jit(f, cache=cache))


@pytest.mark.parametrize("shape, strides", [((3, 32, 1, 1), (32, 1, 32, 32)), ((4, 1, 6), (1, 7, 4)), ((1,), (5,))])
def test_conversions_keep_strides_of_single_elements(shape, strides):
    def copies(x):
        return x.to(torch.bfloat16), x.double(), x.int(), x.clone()

    x = torch.arange(96.0).as_strided(shape, strides)
    assert thunder.jit(with_strides(copies))(x)[1] == with_strides(copies)(x)[1]


@pytest.mark.parametrize("shapes", [((3, 1), (1, 4)), ((1, 1), (1, 1))])
def test_dtype_of_einsum_of_booleans(shapes):
    """A sum over a dimension of size 1 is none."""
    f = lambda a, b: torch.einsum("ij,jk->ik", a, b)
    assert not difference(f, [torch.ones(shape, dtype=torch.bool) for shape in shapes])


LAST = torch.arange(256.0).view(2, 8, 4, 4).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("operands", [
    (LAST, LAST[:0]), (LAST, LAST, LAST[:0]), (LAST,), (LAST[:0], LAST), (torch.tensor([]), LAST),
    (LAST[:0].contiguous(), LAST.mT), (torch.tensor([]), LAST.transpose(1, 2), torch.tensor([])), (LAST[:0], LAST[:0]),
])  # fmt: skip
def test_cat_with_empty_tensors(operands):
    f = with_strides(lambda *given: torch.cat(given))
    compiled = thunder.jit(f)
    assert not difference(f, list(operands), grad=True, compiled=compiled)
    result, strides = compiled(*operands)
    assert strides == torch.cat(operands).stride()
    assert all(result.data_ptr() != t.data_ptr() for t in operands if t.numel())


@pytest.mark.parametrize("empty", [torch.empty(0), torch.empty(0, 4)])
def test_cat_with_an_empty_tensor_that_requires_a_gradient(empty):
    f = lambda e, x: torch.cat([e, x])
    assert not difference(f, [empty.clone().requires_grad_(), torch.randn(3, 4)])
    assert thunder.jit(f)(empty.clone().requires_grad_(), torch.randn(3, 4)).requires_grad
