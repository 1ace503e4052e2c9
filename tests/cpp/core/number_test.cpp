#include "core/number.h"

#include <doctest.h>

#include <cmath>

#include "core/error.h"

using namespace thunder;
using Op = NumberExpr::Op;

namespace {

double apply(Op op, double a, double b) {
  return NumberExpr::binary(op, NumberExpr::constant(a), NumberExpr::constant(b))->evaluate({});
}

}  // namespace

TEST_CASE("number: quotients round down, remainders have the divisor's sign, as Python's") {
  CHECK(apply(Op::FloorDiv, 7, 2) == 3);
  CHECK(apply(Op::FloorDiv, -7, 2) == -4);
  CHECK(apply(Op::FloorDiv, 7, -2) == -4);
  CHECK(apply(Op::FloorDiv, 1, 0.1) == 9);
  CHECK(apply(Op::Mod, -7, 2) == 1);
  CHECK(apply(Op::Mod, 7, -2) == -1);
  CHECK(std::signbit(apply(Op::Mod, 4, -2)));
  CHECK(apply(Op::Div, 1, 4) == 0.25);
  CHECK(apply(Op::Pow, 9, 0.5) == 3);
}

TEST_CASE("number: what Python raises is an error") {
  for (Op op : {Op::Div, Op::FloorDiv, Op::Mod}) CHECK_THROWS_AS(apply(op, 1, 0), Error);
  CHECK_THROWS_AS(apply(Op::Pow, -2, 0.5), Error);
  CHECK_THROWS_AS(apply(Op::Pow, 10, 400), Error);
}

TEST_CASE("number: leaves are taken from the call, or from the hints") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Dim s = env.make_symbol(6, "s", 2);
  NumberPtr f = env.make_number(2.5);
  NumberPtr e = NumberExpr::binary(Op::Mul, NumberExpr::of_size(s + 1), f);
  CHECK(e->str() == "((s + 1) * f0)");
  CHECK(e->hinted(env) == 17.5);
  CHECK(e->evaluate({[](size_t) { return 0.5; }, [](SymbolId) { return Dim(9); }}) == 5);
  CHECK(e->same(*NumberExpr::binary(Op::Mul, NumberExpr::of_size(s + 1), f)));
  CHECK(!e->same(*NumberExpr::binary(Op::Mul, NumberExpr::of_size(s), f)));
}

TEST_CASE("number: specializing is a guard, recorded once, with the line that asked") {
  ShapeEnv env;
  env.location = [] { return "model.py:3"; };
  ShapeEnv::Scope scope(env);
  NumberPtr f = env.make_number(2.5);
  CHECK(env.specialize(f) == 2.5);
  CHECK(env.specialize(f) == 2.5);
  REQUIRE(env.number_guards().size() == 1);
  const NumberGuard& g = *env.number_guards()[0];
  CHECK(g.str() == "f0 == 2.5");
  CHECK(g.where == "model.py:3");
  CHECK(g.holds({[](size_t) { return 2.5; }, nullptr}));
  CHECK(!g.holds({[](size_t) { return 3.5; }, nullptr}));
}
