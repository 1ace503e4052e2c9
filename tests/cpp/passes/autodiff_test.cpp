#include "passes/autodiff.h"

#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "passes/reach.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

TEST_CASE("autodiff: nothing to do without outputs that require grad") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  JointTrace j = autodiff(b.finish("f", Arg::tuple({b("pt.exp", x)})));
  CHECK(j.differentiable_outputs.empty());
  CHECK(code(j.trace) == "t1 = pt.exp(x)\nreturn ((t1,), (None,))\n");
}

TEST_CASE("autodiff: rules in reverse, gradients summed, closed calls") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}, true), "y"), z = b.input(f32({2}), "z");
  Expr e = b("pt.exp", x);
  Trace t = b.finish("f", Arg::tuple({b("pt.mul", b("pt.mul", e, y), z), b("pt.exp", z)}));
  JointTrace j = autodiff(t);
  CHECK(j.differentiable_outputs == std::vector<size_t>{0});
  CHECK(j.forward_calls == 4);
  CHECK(j.primal_inputs == 3);
  CHECK(j.forward == t.calls);
  CHECK(code(j.trace) ==
        "t3 = pt.exp(x)\nt4 = pt.mul(t3, y)\nt5 = pt.mul(t4, z)\nt6 = pt.exp(z)\n"
        // The gradient of z was computed by the rule, but nobody wants it.
        "t8 = pt.mul(t7, z)\nt10 = pt.mul(t8, y)\nt11 = pt.mul(t8, t3)\nt12 = pt.mul(t10, t3)\nreturn ((t5, t6), (t12, "
        "t11, None))\n");
}

TEST_CASE("reach: which outputs depend on which inputs") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}, true), "y"), z = b.input(f32({2}, true), "z");
  Value constant = b.input(f32({2}), "constant");
  Expr both = b("pt.mul", x, y);
  Trace t = b.finish("f", Arg::tuple({both, b("pt.exp", constant), b("pt.mul", y, b("pt.detach", z)), b("pt.exp", z)}));
  std::vector<size_t> outputs = differentiable_outputs(t);
  CHECK(outputs == std::vector<size_t>{0, 2, 3});
  CHECK(reached_outputs(t, outputs) == std::vector<uint64_t>{1, 3, 4, 0});
}

TEST_CASE("autodiff: a value read several times, and returned as well, gets the sum") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr e = b("pt.exp", x);
  Trace t = b.finish("f", Arg::tuple({e, b("pt.mul", e, e)}));
  CHECK(code(autodiff(t).trace) ==
        "t1 = pt.exp(x)\nt2 = pt.mul(t1, t1)\nt5 = pt.mul(t4, t1)\nt6 = pt.mul(t4, t1)\nt7 = ltorch.add(t3, t5)\n"
        "t8 = ltorch.add(t7, t6)\nt9 = pt.mul(t8, t1)\nreturn ((t1, t2), (t9,))\n");
}

TEST_CASE("autodiff: inputs and repeated values among the outputs need no cotangent") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), unused = b.input(f32({2}, true), "unused");
  Expr e = b("pt.exp", x);
  JointTrace j = autodiff(b.finish("f", Arg::tuple({x, e, e, 1, nullptr, unused})));
  CHECK(j.differentiable_outputs == std::vector<size_t>{1});
  CHECK(j.trace.inputs.size() == 3);
  CHECK(code(j.trace) == "t2 = pt.exp(x)\nt4 = pt.mul(t3, t2)\nreturn ((x, t2, t2, 1, None, unused), (t4, None))\n");
}

TEST_CASE("autodiff: a composite without a rule is opened where the backward needs what is inside, and no deeper") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Trace t = b.finish("f", Arg::tuple({b("pt.scale_twice", x), b("pt.scale", b("pt.detach", x))}));
  JointTrace j = autodiff(t);
  CHECK(j.forward == t.calls);
  // d (a * heavy(a)) = g * heavy(a) + (g * a) * a for both levels; the second output is not differentiated.
  std::string text = code(j.trace);
  CAPTURE(text);
  CHECK(
      text.starts_with("t1 = pt.heavy(x)\nt2 = pt.mul(x, t1)\nt3 = pt.heavy(t2)\nt4 = pt.mul(t2, t3)\nt5 = "
                       "pt.detach(x)\nt7 = pt.scale(t5)\n"));
  CHECK(j.forward_calls == 6);
}

