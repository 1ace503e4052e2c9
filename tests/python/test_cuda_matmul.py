"""Matrix products on a GPU: every layout that the `cublaslt` executor takes, and what it leaves, against float64."""

import pytest
import torch
import torch.nn.functional as F
from fusion_checks import ROUNDOFF, check, error

import thunder

pytestmark = pytest.mark.gpu

SIZES = [(64, 64, 64), (200, 72, 136), (1, 64, 256), (64, 1, 8), (5, 7, 9), (1024, 512, 2048)]
DTYPES = [torch.bfloat16, torch.float16]
LAYOUTS = [("rows", "rows"), ("columns", "wide rows"), ("wide columns", "columns"), ("unaligned", "rows")]


def matrix(rows, cols, layout, dtype):
    """A leaf whose memory lies in the layout: by row, by column, rows or columns of something wider, off 16 bytes."""
    make = {
        "rows": lambda: torch.randn(rows, cols),
        "columns": lambda: torch.randn(cols, rows).t(),
        "wide rows": lambda: torch.randn(rows, cols + 24)[:, 8 : cols + 8],
        "wide columns": lambda: torch.randn(cols, rows + 8).t()[:rows],
        "unaligned": lambda: torch.randn(rows, cols + 3)[:, 1 : cols + 1],
    }[layout]
    return make().to("cuda", dtype).detach().requires_grad_()


def products(compiled):
    calls = [*thunder.last_traces(compiled)[-1].calls]
    if thunder.last_backward_traces(compiled):
        calls += thunder.last_backward_traces(compiled)[-1].calls
    return [c.name for c in calls if c.name.startswith("cublaslt")]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("layouts", LAYOUTS, ids=" ".join)
def test_matmul(size, layouts, dtype):
    m, k, n = size
    a, b = matrix(m, k, layouts[0], dtype), matrix(k, n, layouts[1], dtype)
    compiled = check(torch.matmul, a, b, fused=False)
    assert len(products(compiled)) == 3


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_linear(size, bias, dtype):
    m, k, n = size
    x = torch.randn(2, m, k, device="cuda", dtype=dtype, requires_grad=True)
    w = torch.randn(n, k, device="cuda", dtype=dtype, requires_grad=True)
    b = (torch.randn(n, device="cuda", dtype=dtype, requires_grad=True),) if bias else ()
    compiled = check(F.linear, x, w, *b, fused=False)
    assert len(products(compiled)) == 3


