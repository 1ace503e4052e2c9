"""Each header of csrc/core, and each part of acquisition, has a file of C++ tests of its own, under its name."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def parts_of_acquisition():
    """The headers of the parts, as tools/check_layers.py reads them from the tracer and from the reads."""
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "tools/check_layers.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    order = tool.order_of_parts(ROOT / "csrc")
    return sorted(Path(header).stem for header in order if header not in tool.WHOLES.values())


HEADERS = {
    "core": sorted(p.stem for p in (ROOT / "csrc/core").glob("*.h")),
    "frontend": parts_of_acquisition(),
}
TESTS = {"core": ROOT / "tests/cpp/core", "frontend": ROOT / "tests/frontend"}
# Headers whose tests stand elsewhere, each with their place: what such a part does is seen in programs alone.
EXCEPTIONS = {
    "core": {},
    "frontend": {},
}
MOST_EXCEPTIONS = {"core": 3, "frontend": 3}


def has_tests(layer, header):
    return (TESTS[layer] / f"{header}_test.cpp").exists()


@pytest.mark.parametrize("layer, header", [(l, h) for l, hs in HEADERS.items() for h in hs if h not in EXCEPTIONS[l]])
def test_a_header_has_tests(layer, header):
    path = TESTS[layer] / f"{header}_test.cpp"
    assert path.exists(), f"csrc/{layer}/{header}.h has no {path.relative_to(ROOT)}"
    text = path.read_text()
    assert f'#include "{layer}/{header}.h"' in text, f"{path.relative_to(ROOT)} does not include what it tests"
    assert "TEST_CASE" in text, f"{path.relative_to(ROOT)} has no test case"


@pytest.mark.parametrize("layer", HEADERS)
def test_exceptions_are_few_and_needed(layer):
    assert HEADERS[layer]  # a moved folder is no mirror
    assert len(EXCEPTIONS[layer]) <= MOST_EXCEPTIONS[layer]
    for header, place in EXCEPTIONS[layer].items():
        assert (ROOT / place).exists()
        assert header in HEADERS[layer], f"{header}.h is gone"
        assert not has_tests(layer, header), f"{header}.h has tests: it is no exception"
