#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

TEST_CASE("dce: nothing to do") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Trace t = b.finish("f", b("pt.mul", x, b("pt.exp", x)));
  CHECK(dce(t).calls == t.calls);
}

TEST_CASE("dce: drops chains that nobody reads, from text") {
  test::register_pass_ops();
  Trace t = parse(R"(def f(a):
  # a: "cpu f32[2]"
  t1 = pt.exp(a)  # t1: "cpu f32[2]"
  t2 = pt.mul(t1, a)  # t2: "cpu f32[2]"
  t3 = pt.exp(t1)  # t3: "cpu f32[2]"
  t4, t5 = pt.views(t3)
  # t4: "cpu f32[2]"
  # t5: "cpu f32[2]"
  return t1
)");
  CHECK(code(dce(t)) == "t1 = pt.exp(a)\nreturn t1\n");
}

TEST_CASE("dce: a call is kept for any of its results") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr views = b("pt.views", x);
  b("pt.exp", views[0]);
  Trace t = b.finish("f", views[1]);
  CHECK(code(dce(t)) == "(t1, t2) = pt.views(x)\nreturn t2\n");
  t.output = views[0];
  CHECK(code(dce(t)) == "(t1, t2) = pt.views(x)\nreturn t1\n");
}

TEST_CASE("dce: effects stay, within composites too; random ones only if asked") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  b("pt.write", x, x);
  b("pt.dropout", x);
  b("pt.rand", x);
  b("pt.read", x);
  test::del(b, {x});
  Trace t = b.finish("f", nullptr);
  CHECK(code(dce(t)) == "t1 = pt.write(x, x)\nt3 = pt.dropout(x)\nt4 = pt.rand(x)\ndel x\nreturn None\n");
  CHECK(code(dce(t, false)) == "t1 = pt.write(x, x)\ndel x\nreturn None\n");
}

TEST_CASE("dce: a number that only binds a symbol is read by whoever mentions the symbol") {
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  Builder b = pass_builder();
  Value x = b.input(f32({4}), "x");
  Expr n = b("test.nonzero", x);
  Expr kept = b("test.reshape", x, Arg(Dims{n.shape()[0]}));
  Trace t = b.finish("f", kept);
  REQUIRE(t.calls.size() == 3);
  CHECK(dce(t).calls.size() == 3);
  t.output = x;
  CHECK(dce(t).calls.empty());
}

}  // namespace
}  // namespace thunder
