// torch: dropout.  On the CPU the mask is drawn as eager draws it, so that the same seed gives the same numbers.
#include <cmath>

#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

// Checks p; true if nothing is to be done.
bool is_identity(std::string_view op, const Args& a) {
  double p = a.real("p");
  THUNDER_CHECK(p >= 0 && p <= 1, Value, op, "dropout probability has to be between 0 and 1, but got ", p);
  const char* flag = a.op().schema.index_of("training") >= 0 ? "training" : "train";
  const TensorType& t = a.tensor("input");
  if (p == 0 || !a.flag(flag) || known_empty(t.shape)) return true;
  if (p == 1 || is_inexact(t.dtype)) return false;
  ShapeEnv::Asking scope;
  THUNDER_CHECK(turned_out_empty(t.shape), Runtime, op, "result type Float can't be cast to the desired output type ",
                scalar_type_name(t.dtype));
  return true;
}

// A product and not a constant: NaN stays NaN, and the gradient is zero.
Arg all_zero(Builder& b, const Expr& x) {
  return b("torch.mul", x, full(b, {}, 0, x.dtype(), x.tensor().device)).arg();
}

Arg dropout_body(Builder& b, const Args& a) {
  if (is_identity("dropout", a)) return a["input"];
  Expr x = b.expr(a["input"]);
  double p = a.real("p");
  if (p == 1) return all_zero(b, x);
  if (x.tensor().device.type == DeviceType::cuda) return b("torch.native_dropout", x, p, true)[0].arg();
  Expr keep = b("prims.bernoulli_like", x, 1 - p);
  return (x * b("prims.div", keep, 1 - p)).arg();
}

// One draw for each channel of each sample.
Arg feature_dropout(Builder& b, std::string_view op, const Args& a) {
  if (is_identity(op, a)) return a["input"];
  Expr x = b.expr(a["input"]);
  double p = a.real("p");
  THUNDER_CHECK(x.rank() >= 2, Runtime, op, "Feature dropout requires at least 2 dimensions in the input");
  if (p == 1) return all_zero(b, x);
  Dims shape(x.shape().size(), Dim(1));
  shape[0] = x.shape()[0];
  shape[1] = x.shape()[1];
  Expr keep = b("prims.bernoulli_like", full(b, shape, 1.0, x.dtype(), x.tensor().device), 1 - p);
  return (x * b("prims.div", keep, 1 - p)).arg();
}

Arg feature_dropout_body(Builder& b, const Args& a) { return feature_dropout(b, "feature_dropout", a); }

// torch.nn.functional.dropout1d, 2d, 3d: an input without a batch is one sample.
Arg batched_feature_dropout(Builder& b, std::string_view op, const Args& a, int64_t spatial) {
  Expr x = b.expr(a["input"]);
  bool unbatched = x.rank() == spatial + 1;
  if (is_identity(op, a)) return a["input"];
  if (unbatched) x = b("torch.unsqueeze", x, 0);
  Expr y = b("torch.feature_dropout", x, a["p"], true);
  return (unbatched ? b("torch.squeeze", y, 0) : y).arg();
}

Arg dropout1d_body(Builder& b, const Args& a) { return batched_feature_dropout(b, "dropout1d", a, 1); }
Arg dropout2d_body(Builder& b, const Args& a) {
  return batched_feature_dropout(b, "dropout2d", a, -1);  // a 3-d input is a batch here, as in PyTorch
}
Arg dropout3d_body(Builder& b, const Args& a) { return batched_feature_dropout(b, "dropout3d", a, 3); }

constexpr double kAlpha = 1.7580993408473766;

Arg alpha_dropout_body(Builder& b, const Args& a) {
  if (is_identity("alpha_dropout", a)) return a["input"];
  Expr x = b.expr(a["input"]);
  double p = a.real("p");
  if (p == 1) return all_zero(b, x);
  double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  Expr keep = b("prims.bernoulli_like", x, 1 - p);
  Expr shift = (keep + -1.0) * (kAlpha * scale) + kAlpha * scale * p;
  return (x * (keep * scale) + shift).arg();
}

