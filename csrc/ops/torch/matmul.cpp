// torch: the matrix product family.  Contractions of named dimensions (einsum, tensordot) are in contraction.cpp.
#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

// ---- matmul ---------------------------------------------------------------------------------------------------------

void check_product_dtype(std::string_view op, const TensorType& a, const TensorType& b) {
  THUNDER_CHECK_DTYPE(a.dtype == b.dtype, op,
                      "expected m1 and m2 to have the same dtype, but got: ", cpp_type_name(a.dtype),
                      " != ", cpp_type_name(b.dtype));
  THUNDER_CHECK(!is_bool(a.dtype), NotImplemented, op, "\"addmm_impl_cpu_\" not implemented for 'Bool'");
}

void check_inner(std::string_view op, const Dim& rows, const Dim& inner, const Dims& b) {
  size_t n = b.size();
  THUNDER_CHECK(inner == b[n - 2], Runtime, op, "mat1 and mat2 shapes cannot be multiplied (", rows, "x", inner,
                " and ", b[n - 2], "x", b[n - 1], ")");
}

// A batch of products with one matrix on the right is a single product over all rows.
Arg folded_product(Builder& b, const Arg& x, const Arg& matrix) {
  const Dims& s = x.value().shape();
  Dims leading(s.begin(), s.end() - 1);
  Dim rows = product(leading);
  check_inner("matmul", rows, s.back(), matrix.value().shape());
  Expr flat = b("prims.matmul", reshape(b, x, {rows, s.back()}), matrix);
  leading.push_back(matrix.value().shape().back());
  return reshape(b, flat, leading).arg();
}

Arg batched_product(Builder& b, const Arg& x, const Arg& y) {
  const Dims &s = x.value().shape(), &t = y.value().shape();
  Dims batch_s(s.begin(), s.end() - 2), batch_t(t.begin(), t.end() - 2);
  Dims batch = broadcast_shapes("matmul", {&batch_s, &batch_t});
  size_t n = s.size(), m = t.size();
  Dims to_s = batch, to_t = batch;
  to_s.insert(to_s.end(), {s[n - 2], s[n - 1]});
  to_t.insert(to_t.end(), {t[m - 2], t[m - 1]});
  THUNDER_CHECK(s[n - 1] == t[m - 2], Runtime, "matmul",
                "Expected size for first two dimensions of batch2 tensor to be: [", product(batch), ", ", s[n - 1],
                "] but got: [", product(batch), ", ", t[m - 2], "].");
  return b("prims.matmul", expand_to(b, x, to_s), expand_to(b, y, to_t)).arg();
}

Arg with_dim(Builder& b, const Arg& vector, int64_t at) {
  const Dim& n = vector.value().shape()[0];
  return reshape(b, vector, at == 0 ? Dims{1, n} : Dims{n, 1}).arg();
}

Arg matmul_body(Builder& b, const Args& args) {
  Arg x = args["input"], y = args["other"];
  int64_t n = x.value().rank(), m = y.value().rank();
  THUNDER_CHECK(n > 0 && m > 0, Runtime, "matmul", "both arguments to matmul need to be at least 1D, but they are ", n,
                "D and ", m, "D");
  check_product_dtype("matmul", x.value().tensor(), y.value().tensor());
  const Dims &s = x.value().shape(), &t = y.value().shape();
  if (n == 1 && m == 1)
    THUNDER_CHECK(s[0] == t[0], Runtime, "matmul", "inconsistent tensor size, expected tensor [", s[0], "] and src [",
                  t[0], "] to have the same number of elements, but got ", s[0], " and ", t[0],
                  " elements respectively");
  if (n >= 2 && m == 1)
    THUNDER_CHECK(s.back() == t[0], Runtime, "matmul", "size mismatch, got input (",
                  product(Dims(s.begin(), s.end() - 1)), "), mat (", product(Dims(s.begin(), s.end() - 1)), "x",
                  s.back(), "), vec (", t[0], ")");
  if (n == 2 && m == 2) {
    check_inner("matmul", s[0], s[1], t);
    return b("prims.matmul", x, y).arg();
  }
  Dims out = n == 1 ? Dims(t.begin(), t.end() - (m == 1 ? 1 : 2)) : Dims(s.begin(), s.end() - 1);
  if (n == 1) x = with_dim(b, x, 0);
  if (m == 1) y = with_dim(b, y, 1);
  Arg r;
  if (y.value().rank() == 2) {
    r = folded_product(b, x, y);
  } else {
    if (n == 1) check_inner("matmul", 1, s[0], t);
    r = batched_product(b, x, y);
  }
  if (n > 1 && m > 1) return r;
  if (n == 1 && m > 1) out.push_back(t.back());
  return reshape(b, r, out).arg();
}

