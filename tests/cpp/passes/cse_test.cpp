#include "core/parse.h"
#include "core/print.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

TEST_CASE("cse: nothing to do") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x"), y = b.input(f32({2}), "y");
  Trace t = b.finish("f", b("pt.mul", b("pt.exp", x), b("pt.exp", y)));
  CHECK(cse(t).calls == t.calls);
}

TEST_CASE("cse: chains of equal calls become one") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  auto chain = [&] { return b("pt.scale", b("pt.exp", x)); };
  Trace t = b.finish("f", b("pt.mul", chain(), chain()));
  CHECK(code(cse(t)) == "t1 = pt.exp(x)\nt3 = pt.scale(t1)\nt7 = pt.mul(t3, t3)\nreturn t7\n");
}

TEST_CASE("cse: arguments of every kind are compared") {
  Builder b = pass_builder();
  Value x = b.input(f32({2, 2}), "x");
  const Arg different[] = {0.0,
                           -0.0,
                           0,
                           false,
                           "0",
                           Arg::list({0}),
                           Arg::tuple({0}),
                           Arg::list({}),
                           DType::f32,
                           DType::f64,
                           x,
                           Device{},
                           Arg::slice(0, 1, nullptr),
                           Arg::slice(0, nullptr, 1),
                           Arg::dict({{"a", 0}}),
                           Arg::dict({{"b", 0}}),
                           ConstantArg{"torch.strided"},
                           std::complex<double>(0, 0),
                           nullptr,
                           1};
  const Op& op = Registry::instance().add(
      "pt", {.schema = "of(Tensor a, any b) -> Tensor", .doc = "", .meta = test::like_a}, true);
  Expr sum = b.expr(x);
  // Each is there twice, and all are read by calls that differ.
  for (int i = 0; i < 2; ++i)
    for (const Arg& a : different) sum = b("pt.mul", sum, Arg(b.call(op, {x, a})));
  Trace t = b.finish("f", sum), merged = cse(t);
  size_t n = std::size(different);
  CHECK(t.calls.size() == 4 * n);
  CHECK(merged.calls.size() == 3 * n);
  for (size_t i = 0; i < n; ++i) CHECK(merged.calls[2 * i] == t.calls[2 * i]);
}

TEST_CASE("cse: effects are not merged, nor reads across a write") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr r = b("pt.mul", b("pt.rand", x), b("pt.rand", x));
  Expr d = b("pt.mul", b("pt.dropout", r), b("pt.dropout", r));
  b("pt.read", x);
  b("pt.read", x);
  Expr before = b("pt.exp", x);
  b("pt.write", x, d);
  Expr after = b("pt.exp", x);
  Trace t = b.finish("f", b("pt.mul", before, after));
  CHECK(cse(t).calls == t.calls);
}

TEST_CASE("cse: results that need a gradient are not those that need none") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr with = b("pt.exp", x);
  Expr without = b("pt.exp", b("pt.detach", x));
  Trace t = b.finish("f", b("pt.mul", with, without));
  CHECK(cse(t).calls == t.calls);
}

TEST_CASE("cse: what the caller gets has storage of its own") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr out1 = b("pt.exp", x), out2 = b("pt.exp", x), inner = b("pt.exp", x), again = b("pt.exp", x);
  Expr view = b("pt.view", b("pt.heavy", x)), held = b("pt.heavy", x);
  Expr last = b("pt.mul", b("pt.mul", inner, again), held);
  Trace t = b.finish("f", Arg::tuple({out1, out2, view, last}));
  Trace merged = cse(t);
  // Only the two that stay inside become one.
  CHECK(code(merged) ==
        "t1 = pt.exp(x)\nt2 = pt.exp(x)\nt3 = pt.exp(x)\nt5 = pt.heavy(x)\nt6 = pt.view(t5)\nt7 = pt.heavy(x)\n"
        "t8 = pt.mul(t3, t3)\nt9 = pt.mul(t8, t7)\nreturn (t1, t2, t6, t9)\n");
}

TEST_CASE("cse: the first calls can be kept") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr a = b("pt.exp", x), c = b("pt.exp", x), d = b("pt.exp", x);
  Trace t = b.finish("f", b("pt.mul", a, b("pt.mul", c, d)));
  CHECK(code(cse(t, 2)) == "t1 = pt.exp(x)\nt2 = pt.exp(x)\nt4 = pt.mul(t2, t1)\nt5 = pt.mul(t1, t4)\nreturn t5\n");
}

TEST_CASE("cse: many equal and many different calls take linear time") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Expr sum = b.expr(x);
  for (int i = 0; i < 20000; ++i) sum = b("pt.mul", sum, b("pt.exp", x));
  Trace merged = cse(b.finish("f", sum));
  CHECK(merged.calls.size() == 20001);
}

TEST_CASE("cse: a body reads the number that stays, when it named another one for the same length") {
  ops::register_all();
  ShapeEnv environment;
  ShapeEnv::Scope scope(environment);
  Builder b(std::make_shared<Arena>());
  Value mask = b.input(TensorType{DType::boolean, Device{}, {4, 3}, {3, 1}, false}, "mask");
  Expr first = b("torch.where", mask);
  b("prims.size", first[0], 0);
  Trace merged = cse(b.finish("f", b("torch.where", mask)));
  CHECK_NOTHROW(verify(merged));
  CHECK_NOTHROW(parse(print(merged), python_context(merged)));
}

}  // namespace
}  // namespace thunder
