#include "core/dtype_error.h"

#include <doctest.h>

namespace thunder {

TEST_CASE("dtype error: what PyTorch raises a RuntimeError of, which is told from others") {
  CHECK_NOTHROW([] { THUNDER_CHECK_DTYPE(true, "op", "never"); }());
  try {
    THUNDER_CHECK_DTYPE(false, "op", "got dtype ", 3);
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Runtime);
    CHECK(std::string(e.what()) == "[op] got dtype 3");
    CHECK(dynamic_cast<const DTypeError*>(&e) != nullptr);
  }
}

}  // namespace thunder
