// torch: softmax and its kin.
#include <algorithm>

#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

// ---- softmax along one canonical dimension --------------------------------------------------------------------------

using AlongDim = Formula (*)(const Formula& x, const std::vector<int64_t>& dims);

Formula softmax_along(const Formula& x, const std::vector<int64_t>& dims) {
  Formula e = exp(x - spread(amax(x, dims), x.shape(), dims));
  return e / spread(sum(e, dims), x.shape(), dims);
}

Formula log_softmax_along(const Formula& x, const std::vector<int64_t>& dims) {
  Formula shifted = x - spread(amax(x, dims), x.shape(), dims);
  return shifted - spread(log(sum(exp(shifted), dims)), x.shape(), dims);
}

// The result is in row-major order whatever the input's layout.  `dtype`: the input is converted first.
Arg normalized(Builder& b, std::string_view op, const char* kernel, const Args& a, const Arg& dim_arg, AlongDim along) {
  Arg input = a["input"];
  if (a.has("dtype")) input = b("torch.to", input, a["dtype"]).arg();
  const TensorType t = input.value().tensor();
  int64_t dim = canonical_dim(op, as_dim(dim_arg).constant(), t.rank());
  check_floating(op, kernel, input);
  if (known_empty(t.shape) || turned_out_empty(t.shape))
    return b("prims.clone", input, kw("memory_format", ConstantArg{"torch.contiguous_format"})).arg();
  Dims shape = t.rank() == 0 ? Dims{1} : t.shape;
  Formula x = compute(b, reshape(b, contiguous(b, input), shape));
  return reshape(b, store(along(x, {dim}), t.dtype), t.shape).arg();
}

constexpr const char* kSoftmaxKernel = "softmax_lastdim_kernel_impl";
constexpr const char* kLogSoftmaxKernel = "log_softmax_lastdim_kernel_impl";

Arg softmax_body(Builder& b, const Args& a) {
  return normalized(b, "softmax", kSoftmaxKernel, a, a["dim"], softmax_along);
}
Arg log_softmax_body(Builder& b, const Args& a) {
  return normalized(b, "log_softmax", kLogSoftmaxKernel, a, a["dim"], log_softmax_along);
}

// torch.nn.functional's choice when no dim is given.
Arg implicit_dim(const Args& a) {
  if (a.has("dim")) return a["dim"];
  int64_t rank = a.tensor("input").rank();
  return rank == 0 || rank == 1 || rank == 3 ? 0 : 1;
}

Arg functional_softmax_body(Builder& b, const Args& a) {
  return b("torch.softmax.int", a["input"], implicit_dim(a), a["dtype"]).arg();
}
Arg functional_log_softmax_body(Builder& b, const Args& a) {
  return b("torch.log_softmax.int", a["input"], implicit_dim(a), a["dtype"]).arg();
}
Arg softmin_body(Builder& b, const Args& a) {
  return b("torch.softmax.int", -b.expr(a["input"]), implicit_dim(a), a["dtype"]).arg();
}

// ---- gradients ------------------------------------------------------------------------------------------------------

// ATen's backward kernels take grad and output of one dtype; the conversion that `dtype` asked for is undone
// afterwards.
void put_softmax(VjpContext& c, std::string_view backward) {
  Expr y = c.out();
  int64_t dim = canonical_dim("softmax", c.args().integer("dim"), y.rank());
  c.put("input", to_dtype(c.b(backward, c.grad(), y, dim, y.dtype()), c.in("input").dtype()));
}

void softmax_vjp(VjpContext& c) { put_softmax(c, "torch._softmax_backward_data"); }
void log_softmax_vjp(VjpContext& c) { put_softmax(c, "torch._log_softmax_backward_data"); }

// The input's dtype matters only where the softmax widened it.
DType backward_dtype(DType grad, DType input) {
  const bool widened = grad == DType::f32 && (input == DType::f16 || input == DType::bf16);
  return widened ? input : grad;
}

