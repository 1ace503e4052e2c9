// torch: losses that compare element by element and then reduce.  Those with ATen backward kernels have an inner record
// with ATen's integer reduction (0 none, 1 mean, 2 sum), which the default executor runs; the others are composed.
#include <limits>
#include <numbers>

#include "ops/common.h"
#include "ops/formula.h"
#include "ops/torch/loss.h"

namespace thunder::ops::torch {
namespace {

// ---- reductions -----------------------------------------------------------------------------------------------------

Formula reduced(const Formula& x, int64_t reduction) {
  if (reduction == 0) return x;
  Formula total = sum(x, range(0, x.expr().rank()));
  return reduction == 2 ? total : total.call("prims.div", Arg(x.expr().tensor().numel()));
}

// The gradient of each element before the reduction.
Formula spread_gradient(Builder& b, const Args& a, const Dims& shape) {
  Formula g = compute(b, a["grad_output"]);
  int64_t reduction = a.integer("reduction");
  if (reduction == 1) g = g.call("prims.div", Arg(product(shape)));
  return Formula(b, expand_to(b, g, shape));
}

// ---- losses of a difference -----------------------------------------------------------------------------------------

struct Pair {
  Formula x, y;
  DType dtype;
};

// The operands promoted and broadcast, in the dtype that they compute in.
Pair operands(Builder& b, const Args& a, std::string_view op, const char* kernel) {
  DType t = result_type({a["self"], a["target"]});
  THUNDER_CHECK(is_floating(t), NotImplemented, op, "\"", kernel, "\" not implemented for '", scalar_type_name(t), "'");
  ArgList wide = broadcast_operands(b, op, {a["self"], a["target"]}, t);
  return {compute(b, wide[0]), compute(b, wide[1]), t};
}

Arg mse_body(Builder& b, const Args& a) {
  Pair p = operands(b, a, "mse_loss", "mse_cpu");
  Formula d = p.x - p.y;
  return store(reduced(d * d, a.integer("reduction")), p.dtype);
}

Arg mse_backward_body(Builder& b, const Args& a) {
  Pair p = operands(b, a, "mse_loss_backward", "mse_backward_cpu");
  return store(2.0 * (p.x - p.y) * spread_gradient(b, a, p.x.shape()), p.dtype);
}

Arg smooth_l1_body(Builder& b, const Args& a) {
  double beta = a.real("beta");
  THUNDER_CHECK(beta >= 0, Runtime, "smooth_l1_loss", "smooth_l1_loss does not support negative values for beta.");
  Pair p = operands(b, a, "smooth_l1_loss", "smooth_l1_cpu");
  Formula d = abs(p.x - p.y);
  Formula loss = beta == 0 ? d : where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta);
  return store(reduced(loss, a.integer("reduction")), p.dtype);
}

Arg smooth_l1_backward_body(Builder& b, const Args& a) {
  double beta = a.real("beta");
  Pair p = operands(b, a, "smooth_l1_loss_backward", "smooth_l1_backward_cpu");
  Formula d = p.x - p.y;
  // Not a number is on neither side of the bend, and takes the way on which it stays one.
  Formula slope = beta == 0 ? sign(d) : where(abs(d) > beta, sign(d), d / beta);
  return store(slope * spread_gradient(b, a, d.shape()), p.dtype);
}

Arg huber_body(Builder& b, const Args& a) {
  double delta = a.real("delta");
  THUNDER_CHECK(delta > 0, Runtime, "huber_loss", "huber_loss does not support non-positive values for delta.");
  Pair p = operands(b, a, "huber_loss", "huber_cpu");
  Formula d = abs(p.x - p.y);
  Formula near = 0.5 * d * d, far = delta * (d - 0.5 * delta);
  // Unlike the others, ATen stores this loss in the input's dtype.
  return store(reduced(where(d < delta, near, far), a.integer("reduction")), a.tensor("self").dtype);
}

Arg huber_backward_body(Builder& b, const Args& a) {
  double delta = a.real("delta");
  Pair p = operands(b, a, "huber_loss_backward", "huber_backward_cpu");
  Formula d = p.x - p.y;
  Formula slope = where(abs(d) >= delta, sign(d) * delta, d);
  return store(slope * spread_gradient(b, a, d.shape()), p.dtype);
}

// The derivative for the target is that for the input with the two exchanged.
void put_difference(VjpContext& c, const char* backward, const char* option) {
  const Args a = c.args();
  const Dims shape = broadcast_shape_of(c.call.op->schema.name, {a["self"], a["target"]});
  auto gradient = [&](const char* of, const char* other) {
    // ATen's kernels divide a mean by the number of elements of the first operand.
    Arg x = expand_to(c.b, c.in(of), shape), y = expand_to(c.b, c.in(other), shape);
    Expr g = option ? c.b(backward, c.grad(), x, y, a["reduction"], a[option])
                    : c.b(backward, c.grad(), x, y, a["reduction"]);
    put_reduced(c, of, g);
  };
  if (c.needs("self")) gradient("self", "target");
  if (c.needs("target")) gradient("target", "self");
}

void mse_vjp(VjpContext& c) { put_difference(c, "torch.mse_loss_backward", nullptr); }
void smooth_l1_vjp(VjpContext& c) { put_difference(c, "torch.smooth_l1_loss_backward", "beta"); }
void huber_vjp(VjpContext& c) { put_difference(c, "torch.huber_loss_backward", "delta"); }

// torch.nn.functional.mse_loss and l1_loss with a weight for each element.
Expr weighted(Builder& b, const Args& a, const Expr& loss, int64_t reduction) {
  Expr w = b.expr(a["weight"]);
  THUNDER_CHECK(equal(a.tensor("weight").shape, a.tensor("input").shape), Value, "loss",
                "Weights and input must have the same size.");
  Expr product_ = loss * w;
  if (reduction == 0) return product_;
  Expr total = b("torch.sum", product_);
  return reduction == 2 ? total : total / b("torch.sum", w);
}

// PyTorch broadcasts before it looks at the reduction.
void check_broadcast(std::string_view op, const Args& a) { broadcast_shape_of(op, {a["input"], a["target"]}); }

Arg mse_loss_body(Builder& b, const Args& a) {
  check_broadcast("mse_loss", a);
  int64_t reduction = loss_reduction("mse_loss", a);
  if (!a.has("weight")) return b("torch._mse_loss", a["input"], a["target"], reduction).arg();
  return weighted(b, a, b("torch.pow", b.expr(a["input"]) - b.expr(a["target"]), 2), reduction).arg();
}

Arg l1_loss_body(Builder& b, const Args& a) {
  check_broadcast("l1_loss", a);
  int64_t reduction = loss_reduction("l1_loss", a);
  Expr d = b("torch.abs", b.expr(a["input"]) - b.expr(a["target"]));
  return (a.has("weight") ? weighted(b, a, d, reduction) : torch_reduced(d, reduction)).arg();
}

Arg smooth_l1_loss_body(Builder& b, const Args& a) {
  check_broadcast("smooth_l1_loss", a);
  int64_t reduction = loss_reduction("smooth_l1_loss", a);
  if (a.real("beta") == 0)
    return torch_reduced(b("torch.abs", b.expr(a["input"]) - b.expr(a["target"])), reduction).arg();
  return b("torch._smooth_l1_loss", a["input"], a["target"], reduction, a["beta"]).arg();
}

Arg huber_loss_body(Builder& b, const Args& a) {
  check_broadcast("huber_loss", a);
  int64_t reduction = reduction_number("huber_loss", a["reduction"]);
  if (!a.has("weight")) return b("torch._huber_loss", a["input"], a["target"], reduction, a["delta"]).arg();
  return weighted(b, a, b("torch._huber_loss", a["input"], a["target"], 0, a["delta"]), reduction).arg();
}

// ---- binary cross entropy -------------------------------------------------------------------------------------------

Arg bce_body(Builder& b, const Args& a) {
  Pair p = operands(b, a, "binary_cross_entropy", "binary_cross_entropy");
  Formula loss = (p.y - 1.0) * maximum(log1p(-p.x), -100.0) - p.y * maximum(log(p.x), -100.0);
  if (a.has("weight")) loss = loss * Formula(b, expand_to(b, as(Formula(b, a["weight"]), loss.dtype()), loss.shape()));
  return store(reduced(loss, a.integer("reduction")), p.dtype);
}

Arg bce_backward_body(Builder& b, const Args& a) {
  Pair p = operands(b, a, "binary_cross_entropy_backward", "binary_cross_entropy_backward");
  Formula g = spread_gradient(b, a, p.x.shape()) * (p.x - p.y) / maximum((1.0 - p.x) * p.x, 1e-12);
  if (a.has("weight")) g = g * Formula(b, expand_to(b, as(Formula(b, a["weight"]), g.dtype()), g.shape()));
  return store(g, p.dtype);
}

void bce_vjp(VjpContext& c) {
  const Args a = c.args();
  if (c.needs("self"))
    c.put("self", c.b("torch.binary_cross_entropy_backward", c.grad(), c.in("self"), c.in("target"), a["weight"],
                      a["reduction"]));
  if (!c.needs("target")) return;
  Expr x = c.in("self");
  Expr g = c.grad() * (c.b("torch.log1p", -x) - c.b("torch.log", x));
  if (a.has("weight")) g = g * c.in("weight");
  c.put("target", a.integer("reduction") == 1 ? c.b("torch.div", g, x.tensor().numel()) : g);
}

Arg binary_cross_entropy_body(Builder& b, const Args& a) {
  int64_t reduction = loss_reduction("binary_cross_entropy", a);
  const Dims &x = a.tensor("input").shape, &y = a.tensor("target").shape;
  THUNDER_CHECK(equal(x, y), Value, "binary_cross_entropy", "Using a target size (torch.Size(", str(y),
                ")) that is different to the input size (torch.Size(", str(x),
                ")) is deprecated. Please ensure they have the same size.");
  Arg weight = a["weight"];
  if (a.has("weight") && !equal(a.tensor("weight").shape, x)) weight = b("torch.expand", weight, x).arg();
  return b("torch._binary_cross_entropy", a["input"], a["target"], weight, reduction).arg();
}

Arg bce_with_logits_body(Builder& b, const Args& a) {
  int64_t reduction = loss_reduction("binary_cross_entropy_with_logits", a);
  Expr x = b.expr(a["input"]), y = b.expr(a["target"]);
  THUNDER_CHECK(equal(x.shape(), y.shape()), Value, "binary_cross_entropy_with_logits", "Target size (torch.Size(",
                str(y.shape()), ")) must be the same as input size (torch.Size(", str(x.shape()), "))");
  Expr log_sigmoid = b("torch.logsigmoid", x);
  if (a.has("pos_weight")) log_sigmoid = log_sigmoid * ((b.expr(a["pos_weight"]) - 1.0) * y + 1.0);
  Expr loss = (1.0 - y) * x - log_sigmoid;
  if (a.has("weight")) loss = loss * b.expr(a["weight"]);
  // Eager computes in the memory of 1 - target.
  THUNDER_CHECK(is_floating(y.dtype()) || !is_floating(loss.dtype()), Runtime, "binary_cross_entropy_with_logits",
                "result type ", scalar_type_name(loss.dtype()), " can't be cast to the desired output type ",
                scalar_type_name(y.dtype()));
  return torch_reduced(to_dtype(loss, y.dtype()), reduction).arg();
}

// As autograd; unlike the gradient through the body it is finite where the loss is not.
void bce_with_logits_vjp(VjpContext& c) {
  for (const char* option : {"weight", "pos_weight"})
    THUNDER_CHECK(!c.needs(option), NotImplemented, "binary_cross_entropy_with_logits", "the derivative for '", option,
                  "' is not implemented");
  const Args a = c.args();
  Builder& b = c.b;
  Expr x = c.in("input"), y = c.in("target"), g = c.grad();
  if (a.has("weight")) g = g * c.in("weight");
  if (loss_reduction("binary_cross_entropy_with_logits", a) == 1) g = b("torch.div", g, x.tensor().numel());
  Expr sigmoid = b("torch.sigmoid", x);
  if (!a.has("pos_weight")) {
    put_reduced(c, "input", (sigmoid - y) * g);
    if (c.needs("target")) put_reduced(c, "target", -x * g);
    return;
  }
  Expr weight = c.in("pos_weight"), weighted = weight * y;
  put_reduced(c, "input", ((weighted + 1.0 - y) * sigmoid - weighted) * g);
  if (c.needs("target")) put_reduced(c, "target", (b("torch.logsigmoid", -x) - b("torch.logsigmoid", x) * weight) * g);
}

// ---- others ---------------------------------------------------------------------------------------------------------

Arg kl_div_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), y = b.expr(a["target"]);
  bool batch_mean = a.str("reduction") == "batchmean" && !a.has("size_average") && !a.has("reduce");
  int64_t reduction = batch_mean ? 2 : loss_reduction("kl_div", a);
  Expr loss = a.flag("log_target") ? b("torch.exp", y) * (y - x) : b("torch.xlogy", y, y) - y * x;
  Expr r = torch_reduced(loss, reduction);
  return (batch_mean && x.rank() > 0 ? b("torch.div", r, x.shape()[0]) : r).arg();
}