Expr unsqueezed(const Expr& x, int64_t at) { return x.builder()("torch.unsqueeze", x, at); }

void put_shaped(VjpContext& c, std::string_view name, const Expr& gradient) {
  c.put(name, torch_reshape(gradient, c.in(name).shape()));
}

void matmul_vjp(VjpContext& c) {
  Expr x = c.in("input"), y = c.in("other"), g = c.grad();
  int64_t n = x.rank(), m = y.rank();
  if (n == 1 && m == 1) {
    if (c.needs("input")) c.put("input", g * conj(y));
    if (c.needs("other")) c.put("other", g * conj(x));
    return;
  }
  if (n == 1) {
    x = unsqueezed(x, 0);
    g = unsqueezed(g, -2);
  }
  if (m == 1) {
    y = unsqueezed(y, -1);
    g = unsqueezed(g, -1);
  }
  if (c.needs("input")) put_shaped(c, "input", sum_to(c.b("torch.matmul", g, conj(swap_last(y))), x.shape()));
  if (!c.needs("other")) return;
  if (y.rank() == 2 && x.rank() > 2) {
    Dim rows = product(Dims(x.shape().begin(), x.shape().end() - 1));
    Expr flat = torch_reshape(x, {rows, x.shape().back()}), flat_g = torch_reshape(g, {rows, g.shape().back()});
    put_shaped(c, "other", c.b("torch.matmul", swap_last(conj(flat)), flat_g));
  } else {
    put_shaped(c, "other", sum_to(c.b("torch.matmul", conj(swap_last(x)), g), y.shape()));
  }
}

// ---- products of fixed ranks ----------------------------------------------------------------------------------------

Arg mm(Builder& b, std::string_view op, const Arg& x, const Arg& y, const char* first, const char* second) {
  const TensorType &s = x.value().tensor(), &t = y.value().tensor();
  THUNDER_CHECK(s.rank() == 2, Runtime, op, first, " must be a matrix");
  THUNDER_CHECK(t.rank() == 2, Runtime, op, second, " must be a matrix");
  check_product_dtype(op, s, t);
  check_inner(op, s.shape[0], s.shape[1], t.shape);
  return b("prims.matmul", x, y).arg();
}

Arg mm_body(Builder& b, const Args& a) { return mm(b, "mm", a["input"], a["mat2"], "self", "mat2"); }

Arg bmm(Builder& b, std::string_view op, const Arg& x, const Arg& y) {
  const TensorType &s = x.value().tensor(), &t = y.value().tensor();
  THUNDER_CHECK(s.rank() == 3, Runtime, op, "batch1 must be a 3D tensor");
  THUNDER_CHECK(t.rank() == 3, Runtime, op, "batch2 must be a 3D tensor");
  THUNDER_CHECK(s.shape[0] == t.shape[0] && s.shape[2] == t.shape[1], Runtime, op,
                "Expected size for first two dimensions of batch2 tensor to be: [", s.shape[0], ", ", s.shape[2],
                "] but got: [", t.shape[0], ", ", t.shape[1], "].");
  THUNDER_CHECK(s.dtype == t.dtype, Runtime, op, "expected scalar type ", scalar_type_name(s.dtype), " but found ",
                scalar_type_name(t.dtype));
  return b("prims.matmul", x, y).arg();
}

Arg bmm_body(Builder& b, const Args& a) { return bmm(b, "bmm", a["input"], a["mat2"]); }