def test_what_is_left_to_pytorch():
    batch = torch.randn(3, 16, 8, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    other = torch.randn(3, 8, 16, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    assert not products(check(torch.matmul, batch, other, fused=False))
    single = torch.randn(16, 16, device="cuda", requires_grad=True)
    assert not products(check(torch.matmul, single, single, fused=False))


def test_one_result_whatever_runs_it():
    """Measured, with algorithms that are not (deterministic), and by PyTorch: one sum in float32, rounded once."""
    a, b = matrix(512, 256, "rows", torch.bfloat16), matrix(256, 384, "columns", torch.bfloat16)
    with torch.no_grad():
        exact = a.double() @ b.double()
        results = [thunder.jit(torch.matmul)(a, b), thunder.jit(torch.matmul, executors=[])(a, b)]
        torch.use_deterministic_algorithms(True)
        try:
            results.append(thunder.jit(torch.matmul)(a, b))
        finally:
            torch.use_deterministic_algorithms(False)
    for r in results:
        torch.testing.assert_close(r.double(), exact, rtol=2**-8, atol=1e-2)


def test_other_streams_and_threads():
    import threading

    a, b = matrix(256, 256, "rows", torch.bfloat16), matrix(256, 256, "rows", torch.bfloat16)
    compiled = thunder.jit(torch.matmul)
    expected = (a @ b).detach()
    results = []

    def work():
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                out = compiled(a, b)
            torch.cuda.current_stream().synchronize()
            results.append(out)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 4
    for r in results:
        torch.testing.assert_close(r, expected)


def test_the_choice_is_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("THUNDER_CACHE_DIR", str(tmp_path))
    a, b = matrix(320, 448, "rows", torch.bfloat16), matrix(448, 192, "rows", torch.bfloat16)
    with torch.no_grad():
        thunder.jit(torch.matmul)(a, b)
    assert [p for p in tmp_path.rglob("*") if p.is_file()]


# ---- gradients added in place --------------------------------------------------------------------------------------


def in_place(f):
    return thunder.compile_stats(f)["accumulated_gradients"]


def gradients(f, w, xs):
    """Of a copy of the weight, after each micro-batch."""
    w = w.detach().clone().requires_grad_()
    for x in xs:
        f(x.to(w.dtype), w).sum().backward()
        yield w.grad.clone()


def ready(size, dtype=torch.bfloat16):
    """A compiled linear layer that has run backward once, its input and its weight."""
    m, k, n = size
    f, x, w = thunder.jit(F.linear), matrix(m, k, "rows", dtype).detach(), matrix(n, k, "rows", dtype)
    f(x, w).sum().backward()
    assert in_place(f) == 0
    return f, x, w


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_micro_batches(size, dtype):
    m, k, n = size
    xs, w = [torch.randn(m, k, device="cuda", dtype=dtype) for _ in range(4)], matrix(n, k, "rows", dtype)
    f = thunder.jit(F.linear)
    for got, eager, exact in zip(
        gradients(f, w, xs), gradients(F.linear, w, xs), gradients(F.linear, w.double(), xs), strict=True
    ):
        assert error(got, exact) <= 2 * error(eager, exact) + ROUNDOFF[dtype]
    assert in_place(f) == 3


def test_no_gradient_of_the_weights_size_is_made():
    f, x, w = ready((8, 4096, 4096))
    loss, gradient = f(x, w).sum(), w.grad
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    loss.backward()
    assert w.grad is gradient and in_place(f) == 1
    assert torch.cuda.max_memory_allocated() - before < w.numel() * w.element_size() / 2


def test_gradients_that_cublaslt_does_not_add_to():
    f, x, w = ready((64, 64, 64))
    buffer = torch.zeros(1 + w.numel(), device="cuda", dtype=w.dtype)
    for grad in (buffer[1:].view(w.shape), torch.zeros_like(w).t()):
        w.grad = grad
        f(x, w).sum().backward()
        torch.testing.assert_close(w.grad.double(), x.double().sum(0).expand(64, 64), rtol=2**-7, atol=1e-2)
    assert in_place(f) == 0


def test_a_product_that_is_not_measured_yet_is_not_added(tmp_path, monkeypatch):
    monkeypatch.setenv("THUNDER_CACHE_DIR", str(tmp_path))
    f, w = thunder.jit(F.linear), matrix(264, 328, "rows", torch.bfloat16)
    x = matrix(96, 328, "rows", torch.bfloat16).detach()
    w.grad = torch.zeros_like(w)
    for n in range(3):
        f(x, w).sum().backward()
        assert in_place(f) == n
    torch.testing.assert_close(w.grad.double(), 3 * x.double().sum(0).expand(264, 328), rtol=2**-6, atol=5e-2)


def test_deterministic_algorithms_add_in_place():
    f, x, w = ready((64, 128, 256))
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            f(x, w).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert in_place(f) >= 2
    torch.testing.assert_close(w.grad.double(), 4 * x.double().sum(0).expand(256, 128), rtol=2**-6, atol=5e-2)


def test_a_leaf_of_another_stream():
    """Its gradient is written on the stream on which autograd first saw the leaf; nothing orders ours after that."""
    f, x, w = ready((256, 256, 256))
    first = w.view_as(w)  # keeps the leaf's node
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        f(x, w).sum().backward()
    torch.cuda.synchronize()
    assert in_place(f) == 0
    del first
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        f(x, w).sum().backward()
    torch.cuda.synchronize()
    assert in_place(f) == 1
    torch.testing.assert_close(w.grad.double(), 3 * x.double().sum(0).expand(256, 256), rtol=2**-6, atol=5e-2)


def test_in_a_graph_of_the_users_own():
    f, x, w = ready((64, 128, 256))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        f(x, w).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f(x, w).sum().backward()
    assert in_place(f) == 2
    w.grad.zero_()
    for _ in range(3):
        graph.replay()
    torch.testing.assert_close(w.grad.double(), 3 * x.double().sum(0).expand(256, 128), rtol=2**-6, atol=5e-2)


# ---- sizes that are no multiple of 16 bytes ----------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("columns", [4001, 4002, 4004])
def test_odd_columns_between_kernels(columns, bias):
    def f(x, w, *b):
        return F.linear(x.exp(), w * 1.0, *b).float().log_softmax(-1)[:, :3]

    x = (torch.randn(4096, 512, device="cuda") / 4).to(torch.bfloat16).requires_grad_()
    w = (torch.randn(columns, 512, device="cuda") / 16).to(torch.bfloat16).requires_grad_()
    b = (torch.randn(columns, device="cuda", dtype=torch.bfloat16, requires_grad=True),) if bias else ()
    compiled = check(f, x, w, *b)
    lines = str(thunder.last_traces(compiled)[-1]).splitlines()
    assert any("cublaslt" in line and "4008]" in line for line in lines)


def test_odd_rows_and_terms():
    x = (torch.randn(8191, 1023, device="cuda") / 8).to(torch.bfloat16).requires_grad_()
    w = (torch.randn(1023, 2047, device="cuda") / 8).to(torch.bfloat16).requires_grad_()
    check(lambda x, w: torch.matmul(x.sin(), w.cos()).float().sin(), x, w)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", [(64, 128, 256), (33, 40, 8), (1, 16, 24), (7, 5, 3)], ids=str)
def test_gradients_of_parameters_under_autocast(sizes, dtype):
    """They are products in float32; the second step adds to the first one's."""
    rows, features, out = sizes
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(features, out), torch.nn.GELU(), torch.nn.Linear(out, features)).cuda()
    x = torch.randn(rows, features, device="cuda")

    def gradients(fn, autocast=True):
        model.zero_grad()
        for scale in (1, -0.5):
            with torch.autocast("cuda", dtype, enabled=autocast):
                y = fn((scale * x).to(next(model.parameters()).dtype))
            y.square().mean().mul(100).backward()
        return [p.grad.clone() for p in model.parameters()]

    compiled = thunder.jit(model)
    ours, eager = gradients(compiled), gradients(model)
    names = [c.name for c in thunder.last_backward_traces(compiled)[-1].calls]
    assert all(n % 8 for n in sizes[1:]) or "cublaslt_matmul_as" in names, names
    exact = gradients(model.double(), autocast=False)
    for mine, theirs, want in zip(ours, eager, exact, strict=True):
        assert mine.dtype == torch.float32
        error = [((g.double() - want).norm() / want.norm()).item() for g in (mine, theirs)]
        assert error[0] <= 2 * error[1] + 1e-3, error
