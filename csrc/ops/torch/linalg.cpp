// torch.linalg: singular values, norms of matrices, and products of vectors.
#include <cmath>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

// ---- singular values ------------------------------------------------------------------------------------------------

void check_matrices(const char* op, const TensorType& t) {
  THUNDER_CHECK(t.rank() >= 2, Runtime, op, op, ": The input tensor A must have at least 2 dimensions.");
  THUNDER_CHECK(is_inexact(t.dtype), Runtime, op, op, ": Expected a floating point or complex tensor as input. Got ",
                scalar_type_name(t.dtype));
  THUNDER_CHECK(compute_type(t.dtype) == t.dtype || known_empty(t.shape), NotImplemented, op,
                "\"linalg_svd\" not implemented for '", scalar_type_name(t.dtype), "'");
}

// Matrices stored column by column, as LAPACK gives them.
TensorType by_columns(const TensorType& like, Dims shape) {
  TensorType t = contiguous_type(like.dtype, like.device, std::move(shape));
  size_t n = t.shape.size();
  t.strides[n - 2] = 1;
  t.strides[n - 1] = max(t.shape[n - 2], Dim(1));
  return t;
}

Types svd_meta(const Args& a) {
  const TensorType& t = a.tensor("A");
  check_matrices("linalg.svd", t);
  bool full = a.flag("full_matrices");
  Dims batch(t.shape.begin(), t.shape.end() - 2);
  Dim m = t.shape[t.shape.size() - 2], n = t.shape.back(), k = min(m, n);
  auto with = [&](std::initializer_list<Dim> last) {
    Dims shape = batch;
    shape.insert(shape.end(), last);
    return shape;
  };
  // On the CPU V^H comes from LAPACK, stored by columns; on a GPU cuSOLVER gives V so.
  const Dims v = with({full ? n : k, n});
  return {by_columns(t, with({m, full ? m : k})), contiguous_type(real_part_type(t.dtype), t.device, with({k})),
          t.device.type == DeviceType::cpu ? by_columns(t, v) : contiguous_type(t.dtype, t.device, v)};
}

Expr hermitian(const Expr& x) { return conj(swap_last(x)); }
Expr product_of(const Expr& x, const Expr& y) { return x.builder()("torch.matmul", x, y); }
Expr columns(const Expr& s) { return s.builder()("torch.unsqueeze", s, -2); }
Expr rows(const Expr& s) { return s.builder()("torch.unsqueeze", s, -1); }

// The gradient of the singular vectors turns within the space of the first k and, where there is more room, out of it.
Expr vectors_gradient(VjpContext& c, const Expr& u, const Expr& s, const Expr& vh, const Expr& gu, const Expr& gvh) {
  Builder& b = c.b;
  const Dim k = s.shape().back(), m = u.shape()[u.shape().size() - 2], n = vh.shape().back();
  auto skew = [&](const Expr& x) { return x - hermitian(x); };
  Expr difference = columns(s) * columns(s) - rows(s) * rows(s);
  Expr diagonal = b("torch.eye", k, kw("dtype", DType::boolean), kw("device", s.tensor().device));
  Expr gaps = b("torch.where", diagonal, 1.0, difference);
  Expr inner = b("torch.zeros_like", gaps);
  if (!gu.is_none()) inner = inner + skew(product_of(hermitian(u), gu)) / gaps * columns(s);
  if (!gvh.is_none()) inner = inner + rows(s) * (skew(product_of(vh, hermitian(gvh))) / gaps);
  Expr left = product_of(u, inner);
  if (!gu.is_none() && !m.same(k)) {
    Expr scaled = gu / columns(s);
    left = left + scaled - product_of(u, product_of(hermitian(u), scaled));
  }
  Expr g = product_of(left, vh);
  if (gvh.is_none() || n.same(k)) return g;
  Expr scaled = gvh / rows(s);
  return g + product_of(u, scaled - product_of(product_of(scaled, hermitian(vh)), vh));
}

void svd_vjp(VjpContext& c) {
  Expr u = c.out(0), s = c.out(1), vh = c.out(2), gu = c.grad(0), gs = c.grad(1), gvh = c.grad(2);
  const Dim& k = s.shape().back();
  // Of full matrices only the first k vectors are determined.
  auto first = [&](const Expr& x, int64_t dim) { return x.is_none() ? x : c.b("torch.narrow", x, dim, 0, k); };
  if (c.args().flag("full_matrices")) u = first(u, -1), gu = first(gu, -1), vh = first(vh, -2), gvh = first(gvh, -2);
  Expr g;
  if (!gu.is_none() || !gvh.is_none()) {
    THUNDER_CHECK(!is_complex(u.dtype()), NotImplemented, "linalg.svd",
                  "the gradient of complex singular vectors is not supported");
    g = vectors_gradient(c, u, s, vh, gu, gvh);
  }
  if (!gs.is_none()) {
    Expr of_values = product_of(u * columns(to_dtype(gs, u.dtype())), vh);
    g = g.is_none() ? of_values : g + of_values;
  }
  c.put("A", g);
}

