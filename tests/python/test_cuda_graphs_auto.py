"""graphs="auto", the default: which programs are recorded, when, and that nobody can tell."""

import gc
import warnings

import pytest
import torch
from devices import DEVICE
from graph_checks import ON_GPU, Deep, Net, automatic, close, counts, randn, reasons
from torch import nn

import thunder

SOON = 8  # calls after which a program that pays has been recorded


def stats(f):
    return thunder.compile_stats(f)["graphs"]


def calls(f, n, make=lambda: randn(4)):
    for _ in range(n):
        f(make())


def train(f, module, n=SOON):
    for _ in range(n):
        module.zero_grad()
        f(randn(3, 8)).sum().backward()


def train_and_keep(f, x, n):
    """With output and gradient of a step alive in the next forward, so that they are copies and not loans."""
    for _ in range(n):
        y = f(x)
        x.grad = None
        y.sum().backward()


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


# ---- whether it pays -----------------------------------------------------------------------------------------------


def test_a_program_that_waits_for_the_host_is_recorded(recorder):
    f = automatic(lambda x: torch.sin(x) * 2, recorder)
    for _ in range(SOON):
        x = randn(4)
        close(f(x), torch.sin(x) * 2)
    assert counts(f) == (1, SOON - 3, 3)  # one that loads, two that are timed
    assert stats(f)["bytes"] == 1000 + 16 and stats(f)["why"] == {}


@pytest.mark.skipif(not ON_GPU, reason="measures a GPU")
@pytest.mark.parametrize("size", [4, 4096])
def test_measured_times_decide(size):
    """The small program waits for the host unless other processes use the GPU; the large one never does."""
    f = thunder.jit(lambda x: (x @ x @ x @ x).sin())
    for _ in range(2 * SOON):
        x = randn(size, size)
        torch.testing.assert_close(f(x), (x @ x @ x @ x).sin(), rtol=1e-2, atol=1e-2)
        torch.cuda.synchronize()
    assert stats(f)["captures"] == 1 or "the host" in reasons(f)
    assert size == 4 or stats(f)["captures"] == 0


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({"device_takes": 12000.0}, "the device takes longer"),
        ({"behind": True, "device_takes": 12000.0}, "before the device comes to it"),
        ({"issued": 25.0, "device_takes": 30.0}, "a replay would take the host as long"),
        ({"not_ready": 1 << 30}, "before the device comes to it"),
    ],
    ids=["device", "behind", "short", "never ready"],
)
def test_a_program_that_does_not_is_not(recorder, times, why):
    for name, value in times.items():
        setattr(recorder, name, value)
    f = automatic(torch.sin, recorder)
    calls(f, 80)
    assert stats(f)["captures"] == 0
    assert list(stats(f)["why"].values()) == [1] and why in reasons(f) and reasons(f).startswith("forward: ")
    ungraphed = stats(f)["ungraphed"]
    recorder.issued, recorder.device_takes, recorder.behind, recorder.not_ready = 500.0, 400.0, False, 0
    calls(f, SOON)
    assert counts(f) == (0, 0, ungraphed)  # for good, and nothing is counted any more


@pytest.mark.parametrize("behind", [False, True])
def test_many_short_kernels_are_recorded(recorder, behind):
    """The device does not wait for the host, which issues for more than a tenth of the device's time."""
    recorder.device_takes, recorder.behind = 4000.0, behind
    module = Net()
    f = automatic(module, recorder)
    train(f, module)
    assert counts(f)[0] == 2 and not reasons(f)


def test_short_kernels_of_several_sizes_are_not(recorder):
    recorder.device_takes = 4000.0
    f = automatic(lambda x: (x * 2).cumsum(0), recorder)
    grown(f, [5, 9, 12] * 2 * SOON)
    first_size, others = 1, 2  # the first has a program without symbols
    assert stats(f)["captures"] == first_size
    assert sum(stats(f)["why"].values()) == others and "the device takes longer" in reasons(f)


@pytest.mark.parametrize("elements", [1 << 14, 1 << 23])
def test_copies_that_take_longer_than_short_kernels_save_are_a_reason(recorder, elements):
    """The output, its cotangent and the gradient: 192 KB, 96 MB."""
    recorder.issued, recorder.device_takes = 500.0, 4000.0
    f = automatic(torch.sin, recorder)
    x = randn(elements).requires_grad_()
    train_and_keep(f, x, 2 * SOON)
    small = elements == 1 << 14
    assert counts(f)[0] == (2 if small else 0)
    assert small or "copies of 96 MB would take the device longer than a graph saves" in reasons(f)