TEST_CASE("autodiff: no gradient flows past an operator that is tagged so") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Trace t = b.finish("f", Arg::tuple({b("pt.mul", x, b("pt.detach", b("pt.opaque", x)))}));
  CHECK(code(autodiff(t).trace) ==
        "t1 = pt.opaque(x)\nt2 = pt.detach(t1)\nt3 = pt.mul(x, t2)\nt5 = pt.mul(t4, t1)\nreturn ((t3,), (t5,))\n");
}

TEST_CASE("autodiff: empty gradients give zeros, which are made only where nothing else arrives") {
  Builder b = pass_builder();
  Value x = b.input(f32({4}, true), "x"), y = b.input(f32({4}, true), "y");
  auto none_of = [&](Value v) { return b("torch.narrow", v, 0, 4, 0); };
  Trace t = b.finish("f", Arg::tuple({none_of(x), none_of(y), b("pt.exp", y)}));
  CHECK(code(autodiff(t).trace) ==
        "t2 = ltorch.narrow(x, 0, 4, 0)\nt3 = ltorch.narrow(y, 0, 4, 0)\nt4 = pt.exp(y)\nt8 = pt.mul(t7, t4)\n"
        "t9 = ltorch.zeros([4], dtype=torch.float32, device=torch.device('cpu'))\nreturn ((t2, t3, t4), (t9, t8))\n");
}

TEST_CASE("autodiff: gradients with more digits than their input are rounded once, when they are added up") {
  Builder b = pass_builder();
  TensorType narrow = f32({2}, true);
  narrow.dtype = DType::bf16;
  Value x = b.input(narrow, "x");
  Trace t = b.finish("f", Arg::tuple({b("pt.wide", x), b("pt.wide", x)}));
  CHECK(code(autodiff(t).trace) ==
        "t1 = pt.wide(x)\nt2 = pt.wide(x)\nt5 = pt.float(t4)\nt6 = pt.float(t3)\nt7 = ltorch.add(t5, t6)\n"
        "t8 = prims.convert_element_type(t7, torch.bfloat16)\nreturn ((t1, t2), (t8,))\n");
}

TEST_CASE("autodiff: refuses an operator without a rule, and a rule that gives another type") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  SourceLocation line{"user.py", 7, "f"};
  b.set_location(&line);
  Trace t = b.finish("f", Arg::tuple({b("pt.opaque", x)}));
  CHECK_THROWS_WITH_AS(autodiff(t),
                       "[pt.opaque] a gradient flows through this operator, but it has no gradient rule (user.py:7)",
                       Error);
  Builder c = pass_builder();
  Value y = c.input(f32({2}, true), "y");
  t = c.finish("f", Arg::tuple({c("pt.bad", y)}));
  CHECK_THROWS_WITH_AS(autodiff(t),
                       doctest::Contains("the gradient rule gives cpu bf16[2] for an input of type cpu f32[2]"), Error);
}

TEST_CASE("executor rules: a rule replaces the call, also inside a composite, if the executor would claim it") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}), "y");
  Trace t = b.finish("f", Arg::tuple({b("pt.scale", x), b("pt.scale", y), b("pt.exp", x)}));
  auto rule = std::make_shared<Executor>("rule");
  auto grad = [](Builder& b, const Args& a) -> Arg { return b("pt.exp", a["a"]); };
  rule->register_implementation("pt.heavy", {.checker = {}, .op = nullptr, .transform = {}, .grad_transform = grad});
  CHECK(code(executor_gradient_rules(t, {rule})) ==
        "t7 = pt.exp(x)\nt3 = pt.mul(x, t7)\nt5 = pt.scale(y)\nt6 = pt.exp(x)\nreturn (t3, t5, t6)\n");
  CHECK(executor_gradient_rules(t, {}).calls == t.calls);
  // An executor before it takes the call, or the composite around it, without a rule.
  CHECK(executor_gradient_rules(t, {test::executor_for("low", {"pt.heavy"}), rule}).calls == t.calls);
  CHECK(executor_gradient_rules(t, {rule, test::executor_for("low", {"pt.scale"})}).calls == t.calls);
}

TEST_CASE("executor rules: a rule that cuts the gradient is refused") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Trace t = b.finish("f", Arg::tuple({b("pt.exp", x)}));
  auto rule = std::make_shared<Executor>("rule");
  auto grad = [](Builder& b, const Args& a) -> Arg { return b("pt.detach", a["a"]); };
  rule->register_implementation("pt.exp", {.checker = {}, .op = nullptr, .transform = {}, .grad_transform = grad});
  CHECK_THROWS_WITH_AS(executor_gradient_rules(t, {rule}), doctest::Contains("no gradient flows through"), Error);
}

}  // namespace
}  // namespace thunder
