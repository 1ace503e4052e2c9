// torch: convolutions.
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

// One number for each spatial dimension.
Dims spatial(std::string_view op, const Args& a, const char* name, int64_t n) {
  Dims d = a.dims(name);
  if (d.size() == 1) d.resize(static_cast<size_t>(n), d[0]);
  THUNDER_CHECK(static_cast<int64_t>(d.size()) == n, Runtime, op, "expected ", name,
                " to be a single integer value or a list of ", n,
                " values to match the convolution dimensions, but got ", name, "=", str(d));
  return d;
}

Arg convolution_body(Builder& b, const Args& a) {
  const int64_t n = a.tensor("weight").rank() - 2;
  THUNDER_CHECK(n > 0, Runtime, "convolution", "weight should have at least three dimensions");
  auto of = [&](const char* name) { return Arg(spatial("convolution", a, name, n)); };
  return b("prims.convolution", a["input"], a["weight"], a["bias"], of("stride"), of("padding"), of("dilation"),
           a["transposed"], of("output_padding"), a["groups"])
      .arg();
}

// Whether ATen's copy of the tensor in channels last suggests that layout.  Where only strides of dimensions of size 1
// are other than that layout's, there is no copy, and the strides decide.
bool suggests_last_as_copied(const TensorType& t) {
  ShapeEnv::LayingOut scope;
  const Dims last = channels_last_strides(t.shape);
  for (size_t d = 0; d < last.size(); ++d)
    if (t.shape[d] != 1 && t.strides[d] != last[d]) return true;
  return suggests_channels_last(t);
}

Types convolution_backward_meta(const Args& a) {
  const TensorType &x = a.tensor("input"), &w = a.tensor("weight");
  const bool last = convolution_is_channels_last(x, w);
  // cuDNN lays out the weight's gradient, and before that the output's, as the input suggests.
  const bool weight_last = last && (x.device.type != DeviceType::cuda || suggests_last_as_copied(x));
  const ArgList& mask = a["output_mask"].items();
  auto like = [&](const TensorType& t, bool channels_last) {
    TensorType out = contiguous_type(t.dtype, t.device, t.shape);
    if (channels_last) out.strides = channels_last_strides(t.shape);
    return Type(out);
  };
  Type none;
  return {mask[0].boolean() ? like(x, last) : none, mask[1].boolean() ? like(w, weight_last) : none,
          mask[2].boolean() ? Type(contiguous_type(x.dtype, x.device, a.dims("bias_sizes"))) : none};
}

// It is linear in the output's gradient, and in the input and the weight, each of which it meets as convolution does.
void convolution_backward_vjp(VjpContext& c) {
  const Args a = c.args();
  const Expr g = c.in("grad_output"), x = c.in("input"), w = c.in("weight");
  auto convolved = [&](const Expr& input, const Expr& weight) {
    return c.b("prims.convolution", input, weight, nullptr, a["stride"], a["padding"], a["dilation"], a["transposed"],
               a["output_padding"], a["groups"]);
  };
  auto part = [&](const Expr& input, const Expr& weight, size_t i) {
    ArgList mask = {i == 0, i == 1, false};
    return c.b("torch.convolution_backward", g, input, weight, nullptr, a["stride"], a["padding"], a["dilation"],
               a["transposed"], a["output_padding"], a["groups"], Arg::list(std::move(mask)))[i];
  };
  Expr of_g;
  auto add = [&](const Expr& term) { of_g = of_g.is_none() ? term : of_g + term; };
  if (c.has_grad(0)) {
    if (c.needs("grad_output")) add(convolved(c.grad(0), w));
    if (c.needs("weight")) c.put("weight", part(c.grad(0), w, 1));
  }
  if (c.has_grad(1)) {
    if (c.needs("grad_output")) add(convolved(x, c.grad(1)));
    if (c.needs("input")) c.put("input", part(x, c.grad(1), 0));
  }
  if (c.has_grad(2) && c.needs("grad_output")) {
    Dims shape(g.shape().size(), Dim(1));
    shape[1] = g.shape()[1];
    add(c.b("torch.expand", c.b("torch.reshape", c.grad(2), shape), g.shape()));
  }
  c.put("grad_output", of_g);
}