def test_forwards_before_the_first_backward_are_not_recorded(recorder):
    """The time of the backward decides as well."""
    recorder.device_takes = 4000.0
    module = Net()
    f = automatic(module, recorder)
    calls(f, 60, lambda: randn(3, 8))
    assert stats(f)["captures"] == 0 and not reasons(f)
    train(f, module)
    assert counts(f)[0] == 2 and not reasons(f)


def test_times_may_come_late_and_the_majority_decides(recorder):
    recorder.not_ready = 3
    f = automatic(torch.sin, recorder)
    calls(f, 2)
    recorder.device_takes = 5000.0  # of the second run that is timed
    calls(f, 1)
    recorder.device_takes = 400.0
    calls(f, 12)
    assert stats(f)["captures"] == 1


@pytest.mark.parametrize("forward_waits", [True, False])
def test_a_backward_follows_its_forward(recorder, forward_waits):
    """The forward's recording holds what is saved until the backward has run."""
    module = Net()
    f = automatic(module, recorder)
    for _ in range(SOON):
        recorder.device_takes = 400.0 if forward_waits else 12000.0
        out = f(randn(3, 8))
        recorder.device_takes = 12000.0 if forward_waits else 400.0
        out.sum().backward()
        module.zero_grad()
    if forward_waits:
        assert counts(f)[:2] == (2, 2 * (SOON - 3)) and not reasons(f)
    else:
        assert counts(f)[:2] == (0, 0)
        assert reasons(f).startswith("forward: the device takes longer")


# ---- what is not recorded ------------------------------------------------------------------------------------------


def test_reasons_of_programs(recorder):
    f = automatic(lambda x: x[x > 0].sum(), recorder)
    calls(f, SOON)
    assert "forward: the host waits for a result of" in reasons(f)
    generator = torch.Generator(DEVICE)
    f = automatic(lambda x: x + torch.rand(4, device=DEVICE, generator=generator), recorder)
    calls(f, SOON)
    assert stats(f)["captures"] == 0 and reasons(f)
    # Numbers of the host's, copied in the first run alone.
    f = automatic(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0], device=DEVICE), recorder)
    calls(f, SOON)
    assert stats(f)["captures"] == 1 and not reasons(f)

    mask = torch.tensor([True, False, True, False], device=DEVICE)
    f = automatic(lambda x: torch.index_put(x, (mask,), torch.ones((), device=DEVICE), accumulate=True), recorder)
    calls(f, SOON)
    assert "the host may wait for the device in" in reasons(f)


def test_values_written_by_a_mask_are_recorded(recorder):
    mask = torch.tensor([True, False, True, False], device=DEVICE)
    f = automatic(lambda x: torch.index_put(x, (mask,), torch.ones((), device=DEVICE)), recorder)
    calls(f, SOON)
    assert stats(f)["captures"] == 1 and not reasons(f)


def test_a_process_in_which_nothing_is_recorded(recorder):
    recorder.refusal = "it is Sunday"
    f = automatic(torch.sin, recorder)
    calls(f, SOON)
    assert stats(f) == {"captures": 0, "replays": 0, "ungraphed": 0, "bytes": 0, "why": {"forward: it is Sunday": 1}}


def test_a_failure_is_a_reason_and_no_warning(recorder):
    recorder.fail = RuntimeError("out of luck")
    f = automatic(torch.sin, recorder)
    calls(f, SOON)
    assert reasons(f) == "forward: recording it failed: out of luck"


def test_on_the_cpu_there_is_a_reason():
    f = thunder.jit(lambda a: a * 2)
    calls(f, 3, lambda: torch.ones(2))
    assert list(stats(f)["why"].values()) == [1] and "which is on cpu" in reasons(f)


def test_the_options():
    x = randn(4)
    with pytest.raises(ValueError, match=r"\[jit\] unknown graphs 'yes'; there are 'auto', True, False"):
        thunder.jit(torch.sin, graphs="yes")
    f = thunder.jit(torch.sin, graphs=False)
    f(x)
    assert "graphs" not in thunder.compile_stats(f)
    module = thunder.jit(nn.Linear(4, 4), graphs=False)
    assert module._options.graphs is False
    g = thunder.jit(lambda x: x.cpu() * 2, graphs=True)
    with pytest.warns(RuntimeWarning, match="runs without a CUDA graph"):
        g(torch.ones(2))


def test_no_caching_records_nothing(recorder):
    f = automatic(torch.sin, recorder, cache="no caching")
    calls(f, SOON)
    assert counts(f) == (0, 0, 0)


