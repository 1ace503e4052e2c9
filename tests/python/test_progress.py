"""What a compilation says that takes longer than a second."""

import logging
import os
import pty
import subprocess
import sys
import time

import pytest
import torch

import thunder


def slow(x):
    def pause():
        time.sleep(1.1)

    pause()
    return torch.relu(inner(x))


def inner(x):
    return x * 2


def quick(x):
    return inner(x) + 1


def test_a_log_tells_of_the_phases(caplog):
    caplog.set_level(logging.INFO, logger="thunder")
    thunder.jit(slow)(torch.ones(2))
    messages = [r.getMessage() for r in caplog.records]
    assert messages[0].startswith("slow: acquiring, after 1.")
    assert any(m.startswith("slow: rewriting, after ") for m in messages)
    assert messages[-1].startswith("slow: compiled, ")


def test_what_is_quick_says_nothing(caplog):
    caplog.set_level(logging.INFO, logger="thunder")
    thunder.jit(quick)(torch.ones(2))
    assert not caplog.records


def test_it_can_be_switched_off(caplog):
    caplog.set_level(logging.INFO, logger="thunder")
    thunder.show_progress(False)
    try:
        thunder.jit(slow)(torch.ones(2))
    finally:
        thunder.show_progress(True)
    assert not caplog.records


def test_an_exception_of_the_program_stays(caplog):
    caplog.set_level(logging.INFO, logger="thunder")

    def raises(x):
        slow(x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        thunder.jit(raises)(torch.ones(2))
    assert ".raises: compiled, " in caplog.records[-1].getMessage()


PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import torch, thunder
from test_progress import slow
thunder.jit(slow)(torch.ones(2))
"""


@pytest.mark.parametrize("variable", [{}, {"THUNDER_PROGRESS": "0"}], ids=["on", "off"])
def test_a_terminal_has_a_line_that_goes(variable):
    master, terminal = pty.openpty()
    program = PROGRAM.format(folder=os.path.dirname(__file__))
    subprocess.run([sys.executable, "-c", program], stderr=terminal, env=os.environ | variable, timeout=120, check=True)
    os.close(terminal)
    text = b""
    try:
        while part := os.read(master, 4096):
            text += part
    except OSError:  # the end of a terminal
        pass
    os.close(master)
    if variable:
        assert b"slow" not in text
        return
    assert b"thunder: slow, 1." in text and b"acquiring" in text
    assert text.endswith(b"\r\x1b[K")
