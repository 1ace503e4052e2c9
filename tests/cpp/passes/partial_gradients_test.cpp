#include "core/error.h"
#include "passes/pass_ops.h"
#include "passes/reverse_mode.h"

namespace thunder {
namespace {

using test::f32;
using test::pass_builder;

// The program with the gradients of its last result.
std::string with_gradients(Builder& b, Value result, Value gradient, const std::vector<Value>& inputs) {
  PartialGradients made = partial_gradients(b, b.calls(), {{result, gradient}}, inputs);
  b.replace_calls(open_where_needed(b.calls(), made.read));
  for (const Call* c : made.calls) b.append(c);
  return test::code(b.finish("f", Arg::tuple(ArgList(made.gradients.begin(), made.gradients.end()))));
}

TEST_CASE("partial gradients: of an intermediate value, and none where no gradient flows") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}, true), "y"), g = b.input(f32({2}), "g");
  Value e = b("pt.exp", x).value();
  Value m = b("pt.mul", e, e).value();
  b.set_grad_enabled(false);
  CHECK(with_gradients(b, m, g, {e, y}) ==
        "t3 = pt.exp(x)\nt4 = pt.mul(t3, t3)\nt5 = pt.mul(g, t3)\nt6 = pt.mul(g, t3)\nt7 = ltorch.add(t5, t6)\n"
        "return (t7, None)\n");
}

TEST_CASE("partial gradients: what leads to no input is left alone") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}, true), "y"), g = b.input(f32({2}), "g");
  Value hidden = b("pt.opaque", y).value();  // which has no rule
  Value m = b("pt.mul", x, hidden).value();
  PartialGradients made = partial_gradients(b, b.calls(), {{m, g}}, {x});
  CHECK(made.applied.size() == 1);
  CHECK(made.calls.size() == 1);
  CHECK_THROWS_AS(partial_gradients(b, b.calls(), {{m, g}}, {y}), Error);
}

TEST_CASE("partial gradients: carry gradients in the builder's mode") {
  for (bool twice : {false, true}) {
    Builder b = pass_builder();
    Value x = b.input(f32({2}, true), "x"), g = b.input(f32({2}), "g");
    Value e = b("pt.exp", x).value();
    b.set_grad_enabled(twice);
    PartialGradients made = partial_gradients(b, b.calls(), {{e, g}}, {x});
    CHECK(made.gradients[0].value().requires_grad() == twice);
  }
}

TEST_CASE("partial gradients: a rule without rules gives way to the body's, or is an error") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), g = b.input(f32({2}), "g");
  Value w = b("pt.wide", x).value();  // its rule calls pt.float, which has none
  b.set_grad_enabled(false);
  CHECK(partial_gradients(b, b.calls(), {{w, g}}, {x}).calls.size() == 1);
  b.set_grad_enabled(true);
  Value h = b.input(f32({2}, true), "h");
  CHECK_THROWS_AS(partial_gradients(b, b.calls(), {{w, h}}, {x}), Error);
}

TEST_CASE("reached: gradients do not flow through what stops them") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}, true), "y");
  Value m = b("pt.mul", b("pt.exp", x), b("pt.detach", y)).value();
  ValueSet reached = reached_by_gradients(b.calls(), {m});
  CHECK(reached[x]);
  CHECK(!reached[y]);
}

}  // namespace
}  // namespace thunder
