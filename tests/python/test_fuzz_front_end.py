"""A slice of the fuzzer's programs, always the same."""

import fuzz_front_end
import fuzzing
from fuzz_front_end import FUZZER, Maker


def test_random_programs_are_eagers():
    findings = []
    ends = fuzzing.fuzz(FUZZER, 0, 150, findings.append)
    assert not findings, "\n".join(findings)
    assert ends["hits"] > 40 and ends["same"] > 75, ends  # they are programs that run, and are found again


def test_a_finding_is_reported_small(monkeypatch):
    """If compiled lost every append: which program shows it, with nothing else in it."""
    program = next(p for p in map(Maker.made, range(99)) if "ks.append(" in p.source())
    run = fuzz_front_end.call

    def wrong(world, f, step, x):
        run(world, f, step, x)
        if not hasattr(f, "__code__"):
            world.names.get("ks", []).clear()

    monkeypatch.setattr(fuzz_front_end, "call", wrong)
    error, _ = fuzzing.finding(FUZZER, program)
    small, error = fuzzing.minimise(FUZZER, program, error)
    assert ".ks: lengths 1 and 0" in str(error)
    assert len(small.steps) == 1 and len(small.body) + len(small.steps[0].changes) == 1 and len(small.parts) <= 2
