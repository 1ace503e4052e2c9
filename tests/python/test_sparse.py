"""Sparse tensors: arguments, results, captured, in between, as operands of PyTorch's own operators, with gradients."""

import warnings

import pytest
import torch
from devices import DEVICE

import thunder

warnings.filterwarnings("ignore", message="Sparse")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


def dense(*shape):
    return torch.randn(*shape, dtype=torch.float64, device=DEVICE)


def sparse(*shape, layout=torch.sparse_coo):
    t = dense(*shape)
    return (t * (t > 0)).to_sparse(layout=layout)


def csr(*shape):
    return sparse(*shape, layout=torch.sparse_csr)


def bounds_and_places():
    return torch.tensor([0, 1, 2], device=DEVICE), torch.tensor([1, 2], device=DEVICE)


def flat(results):
    return results if isinstance(results, tuple) else (results,)


def agree(actual, expected):
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert (a is None) == (e is None)
        if e is not None:
            assert a.layout == e.layout and a.dtype == e.dtype and a.requires_grad == e.requires_grad
            torch.testing.assert_close(a.to_dense(), e.to_dense())


PROGRAMS = {
    "to_dense": (lambda s: s.to_dense() * 2, [sparse(3, 4)]),
    "product": (lambda s, d: torch.sparse.mm(s, d) * 2, [sparse(3, 4), dense(4, 5)]),
    "product of rows": (lambda s, d: torch.sparse.mm(s, d), [csr(3, 4), dense(4, 5)]),
    "mm": (lambda s, d: torch.mm(s, d).relu(), [sparse(3, 4), dense(4, 5)]),
    "operator": (lambda s, d: s @ d, [csr(3, 4), dense(4, 5)]),
    "used twice": (lambda s, d: torch.sparse.mm(s, d) + torch.sparse.mm(s, d * 2), [sparse(3, 4), dense(4, 5)]),
    "rows used twice": (lambda s, d: (s @ d) + (s @ (d * 2)), [csr(3, 4), dense(4, 5)]),
    "made inside": (lambda d: torch.sparse.mm((d * 2).relu().to_sparse(), d.t()), [dense(4, 3)]),
    "result": (lambda d: (d * 2).to_sparse(), [dense(4, 3)]),
    "result in rows": (lambda d: d.relu().to_sparse_csr(), [dense(4, 3)]),
    "dense dimension": (lambda d: (d * 2).to_sparse(1), [dense(4, 3)]),
    "argument of a dense dimension": (lambda s: s.to_dense() * 2, [dense(4, 3).to_sparse(1)]),
    "sparse and dense results": (lambda s, d: (s * 2, d * 3), [sparse(3, 4), dense(4)]),
    "sum": (lambda s: s + s, [sparse(3, 4)]),
    "softmax": (lambda s: torch.sparse.softmax(s, 1), [sparse(3, 4)]),
    "sampled": (
        lambda s, a, b: torch.sparse.sampled_addmm(s, a, b, beta=0.5), [csr(3, 4), dense(3, 2), dense(2, 4)]
    ),
    "mask": (lambda d, s: d.sparse_mask(s.detach()), [dense(3, 4), sparse(3, 4)]),
    "values": (
        lambda v: torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]], device=DEVICE), v * 2, (3, 4)), [dense(2)]
    ),
    "values in rows": (lambda v: torch.sparse_csr_tensor(*bounds_and_places(), v * 2, (2, 3)), [dense(2)]),
    "values of another dtype": (
        lambda v: torch.sparse_coo_tensor(bounds_and_places()[1][None], v * 2, (3,), dtype=torch.float32), [dense(2)]
    ),
    "values in rows, by keywords": (
        lambda v: torch.sparse_csr_tensor(
            bounds_and_places()[0], col_indices=bounds_and_places()[1], values=v, size=(2, 3), dtype=torch.float32
        ),
        [dense(2)],
    ),
    "values in columns": (
        lambda v, d: torch.sparse_csc_tensor(*bounds_and_places(), v * 2, (3, 2)).to_dense() * d,
        [dense(2), dense(3, 2)],
    ),
    "argument": (lambda s: s, [sparse(3, 4)]),
    "coalesce": (lambda s: s.coalesce(), [sparse(3, 4)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(name):
    f, arguments = PROGRAMS[name]
    jitted = thunder.jit(f)
    for scale in (1, 2):
        found = []
        for g in (f, jitted):
            inputs = [(t.detach() * scale).requires_grad_() for t in arguments]
            results = flat(g(*inputs))
            loss = sum((t.to_dense() ** 2).sum() for t in results)
            found.append((results, torch.autograd.grad(loss, inputs, allow_unused=True)))
        for actual, expected in zip(found[1], found[0], strict=True):
            agree(actual, expected)
    assert thunder.cache_misses(jitted) == 1


def test_without_gradients():
    f = lambda s, d: (s @ d, s.to_dense(), s * 2)
    s, d = sparse(3, 4), dense(4, 5)
    agree(flat(thunder.jit(f)(s, d)), f(s, d))


def test_number_of_elements_is_no_part_of_the_program():
    f = lambda s, d: torch.sparse.mm(s, d)
    jitted, d = thunder.jit(f), dense(4, 5)
    for keep in (0, 1, 5, 12):
        s = torch.zeros(12, dtype=torch.float64, device=DEVICE)
        s[:keep] = 1
        s = s.view(3, 4).to_sparse()
        torch.testing.assert_close(jitted(s, d), f(s, d))
    assert thunder.cache_misses(jitted) == 1
    torch.testing.assert_close(jitted(s.to_sparse_csr(), d), f(s, d))  # another program
    assert torch.equal(jitted(s.to_dense(), d), s.to_dense() @ d)
    assert thunder.cache_misses(jitted) == 3


def test_a_sparse_parameter():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(sparse(3, 4))
            self.register_buffer("adjacency", sparse(5, 3))

        def forward(self, x):
            return torch.sparse.mm(self.adjacency, torch.sparse.mm(self.weight, x).tanh())

    layer, x = Layer(), dense(4, 2)
    gradients = []
    for module in (layer, thunder.jit(layer)):
        layer.weight.grad = None
        for _ in range(2):
            module(x).sum().backward()
        gradients.append((layer.weight.grad,))
    agree(*gradients)


def test_no_more_elements_than_eager_gives():
    s = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2), device=DEVICE)  # twice the same place
    assert not s.is_coalesced()
    jitted = thunder.jit(lambda s: (s.coalesce(), s.t()))
    coalesced, transposed = jitted(s)
    assert coalesced.is_coalesced() and coalesced._nnz() == 1
    assert not transposed.is_coalesced() and transposed._nnz() == 2


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_a_matrix_that_would_not_fit_into_memory(layout):
    n = 1_000_000
    s = torch.sparse_coo_tensor([[0, n - 1], [1, 2]], [1.0, 2.0], (n, n), device=DEVICE).coalesce()
    f = lambda s, d: s @ d
    s, d = s.to_sparse(layout=layout), torch.randn(n, 1, device=DEVICE)
    assert torch.equal(thunder.jit(f)(s, d), f(s, d))


