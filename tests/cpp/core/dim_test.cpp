// Sizes: integers, polynomials over symbols, and what comparisons decide and record.
#include "core/dim.h"

#include <doctest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/errors.h"
#include "fuzz/random.h"

namespace thunder {
namespace {

// The message of the error, which is of the user's kind.
std::string error_of(const std::function<void()>& f) { return test::error_of(ErrorKind::Runtime, f); }

std::vector<std::string> texts(const std::vector<DimGuard>& guards) {
  std::vector<std::string> out;
  for (const DimGuard& g : guards) out.push_back(g.str());
  return out;
}

using Texts = std::vector<std::string>;

SymbolId id(const Dim& symbol) { return symbol.symbols().at(0); }

/// An environment with two hinted symbols and two that only a run can tell.
struct Symbols {
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Dim s = env.make_symbol(6, "s"), t = env.make_symbol(5, "t");
  Dim u = env.make_symbol(std::nullopt, "u"), v = env.make_symbol(std::nullopt, "v");
};

// ---- integers -------------------------------------------------------------------------------------------------------

TEST_CASE("dim: constants are integers") {
  const Dim a = 7, b = -2;
  CHECK(a.is_constant());
  CHECK((a + b).constant() == 5);
  CHECK((a - b).constant() == 9);
  CHECK((a * b).constant() == -14);
  CHECK((-a).constant() == -7);
  CHECK(Dim().constant() == 0);
  CHECK(a.specialize() == 7);
  Dim c = 3;
  c += 4;
  c -= 2;
  c *= -5;
  CHECK(c.constant() == -25);
  CHECK((b < a && a > b && a >= 7 && a <= 7 && a != b && a == 7));
  CHECK_FALSE((a < 7 || a > 7 || a < b || b >= a));
  CHECK(max(a, b).constant() == 7);
  CHECK(min(a, b).constant() == -2);
}

TEST_CASE("dim: quotients and remainders of constants are Python's") {
  const auto check = [](int64_t a, int64_t b, int64_t quotient, int64_t remainder, int64_t up) {
    CAPTURE(a);
    CAPTURE(b);
    CHECK(floordiv(a, b).constant() == quotient);
    CHECK(mod(a, b).constant() == remainder);
    CHECK(ceildiv(a, b).constant() == up);
  };
  check(7, 2, 3, 1, 4);
  check(-7, 2, -4, 1, -3);
  check(7, -2, -4, -1, -3);
  check(-7, -2, 3, -1, 4);
  check(6, 3, 2, 0, 2);
  check(-6, 3, -2, 0, -2);
  check(0, 5, 0, 0, 0);
  check(1, 5, 0, 1, 1);
}

TEST_CASE("dim: a division by zero is an error, of symbols too") {
  Symbols d;
  CHECK(error_of([] { floordiv(7, 0); }) == "[size] division of 7 by zero");
  CHECK(error_of([] { mod(0, 0); }) == "[size] division of 0 by zero");
  CHECK(error_of([&] { floordiv(d.s + 1, 0); }) == "[size] division of s + 1 by zero");
  CHECK(error_of([&] { mod(d.u, 0); }) == "[size] division of u by zero");
  CHECK(error_of([&] { floordiv(6, d.s).substitute([](SymbolId) { return Dim(0); }); }) ==
        "[size] division of 6 by zero");
}

TEST_CASE("dim: what does not fit into 64 bits is an error") {
  Symbols d;
  const Dim most = std::numeric_limits<int64_t>::max(), big = int64_t{1} << 62;
  CHECK(error_of([&] { most + 1; }) == "[size] 9223372036854775807 + 1 is too large for a symbolic integer");
  CHECK(error_of([&] { big * 4; }) == "[size] 4611686018427387904 * 4 is too large for a symbolic integer");
  CHECK(error_of([&] { (void)(d.s * big * 2); }) ==
        "[size] 4611686018427387904 * 2 is too large for a symbolic integer");
  CHECK(error_of([&] { (void)(d.s * big + d.s * big); }) ==
        "[size] 4611686018427387904 + 4611686018427387904 is too large for a symbolic integer");
  CHECK((most - 1 + 1).constant() == most.constant());
  const Dim least = std::numeric_limits<int64_t>::min();
  CHECK(error_of([&] { -least; }) == "[size] -9223372036854775808 * -1 is too large for a symbolic integer");
  CHECK(error_of([&] { (void)-(d.s * least); }) ==
        "[size] -9223372036854775808 * -1 is too large for a symbolic integer");
  CHECK(error_of([&] { 0 - least; }) == "[size] 0 - -9223372036854775808 is too large for a symbolic integer");
  CHECK(error_of([&] { floordiv(least, -1); }) ==
        "[size] -9223372036854775808 // -1 is too large for a symbolic integer");
}

TEST_CASE("dim: what fits into 64 bits is computed, by way of the least integer too") {
  Symbols d;
  const Dim most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  CHECK((-1 - least).same(most));
  CHECK((-most - 1).same(least));
  CHECK((least - least).same(0));
  CHECK(mod(least, -1).same(0));
  CHECK(mod(least, most).same(most - 1));
  CHECK(mod(most, least).same(-1));
  CHECK(mod(least, 3).same(1));
  CHECK(floordiv(least, 1).same(least));
  CHECK(floordiv(least, 3).same(-3074457345618258603));
  // No polynomial is the quotient, which is too large but for 0.
  const Dim quotient = floordiv(d.s * least, -1);
  CHECK(quotient.substitute([](SymbolId) { return Dim(0); }).same(0));
  CHECK(error_of([&] { quotient.substitute([](SymbolId) { return Dim(1); }); }) ==
        "[size] -9223372036854775808 // -1 is too large for a symbolic integer");
  CHECK(floordiv(d.s * least, d.s).same(least));
  CHECK(mod(d.s * least, -1).substitute([](SymbolId) { return Dim(1); }).same(0));
}

// ---- the normal form ------------------------------------------------------------------------------------------------

TEST_CASE("dim: equal polynomials have the same form") {
  Symbols d;
  CHECK(((d.s + 1) * 2).same(2 * d.s + 2));
  CHECK((d.s * d.t).same(d.t * d.s));
  CHECK(((d.s + d.t) * (d.s - d.t)).same(d.s * d.s - d.t * d.t));
  CHECK((d.s - d.s).is_constant());
  CHECK((d.s * 0 + 3).same(3));
  CHECK((-(-d.s)).same(d.s));
  CHECK((floordiv(d.s, 4) + d.t).same(d.t + floordiv(d.s, 4)));
  CHECK_FALSE(d.s.same(d.t));
  CHECK_FALSE(d.s.same(6));
  CHECK_FALSE(floordiv(d.s, 4).same(floordiv(d.s, 3)));
  CHECK_FALSE(floordiv(d.s, 4).same(mod(d.s, 4)));
  CHECK(d.env.guards().empty());
}

TEST_CASE("dim: a quotient that is exact for all values is computed") {
  Symbols d;
  CHECK(floordiv(4 * d.s + 2, 2).same(2 * d.s + 1));
  CHECK(floordiv(6 * d.s * d.t, 3 * d.t).same(2 * d.s));
  CHECK(floordiv(d.u, d.u).same(1));
  CHECK(floordiv(0, d.u).same(0));
  CHECK(floordiv(d.s, -1).same(-d.s));
  CHECK(floordiv(d.s, 1).same(d.s));
  CHECK(mod(4 * d.s + 2, 2).same(0));
  CHECK(mod(d.s * d.t, d.t).same(0));
  CHECK(floordiv(4 * d.s + 1, 2).str() == "((4*s + 1) // (2))");
  CHECK(mod(d.s, d.t).str() == "((s) % (t))");
  CHECK(ceildiv(4 * d.s, 2).same(2 * d.s));
}

TEST_CASE("dim: printed as a Python expression") {
  Symbols d;
  CHECK(Dim(-3).str() == "-3");
  CHECK(d.s.str() == "s");
  CHECK((2 * d.s + 1).str() == "2*s + 1");
  CHECK((-d.s - 2).str() == "-s - 2");
  CHECK((d.s * d.t * 3 - d.s).str() == "3*s*t - s");
  CHECK((d.s * d.s).str() == "s*s");
  CHECK((2 * floordiv(d.s + 1, d.t)).str() == "2*((s + 1) // (t))");
  CHECK(max(d.u, d.v + 1).str() == "max(u, v + 1)");
  CHECK(min(d.u, 4).str() == "min(u, 4)");
  const Dim least = std::numeric_limits<int64_t>::min();
  CHECK((d.s * least).str() == "-9223372036854775808*s");
  CHECK((d.s + least).str() == "s + -9223372036854775808");
  CHECK((2 * d.s + 1).str([](SymbolId) { return std::string("n"); }) == "2*n + 1");
  CHECK(floordiv(d.s, 2).str([](SymbolId) { return std::string("n"); }) == "((n) // (2))");
  CHECK(cat(d.s + 1) == "s + 1");
}

TEST_CASE("dim: symbols, each once, those inside quotients too") {
  Symbols d;
  CHECK(Dim(3).symbols().empty());
  CHECK(d.s.symbols() == std::vector<SymbolId>{id(d.s)});
  CHECK((d.s * d.s + 2 * d.s).symbols() == std::vector<SymbolId>{id(d.s)});
  std::vector<SymbolId> found = (floordiv(d.s, d.t) + max(d.u, d.v) + d.s).symbols();
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<SymbolId>{id(d.s), id(d.t), id(d.u), id(d.v)});
}

TEST_CASE("dim: substitution, by numbers and by expressions") {
  Symbols d;
  const auto with = [&](Dim for_s, Dim for_t) {
    return [=, s = id(d.s)](SymbolId i) { return i == s ? for_s : for_t; };
  };
  CHECK(Dim(4).substitute(with(1, 1)).same(4));
  CHECK((d.s * d.t + 1).substitute(with(3, -2)).same(-5));
  CHECK(floordiv(d.s, d.t).substitute(with(-7, 2)).same(-4));
  CHECK(mod(d.s, d.t).substitute(with(-7, 2)).same(1));
  CHECK((d.s * 2).substitute(with(d.t + 1, 0)).same(2 * d.t + 2));
  CHECK(floordiv(d.s, d.t).substitute(with(d.u * d.v, d.v)).same(d.u));
  CHECK(max(d.u, d.v).substitute([&](SymbolId i) { return Dim(i == id(d.u) ? 3 : 8); }).same(8));
}

TEST_CASE("dim: random expressions have the values that integers give") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const std::vector<Dim> symbols = {env.make_symbol(std::nullopt), env.make_symbol(std::nullopt)};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    fuzz::Random random(seed);
    const int64_t values[] = {random.between(-9, 9), random.between(-9, 9)};
    const auto value_of = [&](SymbolId i) { return Dim(values[i == id(symbols[1])]); };
    std::vector<std::pair<Dim, int64_t>> made = {{symbols[0], values[0]}, {symbols[1], values[1]}, {3, 3}, {-2, -2}};
    for (int step = 0; step < 5; ++step) {
      const auto [a, x] = random.pick(made);
      const auto [b, y] = random.pick(made);
      const int64_t quotient = y == 0 ? 0 : (x - ((x % y) + y) % y) / y;
      switch (random.below(7)) {
        case 0: made.emplace_back(a + b, x + y); break;
        case 1: made.emplace_back(a - b, x - y); break;
        case 2: made.emplace_back(a * (b + 1 - b), x); break;
        case 3:
          if (y != 0 && !b.same(0)) made.emplace_back(floordiv(a, b), quotient);
          break;
        case 4:
          if (y != 0 && !b.same(0)) made.emplace_back(mod(a, b), x - quotient * y);
          break;
        case 5: made.emplace_back(a * b, x * y); break;
        default: made.emplace_back(-a, -x); break;
      }
      INFO("seed ", seed, ": ", made.back().first.str(), " at ", values[0], ", ", values[1]);
      CHECK(made.back().first.substitute(value_of).constant() == made.back().second);
      if (std::abs(made.back().second) > 1000000) break;
    }
  }
}

