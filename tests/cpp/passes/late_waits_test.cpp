// late_waits: where a program waits for what the user's code communicates.
#include "passes/distributed/late_waits.h"

#include "passes/distributed_model.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;

Expr reduced(Builder& b, const Expr& e) {
  return b("prims.wait", b("prims.all_reduce", Arg::list({e.arg()}), "sum", "g", 2));
}

TEST_CASE("late_waits: a program that does not communicate stays as it is") {
  test::SmallModel m;
  Value x = m.b.input(f32({4}), "x");
  Trace t = m.b.finish("f", Arg::tuple({m.b("pt.exp", x)}));
  CHECK(!distributed::has_waits(t));
  CHECK(distributed::late_waits(t).calls == t.calls);
}

TEST_CASE("late_waits: the wait stands before the first reader, the starts in their order") {
  test::SmallModel m;
  Builder& b = m.b;
  Expr x = b.expr(b.input(f32({4}), "x"));
  Expr first = reduced(b, x), second = reduced(b, b("pt.exp", x));
  Expr other = b("pt.mul", x, x);
  Expr sum = b("pt.mul", b("pt.mul", second, other), first);
  Trace t = distributed::late_waits(b.finish("f", Arg::tuple({sum})));
  CHECK(code(t) ==
        "p1 = prims.all_reduce([x], 'sum', 'g', 2, None)\n"
        "t3 = pt.exp(x)\n"
        "p4 = prims.all_reduce([t3], 'sum', 'g', 2, None)\n"
        "t6 = pt.mul(x, x)\n"
        "t5 = prims.wait(p4)\n"
        "t7 = pt.mul(t5, t6)\n"
        "t2 = prims.wait(p1)\n"
        "t8 = pt.mul(t7, t2)\n"
        "return (t8,)\n");
}

TEST_CASE("late_waits: what is returned, or read by nobody, is waited for at the end") {
  test::SmallModel m;
  Builder& b = m.b;
  Expr x = b.expr(b.input(f32({4}), "x"));
  Expr returned = reduced(b, x);
  reduced(b, x);
  Expr other = b("pt.exp", x);
  Trace t = distributed::late_waits(b.finish("f", Arg::tuple({returned, other})));
  CHECK(code(t) ==
        "p1 = prims.all_reduce([x], 'sum', 'g', 2, None)\n"
        "p3 = prims.all_reduce([x], 'sum', 'g', 2, None)\n"
        "t5 = pt.exp(x)\n"
        "t2 = prims.wait(p1)\n"
        "t4 = prims.wait(p3)\n"
        "return (t2, t5)\n");
}

}  // namespace
}  // namespace thunder