def test_what_it_says_of_itself():
    def f(s):
        kind = s.layout, s.is_sparse, s.is_sparse_csr, s.dtype, s.requires_grad
        return kind, tuple(s.shape), s.dim(), s.sparse_dim(), s.dense_dim()

    for s in (sparse(3, 4), csr(3, 4), dense(3, 4), dense(3, 4).to_sparse(1)):
        assert thunder.jit(f)(s) == f(s)


def test_the_trace_says_so():
    jitted = thunder.jit(lambda s, d: (s @ d, (d * 2).to_sparse(1)))
    jitted(sparse(3, 4), dense(4, 5))
    text = str(thunder.last_traces(jitted)[0])
    assert 'f64[3, 4] sparse_coo"' in text and 'f64[4, 5] sparse_coo dense=1"' in text


@pytest.mark.parametrize(
    "f",
    [
        lambda s: s.mul_(2),
        lambda s: s.values(),
        lambda s: s._nnz(),
        lambda s: torch.nn.functional.gelu(s),
        lambda s: s.view(12),
    ],
)
def test_refused(f):
    """With eager's error, or a warning and eager's result."""
    with pytest.raises((RuntimeError, UserWarning)) as caught, warnings.catch_warnings():
        warnings.simplefilter("error")
        thunder.jit(f)(sparse(3, 4))
    assert "internal" not in str(caught.value)


def test_layouts_that_are_refused():
    blocks = dense(4, 4).to_sparse_bsr((2, 2))
    with pytest.warns(UserWarning, match="sparse ones without blocks"):
        assert torch.equal(thunder.jit(lambda s: s.to_dense())(blocks), blocks.to_dense())


def test_symbolic_values():
    f = lambda s, d: torch.sparse.mm(s, d) * d.shape[1]
    jitted = thunder.jit(f, cache="symbolic values")
    for columns in (5, 6, 7):
        s, d = sparse(3, 4), dense(4, columns)
        torch.testing.assert_close(jitted(s, d), f(s, d))


def test_the_text_of_a_trace_is_read_again():
    jitted = thunder.jit(lambda s, d: ((s * 2) @ d).relu())
    jitted(sparse(3, 4), dense(4, 5))
    for trace in thunder.last_traces(jitted):
        assert "sparse_coo" in str(trace)
        assert str(thunder.parse(str(trace), trace.python_ctx())) == str(trace)
