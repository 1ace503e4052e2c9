"""What depends on no input is computed once for a program, and kept."""

import threading
import uuid
from contextlib import nullcontext

import pytest
import torch
from devices import DEVICE, ON_CPU
from graph_checks import counts, graphed
from torch import nn
from torch.nn import functional as F
from watchers import DoublingOperators

import thunder
from thunder.extend import OperatorExecutor

pytestmark = pytest.mark.fuser


def distances(n, device):
    """Buckets of distances between places, as models with relative positions make them in each call."""
    i = torch.arange(n, device=device)
    between = i[:, None] - i[None, :]
    near = torch.where(between.abs() < 8, torch.tensor(7).type_as(between), between.abs())
    far = torch.ceil(torch.log(near / 8) / torch.tensor(3.9, device=device).log() * 7) + 8
    return torch.where(near <= 8, between.type_as(far), far * torch.sign(between)).cumsum(0).long().clamp(0, n - 1)


def relative(x, table):
    scores = torch.matmul(x, x.transpose(-1, -2))
    places = distances(x.shape[-2], x.device).expand(x.shape[0], -1, -1)
    rows = F.embedding(torch.arange(x.shape[-2], device=x.device), table)
    return torch.gather(scores, -1, places).sum() + (rows * x).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [16, 7, 1])
def test_steps_with_tables_of_places(n, dtype):
    x = torch.randn(2, n, 5, dtype=dtype, device=DEVICE, requires_grad=True)
    table = torch.randn(20, 5, dtype=dtype, device=DEVICE, requires_grad=True)
    f = thunder.jit(relative)
    for _ in range(3):
        got, want = f(x, table), relative(x, table)
        gradients = [torch.autograd.grad(out, (x, table)) for out in (got, want)]
        rounding = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
        torch.testing.assert_close(got, want, **rounding)
        torch.testing.assert_close(*gradients, **rounding)
    assert "constants" in str(thunder.last_traces(f)[-1])


def operators_of(run):
    with torch.profiler.profile() as profile:
        run()
    return [e.name for e in profile.events()]


def test_operators_run_once_for_a_program():
    f = thunder.jit(lambda x: x + torch.cumsum(torch.arange(4, device=x.device), 0))
    for dtype in (torch.float32, torch.float64):
        x = torch.ones(4, dtype=dtype, device=DEVICE)
        want = x + torch.arange(4, device=DEVICE).cumsum(0)
        f(x)
        for _ in range(2):
            torch.testing.assert_close(f(x), want)
        assert "aten::cumsum" not in operators_of(lambda x=x: f(x))


def operator(**of):
    return OperatorExecutor("test_" + uuid.uuid4().hex[:8]).register_operator("operator", **of)


def test_what_a_users_code_gives_is_made_in_each_call():
    numbers = iter(range(100))
    draw = operator(like=lambda n: torch.zeros(n), fn=lambda n: torch.full((n,), float(next(numbers))))
    f = thunder.jit(lambda x: x + draw(3))
    x = torch.zeros(3)
    assert len({f(x)[0].item() for _ in range(4)}) == 4


def test_a_users_code_may_give_or_write_to_what_it_gets():
    same = operator(like=lambda t: t * 1, fn=lambda t: t)
    adds = operator(like=lambda t, x: t * 2, fn=lambda t, x: (t.add_(x + 1), t * 2)[1])

    def f(x):
        places = torch.cumsum(torch.arange(4.0), 0)
        return x + 1, same(places), adds(torch.cumsum(torch.ones(4), 0), x)

    compiled = thunder.jit(f)
    for _ in range(3):
        _, places, sums = compiled(torch.zeros(4))
        assert places.tolist() == [0, 1, 3, 6] and sums.tolist() == [4, 6, 8, 10]
        places.add_(100)


def test_sparse_results_are_the_callers():
    def f(x):
        at, values = torch.tensor([[0, 1], [1, 0]], device=x.device), torch.cumsum(torch.ones(2, device=x.device), 0)
        rows = torch.tensor([0, 1, 2], device=x.device)
        csr = torch.sparse_csr_tensor(rows, torch.tensor([1, 0], device=x.device), values * 2, (2, 2))
        return x + 1, torch.sparse_coo_tensor(at, values, (4, 4)), csr

    compiled = thunder.jit(f)
    x = torch.zeros(2, device=DEVICE)
    for _ in range(3):
        _, coo, csr = compiled(x)
        assert coo._values().tolist() == [1, 2] and coo._indices().tolist() == [[0, 1], [1, 0]]
        assert csr.values().tolist() == [2, 4]
        for t in (coo._values(), coo._indices(), csr.values()):
            t.mul_(10)


