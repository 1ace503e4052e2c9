// NotKept (frontend/not_kept.h): the two reasons for which a program is good for one call only.
#include "frontend/not_kept.h"

#include "fake_torch.h"

namespace thunder::frontend::test::not_kept_test {

TEST_CASE("NotKept: at first a program is kept") {
  const NotKept not_kept;
  CHECK_FALSE(not_kept.once());
  CHECK_FALSE(not_kept.why());
}

TEST_CASE("NotKept: the first reason counts, with the place where the code was") {
  NotKept not_kept;
  not_kept.add("calls now()");
  not_kept.add("calls time()");
  REQUIRE(not_kept.why());
  CHECK(not_kept.why()->starts_with("the program calls now()\n  at "));
  CHECK(not_kept.why()->find("run.py") != std::string::npos);
  CHECK_FALSE(not_kept.once());
}

TEST_CASE("NotKept: what was done once and for all is a reason of its own") {
  NotKept not_kept;
  not_kept.add_once("advances an iterator");
  not_kept.add_once("advances another");
  REQUIRE(not_kept.once());
  CHECK(not_kept.once()->starts_with("the program advances an iterator\n  at "));
  CHECK_FALSE(not_kept.why());
}

TEST_CASE("NotKept: a reason may have a place of its own") {
  const Names names("def f(): pass\n");
  NotKept not_kept;
  not_kept.add("calls now()", {Ref::borrow(PyFunction_GET_CODE(names["f"])), 0});
  CHECK(not_kept.why() == "the program calls now()\n  at <test>:1 in f");
}

}  // namespace thunder::frontend::test::not_kept_test