// ---- comparisons ----------------------------------------------------------------------------------------------------

TEST_CASE("dim: what the form decides needs no guard and no hint") {
  Symbols d;
  CHECK(d.s + 1 == 1 + d.s);
  CHECK(d.s + 1 != d.s);
  CHECK(d.s < d.s + 1);
  CHECK_FALSE(d.u < d.u);
  CHECK(d.u + 2 > d.u + 1);
  CHECK(d.u >= 0);
  CHECK(d.s + d.u + 1 > 0);
  CHECK(d.s + 3 != 2);
  CHECK(d.env.guards().empty());
  CHECK_FALSE(d.env.assumed());
}

TEST_CASE("dim: a symbol that is 2 at least decides what follows from that without a guard") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Dim s = env.make_symbol(4, "s", 2), t = env.make_symbol(4, "t", 2);
  CHECK(s != 1);
  CHECK(s > 1);
  CHECK(s * t > t);
  CHECK(s * t - t >= 2);
  CHECK(s + t != 3);
  CHECK(env.guards().empty());
  CHECK(s == t);
  CHECK(env.guards().size() == 1);
  CHECK(s.constant() == 4);
  REQUIRE(env.guards().size() == 2);
  CHECK(env.guards()[1].str() == "s == 4");
  CHECK(env.guards()[1].holds([](SymbolId) { return Dim(4); }));
  CHECK(!env.guards()[1].holds([](SymbolId) { return Dim(5); }));
}