Arg svdvals_body(Builder& b, const Args& a) { return b("torch.linalg_svd", a["A"], false)[1]; }

// ---- norms ----------------------------------------------------------------------------------------------------------

// 1 or the infinities: the largest (or smallest) sum of magnitudes along the first (or second) of the two dimensions.
Expr norm_of_sums(const Expr& x, double p, int64_t row, int64_t column, bool keep) {
  Builder& b = x.builder();
  int64_t summed = std::abs(p) == 1 ? row : column, reduced = std::abs(p) == 1 ? column : row;
  Expr sums = b("torch.vector_norm", x, 1, std::vector<int64_t>{summed}, keep);
  if (!keep && reduced > summed) --reduced;
  if (p > 0 && known_empty(x.shape())) return b("torch.sum", sums, std::vector<int64_t>{reduced}, keep);  // zeros
  return b(p > 0 ? "torch.amax" : "torch.amin", sums, std::vector<int64_t>{reduced}, keep);
}

// From the singular values of the matrices in two dimensions.
Expr norm_of_values(const Expr& x, const char* reduction, const std::vector<int64_t>& dims, bool keep) {
  Builder& b = x.builder();
  THUNDER_CHECK_DTYPE(compute_type(x.dtype()) == x.dtype(), "linalg.matrix_norm",
                      "linalg.matrix_norm: Low precision dtypes not supported. Got ", scalar_type_name(x.dtype()));
  Expr last = b("torch.movedim", x, dims, std::vector<int64_t>{-2, -1});
  Expr values = b("torch.linalg_svdvals", last);
  // The largest of no singular values is 0.
  const bool none = values.shape().back().same(0) && std::string_view(reduction) == "torch.amax";
  Expr norm = b(none ? "torch.sum" : reduction, values, std::vector<int64_t>{-1}, false);
  if (!keep) return norm;
  Dims shape = x.shape();
  for (int64_t d : dims) shape[static_cast<size_t>(d)] = 1;
  return b("torch.reshape", norm, shape);
}

Expr matrix_norm(const Expr& x, const Arg& ord, const Arg& dim, bool keep) {
  Builder& b = x.builder();
  constexpr const char* op = "linalg.matrix_norm";
  THUNDER_CHECK(x.rank() >= 2, Runtime, op, "The input tensor A must have at least 2 dimensions.");
  THUNDER_CHECK(is_inexact(x.dtype()), Runtime, op, "Expected a floating point or complex tensor as input. Got ",
                scalar_type_name(x.dtype()));
  THUNDER_CHECK(dim.is_sequence() && dim.items().size() == 2, Runtime, op,
                "linalg.matrix_norm: dim must be a 2-tuple.");
  std::vector<int64_t> dims;
  for (const Arg& d : dim.items()) dims.push_back(wrapped_dim(op, d, x.rank()));
  THUNDER_CHECK(dims[0] != dims[1], Runtime, op, "linalg.matrix_norm: dims must be different.");
  if (ord.kind() == Arg::Kind::Str) {
    THUNDER_CHECK(ord.str() == "fro" || ord.str() == "nuc", Runtime, op, "linalg.matrix_norm: Order ", ord.str(),
                  " not supported.");
    return ord.str() == "fro" ? b("torch.vector_norm", x, 2, dims, keep) : norm_of_values(x, "torch.sum", dims, keep);
  }
  THUNDER_CHECK(ord.is_real_literal(), NotImplemented, op, "`ord` must be known when the function is compiled");
  double p = ord.real();
  THUNDER_CHECK(std::abs(p) == 1 || std::abs(p) == 2 || std::isinf(p), Runtime, op, "linalg.matrix_norm: Order ", p,
                " not supported.");
  if (std::abs(p) == 2) return norm_of_values(x, p > 0 ? "torch.amax" : "torch.amin", dims, keep);
  return norm_of_sums(x, p, dims[0], dims[1], keep);
}

Expr in_given_dtype(Builder& b, const Args& a) {
  return a.has("dtype") ? b("torch.to", a["A"], a["dtype"]) : b.expr(a["A"]);
}

Arg matrix_norm_body(Builder& b, const Args& a) {
  return matrix_norm(in_given_dtype(b, a), a["ord"], a["dim"], a.flag("keepdim")).arg();
}

