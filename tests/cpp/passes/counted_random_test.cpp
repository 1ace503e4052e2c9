#include "passes/counted_random.h"

#include <cstdlib>

#include "fuzz/checks.h"
#include "passes/autodiff.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;
using test::f32;
using test::pass_builder;

class Fusion final : public Executor {
 public:
  Fusion() : Executor("fusion") {}
  bool is_fusion() const override { return true; }
};

ExecutorList fusing() { return {std::make_shared<Fusion>()}; }

std::string counted(const Trace& t, const ExecutorList& executors = fusing()) {
  return code(counted_random(t, executors));
}

TensorType trained(Dims shape) {
  TensorType t = f32(std::move(shape));
  t.requires_grad = true;
  return t;
}

size_t occurrences(const std::string& text, const std::string& of) {
  size_t n = 0;
  for (size_t at = text.find(of); at != text.npos; at = text.find(of, at + 1)) ++n;
  return n;
}

TEST_CASE("counted random: nothing to do") {
  Builder b = pass_builder();
  Value x = b.input(f32({2}), "x");
  Trace t = b.finish("f", b("pt.exp", x));
  CHECK(counted(t) == code(t));
}

TEST_CASE("counted random: a draw becomes a function of a state") {
  Builder b = pass_builder();
  Expr u = b("prims.uniform", Dims{2, 3}, kw("dtype", DType::f32), kw("device", Device{}));
  CHECK(counted(b.finish("f", u)) ==
        "[t1] = prims.rng_states(1, torch.device('cpu'))\n"
        "t2 = prims.uniform_at(t1, [2, 3], dtype=torch.float32)\n"
        "return t2\n");
}

TEST_CASE("counted random: dropout is opened, and keeps the layout of its mask") {
  Builder b = pass_builder();
  TensorType type = trained({2, 3});
  type.strides = {1, 2};
  Value x = b.input(type, "x");
  const std::string text = counted(b.finish("f", b("torch.dropout", x, 0.25, true)));
  CHECK(text ==
        "[t4] = prims.rng_states(1, torch.device('cpu'))\n"
        "t5 = prims.uniform_at(t4, [2, 3], dtype=torch.float32)\n"
        "t6 = prims.lt(t5, 0.75)\n"
        "t7 = prims.convert_element_type(t6, torch.float32)\n"
        "t8 = prims.restride(t7, [1, 2])\n"
        "t2 = prims.div(t8, 0.75)\n"
        "t3 = ltorch.mul(x, t2)\n"
        "return t3\n");
}

TEST_CASE("counted random: one call draws all states of a device, and each draw has its own") {
  Builder b = pass_builder();
  Value x = b.input(f32({2, 3}), "x");
  Expr y = b("torch.dropout", b("torch.dropout", x, 0.5, true), 0.5, true);
  Expr on_gpu = b("prims.normal", Dims{4}, kw("dtype", DType::f32), kw("device", Device{DeviceType::cuda, 0}));
  const std::string text = counted(b.finish("f", Arg::tuple({y, on_gpu})));
  CHECK(occurrences(text, "prims.rng_states(") == 2);
  CHECK(occurrences(text, "prims.rng_states(2, torch.device('cpu'))") == 1);
  CHECK(occurrences(text, "prims.rng_states(1, torch.device('cuda:0'))") == 1);
  CHECK(occurrences(text, "prims.uniform_at(") == 2);
}

TEST_CASE("counted random: native_dropout gives the mask, too, and its gradient goes through the product") {
  Builder b = pass_builder();
  Value x = b.input(trained({2, 3}), "x");
  Expr both = b("torch.native_dropout", x, 0.25, true);
  Trace t = counted_random(b.finish("f", Arg::tuple({both[0], both[1]})), fusing());
  const Value y = t.output.items()[0].value(), mask = t.output.items()[1].value();
  CHECK(y.requires_grad());
  CHECK(mask.dtype() == DType::boolean);
  CHECK(code(t).find("native_dropout") == std::string::npos);
}