// padding='same' may need one more element behind than in front: then the input is padded first.
Expr pad_same(Expr x, const Dims& kernel, const Dims& stride, const Dims& dilation, Dims& padding) {
  Builder& b = x.builder();
  Dims behind(kernel.size());
  bool uneven = false;
  for (size_t i = 0; i < kernel.size(); ++i) {
    THUNDER_CHECK(stride[i] == 1, Runtime, "convolution", "padding='same' is not supported for strided convolutions");
    Dim total = dilation[i] * (kernel[i] - 1);
    padding[i] = floordiv(total, 2);
    behind[i] = total - 2 * padding[i];
    uneven |= !(behind[i] == 0);
  }
  if (!uneven) return x;
  Dims config;
  for (size_t i = kernel.size(); i-- > 0;) config.insert(config.end(), {Dim(0), behind[i]});
  return b("torch.pad", x, config);
}

// (xr + i xi) * (wr + i wi) by three real convolutions, as ATen does it.
Expr complex_convolution(const Expr& x, const Expr& w, const Arg& bias, const ArgList& rest) {
  Builder& b = x.builder();
  auto convolution = [&](const Expr& input, const Expr& weight, const Arg& real_bias) {
    ArgList args{input, weight, real_bias};
    args.insert(args.end(), rest.begin(), rest.end());
    return Expr(b, b.call_named("torch.convolution", std::move(args), {}));
  };
  Expr xr = b("torch.real", x), xi = b("torch.imag", x), wr = b("torch.real", w), wi = b("torch.imag", w);
  Arg real_bias, both_biases;
  if (bias.is_tensor()) {
    real_bias = b("torch.real", bias);
    both_biases = b.expr(real_bias) + b("torch.imag", bias);
  }
  Expr real = convolution(xr, wr, real_bias), imag = convolution(xi, wi, Arg());
  Expr both = convolution(xr + xi, wr + wi, both_biases);
  return b("torch.complex", real - imag, both - real - imag);
}

// On a GPU ATen adds the bias to what cuDNN gives, and sums its gradient up, in kernels of their own: as operators
// these two become parts of others.
bool adds_bias(const Args& a, const TensorType& x, bool transposed) {
  if (x.device.type != DeviceType::cuda || !a["bias"].is_tensor() || !is_floating(x.dtype)) return false;
  const TensorType &w = a.tensor("weight"), &bias = a.tensor("bias");
  const Dim channels = transposed ? w.shape[1] * a.dim("groups") : w.shape[0];
  return bias.rank() == 1 && bias.shape[0].same(channels) && bias.dtype == x.dtype && w.dtype == x.dtype;
}

Arg convolve(Builder& b, std::string_view op, const Args& a, int64_t n, bool transposed) {
  Expr x = b.expr(a["input"]);
  const TensorType& w = a.tensor("weight");
  bool batched = x.rank() == n + 2;
  THUNDER_CHECK(w.rank() == n + 2, Runtime, op, "expected a weight with ", n + 2, " dimensions, got ", w.rank());
  THUNDER_CHECK(batched || x.rank() == n + 1, Runtime, op, "Expected ", n + 1, "D (unbatched) or ", n + 2,
                "D (batched) input to ", op, ", but got input of size: ", str(x.shape()));
  Dims kernel(w.shape.begin() + 2, w.shape.end());
  Dims stride = spatial(op, a, "stride", n), dilation = spatial(op, a, "dilation", n),
       padding(static_cast<size_t>(n), Dim(0));
  if (!batched) x = b("torch.unsqueeze", x, 0);
  const Arg& p = a["padding"];
  if (p.kind() == Arg::Kind::Str) {
    THUNDER_CHECK(p.str() == "same" || p.str() == "valid", Runtime, op, "Invalid padding string: '", p.str(), "'");
    if (p.str() == "same") x = pad_same(x, kernel, stride, dilation, padding);
  } else {
    padding = p.is_sequence() ? spatial(op, a, "padding", n) : Dims(static_cast<size_t>(n), as_dim(p));
  }
  Dims output_padding = transposed ? spatial(op, a, "output_padding", n) : Dims(static_cast<size_t>(n), Dim(0));
  const ArgList rest{stride, padding, dilation, transposed, output_padding, a["groups"]};
  const bool apart = adds_bias(a, x.tensor(), transposed);
  Expr y = is_complex(x.dtype()) && is_complex(w.dtype)
               ? complex_convolution(x, b.expr(a["weight"]), a["bias"], rest)
               : b("torch.convolution", x, a["weight"], apart ? Arg() : a["bias"], stride, padding, dilation,
                   transposed, output_padding, a["groups"]);
  if (apart) {
    Dims wide(static_cast<size_t>(n) + 2, Dim(1));
    wide[1] = a.tensor("bias").shape[0];
    y = b("torch.add", y, b("torch.reshape", a["bias"], wide));
  }
  return (batched ? y : b("torch.squeeze", y, 0)).arg();
}

