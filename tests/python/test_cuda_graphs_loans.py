"""graphs="auto": results that the caller drops before the next call are lent, and others copied."""

import gc
import subprocess
import sys

import pytest
import torch
from devices import DEVICE
from graph_checks import ON_GPU, automatic, counts, randn, reasons, same_gradients
from torch import nn

import thunder

SOON = 12  # steps after which a program that pays has been recorded
ROWS = 600  # of outputs that are large enough to be lent


class WithScores(nn.Module):
    """A loss, and scores of 1.2 MB."""

    def __init__(self, blocks=12 if ON_GPU else 2):
        super().__init__()
        self.body = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(blocks)))
        self.scores = nn.Linear(8, 512)

    def forward(self, x):
        scores = self.scores(self.body(x))
        return scores.square().mean(), scores


@pytest.fixture(autouse=True)
def _no_streams_of_other_tests(monkeypatch):
    monkeypatch.setattr(thunder._graphs.Recorder, "others_have_streams", lambda self, index: False)


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads of several workers on few cores wait for each other in thousands of small loops."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pair():
    def make(recorder=None):
        torch.manual_seed(0)
        eager, module = WithScores().to(DEVICE), WithScores().to(DEVICE)
        module.load_state_dict(eager.state_dict())
        return eager, automatic(module, recorder), module

    return make


def step(run, module, x):
    """Nothing but the parameters' gradients outlives it; they do until the next step's begin."""
    module.zero_grad(set_to_none=True)
    loss, _ = run(x)
    loss.backward()
    return loss.item()


def compare(eager, f, module, steps, take=step):
    for _ in range(steps):
        x = randn(ROWS, 8)
        a, b = take(eager, eager, x), take(f, module, x)
        assert abs(a - b) <= 1e-4 * max(1, abs(a))
        same_gradients(eager, module)


def test_what_is_dropped_is_lent(pair):
    eager, f, module = pair()
    compare(eager, f, module, 2 * SOON)
    before = counts(f)
    compare(eager, f, module, SOON)
    assert counts(f) == (2, before[1] + 2 * SOON, before[2]) and not reasons(f)
    module.zero_grad()
    loss, scores = f(randn(ROWS, 8))
    loss.backward()
    addresses = [p.grad.data_ptr() for p in module.parameters()] + [scores.data_ptr()]
    del loss, scores
    for _ in range(3):  # the memory of the recording
        module.zero_grad()
        loss, scores = f(randn(ROWS, 8))
        loss.backward()
        assert [p.grad.data_ptr() for p in module.parameters()] + [scores.data_ptr()] == addresses
        del loss, scores


def test_what_is_kept_from_the_first_is_copied(pair):
    scores_of = {}

    def keeping(run, module, x):
        loss, scores_of[run] = run(x)
        module.zero_grad()
        loss.backward()
        return loss.item()

    eager, f, module = pair()
    compare(eager, f, module, 2 * SOON, keeping)
    kept, captures = [], []
    for _ in range(5):
        loss, scores = f(randn(ROWS, 8))
        module.zero_grad()
        loss.backward()
        kept += [(t, t.clone()) for t in (scores.detach(), *(p.grad for p in module.parameters()))]
        captures.append(counts(f)[0])
    assert captures[0] > 0 and captures[1] == captures[-1] and not reasons(f)
    for t, was in kept:
        torch.testing.assert_close(t, was, rtol=0, atol=0)


KEPT = {
    "scores": lambda scores, gradient: scores.detach(),
    "gradient": lambda scores, gradient: gradient,
    "view": lambda scores, gradient: gradient[3:5].t(),
    "storage": lambda scores, gradient: torch.empty(0, device=DEVICE).set_(gradient.untyped_storage(), 0, (64,), (1,)),
    "capsule": lambda scores, gradient: torch.from_dlpack(gradient),
}


@pytest.mark.parametrize("kept", list(KEPT))
def test_a_loan_that_is_out_is_not_overwritten(pair, kept):
    eager, f, module = pair()
    compare(eager, f, module, 2 * SOON)
    captures = counts(f)[0]
    module.zero_grad()
    loss, scores = f(randn(ROWS, 8))
    loss.backward()
    held = KEPT[kept](scores, module.scores.weight.grad)
    was = held.clone()
    del loss, scores
    compare(eager, f, module, 3)
    torch.testing.assert_close(held, was, rtol=0, atol=0)
    assert counts(f)[0] == captures + 2  # others, which copy
    assert "results are copied: what a replay would overwrite is kept over several calls" in reasons(f)
    del held
    gc.collect()
    compare(eager, f, module, 2 * SOON)


def test_gradients_that_add_up(pair):
    eager, f, module = pair()
    compare(eager, f, module, 2 * SOON)

    def accumulating(run, module, x):
        module.zero_grad()
        return sum(accumulate(run, part) for part in (x, x * 2, x + 1))

    def accumulate(run, x):
        loss, _ = run(x)
        loss.backward()
        return loss.item()

    compare(eager, f, module, 3, accumulating)
    compare(eager, f, module, 3)


def test_zeros_in_place(pair):
    def in_place(run, module, x):
        module.zero_grad(set_to_none=False)
        loss, _ = run(x)
        loss.backward()
        return loss.item()

    eager, f, module = pair()
    compare(eager, f, module, SOON)
    compare(eager, f, module, SOON, in_place)
    compare(eager, f, module, SOON)