Arg mv(Builder& b, std::string_view op, const Arg& matrix, const Arg& vec) {
  const TensorType &s = matrix.value().tensor(), &t = vec.value().tensor();
  THUNDER_CHECK(s.rank() == 2 && t.rank() == 1, Runtime, op, "vector + matrix @ vector expected, got 1, ", s.rank(),
                ", ", t.rank());
  THUNDER_CHECK(s.shape[1] == t.shape[0], Runtime, op, "size mismatch, got input (", s.shape[0], "), mat (", s.shape[0],
                "x", s.shape[1], "), vec (", t.shape[0], ")");
  THUNDER_CHECK_DTYPE(s.dtype == t.dtype, op, "addmv input tensors must have the same dtype, but got ",
                      scalar_type_name(t.dtype), ", ", scalar_type_name(s.dtype), ", and ", scalar_type_name(t.dtype));
  return b("torch.matmul", matrix, vec).arg();
}

Arg mv_body(Builder& b, const Args& a) { return mv(b, "mv", a["input"], a["vec"]); }

Arg dot(Builder& b, std::string_view op, const Arg& x, const Arg& y) {
  const TensorType &s = x.value().tensor(), &t = y.value().tensor();
  THUNDER_CHECK(s.rank() == 1 && t.rank() == 1, Runtime, op, "1D tensors expected, but got ", s.rank(), "D and ",
                t.rank(), "D tensors");
  THUNDER_CHECK_DTYPE(s.dtype == t.dtype, op, op, " : expected both vectors to have same dtype, but found ",
                      scalar_type_name(s.dtype), " and ", scalar_type_name(t.dtype));
  return b("torch.matmul", x, y).arg();
}

Arg dot_body(Builder& b, const Args& a) { return dot(b, "dot", a["input"], a["tensor"]); }

Arg vdot_body(Builder& b, const Args& a) { return dot(b, "vdot", conj(b.expr(a["input"])).arg(), a["other"]); }

Arg outer_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), y = b.expr(a["vec2"]);
  THUNDER_CHECK(x.rank() == 1, Runtime, "outer", "outer: Expected 1-D argument self, but got ", x.rank(), "-D");
  THUNDER_CHECK(y.rank() == 1, Runtime, "outer", "outer: Expected 1-D argument vec2, but got ", y.rank(), "-D");
  return (b("torch.unsqueeze", x, 1) * y).arg();
}

// ---- products added to something ------------------------------------------------------------------------------------

bool is_number(const Arg& a, double value) {
  return a.is_literal_number() && a.kind() != Arg::Kind::Complex && a.real() == value;
}

// A bias or a summand must fit the product's shape.
void check_expandable(std::string_view op, const Dims& from, const Dims& to) {
  THUNDER_CHECK(from.size() <= to.size(), Runtime, op, "expand: the number of sizes provided (", to.size(),
                ") must be greater or equal to the number of dimensions in the tensor (", from.size(), ")");
  for (size_t i = 0; i < from.size(); ++i) {
    size_t d = to.size() - from.size() + i;
    THUNDER_CHECK(from[i] == to[d] || from[i] == 1, Runtime, op, "The expanded size of the tensor (", to[d],
                  ") must match the existing size (", from[i], ") at non-singleton dimension ", d,
                  ".  Target sizes: ", str(to), ".  Tensor sizes: ", str(from));
  }
}

Arg factor_of(DType dtype, const Arg& factor) {
  return dtype == DType::boolean && factor.is_real_literal() ? Arg(factor.real() != 0) : factor;
}

// beta * input + alpha * product; with beta == 0 the input's values do not count, not even its NaNs.
Arg added_product(Builder& b, std::string_view op, const Args& a, Expr product) {
  Expr input = b.expr(a["input"]);
  THUNDER_CHECK_DTYPE(input.dtype() == product.dtype(), op, "self and mat2 must have the same dtype, but got ",
                      scalar_type_name(input.dtype()), " and ", scalar_type_name(product.dtype()));
  check_expandable(op, input.shape(), product.shape());
  Arg alpha = factor_of(input.dtype(), a["alpha"]), beta = factor_of(input.dtype(), a["beta"]);
  if (!is_number(alpha, 1)) product = b("torch.mul", product, alpha);
  if (is_number(beta, 0)) {
    if (!input.tensor().requires_grad) return product.arg();
    Arg everywhere = full(b, {}, true, DType::boolean, input.tensor().device);
    return b("torch.add", b("torch.masked_fill", input, everywhere, 0), product)
        .arg();  // the gradient is zero, not missing
  }
  if (!is_number(beta, 1)) input = b("torch.mul", input, beta);
  return b("torch.add", input, product).arg();
}

