// Index and order operators against what PyTorch answered (cases_index.inc): shapes, strides, dtypes, views,
// exceptions.
#include <doctest.h>

#include "ops/case_reader.h"

using namespace thunder::testing;

namespace {
const char* const kCases[] = {
#include "ops/cases_index.inc"
};

void check_all(bool symbolic) {
  for (const char* row : kCases) {
    std::string wrong = check_case(read_case(row), symbolic);
    CHECK_MESSAGE(wrong.empty(), std::string(row), " ->", wrong);
  }
}
}  // namespace

TEST_CASE("index operators are as eager's") { check_all(false); }
TEST_CASE("index operators on symbolic sizes are as on numbers") { check_all(true); }