// ---- the CUDA kernel ------------------------------------------------------------------------------------------------

double dropout_scale(double p) { return p == 1 ? 0 : 1 / (1 - p); }

// Executors take it whole.  A read of values draws the mask by itself where the result requires a gradient.
Arg native_dropout_body(Builder& b, const Args& a) {
  const bool draws = !a.has("train") || a.flag("train");
  const double p = draws ? a.real("p") : 0.0;
  const Expr keep = b("prims.dropout_mask_like", a["input"], p);
  const Formula x = compute(b, a["input"]);
  const Formula y = x * as(Formula(b, keep.arg()), x.dtype()) * dropout_scale(p);
  return Arg::tuple({store(y, a.tensor("input").dtype), keep.arg()});
}

void native_dropout_vjp(VjpContext& c) {
  if (c.has_grad(0))
    c.put("input", c.b("torch.native_dropout_backward", c.grad(0), c.out(1), dropout_scale(c.args().real("p"))));
}

// No `.aten`: CUDA's kernel loses the order of the gradient's dimensions, CPU's keeps it.
Arg native_dropout_backward_body(Builder& b, const Args& a) {
  Formula g(b, a["grad_output"]);
  return g * as(Formula(b, a["mask"]), g.dtype()) * a.real("scale");
}

constexpr uint64_t kTags = kRandom | kReturnsInput;

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
     .doc = "Zeroes elements with probability p and scales the others by 1 / (1 - p).", .tags = kTags,
     .body = dropout_body, .aten = "dropout(input, p, training)", .python = "torch.nn.functional.dropout"},
    {.schema = "dropout.torch(Tensor input, float p, bool train) -> Tensor",
     .doc = "Zeroes elements with probability p and scales the others by 1 / (1 - p).", .tags = kTags,
     .body = dropout_body, .aten = "dropout", .python = "torch.dropout"},
    {.schema = "feature_dropout(Tensor input, float p, bool train) -> Tensor",
     .doc = "Dropout of whole channels.", .tags = kTags, .body = feature_dropout_body, .aten = "feature_dropout",
     .python = "torch.feature_dropout"},
    {.schema = "dropout1d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
     .doc = "Dropout of whole channels of [N, C, L] or [C, L].", .tags = kTags, .body = dropout1d_body,
     .python = "torch.nn.functional.dropout1d"},
    {.schema = "dropout2d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
     .doc = "Dropout of whole channels of [N, C, H, W].", .tags = kTags, .body = dropout2d_body,
     .python = "torch.nn.functional.dropout2d"},
    {.schema = "dropout3d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
     .doc = "Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W].", .tags = kTags, .body = dropout3d_body,
     .python = "torch.nn.functional.dropout3d"},
    {.schema = "alpha_dropout(Tensor input, float p=0.5, bool training=False, bool inplace=False) -> Tensor",
     .doc = "Dropout that keeps mean and variance of self-normalised activations.", .tags = kTags,
     .body = alpha_dropout_body, .aten = "alpha_dropout(input, p, training)",
     .python = "torch.nn.functional.alpha_dropout"},
    {.schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
     .doc = "Dropout and the mask of what it kept, as CUDA's kernel computes them.", .tags = kRandom,
     .body = native_dropout_body, .vjp = native_dropout_vjp, .aten = "native_dropout",
     .python = "torch.native_dropout"},
    {.schema = "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
     .doc = "Gradient of native_dropout.", .tags = kPointwise | kCheap, .body = native_dropout_backward_body,
     .python = "torch.ops.aten.native_dropout_backward"},
};
// clang-format on

}  // namespace

Records dropout() { return kRecords; }

}  // namespace thunder::ops::torch
