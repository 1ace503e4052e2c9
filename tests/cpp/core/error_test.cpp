// Errors, and the two macros that throw them.
#include "core/error.h"

#include <doctest.h>

#include <vector>

namespace thunder {
namespace {

TEST_CASE("Error: a runtime_error with a kind") {
  const Error e(ErrorKind::Index, "out of range");
  CHECK(e.kind() == ErrorKind::Index);
  CHECK(std::string(static_cast<const std::runtime_error&>(e).what()) == "out of range");
}

TEST_CASE("cat: streams its arguments one after the other") {
  CHECK(cat() == "");
  CHECK(cat("one") == "one");
  CHECK(cat("a", 1, ' ', -2.5, std::string("b")) == "a1 -2.5b");
}

TEST_CASE("join: separators stand between elements only") {
  CHECK(join(std::vector<int>{}) == "");
  CHECK(join(std::vector<int>{7}) == "7");
  CHECK(join(std::vector<int>{1, -2, 3}) == "1, -2, 3");
  CHECK(join(std::vector<std::string>{"", "a", ""}, "+") == "+a+");
}

TEST_CASE("THUNDER_CHECK: names the operator in brackets and carries the kind") {
  const auto check = [](int dim) { THUNDER_CHECK(dim < 2, Index, "sum", "dimension ", dim, " of ", 2); };
  CHECK_NOTHROW(check(1));
  try {
    check(5);
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Index);
    CHECK(std::string(e.what()) == "[sum] dimension 5 of 2");
  }
}

TEST_CASE("THUNDER_CHECK: the message is not made where the condition holds, which is looked at once") {
  int messages = 0, conditions = 0;
  const auto message = [&] { return ++messages; };
  THUNDER_CHECK(++conditions > 0, Value, "op", message());
  CHECK(messages == 0);
  CHECK(conditions == 1);
  CHECK_THROWS_WITH_AS(THUNDER_CHECK(++conditions == 0, Value, "op", message()), "[op] 1", Error);
  CHECK(conditions == 2);
}

TEST_CASE("THUNDER_CHECK and THUNDER_ASSERT are one statement each") {
  const auto run = [](bool first) {
    if (first) THUNDER_CHECK(false, Type, "a", "checked");
    else THUNDER_ASSERT(false, "asserted");
  };
  CHECK_THROWS_WITH_AS(run(true), "[a] checked", Error);
  CHECK_THROWS_WITH_AS(run(false), doctest::Contains("asserted"), Error);
}

TEST_CASE("THUNDER_ASSERT: says that it is a bug, what does not hold, and where") {
  CHECK_NOTHROW(THUNDER_ASSERT(1 + 1 == 2, "arithmetic"));
  try {
    const int size = 3;
    THUNDER_ASSERT(size == 2, "the size is ", size);
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    const std::string message = e.what();
    CHECK(e.kind() == ErrorKind::Internal);
    CHECK(message.starts_with("thunder: internal error, please report it: the size is 3 (size == 2 at "));
    CHECK(message.find("error_test.cpp:") != std::string::npos);
  }
}

}  // namespace
}  // namespace thunder
