// Types of convolutions' gradients.
#include "passes/pass_ops.h"

namespace thunder {
namespace {

using test::f32;
using test::pass_builder;

// The strides of the weight's gradient, of an image or volume of one sample whose stride over samples is `batch`.
Dims gradient_strides(DeviceType device, Dim batch) {
  const Device on{device, 0};
  const auto tensor = [&](Dims shape, Dim over_samples) {
    TensorType t = f32(shape);
    t.device = on;
    t.strides = channels_last_strides(shape);
    t.strides[0] = over_samples;
    return t;
  };
  Builder b = pass_builder();
  const Expr x(b, b.input(tensor({1, 3, 6, 8, 6}, batch), "x")), g(b, b.input(tensor({1, 8, 6, 8, 6}, batch), "g"));
  const Expr w(b, b.input(tensor({8, 3, 3, 3, 3}, 81), "w"));
  const Dims one(3, Dim(1)), none(3, Dim(0));
  const Expr all =
      b("torch.convolution_backward", g, x, w, nullptr, one, one, one, false, none, 1, Arg::list({false, true, false}));
  return all[1].tensor().strides;
}

TEST_CASE("convolution_backward: cuDNN lays the weight's gradient out as the image's strides suggest") {
  const Dims last = channels_last_strides({8, 3, 3, 3, 3}), rows = contiguous_strides({8, 3, 3, 3, 3});
  CHECK(same(gradient_strides(DeviceType::cuda, 4000), last));
  CHECK(same(gradient_strides(DeviceType::cuda, 3), rows));
  CHECK(same(gradient_strides(DeviceType::cpu, 3), last));
}

}  // namespace
}  // namespace thunder
