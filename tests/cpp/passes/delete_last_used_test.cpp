#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

TEST_CASE("delete_last_used: nothing to do where the output holds everything") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr y = b("pt.exp", x);
  Trace t = b.finish("f", Arg::dict({{"output", y}, {"flat_args", Arg::list({x})}}));
  CHECK(delete_last_used(t).calls == t.calls);
}

TEST_CASE("delete_last_used: after the last reader, in the order of the arguments; unused values at once") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x"), unused = b.input(f32({2}), "unused"), y = b.input(f32({2}), "y");
  (void)unused;
  Expr a = b("pt.exp", x);
  Expr c = b("pt.mul", y, x);
  Expr views = b("pt.views", c);
  Trace t = b.finish("f", b("pt.mul", a, views[1]));
  CHECK(code(delete_last_used(t)) ==
        "del unused\nt3 = pt.exp(x)\nt4 = pt.mul(y, x)\ndel y, x\n(t5, t6) = pt.views(t4)\ndel t4, t5\n"
        "t7 = pt.mul(t3, t6)\ndel t3, t6\nreturn t7\n");
}

TEST_CASE("delete_last_used: a number lives as long as a size needs it") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x");
  Expr n = b("test.nonzero", x);
  Expr r = b("test.reshape", x, Arg(Dims{n.shape()[0]}));
  Trace t = delete_last_used(b.finish("f", r));
  verify(t);
  REQUIRE(t.calls.size() == 5);
  // nonzero, size, del of the tensor, reshape, del of the input and of the size.
  CHECK(values_in(t.calls[2]->args[0]) == std::vector<Value>{n.value()});
  CHECK(values_in(t.calls[4]->args[0]) == std::vector<Value>{x, outputs_of(*t.calls[1])[0]});
}

}  // namespace
}  // namespace thunder
