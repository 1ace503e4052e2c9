// ShapeEnv (core/dim.h): symbols, what is assumed of them, and who is asked.
#include <doctest.h>

#include <stdexcept>
#include <thread>

#include "core/dim.h"
#include "core/error.h"

namespace thunder {
namespace {

using Texts = std::vector<std::string>;

Texts texts(const std::vector<DimGuard>& guards) {
  Texts out;
  for (const DimGuard& g : guards) out.push_back(g.str());
  return out;
}

SymbolId id(const Dim& symbol) { return symbol.symbols().at(0); }

/// Answers each question with a number, and counts the questions.
struct Oracle : SizeAnswers {
  Oracle(ShapeEnv& env, std::optional<int64_t> answer) : env(env), answer(answer) {}
  bool find(SymbolId s, Need need) override {
    ++asked;
    necessary += need == Need::Necessary;
    if (answer) env.set_hint(s, *answer);
    return answer.has_value();
  }

  ShapeEnv& env;
  std::optional<int64_t> answer;
  int asked = 0, necessary = 0;
};

// ---- symbols --------------------------------------------------------------------------------------------------------

TEST_CASE("ShapeEnv: what a symbol was made with") {
  ShapeEnv env;
  const Dim s = env.make_symbol(6, "batch", 2), made = env.make_symbol(3), u = env.make_symbol(std::nullopt);
  CHECK(env.hint(id(s)) == 6);
  CHECK(env.least(id(s)) == 2);
  CHECK(env.name(id(s)) == "batch");
  CHECK_FALSE(env.is_unbacked(id(s)));
  CHECK(env.least(id(made)) == 0);
  CHECK(env.hint(id(u)) == std::nullopt);
  CHECK(env.is_unbacked(id(u)));
  CHECK(env.name(id(made)) != env.name(id(u)));
  CHECK_FALSE(env.may_be_one(id(s)));
}

TEST_CASE("ShapeEnv: a symbol of another environment is unknown") {
  ShapeEnv env, other;
  const Dim s = other.make_symbol(6, "s", 2);
  CHECK(env.hint(id(s)) == std::nullopt);
  CHECK(env.least(id(s)) == 0);
  CHECK_FALSE(env.is_unbacked(id(s)));
  CHECK_FALSE(env.may_be_one(id(s)));
  CHECK_FALSE(s.same(env.make_symbol(6, "s", 2)));
}

TEST_CASE("ShapeEnv: an unbacked symbol that was found out has a hint and is unbacked still") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim u = env.make_symbol(std::nullopt, "u");
  CHECK_FALSE(env.knows(u + 1));
  env.set_hint(id(u), 4);
  CHECK(env.hint(id(u)) == 4);
  CHECK(env.is_unbacked(id(u)));
  CHECK(env.knows(u + 1));
  CHECK(u == 4);
  CHECK(texts(env.guards()) == Texts{"u == 4"});
}

TEST_CASE("ShapeEnv: symbol_of is one unbacked symbol for what is found and where") {
  ShapeEnv env;
  const int sources[2] = {};
  const Dim u = env.symbol_of("nonzero", &sources[0]);
  CHECK(env.is_unbacked(id(u)));
  CHECK(u.same(env.symbol_of("nonzero", &sources[0])));
  CHECK_FALSE(u.same(env.symbol_of("nonzero", &sources[1])));
  CHECK_FALSE(u.same(env.symbol_of("unique", &sources[0])));
}

TEST_CASE("ShapeEnv: a scope makes one current on this thread, and puts back the one before") {
  CHECK(ShapeEnv::current() == nullptr);
  ShapeEnv outer, inner;
  ShapeEnv::Scope scope(outer);
  {
    ShapeEnv::Scope within(inner);
    CHECK(ShapeEnv::current() == &inner);
    const ShapeEnv* elsewhere = &inner;
    std::thread([&] { elsewhere = ShapeEnv::current(); }).join();
    CHECK(elsewhere == nullptr);
  }
  CHECK(ShapeEnv::current() == &outer);
  try {
    ShapeEnv::Scope within(inner);
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {
  }
  CHECK(ShapeEnv::current() == &outer);
}

TEST_CASE("ShapeEnv: checks that only a run decides are kept as they came") {
  ShapeEnv env;
  env.guard(SizeCheck{[](const auto& value_of) { return value_of(0) == 3; }, "first"});
  env.guard(SizeCheck{[](const auto& value_of) { return value_of(0) == 4; }, "second"});
  REQUIRE(env.checks().size() == 2);
  CHECK(env.checks()[0].text == "first");
  CHECK(env.checks()[0].holds([](SymbolId) { return int64_t{3}; }));
  CHECK_FALSE(env.checks()[1].holds([](SymbolId) { return int64_t{3}; }));
}

// ---- asking ---------------------------------------------------------------------------------------------------------

TEST_CASE("ShapeEnv: who can tell a length is asked where nothing else decides") {
  ShapeEnv env;
  Oracle oracle(env, 5);
  ShapeEnv::Scope scope(env, &oracle);
  const Dim u = env.make_symbol(std::nullopt, "u");
  CHECK(u != 1);
  CHECK(u + 1 > u);
  CHECK(oracle.asked == 0);
  CHECK(u == 5);
  CHECK(oracle.asked == 1);
  CHECK(u < 6);
  CHECK(oracle.asked == 1);
  CHECK(texts(env.guards()) == Texts{"u == 5", "u < 6"});
}

TEST_CASE("ShapeEnv: an integer that cannot be done without is necessary") {
  ShapeEnv env;
  Oracle oracle(env, 5);
  ShapeEnv::Scope scope(env, &oracle);
  CHECK(env.make_symbol(std::nullopt, "u").constant() == 5);
  CHECK(oracle.necessary == 1);
}

TEST_CASE("ShapeEnv: a scope without answers runs nothing") {
  ShapeEnv env;
  Oracle oracle(env, 5);
  ShapeEnv::Scope scope(env);
  const Dim u = env.make_symbol(std::nullopt, "u");
  CHECK(ShapeEnv::Scope::answers() == nullptr);
  CHECK(u != 1);
  CHECK(env.assumed());
  CHECK_THROWS_AS((void)(u == 5), Error);
  CHECK_THROWS_AS((void)u.constant(), Error);
  CHECK_FALSE(env.knows(u));
  CHECK(oracle.asked == 0);
  CHECK(env.guards().empty());
}

TEST_CASE("ShapeEnv: answers are those of the innermost scope, and the scope before gets its own back") {
  ShapeEnv env, other;
  Oracle outer(env, 5), inner(env, 6);
  const Dim u = env.make_symbol(std::nullopt, "u"), v = env.make_symbol(std::nullopt, "v");
  const Dim w = env.make_symbol(std::nullopt, "w");
  const ShapeEnv::Scope scope(env, &outer);
  {
    const ShapeEnv::Scope within(env, &inner);
    CHECK(u == 6);
  }
  CHECK(v == 5);
  {
    const ShapeEnv::Scope without(env);
    CHECK_THROWS_AS((void)(w == 5), Error);
  }
  {
    const ShapeEnv::Scope elsewhere(other, &inner);  // another environment's sizes are not its to find
    CHECK_FALSE(env.knows(w));
  }
  CHECK(outer.asked == 1);
  CHECK(inner.asked == 1);
  CHECK(env.knows(w));
  CHECK(env.hint(id(w)) == 5);
  CHECK(outer.asked == 2);
}

TEST_CASE("ShapeEnv: Asking asks before it assumes") {
  ShapeEnv env;
  Oracle oracle(env, 1);
  ShapeEnv::Scope scope(env, &oracle);
  const Dim u = env.make_symbol(std::nullopt, "u");
  {
    ShapeEnv::Asking asking;
    CHECK(env.asks);
    CHECK(u == 1);
  }
  CHECK_FALSE(env.asks);
  CHECK(oracle.asked == 1);
  CHECK_FALSE(env.assumed());
  CHECK(texts(env.guards()) == Texts{"u == 1"});
}

TEST_CASE("ShapeEnv: Asking assumes what nobody can tell, and is an error where it insists") {
  ShapeEnv env;
  Oracle oracle(env, std::nullopt);
  ShapeEnv::Scope scope(env, &oracle);
  const Dim u = env.make_symbol(std::nullopt, "u");
  {
    ShapeEnv::Asking asking;
    CHECK(u != 1);
    CHECK(oracle.asked > 0);
    CHECK(env.assumed());
    ShapeEnv::Asking insisting(true);
    CHECK(env.insists);
    CHECK_THROWS_AS((void)(u == 1), Error);
    CHECK_THROWS_AS((void)(u < 1), Error);
  }
  CHECK_FALSE(env.insists);
  CHECK(u != 0);
}

TEST_CASE("ShapeEnv: scopes of assumptions do nothing outside of an environment") {
  ShapeEnv::Asking asking(true);
  ShapeEnv::LayingOut laying_out;
  ShapeEnv::Exactly exactly;
  CHECK(ShapeEnv::current() == nullptr);
  CHECK(Dim(1) == 1);
}

// ---- sizes that may be 1 --------------------------------------------------------------------------------------------

TEST_CASE("make_size: taken to differ from 1 in the call where it is 1, too") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_size(1), t = env.make_size(3);
  CHECK(env.may_be_one(id(s)));
  CHECK(env.least(id(s)) == 1);
  CHECK(env.hint(id(s)) == 1);
  CHECK(s != 1);
  CHECK(t != 1);
  CHECK(s * t != t);
  CHECK(env.assumed());
  CHECK(env.guards().empty());
  CHECK(env.taken().size() == 3);
}

TEST_CASE("make_size: it is 1 at least, without a guard") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_size(1);
  CHECK(s != 0);
  CHECK(s > 0);
  CHECK(s >= 1);
  CHECK(env.guards().empty());
  CHECK(env.taken().empty());
}