Arg addmm_body(Builder& b, const Args& a) {
  THUNDER_CHECK(a.tensor("mat1").rank() == 2, Runtime, "addmm", "mat1 must be a matrix, got ", a.tensor("mat1").rank(),
                "-D tensor");
  THUNDER_CHECK(a.tensor("mat2").rank() == 2, Runtime, "addmm", "mat2 must be a matrix, got ", a.tensor("mat2").rank(),
                "-D tensor");
  check_product_dtype("addmm", a.tensor("mat1"), a.tensor("mat2"));
  check_inner("addmm", a.tensor("mat1").shape[0], a.tensor("mat1").shape[1], a.tensor("mat2").shape);
  return added_product(b, "addmm", a, b("torch.mm", a["mat1"], a["mat2"]));
}

Arg baddbmm_body(Builder& b, const Args& a) {
  return added_product(b, "baddbmm", a, b("torch.bmm", a["batch1"], a["batch2"]));
}

Arg addbmm_body(Builder& b, const Args& a) {
  Expr r = b("torch.bmm", a["batch1"], a["batch2"]);
  return added_product(b, "addbmm", a, b("torch.sum", r, Arg(std::vector<int64_t>{0})));
}

Arg addmv_body(Builder& b, const Args& a) { return added_product(b, "addmv", a, b("torch.mv", a["mat"], a["vec"])); }

Arg addr_body(Builder& b, const Args& a) {
  for (const char* name : {"beta", "alpha"})
    THUNDER_CHECK(is_inexact(a.tensor("input").dtype) || a[name].kind() != Arg::Kind::Float, Runtime, "addr",
                  "For integral input tensors, argument ", name, " must not be a floating point number.");
  return added_product(b, "addr", a, b("torch.outer", a["vec1"], a["vec2"]));
}

// ---- linear ---------------------------------------------------------------------------------------------------------

Arg linear_body(Builder& b, const Args& a) {
  const TensorType &x = a.tensor("input"), &w = a.tensor("weight");
  THUNDER_CHECK(x.rank() >= 1 && w.rank() >= 1, Runtime, "linear",
                "both arguments to linear need to be at least 1D, but they are ", x.rank(), "D and ", w.rank(), "D");
  THUNDER_CHECK(w.rank() <= 2, Runtime, "linear", "t() expects a tensor with <= 2 dimensions, but self is ", w.rank(),
                "D");
  check_product_dtype("linear", x, w);
  const Arg& bias = a["bias"];
  if (w.rank() == 1) {
    THUNDER_CHECK(bias.is_none(), Runtime, "linear", "mat2 must be a matrix, got 1-D tensor");
    return b("torch.matmul", a["input"], a["weight"]).arg();
  }
  bool usual = bias.is_none() || (bias.value().rank() == 1 && bias.value().shape()[0] == w.shape[0]);
  Expr y = b("prims.linear", a["input"], a["weight"], usual ? bias : Arg());
  if (usual) return y.arg();
  const TensorType& t = bias.value().tensor();
  THUNDER_CHECK_DTYPE(t.dtype == x.dtype, "linear", "self and mat2 must have the same dtype, but got ",
                      scalar_type_name(t.dtype), " and ", scalar_type_name(x.dtype));
  Dims rows(x.shape.begin(), x.shape.end() - 1);
  check_expandable("linear", t.shape, {product(rows), w.shape[0]});
  return b("prims.add", y, expand_to(b, bias, y.shape())).arg();
}