TEST_CASE("dim: a symbol without a bound may be 0") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Dim s = env.make_symbol(4);
  CHECK(s > 0);
  CHECK(env.guards().size() == 1);
  CHECK(s >= 0);
  CHECK(env.guards().size() == 1);
}

TEST_CASE("dim: what the hints decide is a guard, recorded once, with the line that asked") {
  Symbols d;
  d.env.location = [] { return "model.py:3"; };
  CHECK(d.s != d.t);
  CHECK(d.s != d.t);
  CHECK(d.s == 6);
  CHECK_FALSE(d.s < d.t);
  CHECK(d.t < 2 * d.s - 6);
  CHECK(texts(d.env.guards()) == Texts{"s != t", "s == 6", "s >= t", "t < 2*s - 6"});
  for (const DimGuard& g : d.env.guards()) {
    CHECK(g.where == "model.py:3");
    CHECK(g.holds([&](SymbolId i) { return Dim(*d.env.hint(i)); }));
  }
}

TEST_CASE("dim: an integer that is needed of a symbol is its hint, and a guard") {
  Symbols d;
  CHECK((d.s * 2 + 1).constant() == 13);
  CHECK(d.t.specialize() == 5);
  CHECK(texts(d.env.guards()) == Texts{"2*s + 1 == 13", "t == 5"});
}