Arg poisson_nll_loss_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), y = b.expr(a["target"]);
  Expr loss = a.flag("log_input") ? b("torch.exp", x) - y * x : x - y * b("torch.log", b("torch.add", x, a["eps"]));
  if (a.flag("full")) {
    const Expr logarithm = b("torch.log", y * (2 * std::numbers::pi));
    const Expr stirling = y * b("torch.log", y) - y + 0.5 * logarithm;
    loss = loss + b("torch.masked_fill", stirling, b("torch.le", y, 1), 0);
  }
  return torch_reduced(loss, a.integer("reduction")).arg();
}

Arg soft_margin_loss_body(Builder& b, const Args& a) {
  int64_t reduction = loss_reduction("soft_margin_loss", a);
  Expr x = b.expr(a["input"]);
  Expr loss = b("torch.log1p", b("torch.exp", -(x * b.expr(a["target"]))));
  return torch_reduced(to_dtype(loss, x.dtype()), reduction).arg();
}

Arg margin_ranking_loss_body(Builder& b, const Args& a) {
  Expr d = -(b.expr(a["target"]) * (b.expr(a["input1"]) - b.expr(a["input2"])));
  return torch_reduced(b("torch.clamp_min", b("torch.add", d, a["margin"]), 0),
                       loss_reduction("margin_ranking_loss", a))
      .arg();
}

