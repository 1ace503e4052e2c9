// torch: cross entropy and negative log likelihood.  Losses that compare element by element are in pointwise_loss.cpp.
#include "ops/torch/loss.h"

#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {

int64_t loss_reduction(std::string_view op, const Args& a) {
  if (!a.has("size_average") && !a.has("reduce")) return reduction_number(op, a["reduction"]);
  bool average = !a.has("size_average") || a.flag("size_average"), reduce = !a.has("reduce") || a.flag("reduce");
  return !reduce ? 0 : average ? 1 : 2;
}

Expr torch_reduced(const Expr& x, int64_t reduction) {
  if (reduction == 0) return x;
  return x.builder()(reduction == 1 ? "torch.mean" : "torch.sum", x);
}

namespace {

int64_t class_dim(int64_t rank) { return rank == 1 ? 0 : 1; }

// ---- nll_loss with ATen's shapes ------------------------------------------------------------------------------------

// The classes' weights along the class dimension of `shape`.
Formula wide_weight(Builder& b, const Args& a, const Dims& shape, DType t) {
  return spread_channels(as(Formula(b, a["weight"]), t), shape, class_dim(static_cast<int64_t>(shape.size())));
}

struct Targets {
  Formula valid, index;  ///< ignored ones replaced by class 0
};

Targets targets(Builder& b, const Args& a) {
  Formula t(b, convert(b, contiguous(b, a["target"]), DType::i64));
  Formula valid = t.call("prims.ne", a["ignore_index"]);
  return {valid, where(valid, t, 0)};
}

void check_nll(std::string_view op, const Args& a) {
  const TensorType &x = a.tensor("self"), &t = a.tensor("target");
  THUNDER_CHECK_DTYPE(t.dtype == DType::i64 || t.dtype == DType::u8, op,
                      "expected target dtype to be Long or Byte, but got ", scalar_type_name(t.dtype));
  int64_t c = class_dim(x.rank());
  if (a.has("weight")) {
    const TensorType& w = a.tensor("weight");
    THUNDER_CHECK(w.rank() == 1 && w.shape[0] == x.shape[c], Runtime, op,
                  "weight tensor should be defined either for all ", x.shape[c],
                  " classes or no classes but got weight tensor of shape: ", str(w.shape));
    THUNDER_CHECK(w.dtype == x.dtype, Runtime, op, "expected scalar type ", scalar_type_name(x.dtype), " but found ",
                  scalar_type_name(w.dtype));
  }
  check_floating(op, "nll_loss_out_frame", a["self"]);
}

Arg nll_forward_body(Builder& b, const Args& a) {
  check_nll("nll_loss", a);
  const TensorType x = a.tensor("self");
  int64_t c = class_dim(x.rank()), reduction = a.integer("reduction");
  Targets t = targets(b, a);
  Dims shape = t.index.shape(), with_class = x.shape;
  with_class[c] = 1;
  Expr index = reshape(b, t.index, with_class);
  Formula picked = compute(b, reshape(b, b("prims.take_along_axis", a["self"], index, c), shape));
  Formula loss = -picked, weights = as(t.valid, picked.dtype());
  if (a.has("weight")) {
    Expr flat = reshape(b, t.index, {product(shape)});
    Formula w = compute(b, reshape(b, b("prims.take", a["weight"], flat, 0), shape));
    loss = loss * w;
    weights = weights * w;
  }
  loss = where(t.valid, loss, 0.0);
  std::vector<int64_t> all = range(0, static_cast<int64_t>(shape.size()));
  if (reduction == 0) return Arg::tuple({store(loss, x.dtype), full(b, {}, 0.0, x.dtype, x.device)});
  Formula total = sum(weights, all), sum_loss = sum(loss, all);
  return Arg::tuple({store(reduction == 1 ? sum_loss / total : sum_loss, x.dtype), store(total, x.dtype)});
}

void put_nll(VjpContext& c, const char* backward) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  c.put("self", c.b(backward, c.grad(0), c.in("self"), c.in("target"), a["weight"], a["reduction"], a["ignore_index"],
                    c.out(1)));
}
void nll_forward_vjp(VjpContext& c) { put_nll(c, "torch.nll_loss_backward"); }
void nll2d_forward_vjp(VjpContext& c) { put_nll(c, "torch.nll_loss2d_backward"); }

Arg nll_backward_body(Builder& b, const Args& a) {
  const TensorType x = a.tensor("self");
  int64_t c = class_dim(x.rank()), rank = x.rank();
  Targets t = targets(b, a);
  DType type = compute_type(x.dtype);
  auto wide = [&](const Formula& f) {
    if (f.expr().rank() == 0) return Formula(b, expand_to(b, f, x.shape));
    return Formula(b("prims.broadcast_in_dim", f, x.shape, Arg(other_dims(rank, {c}))));
  };
  Formula g = as(Formula(b, a["grad_output"]), type);
  if (a.integer("reduction") == 1) g = g / as(Formula(b, a["total_weight"]), type);
  Formula classes(b("prims.iota", x.shape[c], 0, 1, kw("dtype", DType::i64), kw("device", x.device)));
  Formula hit = spread_channels(classes, x.shape, c).call("prims.eq", wide(t.index)) & wide(t.valid);
  Formula value = -wide(g);
  if (a.has("weight")) value = value * wide_weight(b, a, x.shape, type);
  return store(where(hit, value, 0.0), x.dtype);
}