# ---- memory --------------------------------------------------------------------------------------------------------


def test_what_a_recording_may_keep(recorder):
    recorder.kept, recorder.total = 300 << 20, 8 * 256 << 20
    f = automatic(torch.sin, recorder)
    calls(f, SOON)
    assert reasons(f) == "forward: it would keep 300 MB, and may keep 256 MB"
    assert stats(f)["captures"] == 1 and stats(f)["bytes"] == 0  # made, and dropped


@pytest.mark.parametrize("what", ["total", "free"])
def test_a_share_of_the_device(recorder, what):
    setattr(recorder, what, 8 * 100_000 if what == "total" else 2 * 100_000)
    f = automatic(lambda x: torch.sort(x).values[:8] * 2, recorder)
    calls(f, SOON, lambda: randn(1 << 16))
    assert stats(f)["captures"] == 0  # what it sorts alone is larger
    assert "it would keep" in reasons(f)


@pytest.mark.parametrize(
    "total, depth, recorded", [(60 << 20, 2, False), (60 << 20, 20, True), (1 << 30, 2, True)],
    ids=["much of a step", "little of a step", "little of the device"],
)
def test_results_that_would_be_in_memory_twice(recorder, total, depth, recorded):
    """Outputs and gradients of 128 KB each, and a step that saves so much `depth` times."""
    recorder.total = total
    x = randn(1 << 15).requires_grad_()

    def chain(x):
        for i in range(depth):
            x = torch.sort(x * i).values
        return x

    f = automatic(chain, recorder)
    train_and_keep(f, x, 2 * SOON)
    assert (stats(f)["captures"] > 0) == recorded
    assert recorded or reasons(f) == "forward: 0 MB of outputs and gradients would be in memory twice"


def test_memory_of_recordings_is_counted_until_they_go(recorder):
    gc.collect()
    f, other = automatic(torch.sin, recorder), automatic(torch.exp, recorder)
    calls(f, SOON)
    calls(other, SOON)
    recorder.total = 9000  # three would keep more than a quarter
    g = automatic(torch.cos, recorder)
    calls(g, SOON)
    assert stats(g)["replays"] == 0 and stats(g)["why"]
    del f
    gc.collect()
    h = automatic(torch.tanh, recorder)
    calls(h, SOON)
    assert stats(h)["replays"]


def test_the_backward_counts_what_the_forward_keeps(recorder):
    module = Net()
    recorder.kept, recorder.total = 200 << 20, 8 * 256 << 20
    f = automatic(module, recorder)
    for _ in range(2 * SOON):
        f(randn(3, 8)).sum().backward()
        module.zero_grad()
    assert stats(f)["captures"] == 2 and stats(f)["bytes"] < 201 << 20
    assert reasons(f).startswith("backward: it would keep 200 MB, and may keep 56 MB")


# ---- sizes ---------------------------------------------------------------------------------------------------------


def grown(f, sizes):
    for n in sizes:
        x = randn(n, 4)
        close(f(x), (x * 2).cumsum(0))


def test_sizes_seen_once_are_not_recorded(recorder):
    f = automatic(lambda x: (x * 2).cumsum(0), recorder)
    grown(f, range(2, 100))
    assert stats(f)["captures"] == 0 and thunder.cache_misses(f) == 2


def test_sizes_that_return_have_recordings(recorder):
    f = automatic(lambda x: (x * 2).cumsum(0), recorder)
    grown(f, [5, 9, 12, 17] * SOON)
    assert counts(f)[0] == 4 and thunder.cache_misses(f) == 2
    before = counts(f)
    grown(f, [12, 5, 17, 9])
    assert counts(f) == (before[0], before[1] + 4, before[2])


MOST_SIZES = 32
PAYS = 16  # replays after which a recording was worth making


def test_no_more_sizes_than_that_at_a_time(recorder):
    f = automatic(lambda x: (x * 2).cumsum(0), recorder)
    for n in range(3, 6 + MOST_SIZES):
        grown(f, [n] * (SOON + PAYS))
    assert stats(f)["captures"] == MOST_SIZES + 3
    assert stats(f)["bytes"] <= (MOST_SIZES + 1) * 1400  # and that of the first program
    before = counts(f)
    grown(f, [MOST_SIZES + 5, MOST_SIZES + 4])
    assert counts(f)[1] == before[1] + 2


def test_sizes_in_turns_do_not_take_the_place_of_others(recorder):
    f = automatic(lambda x: (x * 2).cumsum(0), recorder)
    grown(f, list(range(3, 11 + MOST_SIZES)) * (SOON + 3))
    assert stats(f)["captures"] == MOST_SIZES + 1  # and that of the first program


