#include "passes/reduce.h"

#include <algorithm>
#include <string>

#include "core/verify.h"
#include "fuzz/generator.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using test::code;
using test::count;
using test::f32;
using test::pass_builder;

auto calls(const std::string& name) {
  return [name](const Trace& t) { return count(t, name) > 0; };
}

// exp, mul, exp, mul, ..., with one views in between; all results are returned.
Trace chain(size_t length) {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr v = b.expr(x);
  ArgList results;
  for (size_t i = 0; i < length; ++i) {
    if (i == length / 3) v = b("pt.views", v)[0];
    v = i % 2 ? b("pt.mul", v, x) : b("pt.exp", v);
    results.push_back(v.arg());
  }
  return b.finish("f", Arg::tuple(results));
}

TEST_CASE("reduce: nothing to do") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Trace t = b.finish("f", Arg::tuple({b("pt.exp", x).arg()}));
  CHECK(code(reduce(t, calls("pt.exp"))) == "t1 = pt.exp(x)\nreturn (t1,)\n");
}

TEST_CASE("reduce: one call of many is found, in few checks") {
  for (size_t length : {2, 3, 100, 1000}) {
    CAPTURE(length);
    size_t checks = 0;
    const Trace out = reduce(chain(length), [&](const Trace& t) {
      ++checks;
      verify(t);
      return count(t, "pt.views") > 0;
    });
    CHECK(out.calls.size() == 1);
    CHECK(out.inputs.size() == 1);
    CHECK(checks < 100);
  }
}

TEST_CASE("reduce: calls that only fail together stay, and what is between them becomes an input") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr first = b("pt.views", x)[1];
  Expr between = b("pt.exp", b("pt.exp", first));
  Expr last = b("pt.rand", b("pt.mul", between, x));
  Trace t = b.finish("f", Arg::tuple({last.arg(), between.arg()}));
  const Trace out = reduce(t, [](const Trace& t) { return count(t, "pt.views") > 0 && count(t, "pt.rand") > 0; });
  CHECK(count(out, "pt.views") == 1);
  CHECK(count(out, "pt.rand") == 1);
  CHECK(out.calls.size() == 2);
}

TEST_CASE("reduce: a check that does not hold at first is refused") {
  const Trace t = chain(5);
  CHECK_THROWS_WITH(reduce(t, calls("pt.dropout")), "[reduce] the check does not hold for the whole trace, of 6 calls");
}

TEST_CASE("reduce: a finished program, whose values are deleted and whose output is a dict") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr v = b("pt.exp", b("pt.mul", b("pt.exp", x), x));
  Trace t = delete_last_used(b.finish("f", Arg::dict({{"output", v.arg()}})));
  const Trace out = reduce(t, calls("pt.mul"));
  CHECK(out.calls.size() == 1);
  CHECK(out.output.is_sequence());
}

bool gives_operand(const Call& c) {
  bool found = false;
  visit_outputs(c, [&](Value out) { visit_own_inputs(c, [&](Value in) { found = found || in == out; }); });
  return found;
}

TEST_CASE("fuzz: reduced programs verify and hold, whatever is looked for") {
  fuzz::Coverage coverage;
  std::vector<fuzz::Finding> findings;
  fuzz::Generator generator(coverage, findings);
  fuzz::Random random(7);
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    const fuzz::Program p = generator.make(seed, {.calls = 12});
    if (p.trace.calls.empty()) continue;
    const Call& sought = *random.pick(p.trace.calls);
    bool gives_values = false;
    visit_outputs(sought, [&](Value) { gives_values = true; });
    if (!gives_values) continue;
    const std::string name = sought.op->full_name;
    Trace whole = p.trace;
    ArgList everything;
    for (const Call* c : whole.calls) visit_outputs(*c, [&](Value v) { everything.emplace_back(v); });
    whole.output = Arg::tuple(everything);
    const ShapeEnv::Scope scope(*p.environment);
    const Trace out = reduce(whole, calls(name));
    verify(out);
    CHECK(count(out, name) >= 1);
    // What has effects stays, what binds the sizes of results, and what gives one of its operands.
    const auto may_stay = [&](const Call& c) {
      return effects(c) != 0 || c.op->full_name == name || c.op->full_name == "prims.size" || gives_operand(c);
    };
    size_t others = 0;
    for (const Call* c : out.calls) others += !may_stay(*c);
    const bool has_effects =
        std::any_of(out.calls.begin(), out.calls.end(), [](const Call* c) { return effects(*c) != 0; });
    if (!has_effects) CHECK_MESSAGE(others == 0, code(out) << name);
  }
}

}  // namespace
}  // namespace thunder