// ---- nll_loss and cross_entropy of any rank -------------------------------------------------------------------------

void check_batch(std::string_view op, const TensorType& x, const TensorType& t) {
  THUNDER_CHECK(x.rank() >= 1, Value, op, "Expected 1 or more dimensions (got ", x.rank(), ")");
  if (x.rank() == 1)
    THUNDER_CHECK(
        t.rank() == 0 || (t.rank() == 1 && t.shape[0] == 1), Value, op,
        "For 1D input, 1D target must have size 1, but got target size: ", t.rank() == 0 ? Dim(1) : t.shape[0]);
  if (x.rank() < 2) return;
  THUNDER_CHECK(t.rank() >= 1, Value, op, "Expected input batch_size (", x.shape[0],
                ") to match target batch_size (1).");
  THUNDER_CHECK(x.shape[0] == t.shape[0], Value, op, "Expected input batch_size (", x.shape[0],
                ") to match target batch_size (", t.shape[0], ").");
  if (x.rank() == 2) {
    THUNDER_CHECK(t.rank() == 1, Runtime, op, "0D or 1D target tensor expected, multi-target not supported");
    return;
  }
  Dims expected = x.shape;
  expected.erase(expected.begin() + 1);
  THUNDER_CHECK(equal(expected, t.shape), Runtime, op, "Expected target size ", str(expected), ", got ", str(t.shape));
}

Expr nll(Builder& b, const Expr& x, const Arg& target, const Arg& weight, int64_t reduction, const Arg& ignore_index) {
  check_batch("nll_loss", x.tensor(), target.value().tensor());
  const Dims &s = x.shape(), &t = target.value().shape();
  if (x.rank() == 1 && t.size() == 1)
    return nll(b, x, torch_reshape(b.expr(target), {}), weight, reduction, ignore_index);
  if (x.rank() <= 2) return b("torch.nll_loss_forward", x, target, weight, reduction, ignore_index)[0];
  if (x.rank() == 4) return b("torch.nll_loss2d_forward", x, target, weight, reduction, ignore_index)[0];
  Dim inner = product(Dims(s.begin() + 2, s.end()));
  Expr flat = b("torch.nll_loss2d_forward", torch_reshape(x, {s[0], s[1], 1, inner}),
                torch_reshape(b.expr(target), {s[0], 1, inner}), weight, reduction, ignore_index)[0];
  return reduction == 0 ? torch_reshape(flat, t) : flat;
}

Arg nll_loss_body(Builder& b, const Args& a) {
  return nll(b, b.expr(a["input"]), a["target"], a["weight"], loss_reduction("nll_loss", a), a["ignore_index"]).arg();
}

Expr weight_by_class(Builder& b, const Args& a, int64_t rank, std::string_view op) {
  const TensorType& w = a.tensor("weight");
  const Dim& classes = a.tensor("input").shape[class_dim(rank)];
  THUNDER_CHECK(w.rank() == 1 && w.shape[0] == classes, Runtime, op, "weight tensor should be defined either for all ",
                classes, " classes or no classes but got weight tensor of shape: ", str(w.shape));
  Dims shape(static_cast<size_t>(rank), Dim(1));
  shape[class_dim(rank)] = classes;
  return torch_reshape(b.expr(a["weight"]), shape);
}

// What label smoothing gives to one of the classes: e * smoothing / classes.
Expr share(const Expr& e, double smoothing, const Dim& classes) {
  if (classes.is_constant()) return e * (smoothing / static_cast<double>(classes.constant()));
  return e.builder()("torch.div", e * smoothing, real_number(classes));
}

// Targets are probabilities of every class.
Expr probability_cross_entropy(Builder& b, const Args& a, int64_t reduction, double smoothing) {
  Expr x = b.expr(a["input"]), p = b.expr(a["target"]);
  int64_t c = class_dim(x.rank());
  const Dim& classes = x.shape()[c];
  Expr log_p = b("torch.log_softmax.int", x, c);
  if (smoothing > 0 && classes.is_constant()) {
    p = p * (1 - smoothing) + smoothing / static_cast<double>(classes.constant());
  } else if (smoothing > 0) {
    // A float that depends on a symbolic size exists only as a tensor.
    Expr one = b("torch.new_full", p, std::vector<int64_t>{}, 1.0, kw("dtype", compute_type(p.dtype())));
    p = p * (1 - smoothing) + share(one, smoothing, classes);
  }
  Expr product_ = log_p * p;
  if (a.has("weight")) product_ = product_ * weight_by_class(b, a, x.rank(), "cross_entropy");
  if (reduction == 0) return -b("torch.sum", product_, c);
  Expr total = -b("torch.sum", product_);
  return reduction == 2 ? total : b("torch.div", total, floordiv(x.tensor().numel(), classes));
}

