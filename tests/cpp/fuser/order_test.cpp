#include "fuser/order.h"

#include <algorithm>
#include <string>

#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using fuser::calls_in_order;
using fuser::Placed;
using test::f32;
using test::pass_builder;

// Calls that are kernels, where each stood, and in which order the others come.
struct Program {
  Builder b = pass_builder();
  std::vector<Placed> calls;

  Expr input() { return Expr(b, b.input(f32({4}), "x")); }
  Expr add(const Expr& x, const Expr& y, int place, bool movable = false) {
    const Expr out = b("prims.add", x, y);
    calls.push_back({b.calls().back(), place, movable, nullptr});
    return out;
  }
  std::string order() const {
    std::string out;
    for (const Call* c : calls_in_order(calls)) {
      const auto at = std::find_if(calls.begin(), calls.end(), [&](const Placed& p) { return p.call == c; });
      out += std::to_string(at->place) + " ";
    }
    return out;
  }
};

TEST_CASE("order: nothing to do") {
  Program p;
  CHECK(p.order().empty());
  Expr x = p.input();
  for (int i = 0; i < 4; ++i) x = p.add(x, x, i);
  CHECK(p.order() == "0 1 2 3 ");
}

TEST_CASE("order: a reader waits for a kernel, and not all others with it") {
  Program p;
  const Expr x = p.input();
  // The order by asking for what 1 needs: the kernel, which stood at 5, and all that leads to it.
  const Expr second = p.add(x, x, 2), fourth = p.add(second, second, 4);
  const Expr kernel = p.add(fourth, fourth, 5, true);
  p.add(kernel, x, 1);
  p.add(second, x, 3);  // frees what it reads
  CHECK(p.order() == "2 3 4 5 1 ");
}

TEST_CASE("order: a kernel that is ready stands before its first reader") {
  Program p;
  const Expr x = p.input();
  const Expr kernel = p.add(x, x, 9, true);
  p.add(kernel, x, 2);
  p.add(x, x, 0);
  p.add(x, x, 5);
  CHECK(p.order() == "0 9 2 5 ");
}

TEST_CASE("order: effects stay in order") {
  Program p;
  const Expr x = p.input();
  p.add(x, x, 7);
  p.add(x, x, 3);
  p.calls[1].after = p.calls[0].call;
  CHECK(p.order() == "7 3 ");
}

TEST_CASE("order: of random programs each call comes after what it needs, once") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    fuzz::Random random(seed);
    Program p;
    std::vector<Expr> values = {p.input()};
    const auto any = [&] { return values[static_cast<size_t>(random.between(0, int64_t(values.size()) - 1))]; };
    for (int i = 0; i < 30; ++i) {
      values.push_back(p.add(any(), any(), static_cast<int>(random.between(0, 40)), random.chance(0.3)));
      if (i > 0 && random.chance(0.1)) p.calls.back().after = p.calls[p.calls.size() - 2].call;
    }
    const std::vector<const Call*> out = calls_in_order(p.calls);
    REQUIRE(out.size() == p.calls.size());
    ValueSet made;
    made.set(values[0].value(), 1);
    std::vector<const Call*> before;
    for (const Call* c : out) {
      visit_all_inputs(*c, [&](Value v) { CHECK(made[v]); });
      visit_outputs(*c, [&](Value v) { made.set(v, 1); });
      const auto at = std::find_if(p.calls.begin(), p.calls.end(), [&](const Placed& q) { return q.call == c; });
      if (at->after) CHECK(std::find(before.begin(), before.end(), at->after) != before.end());
      before.push_back(c);
    }
  }
}

}  // namespace
}  // namespace thunder
