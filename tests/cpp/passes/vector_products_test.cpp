#include "passes/vector_products.h"

#include <string>
#include <string_view>

#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;
using test::pass_builder;

constexpr VectorProductLimits kAny{.least_terms = 1, .least_elements = 1};

class Fusion final : public Executor {
 public:
  explicit Fusion(bool sums = true) : Executor("fusion"), sums_(sums) {}
  bool is_fusion() const override { return true; }
  bool fuses_sums() const override { return sums_; }

 private:
  const bool sums_;
};

class Takes final : public Executor {
 public:
  explicit Takes(bool yields) : Executor("takes"), yields_(yields) {
    Implementation i;
    i.transform = [](Builder&, const Args& a) { return a["input"]; };
    register_implementation("torch.linear", std::move(i));
  }
  bool yields_vector_products() const override { return yields_; }

 private:
  const bool yields_;
};

ExecutorList fusing() { return {std::make_shared<Fusion>()}; }

TensorType tensor(Dims shape, DType dtype = DType::bf16, DeviceType device = DeviceType::cuda) {
  TensorType t = test::f32(std::move(shape));
  t.dtype = dtype;
  t.device = Device{device, static_cast<int16_t>(device == DeviceType::cuda ? 0 : -1)};
  return t;
}

TensorType with_strides(TensorType t, Dims strides) {
  t.strides = std::move(strides);
  return t;
}

Trace product(const char* op, const std::vector<TensorType>& operands) {
  Builder b = pass_builder();
  ArgList args;
  for (size_t i = 0; i < operands.size(); ++i) args.emplace_back(b.input(operands[i], cat("x", i)));
  if (std::string_view(op) == "prims.linear" && args.size() == 2) args.emplace_back();  // no bias
  const Arg out = b.call_named(op, args, {});
  return b.finish("f", out);
}

bool changes(const Trace& t, const ExecutorList& executors = fusing(), const VectorProductLimits& limits = kAny) {
  const Trace after = vector_products(t, executors, limits);
  CHECK_NOTHROW(verify(after));
  CHECK(after.output.value().type().same(t.output.value().type()));
  const bool sums = code(after).find("prims.sum(") != std::string::npos;
  CHECK(sums == (after.calls != t.calls));
  return sums;
}

const TensorType kRow = tensor({1, 1, 6}), kWeight = tensor({5, 6}), kBias = tensor({5});

TEST_CASE("vector_products: one row times a weight is a sum of the weight's rows") {
  const Trace t = product("torch.linear", {kRow, kWeight, kBias});
  const std::string text = code(vector_products(t, fusing(), kAny));
  INFO(text);
  CHECK(text.find("prims.add(") != std::string::npos);
  CHECK(text.find("ltorch.linear") == std::string::npos);
  CHECK(changes(product("torch.linear", {tensor({6}), kWeight})));
  CHECK(changes(product("prims.linear", {kRow, kWeight})));
  CHECK(changes(product("prims.linear", {kRow, kWeight, kBias})));
  CHECK(changes(product("torch.linear", {tensor({1, 6}, DType::f32), tensor({5, 6}, DType::f32)})));
}

TEST_CASE("vector_products: products whose matrix lies by rows, on either side") {
  const TensorType turned = with_strides(tensor({6, 5}), {1, 6});
  CHECK(changes(product("torch.matmul", {tensor({1, 6}), turned})));
  CHECK(changes(product("torch.matmul", {tensor({6}), turned})));
  CHECK(changes(product("torch.mm", {tensor({1, 6}), turned})));
  CHECK(changes(product("prims.matmul", {tensor({1, 6}), turned})));
  CHECK(changes(product("torch.mv", {kWeight, tensor({6})})));
  CHECK(changes(product("torch.matmul", {kWeight, tensor({6, 1})})));
}

TEST_CASE("vector_products: nothing to do") {
  CHECK(!changes(product("torch.linear", {tensor({2, 6}), kWeight})));
  CHECK(!changes(product("prims.linear", {tensor({2, 6}), kWeight})));
  CHECK(!changes(product("torch.matmul", {tensor({1, 6}), tensor({6, 5})})));  // its columns are added up
  CHECK(!changes(product("torch.matmul", {tensor({2, 1, 6}), tensor({2, 6, 5})})));
  CHECK(!changes(product("torch.linear", {kRow, with_strides(kWeight, {1, 5})})));
  CHECK(!changes(product("torch.linear", {tensor({1, 6}, DType::f64), tensor({5, 6}, DType::f64)})));
  CHECK(!changes(product(
      "torch.linear", {tensor({1, 6}, DType::bf16, DeviceType::cpu), tensor({5, 6}, DType::bf16, DeviceType::cpu)})));
  CHECK(!changes(product("torch.linear", {tensor({1, 6}), kWeight}), fusing(), {}));  // small
  CHECK(changes(product("torch.linear", {tensor({1, 256}), tensor({256, 256})}), fusing(), {}));
}

TEST_CASE("vector_products: refused where an executor wants the call, or nothing fuses") {
  const Trace t = product("torch.linear", {kRow, kWeight});
  const auto fusion = std::make_shared<Fusion>();
  CHECK(!changes(t, {std::make_shared<Takes>(false), fusion}));
  CHECK(changes(t, {std::make_shared<Takes>(true), fusion}));
  CHECK(changes(t, {fusion, std::make_shared<Takes>(false)}));
  CHECK(!changes(t, {}));
  CHECK(!changes(t, {std::make_shared<Fusion>(false)}));
  CHECK(!changes(t, {test::implementing_executor("sums", {"prims.sum"}), fusion}));  // it would write the products
  CHECK(changes(t, {test::implementing_executor("tanh", {"prims.tanh"}), fusion}));
}

reference::Datum numbers(const TensorType& t, fuzz::Random& random) {
  reference::Array a;
  a.dtype = t.dtype;
  for (const Dim& d : t.shape) a.shape.push_back(d.constant());
  for (int64_t i = 0; i < t.numel().constant(); ++i)
    a.data.push_back(reference::Element::real(static_cast<double>(random.between(-8, 8)) / 4));
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

TEST_CASE("vector_products: fuzz, the same numbers") {
  fuzz::Random random(1);
  for (int n = 0; n < 100; ++n) {
    const int64_t rows = random.between(1, 9), terms = random.between(1, 9);
    const DType type = random.below(2) ? DType::f32 : DType::bf16;
    const bool linear = random.below(2) != 0;
    std::vector<TensorType> operands = {tensor({1, terms}, type), tensor({rows, terms}, type)};
    if (!linear) operands[1] = with_strides(tensor({terms, rows}, type), {1, terms});
    if (linear && random.below(2)) operands.push_back(tensor({rows}, type));
    const Trace t = product(linear ? "torch.linear" : "torch.matmul", operands);
    const Trace after = vector_products(t, fusing(), kAny);
    std::vector<reference::Datum> inputs;
    for (const TensorType& o : operands) inputs.push_back(numbers(o, random));
    CHECK(reference::same_datum(reference::evaluate(t, inputs), reference::evaluate(after, inputs)));
  }
}

}  // namespace
}  // namespace thunder