TEST_CASE("counted random: what cannot be counted draws as it did") {
  Builder b = pass_builder();
  Value x = b.input(f32({2, 3}), "x");
  SUBCASE("no kernel can draw it") {
    Expr p = b("prims.randperm", 5, kw("dtype", DType::i64), kw("device", Device{}));
    Expr c = b("prims.normal", Dims{2}, kw("dtype", DType::c64), kw("device", Device{}));
    Expr i = b("prims.randint", Dims{2}, 0, int64_t{1} << 40, kw("dtype", DType::i64), kw("device", Device{}));
    Expr e = b("prims.uniform", Dims{0, 2}, kw("dtype", DType::f32), kw("device", Device{}));
    Trace t = b.finish("f", Arg::tuple({p, c, i, e}));
    CHECK(counted(t) == code(t));
  }
  SUBCASE("a composite with another draw") {
    Trace t = b.finish("f", b("pt.dropout", x));
    CHECK(counted(t) == code(t));
  }
  SUBCASE("without a fusion executor") {
    Trace t = b.finish("f", b("torch.dropout", x, 0.5, true));
    CHECK(counted(t, {}) == code(t));
  }
  SUBCASE("an executor before it runs the call whole") {
    Trace t = b.finish("f", b("torch.dropout", x, 0.5, true));
    ExecutorList executors = fusing();
    executors.push_back(test::executor_for("late", {"torch.dropout"}));
    CHECK(counted(t, executors) != code(t));
    executors.insert(executors.begin(), test::executor_for("early", {"torch.dropout"}));
    CHECK(counted(t, executors) == code(t));
  }
  SUBCASE("a size that is not constant") {
    ShapeEnv environment;
    ShapeEnv::Scope scope(environment);
    Value y = b.input(f32({environment.make_symbol(4), 3}), "y");
    Trace t = b.finish("f", b("prims.bernoulli_like", y, 0.5));
    CHECK(counted(t) == code(t));
  }
  SUBCASE("a gradient rule of its own") {
    Value mean = b.input(trained({2, 3}), "mean");
    Trace t = b.finish("f", b("torch.normal", mean, 1.0));
    CHECK(counted(t) == code(t));
  }
}

TEST_CASE("counted random: the backward computes the mask again from the state") {
  Builder b = pass_builder();
  Value x = b.input(trained({8, 16}), "x");
  Trace t = counted_random(b.finish("f", Arg::tuple({b("torch.dropout", x, 0.25, true)})), fusing());
  const ForwardBackward parts = split(autodiff(t), {.aggressive_recompute = true});
  REQUIRE(parts.saved.size() == 1);
  CHECK(same(parts.saved[0].shape(), {2}));
  CHECK(code(parts.backward).find("prims.uniform_at(") != std::string::npos);
}

int64_t programs() {
  const char* text = std::getenv("THUNDER_FUZZ");
  return text ? std::atoll(text) : 300;
}

// The program with dropout behind every output that allows it.
Trace with_dropout(const Trace& t) {
  Builder b(t.arena);
  for (Value v : t.inputs) b.add_input(v);
  for (const Call* c : t.calls) b.append(c);
  ArgList outputs;
  for (const Arg& a : t.output.items())
    outputs.push_back(a.is_tensor() && is_floating(a.value().dtype()) ? b("torch.dropout", a, 0.4, true).arg() : a);
  return b.finish(t.name, Arg::tuple(std::move(outputs)));
}

TEST_CASE("counted random: gradients of counted programs agree with differences, and the backward with the forward") {
  fuzz::Coverage coverage;
  std::vector<fuzz::Finding> findings;
  fuzz::Generator generator(coverage, findings);
  fuzz::GradientStatistics statistics;
  int wrong = 0;
  for (int64_t i = 0; i < programs() / 3; ++i) {
    fuzz::GeneratorOptions options;
    options.calls = 4;
    options.smooth = true;
    fuzz::Program p = generator.make(8000000 + static_cast<uint64_t>(i), options);
    ShapeEnv::Scope scope(*p.environment);
    p.trace = counted_random(with_dropout(p.trace), fusing());
    for (const std::string& finding : fuzz::check_gradients(p, fuzz::Passes::real(), statistics))
      if (++wrong < 4) MESSAGE(finding);
  }
  CHECK(wrong == 0);
  CHECK(statistics.compared > programs() / 6);
}

TEST_CASE("counted random: counted programs satisfy what programs do under every pass") {
  const int64_t n = programs();
  auto draws = [](const Op& op) { return op.has(kRandom | kPointwise) && op.executor.empty(); };
  fuzz::Coverage coverage(draws);
  std::vector<fuzz::Finding> findings;
  fuzz::Generator generator(coverage, findings);
  int changed = 0, wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    fuzz::GeneratorOptions options;
    options.calls = 6;
    fuzz::Program p = generator.make(7000000 + static_cast<uint64_t>(i), options);
    ShapeEnv::Scope scope(*p.environment);
    const std::string before = code(p.trace);
    p.trace = counted_random(p.trace, fusing());
    changed += code(p.trace) != before;
    for (const std::string& finding : fuzz::check_passes(p, fuzz::Passes::real()))
      if (++wrong < 4) MESSAGE(finding);
  }
  CHECK(wrong == 0);
  CHECK(changed > n / 4);
}

}  // namespace
}  // namespace thunder