@pytest.mark.skipif(ON_CPU, reason="PyTorch does not count the CPU's memory")
def test_a_part_of_a_large_tensor_keeps_no_more_than_itself():
    f = thunder.jit(lambda x: x + torch.cumsum(torch.ones(1_000_000, device=x.device), 0)[:4])
    x = torch.zeros(4, device=DEVICE)
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        assert f(x).tolist() == [1, 2, 3, 4]
    assert torch.cuda.memory_allocated() - before < 1_000_000


def test_the_printed_program_runs():
    f = thunder.jit(lambda x: x * torch.cumsum(torch.arange(4, device=x.device), 0))
    x = torch.ones(4, device=DEVICE)
    want = f(x)
    trace = thunder.last_traces(f)[-1]
    assert "constants" in str(trace)
    for _ in range(2):
        (got,) = trace.python_callable()(x)
        torch.testing.assert_close(got, want)


def test_results_are_the_callers():
    def f(x):
        ones = torch.ones(3, device=x.device)
        places = torch.arange(6, device=x.device).view(2, 3)
        return x + ones + torch.cumsum(places, 0), ones, places, places[0]

    compiled = thunder.jit(f)
    x = torch.zeros(3, device=DEVICE)
    for _ in range(3):
        got = compiled(x)
        torch.testing.assert_close(got, f(x))
        for g in got:
            g.add_(1)


def test_a_buffer_is_set_to_a_constant():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("places", torch.zeros(4, dtype=torch.int64))

        def forward(self, x):
            self.places = torch.cumsum(torch.arange(4, device=x.device), 0)
            out = x * self.places
            self.places += 1
            return out

    module, reference = Counter().to(DEVICE), Counter().to(DEVICE)
    compiled = thunder.jit(module)
    x = torch.ones(4, device=DEVICE)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), reference(x))
        torch.testing.assert_close(module.places, reference.places)
        module.places.zero_(), reference.places.zero_()


def test_whoever_watches_a_backward_sees_all_of_it():
    f = thunder.jit(lambda x, w: F.embedding(torch.arange(4, device=x.device), w) * x)
    x, w = torch.ones(4, 3, device=DEVICE), torch.randn(6, 3, device=DEVICE, requires_grad=True)
    for watched in (True, False, True):
        w.grad = None
        out = f(x, w).sum()
        with DoublingOperators() if watched else nullcontext() as mode:
            out.backward()
        assert w.grad.sum(1).tolist() == [3, 3, 3, 3, 0, 0]
        assert not watched or any("arange" in name for name in mode.seen), mode.seen
    assert "constants" in str(thunder.last_backward_traces(f)[-1])


def test_first_in_inference_mode():
    f = thunder.jit(lambda x, w: (x * w * torch.cumsum(torch.arange(4, device=x.device), 0)).sum())
    x, w = torch.ones(4, device=DEVICE), torch.ones(4, device=DEVICE, requires_grad=True)
    with torch.inference_mode():
        assert f(x, w).item() == 10
    with torch.no_grad():
        assert f(x, w).item() == 10
    f(x, w).backward()
    torch.testing.assert_close(w.grad, torch.tensor([0.0, 1, 3, 6], device=DEVICE))


def test_from_threads():
    f = thunder.jit(lambda x: x + torch.cumsum(torch.arange(1000, device=x.device), 0))
    x = torch.randn(1000, device=DEVICE)
    want, wrong = x + torch.arange(1000, device=DEVICE).cumsum(0), []

    def run():
        for _ in range(20):
            if not torch.equal(f(x), want):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_pass_that_can_be_skipped(monkeypatch):
    monkeypatch.setenv("THUNDER_SKIP", "constants")
    f = thunder.jit(lambda x: x * torch.cumsum(torch.arange(4, device=x.device), 0))
    torch.testing.assert_close(f(torch.ones(4, device=DEVICE)), torch.tensor([0.0, 1, 3, 6], device=DEVICE))
    assert "constants" not in str(thunder.last_traces(f)[-1])


@pytest.mark.skipif(ON_CPU, reason="streams and graphs are the GPU's")
def test_on_streams_and_in_graphs_of_the_users():
    f = thunder.jit(lambda x: x + torch.cumsum(torch.arange(4096, device=x.device), 0))
    x = torch.randn(4096, device=DEVICE)
    want = x + torch.arange(4096, device=DEVICE).cumsum(0)
    side = torch.cuda.Stream()
    for stream in (torch.cuda.current_stream(), side):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.testing.assert_close(f(x), want)
        torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = f(x)
    x.zero_()
    graph.replay()
    torch.testing.assert_close(out, torch.arange(4096, device=DEVICE).cumsum(0).float())


def test_numbers_made_on_the_host_are_no_reason_against_a_graph():
    def f(x):
        return x.double() * torch.tensor([1.0, 2.0, 3.0]).to(x.device) / torch.tensor(4).type_as(x)

    compiled = graphed(f)
    x = torch.randn(3, device=DEVICE)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), f(x))
    assert counts(compiled)[1] > 0