Expr smoothed_cross_entropy(Builder& b, const Args& a, int64_t reduction, double smoothing) {
  Expr x = b.expr(a["input"]), target = b.expr(a["target"]);
  int64_t c = class_dim(x.rank());
  Expr log_p = b("torch.log_softmax.int", x, c);
  Expr hard = nll(b, log_p, target, a["weight"], reduction, a["ignore_index"]);
  Expr weighted = a.has("weight") ? log_p * weight_by_class(b, a, x.rank(), "cross_entropy") : log_p;
  Expr ignored = b("torch.eq", target, a["ignore_index"]);
  Expr smooth = b("torch.masked_fill", -b("torch.sum", weighted, c),
                  torch_reshape(ignored,
                                [&] {
                                  Dims s = x.shape();
                                  s.erase(s.begin() + c);
                                  return s;
                                }()),
                  0.0);
  if (reduction != 0) smooth = b("torch.sum", smooth);
  if (reduction == 1) {
    Expr valid = b("torch.logical_not", ignored);
    Expr total = b("torch.sum", valid);
    if (a.has("weight")) {
      Expr index = torch_reshape(b("torch.masked_fill", target, ignored, 0), {target.tensor().numel()});
      Expr weights = b("torch.index_select", a["weight"], 0, index);
      total = b("torch.sum", weights * torch_reshape(to_dtype(valid, weights.dtype()), {target.tensor().numel()}));
    }
    smooth = smooth / total;
  }
  return hard * (1 - smoothing) + share(smooth, smoothing, x.shape()[static_cast<size_t>(c)]);
}

Arg cross_entropy_body(Builder& b, const Args& a) {
  int64_t reduction = loss_reduction("cross_entropy", a);
  const TensorType &x = a.tensor("input"), &t = a.tensor("target");
  double smoothing = a.real("label_smoothing");
  bool probabilities = x.rank() == t.rank() && equal(x.shape, t.shape);
  if (probabilities) {
    THUNDER_CHECK(is_floating(t.dtype), Runtime, "cross_entropy",
                  "Expected floating point type for target with class probabilities, got ", scalar_type_name(t.dtype));
    THUNDER_CHECK(a.integer("ignore_index") < 0, Runtime, "cross_entropy",
                  "ignore_index is not supported for floating point target");
    THUNDER_CHECK(x.rank() > 0, Index, "cross_entropy",
                  "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
  } else {
    check_batch("cross_entropy", x, t);
  }
  THUNDER_CHECK(smoothing == 0 || x.rank() != 1 || t.rank() != 1 || probabilities, Runtime, "cross_entropy",
                "label_smoothing takes a 0-d target for a 1-d input, got ", str(t.shape));
  THUNDER_CHECK(smoothing <= 1, Runtime, "cross_entropy",
                "label_smoothing must be between 0.0 and 1.0. Got: ", smoothing);
  if (probabilities) return probability_cross_entropy(b, a, reduction, smoothing).arg();
  if (smoothing > 0) return smoothed_cross_entropy(b, a, reduction, smoothing).arg();
  Expr log_p = b("torch.log_softmax.int", a["input"], class_dim(x.rank()));
  return nll(b, log_p, a["target"], a["weight"], reduction, a["ignore_index"]).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
               "int ignore_index=-100, bool? reduce=None, str reduction='mean', float label_smoothing=0.0) -> Tensor",
     .doc = "Cross entropy between logits and class indices, or class probabilities.", .body = cross_entropy_body,
     .python = "torch.nn.functional.cross_entropy"},
    {.schema = "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, "
               "int ignore_index=-100, bool? reduce=None, str reduction='mean') -> Tensor",
     .doc = "Negative log likelihood of class indices, given log probabilities.", .body = nll_loss_body,
     .python = "torch.nn.functional.nll_loss"},
    {.schema = "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) "
               "-> (Tensor, Tensor)",
     .doc = "nll_loss of [N, C] or [C], with the total weight that its gradient needs.", .body = nll_forward_body,
     .vjp = nll_forward_vjp, .aten = "nll_loss_forward", .python = "torch.ops.aten.nll_loss_forward"},
    {.schema = "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, "
               "int ignore_index, Tensor total_weight) -> Tensor",
     .doc = "Gradient of nll_loss_forward.", .body = nll_backward_body, .aten = "nll_loss_backward",
     .python = "torch.ops.aten.nll_loss_backward"},
    {.schema = "nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) "
               "-> (Tensor, Tensor)",
     .doc = "nll_loss of [N, C, H, W], with the total weight that its gradient needs.", .body = nll_forward_body,
     .vjp = nll2d_forward_vjp, .aten = "nll_loss2d_forward", .python = "torch.ops.aten.nll_loss2d_forward"},
    {.schema = "nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, "
               "int ignore_index, Tensor total_weight) -> Tensor",
     .doc = "Gradient of nll_loss2d_forward.", .body = nll_backward_body, .aten = "nll_loss2d_backward",
     .python = "torch.ops.aten.nll_loss2d_backward"},
};
// clang-format on

}  // namespace

Records loss() { return kRecords; }

}  // namespace thunder::ops::torch
