#include "passes/one_hot_sums.h"

#include <string>

#include "core/parse.h"
#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::code;

Trace program(const std::string& body) {
  ops::register_all();
  return parse(
      "import torch\nimport thunder.core.prims as prims\n\ndef f(g, i, m):\n  # g: \"cpu f32[4]\"\n"
      "  # i: \"cpu i64[4]\"\n  # m: \"cpu b8[4]\"\n" +
      body);
}

const std::string kPlaces =
    "  t0 = prims.iota(6, 0, 1, dtype=torch.int64, device=torch.device('cpu'))  # t0: \"cpu i64[6]\"\n"
    "  t1 = prims.broadcast_in_dim(t0, [4, 6], [1])  # t1: \"cpu i64[4, 6] strides=(0, 1)\"\n"
    "  t2 = prims.broadcast_in_dim(i, [4, 6], [0])  # t2: \"cpu i64[4, 6] strides=(1, 0)\"\n";
const std::string kHot = kPlaces +
                         "  t3 = prims.eq(t1, t2)  # t3: \"cpu b8[4, 6]\"\n"
                         "  t4 = prims.broadcast_in_dim(g, [4, 6], [0])  # t4: \"cpu f32[4, 6] strides=(1, 0)\"\n";

bool walks(const Trace& t) { return code(dce(t)).find("prims.sum(") != std::string::npos; }

TEST_CASE("one_hot_sums: nothing to do") {
  Trace none = program("  t0 = prims.sum(g, [0])  # t0: \"cpu f32[]\"\n  return t0\n");
  CHECK(one_hot_sums(none).calls == none.calls);
}

const char* const kRows[] = {
    "  t5 = prims.where(t3, t4, 0.0)  # t5: \"cpu f32[4, 6]\"\n",
    "  t6 = prims.neg(t4)  # t6: \"cpu f32[4, 6]\"\n  t5 = prims.where(t3, t6, 0.0)  # t5: \"cpu f32[4, 6]\"\n",
    "  t6 = prims.broadcast_in_dim(m, [4, 6], [0])  # t6: \"cpu b8[4, 6] strides=(1, 0)\"\n"
    "  t7 = prims.bitwise_and(t3, t6)  # t7: \"cpu b8[4, 6]\"\n"
    "  t8 = prims.where(t7, t4, 0.0)  # t8: \"cpu f32[4, 6]\"\n"
    "  t9 = prims.convert_element_type(t8, torch.bfloat16)  # t9: \"cpu bf16[4, 6]\"\n"
    "  t10 = prims.convert_element_type(t9, torch.float32)  # t10: \"cpu f32[4, 6]\"\n"
    "  t5 = prims.neg(t10)  # t5: \"cpu f32[4, 6]\"\n"};

TEST_CASE("one_hot_sums: a comparison, alone and beside a condition, converted and negated") {
  for (const std::string row : kRows) {
    const Trace t = program(kHot + row + "  t11 = prims.sum(t5, [1])  # t11: \"cpu f32[4]\"\n  return t11\n");
    INFO(code(t));
    CHECK(walks(t));
    const Trace after = one_hot_sums(t);
    CHECK_NOTHROW(verify(after));
    CHECK(!walks(after));
  }
}

