"""Matrix products on a GPU: every layout that the `cublaslt` executor takes, and what it leaves, against float64."""

import pytest
import torch
import torch.nn.functional as F
from fusion_checks import check

import thunder

pytestmark = pytest.mark.gpu

SIZES = [(64, 64, 64), (200, 72, 136), (1, 64, 256), (64, 1, 8), (5, 7, 9), (1024, 512, 2048)]
DTYPES = [torch.bfloat16, torch.float16]


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
@pytest.mark.parametrize("layouts", [("rows", "rows"), ("columns", "wide rows"), ("wide columns", "columns"), ("unaligned", "rows")], ids=" ".join)
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
