"""tools/check_layers.py finds a part of acquisition that includes a later one."""

import importlib.util
import pathlib

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "check_layers.py"

TRACER = """#include "frontend/inputs.h"
#include "frontend/tensors.h"
class Tracer : public Acquisition {
 private:
  Inputs inputs_{*this};
  Tensors tensors_;  // of these inputs
  Reads* observer_ = nullptr;
};
"""
READS = """#include "frontend/write_log.h"
class Reads final : public interpreter::Observer {
  Tracer& tracer_;
  WriteLog log_;
};
"""


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("check_layers", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def csrc(tmp_path):
    """A small copy of what the tool reads: parts `acquisition`, `inputs`, `tensors` and `write_log`."""
    classes = {"acquisition": "Acquisition", "inputs": "Inputs", "tensors": "Tensors", "write_log": "WriteLog"}
    (tmp_path / "frontend").mkdir()
    for name, part in classes.items():
        (tmp_path / f"frontend/{name}.h").write_text(f"class {part} {{\n}};\n")
        (tmp_path / f"frontend/{name}.cpp").write_text(f'#include "frontend/{name}.h"\n')
    (tmp_path / "frontend/tracer.h").write_text(TRACER)
    (tmp_path / "frontend/reads.h").write_text(READS)
    return tmp_path


def add(csrc, name, header):
    path = csrc / f"frontend/{name}"
    path.write_text((path.read_text() if path.exists() else "") + f'#include "frontend/{header}"\n')


def test_the_order_is_that_of_the_members(tool, csrc):
    assert list(tool.order_of_parts(csrc).values()) == [
        "Acquisition",
        "Inputs",
        "Tensors",
        "Tracer",
        "WriteLog",
        "Reads",
    ]
    assert list(tool.problems_of_parts(csrc)) == []


def test_earlier_parts_may_be_included(tool, csrc):
    add(csrc, "tensors.h", "inputs.h")
    add(csrc, "write_log.cpp", "tracer.h")
    assert list(tool.problems_of_parts(csrc)) == []


@pytest.mark.parametrize(
    "name, header, found",
    [
        ("inputs.h", "tensors.h", "frontend/inputs.h comes before frontend/tensors.h"),
        ("inputs.cpp", "tensors.h", "frontend/inputs.h comes before frontend/tensors.h"),
        ("acquisition.h", "inputs.h", "frontend/acquisition.h comes before frontend/inputs.h"),
        ("tensors.h", "tracer.h", "frontend/tensors.h comes before frontend/tracer.h"),
        ("tensors.cpp", "write_log.h", "frontend/tensors.h comes before frontend/write_log.h"),
        ("write_log.h", "reads.h", "frontend/write_log.h comes before frontend/reads.h"),
    ],
)
def test_a_later_part_is_found(tool, csrc, name, header, found):
    add(csrc, name, header)
    problems = list(tool.problems_of_parts(csrc))
    assert len(problems) == 1
    assert problems[0].startswith(f"csrc/frontend/{name}:")
    assert found in problems[0]


def test_a_later_part_behind_a_header_that_is_no_part_is_found(tool, csrc):
    add(csrc, "helper.h", "tensors.h")
    add(csrc, "inputs.h", "helper.h")
    problems = list(tool.problems_of_parts(csrc))
    assert len(problems) == 1
    assert "by way of frontend/helper.h" in problems[0]


def test_further_sources_of_a_part_are_looked_at(tool, csrc):
    """A source belongs to the header that it includes first."""
    add(csrc, "inputs_again.cpp", "inputs.h")
    add(csrc, "inputs_again.cpp", "tensors.h")
    problems = list(tool.problems_of_parts(csrc))
    assert [p.split(":")[0] for p in problems] == ["csrc/frontend/inputs_again.cpp"]


def test_the_parts_of_the_checkout(tool):
    order = tool.order_of_parts(TOOL.parents[1] / "csrc")
    assert list(order)[0] == "frontend/acquisition.h"
    assert list(order)[-1] == "frontend/reads.h"
    assert len(order) >= 38
    assert list(tool.problems_of_parts(TOOL.parents[1] / "csrc")) == []