Arg normalized_backward(Builder& b, const Args& a, bool log) {
  const TensorType t = a.tensor("grad_output");
  THUNDER_CHECK_DTYPE(a.tensor("output").dtype == t.dtype, "softmax_backward", "grad_output is ", short_name(t.dtype),
                      " and output ", short_name(a.tensor("output").dtype), "; both must have one dtype");
  int64_t dim = canonical_dim("softmax_backward", a.integer("dim"), t.rank());
  DType result = backward_dtype(t.dtype, a.dtype("input_dtype"));
  if (known_empty(t.shape)) return full(b, t.shape, 0.0, result, t.device);
  Dims shape = t.rank() == 0 ? Dims{1} : t.shape;
  Formula g = compute(b, reshape(b, contiguous(b, a["grad_output"]), shape));
  Formula y = compute(b, reshape(b, contiguous(b, a["output"]), shape));
  std::vector<int64_t> dims = {dim};
  Formula r = log ? g - exp(y) * spread(sum(g, dims), shape, dims) : (g - spread(sum(g * y, dims), shape, dims)) * y;
  return reshape(b, store(r, result), t.shape).arg();
}

Arg softmax_backward_body(Builder& b, const Args& a) { return normalized_backward(b, a, false); }
Arg log_softmax_backward_body(Builder& b, const Args& a) { return normalized_backward(b, a, true); }

// The gradients of a gradient, as autograd has them.
void softmax_backward_vjp(VjpContext& c) {
  Expr g = c.grad(), go = c.in("grad_output"), y = c.in("output");
  Expr dim = c.in("dim");
  auto summed = [&](const Expr& e) { return c.b("torch.sum", e, Arg::list({dim.arg()}), true); };
  if (c.needs("grad_output")) c.put("grad_output", c.b("torch._softmax_backward_data", g, y, dim, go.dtype()));
  if (c.needs("output")) c.put("output", to_dtype(go * g - summed(y * go) * g - go * summed(y * g), y.dtype()));
}

// ---- softmax whose fully masked rows are zero -----------------------------------------------------------------------

Arg safe_softmax_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), dim = b.expr(a["dim"]);
  Expr y = b("torch.softmax.int", x, dim, a["dtype"]);
  Expr masked =
      b("torch.all", b("torch.eq", x, -std::numeric_limits<double>::infinity()), kw("dim", dim), kw("keepdim", true));
  return b("torch.where", masked, 0.0, y).arg();
}

void safe_softmax_vjp(VjpContext& c) { put_softmax(c, "torch._softmax_backward_data"); }

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "softmax.int(Tensor input, int dim, dtype? dtype=None) -> Tensor",
     .doc = "exp(input) / sum(exp(input)) along dim.", .body = softmax_body, .vjp = softmax_vjp, .aten = "softmax.int",
     .python = "torch.softmax torch.Tensor.softmax torch.special.softmax"},
    {.schema = "softmax.functional(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
     .doc = "exp(input) / sum(exp(input)) along dim.", .body = functional_softmax_body,
     .python = "torch.nn.functional.softmax"},
    {.schema = "log_softmax.int(Tensor input, int dim, dtype? dtype=None) -> Tensor",
     .doc = "log(softmax(input)) along dim.", .body = log_softmax_body, .vjp = log_softmax_vjp,
     .aten = "log_softmax.int", .python = "torch.log_softmax torch.Tensor.log_softmax torch.special.log_softmax"},
    {.schema = "log_softmax.functional(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
     .doc = "log(softmax(input)) along dim.", .body = functional_log_softmax_body,
     .python = "torch.nn.functional.log_softmax"},
    {.schema = "softmin(Tensor input, int? dim=None, int _stacklevel=3, dtype? dtype=None) -> Tensor",
     .doc = "softmax of -input.", .body = softmin_body, .python = "torch.nn.functional.softmin"},
    {.schema = "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
     .doc = "Gradient of softmax from its output.", .body = softmax_backward_body,
     .vjp = softmax_backward_vjp, .aten = "_softmax_backward_data",
     .python = "torch.ops.aten._softmax_backward_data"},
    {.schema = "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor",
     .doc = "Gradient of log_softmax from its output.", .body = log_softmax_backward_body,
     .aten = "_log_softmax_backward_data", .python = "torch.ops.aten._log_softmax_backward_data"},
    {.schema = "_safe_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor",
     .doc = "softmax, with zeros in rows that are -inf throughout.", .body = safe_softmax_body, .vjp = safe_softmax_vjp,
     .aten = "_safe_softmax", .python = "torch.ops.aten._safe_softmax"},
};
// clang-format on

}  // namespace

Records softmax() { return kRecords; }

}  // namespace thunder::ops::torch