Arg hinge_embedding_loss_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), y = b.expr(a["target"]);
  Expr far = b("torch.clamp_min", b("torch.sub", a["margin"], x), 0);
  Expr loss = b("torch.where", b("torch.ne", y, 1), far, 0.0) + b("torch.where", b("torch.ne", y, -1), x, 0.0);
  return torch_reduced(loss, loss_reduction("hinge_embedding_loss", a)).arg();
}

#define LEGACY "bool? size_average=None, bool? reduce=None, str reduction='mean'"

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "mse_loss(Tensor input, Tensor target, " LEGACY ", Tensor? weight=None) -> Tensor",
     .doc = "(input - target)^2, reduced.", .body = mse_loss_body, .python = "torch.nn.functional.mse_loss"},
    {.schema = "_mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", .doc = "mse_loss by ATen's kernel.",
     .body = mse_body, .vjp = mse_vjp, .aten = "mse_loss", .python = "torch.ops.aten.mse_loss"},
    {.schema = "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor",
     .doc = "Gradient of mse_loss.", .body = mse_backward_body, .aten = "mse_loss_backward",
     .python = "torch.ops.aten.mse_loss_backward"},
    {.schema = "l1_loss(Tensor input, Tensor target, " LEGACY ", Tensor? weight=None) -> Tensor",
     .doc = "|input - target|, reduced.", .body = l1_loss_body, .python = "torch.nn.functional.l1_loss"},
    {.schema = "smooth_l1_loss(Tensor input, Tensor target, " LEGACY ", float beta=1.0) -> Tensor",
     .doc = "Squared below beta, linear above, reduced.", .body = smooth_l1_loss_body,
     .python = "torch.nn.functional.smooth_l1_loss"},
    {.schema = "_smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
     .doc = "smooth_l1_loss by ATen's kernel.", .body = smooth_l1_body, .vjp = smooth_l1_vjp, .aten = "smooth_l1_loss",
     .python = "torch.ops.aten.smooth_l1_loss"},
    {.schema = "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) "
               "-> Tensor",
     .doc = "Gradient of smooth_l1_loss.", .body = smooth_l1_backward_body, .aten = "smooth_l1_loss_backward",
     .python = "torch.ops.aten.smooth_l1_loss_backward"},
    {.schema = "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0, Tensor? weight=None) "
               "-> Tensor",
     .doc = "Squared below delta, linear above, reduced.", .body = huber_loss_body,
     .python = "torch.nn.functional.huber_loss"},
    {.schema = "_huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
     .doc = "huber_loss by ATen's kernel.", .body = huber_body, .vjp = huber_vjp, .aten = "huber_loss",
     .python = "torch.ops.aten.huber_loss"},
    {.schema = "huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) "
               "-> Tensor",
     .doc = "Gradient of huber_loss.", .body = huber_backward_body, .aten = "huber_loss_backward",
     .python = "torch.ops.aten.huber_loss_backward"},
    {.schema = "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, " LEGACY ") -> Tensor",
     .doc = "Cross entropy between probabilities of two classes, reduced.", .body = binary_cross_entropy_body,
     .python = "torch.nn.functional.binary_cross_entropy"},
    {.schema = "_binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
     .doc = "binary_cross_entropy by ATen's kernel.", .body = bce_body, .vjp = bce_vjp, .aten = "binary_cross_entropy",
     .python = "torch.ops.aten.binary_cross_entropy"},
    {.schema = "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, "
               "int reduction=1) -> Tensor",
     .doc = "Gradient of binary_cross_entropy.", .body = bce_backward_body, .aten = "binary_cross_entropy_backward",
     .python = "torch.ops.aten.binary_cross_entropy_backward"},
    {.schema = "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, " LEGACY
               ", Tensor? pos_weight=None) -> Tensor",
     .doc = "binary_cross_entropy of sigmoid(input), reduced.", .body = bce_with_logits_body,
     .vjp = bce_with_logits_vjp, .python = "torch.nn.functional.binary_cross_entropy_with_logits"},
    {.schema = "kl_div(Tensor input, Tensor target, " LEGACY ", bool log_target=False) -> Tensor",
     .doc = "Kullback-Leibler divergence of log probabilities from probabilities, reduced.", .body = kl_div_body,
     .python = "torch.nn.functional.kl_div"},
    {.schema = "poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor",
     .doc = "Negative log likelihood of counts, up to the target's factorial or, if full, with Stirling's approximation of "
            "it; reduced.",
     .body = poisson_nll_loss_body, .aten = "poisson_nll_loss", .python = "torch.poisson_nll_loss"},
    {.schema = "soft_margin_loss(Tensor input, Tensor target, " LEGACY ") -> Tensor",
     .doc = "log(1 + exp(-target * input)), reduced.", .body = soft_margin_loss_body,
     .python = "torch.nn.functional.soft_margin_loss"},
    {.schema = "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, " LEGACY ") -> Tensor",
     .doc = "max(0, -target * (input1 - input2) + margin), reduced.", .body = margin_ranking_loss_body,
     .python = "torch.nn.functional.margin_ranking_loss"},
    {.schema = "hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, " LEGACY ") -> Tensor",
     .doc = "input where target is 1, max(0, margin - input) where it is -1, reduced.",
     .body = hinge_embedding_loss_body, .python = "torch.nn.functional.hinge_embedding_loss"},
};
// clang-format on

#undef LEGACY

}  // namespace

Records pointwise_loss() { return kRecords; }

}  // namespace thunder::ops::torch