Arg kron_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), y = b.expr(a["other"]);
  int64_t n = std::max(x.rank(), y.rank());
  Dims sx, sy, out;
  for (int64_t i = 0; i < n; ++i) {
    Dim dx = i < n - x.rank() ? Dim(1) : x.shape()[i - (n - x.rank())],
        dy = i < n - y.rank() ? Dim(1) : y.shape()[i - (n - y.rank())];
    sx.insert(sx.end(), {dx, 1});
    sy.insert(sy.end(), {1, dy});
    out.push_back(dx * dy);
  }
  return torch_reshape(torch_reshape(x, sx) * torch_reshape(y, sy), out).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "matmul(Tensor input, Tensor other) -> Tensor",
     .doc = "Matrix product, with PyTorch's rules for vectors and for broadcasting batches.",
     .tags = kMatmul, .body = matmul_body, .vjp = matmul_vjp, .aten = "matmul",
     .python = "torch.matmul torch.linalg.matmul torch.Tensor.matmul torch.Tensor.__matmul__ torch.Tensor.__rmatmul__ "
               "operator.matmul"},
    {.schema = "mm(Tensor input, Tensor mat2) -> Tensor", .doc = "Product of two matrices.",
     .tags = kMatmul, .body = mm_body, .aten = "mm", .python = "torch.mm torch.Tensor.mm"},
    {.schema = "bmm(Tensor input, Tensor mat2) -> Tensor", .doc = "Products of two batches of matrices.",
     .tags = kMatmul, .body = bmm_body, .aten = "bmm", .python = "torch.bmm torch.Tensor.bmm"},
    {.schema = "mv(Tensor input, Tensor vec) -> Tensor", .doc = "Product of a matrix and a vector.",
     .tags = kMatmul, .body = mv_body, .aten = "mv", .python = "torch.mv torch.Tensor.mv"},
    {.schema = "dot(Tensor input, Tensor tensor) -> Tensor", .doc = "Dot product of two vectors.",
     .tags = kMatmul, .body = dot_body, .aten = "dot", .python = "torch.dot torch.Tensor.dot"},
    {.schema = "vdot(Tensor input, Tensor other) -> Tensor", .doc = "Dot product of two vectors, the first conjugated.",
     .tags = kMatmul, .body = vdot_body, .aten = "vdot", .python = "torch.vdot torch.Tensor.vdot"},
    {.schema = "outer(Tensor input, Tensor vec2) -> Tensor", .doc = "Outer product of two vectors.",
     .body = outer_body, .aten = "outer", .python = "torch.outer torch.Tensor.outer torch.ger torch.Tensor.ger"},
    {.schema = "addmm(Tensor input, Tensor mat1, Tensor mat2, *, Number beta=1, Number alpha=1) -> Tensor",
     .doc = "beta * input + alpha * (mat1 @ mat2).", .tags = kMatmul, .body = addmm_body, .aten = "addmm",
     .python = "torch.addmm torch.Tensor.addmm"},
    {.schema = "baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) -> Tensor",
     .doc = "beta * input + alpha * (batch1 @ batch2).", .tags = kMatmul, .body = baddbmm_body, .aten = "baddbmm",
     .python = "torch.baddbmm torch.Tensor.baddbmm"},
    {.schema = "addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Number beta=1, Number alpha=1) -> Tensor",
     .doc = "beta * input + alpha * the sum of batch1 @ batch2 over the batch.", .tags = kMatmul, .body = addbmm_body,
     .aten = "addbmm", .python = "torch.addbmm torch.Tensor.addbmm"},
    {.schema = "addmv(Tensor input, Tensor mat, Tensor vec, *, Number beta=1, Number alpha=1) -> Tensor",
     .doc = "beta * input + alpha * (mat @ vec).", .tags = kMatmul, .body = addmv_body, .aten = "addmv",
     .python = "torch.addmv torch.Tensor.addmv"},
    {.schema = "addr(Tensor input, Tensor vec1, Tensor vec2, *, Number beta=1, Number alpha=1) -> Tensor",
     .doc = "beta * input + alpha * the outer product of two vectors.", .body = addr_body, .aten = "addr",
     .python = "torch.addr torch.Tensor.addr"},
    {.schema = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", .doc = "input @ weight^T + bias.",
     .tags = kMatmul, .body = linear_body, .aten = "linear",
     .python = "torch.nn.functional.linear torch._C._nn.linear"},
    {.schema = "kron(Tensor input, Tensor other) -> Tensor", .doc = "Kronecker product.", .body = kron_body,
     .aten = "kron", .python = "torch.kron torch.Tensor.kron"},
};
// clang-format on

}  // namespace

Records matmul() { return kRecords; }

}  // namespace thunder::ops::torch
