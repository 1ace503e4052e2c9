"""A rank that dies, raises, is late or differs: the others say so, soon, and name it."""

import json
import os
import pathlib
import subprocess
import sys

import faults
import models
import pytest
import torch
from torch import distributed
from torch.testing import assert_close

from thunder.distributed import load

HERE = pathlib.Path(__file__).parent
_slow = pytest.mark.slow
STRATEGIES = ["ZERO3", pytest.param("ddp", marks=_slow), pytest.param("ZERO2", marks=_slow)]
WITHIN = 5.0  # seconds, from the event until the others raise
DEADLINE = 60.0  # until all processes are killed


def _slow_of(*values):
    return pytest.param(*values, marks=_slow)


class Outcome:
    """What one process printed, and how it ended."""

    def __init__(self, code, out, err):
        self.code, self.err = code, err
        self.told = [json.loads(line) for line in out.splitlines() if line.startswith('{"what"')]

    def get(self, what):
        return next((t for t in self.told if t["what"] == what), None)

    def __repr__(self):
        return f"exit code {self.code}, {self.told}\n{self.err[-3000:]}"


@pytest.fixture(scope="module")
def server(gloo):
    environment = {**os.environ, "THUNDER_VERIFY": "1"}
    command, pipe = [sys.executable, str(HERE / "faults.py")], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield process
        process.kill()


@pytest.fixture
def run(server, tmp_path):
    def run(case, *args, world=3, timeout=60):
        """An Outcome for each rank. Fails, with all processes killed, if one does not end by the deadline."""
        store = distributed.TCPStore("localhost", 0, None, True, wait_for_workers=False)
        processes = []
        for rank in range(world):
            arguments = [str(a) for a in (rank, world, store.port, timeout, case, *args)]
            processes.append([arguments, *(str(tmp_path / f"{rank}.{kind}") for kind in ("out", "err"))])
        server.stdin.write(json.dumps({"seconds": DEADLINE, "processes": processes}) + "\n")
        server.stdin.flush()
        codes = json.loads(server.stdout.readline())
        texts = [[pathlib.Path(path).read_text() for path in p[1:]] for p in processes]
        outcomes = [Outcome(code, *text) for code, text in zip(codes, texts, strict=True)]
        assert None not in codes, f"ranks without an exit code hang in {case}{args}: {outcomes}"
        return outcomes

    return run


def assert_others_raise(outcomes, parts, record, victim=faults.VICTIM, kind="RuntimeError"):
    """All ranks but one raise, in time, a text with these parts, and end."""
    event = outcomes[victim].get("event")
    assert event is not None, outcomes
    seconds = []
    for rank, outcome in enumerate(outcomes):
        if rank == victim:
            continue
        raised = outcome.get("raised")
        assert raised is not None and raised["kind"] == kind and outcome.code == 1, outcomes
        for part in parts:
            assert part in raised["text"], (part, raised["text"])
        seconds.append(raised["at"] - event["at"])
    record("seconds_until_the_others_raise", max(seconds))
    print("seconds until the others raise:", [round(s, 2) for s in seconds], raised["text"])
    assert max(seconds) < WITHIN, outcomes


@pytest.mark.parametrize("place", ["before the backward", pytest.param("between steps", marks=_slow)])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rank_is_killed(strategy, place, run, record_property):
    outcomes = run("at_a_step", strategy, "kill", place)
    assert outcomes[faults.VICTIM].code == -9
    assert_others_raise(outcomes, ["[distributed] rank 1 failed: it gives no sign of life"], record_property)


@_slow
@pytest.mark.parametrize("victim", [0, 2])
def test_any_rank_may_be_killed(victim, run, record_property):
    outcomes = run("at_a_step", "ZERO3", "kill", "between steps", victim)
    assert_others_raise(outcomes, [f"[distributed] rank {victim} failed: "], record_property, victim)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rank_raises_between_steps(strategy, run, record_property):
    outcomes = run("at_a_step", strategy, "fail", "between steps")
    text = "[distributed] rank 1 failed: ValueError: the file of shard 7 is gone"
    assert_others_raise(outcomes, [text, "faults.py:"], record_property)