@pytest.mark.parametrize("in_turns", [True, False], ids=["in turns", "one after the other"])
def test_sizes_share_the_memory(recorder, in_turns):
    recorder.kept, recorder.total = 40_000, 8 * 100_000
    f = automatic(lambda x: (x * 2).cumsum(0), recorder)
    sizes = list(range(20, 25))
    grown(f, [19] * 2)  # a program of its own
    for part in [sizes] if in_turns else [[n] for n in sizes]:
        grown(f, part * (2 * SOON + PAYS))
    # What a recording needs is known once it was made: each of the last three is made in vain once.
    assert stats(f)["captures"] == len(sizes) + (0 if in_turns else 3)
    assert 80_000 <= stats(f)["bytes"] < 82_000  # two, with their results
    assert not stats(f)["why"]  # there may be memory another time
    before = counts(f)
    grown(f, sizes[:2] if in_turns else sizes[-2:])
    assert counts(f)[1] == before[1] + 2


def test_sizes_for_which_it_does_not_pay(recorder):
    f = automatic(lambda x: (x * 2).cumsum(0), recorder)
    for _ in range(2 * SOON):
        for n in (5, 9, 30):
            recorder.device_takes = 9000.0 if n == 30 else 400.0
            grown(f, [n])
    assert stats(f)["captures"] == 2 and list(stats(f)["why"].values()) == [1]


def test_training_with_sizes_that_return(recorder):
    torch.manual_seed(0)
    plain, other = Deep(2), Deep(2)
    other.load_state_dict(plain.state_dict())
    runs = thunder.jit(plain, graphs=False), automatic(other, recorder)
    for n in [3, 5, 8] * 12:
        x = randn(n, 32)
        for run, module in zip(runs, (plain, other), strict=True):
            module.zero_grad()
            run(x).square().sum().backward()
        for p, q in zip(plain.parameters(), other.parameters(), strict=True):
            assert torch.equal(p.grad, q.grad)
    assert counts(runs[1])[0] == 6


def test_a_number_that_changes_is_not_recorded_for(recorder):
    f = automatic(lambda x, s: x * s, recorder)
    for i in range(40):
        x = randn(4)
        close(f(x, 1.5 + i), x * (1.5 + i))
    assert stats(f)["captures"] == 0
    for _ in range(SOON):
        x = randn(4)
        close(f(x, 0.75), x * 0.75)
    assert stats(f)["captures"] == 1


# ---- where arguments lie -------------------------------------------------------------------------------------------

LARGE = 1 << 18  # elements: a megabyte


def test_a_large_argument_that_stays_is_read_where_it_lies(recorder):
    f = automatic(lambda x, table: x + table.sum(), recorder)
    table = randn(LARGE)
    for _ in range(SOON):
        x = randn(4)
        torch.testing.assert_close(f(x, table), x + table.sum())
        table.mul_(0.5)
    assert stats(f)["captures"] == 1 and stats(f)["bytes"] < 2000


def test_it_is_recorded_again_where_it_moves(recorder):
    f = automatic(lambda x, table: x + table.sum(), recorder)
    for table in [randn(LARGE) for _ in range(3)]:
        for _ in range(30):
            x = randn(4)
            torch.testing.assert_close(f(x, table), x + table.sum())
    assert stats(f)["captures"] == 3 and stats(f)["why"] == {}


