// Conditions of elements that may lie outside of what they are made of.
#include <doctest.h>

#include "fuser/parsed_program.h"

namespace thunder::test {
namespace {

using fuser::LowerOptions;

bool any_has(const std::vector<std::string>& statements, const std::string& text) {
  return std::any_of(statements.begin(), statements.end(),
                     [&](const std::string& s) { return s.find(text) != std::string::npos; });
}

fuser::Kernel padded(const std::string& config, const std::string& shape) {
  return ParsedProgram("  # a: \"cpu f32[3, 40]\"\n  t1 = prims.pad(a, 0.0, " + config + ")  # t1: \"cpu f32" + shape +
                           "\"\n  return t1\n",
                       "a")
      .lower({.split_rows = LowerOptions::SplitRows::Always})
      .value();
}

TEST_CASE("lower: whether a row is padding is asked once a row") {
  const fuser::Kernel both = padded("[[1, 1, 0], [2, 3, 0]]", "[5, 45]");
  CHECK(both.rows == 5);
  CHECK(any_has(both.phases[0].row, "const bool t0 = !(r < 1) && r < 4;"));
  CHECK(any_has(both.phases[0].chunk, "const bool t1 = t0 && !(q < 2) && q < 42;"));
  SUBCASE("rows alone") {
    const fuser::Kernel rows = padded("[[1, 0, 0], [0, 0, 0]]", "[4, 40]");
    CHECK_FALSE(any_has(rows.phases[0].chunk, "const bool"));
  }
  SUBCASE("columns alone") {
    const fuser::Kernel columns = padded("[[0, 0, 0], [0, 5, 0]]", "[3, 45]");
    CHECK(columns.phases[0].row.empty());
    CHECK(any_has(columns.phases[0].chunk, "const bool t0 = q < 40;"));
  }
}

}  // namespace
}  // namespace thunder::test
