#include "passes/spread_sources.h"

#include <string>

#include "core/parse.h"
#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

using test::count;
using test::f32;

Trace program(const std::string& body) {
  ops::register_all();
  return parse(
      "import torch\nimport thunder.core.prims as prims\n\ndef f(x, m):\n  # x: \"cpu f32[4, 6]\"\n"
      "  # m: \"cpu f32[4]\"\n" +
      body);
}

// The forward's two calls.
const std::string kForward =
    "  t1 = prims.broadcast_in_dim(m, [4, 6], [0])  # t1: \"cpu f32[4, 6] strides=(1, 0)\"\n"
    "  t2 = prims.sub(x, t1)  # t2: \"cpu f32[4, 6]\"\n";
const std::string kViewed = "  t3 = prims.view(m, [4, 1])  # t3: \"cpu f32[4, 1]\"\n";
const std::string kSpread =
    "  t5 = prims.broadcast_in_dim(t4, [4, 6], [0, 1])  # t5: \"cpu f32[4, 6] strides=(1, 0)\"\n"
    "  t6 = prims.sub(x, t5)  # t6: \"cpu f32[4, 6]\"\n  t7 = prims.mul(t2, t6)  # t7: \"cpu f32[4, 6]\"\n"
    "  return t7\n";

TEST_CASE("spread_sources: nothing to do") {
  const Trace t = program(kForward + "  t7 = prims.mul(t2, x)  # t7: \"cpu f32[4, 6]\"\n  return t7\n");
  CHECK(spread_sources(t, 2).calls == t.calls);
}

TEST_CASE("spread_sources: a name and a dimension of size 1 more, of which both compute the same") {
  for (const char* name : {"  t4 = prims.detach(t3)  # t4: \"cpu f32[4, 1]\"\n",
                           "  t4 = prims.view(t3, [4, 1])  # t4: \"cpu f32[4, 1]\"\n"}) {
    const Trace t = program(kForward + kViewed + name + kSpread);
    const Trace after = spread_sources(t, 2);
    CHECK_NOTHROW(verify(after));
    CHECK(count(t, "prims.sub") == 2);
    CHECK(count(after, "prims.sub") == 1);
    CHECK(after.calls[0] == t.calls[0]);
    CHECK(after.calls[1] == t.calls[1]);
    CHECK(after.calls.size() == 3);  // the backward's names of m are gone
  }
}

TEST_CASE("spread_sources: equal calls that read nothing of it stay two, as gathers that the backward repeats must") {
  const Trace t =
      program(kForward + kViewed + "  t4 = prims.detach(t3)  # t4: \"cpu f32[4, 1]\"\n" +
              "  t5 = prims.broadcast_in_dim(t4, [4, 6], [0, 1])  # t5: \"cpu f32[4, 6] strides=(1, 0)\"\n"
              "  t6 = prims.sub(x, t5)  # t6: \"cpu f32[4, 6]\"\n  t7 = prims.neg(x)  # t7: \"cpu f32[4, 6]\"\n"
              "  t8 = prims.neg(x)  # t8: \"cpu f32[4, 6]\"\n  t9 = prims.mul(t7, t8)  # t9: \"cpu f32[4, 6]\"\n"
              "  t10 = prims.mul(t6, t9)  # t10: \"cpu f32[4, 6]\"\n  return t10\n");
  const Trace after = spread_sources(t, 2);
  CHECK(count(after, "prims.neg") == 2);
  CHECK(count(after, "prims.sub") == 1);
}

TEST_CASE("spread_sources: refused") {
  const auto stays = [](const Trace& t, size_t forward_calls) {
    const Trace after = spread_sources(t, forward_calls);
    CHECK_NOTHROW(verify(after));
    CHECK(count(after, "prims.sub") == 2);
  };
  SUBCASE("the forward's own calls") {
    stays(program(kForward + kViewed + "  t4 = prims.detach(t3)  # t4: \"cpu f32[4, 1]\"\n" + kSpread), 6);
  }
  SUBCASE("other elements in the same places") {
    stays(program(kForward + kViewed + "  t4 = prims.neg(t3)  # t4: \"cpu f32[4, 1]\"\n" + kSpread), 2);
  }
  SUBCASE("a view of other sizes") {
    const Trace t = program(
        "  t1 = prims.broadcast_in_dim(m, [6, 4], [1])  # t1: \"cpu f32[6, 4] strides=(0, 1)\"\n"
        "  t2 = prims.view(m, [2, 2])  # t2: \"cpu f32[2, 2]\"\n"
        "  t3 = prims.broadcast_in_dim(t2, [3, 2, 2], [1, 2])  # t3: \"cpu f32[3, 2, 2] strides=(0, 2, 1)\"\n"
        "  return (t1, t3)\n");
    CHECK(spread_sources(t, 1).calls == t.calls);
  }
}

reference::Datum random_array(fuzz::Random& random, const std::vector<int64_t>& shape) {
  reference::Array a;
  a.dtype = DType::f32;
  a.shape = shape;
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  for (; n > 0; --n) a.data.push_back(reference::Element::real(random.between(-64, 64) / 8.0));
  return reference::Datum(std::make_shared<reference::Array>(std::move(a)));
}

TEST_CASE("spread_sources: fuzz, the same numbers whatever the dimensions of size 1") {
  fuzz::Random random(3);
  for (int n = 0; n < 100; ++n) {
    Builder b = test::pass_builder();
    Dims viewed, whole;
    std::vector<int64_t> kept, all, sizes;
    const auto dimension = [&](int64_t size, int64_t spread) {
      if (size > 1) kept.push_back(static_cast<int64_t>(all.size()));
      all.push_back(static_cast<int64_t>(all.size()));
      viewed.push_back(Dim(size)), whole.push_back(Dim(spread)), sizes.push_back(spread);
    };
    for (int64_t size : {4, 3, 1}) {
      if (random.below(2)) dimension(1, 1 + random.below(3));
      if (size > 1) dimension(size, size);
    }
    const Expr x{b, b.input(f32(whole), "x")}, m{b, b.input(f32({4, 3}), "m")};
    const Expr first = b("prims.sub", x, b("prims.broadcast_in_dim", m, whole, Arg(kept)));
    Expr other = b("prims.view", m, viewed);
    if (random.below(2)) other = b("prims.detach", other);
    const Expr second = b("prims.sub", x, b("prims.broadcast_in_dim", other, whole, Arg(all)));
    const Trace t = b.finish("f", b("prims.mul", first, second)), after = spread_sources(t, 2);
    CHECK_NOTHROW(verify(after));
    CHECK(count(after, "prims.sub") == 1);
    const std::vector<reference::Datum> inputs = {random_array(random, sizes), random_array(random, {4, 3})};
    const reference::Datum want = reference::evaluate(t, inputs), got = reference::evaluate(after, inputs);
    for (size_t k = 0; k < want.array->data.size(); ++k) CHECK(got.array->data[k].re == want.array->data[k].re);
  }
}

}  // namespace
}  // namespace thunder