Arg conv1d_body(Builder& b, const Args& a) { return convolve(b, "conv1d", a, 1, false); }
Arg conv2d_body(Builder& b, const Args& a) { return convolve(b, "conv2d", a, 2, false); }
Arg conv3d_body(Builder& b, const Args& a) { return convolve(b, "conv3d", a, 3, false); }
Arg conv_transpose1d_body(Builder& b, const Args& a) { return convolve(b, "conv_transpose1d", a, 1, true); }
Arg conv_transpose2d_body(Builder& b, const Args& a) { return convolve(b, "conv_transpose2d", a, 2, true); }
Arg conv_transpose3d_body(Builder& b, const Args& a) { return convolve(b, "conv_transpose3d", a, 3, true); }

#define CONV_PARAMS                                                                                                  \
  "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, any padding=0, int[] dilation=1, int groups=1) " \
  "-> Tensor"
#define CONV_TRANSPOSE_PARAMS                                                                                      \
  "(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=1, int[] padding=0, int[] output_padding=0, int " \
  "groups=1, int[] dilation=1) -> Tensor"

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "convolution(Tensor input, Tensor weight, Tensor? bias, int[:] stride, int[:] padding, int[:] dilation, "
               "bool transposed, int[:] output_padding, int groups) -> Tensor",
     .doc = "Convolution of a batched input over 1, 2 or 3 dimensions, or its transpose.", .tags = kMatmul,
     .body = convolution_body, .aten = "convolution", .python = "torch.convolution"},
    {.schema = "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, "
               "int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, bool[] output_mask) "
               "-> (Tensor, Tensor, Tensor)",
     .doc = "Gradients of convolution; None where output_mask is false.", .tags = kMatmul,
     .meta = convolution_backward_meta, .vjp = convolution_backward_vjp, .aten = "convolution_backward",
     .python = "torch.ops.aten.convolution_backward"},
    {.schema = "conv1d" CONV_PARAMS, .doc = "Convolution over 1 dimension.", .tags = kMatmul, .body = conv1d_body,
     .python = "torch.nn.functional.conv1d torch.conv1d"},
    {.schema = "conv2d" CONV_PARAMS, .doc = "Convolution over 2 dimensions.", .tags = kMatmul, .body = conv2d_body,
     .python = "torch.nn.functional.conv2d torch.conv2d"},
    {.schema = "conv3d" CONV_PARAMS, .doc = "Convolution over 3 dimensions.", .tags = kMatmul, .body = conv3d_body,
     .python = "torch.nn.functional.conv3d torch.conv3d"},
    {.schema = "conv_transpose1d" CONV_TRANSPOSE_PARAMS, .doc = "Transposed convolution over 1 dimension.",
     .tags = kMatmul, .body = conv_transpose1d_body,
     .python = "torch.nn.functional.conv_transpose1d torch.conv_transpose1d"},
    {.schema = "conv_transpose2d" CONV_TRANSPOSE_PARAMS, .doc = "Transposed convolution over 2 dimensions.",
     .tags = kMatmul, .body = conv_transpose2d_body,
     .python = "torch.nn.functional.conv_transpose2d torch.conv_transpose2d"},
    {.schema = "conv_transpose3d" CONV_TRANSPOSE_PARAMS, .doc = "Transposed convolution over 3 dimensions.",
     .tags = kMatmul, .body = conv_transpose3d_body,
     .python = "torch.nn.functional.conv_transpose3d torch.conv_transpose3d"},
};
// clang-format on

#undef CONV_PARAMS
#undef CONV_TRANSPOSE_PARAMS

}  // namespace

Records conv() { return kRecords; }

}  // namespace thunder::ops::torch