Arg norm_body(Builder& b, const Args& a) {
  const TensorType& t = a.tensor("A");
  size_t dims = a["dim"].is_sequence() ? a["dim"].items().size() : a.has("dim") ? 1 : 0;
  if (!a.has("ord")) return b("torch.vector_norm", a["A"], 2, a["dim"], a["keepdim"], kw("dtype", a["dtype"]));
  THUNDER_CHECK(dims != 0 || t.rank() == 1 || t.rank() == 2, Runtime, "linalg.norm",
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got ", t.rank(), "D.");
  bool text = a["ord"].kind() == Arg::Kind::Str;
  THUNDER_CHECK(!text || dims != 1, Runtime, "linalg.norm", "linalg.norm: Order ", text ? a["ord"].str() : "",
                " is of matrices");
  if (!text && (dims == 1 || (dims == 0 && t.rank() == 1)))
    return b("torch.vector_norm", a["A"], a["ord"], a["dim"], a["keepdim"], kw("dtype", a["dtype"]));
  Arg dim = dims == 0 ? Arg(std::vector<int64_t>{0, 1}) : a["dim"];
  return matrix_norm(in_given_dtype(b, a), a["ord"], dim, a.flag("keepdim")).arg();
}

// ---- products -------------------------------------------------------------------------------------------------------

Arg vecdot_body(Builder& b, const Args& a) {
  return b("torch.sum", conj(b.expr(a["x"])) * b.expr(a["y"]), a["dim"]).arg();
}

Arg trace_body(Builder& b, const Args& a) {
  THUNDER_CHECK(a.tensor("input").rank() == 2, Runtime, "trace", "trace: expected a matrix, but got tensor with dim ",
                a.tensor("input").rank());
  return b("torch.sum", b("torch.diagonal", a["input"])).arg();
}

Arg dist_body(Builder& b, const Args& a) {
  return b("torch.vector_norm", b.expr(a["input"]) - b.expr(a["other"]), a["p"]).arg();
}

Arg inner_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), y = b.expr(a["other"]);
  if (x.rank() == 0 || y.rank() == 0) return (x * y).arg();
  THUNDER_CHECK(x.shape().back() == y.shape().back(), Runtime, "inner",
                "inner() the last dimension must match on both input tensors but got shapes ", str(x.shape()), " and ",
                str(y.shape()));
  return b("torch.tensordot", x, y, Arg::list({Arg(std::vector<int64_t>{-1}), Arg(std::vector<int64_t>{-1})})).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor, Tensor, Tensor)",
     .doc = "U, S and V^H with A = U diag(S) V^H; the singular values fall.", .tags = kWaits, .meta = svd_meta,
     .vjp = svd_vjp, .aten = "linalg_svd(A, full_matrices, driver=driver)", .python = "torch.linalg.svd"},
    {.schema = "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", .doc = "The singular values, which fall.",
     .tags = kWaits, .body = svdvals_body, .aten = "linalg_svdvals(A, driver=driver)", .python = "torch.linalg.svdvals"},
    {.schema = "linalg_matrix_norm(Tensor A, any ord='fro', int[:] dim=[-2, -1], bool keepdim=False, *, "
               "dtype? dtype=None) -> Tensor",
     .doc = "A norm of the matrices in two dimensions: 'fro', 'nuc', 1, 2, inf and their negatives.",
     .tags = kReduction, .body = matrix_norm_body, .python = "torch.linalg.matrix_norm"},
    {.schema = "linalg_norm(Tensor A, any ord=None, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) "
               "-> Tensor",
     .doc = "A norm of vectors (one dimension, or no ord) or of matrices (two dimensions).", .tags = kReduction,
     .body = norm_body, .python = "torch.linalg.norm"},
    {.schema = "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
     .doc = "Sums of conj(x) * y along a dimension.", .tags = kReduction, .body = vecdot_body, .aten = "linalg_vecdot",
     .python = "torch.linalg.vecdot"},
    {.schema = "trace(Tensor input) -> Tensor", .doc = "The sum of a matrix's diagonal.", .tags = kReduction,
     .body = trace_body, .aten = "trace", .python = "torch.trace torch.Tensor.trace"},
    {.schema = "dist(Tensor input, Tensor other, Number p=2) -> Tensor", .doc = "The p-norm of input - other.",
     .tags = kReduction, .body = dist_body, .aten = "dist", .python = "torch.dist torch.Tensor.dist"},
    {.schema = "inner(Tensor input, Tensor other) -> Tensor",
     .doc = "Sums of products along the last dimension of both.", .tags = kMatmul, .body = inner_body,
     .python = "torch.inner torch.Tensor.inner"},
};
// clang-format on

}  // namespace

Records linalg() { return kRecords; }

}  // namespace thunder::ops::torch