TEST_CASE("dim: an integer that is needed of a length that only a run can tell is an error") {
  Symbols d;
  CHECK(error_of([&] { (d.u + d.s).constant(); }) == "[size] a known integer is needed, got the symbolic size s + u");
  CHECK(error_of([&] { d.u.specialize(); }) ==
        "[size] the program needs the value of u, but that size depends on the values in a tensor and is known only "
        "when the program runs");
  CHECK(d.env.guards().empty());
}

TEST_CASE("dim: a comparison that nobody can decide is an error that says so") {
  Symbols d;
  const std::string tail = ", but that size depends on the values in a tensor and is known only when the program runs";
  CHECK(error_of([&] { (void)(d.u == 5); }) == "[size] the program asks whether u equals 5" + tail);
  CHECK(error_of([&] { (void)(d.u < d.v); }) == "[size] the program asks whether u is less than v" + tail);
  CHECK(error_of([&] { (void)(d.s == d.u); }) == "[size] the program asks whether s equals u" + tail);
}

TEST_CASE("dim: a length that only a run can tell is taken to differ from 0 and 1") {
  Symbols d;
  for (int i : {0, 1}) {
    CHECK(d.u != i);
    CHECK(d.u > i);
    CHECK_FALSE(d.u <= i);
  }
  CHECK(d.u * d.v != 1);
  CHECK(d.u * d.v != d.v);
  CHECK(d.env.assumed());
  CHECK(d.env.guards().empty());
}