def test_a_large_argument_that_moves_often_is_copied(recorder):
    f = automatic(lambda x, table: x + table.sum(), recorder)
    tables = [randn(LARGE) for _ in range(2)]
    for i in range(60):
        x, table = randn(4), tables[i // 5 % 2]
        torch.testing.assert_close(f(x, table), x + table.sum())
    assert stats(f)["captures"] <= 4 and stats(f)["bytes"] > 4 * LARGE
    before = counts(f)
    for i in range(10):
        x, table = randn(4), tables[i % 2]
        torch.testing.assert_close(f(x, table), x + table.sum())
    assert counts(f) == (before[0], before[1] + 10, before[2])


def test_one_that_is_too_large_for_that_is_a_reason(recorder):
    f = automatic(lambda x, table: x + table[:4], recorder)
    tables = [torch.zeros(40 << 20, dtype=torch.uint8, device=DEVICE) for _ in range(2)]
    for i in range(60):
        f(randn(4), tables[i % 2])
    assert stats(f)["captures"] == 0
    assert reasons(f) == "forward: 40 MB of arguments would be copied in each call"


@pytest.mark.parametrize("trained", [False, True], ids=["call", "training step"])
def test_copies_that_take_longer_than_the_host_saves_are_a_reason(recorder, trained):
    recorder.issued, recorder.device_takes = 60.0, 70.0
    x = randn(4 << 20).requires_grad_(trained)  # 16 MB of a result, and of a gradient
    f = automatic(torch.sin, recorder)
    if trained:
        train_and_keep(f, x, 2 * SOON)
    else:
        kept = [f(x) for _ in range(2 * SOON)]
        del kept
    assert stats(f)["captures"] == 0
    what = "16 MB of gradients" if trained else "16 MB"
    assert f"copies of {what} would take the device longer than a graph saves" in reasons(f)
    recorder.issued, recorder.device_takes = 600.0, 700.0
    g = automatic(torch.sin, recorder)
    calls(g, 2 * SOON, lambda: x)
    assert stats(g)["captures"] >= 1


def test_another_layout_at_the_same_place(recorder):
    f = automatic(lambda x, n: x.sum(0) * n, recorder, cache="symbolic values")
    memory = randn(2 * LARGE)
    views = [memory[:LARGE].view(512, 512), memory.as_strided((512, 512), (1024, 1))]
    for i in range(40):
        x = views[i // 10 % 2]
        torch.testing.assert_close(f(x, 2), x.sum(0) * 2, rtol=1e-5, atol=1e-4)


# ---- settings that no argument tells -------------------------------------------------------------------------------


def test_settings_of_operators_are_those_of_the_call(recorder):
    f = automatic(torch.sin, recorder)
    calls(f, SOON)
    cudnn = torch.backends.cudnn
    with cudnn.flags(enabled=cudnn.enabled, benchmark=not cudnn.benchmark):
        calls(f, 2)
    assert stats(f)["captures"] == 2


def test_an_argument_that_is_not_aligned(recorder):
    memory = randn(64)
    f = automatic(lambda x: x * 2, recorder)
    for i in range(SOON):
        x = memory[1 + 4 * (i % 3) :][:16]
        close(f(x), x * 2)
    assert stats(f)["replays"]


# ---- writes to tensors of the caller -------------------------------------------------------------------------------


def counting(total, log, x):
    total += x.sum()
    log[0].mul_(2).add_(x)
    return (x * total).sum()


def test_arguments_that_are_written_to_stay_where_they_are(recorder):
    f = automatic(counting, recorder)
    kept = [(torch.zeros((), device=DEVICE), [torch.ones(4, device=DEVICE)]) for _ in range(2)]
    versions = kept[1][0]._version, kept[1][1][0]._version
    for _ in range(2 * SOON):
        x = randn(4)
        close(f(*kept[0], x), counting(*kept[1], x))
        close(kept[0][0], kept[1][0])
        close(kept[0][1][0], kept[1][1][0])
    assert stats(f)["captures"] == 1
    assert kept[1][0]._version > versions[0] and kept[0][0]._version == kept[1][0]._version


def test_others_in_each_call(recorder):
    f = automatic(counting, recorder)
    for _ in range(3 * SOON):
        x = randn(4)
        kept = [(torch.zeros((), device=DEVICE), [torch.ones(4, device=DEVICE)]) for _ in range(2)]
        close(f(*kept[0], x), counting(*kept[1], x))
        close(kept[0][1][0], kept[1][1][0])
    assert stats(f)["replays"]


def test_a_result_that_is_also_written(recorder):
    def program(state, x):
        new = state * 0.5 + x
        state.copy_(new)
        return new, state

    f = automatic(program, recorder)
    state, expected, kept = torch.zeros(4, device=DEVICE), torch.zeros(4, device=DEVICE), []
    for _ in range(2 * SOON):
        x = randn(4)
        new, same = f(state, x)
        assert same is state
        wanted, _ = program(expected, x)
        close(state, wanted)
        kept.append((new, wanted))
    for a, b in kept:
        close(a, b)
    assert stats(f)["replays"]


def test_inference_tensors_are_written_to_in_inference_mode(recorder):
    f = automatic(counting, recorder)
    with torch.inference_mode():
        kept = [(torch.zeros((), device=DEVICE), [torch.ones(4, device=DEVICE)]) for _ in range(2)]
        for _ in range(2 * SOON):
            x = randn(4)
            close(f(*kept[0], x), counting(*kept[1], x))
            close(kept[0][1][0], kept[1][1][0])
    assert stats(f)["replays"]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        f(*kept[0], randn(4))
