// Which groups of calls are lowered once.
#include "fuser/lowered_kernels.h"

#include "passes/pass_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::pass_builder;

// exp(a * b), of `shape`; as lower() sees it.
struct Program {
  explicit Program(Builder& b, const Dims& shape = {4, 8}, double scale = 2.0) {
    x = b.input(f32(shape), "x");
    product = b("prims.mul", Expr(b, x), scale).arg().value();
    root = b("prims.exp", Expr(b, product)).arg().value();
    for (const Call* c : b.calls()) maker.set(c->output.value(), c);
  }

  std::optional<fuser::Kernel> lowered(fuser::LoweredKernels& by, const fuser::LowerOptions& options = {},
                                       bool product_exists = false) const {
    return by.lower(
        {{root, true}}, [this](Value v) { return maker[v]; }, [&](Value v) { return product_exists && v == product; },
        options);
  }

  ValueMap<const Call*> maker{nullptr};
  Value x, product, root;
};

TEST_CASE("lowerings: an equal group is found, and names its own values") {
  Builder b = pass_builder();
  fuser::LoweredKernels by;
  const Program first(b), second(b);
  REQUIRE(first.lowered(by));
  CHECK(by.made() == 1);
  const auto kernel = second.lowered(by);
  REQUIRE(kernel);
  CHECK(by.found() == 1);
  CHECK(kernel->inputs == std::vector<Value>{second.x});
  CHECK(kernel->outputs == std::vector<Value>{second.root});
  CHECK(kernel->calls.size() == 2);
  CHECK(kernel->calls[0]->output.value() == second.product);
}

TEST_CASE("lowerings: another shape, number, option or border is another group") {
  Builder b = pass_builder();
  fuser::LoweredKernels by;
  const Program first(b), wide(b, {4, 9}), scaled(b, {4, 8}, 3.0);
  CHECK(first.lowered(by));
  CHECK(wide.lowered(by));
  CHECK(scaled.lowered(by));
  CHECK(first.lowered(by, {.lanes = 4}));
  CHECK(first.lowered(by, {}, /*product_exists=*/true)->inputs == std::vector<Value>{first.product});
  CHECK(by.found() == 0);
  CHECK(by.made() == 5);
}

TEST_CASE("lowerings: the sign of zero and values that are rounded tell groups apart") {
  Builder b = pass_builder();
  fuser::LoweredKernels by;
  const Program plus(b, {4, 8}, 0.0), minus(b, {4, 8}, -0.0);
  CHECK(plus.lowered(by));
  CHECK(minus.lowered(by));
  ValueSet exact;
  exact.set(plus.product, 1);
  CHECK(plus.lowered(by, {.exact = &exact}));
  CHECK(minus.lowered(by, {.exact = &exact}));
  CHECK(by.found() == 0);
}

// exp(v), where v is a view of x that exists in memory, or x's transpose that does.
TEST_CASE("lowerings: a view in memory, and what it is a view of") {
  Builder b = pass_builder();
  fuser::LoweredKernels by;
  const Expr x(b, b.input(f32({4, 4}), "x"));
  const Expr transposed = b("prims.transpose", x, std::vector<int64_t>{1, 0}), product = b("prims.mul", x, 1.0);
  const Expr laid = b("prims.restride", product, transposed.tensor().strides);
  ValueMap<const Call*> maker{nullptr};
  std::vector<Value> roots;
  for (const Expr& e : {transposed, laid}) roots.push_back(b("prims.exp", e).arg().value());
  for (const Call* c : b.calls()) maker.set(c->output.value(), c);
  for (size_t i = 0; i < 2; ++i) {
    const Value in_memory = (i == 0 ? transposed : laid).arg().value();
    CHECK(by.lower(
        {{roots[i], true}}, [&](Value v) { return maker[v]; }, [&](Value v) { return v == in_memory; }, {}));
  }
  CHECK(by.found() == 0);
}

TEST_CASE("lowerings: symbolic sizes are lowered anew") {
  Builder b = pass_builder();
  ShapeEnv env;
  ShapeEnv::Scope scope(env);
  const Dim n = env.make_size(5);
  fuser::LoweredKernels by;
  const Program first(b, {n, 8}), second(b, {n, 8});
  first.lowered(by);
  second.lowered(by);
  CHECK(by.found() == 0);
}

}  // namespace
}  // namespace thunder