@_slow
def test_a_rank_ends_without_a_word(run, record_property):
    outcomes = run("at_a_step", "ZERO2", "fail_alone", "between steps")
    assert_others_raise(outcomes, ["[distributed] rank 1 failed: it gives no sign of life"], record_property)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rank_raises_in_the_program(strategy, run, record_property):
    outcomes = run("at_a_step", strategy, "", "in the program")
    assert "index out of range" in outcomes[faults.VICTIM].get("raised")["text"]
    assert_others_raise(outcomes, ["[distributed] rank 1 failed: ", "index out of range"], record_property)


FORWARD, BACKWARD = "forward", "backward"
MOST, LEAST = 256, 0  # of what is gathered ahead: all, and one bucket
PLACES = [  # where one process fails, and what the others wait for then
    ("ZERO2", "before block 0", LEAST, FORWARD, "all_gather of blocks.1."),
    ("ZERO3", "before block 0", LEAST, FORWARD, "all_gather of blocks.1."),
    ("ZERO3", "before block 2, backward", LEAST, BACKWARD, "all_gather of blocks.0."),
    ("ZERO3", "before block 1, backward", MOST, BACKWARD, "reduce_scatter of "),
    ("ZERO2", "before block 2, backward", MOST, BACKWARD, "reduce_scatter of "),
    ("ZERO2", "before block 0, backward", MOST, BACKWARD, "reduce_scatter of "),
    ("ddp", "before block 2, backward", MOST, BACKWARD, "all_reduce of "),
    ("ddp", "before block 0, backward", MOST, BACKWARD, "all_reduce of "),
]
REASONS = {"kill": "it gives no sign of life", "fail": "the file of shard 7 is gone"}
AT_A_COLLECTIVE = [(*place, event) for place in PLACES for event in REASONS]
AT_A_COLLECTIVE = [a if a == (*PLACES[4], "fail") else _slow_of(*a) for a in AT_A_COLLECTIVE]


def assert_others_wait_for(outcomes, event, what, doing, record, victim=faults.VICTIM):
    """The others raise in time, with what has failed, at this collective."""
    parts = [f"[distributed] rank {victim} failed: ", REASONS[event], f"(while this rank waited for {what}"]
    assert_others_raise(outcomes, parts, record, victim)
    for rank, outcome in enumerate(outcomes):
        assert rank == victim or outcome.get("raised")["doing"] == doing, outcomes
    assert event != "kill" or outcomes[victim].code == -9


@pytest.mark.parametrize("strategy, place, in_flight, doing, what, event", AT_A_COLLECTIVE)
def test_at_a_collective(strategy, place, in_flight, doing, what, event, run, record_property):
    outcomes = run("at_a_collective", strategy, event, place, in_flight)
    assert_others_wait_for(outcomes, event, what, doing, record_property)


IN_A_FUNCTION = [(collective, event) for collective in faults.COLLECTIVES for event in REASONS]
IN_A_FUNCTION = [c if c == ("all_to_all", "fail") else _slow_of(*c) for c in IN_A_FUNCTION]


@pytest.mark.parametrize("collective, event", IN_A_FUNCTION)
def test_in_a_function_that_communicates(collective, event, run, record_property):
    outcomes = run("in_a_function", collective, event)
    assert_others_wait_for(outcomes, event, collective, FORWARD, record_property)


@_slow
@pytest.mark.parametrize("event", REASONS)
@pytest.mark.parametrize("place, doing", [("before the layers", FORWARD), ("behind the layers, backward", BACKWARD)])
def test_in_parallel_layers(place, doing, event, run, record_property):
    outcomes = run("in_parallel_layers", event, place)
    assert_others_wait_for(outcomes, event, "all_reduce", doing, record_property)


@pytest.mark.parametrize(
    "place, what, victim, event",
    [
        ("first wrapping", "the agreement on wrap 0", faults.VICTIM, "fail"),
        _slow_of("second wrapping", "the agreement on wrap 1", faults.VICTIM, "fail"),
        _slow_of("second wrapping", "the agreement on wrap 1", faults.VICTIM, "kill"),
        _slow_of(FORWARD, "rank 0's ", 0, "fail"),
        _slow_of(FORWARD, "rank 0's ", 0, "kill"),
    ],
)
def test_at_an_agreement(place, what, victim, event, run, record_property):
    outcomes = run("at_an_agreement", "ZERO3", event, place)
    assert_others_wait_for(outcomes, event, what, place, record_property, victim)


