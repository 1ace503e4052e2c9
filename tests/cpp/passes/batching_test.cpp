#include "passes/batching.h"

#include <string>
#include <vector>

#include "core/parse.h"
#include "fuzz/random.h"
#include "passes/pass_ops.h"
#include "reference/evaluator.h"

namespace thunder {
namespace {

constexpr int64_t kBatch = 3;

// x and y differ from sample to sample, w is the same for all.
Trace sample(const std::string& body) {
  ops::register_all();
  return parse(
      "import torch\nimport thunder.core.prims as prims\n\ndef f(x, y, w):\n  # x: \"cpu f32[4, 2]\"\n"
      "  # y: \"cpu f32[2]\"\n  # w: \"cpu f32[4, 2]\"\n" +
      body);
}

TensorType batch_of(const TensorType& t) {
  TensorType out = t;
  out.shape.insert(out.shape.begin(), Dim(kBatch));
  out.strides = contiguous_strides(out.shape);
  return out;
}

// The program for a batch; nothing where there is no rule.
std::optional<Trace> batched(const Trace& t) {
  Builder b(t.arena);
  Batching batching(b, kBatch);
  for (size_t i = 0; i < 2; ++i) batching.set(t.inputs[i], b.input(batch_of(t.inputs[i].tensor())));
  b.add_input(t.inputs[2]);
  for (const Call* call : t.calls)
    if (!batching.put(*call)) return std::nullopt;
  return b.finish("f", batching.whole(t.output.value()));
}

reference::ArrayPtr random_array(fuzz::Random& random, reference::Shape shape) {
  reference::ArrayPtr a = reference::make_array(DType::f32, Device{}, std::move(shape));
  for (reference::Element& e : a->data) e = reference::Element::real(static_cast<double>(random.between(-8, 8)) / 4);
  return a;
}

reference::ArrayPtr part(const reference::ArrayPtr& batch, int64_t i) {
  reference::ArrayPtr a = reference::make_array(batch->dtype, Device{}, {batch->shape.begin() + 1, batch->shape.end()});
  const auto n = static_cast<std::ptrdiff_t>(a->data.size());
  std::copy_n(batch->data.begin() + i * n, n, a->data.begin());
  return a;
}

const char* const kPrograms[] = {
    "  t0 = prims.mul(x, w)  # t0: \"cpu f32[4, 2]\"\n  t1 = prims.exp(t0)  # t1: \"cpu f32[4, 2]\"\n  return t1\n",
    "  t0 = prims.broadcast_in_dim(y, [4, 2], [1])  # t0: \"cpu f32[4, 2] strides=(0, 1)\"\n"
    "  t1 = prims.add(t0, x)  # t1: \"cpu f32[4, 2]\"\n  t2 = prims.gt(t1, w)  # t2: \"cpu b8[4, 2]\"\n"
    "  t3 = prims.where(t2, x, 1.0)  # t3: \"cpu f32[4, 2]\"\n  return t3\n",
    "  t0 = prims.sum(x, [1])  # t0: \"cpu f32[4]\"\n  t1 = prims.amax(x, [0])  # t1: \"cpu f32[2]\"\n"
    "  t2 = prims.mul(t1, y)  # t2: \"cpu f32[2]\"\n  t3 = prims.cat([t0, t2], 0)  # t3: \"cpu f32[6]\"\n  return t3\n",
    "  t0 = prims.transpose(x, [1, 0])  # t0: \"cpu f32[2, 4] strides=(1, 2)\"\n"
    "  t1 = prims.reshape(t0, [8])  # t1: \"cpu f32[8]\"\n  t2 = prims.flip(t1, [0])  # t2: \"cpu f32[8]\"\n"
    "  t3 = prims.slice(t2, [1], [8], [3])  # t3: \"cpu f32[3] strides=(3,)\"\n"
    "  t4 = prims.pad(t3, 2.0, [(1, 0, 1)])  # t4: \"cpu f32[6]\"\n  return t4\n",
    "  t0 = prims.unfold(x, -2, 2, 1)  # t0: \"cpu f32[3, 2, 2] strides=(2, 1, 2)\"\n"
    "  t1 = prims.diagonal(t0, 0, 1, 2)  # t1: \"cpu f32[3, 2] strides=(2, 3)\"\n"
    "  t2 = prims.exp(t1)  # t2: \"cpu f32[3, 2] strides=(1, 3)\"\n  return t2\n",
    "  t0 = prims.slice(x, [1, 0], [4, 1], [2, 1])  # t0: \"cpu f32[2, 1] strides=(4, 1)\"\n"
    "  t1 = prims.squeeze(t0, [1])  # t1: \"cpu f32[2] strides=(4,)\"\n"
    "  t2 = prims.broadcast_in_dim(t1, [3, 2], [1])  # t2: \"cpu f32[3, 2] strides=(0, 4)\"\n"
    "  t3 = prims.exp(t2)  # t3: \"cpu f32[3, 2]\"\n  return t3\n",
    "  t0 = prims.cat([x, w], 1)  # t0: \"cpu f32[4, 4]\"\n  t1 = prims.var(t0, [1], correction=1)  # t1: \"cpu "
    "f32[4]\"\n"
    "  return t1\n",
    "  t0 = prims.transpose(w, [1, 0])  # t0: \"cpu f32[2, 4] strides=(1, 2)\"\n"
    "  t1 = prims.matmul(x, t0)  # t1: \"cpu f32[4, 4]\"\n  return t1\n",
    "  t0 = prims.linear(x, w, None)  # t0: \"cpu f32[4, 4]\"\n  return t0\n",
    "  t0 = prims.linear(w, x, None)  # t0: \"cpu f32[4, 4]\"\n  return t0\n",
    "  t0 = prims.linear(x, x, None)  # t0: \"cpu f32[4, 4]\"\n  return t0\n",
    "  t0 = prims.linear(y, x, None)  # t0: \"cpu f32[4]\"\n  return t0\n",
    "  t0 = prims.cumsum(x, 0)  # t0: \"cpu f32[4, 2]\"\n  t1 = prims.cumprod(t0, 1)  # t1: \"cpu f32[4, 2]\"\n"
    "  return t1\n",
    "  t0 = prims.exp(w)  # t0: \"cpu f32[4, 2]\"\n  return t0\n",
    "  t0 = prims.argmax(x, 0)  # t0: \"cpu i64[2]\"\n  t1 = prims.take(x, t0, 0)  # t1: \"cpu f32[2, 2]\"\n"
    "  t2 = prims.take(w, t0, 0)  # t2: \"cpu f32[2, 2]\"\n  t3 = prims.mul(t1, t2)  # t3: \"cpu f32[2, 2]\"\n"
    "  t4 = prims.index_add(x, 0, t0, t3)  # t4: \"cpu f32[4, 2]\"\n  return t4\n",
    "  t0 = prims.argmin(w, 0)  # t0: \"cpu i64[2]\"\n  t1 = prims.take(x, t0, 0)  # t1: \"cpu f32[2, 2]\"\n"
    "  t2 = prims.index_add(w, 0, t0, t1)  # t2: \"cpu f32[4, 2]\"\n  return t2\n",
    "  t0 = prims.argmax(x, 1)  # t0: \"cpu i64[4]\"\n  t1 = prims.view(t0, [4, 1])  # t1: \"cpu i64[4, 1]\"\n"
    "  t2 = prims.take_along_axis(w, t1, 1)  # t2: \"cpu f32[4, 1]\"\n"
    "  t3 = prims.scatter_add(x, 1, t1, t2)  # t3: \"cpu f32[4, 2]\"\n  return t3\n",
};

TEST_CASE("batching: each sample's part is what the program gives for the sample") {
  fuzz::Random random(1);
  for (const char* body : kPrograms) {
    const Trace t = sample(body);
    const std::optional<Trace> whole = batched(t);
    INFO(body);
    REQUIRE(whole);
    CHECK_NOTHROW(verify(*whole));
    const reference::ArrayPtr x = random_array(random, {kBatch, 4, 2}), y = random_array(random, {kBatch, 2}),
                              w = random_array(random, {4, 2});
    const reference::Datum got = reference::evaluate(*whole, {x, y, w});
    for (int64_t i = 0; i < kBatch; ++i)
      CHECK(reference::same_datum(part(got.array, i), reference::evaluate(t, {part(x, i), part(y, i), w})));
  }
}

TEST_CASE("batching: refused where there is no rule") {
  const char* const bodies[] = {
      "  t0 = prims.bernoulli_like(x, 0.5)  # t0: \"cpu f32[4, 2]\"\n  return t0\n",
      "  t0 = prims.bernoulli_like(w, 0.5)  # t0: \"cpu f32[4, 2]\"\n  return t0\n",
  };
  for (const char* body : bodies) CHECK(!batched(sample(body)));
}

}  // namespace
}  // namespace thunder
