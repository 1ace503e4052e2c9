// torch.*: complex tensors from real ones, and their angles.
#include <numbers>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

// Two real operands of one dtype, broadcast.
ArgList parts(Builder& b, const Args& a, const char* first, const char* second) {
  const std::string& op = a.op().schema.name;
  DType t = a.tensor(first).dtype, u = a.tensor(second).dtype;
  for (DType d : {t, u})
    THUNDER_CHECK(d == DType::f32 || d == DType::f64 || d == DType::f16, Runtime, op,
                  "Expected both inputs to be Half, Float or Double tensors but got ", scalar_type_name(t), " and ",
                  scalar_type_name(u));
  THUNDER_CHECK(t == u, Runtime, op, "Expected object of scalar type ", scalar_type_name(t), " but got scalar type ",
                scalar_type_name(u), " for second argument");
  return broadcast_operands(b, op, {a[first], a[second]}, t);
}

// Pairs in memory, seen as complex numbers, in the layout of a pointwise result.
Arg from_pairs(Builder& b, const Arg& real, const Arg& imag) {
  Expr pairs = b("torch.stack", Arg::list({real, imag}), -1);
  Expr z = b("torch.view_as_complex", with_strides(pairs, contiguous_strides(pairs.shape())));
  return with_strides(z,
                      elementwise_strides(z.shape(), {&real.value().tensor().strides, &imag.value().tensor().strides}))
      .arg();
}

Arg complex_body(Builder& b, const Args& a) {
  ArgList x = parts(b, a, "real", "imag");
  return from_pairs(b, x[0], x[1]);
}

void complex_vjp(VjpContext& c) {
  if (c.needs("real")) c.put("real", sum_to(c.b("torch.real", c.grad()), c.in("real").shape()));
  if (c.needs("imag")) c.put("imag", sum_to(c.b("torch.imag", c.grad()), c.in("imag").shape()));
}

Arg polar_body(Builder& b, const Args& a) {
  ArgList x = parts(b, a, "abs", "angle");
  Expr length = b.expr(x[0]), angle = b.expr(x[1]);
  return from_pairs(b, length * b("torch.cos", angle), length * b("torch.sin", angle));
}

// As autograd: along the direction of the result, which has none at 0, and across it.
void polar_vjp(VjpContext& c) {
  Expr g = conj(c.grad());
  auto put = [&](const char* of, const Expr& direction) {
    if (c.needs(of)) c.put(of, sum_to(c.b("torch.real", g * direction), c.in(of).shape()));
  };
  put("abs", c.b("torch.sgn", c.out()));
  put("angle", c.b("torch.mul", c.out(), std::complex<double>(0, 1)));
}

Arg angle_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  if (is_complex(x.dtype())) {
    Expr angle = b("torch.atan2", b("torch.imag", x), b("torch.real", x));
    return with_strides(angle, elementwise_strides(x.shape(), {&x.tensor().strides})).arg();
  }
  if (!is_inexact(x.dtype())) x = b("torch.to", x, default_dtype());
  Expr angle = b("torch.where", b("torch.lt", x, 0), std::numbers::pi, b("torch.zeros_like", x));
  // Not a number passes through, its gradient is zero.
  return b("torch.where", b("torch.isnan", x), x * 0.0, angle);
}

constexpr uint64_t kTags = kPointwise;

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "complex(Tensor real, Tensor imag) -> Tensor", .doc = "real + i imag.", .tags = kTags,
     .body = complex_body, .vjp = complex_vjp, .aten = "complex", .python = "torch.complex"},
    {.schema = "polar(Tensor abs, Tensor angle) -> Tensor", .doc = "The complex number of that modulus and angle.",
     .tags = kTags, .body = polar_body, .vjp = polar_vjp, .aten = "polar",
     .python = "torch.polar", .domain = {0.01, 1e9}},
    {.schema = "angle(Tensor input) -> Tensor",
     .doc = "The angle of a complex number in radians; of a real one 0, or pi where it is negative.", .tags = kTags,
     .body = angle_body, .aten = "angle", .python = "torch.angle torch.Tensor.angle"},
};
// clang-format on

}  // namespace

Records complex() { return kRecords; }

}  // namespace thunder::ops::torch
