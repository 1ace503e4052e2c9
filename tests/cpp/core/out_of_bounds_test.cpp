// The error of an index that no element has.
#include "core/out_of_bounds.h"

#include <doctest.h>

namespace thunder {
namespace {

TEST_CASE("OutOfBounds: an Error of the kind Index, which handlers tell from others") {
  const auto raise = [] { throw OutOfBounds("[index] index 3 is out of bounds"); };
  CHECK_THROWS_AS(raise(), OutOfBounds);
  try {
    raise();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Index);
    CHECK(std::string(e.what()) == "[index] index 3 is out of bounds");
    CHECK(dynamic_cast<const OutOfBounds*>(&e) != nullptr);
  }
  const Error other(ErrorKind::Index, "[index] too many indices");
  CHECK(dynamic_cast<const OutOfBounds*>(&other) == nullptr);
}

}  // namespace
}  // namespace thunder