@_slow
def test_a_rank_is_killed_before_its_first_wrapping(run):
    outcomes = run("at_an_agreement", "ZERO3", "kill", "first wrapping", timeout=5)
    for outcome in (outcomes[0], outcomes[2]):  # it has never given a sign of life: only the timeout tells
        raised = outcome.get("raised")
        assert raised is not None and raised["kind"] == "RuntimeError" and outcome.code == 1, outcomes
        assert "was not reached in 5 s" in raised["text"] and "rank 1 is missing" in raised["text"], outcomes
        assert raised["at"] - outcomes[faults.VICTIM].get("event")["at"] < 5 + WITHIN


@_slow
@pytest.mark.parametrize("event", REASONS)
@pytest.mark.parametrize("call", ["clip_grad_norm_", "sync_grads", "load", "get_model_state_dict"])
def test_at_a_call_outside_of_programs(call, event, run, record_property, tmp_path):
    outcomes = run("at_a_call", call, event, tmp_path / "checkpoint")
    assert_others_wait_for(outcomes, event, "the others", call, record_property)


@_slow
@pytest.mark.parametrize("event", REASONS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_at_a_checkpoint(strategy, event, run, record_property, tmp_path):
    path = tmp_path / "checkpoint"
    outcomes = run("at_a_checkpoint", strategy, event, path)
    assert_others_wait_for(outcomes, event, "the start of ", "save", record_property)
    assert_holds_two_steps(path)


@_slow
@pytest.mark.parametrize("difference", ["shape", "layers"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_another_program_of_the_same_model(strategy, difference, run):
    outcomes = run("other_program", strategy, difference)
    assert all(o.code == 0 and o.get("finished") for o in outcomes), outcomes


@pytest.mark.parametrize("difference", ["kind", _slow_of("size"), _slow_of("fewer")])
def test_another_function(difference, run, record_property):
    assert_all_end(run("other_function", difference), difference == "kind", record_property)


@_slow
@pytest.mark.parametrize("strategy", ["ddp", "ZERO2", "ZERO3"])
def test_another_call_of_the_same_model(strategy, run, record_property):
    outcomes = run("evaluated_by_one", strategy)
    if strategy == "ddp":  # nothing is gathered, so that the call is each process's own
        assert all(o.code == 0 and o.get("finished") for o in outcomes), outcomes
    else:
        assert_all_end(outcomes, strategy == "ZERO2", record_property)


def assert_all_end(outcomes, told, record):
    """Nobody goes on. `told`: all raise what differs; else gloo, which gets more than it expects, ends a process."""
    begun, seconds = max(o.get("event")["at"] for o in outcomes), []
    differs, ends = ["the ranks run different programs", f"rank {faults.VICTIM} "], ["[distributed] rank ", " failed"]
    parts = differs if told else ends
    for outcome in outcomes:
        raised = outcome.get("raised")
        assert not outcome.get("finished"), outcomes
        if raised is None:
            assert not told and outcome.code == -6 and "collective mismatch" in outcome.err, outcomes
            continue
        seconds.append(raised["at"] - begun)
        assert raised["kind"] == "RuntimeError" and outcome.code == 1, outcomes
        assert all(part in raised["text"] for part in parts), (parts, raised["text"])
    assert seconds and max(seconds) < WITHIN, outcomes
    record("seconds_until_the_others_raise", max(seconds))
    print("seconds until all raise:", [round(s, 2) for s in seconds], raised["text"] if raised else "")


@pytest.mark.parametrize(
    "difference, lines",
    [
        ("width", ["single: torch.float64 (1, 8) cpu", "single: torch.float64 (1, 9) cpu"]),
        ("dtype", ["scale: torch.float64 () cpu", "scale: torch.float32 () cpu"]),
        ("strategy", ["FSDPType.ZERO3", "FSDPType.ZERO2"]),
    ],
)
def test_a_rank_has_another_model(difference, lines, run):
    outcomes = run("other_model", "ZERO3", difference)
    for outcome in outcomes:
        raised = outcome.get("raised")
        assert raised is not None and raised["kind"] == "ValueError", outcomes
        for part in ("do not agree", *lines):
            assert part in raised["text"]
        assert raised["at"] - max(o.get("event")["at"] for o in outcomes) < WITHIN
    print(raised["text"])


@_slow
def test_a_rank_never_wraps(run):
    outcomes = run("missing", "ZERO3", timeout=5)
    assert outcomes[faults.VICTIM].get("finished")
    for outcome in (outcomes[0], outcomes[2]):
        raised = outcome.get("raised")
        assert raised is not None and raised["kind"] == "RuntimeError", outcomes
        assert "was not reached in 5 s" in raised["text"] and "rank 1 is missing" in raised["text"]
        assert raised["at"] - outcome.get("event")["at"] < 5 + WITHIN
        print(round(raised["at"] - outcome.get("event")["at"], 2), raised["text"])


@_slow
@pytest.mark.parametrize("strategy, seconds", [("ZERO3", 30), ("ZERO2", 12), ("ddp", 12)])
def test_a_late_rank_is_waited_for(strategy, seconds, run):
    outcomes = run("late", strategy, seconds)
    assert all(o.code == 0 and o.get("finished") for o in outcomes), outcomes
    warnings = [line for o in outcomes for line in o.err.splitlines() if line.startswith("[distributed]")]
    print(warnings)
    assert len(warnings) == 1 and "; rank 1 is " in warnings[0] and "behind" in warnings[0]
    assert outcomes[0].get("finished")["at"] - outcomes[0].get("event")["at"] > seconds


@_slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rank_comes_later_than_the_timeout(strategy, run):
    outcomes = run("late", strategy, 15, timeout=5)
    for rank, outcome in enumerate(outcomes):
        raised = outcome.get("raised")
        assert raised is not None and raised["kind"] == "RuntimeError" and outcome.code == 1, outcomes
        assert "imed out" in raised["text"] or "timeout" in raised["text"], outcomes
        assert "; rank 1 is " in raised["text"] and " behind, " in raised["text"], outcomes
        waited = raised["at"] - outcome.get("event")["at"]
        print(round(waited, 2), raised["text"])
        assert waited < (15 if rank == faults.VICTIM else 5) + WITHIN, outcomes


@pytest.mark.parametrize("strategy", ["ddp", "ZERO3"])
def test_a_group_that_was_destroyed_before_the_first_step(strategy, run):
    for outcome in run("destroyed", strategy, 0, world=2):
        raised = outcome.get("raised")
        assert raised is not None and raised["kind"] == "RuntimeError", outcome
        assert "process group" in raised["text"], outcome
        assert raised["at"] - outcome.get("event")["at"] < WITHIN
    print(raised["text"])


def test_a_group_that_was_destroyed_after_a_step(run):
    outcomes = run("destroyed", "ZERO3", 1, world=2)
    # What was compiled holds the backend, which may serve on; nobody may wait for ever.
    assert all(o.get("finished") or o.get("raised") for o in outcomes), outcomes
    print(outcomes)


@pytest.mark.parametrize("strategy", ["ddp", "ZERO3"])
def test_no_process_group(strategy, run):
    (outcome,) = run("never_initialised", strategy, world=1)
    raised = outcome.get("raised")
    assert raised is not None and raised["kind"] == "RuntimeError", outcome
    assert "there is no process group: call torch.distributed.init_process_group()" in raised["text"]


@_slow
def test_a_checkpoint_outlives_a_crash(run, tmp_path, record_property):
    path = tmp_path / "checkpoint"
    outcomes = run("at_a_step", "ZERO3", "kill", "before the backward", faults.VICTIM, path)
    assert_others_raise(outcomes, ["rank 1 failed"], record_property)
    assert_holds_two_steps(path)


def assert_holds_two_steps(path):
    """A checkpoint, by what one process has after two steps."""
    state = {"model": models.make(seed=5), "step": 0}
    load(state, path)
    expected = models.make()
    optimizer = torch.optim.AdamW(expected.parameters(), 1e-2)
    for n in range(2):
        for batch in models.tokens(n, 3):
            (models.loss_of(expected, batch) / 3).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert state["step"] == 2
    for p, q in zip(state["model"].parameters(), expected.parameters(), strict=True):
        assert_close(p, q, rtol=1e-6, atol=1e-6)
