// torch: distances of pairs of vectors, and the losses made of them.
#include "ops/common.h"
#include "ops/torch/loss.h"

namespace thunder::ops::torch {
namespace {

constexpr double kLeastSquare = 1e-12;  // that eager adds to a squared length

Arg pairwise_distance_body(Builder& b, const Args& a) {
  const Expr d = b.expr(a["x1"]) - b.expr(a["x2"]) + a.real("eps");
  return b("torch.norm", d, a["p"], std::vector<int64_t>{-1}, a["keepdim"]);
}

Arg cosine_embedding_loss_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input1"]), y = b.expr(a["input2"]), target = b.expr(a["target"]);
  const int64_t rank = target.rank();
  THUNDER_CHECK(rank <= 1, Runtime, "cosine_embedding_loss",
                "0D or 1D target tensor expected, multi-target not supported");
  for (const Expr& v : {x, y})
    THUNDER_CHECK(v.rank() == rank + 1, Runtime, "cosine_embedding_loss", rank, "D target tensor expects ", rank + 1,
                  "D input tensors, but found inputs with sizes ", str(x.shape()), " and ", str(y.shape()), ".");
  const auto product = [&](const Expr& v, const Expr& w) { return b("torch.sum", v * w, rank); };
  const Expr squares = (product(x, x) + kLeastSquare) * (product(y, y) + kLeastSquare),
             cosine = product(x, y) / b("torch.sqrt", squares);
  const Expr far = b("torch.clamp_min", b("torch.sub", cosine, a["margin"]), 0);
  const Expr loss = b("torch.where", b("torch.eq", target, 1), 1.0 - cosine, 0.0) +
                    b("torch.where", b("torch.eq", target, -1), far, 0.0);
  return torch_reduced(loss, a.integer("reduction")).arg();
}

Arg triplet_margin_loss_body(Builder& b, const Args& a) {
  const Arg &anchor = a["anchor"], &positive = a["positive"], &negative = a["negative"];
  const int64_t rank = anchor.value().rank();
  THUNDER_CHECK(
      rank == positive.value().rank() && rank == negative.value().rank(), Runtime, "triplet_margin_loss",
      "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
      "anchor ",
      rank, "D, positive ", positive.value().rank(), "D, and negative ", negative.value().rank(), "D inputs");
  const auto distance = [&](const Arg& x, const Arg& y) {
    return b("torch.pairwise_distance", x, y, a["p"], a["eps"]);
  };
  const Expr near = distance(anchor, positive);
  Expr far = distance(anchor, negative);
  if (a.flag("swap")) far = b("torch.minimum", far, distance(positive, negative));
  const Expr loss = b("torch.clamp_min", b("torch.add", near, a["margin"]) - far, 0);
  return torch_reduced(loss, a.integer("reduction")).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor",
     .doc = "The p-norm of x1 - x2 + eps over the last dimension.", .body = pairwise_distance_body,
     .aten = "pairwise_distance", .python = "torch.pairwise_distance torch.nn.functional.pairwise_distance"},
    {.schema = "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) "
               "-> Tensor",
     .doc = "1 - cos of the angle where target is 1, max(0, cos - margin) where it is -1, reduced.",
     .body = cosine_embedding_loss_body, .aten = "cosine_embedding_loss", .python = "torch.cosine_embedding_loss"},
    {.schema = "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, "
               "float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
     .doc = "max(0, margin + distance to the positive - distance to the negative), reduced.",
     .body = triplet_margin_loss_body, .aten = "triplet_margin_loss", .python = "torch.triplet_margin_loss"},
};
// clang-format on

}  // namespace

Records distance() { return kRecords; }

}  // namespace thunder::ops::torch
