"""A slice of the random programs over tensors, always the same; `python tests/python/fuzz.py` runs others."""

import dataclasses
import os
import types

import fuzz
import fuzz_programs
import fuzzing
import pytest
import torch
from fuzz import FUZZER
from fuzz_programs import Maker
from fuzz_watchers import watch

import thunder
from thunder import _C


def test_random_programs_are_eagers():
    findings = []
    ends = fuzzing.fuzz(FUZZER, 0, 150, findings.append)
    assert not findings, "\n".join(findings)
    assert ends["same"] > 90 and ends["hits"] > 45 and ends["raised"] > 20, ends


def watched(seed):
    return watch(Maker.made(seed), seed)


def test_random_programs_under_modes_and_with_other_classes():
    fuzzer, findings = dataclasses.replace(FUZZER, made=watched), []
    ends = fuzzing.fuzz(fuzzer, 0, 100, findings.append)
    assert not findings, "\n".join(findings)
    assert ends["same"] > 70, ends
    _C.set_ignores_watchers(True)
    try:
        fuzzing.fuzz(fuzzer, 0, 30, findings.append, shrink=False)
    finally:
        _C.set_ignores_watchers(False)
    assert len(findings) > 5


def test_a_program_is_the_same_each_time():
    assert str(Maker.made(7)) == str(Maker.made(7)) != str(Maker.made(8))


@pytest.mark.filterwarnings("ignore:(?s).*runs by eager PyTorch")
def test_a_finding_is_reported_small(monkeypatch):
    """If compiled lost every add_(): which program shows it, with little else in it."""
    source = fuzz_programs.Program.source
    jit = thunder.jit

    def run(program):
        def wrong(fn, **options):
            scope = dict(fn.__globals__)
            exec(source(program).replace(".add_(", ".add("), scope)
            compiled = jit(scope["f"], **options)
            return lambda *args: (scope.update(p=fn.__globals__["p"]), compiled(*args))[1]

        monkeypatch.setattr(thunder, "jit", wrong)
        monkeypatch.setattr(thunder, "cache_hits", lambda fn: 0)
        try:
            return fuzz.Run(program)
        finally:
            monkeypatch.undo()

    fuzzer = dataclasses.replace(FUZZER, run=run)
    writes = (p for p in map(Maker.made, range(500)) if ".add_(" in p.source() and not FUZZER.run(p).refusal)
    found = ((p, fuzzing.finding(fuzzer, p)[0]) for p in writes)
    program, error = next((p, e) for p, e in found if e is not None)
    small, _ = fuzzing.minimise(fuzzer, program, error)
    assert ".add_(" in small.source() and len(small.calls) == 1 and len(small.body) <= len(program.body)
    assert torch.is_grad_enabled()


def dies_of_7(seed):
    if seed == 7:
        os._exit(3)
    return types.SimpleNamespace(refusal=None, counts={})


def test_a_program_that_ends_the_process_is_a_finding():
    found = []
    fuzzer = fuzzing.Fuzzer(int, dies_of_7, smaller=range)
    ends = fuzzing.fuzz_in_processes(fuzzer, 5, 6, 2, found.append, True)
    assert found == ["==== --seed 7 --programs 1\n-->  the process ended with 3\n"] and ends["same"] == 5
