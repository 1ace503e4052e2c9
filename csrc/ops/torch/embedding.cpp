// torch: look-up in a table of vectors.
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

// F.embedding's padding_idx, counted from 0; -1 for none.
Dim padding_index(const Args& a) {
  if (!a.has("padding_idx")) return -1;
  int64_t p = a.integer("padding_idx");
  const Dim& n = a.tensor("weight").shape[0];
  THUNDER_CHECK(p >= 0 ? n > p : n >= -p, Assertion, "embedding", "Padding_idx must be within num_embeddings");
  return p >= 0 ? Dim(p) : n + p;
}

Arg rows_at(Builder& b, const Args& a, const Arg& weight, const Arg& indices) {
  const TensorType &w = weight.value().tensor(), &i = indices.value().tensor();
  THUNDER_CHECK(w.rank() == 2, Runtime, "embedding", "'weight' must be 2-D");
  THUNDER_CHECK(
      i.dtype == DType::i64 || i.dtype == DType::i32, Runtime, "embedding",
      "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got ",
      scalar_type_name(i.dtype), " instead (while checking arguments for embedding)");
  THUNDER_CHECK(w.device == i.device, Runtime, "embedding",
                "Expected all tensors to be on the same device, but got weight on ", w.device, " and indices on ",
                i.device);
  THUNDER_CHECK(!a.flag("sparse") || !w.requires_grad, NotImplemented, "embedding",
                "sparse=True is not supported: gradients are dense");
  Dims shape = i.shape;
  shape.push_back(w.shape[1]);
  if (i.rank() == 1) return b("prims.take", weight, indices, 0).arg();
  return reshape(b, b("prims.take", weight, reshape(b, indices, {i.numel()}), 0), shape).arg();
}

Arg embedding_body(Builder& b, const Args& a) { return rows_at(b, a, a["weight"], a["indices"]); }

Arg functional_embedding_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!a.has("max_norm"), NotImplemented, "embedding",
                "max_norm would rescale rows of the weight in place; use torch.embedding_renorm before");
  padding_index(a);
  return rows_at(b, a, a["weight"], a["input"]);
}

// The rows that are looked up, scaled down to a p-norm of at most max_norm: what F.embedding does to its weight first.
Arg embedding_renorm_body(Builder& b, const Args& a) {
  Expr w = b.expr(a["weight"]);
  THUNDER_CHECK(w.rank() == 2, Runtime, "embedding_renorm", "'weight' must be 2-D");
  const Dim& rows = w.shape()[0];
  Expr length = b("torch.norm", w, a["norm_type"], 1, true);
  Arg blank = full(b, {rows}, false, DType::boolean, w.tensor().device);
  Expr used = b("torch.index_fill", blank, 0, reshape(b, a["indices"], {a.tensor("indices").numel()}), true);
  Expr long_ones = b("torch.logical_and", b("torch.unsqueeze", used, 1), b("torch.gt", length, a["max_norm"]));
  Expr scale = b("torch.div", a["max_norm"], length + 1e-7);
  return b("torch.where", long_ones, w * scale, w).arg();
}

void put_embedding(VjpContext& c, const Arg& indices, const Arg& padding) {
  const Args a = c.args();
  c.put("weight", c.b("torch.embedding_backward", c.grad(), indices, c.in("weight").shape()[0], padding,
                      a["scale_grad_by_freq"], a["sparse"]));
}

void embedding_vjp(VjpContext& c) { put_embedding(c, c.args()["indices"], c.args()["padding_idx"]); }
void functional_embedding_vjp(VjpContext& c) { put_embedding(c, c.args()["input"], padding_index(c.args())); }

// Rows of the gradient added up by index.
Arg embedding_backward_body(Builder& b, const Args& a) {
  const TensorType& g = a.tensor("grad");
  Dim count = a.tensor("indices").numel(), width = g.shape.back();
  Dim rows = a.dim("num_weights");
  Expr index = reshape(b, a["indices"], {count});
  Formula grad = compute(b, reshape(b, a["grad"], {count, width}));
  auto by_row = [&](const Arg& v) {
    return b("prims.broadcast_in_dim", v, Dims{count, width}, Arg(std::vector<int64_t>{0}));
  };
  Arg padding = a["padding_idx"];
  if (padding.is_value() || padding.dim() >= 0) {
    Expr is_padding = b("prims.eq", index, padding);
    grad = where(Formula(by_row(is_padding)), 0.0, grad);
  }
  if (a.flag("scale_grad_by_freq")) {
    Arg zeros = full(b, {rows}, 0.0, grad.dtype(), g.device), ones = full(b, {count}, 1.0, grad.dtype(), g.device);
    Expr frequency = b("prims.take", b("prims.index_add", zeros, 0, index, ones), index, 0);
    grad = grad / Formula(by_row(frequency));
  }
  Arg zeros = full(b, {rows, width}, 0.0, grad.dtype(), g.device);
  return convert(b, b("prims.index_add", zeros, 0, index, grad), g.dtype);
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, "
               "bool sparse=False) -> Tensor",
     .doc = "Rows of weight at indices; the row at padding_idx gets no gradient.", .body = embedding_body,
     .vjp = embedding_vjp, .aten = "embedding", .python = "torch.embedding"},
    {.schema = "embedding.functional(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, "
               "float norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
     .doc = "Rows of weight at the indices in input; the row at padding_idx gets no gradient.",
     .body = functional_embedding_body, .vjp = functional_embedding_vjp,
     .aten = "embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)",
     .python = "torch.nn.functional.embedding"},
    {.schema = "embedding_renorm(Tensor weight, Tensor indices, float max_norm, float norm_type) -> Tensor",
     .doc = "The weight with the rows at indices scaled down to a p-norm of at most max_norm.", .tags = kNoGrad | kWaits,
     .body = embedding_renorm_body, .aten = "embedding_renorm",
     .python = "torch.ops.aten.embedding_renorm torch.embedding_renorm_"},
    {.schema = "embedding_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, "
               "bool scale_grad_by_freq, bool sparse) -> Tensor",
     .doc = "Gradient of embedding for its weight.", .body = embedding_backward_body, .aten = "embedding_backward",
     .python = "torch.ops.aten.embedding_backward"},
};
// clang-format on

}  // namespace

Records embedding() { return kRecords; }

}  // namespace thunder::ops::torch
