#include "passes/conversions.h"

#include <string>

#include "core/parse.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;

// `products`: who has products that give another dtype.
ExecutorList executors(bool products = true) {
  std::vector<std::string> of_blas = {"prims.matmul"},
                           of_all = {"prims.convert_element_type",  "prims.add",       "prims.exp", "prims.matmul",
                                     "prims.convert_element_types", "prims.copy_data_"};
  if (products) of_blas.emplace_back("prims.matmul_as");
  return {test::implementing_executor(products ? "blas" : "old", of_blas), test::implementing_executor("all", of_all)};
}

Trace parsed(const std::string& text) {
  ops::register_all();
  return parse(
      "import torch\nimport thunder.core.prims as prims\n\ndef f(w, v, x):\n  # w: \"cuda:0 f32[4, 4]\"\n"
      "  # v: \"cuda:0 f32[8]\"\n  # x: \"cuda:0 bf16[4, 4]\"\n" +
      text);
}

const std::string kProduct = "  t0 = prims.matmul(x, x)  # t0: \"cuda:0 bf16[4, 4]\"\n",
                  kConverted = "  t1 = prims.convert_element_type(t0, torch.float32)  # t1: \"cuda:0 f32[4, 4]\"\n";

std::string with_products(const std::string& text, bool products = true) {
  const ExecutorList list = executors(products);
  return code(converted_products(claim(parsed(text), list), list));
}

TEST_CASE("converted_products: the product gives what its only reader makes of it") {
  CHECK(with_products(kProduct + kConverted + "  return t1\n") ==
        "t1 = blas_matmul_as(x, x, torch.float32)\nreturn t1\n");
  const std::string between = "  t2 = prims.exp(w)  # t2: \"cuda:0 f32[4, 4]\"\n";
  CHECK(with_products(kProduct + between + kConverted + "  return (t1, t2)\n") ==
        "t1 = blas_matmul_as(x, x, torch.float32)\nt2 = all_exp(w)\nreturn (t1, t2)\n");
}

TEST_CASE("converted_products: nothing to do, and refused") {
  const std::string product = "t0 = blas_matmul(x, x)\n",
                    converted = "t1 = all_convert_element_type(t0, torch.float32)\n";
  CHECK(with_products(kProduct + "  return t0\n") == product + "return t0\n");
  CHECK(with_products(kProduct + kConverted + "  return (t0, t1)\n") == product + converted + "return (t0, t1)\n");
  // By an executor that has no such product, whatever others have.
  CHECK(with_products(kProduct + kConverted + "  return t1\n", false) ==
        "t0 = old_matmul(x, x)\n" + converted + "return t1\n");
  const std::string computed = "  t0 = prims.exp(x)  # t0: \"cuda:0 bf16[4, 4]\"\n" + kConverted + "  return t1\n";
  CHECK(with_products(computed) == "t0 = all_exp(x)\n" + converted + "return t1\n");
}

std::string with_joined(const std::string& text, const JoinLimits& limits = {},
                        const ExecutorList& list = executors()) {
  return code(joined_conversions(claim(parsed(text), list), list, limits));
}

const std::string kOfW = "  t0 = prims.convert_element_type(w, torch.bfloat16)  # t0: \"cuda:0 bf16[4, 4]\"\n",
                  kUse = "  t1 = prims.matmul(x, t0)  # t1: \"cuda:0 bf16[4, 4]\"\n",
                  kOfV = "  t2 = prims.convert_element_type(v, torch.bfloat16)  # t2: \"cuda:0 bf16[8]\"\n";

TEST_CASE("joined_conversions: those of inputs, where the first one stands") {
  CHECK(with_joined(kOfW + kUse + kOfV + "  return (t1, t2)\n") ==
        "[t0, t2] = all_convert_element_types([w, v], torch.bfloat16)\nt1 = blas_matmul(x, t0)\nreturn (t1, t2)\n");
  // Each pair of dtypes by itself.
  const std::string back = "  t3 = prims.convert_element_type(x, torch.float32)  # t3: \"cuda:0 f32[4, 4]\"\n";
  CHECK(with_joined(back + kOfW + kOfV + "  return (t0, t2, t3)\n") ==
        "t3 = all_convert_element_type(x, torch.float32)\n"
        "[t0, t2] = all_convert_element_types([w, v], torch.bfloat16)\nreturn (t0, t2, t3)\n");
}

TEST_CASE("joined_conversions: nothing to do, and refused") {
  const std::string w = "t0 = all_convert_element_type(w, torch.bfloat16)\n",
                    v = "t2 = all_convert_element_type(v, torch.bfloat16)\n";
  CHECK(with_joined(kOfW + "  return t0\n") == w + "return t0\n");
  const std::string both = kOfW + kOfV + "  return (t0, t2)\n", apart = w + v + "return (t0, t2)\n";
  CHECK(with_joined(both, {.result = 31, .results = 100}) == apart);  // w's has 32 bytes, v's 16
  CHECK(with_joined(both, {.result = 32, .results = 47}) == apart);
  CHECK(with_joined(both, {.result = 32, .results = 48}) != apart);
  // What the program makes is there only then.
  CHECK(with_joined("  t1 = prims.exp(v)  # t1: \"cuda:0 f32[8]\"\n" + kOfW +
                    "  t2 = prims.convert_element_type(t1, torch.bfloat16)  # t2: \"cuda:0 bf16[8]\"\n"
                    "  return (t0, t2)\n") ==
        "t1 = all_exp(v)\n" + w + "t2 = all_convert_element_type(t1, torch.bfloat16)\nreturn (t0, t2)\n");
  // An input that is written to.
  CHECK(with_joined(kOfW + "  t3 = prims.copy_data_(v, v)  # t3: \"cuda:0 f32[8]\"\n" + kOfV +
                    "  return (t0, t2, t3)\n") ==
        w + "t3 = all_copy_data_(v, v, True)\n" + v + "return (t0, t2, t3)\n");
  // On the CPU a call costs next to nothing.
  std::string on_cpu = print(parsed(both));
  for (size_t at = 0; (at = on_cpu.find("cuda:0", at)) != std::string::npos;) on_cpu.replace(at, 6, "cpu");
  const ExecutorList list = executors();
  CHECK(code(joined_conversions(claim(parse(on_cpu), list), list)) == apart);
}

TEST_CASE("joined_conversions: an executor that takes one by one keeps what it has") {
  const ExecutorList list = {test::implementing_executor("single", {"prims.convert_element_type"})};
  CHECK(with_joined(kOfW + kOfV + "  return (t0, t2)\n", {}, list) ==
        "t0 = single_convert_element_type(w, torch.bfloat16)\n"
        "t2 = single_convert_element_type(v, torch.bfloat16)\nreturn (t0, t2)\n");
}

}  // namespace
}  // namespace thunder
