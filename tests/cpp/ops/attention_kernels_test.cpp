// Which kernel takes a call of attention whose mask has a gradient.
#include <doctest.h>

#include "core/builder.h"
#include "ops/families.h"
#include "ops/torch/attention.h"

namespace thunder {
namespace {

using ops::torch::AttentionKernel;
using ops::torch::AttentionSupport;
using ops::torch::EagerAttention;

struct Case {
  Dims mask;
  DType dtype = DType::bf16, mask_dtype = DType::bf16;
  int64_t batch = 2;
  double dropout = 0;
  bool turned = false;  // rows and columns of the mask in memory
};

AttentionKernel kernel(const Case& c, const AttentionSupport& support = {}) {
  ops::register_all();
  Builder b(std::make_shared<Arena>());
  const auto tensor = [&](DType t, const Dims& shape, bool turned = false) {
    Dims strides = contiguous_strides(shape);
    if (turned) std::swap(strides[shape.size() - 1], strides[shape.size() - 2]);
    return b.input(TensorType{t, Device{DeviceType::cuda, 0}, shape, strides, true});
  };
  const Value q = tensor(c.dtype, {c.batch, 4, 49, 32});
  const Expr out = b("torch.scaled_dot_product_attention", q, q, q, tensor(c.mask_dtype, c.mask, c.turned), c.dropout);
  const Trace t = b.finish("f", out);
  return ops::torch::attention_kernel(t.calls.back()->arguments(), support);
}

TEST_CASE("attention: a mask with a gradient goes to the memory-efficient kernel in all shapes that broadcast") {
  for (const Dims& mask : {Dims{49, 49}, Dims{1, 49}, Dims{4, 49, 49}, Dims{1, 49, 49}, Dims{1, 4, 49, 49},
                           Dims{2, 1, 49, 49}, Dims{2, 4, 49, 49}, Dims{2, 4, 1, 49}, Dims{1, 1, 49, 1}})
    for (DType t : {DType::bf16, DType::f16, DType::f32})
      CHECK(kernel({.mask = mask, .dtype = t, .mask_dtype = t}) == AttentionKernel::Efficient);
}

TEST_CASE("attention: a mask with a gradient that no kernel takes") {
  CHECK(kernel({.mask = {1, 4, 49, 49}, .mask_dtype = DType::f32}) == AttentionKernel::Math);
  CHECK(kernel({.mask = {1, 4, 49, 49}, .batch = 65535}) == AttentionKernel::Efficient);
  CHECK(kernel({.mask = {1, 4, 49, 49}, .batch = 65536}) == AttentionKernel::Math);
  CHECK(kernel({.mask = {1, 1, 4, 49, 49}}) == AttentionKernel::Math);
  AttentionSupport off;
  off.efficient = false;
  CHECK(kernel({.mask = {1, 4, 49, 49}}, off) == AttentionKernel::Math);
}

TEST_CASE("attention: dropout with a mask that has a gradient is drawn by the kernel that eager takes") {
  const Case plain{.mask = {1, 4, 49, 49}, .dropout = 0.1},
      turned{.mask = {1, 4, 49, 49}, .dropout = 0.1, .turned = true};
  CHECK(kernel(plain) == AttentionKernel::Efficient);
  CHECK(kernel(turned) == AttentionKernel::Math);
  for (const Case& c : {plain, turned}) {
    AttentionSupport asked;
    asked.eager = EagerAttention::Fused;
    CHECK(kernel(c, asked) == AttentionKernel::Efficient);
    asked.eager = EagerAttention::Math;
    CHECK(kernel(c, asked) == AttentionKernel::Math);
  }
}

}  // namespace
}  // namespace thunder
