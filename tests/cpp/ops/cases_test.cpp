// Operators against what PyTorch answered (cases_*.inc): shapes, strides, dtypes, exceptions.
#include <doctest.h>

#include <span>

#include "ops/case_reader.h"

using namespace thunder::testing;

namespace {

constexpr const char* kAttention[] = {
#include "ops/cases_attention.inc"
};
constexpr const char* kIndex[] = {
#include "ops/cases_index.inc"
};
constexpr const char* kLoss[] = {
#include "ops/cases_loss.inc"
};
constexpr const char* kNn[] = {
#include "ops/cases_nn.inc"
};
constexpr const char* kShape[] = {
#include "ops/cases_shape.inc"
};
constexpr std::span<const char* const> kFamilies[] = {kAttention, kIndex, kLoss, kNn, kShape};

void check_all(bool symbolic) {
  for (std::span<const char* const> family : kFamilies)
    for (const char* row : family) {
      std::string wrong = check_case(read_case(row), symbolic);
      CHECK_MESSAGE(wrong.empty(), std::string(row), " ->", wrong);
    }
}

}  // namespace

TEST_CASE("operators are as eager's") { check_all(false); }
TEST_CASE("operators on symbolic sizes are as on numbers") { check_all(true); }
