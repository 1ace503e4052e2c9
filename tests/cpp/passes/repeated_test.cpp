#include "passes/repeated.h"

#include <string>

#include "core/parse.h"
#include "passes/pass_ops.h"

namespace thunder {
namespace {

Trace program(const std::string& body) {
  ops::register_all();
  return parse(
      "import torch\nimport thunder.core.prims as prims\n\ndef f(a, b):\n  # a: \"cpu bf16[4]\"\n"
      "  # b: \"cpu bf16[4]\"\n" +
      body);
}

// The names of what is rounded.
std::string rounded(const Trace& t, const Trace* other = nullptr) {
  std::vector<const Trace*> traces{&t};
  if (other) traces.push_back(other);
  const Repeated r = repeated_values(traces, visible_values(t));
  std::string out;
  for (const Call* c : t.calls)
    visit_outputs(*c, [&](Value v) {
      if (r.rounded[v]) out += std::string(v.name()) + " ";
    });
  return out;
}

const std::string kSum = "  t0 = prims.add(a, b)  # t0: \"cpu bf16[4]\"\n";

TEST_CASE("repeated: one reader that does not jump") {
  CHECK(rounded(program(kSum + "  t1 = prims.mul(t0, b)  # t1: \"cpu bf16[4]\"\n  return t1\n")) == "");
  CHECK(rounded(program(kSum + "  t1 = prims.convert_element_type(t0, torch.float32)  # t1: \"cpu f32[4]\"\n"
                               "  return t1\n")) == "");
}

TEST_CASE("repeated: two readers") {
  CHECK(rounded(program(kSum + "  t1 = prims.mul(t0, t0)  # t1: \"cpu bf16[4]\"\n  return t1\n")) == "t0 ");
  CHECK(rounded(program(kSum + "  t1 = prims.mul(t0, b)  # t1: \"cpu bf16[4]\"\n  return (t0, t1)\n")) == "t0 ");
}

TEST_CASE("repeated: two traces that make it") {
  Trace t = program(kSum + "  t1 = prims.mul(t0, b)  # t1: \"cpu bf16[4]\"\n  return t1\n");
  CHECK(rounded(t, &t) == "t0 t1 ");
}

TEST_CASE("repeated: operands of what jumps") {
  for (const char* call : {"prims.gt(t0, 1)  # t1: \"cpu b8[4]\"", "prims.floor(t0)  # t1: \"cpu bf16[4]\"",
                           "prims.convert_element_type(t0, torch.int64)  # t1: \"cpu i64[4]\""})
    CHECK(rounded(program(kSum + "  t1 = " + call + "\n  return t1\n")) == "t0 ");
}

TEST_CASE("repeated: what has another name") {
  const std::string named = kSum + "  t1 = prims.detach(t0)  # t1: \"cpu bf16[4]\"\n";
  CHECK(rounded(program(named + "  t2 = prims.exp(t1)  # t2: \"cpu bf16[4]\"\n  return t2\n")) == "");
  CHECK(rounded(program(named + "  t2 = prims.floor(t1)  # t2: \"cpu bf16[4]\"\n  return t2\n")) == "t0 t1 ");
}

TEST_CASE("repeated: casts to 16 bits, and not what lies within a composite") {
  const std::string wide =
      "  t0 = prims.convert_element_type(a, torch.float32)  # t0: \"cpu f32[4]\"\n"
      "  t1 = prims.convert_element_type(t0, torch.bfloat16)  # t1: \"cpu bf16[4]\"\n"
      "  return t1\n";
  CHECK(rounded(program(wide)) == "t1 ");
  Builder b = test::pass_builder();
  TensorType t = test::f32({4});
  t.dtype = DType::bf16;
  Value x = b.input(t, "x");
  // Its body casts back what it computed.
  CHECK(rounded(b.finish("f", b("torch.neg", b("torch.silu", x)))) == "");
}

}  // namespace
}  // namespace thunder
