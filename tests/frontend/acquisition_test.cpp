// Acquisition (frontend/acquisition.h): what all parts share.
#include "frontend/acquisition.h"

#include "core/out_of_bounds.h"
#include "fake_torch.h"

namespace thunder::frontend::test::acquisition_test {

struct Answers : SizeAnswers {
  Answers(ShapeEnv& env, int64_t answer) : env(env), answer(answer) {}
  bool find(SymbolId s, Need) override {
    ++asked;
    env.set_hint(s, answer);
    return true;
  }
  ShapeEnv& env;
  int64_t answer;
  int asked = 0;
};

struct Fixture {
  FakeTorch torch;
  Acquisition acquisition;
  Builder& b = acquisition.builder();
  Value input(DType dtype = DType::f32) { return b.input(tensor_type({2}, {1}, dtype)); }
};

TEST_CASE_FIXTURE(Fixture, "Acquisition: one of a program of its own") {
  CHECK(acquisition.owns_program());
  CHECK_FALSE(acquisition.metadata_only());
  CHECK(acquisition.records_program());
  CHECK(acquisition.arena() == b.arena());
  CHECK(acquisition.location().empty());
  CHECK_FALSE(acquisition.eager);
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: calls are recorded at the user's line") {
  const Value x = input();
  acquisition.located([&] { b("torch.relu", x); });
  CHECK(acquisition.location().find("run.py:") != std::string::npos);
  REQUIRE(b.calls().size() == 1);
  REQUIRE(b.calls()[0]->location != nullptr);
  CHECK(b.calls()[0]->location->function == "main");
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: an error names the line, and stays of its kind") {
  try {
    acquisition.located([] { throw Error(ErrorKind::Index, "[add] wrong"); });
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Index);
    CHECK(std::string(e.what()).starts_with("[add] wrong\n  at "));
  }
  CHECK_THROWS_AS(acquisition.located([] { throw OutOfBounds("[select] wrong"); }), OutOfBounds);
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: the sizes of the program are current while something is recorded") {
  CHECK(ShapeEnv::current() == nullptr);
  CHECK(acquisition.located([&] { return ShapeEnv::current() == &acquisition.shapes(); }));
  CHECK_THROWS(acquisition.located([] { throw Error(ErrorKind::Value, "wrong"); }));
  CHECK(ShapeEnv::current() == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: a comparison runs something only where answers were asked for") {
  Answers answers(acquisition.shapes(), 5);
  acquisition.answers = &answers;
  const Dim u = acquisition.shapes().make_symbol(std::nullopt);
  CHECK_THROWS_AS(acquisition.located([&] { return u == Dim(5); }), Error);
  CHECK(answers.asked == 0);
  CHECK(acquisition.located_with_answers([&] { return u == Dim(5); }));
  CHECK(answers.asked == 1);
  CHECK(acquisition.located([&] { return u == Dim(5); }));  // it is known by now
  CHECK(answers.asked == 1);
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: what is recorded within a comparison that asks does not ask") {
  Answers answers(acquisition.shapes(), 5);
  acquisition.answers = &answers;
  const Dim u = acquisition.shapes().make_symbol(std::nullopt);
  acquisition.located_with_answers([&] {
    CHECK(ShapeEnv::Scope::answers() == &answers);
    acquisition.located([&] { CHECK(ShapeEnv::Scope::answers() == nullptr); });
    CHECK(ShapeEnv::Scope::answers() == &answers);
    return 0;
  });
  CHECK(ShapeEnv::Scope::answers() == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: guards have the user's line") {
  const Dim s = acquisition.shapes().make_symbol(5);
  CHECK(acquisition.located([&] { return s == Dim(5); }));
  REQUIRE(acquisition.shapes().guards().size() == 1);
  CHECK(acquisition.shapes().guards()[0].where == acquisition.location());
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: one of another's builder takes that program's sizes, answers and line") {
  Acquisition borrowed(b, /*metadata_only=*/true);
  CHECK_FALSE(borrowed.owns_program());
  CHECK(borrowed.metadata_only());
  CHECK_FALSE(borrowed.records_program());
  CHECK(borrowed.arena() == acquisition.arena());
  Answers answers(acquisition.shapes(), 5);
  const ShapeEnv::Scope scope(acquisition.shapes(), &answers);
  borrowed.located([&] {
    CHECK(ShapeEnv::current() == &acquisition.shapes());
    CHECK(ShapeEnv::Scope::answers() == &answers);
  });
  CHECK(b.location() == nullptr);
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: calls of a scope are apart from the program") {
  const Value x = input();
  CHECK(acquisition.scope() == 0);
  acquisition.open_scope();
  const size_t outer = acquisition.scope();
  CHECK_FALSE(acquisition.records_program());
  acquisition.open_scope();
  const size_t inner = acquisition.scope();
  CHECK(inner != outer);
  CHECK(acquisition.is_within(outer));
  CHECK(acquisition.is_within(inner));
  b("torch.relu", x);
  CHECK(acquisition.close_scope().size() == 1);
  CHECK_FALSE(acquisition.is_within(inner));
  CHECK(acquisition.close_scope().empty());
  CHECK(acquisition.records_program());
  CHECK(acquisition.is_within(0));
  acquisition.open_scope();
  CHECK(acquisition.scope() != outer);  // numbers are not used again
  acquisition.close_scope();
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: the function may be left to eager") {
  const Ref t = tensor({2});
  try {
    acquisition.leave_to_eager("the function does something", t.get(), /*warns=*/true);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::NotImplemented);
    CHECK(std::string(e.what()) == "[jit] the function does something");
  }
  REQUIRE(acquisition.eager);
  CHECK(acquisition.eager->why == "the function does something");
  CHECK(acquisition.eager->tensor.get() == t.get());
  CHECK(acquisition.eager->warns);
  acquisition.located([] {});
  CHECK_THROWS(acquisition.leave_to_eager("again"));
  CHECK(acquisition.eager->why == "again, at " + acquisition.location());
}

TEST_CASE_FIXTURE(Fixture, "Acquisition: gradients begin at a new leaf") {
  const Value x = input(), leaf = acquisition.new_leaf(x), n = input(DType::i64);
  CHECK(leaf.requires_grad());
  CHECK(acquisition.is_new_leaf(leaf));
  CHECK_FALSE(acquisition.is_new_leaf(x));
  acquisition.add_new_leaf(x);
  CHECK(acquisition.is_new_leaf(x));
  CHECK_THROWS_AS(acquisition.new_leaf(n), Error);
}

}  // namespace thunder::frontend::test::acquisition_test
