// numpy.*: products.
#include "ops/common.h"
#include "ops/numpy/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::numpy {
namespace {

// The operands in their result type, then the product by `op`.  Booleans multiply as integers: whether any product is
// true.
template <class Product>
Arg in_result_type(Builder& b, const ArgList& given, Product product) {
  DType t = result_type(given);
  ArgList x;
  for (const Arg& a : given) x.push_back(convert(b, a, is_bool(t) ? DType::i32 : t));
  Arg y = product(x);
  return is_bool(t) ? b("prims.ne", y, 0) : y;
}

template <Prim op>
Arg product_body(Builder& b, const Args& a) {
  return in_result_type(b, {a.list()[0], a.list()[1]}, [&](ArgList x) {
    ArgList all = a.list();
    std::copy(x.begin(), x.end(), all.begin());
    return b.call_named(op.text, all, {});
  });
}

Arg matmul_body(Builder& b, const Args& a) {
  for (const char* name : {"x1", "x2"})
    THUNDER_CHECK(a.tensor(name).rank() > 0, Value, "matmul", "input operand ", name,
                  " does not have enough dimensions");
  return product_body<"torch.matmul">(b, a);
}

Arg dot_body(Builder& b, const Args& a) {
  int64_t m = a.tensor("a").rank(), n = a.tensor("b").rank();
  if (m == 0 || n == 0) return b("numpy.multiply", a["a"], a["b"]);
  if (n <= 2) return product_body<"torch.matmul">(b, a);
  return in_result_type(b, a.list(), [&](const ArgList& x) -> Arg {
    Arg dims = Arg::list({Arg(std::vector<int64_t>{m - 1}), Arg(std::vector<int64_t>{n - 2})});
    return b("torch.tensordot", x[0], x[1], dims);
  });
}

Arg outer_body(Builder& b, const Args& a) {
  Expr x = flat(b.expr(a["a"])), y = flat(b.expr(a["b"]));
  return b("numpy.multiply", unsqueeze_dims(x, {1}), y);
}

Arg vdot_body(Builder& b, const Args& a) {
  Arg x = conj(flat(b.expr(a["a"])));
  return in_result_type(b, {x, flat(b.expr(a["b"]))},
                        [&](const ArgList& v) -> Arg { return b("torch.matmul", v[0], v[1]); });
}

Arg einsum_body(Builder& b, const Args& a) {
  ArgList given;
  for (const Value& v : a.values("operands")) given.push_back(v);
  return in_result_type(b, given,
                        [&](const ArgList& x) -> Arg { return b("torch.einsum", a["subscripts"], Arg::list(x)); });
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "matmul(Tensor x1, Tensor x2) -> Tensor", .doc = "The matrix product, over leading axes broadcast.",
     .tags = kMatmul, .body = matmul_body,
     .python = "numpy.matmul numpy.ndarray.__matmul__ numpy.ndarray.__rmatmul__"},
    {.schema = "dot(Tensor a, Tensor b) -> Tensor",
     .doc = "The sum of products over the last axis of `a` and the last but one of `b`.", .tags = kMatmul,
     .body = dot_body, .python = "numpy.dot numpy.ndarray.dot"},
    {.schema = "inner(Tensor a, Tensor b) -> Tensor", .doc = "The sum of products over the last axes.", .tags = kMatmul,
     .body = product_body<"torch.inner">, .python = "numpy.inner"},
    {.schema = "outer(Tensor a, Tensor b) -> Tensor", .doc = "All products of elements of two flattened arrays.",
     .tags = kMatmul, .body = outer_body, .python = "numpy.outer"},
    {.schema = "vdot(Tensor a, Tensor b) -> Tensor",
     .doc = "The sum of products of two flattened arrays, the first one conjugated.", .tags = kMatmul,
     .body = vdot_body, .python = "numpy.vdot"},
    {.schema = "tensordot(Tensor a, Tensor b, any axes=2) -> Tensor", .doc = "The sum of products over pairs of axes.",
     .tags = kMatmul, .body = product_body<"torch.tensordot">, .python = "numpy.tensordot"},
    {.schema = "kron(Tensor a, Tensor b) -> Tensor", .doc = "Kronecker's product.", .tags = kMatmul,
     .body = product_body<"torch.kron">, .python = "numpy.kron"},
    {.schema = "einsum(str subscripts, Tensor[] ...operands) -> Tensor", .doc = "Einstein's sum of products.",
     .tags = kMatmul, .body = einsum_body, .python = "numpy.einsum"},
};
// clang-format on

}  // namespace

Records linalg() { return kRecords; }

}  // namespace thunder::ops::numpy
