"""A slice of the random programs over tensors, always the same; `python tests/python/fuzz.py` runs others."""

import dataclasses

import fuzz
import fuzzing
import torch
from fuzz import FUZZER, Maker

import thunder


def test_random_programs_are_eagers():
    findings = []
    ends = fuzzing.fuzz(FUZZER, 0, 150, findings.append)
    assert not findings, "\n".join(findings)
    assert ends["same"] > 90 and ends["hits"] > 60 and ends["raised"] > 20, ends


def test_a_program_is_the_same_each_time():
    assert str(Maker.made(7)) == str(Maker.made(7)) != str(Maker.made(8))


def test_a_finding_is_reported_small(monkeypatch):
    """If compiled lost every add_(): which program shows it, with little else in it."""
    program = next(p for p in map(Maker.made, range(500)) if ".add_(" in p.source() and not FUZZER.run(p).refusal)
    source = fuzz.Program.source
    jit = thunder.jit

    def wrong(fn, **options):
        scope = dict(fn.__globals__)
        exec(source(wrong.program).replace(".add_(", ".add("), scope)
        compiled = jit(scope["f"], **options)
        return lambda *args: (scope.update(p=fn.__globals__["p"]), compiled(*args))[1]

    def run(candidate):
        wrong.program = candidate
        monkeypatch.setattr(thunder, "jit", wrong)
        monkeypatch.setattr(thunder, "cache_hits", lambda fn: 0)
        try:
            return fuzz.Run(candidate)
        finally:
            monkeypatch.undo()

    fuzzer = dataclasses.replace(FUZZER, run=run)
    error, _ = fuzzing.finding(fuzzer, program)
    if error is None:  # what the add_() wrote to is nobody's result
        return
    small, _ = fuzzing.minimise(fuzzer, program, error)
    assert ".add_(" in small.source() and len(small.calls) == 1 and len(small.body) <= len(program.body)
    assert torch.is_grad_enabled()
