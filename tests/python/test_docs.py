"""docs/adding_an_op.md says what is so: its code stands in the source, its examples run, a record is enough."""

import contextlib
import doctest
import inspect
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from op_checks import name_of, op_db

import thunder
from thunder import _C

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding_an_op.md"


def shown(language):
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    return block


def test_the_operator_stands_in_the_source_and_is_short():
    source = (ROOT / "csrc/ops/torch/activation.cpp").read_text()
    parts = re.split(r"^ *\.\.\.\n", shown("cpp"), flags=re.M)
    lines = [line for part in parts for line in part.splitlines() if line and line != "constexpr OpDef kRecords[] = {"]
    for part in parts:
        for piece in part.strip("\n").split("\n\n"):
            assert piece in source
    assert len(lines) <= 15


def test_the_examples_run():
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, run = doctest.testfile(str(PAGE), module_relative=False, optionflags=options)
    assert run >= 8 and not failed


def test_everything_follows_from_the_record():
    (record,) = [op for op in _C.ops() if op.name == "torch.softsign"]
    assert (record.aten, record.has_meta, record.has_vjp) == ("", False, False)  # a body is all it has
    symbol = thunder.torch.softsign
    assert list(inspect.signature(symbol).parameters) == ["input"]
    assert record.doc in symbol.__doc__
    assert "nn.functional.softsign" in {name_of(op) for op in op_db}  # test_ops.py makes its tests from these
    page = (ROOT / "docs/reference/torch.md").read_text()
    assert f"### softsign\n\n`{record.schema}`\n\n{record.doc}\n" in page
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        thunder.jit(torch.nn.functional.softsign)(torch.ones(2, dtype=torch.bool))


def test_in_place_and_out_follow_from_the_record():
    """Of an operator that PyTorch has in these forms, too."""
    (record,) = [op for op in _C.ops() if op.name == "torch.frac"]
    assert record.python == ["torch.frac", "torch.Tensor.frac"]

    def f(x, out):
        torch.frac(x, out=out)
        return (x + 1).frac_(), x.frac()

    x, outs = torch.tensor([1.25, -2.5]), [torch.empty(2), torch.empty(2)]
    for got, want in zip(thunder.jit(f)(x, outs[0]), f(x, outs[1]), strict=True):
        torch.testing.assert_close(got, want)
    torch.testing.assert_close(*outs)


def test_the_kernels_of_the_page_are_those_that_are_made():
    page = (ROOT / "docs/reading_kernels.md").read_text()
    programs, kernels = (re.findall(rf"```{language}\n(.*?)```", page, re.S) for language in ("python", "cpp"))
    names = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(programs[0], names)
    assert thunder.last_kernels(names["fn"]).strip() == kernels[0].strip()
    assert programs[1].strip() in str(thunder.last_traces(names["fn"])[-1]).replace("\n  ", "\n")
    exec(programs[2], names)
    assert names["text"].endswith(kernels[1])


def test_reference_pages_are_made_from_the_records():
    command = [sys.executable, ROOT / "tools" / "make_reference.py", "--check"]
    subprocess.run(command, check=True)  # noqa: S603  # our own tool
