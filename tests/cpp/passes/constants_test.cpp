#include "passes/constants.h"

#include <string>

#include "core/parse.h"
#include "passes/pass_ops.h"
#include "passes/passes.h"

namespace thunder {
namespace {

using test::code;

Trace program(const std::string& body) {
  ops::register_all();
  const Trace t = parse(
      "import torch\nimport thunder.core.prims as prims\nimport thunder.torch as ltorch\n\n"
      "def f(x):\n  # x: \"cpu i64[4]\"\n" +
      body);
  return claim(t,
               {test::implementing_executor("all", {"prims.iota", "prims.add", "torch.add", "prims.cumsum",
                                                    "prims.broadcast_in_dim", "prims.uniform", "prims.copy_data_"})});
}

std::string made_once(const std::string& body, ConstantLimits limits = {}) {
  const Trace t = program(body);
  return code(constants_once(t, t.output, {}, limits));
}

std::string unchanged(const std::string& body) { return code(program(body)); }

const std::string kPlaces =
    "  t0 = prims.iota(4, 0, 1, dtype=torch.int64, device=torch.device('cpu'))  # t0: \"cpu i64[4]\"\n";
const std::string kTwice = "  t1 = prims.add(t0, t0)  # t1: \"cpu i64[4]\"\n",
                  kUse = "  t2 = prims.add(t1, x)  # t2: \"cpu i64[4]\"\n";

TEST_CASE("constants: what depends on no input is one call, which gives what others read") {
  const std::string text = made_once(kPlaces + kTwice + kUse + "  return t2\n");
  CHECK(text.find("(t1,) = constants") == 0);
  CHECK(text.find("t2 = all_add(t1, x)\nreturn t2\n") != std::string::npos);
  CHECK(text.find("t0 = all_iota") == std::string::npos);
}

TEST_CASE("constants: what the backward gets is kept, too") {
  const Trace t = program(kPlaces + kTwice + kUse + "  return (t2, t1)\n");
  CHECK(code(constants_once(t, t.output.items()[0])).find("(t1,) = constants") == 0);
}

TEST_CASE("constants: nothing to do") {
  const std::string body = "  t2 = prims.add(x, x)  # t2: \"cpu i64[4]\"\n  return t2\n";
  CHECK(made_once(body) == unchanged(body));
}

TEST_CASE("constants: the caller's results are its own") {
  CHECK(made_once(kPlaces + "  return t0\n") == unchanged(kPlaces + "  return t0\n"));
  const std::string both = kPlaces + kTwice + kUse + "  return (t2, t1)\n";
  CHECK(made_once(both).find("(t0,) = constants") == 0);
  CHECK(made_once(both).find("t1 = all_add(t0, t0)\n") != std::string::npos);
  const std::string view = kPlaces +
                           "  t3 = prims.broadcast_in_dim(t0, [2, 4], [1])  # t3: \"cpu i64[2, 4] strides=(0, 1)\"\n"
                           "  return t3\n";
  CHECK(made_once(view) == unchanged(view));
}

TEST_CASE("constants: a kernel's result is its own, whatever views it makes within") {
  const Trace t = program(kPlaces +
                          "  t1 = ltorch.add(t0, x)  # t1: \"cpu i64[4]\"\n"
                          "    # t2 = prims.broadcast_in_dim(t0, [4], [0])  # t2: \"cpu i64[4]\"\n"
                          "    # t1 = prims.add(t2, x)  # t1: \"cpu i64[4]\"\n  return t1\n");
  CHECK(code(constants_once(t, t.output)).find("(t0,) = constants") == 0);
}

TEST_CASE("constants: refused are calls of a user's code, and what they get") {
  const Trace t = program(kPlaces + kTwice + kUse + "  return t2\n");
  const auto twice = [&](const Call& c) { return c.output.same(t.calls[1]->output); };
  CHECK(code(constants_once(t, t.output, twice)) == code(t));
}

TEST_CASE("constants: refused are effects, and what something writes to") {
  const std::string drawn =
      "  t0 = prims.uniform([4], dtype=torch.float32, device=torch.device('cpu'))  # t0: \"cpu f32[4]\"\n"
      "  t1 = prims.add(t0, t0)  # t1: \"cpu f32[4]\"\n  t2 = prims.add(t1, t0)  # t2: \"cpu f32[4]\"\n  return t2\n";
  CHECK(made_once(drawn) == unchanged(drawn));
  const std::string written =
      kPlaces + "  t1 = prims.copy_data_(t0, x)  # t1: \"cpu i64[4]\"\n" + kUse + "  return t2\n";
  CHECK(made_once(written) == unchanged(written));
}

TEST_CASE("constants: refused is what is large, for a value and for all together") {
  const std::string body = kPlaces + kTwice + kUse + "  return t2\n";
  CHECK(made_once(body, {.value = 31}) == unchanged(body));
  CHECK(made_once(body, {.program = 31}) == unchanged(body));
  CHECK(made_once(body, {.value = 32, .program = 32}).find("(t1,) = constants") == 0);
  // Only what others read is kept.
  const std::string two = kPlaces + kTwice +
                          "  t2 = prims.add(t1, x)  # t2: \"cpu i64[4]\"\n"
                          "  t3 = prims.add(t2, t0)  # t3: \"cpu i64[4]\"\n  return t3\n";
  CHECK(made_once(two, {.program = 64}).find("(t0, t1) = constants") == 0);
  CHECK(made_once(two, {.program = 32}).find("(t0,) = constants") == 0);
}

}  // namespace
}  // namespace thunder
