// Primitives of neural networks: matrix products, convolution, a random mask.
#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::prims {
namespace {

// ---- matrix products ------------------------------------------------------------------------------------------------

void check_same_dtype(std::string_view op, const TensorType& a, const TensorType& b) {
  THUNDER_CHECK_DTYPE(a.dtype == b.dtype, op,
                      "expected m1 and m2 to have the same dtype, but got: ", cpp_type_name(a.dtype),
                      " != ", cpp_type_name(b.dtype));
}

void check_same_device(std::string_view op, const TensorType& a, const TensorType& b) {
  THUNDER_CHECK(a.device == b.device, Runtime, op, "Expected all tensors to be on the same device, but got ", a.device,
                " and ", b.device);
}

Types matmul_meta(const Args& args) {
  const TensorType &a = args.tensor("a"), &b = args.tensor("b");
  size_t n = a.shape.size();
  THUNDER_CHECK(n >= 2 && n == b.shape.size(), Runtime, "matmul", "expected two tensors of one rank, at least 2, got ",
                n, " and ", b.shape.size());
  check_same_device("matmul", a, b);
  check_same_dtype("matmul", a, b);
  for (size_t i = 0; i + 2 < n; ++i)
    THUNDER_CHECK(a.shape[i] == b.shape[i], Runtime, "matmul", "batch dimensions differ: ", str(a.shape), " and ",
                  str(b.shape));
  THUNDER_CHECK(a.shape[n - 1] == b.shape[n - 2], Runtime, "matmul", "mat1 and mat2 shapes cannot be multiplied (",
                a.shape[n - 2], "x", a.shape[n - 1], " and ", b.shape[n - 2], "x", b.shape[n - 1], ")");
  Dims shape = a.shape;
  shape[n - 1] = b.shape[n - 1];
  return {contiguous_type(a.dtype, a.device, std::move(shape))};
}

void matmul_vjp(VjpContext& c) {
  if (c.needs("a")) c.put("a", c.b("torch.matmul", c.grad(), conj(swap_last(c.in("b")))));
  if (c.needs("b")) c.put("b", c.b("torch.matmul", conj(swap_last(c.in("a"))), c.grad()));
}

Types linear_meta(const Args& args) {
  const TensorType &a = args.tensor("a"), &w = args.tensor("w");
  THUNDER_CHECK(w.rank() == 2 && a.rank() >= 1, Runtime, "linear",
                "expected a weight with 2 dimensions and an input with 1 or "
                "more, got ",
                w.rank(), " and ", a.rank());
  check_same_device("linear", a, w);
  check_same_dtype("linear", a, w);
  Dims rows(a.shape.begin(), a.shape.end() - 1);
  THUNDER_CHECK(a.shape.back() == w.shape[1], Runtime, "linear", "mat1 and mat2 shapes cannot be multiplied (",
                product(rows), "x", a.shape.back(), " and ", w.shape[1], "x", w.shape[0], ")");
  if (args.has("bias")) {
    const TensorType& bias = args.tensor("bias");
    check_same_device("linear", a, bias);
    THUNDER_CHECK_DTYPE(bias.dtype == a.dtype, "linear", "self and mat2 must have the same dtype, but got ",
                        scalar_type_name(bias.dtype), " and ", scalar_type_name(a.dtype));
    THUNDER_CHECK(bias.rank() == 1 && bias.shape[0] == w.shape[0], Runtime, "linear", "the bias has shape ",
                  str(bias.shape), ", expected [", w.shape[0], "]");
  }
  rows.push_back(w.shape[0]);
  return {contiguous_type(a.dtype, a.device, std::move(rows))};
}

// Weight gradients as one product over all rows: grad^T @ input, on transposed views, without a transposing copy.
void linear_vjp(VjpContext& c) {
  Expr g = c.grad(), a = c.in("a"), w = c.in("w");
  if (c.needs("a")) c.put("a", c.b("torch.matmul", g, conj(w)));
  Dims leading(a.shape().begin(), a.shape().end() - 1);
  Dim rows = product(leading);
  if (c.needs("w")) {
    Expr g2 = torch_reshape(g, {rows, w.shape()[0]}), a2 = torch_reshape(a, {rows, w.shape()[1]});
    c.put("w", c.b("torch.matmul", swap_last(g2), conj(a2)));
  }
  if (c.needs("bias")) c.put("bias", a.rank() == 1 ? g : c.b("torch.sum", g, Arg(range(0, a.rank() - 1))));
}

// ---- convolution ----------------------------------------------------------------------------------------------------

void check_convolution(const TensorType& x, const TensorType& w, const Args& args) {
  bool transposed = args.flag("transposed");
  const Dim& groups = args.dim("groups");
  THUNDER_CHECK(x.rank() == w.rank(), Runtime, "convolution", "expected an input with ", w.rank(),
                " dimensions for weight of size ", str(w.shape), ", got input of size ", str(x.shape));
  THUNDER_CHECK(x.dtype == w.dtype, Runtime, "convolution", "Input type (torch.", scalar_type_name(x.dtype),
                "Tensor) and weight type (torch.", scalar_type_name(w.dtype), "Tensor) should be the same");
  check_same_device("convolution", x, w);
  THUNDER_CHECK(groups > 0, Runtime, "convolution", "non-positive groups is not supported");
  const Dim& in_channels = w.shape[transposed ? 0 : 1];
  Dim expected = transposed ? in_channels : in_channels * groups;
  for (const Dim& d : args.dims("stride"))
    THUNDER_CHECK(d > 0, Runtime, "convolution", "non-positive stride is not supported");
  for (const Dim& d : args.dims("padding"))
    THUNDER_CHECK(d >= 0, Runtime, "convolution", "negative padding is not supported");
  for (const Dim& d : args.dims("dilation"))
    THUNDER_CHECK(d > 0, Runtime, "convolution", "dilation should be greater than zero");
  THUNDER_CHECK(x.shape[1] == expected, Runtime, "convolution", "Given ",
                transposed ? "transposed=1" : cat("groups=", groups), ", weight of size ", str(w.shape),
                ", expected input", str(x.shape), " to have ", expected, " channels, but got ", x.shape[1],
                " channels instead");
  THUNDER_CHECK(mod(w.shape[0], groups) == 0, Runtime, "convolution", "Given groups=", groups,
                ", expected weight to be divisible by ", groups, " at dimension 0, but got weight of size ",
                str(w.shape));
  if (args.has("bias")) {
    const TensorType& bias = args.tensor("bias");
    THUNDER_CHECK(bias.dtype == x.dtype, Runtime, "convolution", "Input type (", scalar_type_name(x.dtype),
                  ") and bias type (", scalar_type_name(bias.dtype), ") should be the same");
    Dim out_channels = transposed ? w.shape[1] * groups : w.shape[0];
    THUNDER_CHECK(bias.rank() == 1 && bias.shape[0] == out_channels, Runtime, "convolution", "Given weight of size ",
                  str(w.shape), ", expected bias to be 1-dimensional with ", out_channels,
                  " elements, but got bias of size ", str(bias.shape), " instead");
  }
}

std::string padded_sizes(const TensorType& x, const Dims& padding) {
  Dims sizes;
  for (size_t i = 2; i < x.shape.size(); ++i) sizes.push_back(x.shape[i] + 2 * padding[i - 2]);
  return join(sizes, " x ");
}

Types convolution_meta(const Args& args) {
  const TensorType &x = args.tensor("input"), &w = args.tensor("weight");
  check_convolution(x, w, args);
  bool transposed = args.flag("transposed");
  Dims stride = args.dims("stride"), padding = args.dims("padding"), dilation = args.dims("dilation"),
       output_padding = args.dims("output_padding");
  for (const Dims* d : {&stride, &padding, &dilation, &output_padding})
    THUNDER_CHECK(static_cast<int64_t>(d->size()) == x.rank() - 2, Runtime, "convolution", "expected lists of ",
                  x.rank() - 2, " numbers to match the convolution dimensions, but got ", str(*d));
  Dims shape = {x.shape[0], transposed ? w.shape[1] * args.dim("groups") : w.shape[0]};
  for (size_t i = 2; i < x.shape.size(); ++i) {
    size_t s = i - 2;
    Dim reach = dilation[s] * (w.shape[i] - 1) + 1;
    if (transposed) {
      THUNDER_CHECK(output_padding[s] < stride[s] || output_padding[s] < dilation[s], Runtime, "convolution",
                    "output padding must be smaller than either stride or dilation, but got output_padding ",
                    output_padding[s], ", stride ", stride[s], " and dilation ", dilation[s]);
      shape.push_back((x.shape[i] - 1) * stride[s] - 2 * padding[s] + reach + output_padding[s]);
    } else {
      Dim room = x.shape[i] + 2 * padding[s];
      THUNDER_CHECK(room >= reach, Runtime, "convolution", "Calculated padded input size per channel: (",
                    padded_sizes(x, padding), "). Kernel size: (",
                    join(Dims(w.shape.begin() + 2, w.shape.end()), " x "),
                    "). Kernel size can't be greater than actual input size");
      shape.push_back(floordiv(room - reach, stride[s]) + 1);
    }
  }
  TensorType out = contiguous_type(x.dtype, x.device, std::move(shape));
  if (convolution_is_channels_last(x, w)) out.strides = channels_last_strides(out.shape);
  return {out};
}

void convolution_vjp(VjpContext& c) {
  bool bias = c.needs("bias");
  Arg sizes = bias ? Arg(c.in("bias").shape()) : Arg();
  ArgList mask = {c.needs("input"), c.needs("weight"), bias};
  const Args a = c.args();
  Expr r = c.b("torch.convolution_backward", c.grad(), c.in("input"), c.in("weight"), sizes, a["stride"], a["padding"],
               a["dilation"], a["transposed"], a["output_padding"], a["groups"], Arg::list(std::move(mask)));
  c.put("input", r[0]);
  c.put("weight", r[1]);
  if (bias) c.put("bias", r[2]);
}

Types matmul_as_meta(const Args& a) {
  TensorType t = matmul_meta(a)[0].tensor();
  t.dtype = a.dtype("dtype");
  return {std::move(t)};
}

Arg matmul_as_body(Builder& b, const Args& a) {
  return b("prims.convert_element_type", b("prims.matmul", a["a"], a["b"]), a["dtype"]);
}

// ---- random ---------------------------------------------------------------------------------------------------------

TensorType laid_out_as(const TensorType& a, DType dtype) {
  TensorType out = contiguous_type(dtype, a.device, a.shape);
  out.strides = preserve_format_strides(a);
  return out;
}

Types bernoulli_like_meta(const Args& args) {
  const TensorType& a = args.tensor("a");
  double p = args.real("p");
  THUNDER_CHECK(p >= 0 && p <= 1, Runtime, "bernoulli", "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return {laid_out_as(a, a.dtype)};
}

Types dropout_mask_like_meta(const Args& a) { return {laid_out_as(a.tensor("a"), DType::boolean)}; }

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "matmul(Tensor a, Tensor b) -> Tensor",
     .doc = "Matrix product of two matrices, or of two batches of matrices with equal batch dimensions.",
     .tags = kMatmul, .meta = matmul_meta, .vjp = matmul_vjp, .aten = "matmul"},
    {.schema = "matmul_as(Tensor a, Tensor b, dtype dtype) -> Tensor",
     .doc = "matmul(a, b), converted to another dtype. An executor may leave out the rounding to the first one.",
     .tags = kMatmul, .meta = matmul_as_meta, .body = matmul_as_body},
    {.schema = "linear(Tensor a, Tensor w, Tensor? bias) -> Tensor",
     .doc = "a @ w^T + bias over the last dimension of a; w has 2 dimensions, bias 1.",
     .tags = kMatmul, .meta = linear_meta, .vjp = linear_vjp, .aten = "linear"},
    {.schema = "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, "
               "bool transposed, int[] output_padding, int groups) -> Tensor",
     .doc = "Convolution, or transposed convolution, of a batched input over 1, 2 or 3 dimensions.",
     .tags = kMatmul, .meta = convolution_meta, .vjp = convolution_vjp, .aten = "convolution"},
    {.schema = "bernoulli_like(Tensor a, float p) -> Tensor",
     .doc = "Zeros and ones of a's shape, dtype and layout, one with probability p, drawn as eager's dropout draws.",
     .tags = kRandom | kNoGrad, .meta = bernoulli_like_meta},
    {.schema = "dropout_mask_like(Tensor a, float p) -> Tensor",
     .doc = "The mask that native_dropout(a, p, True) draws: booleans of a's shape and layout, false with probability "
            "p.",
     .tags = kRandom | kNoGrad, .meta = dropout_mask_like_meta},
};
// clang-format on

}  // namespace

Records nn() { return kRecords; }

}  // namespace thunder::ops::prims
