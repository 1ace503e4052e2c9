#include "passes/rerunnable.h"

#include <string>

#include "passes/autodiff.h"
#include "passes/pass_ops.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

struct Program {
  Builder b = pass_builder();
  Expr x{b, b.input(f32({3}, true), "x")}, y{b, b.input(f32({3}), "y")};

  Rerunnable after(const ArgList& outputs, const std::vector<size_t>& chosen = {0}) {
    return rerunnable(b.finish("f", Arg::tuple(outputs)), chosen);
  }
};

TEST_CASE("rerunnable: a program whose results all have gradients stays") {
  Program p;
  const Expr z = p.b("torch.sin", p.b("torch.mul", p.x, p.y));
  const Trace before = p.b.finish("f", Arg::tuple({z}));
  const Rerunnable r = rerunnable(before, {0});
  CHECK(r.problem == "");
  CHECK(code(r.trace) == code(before));
  CHECK(r.trace.calls == before.calls);
  CHECK(r.matters == std::vector<char>{1, 1});
}

TEST_CASE("rerunnable: outputs that were not asked for are gone, with what they need") {
  Program p;
  const Rerunnable r = p.after({p.b("torch.sin", p.x), p.b("torch.cos", p.y), p.b("torch.exp", p.x)}, {2});
  CHECK(code(r.trace) == "t4 = ltorch.exp(x)\nreturn (t4,)\n");
  CHECK(r.matters == std::vector<char>{1, 0});
}

TEST_CASE("rerunnable: what has no gradient of an operand that has one is detached") {
  Program p;
  p.b.set_grad_enabled(false);
  const Expr a = p.b("torch.mul", p.x, 2.0);
  p.b.set_grad_enabled(true);
  const Rerunnable r = p.after({p.b("torch.mul", a, p.x)});
  CHECK(r.problem == "");
  CHECK(code(r.trace) == "t2 = ltorch.mul(x, 2.0)\nt4 = ltorch.detach(t2)\nt3 = ltorch.mul(t4, x)\nreturn (t3,)\n");
}

TEST_CASE("rerunnable: what never has a gradient is not detached") {
  Program p;
  const Expr positive = p.b("torch.gt", p.x, 0.0), cut = p.b("torch.detach", p.x);
  const Rerunnable r = p.after({p.b("torch.where", positive, p.x, cut)});
  CHECK(code(r.trace).find("detach(x)") != std::string::npos);
  CHECK(r.trace.calls.size() == 3);
}

TEST_CASE("rerunnable: an input that a call reads for another of its results does not matter") {
  Program p;
  const Expr mean(p.b, p.b.input(f32({4}), "mean")), var(p.b, p.b.input(f32({4}), "var"));
  const Expr image(p.b, p.b.input(f32({2, 4, 3}, true), "image"));
  const Expr all = p.b("torch.batch_norm_functional", image, mean, var, Arg(), Arg(), true, 0.1, 1e-5);
  const Rerunnable r = p.after({all[0]});
  CHECK(r.problem == "");
  CHECK(r.matters == std::vector<char>{0, 0, 0, 0, 1});
}

TEST_CASE("rerunnable: refused, with the call") {
  const auto problem = [](std::string_view op) {
    Program p;
    return p.after({p.b("torch.mul", p.b(op, p.x), p.x)}).problem;
  };
  CHECK(problem("pt.dropout") == "pt.dropout would draw other random numbers");
  CHECK(problem("pt.exp") == "");
  register_gradient_rule("pt.exp", [](Builder& b, const Args& a) { return b("pt.exp", a["a"]).arg(); });
  CHECK(problem("pt.exp") == "pt.exp has a gradient of its own");
  register_gradient_rule("pt.exp", {});

  Program p;
  const Expr written = p.b("pt.write", p.y, p.x);
  CHECK(p.after({p.b("torch.mul", written, p.x)}).problem == "pt.write has effects");
}

TEST_CASE("rerunnable: a draw that no chosen output reads is no problem") {
  Program p;
  CHECK(p.after({p.b("torch.sin", p.x), p.b("pt.dropout", p.x)}).problem == "");
}

}  // namespace
}  // namespace thunder
