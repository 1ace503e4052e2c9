// torch.*: random tensors.  They draw from torch's generators, in program order, so the numbers are eager's.
#include <cmath>
#include <limits>
#include <numbers>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/torch/factory.h"

namespace thunder::ops::torch {
namespace {

DType dtype_or(const Args& a, DType fallback) { return a.has("dtype") ? a.dtype("dtype") : fallback; }
Device device_or(const Args& a, Device fallback) { return a.has("device") ? a.device("device") : fallback; }

template <auto& Prim>
Arg factory_body(Builder& b, const Args& a) {
  check_no_grad(a);
  return b(Prim, a["size"], kw("dtype", dtype_or(a, default_dtype())), kw("device", device_or(a, {})));
}

template <auto& Prim>
Arg like_body(Builder& b, const Args& a) {
  check_no_grad(a);
  const TensorType& x = a.tensor("input");
  Arg out = b(Prim, x.shape, kw("dtype", dtype_or(a, x.dtype)), kw("device", device_or(a, x.device)));
  return with_strides(b.expr(out), strides_in(x, a["memory_format"])).arg();
}

constexpr char kUniform[] = "prims.uniform";
constexpr char kNormal[] = "prims.normal";

Arg integers(Builder& b, const Args& a, const Arg& low) {
  check_no_grad(a);
  return b("prims.randint", a["size"], low, a["high"], kw("dtype", dtype_or(a, DType::i64)),
           kw("device", device_or(a, {})));
}

Arg randint_body(Builder& b, const Args& a) { return integers(b, a, 0); }
Arg randint_low_body(Builder& b, const Args& a) { return integers(b, a, a["low"]); }

Arg integers_like(Builder& b, const Args& a, const Arg& low) {
  check_no_grad(a);
  const TensorType& x = a.tensor("input");
  Expr out = b("prims.randint", x.shape, low, a["high"], kw("dtype", dtype_or(a, x.dtype)),
               kw("device", device_or(a, x.device)));
  return with_strides(out, strides_in(x, a["memory_format"])).arg();
}

Arg randint_like_body(Builder& b, const Args& a) { return integers_like(b, a, 0); }
Arg randint_like_low_body(Builder& b, const Args& a) { return integers_like(b, a, a["low"]); }

Arg randperm_body(Builder& b, const Args& a) {
  return b("prims.randperm", a["n"], kw("dtype", dtype_or(a, DType::i64)), kw("device", device_or(a, {})));
}

Arg bernoulli_body(Builder& b, const Args& a) { return b("prims.bernoulli", a["input"]); }

Arg multinomial_body(Builder& b, const Args& a) {
  return b("prims.multinomial", a["input"], a["num_samples"], a["replacement"]);
}

// ---- with a mean and a deviation each -------------------------------------------------------------------------------

Arg normal_body(Builder& b, const Args& a) {
  ArgList given = {a["mean"], a["std"]};
  const TensorType& like = (a["mean"].is_tensor() ? a["mean"] : a["std"]).value().tensor();
  THUNDER_CHECK(is_floating(like.dtype), NotImplemented, "normal", "\"normal\" not implemented for '",
                scalar_type_name(like.dtype), "'");
  THUNDER_CHECK(!a["std"].is_real_literal() || a.real("std") >= 0, Runtime, "normal",
                "normal expects std >= 0.0, but found std ", a.real("std"));
  Expr drawn =
      b("prims.normal", broadcast_shape_of("normal", given), kw("dtype", like.dtype), kw("device", like.device));
  Expr y = b("torch.add", b("torch.mul", drawn, a["std"]), a["mean"]);
  return with_strides(to_dtype(y, like.dtype), contiguous_strides(y.shape())).arg();
}

// As eager has it: the numbers drawn do not move with the mean or the deviation.
void normal_vjp(VjpContext& c) {
  for (const char* name : {"mean", "std"})
    if (c.needs(name)) c.put(name, c.b("torch.zeros_like", c.in(name)));
}

Arg normal_of_size_body(Builder& b, const Args& a) {
  check_no_grad(a);
  THUNDER_CHECK(a.real("std") >= 0, Runtime, "normal", "normal expects std >= 0.0, but found std ", a.real("std"));
  Expr drawn = b("prims.normal", a["size"], kw("dtype", dtype_or(a, default_dtype())), kw("device", device_or(a, {})));
  return b("torch.add", b("torch.mul", drawn, a["std"]), a["mean"]);
}

// ---- what the in-place methods fill a tensor with -------------------------------------------------------------------

// Values of a tensor's shape, in its dtype and layout.
Arg in_place_of(const Expr& values, const TensorType& t) {
  return with_strides(to_dtype(values, t.dtype), preserve_format_strides(t)).arg();
}

Expr uniform_like(Builder& b, const TensorType& t) {
  THUNDER_CHECK(is_floating(t.dtype), NotImplemented, "random", "not implemented for '", scalar_type_name(t.dtype),
                "'");
  return b("prims.uniform", t.shape, kw("dtype", t.dtype), kw("device", t.device));
}

Arg uniform_fill_body(Builder& b, const Args& a) {
  double from = a.real("from"), to = a.real("to");
  THUNDER_CHECK(from <= to, Runtime, "uniform_", "uniform_ expects to return a [from, to) range, but found from=", from,
                " > to=", to);
  const TensorType& t = a.tensor("input");
  if (!is_complex(t.dtype)) return in_place_of(uniform_like(b, t) * (to - from) + from, t);
  TensorType parts = t;  // real and imaginary ones, in turn
  parts.dtype = t.dtype == DType::c128 ? DType::f64 : DType::f32;
  parts.shape.push_back(Dim(2));
  Expr drawn = uniform_like(b, parts) * (to - from) + from;
  return in_place_of(b("torch.view_as_complex", drawn), t);
}

Expr normal_like(Builder& b, const Args& a, const char* op) {
  const TensorType& t = a.tensor("input");
  THUNDER_CHECK(is_inexact(t.dtype), NotImplemented, op, "not implemented for '", scalar_type_name(t.dtype), "'");
  THUNDER_CHECK(a.real("std") >= 0, Runtime, op, "normal expects std >= 0.0, but found std ", a.real("std"));
  return b("prims.normal", t.shape, kw("dtype", t.dtype), kw("device", t.device)) * a.real("std") + a.real("mean");
}

Arg normal_fill_body(Builder& b, const Args& a) { return in_place_of(normal_like(b, a, "normal_"), a.tensor("input")); }

Arg log_normal_fill_body(Builder& b, const Args& a) {
  return in_place_of(b("torch.exp", normal_like(b, a, "log_normal_")), a.tensor("input"));
}

Arg exponential_fill_body(Builder& b, const Args& a) {
  double rate = a.real("lambd");
  THUNDER_CHECK(rate > 0, Runtime, "exponential_", "exponential_ expects lambda > 0.0, but found lambda=", rate);
  return in_place_of(b("torch.log1p", -uniform_like(b, a.tensor("input"))) / -rate, a.tensor("input"));
}

Arg cauchy_fill_body(Builder& b, const Args& a) {
  double sigma = a.real("sigma");
  THUNDER_CHECK(sigma > 0, Runtime, "cauchy_", "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  Expr angle = (uniform_like(b, a.tensor("input")) - 0.5) * std::numbers::pi;
  return in_place_of(b("torch.tan", angle) * sigma + a.real("median"), a.tensor("input"));
}

Arg geometric_fill_body(Builder& b, const Args& a) {
  double p = a.real("p");
  THUNDER_CHECK(p > 0 && p < 1, Runtime, "geometric_", "geometric_ expects p to be in (0, 1), but got p=", p);
  TensorType t = a.tensor("input");
  DType own = t.dtype;
  if (!is_floating(own)) t.dtype = default_dtype();
  Expr trials = b("torch.ceil", b("torch.log1p", -uniform_like(b, t)) / std::log1p(-p));
  t.dtype = own;
  return in_place_of(b("torch.clamp_min", trials, 1), t);
}

Arg bernoulli_fill_body(Builder& b, const Args& a) {
  const TensorType& t = a.tensor("input");
  const Arg& p = a["p"];
  DType draw = is_floating(t.dtype) ? t.dtype : default_dtype();
  if (p.is_tensor()) return in_place_of(b("prims.bernoulli", b("torch.expand", to_dtype(b.expr(p), draw), t.shape)), t);
  return b("prims.bernoulli_like", a["input"], p);
}

Arg bernoulli_p_body(Builder& b, const Args& a) {
  const TensorType& t = a.tensor("input");
  THUNDER_CHECK(a.real("p") >= 0 && a.real("p") <= 1, Runtime, "bernoulli",
                "bernoulli_ expects p to be in [0, 1], but got p=", a.real("p"));
  DType draw = is_floating(t.dtype) ? t.dtype : default_dtype();
  return to_dtype(b("prims.bernoulli", full(b, t.shape, a["p"], draw, t.device)), t.dtype).arg();
}

// One above the largest integer that random_() draws for a dtype: all that it represents exactly.
int64_t end_of_integers(DType t) {
  switch (t) {
    case DType::boolean: return 2;
    case DType::u8: return int64_t{1} << 8;
    case DType::i8: return int64_t{1} << 7;
    case DType::i16: return int64_t{1} << 15;
    case DType::i32: return int64_t{1} << 31;
    case DType::f16: return (int64_t{1} << 11) + 1;
    case DType::bf16: return (int64_t{1} << 8) + 1;
    case DType::f32: return (int64_t{1} << 24) + 1;
    case DType::f64: return (int64_t{1} << 53) + 1;
    default: return std::numeric_limits<int64_t>::max();
  }
}

Arg random_fill_body(Builder& b, const Args& a) {
  const TensorType& t = a.tensor("input");
  bool bounded = a.op().schema.index_of("from") >= 0;
  Arg from = bounded ? a["from"] : Arg(0);
  Arg to = a.op().schema.index_of("to") >= 0 && a.has("to") ? a["to"] : Arg(end_of_integers(t.dtype));
  return in_place_of(b("prims.randint", t.shape, from, to, kw("dtype", t.dtype), kw("device", t.device)), t);
}

constexpr uint64_t kTags = kRandom | kNoGrad;

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "rand(int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Numbers drawn uniformly from [0, 1).", .tags = kTags, .body = factory_body<kUniform>,
     .python = "torch.rand"},
    {.schema = "randn(int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Numbers drawn from the standard normal distribution.", .tags = kTags, .body = factory_body<kNormal>,
     .python = "torch.randn"},
    {.schema = "rand_like(Tensor input, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Numbers drawn uniformly from [0, 1), in the input's shape.", .tags = kTags, .body = like_body<kUniform>,
     .aten = "rand_like(input, dtype=dtype, device=device, memory_format=memory_format)", .python = "torch.rand_like"},
    {.schema = "randn_like(Tensor input, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Numbers drawn from the standard normal distribution, in the input's shape.", .tags = kTags,
     .body = like_body<kNormal>, .aten = "randn_like(input, dtype=dtype, device=device, memory_format=memory_format)",
     .python = "torch.randn_like"},
    {.schema = "randint(int high, int[:] size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Integers drawn from 0, ..., high - 1.", .tags = kTags, .body = randint_body, .python = "torch.randint"},
    {.schema = "randint.low(int low, int high, int[:] size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Integers drawn from low, ..., high - 1.", .tags = kTags, .body = randint_low_body,
     .python = "torch.randint"},
    {.schema = "randint_like(Tensor input, int high, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Integers drawn from 0, ..., high - 1, in the input's shape.", .tags = kTags, .body = randint_like_body,
     .aten = "randint_like(input, high, dtype=dtype, device=device, memory_format=memory_format)",
     .python = "torch.randint_like"},
    {.schema = "randint_like.low(Tensor input, int low, int high, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Integers drawn from low, ..., high - 1, in the input's shape.", .tags = kTags,
     .body = randint_like_low_body,
     .aten = "randint_like.low_dtype(input, low, high, dtype=dtype, device=device, memory_format=memory_format)",
     .python = "torch.randint_like"},
    {.schema = "randperm(int n, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "0, ..., n - 1 in random order.",
     .tags = kTags, .body = randperm_body, .python = "torch.randperm"},
    {.schema = "bernoulli(Tensor input) -> Tensor", .doc = "1 with the probability that each element gives, else 0.",
     .tags = kTags, .body = bernoulli_body, .aten = "bernoulli", .python = "torch.bernoulli torch.Tensor.bernoulli"},
    {.schema = "bernoulli.p(Tensor input, float p) -> Tensor",
     .doc = "1 with probability p, else 0, in the input's shape.", .tags = kTags, .body = bernoulli_p_body,
     .aten = "bernoulli.p", .python = "torch.bernoulli torch.Tensor.bernoulli"},
    {.schema = "normal.Tensor_Tensor(Tensor mean, Tensor std) -> Tensor",
     .doc = "Normally distributed numbers, each with its mean and standard deviation.", .tags = kRandom | kWaits,
     .body = normal_body, .vjp = normal_vjp, .aten = "normal.Tensor_Tensor", .python = "torch.normal"},
    {.schema = "normal.Tensor_float(Tensor mean, float std=1.0) -> Tensor",
     .doc = "Normally distributed numbers, each with its mean.", .tags = kRandom | kWaits, .body = normal_body,
     .vjp = normal_vjp, .aten = "normal.Tensor_float", .python = "torch.normal"},
    {.schema = "normal.float_Tensor(float mean, Tensor std) -> Tensor",
     .doc = "Normally distributed numbers, each with its standard deviation.", .tags = kRandom | kWaits, .body = normal_body,
     .vjp = normal_vjp, .aten = "normal.float_Tensor", .python = "torch.normal"},
    {.schema = "normal.float_float(float mean, float std, int[:] size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Normally distributed numbers of one mean and standard deviation.", .tags = kTags,
     .body = normal_of_size_body, .aten = "normal.float_float(mean, std, size, dtype=dtype, device=device)",
     .python = "torch.normal"},
    {.schema = "uniform(Tensor input, float from=0.0, float to=1.0) -> Tensor",
     .doc = "Numbers drawn uniformly from [from, to), in the input's shape, dtype and layout.", .tags = kTags,
     .body = uniform_fill_body, .aten = "uniform", .python = "torch.ops.aten.uniform torch.Tensor.uniform_"},
    {.schema = "normal_functional(Tensor input, float mean=0.0, float std=1.0) -> Tensor",
     .doc = "Normally distributed numbers, in the input's shape, dtype and layout.", .tags = kTags,
     .body = normal_fill_body, .aten = "normal_functional",
     .python = "torch.ops.aten.normal_functional torch.Tensor.normal_"},
    {.schema = "log_normal(Tensor input, float mean=1.0, float std=2.0) -> Tensor",
     .doc = "exp of normally distributed numbers, in the input's shape, dtype and layout.", .tags = kTags,
     .body = log_normal_fill_body, .aten = "log_normal",
     .python = "torch.ops.aten.log_normal torch.Tensor.log_normal_"},
    {.schema = "exponential(Tensor input, float lambd=1.0) -> Tensor",
     .doc = "Exponentially distributed numbers of rate lambd, in the input's shape, dtype and layout.", .tags = kTags,
     .body = exponential_fill_body, .aten = "exponential",
     .python = "torch.ops.aten.exponential torch.Tensor.exponential_"},
    {.schema = "cauchy(Tensor input, float median=0.0, float sigma=1.0) -> Tensor",
     .doc = "Numbers from Cauchy's distribution, in the input's shape, dtype and layout.", .tags = kTags,
     .body = cauchy_fill_body, .aten = "cauchy", .python = "torch.ops.aten.cauchy torch.Tensor.cauchy_"},
    {.schema = "geometric(Tensor input, float p) -> Tensor",
     .doc = "How many trials of probability p the first success takes, in the input's shape, dtype and layout.",
     .tags = kTags, .body = geometric_fill_body, .aten = "geometric",
     .python = "torch.ops.aten.geometric torch.Tensor.geometric_"},
    {.schema = "bernoulli_fill(Tensor input, float p=0.5) -> Tensor",
     .doc = "1 with probability p, else 0, in the input's shape, dtype and layout.", .tags = kTags,
     .body = bernoulli_fill_body, .python = "torch.Tensor.bernoulli_"},
    {.schema = "bernoulli_fill.Tensor(Tensor input, Tensor p) -> Tensor",
     .doc = "1 with the probability that each element of p gives, else 0, in the input's shape, dtype and layout.",
     .tags = kTags, .body = bernoulli_fill_body, .aten = "bernoulli.Tensor",
     .python = "torch.ops.aten.bernoulli.Tensor torch.Tensor.bernoulli_"},
    {.schema = "random(Tensor input) -> Tensor",
     .doc = "Integers drawn uniformly from all that the dtype represents, from 0 up, in the input's shape, dtype and "
            "layout.",
     .tags = kTags, .body = random_fill_body, .aten = "random", .python = "torch.ops.aten.random torch.Tensor.random_"},
    {.schema = "random.to(Tensor input, int to) -> Tensor", .doc = "Integers drawn from 0, ..., to - 1, likewise.",
     .tags = kTags, .body = random_fill_body, .aten = "random.to",
     .python = "torch.ops.aten.random.to torch.Tensor.random_"},
    {.schema = "random.from(Tensor input, int from, int? to) -> Tensor",
     .doc = "Integers drawn from from, ..., to - 1, likewise.", .tags = kTags, .body = random_fill_body,
     .aten = "random.from", .python = "torch.ops.aten.random.from torch.Tensor.random_"},
    {.schema = "multinomial(Tensor input, int num_samples, bool replacement=False) -> Tensor",
     .doc = "Indices drawn with the weights in each row.", .tags = kTags | kWaits, .body = multinomial_body,
     .aten = "multinomial", .python = "torch.multinomial torch.Tensor.multinomial"},
};
// clang-format on

}  // namespace

Records random() { return kRecords; }

}  // namespace thunder::ops::torch