TEST_CASE("make_size: what was taken becomes a guard where somebody keeps it") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_symbol(1, "unused"), size = env.make_size(4);
  const std::string name = env.name(id(size));
  CHECK(size != 1);
  CHECK(texts(env.taken()) == Texts{name + " != 1"});
  env.keep_taken(0);
  env.exclude_one(id(size));
  CHECK(texts(env.guards()) == Texts{name + " != 1"});
  CHECK_THROWS(env.keep_taken(1));
}

TEST_CASE("make_size: Exactly and Asking go by what it is in this call") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_size(1);
  const std::string name = env.name(id(s));
  {
    ShapeEnv::Exactly exactly;
    CHECK(s == 1);
  }
  CHECK(s != 1);
  {
    ShapeEnv::Asking asking;
    CHECK(s == 1);
  }
  CHECK(s != 1);
  CHECK(texts(env.guards()) == Texts{name + " == 1"});
}

TEST_CASE("make_size: two of them are compared by what they are") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_size(4), t = env.make_size(4);
  CHECK(s == t);
  CHECK(env.guards().size() == 1);
  CHECK(env.taken().empty());
}

TEST_CASE("LayingOut: the order of strides is that of sizes that differ from 1") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_size(1), t = env.make_size(3);
  {
    ShapeEnv::LayingOut laying_out;
    CHECK(t < s * t);
    CHECK_FALSE(s * t < t);
  }
  CHECK(env.guards().empty());
  CHECK(env.taken().size() == 1);
}

TEST_CASE("LayingOut: outside of the scope, and where it is to be exact, the order is that of this call") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim s = env.make_size(1), t = env.make_size(3);
  { ShapeEnv::LayingOut laying_out; }
  CHECK_FALSE(t < s * t);
  {
    ShapeEnv::LayingOut laying_out;
    ShapeEnv::Exactly exactly;
    CHECK_FALSE(t < s * t);
  }
  CHECK(env.guards().size() == 1);
  CHECK(env.taken().empty());
}

}  // namespace
}  // namespace thunder