def test_loans_may_be_written_to_and_resized(pair):
    def writing(run, module, x):
        module.zero_grad()
        loss, scores = run(x)
        loss.backward()
        with torch.no_grad():
            scores.mul_(0)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1e-3)
        return loss.item()

    eager, f, module = pair()
    compare(eager, f, module, 2 * SOON, writing)
    for _ in range(3):
        module.zero_grad()
        f(randn(ROWS, 8))[0].backward()
        gradient = module.scores.bias.grad
        gradient.resize_(1 << 16).fill_(7)
        compare(eager, f, module, 2)
        assert bool((gradient == 7).all())


def test_a_write_to_what_the_backward_needs_is_torchs_error(pair):
    eager, f, module = pair()
    compare(eager, f, module, 2 * SOON)
    for run in (eager, f):
        loss, scores = run(randn(ROWS, 8))
        with torch.no_grad():
            scores.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_a_cotangent_for_what_had_none(pair):
    def both(run, module, x):
        module.zero_grad()
        loss, scores = run(x)
        (loss + scores.mean()).backward()
        return loss.item()

    eager, f, module = pair()
    compare(eager, f, module, 2 * SOON)
    for _ in range(2):
        compare(eager, f, module, 3, both)
        compare(eager, f, module, 3)


def test_outputs_that_share_memory_share_it_as_loans():
    weight = randn(8, 512).requires_grad_()

    def outputs(x):
        y = x @ weight
        return y.square().mean(), y, y.detach().view(-1)

    f = automatic(outputs)
    for _ in range(2 * SOON):
        x = randn(ROWS, 8)
        loss, y, flat = f(x)
        loss.backward()
        torch.testing.assert_close(flat.view(ROWS, 512), (x @ weight).detach(), rtol=1e-4, atol=1e-5)
        flat[:512] = 7
        assert bool((y.detach()[0] == 7).all())
        weight.grad = None
        del loss, y, flat
    assert counts(f)[0] == 2 and not reasons(f)


def test_calls_without_a_backward_lend_nothing(recorder):
    """Their recordings share memory: a replay of another one would overwrite what is lent."""
    f = automatic(lambda x: torch.sin(x) * 2, recorder)
    x = randn(ROWS, 512)
    for _ in range(2 * SOON):
        y = f(x)
        del y
    held, replays = f(x), counts(f)[1]
    was = held.clone()
    x.mul_(2)
    f(x)
    assert counts(f)[1] == replays + 1 and not reasons(f)
    torch.testing.assert_close(held, was, rtol=0, atol=0)


def test_results_without_a_backward_outlive_calls_of_others():
    weights = [randn(64, 64) / 8 for _ in range(24 if ON_GPU else 2)]

    def chain(x):
        for w in weights:
            x = torch.relu(x @ w)
        return x

    x = randn(8192, 64)
    programs = [automatic(chain), automatic(lambda x: chain(x) * 2), automatic(lambda x: chain(x + 1))]
    with torch.no_grad():
        for f in programs:
            for _ in range(2 * SOON):
                y = f(x)
                del y
        for f in programs:
            y = f(x)
            was = y.clone()
            for g in programs:
                g(x)
            torch.testing.assert_close(y, was, rtol=0, atol=0)


def test_memory_that_loans_pin_is_no_reason_for_ever(pair, recorder):
    eager, f, module = pair(recorder)
    compare(eager, f, module, 2 * SOON)
    module.zero_grad()
    loss, scores = f(randn(ROWS, 8))
    loss.backward()
    held = scores.detach()
    del loss, scores
    free, recorder.free = recorder.free, 0
    compare(eager, f, module, SOON)
    before = counts(f)
    recorder.free = free
    del held
    compare(eager, f, module, SOON)
    assert counts(f)[0] == before[0] + 2 and counts(f)[1] > before[1]


def test_a_function_that_goes_leaves_its_loans():
    eager, module = WithScores().to(DEVICE), WithScores().to(DEVICE)
    module.load_state_dict(eager.state_dict())
    f = automatic(module)
    compare(eager, f, module, 2 * SOON)
    loss, scores = f(randn(ROWS, 8))
    was = scores.detach().clone()
    scores = scores.detach()
    del loss, f
    gc.collect()
    torch.randn(1 << 22, device=DEVICE)
    torch.testing.assert_close(scores, was, rtol=0, atol=0)


def test_other_streams_end_loans(pair, recorder):
    eager, f, module = pair(recorder)
    compare(eager, f, module, 2 * SOON)
    assert not reasons(f)
    recorder.other_streams = True
    compare(eager, f, module, 2 * SOON)
    assert "results are copied: other streams are used beside the current one" in reasons(f)


STREAMS = """
import torch, thunder
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(20))).cuda()
f = thunder.jit(model)
x = torch.randn(32, 64, device="cuda")

def why(steps=20):
    for _ in range(steps):
        model.zero_grad()
        f(x).square().mean().backward()
    return "; ".join(thunder.compile_stats(f)["graphs"]["why"])

assert not why(), why()
before = thunder.compile_stats(f)["graphs"]["replays"]
assert not why() and thunder.compile_stats(f)["graphs"]["replays"] == before + 40
stream = torch.cuda.Stream(priority=PRIORITY)
assert why() == "results are copied: other streams are used beside the current one", why()
"""


@pytest.mark.gpu
@pytest.mark.parametrize("priority", [0, -1])
def test_a_stream_that_somebody_takes_is_noticed(priority):
    """In a process of its own: in this one other tests take streams."""
    run = subprocess.run(
        [sys.executable, "-c", STREAMS.replace("PRIORITY", str(priority))], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
