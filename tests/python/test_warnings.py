"""Warnings of the C++ layers reach Python's `warnings`, once a topic."""

import subprocess
import sys
import threading
import warnings

import pytest

from thunder import _C


def test_a_topic_warns_once():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for message in ("first", "second"):
            _C.warn_once("test_a_topic_warns_once", message)
        _C.warn_once("test_a_topic_warns_once, another", "third")
    assert [(w.category, str(w.message)) for w in seen] == [(RuntimeWarning, "first"), (RuntimeWarning, "third")]


def test_warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="an error now"):
            _C.warn_once("test_warnings_as_errors", "an error now")


def test_from_another_thread():
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest: seen.append(str(message))
        thread = threading.Thread(target=_C.warn_once, args=("test_from_another_thread", "from a thread"))
        thread.start()
        thread.join()
    assert seen == ["from a thread"]


def test_default_filters_show_it():
    code = "from thunder import _C; _C.warn_once('t', 'shown by default')"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "RuntimeWarning: shown by default" in out.stderr
