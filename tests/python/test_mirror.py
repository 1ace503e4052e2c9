"""Each header of csrc/core has a file of C++ tests of its own, under its name."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests/cpp/core"
# Headers whose tests stand elsewhere, each with the reason.
EXCEPTIONS: dict[str, str] = {}
MOST_EXCEPTIONS = 3

HEADERS = sorted(p.stem for p in (ROOT / "csrc/core").glob("*.h"))


@pytest.mark.parametrize("header", [h for h in HEADERS if h not in EXCEPTIONS])
def test_a_header_has_tests(header):
    path = TESTS / f"{header}_test.cpp"
    assert path.exists(), f"csrc/core/{header}.h has no tests/cpp/core/{header}_test.cpp"
    text = path.read_text()
    assert f'#include "core/{header}.h"' in text, f"{path.relative_to(ROOT)} does not include what it tests"
    assert "TEST_CASE(" in text, f"{path.relative_to(ROOT)} has no test case"


def test_exceptions_are_few_and_needed():
    assert HEADERS  # a moved folder is no mirror
    assert len(EXCEPTIONS) <= MOST_EXCEPTIONS
    for header, reason in EXCEPTIONS.items():
        assert reason
        assert header in HEADERS, f"{header}.h is gone"
        assert not (TESTS / f"{header}_test.cpp").exists(), f"{header}.h has tests: it is no exception"