TEST_CASE("dim: outside of an environment symbols have no hints") {
  Dim s;
  {
    ShapeEnv env;
    s = env.make_symbol(6, "s");
  }
  CHECK(s != 1);
  CHECK(s == s + 1 - 1);
  CHECK(error_of([&] { (void)(s == 6); }) != "");
  CHECK(error_of([&] { s.constant(); }) != "");
  CHECK(s.str() == "s" + std::to_string(id(s)));
}

TEST_CASE("dim: maximum and minimum decide what they can, and stay as they are otherwise") {
  Symbols d;
  CHECK(max(d.u, d.u + 1).same(d.u + 1));
  CHECK(min(d.u, d.u + 1).same(d.u));
  CHECK(min(d.u, d.u).same(d.u));
  CHECK(max(d.s, 0).same(d.s));
  CHECK(d.env.guards().empty());
  CHECK(max(d.s, d.t).same(d.s));
  CHECK(min(d.s, d.t).same(d.t));
  CHECK(texts(d.env.guards()) == Texts{"s >= t", "t < s"});
  CHECK(max(d.u, 5).str() == "max(u, 5)");
  CHECK(min(d.u, d.s).str() == "min(u, s)");
  CHECK(d.env.guards().size() == 2);
}

TEST_CASE("DimGuard: each relation, as text and as a question") {
  Symbols d;
  const auto at = [](int64_t n) { return [n](SymbolId) { return Dim(n); }; };
  const auto check = [&](DimGuard::Relation relation, const char* text, bool at_2, bool at_3, bool at_4) {
    const DimGuard g{relation, d.s + 1, 4};
    CHECK(g.str() == text);
    CHECK(g.holds(at(2)) == at_2);
    CHECK(g.holds(at(3)) == at_3);
    CHECK(g.holds(at(4)) == at_4);
  };
  check(DimGuard::Equal, "s + 1 == 4", false, true, false);
  check(DimGuard::NotEqual, "s + 1 != 4", true, false, true);
  check(DimGuard::Less, "s + 1 < 4", true, false, false);
  check(DimGuard::GreaterEqual, "s + 1 >= 4", false, true, true);
}

// ---- lists of sizes -------------------------------------------------------------------------------------------------

TEST_CASE("dims: products, text, sameness") {
  Symbols d;
  CHECK(product({}).same(1));
  CHECK(product({2, 3, 4}).same(24));
  CHECK(product({d.s, 0, 4}).same(0));
  CHECK(product({d.s, 2, d.t}).same(2 * d.s * d.t));
  CHECK(str(Dims{}) == "[]");
  CHECK(str(Dims{2}) == "[2]");
  CHECK(str(Dims{2, d.s + 1}) == "[2, s + 1]");
  CHECK(all_constant({}));
  CHECK(all_constant({1, 0}));
  CHECK_FALSE(all_constant({1, d.s}));
  CHECK(same(Dims{}, Dims{}));
  CHECK(same({d.s + d.t, 2}, {d.t + d.s, 2}));
  CHECK_FALSE(same({d.s, 2}, {d.s}));
  CHECK_FALSE(same({d.s, 2}, {2, d.s}));
  CHECK_FALSE(same({d.s}, {6}));
  CHECK(d.env.guards().empty());
}

}  // namespace
}  // namespace thunder
