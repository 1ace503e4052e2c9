#include "passes/pipeline.h"

#include <algorithm>
#include <cmath>

#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::executor_for;
using test::f32;
using test::pass_builder;

CompileOptions options_with(ExecutorList executors) {
  CompileOptions o;
  o.executors = std::move(executors);
  o.passes.verify = true;
  return o;
}

std::vector<std::string> titles(const TraceHistory& history) {
  std::vector<std::string> out;
  for (const Trace& t : history) out.push_back(t.provenance.pass);
  return out;
}

ExecutorList all_of_pt() {
  return {executor_for("ex", {"pt.mul", "pt.exp", "pt.heavy", "pt.view", "pt.detach", "torch.add"})};
}

TEST_CASE("compile: without gradients one program, from acquisition to `del`") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  b("pt.exp", x);
  Expr e = b("pt.exp", x), h = b("pt.heavy", b("pt.mul", e, b("pt.exp", x)));
  Trace t = b.finish("acquired", Arg::tuple({h, 3, x}));
  Compiled c = compile(t, options_with(all_of_pt()), false);
  CHECK_FALSE(c.has_backward);
  CHECK(code(c.forward) ==
        "t2 = ex_exp(x)\nt4 = ex_mul(t2, t2)\ndel t2\nt5 = ex_heavy(t4)\ndel t4\nreturn (t5, 3, x)\n");
  CHECK(c.forward.name == "computation");
  CHECK(titles(c.history) ==
        std::vector<std::string>{"", "Narrow Masks", "Grouped Heads In Attention", "Prepared Arguments",
                                 "Dead Code Elimination", "Common Subexpression Elimination", "Sums Of One-Hot Rows",
                                 "Transform For Execution", "Dead Code Elimination", "Converted Products",
                                 "Joined Conversions", "Constants Made Once", "Delete Last Used"});
  CHECK(c.flat_outputs == std::vector<Value>{h.value(), Value(), x});
}

TEST_CASE("compile: no gradient is asked for where no output needs one") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  CHECK_FALSE(compile(b.finish("f", Arg::tuple({x, b("pt.detach", x)})), options_with(all_of_pt()), true).has_backward);
}

TEST_CASE("compile: with gradients two programs that fit together") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x"), y = b.input(f32({2}), "y");
  Expr e = b("pt.exp", x);
  Trace t = b.finish("f", Arg::tuple({b("pt.mul", b("pt.mul", e, e), y), 1}));
  Compiled c = compile(t, options_with(all_of_pt()), true);
  REQUIRE(c.has_backward);
  CHECK(code(c.forward) ==
        "t2 = ex_exp(x)\nt3 = ex_mul(t2, t2)\nt4 = ex_mul(t3, y)\ndel t3\n"
        "return ({'output': (t4, 1), 'flat_args': [x, y], 'flat_output': (t4, 1)}, ((y, t2), ()))\n");
  // Both gradients of the square are the same product: computed once.
  CHECK(code(c.backward) ==
        "t6 = ex_mul(t5, y)\ndel t5, y\nt8 = ex_mul(t6, t2)\ndel t6\nt10 = ex_add(t8, t8)\ndel t8\nt11 = ex_mul(t10, "
        "t2)\n"
        "del t10, t2\nreturn (t11, None)\n");
  CHECK(c.flat_outputs.size() == 2);
  CHECK(c.differentiable_outputs == std::vector<size_t>{0});
  CHECK(c.saved == std::vector<Value>{y, e.value()});
  CHECK(c.saved_tensors == 2);
  CHECK(c.backward_history.back().name == "backward_fn");
  CHECK(titles(c.backward_history).front() == "Forward Backward Split");
}

TEST_CASE("compile: the user's transforms see the acquired trace first") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  b("pt.exp", x);
  Trace t = b.finish("f", Arg::tuple({b("pt.heavy", x)}));
  CompileOptions o = options_with(all_of_pt());
  size_t seen = 0;
  o.transforms.emplace_back("Count Calls", [&](const Trace& t) {
    seen = t.calls.size();
    return t;
  });
  Compiled c = compile(t, o, false);
  CHECK(seen == 2);
  CHECK(titles(c.history)[1] == "Count Calls");
}

TEST_CASE("compile: optional passes can be left out, and the program is still right") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  b("pt.exp", x);
  Trace t = b.finish("f", Arg::tuple({b("pt.mul", b("pt.exp", x), b("pt.exp", x))}));
  CompileOptions o = options_with(all_of_pt());
  o.passes.skip = {"dce", "cse", "joint_cse"};
  Compiled c = compile(t, o, true);
  CHECK(code(c.forward).find("t1 = ex_exp(x)\ndel t1\nt2 = ex_exp(x)\nt3 = ex_exp(x)\n") == 0);
}

// A fusion executor that takes nothing: with it, what is cheap is computed again.
class Fuser : public Executor {
 public:
  Fuser() : Executor("fuser") {}
  Trace fuse(const Trace& t, const FusionOptions&, const Repeated&) const override {
    ++*regions;
    return t;
  }
  bool is_fusion() const override { return true; }
  std::shared_ptr<int> regions = std::make_shared<int>(0);
};

TEST_CASE("compile: a fusion executor gets both programs, claimed, and makes computing again cheap") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}, true), "x");
  Expr e = b("pt.exp", b("pt.exp", b("pt.exp", x)));
  Trace t = b.finish("f", Arg::tuple({b("pt.heavy", e)}));
  auto fuser = std::make_shared<Fuser>();
  ExecutorList list = all_of_pt();
  CHECK(compile(t, options_with(list), true).saved.size() == 3);
  list.insert(list.begin(), fuser);
  Compiled c = compile(t, options_with(list), true);
  CHECK(*fuser->regions == 2);
  CHECK(c.saved == std::vector<Value>{x});
  std::vector<std::string> names = titles(c.history);
  CHECK(std::count(names.begin(), names.end(), "Fusion by fuser") == 1);
  CHECK(names.back() == "Delete Last Used");
}

}  // namespace
}  // namespace thunder
