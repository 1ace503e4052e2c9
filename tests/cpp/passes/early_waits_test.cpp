#include "passes/early_waits.h"

#include <algorithm>
#include <string>

#include "core/parse.h"
#include "fuzz/random.h"
#include "passes/pass_ops.h"

namespace thunder {
namespace {

using test::code;

Trace program(std::string body, const std::string& device = "cuda:0") {
  test::register_pass_ops();
  std::string text =
      "import torch\nimport thunder.core.prims as prims\n\ndef f(x, w, labels):\n  # x: \"DEVICE f32[8, 8]\"\n"
      "  # w: \"DEVICE f32[8, 8]\"\n  # labels: \"DEVICE i64[8]\"\n" +
      std::move(body);
  for (size_t at; (at = text.find("DEVICE")) != std::string::npos;) text.replace(at, 6, device);
  return parse(text);
}

const std::string kWork = "  t1 = prims.matmul(x, w)  # t1: \"DEVICE f32[8, 8]\"\n";
const std::string kMask = "  t2 = prims.ge(labels, 0)  # t2: \"DEVICE b8[8]\"\n";
const std::string kWait = "  t3 = prims.nonzero(t2)  # t3: \"DEVICE i64[u0, 1] strides=(1, u0)\"\n";
const std::string kEnd = "  return (t1, t3)\n";

// The operators' names, in their order.
std::string order(const Trace& t) {
  std::string out;
  for (const Call* c : t.calls) out += c->op->name + " ";
  return out;
}

TEST_CASE("early_waits: nothing to do") {
  const Trace none = program(kWork + "  return t1\n");
  CHECK(early_waits(none).calls == none.calls);
  const Trace host = program(kWork + kMask + kWait + kEnd, "cpu");
  CHECK(early_waits(host).calls == host.calls);
}

TEST_CASE("early_waits: what needs inputs alone comes first, and what it needs before it") {
  const Trace t = early_waits(program(kWork + kMask + kWait + kEnd));
  CHECK_NOTHROW(verify(t));
  CHECK(order(t) == "prims.ge prims.nonzero prims.matmul ");
}

TEST_CASE("early_waits: two waits keep their order, and share what they need") {
  const Trace t = early_waits(program(kWork + kMask + kWait +
                                      "  t4 = prims.eq(t2, False)  # t4: \"DEVICE b8[8]\"\n"
                                      "  t5 = prims.nonzero(t4)  # t5: \"DEVICE i64[u1, 1] strides=(1, u1)\"\n"
                                      "  return (t1, t3, t5)\n"));
  CHECK_NOTHROW(verify(t));
  CHECK(order(t) == "prims.ge prims.nonzero prims.eq prims.nonzero prims.matmul ");
}

TEST_CASE("early_waits: refused") {
  SUBCASE("behind an effect") {
    const Trace t =
        program(kWork + "  t6 = pt.rand(x)  # t6: \"DEVICE f32[8, 8]\"\n" + kMask + kWait + "  return (t1, t3, t6)\n");
    CHECK(early_waits(t).calls == t.calls);
  }
  SUBCASE("that needs many calls") {
    const std::string chain = [] {
      std::string out = "  a0 = prims.add(labels, 1)  # a0: \"DEVICE i64[8]\"\n";
      for (int i = 1; i < 20; ++i)
        out += "  a" + std::to_string(i) + " = prims.add(a" + std::to_string(i - 1) + ", 1)  # a" + std::to_string(i) +
               ": \"DEVICE i64[8]\"\n";
      return out;
    }();
    const Trace t = program(kWork + chain + "  t2 = prims.ge(a19, 0)  # t2: \"DEVICE b8[8]\"\n" + kWait + kEnd);
    CHECK(early_waits(t).calls == t.calls);
  }
  SUBCASE("behind a write") {
    const Trace t =
        program("  t6 = prims.copy_data_(x, w)  # t6: \"DEVICE f32[8, 8]\"\n" + kWork + kMask + kWait + kEnd);
    CHECK(early_waits(t).calls == t.calls);
  }
  SUBCASE("of what another wait gives that stays") {
    const Trace t =
        program(kWork +
                "  b0 = prims.broadcast_in_dim(labels, [1000, 1000, 8], [2])  # b0: \"DEVICE i64[1000, 1000, 8] "
                "strides=(0, 0, 1)\"\n  t2 = prims.ge(b0, 0)  # t2: \"DEVICE b8[1000, 1000, 8]\"\n"
                "  t3 = prims.nonzero(t2)  # t3: \"DEVICE i64[u0, 3] strides=(1, u0)\"\n"
                "  t4 = prims.sum(t3, [0, 1])  # t4: \"DEVICE i64[]\"\n  t5 = prims.gt(t4, 0)  # t5: \"DEVICE b8[]\"\n"
                "  t6 = prims.nonzero(t5)  # t6: \"DEVICE i64[u1, 0] strides=(1, u1)\"\n  return (t1, t3, t6)\n");
    CHECK(early_waits(t).calls == t.calls);
  }
  SUBCASE("of large tensors") {
    const Trace t = program(
        "  b0 = prims.broadcast_in_dim(labels, [1000, 1000, 8], [2])  # b0: \"DEVICE i64[1000, 1000, 8] strides=(0, 0, "
        "1)\"\n  t1 = prims.ge(b0, 0)  # t1: \"DEVICE b8[1000, 1000, 8]\"\n"
        "  t3 = prims.nonzero(t1)  # t3: \"DEVICE i64[u0, 3] strides=(1, u0)\"\n  return t3\n");
    CHECK(early_waits(t).calls == t.calls);
  }
}

TEST_CASE("early_waits: random programs stay programs, and run nothing twice") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    fuzz::Random random(seed);
    ShapeEnv environment;
    ShapeEnv::Scope scope(environment);
    Builder b = test::pass_builder();
    TensorType type;
    type.dtype = DType::i64;
    type.device = {DeviceType::cuda, 0};
    type.shape = {8};
    type.strides = {1};
    std::vector<Value> values{b.input(type, "x"), b.input(type, "y")};
    for (int i = 0; i < 12; ++i) {
      const auto any = [&] { return values[static_cast<size_t>(random.below(static_cast<int64_t>(values.size())))]; };
      const Value v = any(), w = any();
      switch (random.below(4)) {
        case 0: {
          const Expr places = b("prims.nonzero", b("prims.ge", v, 0));
          if (random.below(2)) b("prims.nonzero", b("prims.ge", b("prims.sum", places, std::vector<int64_t>{1}), 3));
          break;
        }
        case 1:
          if (random.below(6) == 0) b("pt.rand", v);
          break;
        default: values.push_back(b("prims.add", v, w).value());
      }
    }
    const Trace t = b.finish("f", values.back()), after = early_waits(t);
    CHECK_NOTHROW(verify(after));
    std::vector<const Call*> before = t.calls, moved = after.calls;
    std::sort(before.begin(), before.end());
    std::sort(moved.begin(), moved.end());
    CHECK(before == moved);
  }
}

}  // namespace
}  // namespace thunder
