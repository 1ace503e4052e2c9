// Primitives that draw random numbers.  They run by ATen, so that the numbers are those that eager draws.
#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

TensorType made(const Args& a, Dims shape) {
  return contiguous_type(a.dtype("dtype"), a.device("device"), std::move(shape));
}

Types floating_meta(const Args& a) {
  THUNDER_CHECK(is_inexact(a.dtype("dtype")), NotImplemented, a.op().schema.name, "not implemented for ",
                torch_name(a.dtype("dtype")));
  return {made(a, a.dims("shape"))};
}

Types randint_meta(const Args& a) {
  const Arg &low = a["low"], &high = a["high"];
  bool known = low.kind() == Arg::Kind::Int && high.kind() == Arg::Kind::Int;
  THUNDER_CHECK(!known || low.dim() < high.dim(), Runtime, "randint",
                "random_ expects 'from' to be less than 'to', but got from=", low.dim(), " >= to=", high.dim());
  return {made(a, a.dims("shape"))};
}

Types randperm_meta(const Args& a) {
  Dim n = as_dim(a["n"]);
  THUNDER_CHECK(!n.is_constant() || n.constant() >= 0, Runtime, "randperm", "n must be non-negative, got", n);
  return {made(a, {n})};
}

Types bernoulli_meta(const Args& a) {
  const TensorType& p = a.tensor("p");
  THUNDER_CHECK(is_floating(p.dtype), NotImplemented, "bernoulli", "not implemented for ", torch_name(p.dtype));
  return {contiguous_type(p.dtype, p.device, p.shape)};
}

Types multinomial_meta(const Args& a) {
  const TensorType& p = a.tensor("a");
  Dim n = as_dim(a["num_samples"]);
  THUNDER_CHECK(p.rank() == 1 || p.rank() == 2, Runtime, "multinomial", "prob_dist must be 1 or 2 dim");
  THUNDER_CHECK(is_floating(p.dtype), Runtime, "multinomial",
                "multinomial only supports floating-point dtypes for input, got: ", torch_name(p.dtype));
  THUNDER_CHECK(n > 0, Runtime, "multinomial", "cannot sample n_sample <= 0 samples");
  THUNDER_CHECK(a.flag("replacement") || n <= p.shape.back(), Runtime, "multinomial",
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  Dims shape = p.shape;
  shape.back() = n;
  return {contiguous_type(DType::i64, p.device, shape)};
}

constexpr uint64_t kTags = kRandom | kNoGrad;

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "uniform(int[] shape, *, dtype dtype, device device) -> Tensor",
     .doc = "Numbers drawn uniformly from [0, 1).", .tags = kTags | kCreation, .meta = floating_meta,
     .aten = "rand(shape, dtype=dtype, device=device)"},
    {.schema = "normal(int[] shape, *, dtype dtype, device device) -> Tensor",
     .doc = "Numbers drawn from the normal distribution of mean 0 and variance 1.", .tags = kTags | kCreation,
     .meta = floating_meta, .aten = "randn(shape, dtype=dtype, device=device)"},
    {.schema = "randint(int[] shape, int low, int high, *, dtype dtype, device device) -> Tensor",
     .doc = "Integers drawn uniformly from low, ..., high - 1.", .tags = kTags | kCreation, .meta = randint_meta,
     .aten = "randint.low(low, high, shape, dtype=dtype, device=device)"},
    {.schema = "randperm(int n, *, dtype dtype, device device) -> Tensor", .doc = "0, ..., n - 1 in random order.",
     .tags = kTags | kCreation, .meta = randperm_meta, .aten = "randperm(n, dtype=dtype, device=device)"},
    {.schema = "bernoulli(Tensor p) -> Tensor", .doc = "1 with the probability that each element gives, else 0.",
     .tags = kTags, .meta = bernoulli_meta, .aten = "bernoulli"},
    {.schema = "multinomial(Tensor a, int num_samples, bool replacement) -> Tensor",
     .doc = "Indices drawn with the weights in each row of `a`.", .tags = kTags, .meta = multinomial_meta,
     .aten = "multinomial"},
};
// clang-format on

}  // namespace

Records random() { return kRecords; }

}  // namespace thunder::ops::prims