template <class F>
reference::Datum array_of_four(DType dtype, F&& element) {
  reference::Array a;
  a.dtype = dtype;
  a.shape = {4};
  for (int n = 0; n < 4; ++n) a.data.push_back(element());
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

TEST_CASE("one_hot_sums: fuzz, the same numbers for labels inside and outside") {
  fuzz::Random random(1);
  for (int n = 0; n < 200; ++n) {
    const Trace t = program(kHot + kRows[n % 3] + "  t11 = prims.sum(t5, [1])  # t11: \"cpu f32[4]\"\n  return t11\n");
    const std::vector<reference::Datum> inputs = {
        array_of_four(DType::f32, [&] { return reference::Element::real(random.between(-64, 64) / 8.0); }),
        array_of_four(DType::i64, [&] { return reference::Element::integer(random.between(-2, 8)); }),
        array_of_four(DType::boolean, [&] { return reference::Element::integer(random.below(2)); })};
    const reference::Datum want = reference::evaluate(t, inputs), got = reference::evaluate(one_hot_sums(t), inputs);
    for (size_t k = 0; k < 4; ++k) CHECK(got.array->data[k].re == want.array->data[k].re);  // -0 is 0
  }
}

TEST_CASE("one_hot_sums: along the first dimension, what reads the result reads the new one") {
  const Trace t = program(
      "  t0 = prims.iota(6, 0, 1, dtype=torch.int64, device=torch.device('cpu'))  # t0: \"cpu i64[6]\"\n"
      "  t1 = prims.broadcast_in_dim(t0, [6, 4], [0])  # t1: \"cpu i64[6, 4] strides=(1, 0)\"\n"
      "  t2 = prims.broadcast_in_dim(i, [6, 4], [1])  # t2: \"cpu i64[6, 4] strides=(0, 1)\"\n"
      "  t3 = prims.eq(t2, t1)  # t3: \"cpu b8[6, 4]\"\n"
      "  t4 = prims.broadcast_in_dim(g, [6, 4], [1])  # t4: \"cpu f32[6, 4] strides=(0, 1)\"\n"
      "  t5 = prims.where(t3, t4, 0.0)  # t5: \"cpu f32[6, 4]\"\n"
      "  t6 = prims.sum(t5, [0])  # t6: \"cpu f32[4]\"\n  t7 = prims.exp(t6)  # t7: \"cpu f32[4]\"\n  return t7\n");
  const Trace after = one_hot_sums(t);
  CHECK_NOTHROW(verify(after));
  CHECK(!walks(after));
}

TEST_CASE("one_hot_sums: refused") {
  auto refused = [](const std::string& body) {
    const Trace t = program(body);
    INFO(code(t));
    CHECK(walks(one_hot_sums(t)));
  };
  const std::string sum = "  t11 = prims.sum(t5, [1])  # t11: \"cpu f32[4]\"\n  return t11\n";
  // Where the label is not, there is another number than 0.
  refused(kHot + "  t5 = prims.where(t3, t4, 1.0)  # t5: \"cpu f32[4, 6]\"\n" + sum);
  // What is looked up changes along the row.
  refused(kHot +
          "  t6 = prims.convert_element_type(t1, torch.float32)  # t6: \"cpu f32[4, 6]\"\n"
          "  t5 = prims.where(t3, t6, 0.0)  # t5: \"cpu f32[4, 6]\"\n" +
          sum);
  // All but the label.
  refused(kPlaces +
          "  t3 = prims.ne(t1, t2)  # t3: \"cpu b8[4, 6]\"\n"
          "  t4 = prims.broadcast_in_dim(g, [4, 6], [0])  # t4: \"cpu f32[4, 6] strides=(1, 0)\"\n"
          "  t5 = prims.where(t3, t4, 0.0)  # t5: \"cpu f32[4, 6]\"\n" +
          sum);
  // exp(0) is not 0.
  refused(kHot +
          "  t6 = prims.where(t3, t4, 0.0)  # t6: \"cpu f32[4, 6]\"\n  t5 = prims.exp(t6)  # t5: \"cpu f32[4, 6]\"\n" +
          sum);
  // Along the other dimension several rows may have the same label.
  refused(kHot +
          "  t5 = prims.where(t3, t4, 0.0)  # t5: \"cpu f32[4, 6]\"\n"
          "  t11 = prims.sum(t5, [0])  # t11: \"cpu f32[6]\"\n  return t11\n");
  // Every second place.
  std::string even = kHot;
  even.replace(even.find("0, 1, dtype"), 4, "0, 2");
  refused(even + "  t5 = prims.where(t3, t4, 0.0)  # t5: \"cpu f32[4, 6]\"\n" + sum);
}

}  // namespace
}  // namespace thunder
