// Arithmetic with symbolic sizes that decides nothing.
#include "core/dim_algebra.h"

#include <doctest.h>

#include <limits>
#include <map>

#include "core/error.h"
#include "fuzz/random.h"

namespace thunder {
namespace {

struct Two {
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Dim s = env.make_symbol(6, "s", 2), t = env.make_symbol(5, "t", 1), u = env.make_symbol(std::nullopt, "u");
};

TEST_CASE("least_value: from the least values of symbols, and nothing where terms may go either way") {
  Two d;
  CHECK(least_value(3) == 3);
  CHECK(least_value(d.s) == 2);
  CHECK(least_value(d.u) == 0);
  CHECK(least_value(d.s * d.t * 4 - 1) == 7);
  CHECK(least_value(d.s * d.s - d.s) == 2);
  CHECK(least_value(d.s - d.t) == std::nullopt);
  CHECK(least_value(-d.s) == std::nullopt);
  CHECK(least_value(floordiv(d.s, 4)) == 0);
  CHECK(least_value(mod(d.s, d.t)) == 0);
  CHECK(least_value(floordiv(d.s - d.t, 4)) == std::nullopt);
  CHECK(least_value(floordiv(d.s, 4) - floordiv(d.s, 4) + 1) == 1);
  CHECK(d.env.guards().empty());
}

TEST_CASE("evaluate: without a Dim on the way, and a division by zero is an error") {
  Two d;
  std::map<SymbolId, int64_t> values{{d.s.symbols()[0], 7}, {d.t.symbols()[0], 0}};
  const auto value_of = [&](SymbolId id) { return values.at(id); };
  CHECK(evaluate(d.s * d.s * 2 - 3, value_of) == 95);
  CHECK(evaluate(floordiv(d.s - 10, 2), value_of) == -2);
  CHECK(evaluate(mod(d.s, 4) + max(d.u * 0 + d.s, d.s), value_of) == 10);
  CHECK_THROWS_WITH_AS(evaluate(floordiv(d.s, d.t), value_of), "[size] division of s by zero", Error);
}

TEST_CASE("exact_quotient: a polynomial or nothing, also where the processor would trap") {
  Two d;
  const Dim least = std::numeric_limits<int64_t>::min();
  CHECK(exact_quotient(d.s * d.t * 64, d.s * 8).value().same(d.t * 8));
  CHECK(exact_quotient(d.s * least, d.s).value().same(least));
  CHECK(exact_quotient(d.s * 3, -1).value().same(d.s * -3));
  CHECK_FALSE(exact_quotient(d.s * d.t * 64 + 1, d.s * 8));
  CHECK_FALSE(exact_quotient(d.s * least, -1));
  CHECK_FALSE(exact_quotient(d.s * least, d.s * -1));
  CHECK_FALSE(exact_quotient(d.s, 0));
}

TEST_CASE("divided_terms: what the divisor divides, and the rest") {
  Two d;
  const auto check = [](const Dim& a, const Dim& b, const Dim& quotient, const Dim& rest) {
    const auto [q, r] = divided_terms(a, b);
    CHECK(q.same(quotient));
    CHECK(r.same(rest));
    CHECK((b * q + r).same(a));
  };
  check(d.s * 8 + d.t + 21, 4, d.s * 2 + 5, d.t + 1);
  check(d.s * 8 - 3, 4, d.s * 2 - 1, 1);
  check(d.s * d.t * 6 + d.t * 4 + 1, d.t * 2, d.s * 3 + 2, 1);
  check(0, d.t, 0, 0);
}

TEST_CASE("common_factor: a number times symbols") {
  Two d;
  CHECK(common_factor(d.s * d.t * 6 + d.s * 4, d.s * 8).same(d.s * 2));
  CHECK(common_factor(d.s * d.s * 3, d.s * d.s * 9).same(d.s * d.s * 3));
  CHECK(common_factor(d.s, d.t).same(1));
  CHECK(common_factor(0, d.t * 2).same(d.t * 2));
  CHECK(common_factor(12, 18).same(6));
}

TEST_CASE("usual_value: hints, with another number for what only a run can tell, at most 2^62") {
  Two d;
  CHECK(usual_value(d.s * d.t, 100) == 30);
  CHECK(usual_value(d.u * 2 + 1, 100) == 201);
  CHECK(usual_value(floordiv(d.u, d.t), 100) == 20);
  CHECK(usual_value(d.u * d.u * d.u, int64_t{1} << 40) == int64_t{1} << 62);
  CHECK(d.env.guards().empty());
}

TEST_CASE("dim_algebra: random expressions are what they are defined to be, for random values") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    fuzz::Random random(seed);
    ShapeEnv env;
    ShapeEnv::Scope scope(env);
    std::vector<Dim> symbols;
    std::map<SymbolId, int64_t> values;
    for (int i = 0; i < 3; ++i) {
      const int64_t least = random.below(3);
      symbols.push_back(env.make_symbol(least + 1, {}, least));
      values[symbols.back().symbols()[0]] = least + random.below(6);
    }
    const auto value_of = [&](SymbolId id) { return values.at(id); };
    const auto draw = [&] {
      Dim sum = random.below(3);
      for (int i = 0; i < 3; ++i) {
        Dim term = random.below(7) - 2;
        for (int64_t n = random.below(3); n > 0; --n) term = term * random.pick(symbols);
        sum += term;
      }
      return sum;
    };
    const Dim a = draw(), b = draw();
    const int64_t va = evaluate(a, value_of), vb = evaluate(b, value_of);
    INFO("seed ", seed, ": ", a.str(), ", ", b.str());
    CHECK(evaluate(a * b + a, value_of) == va * vb + va);
    if (const std::optional<int64_t> least = least_value(a)) CHECK(va >= *least);
    if (!b.same(0)) {
      const auto [q, r] = divided_terms(a, b);
      CHECK((q * b + r).same(a));
      if (const std::optional<Dim> exact = exact_quotient(a, b)) CHECK((*exact * b).same(a));
    }
    if (a.same(0) && b.same(0)) continue;
    const Dim g = common_factor(a, b);
    for (const Dim* d : {&a, &b}) {
      const std::optional<Dim> part = exact_quotient(*d, g);
      REQUIRE(part);
      CHECK((*part * g).same(*d));
    }
  }
}

}  // namespace
}  // namespace thunder
