// Primitives that draw random numbers.  Those that draw from a generator run by ATen, so that the numbers are those that
// eager draws.  Those whose names end in `_at` are functions of a state and of an element's place, so that they may be
// computed anywhere, and again: blocks of Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
// SC 2011), of which fuser/prelude_random.cpp says how they become numbers.
#include <cstdint>

#include "core/dtype_error.h"
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

void bernoulli_vjp(VjpContext& c) { c.put("p", c.b("torch.zeros_like", c.grad())); }

Types multinomial_meta(const Args& a) {
  const TensorType& p = a.tensor("a");
  Dim n = as_dim(a["num_samples"]);
  THUNDER_CHECK(p.rank() == 1 || p.rank() == 2, Runtime, "multinomial", "prob_dist must be 1 or 2 dim");
  THUNDER_CHECK_DTYPE(is_floating(p.dtype), "multinomial",
                      "multinomial only supports floating-point dtypes for input, got: ", torch_name(p.dtype));
  THUNDER_CHECK(n > 0, Runtime, "multinomial", "cannot sample n_sample <= 0 samples");
  THUNDER_CHECK(a.flag("replacement") || n <= p.shape.back(), Runtime, "multinomial",
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  Dims shape = p.shape;
  shape.back() = n;
  return {contiguous_type(DType::i64, p.device, shape)};
}

// ---- counted --------------------------------------------------------------------------------------------------------

constexpr int64_t kStateWords = 2;  // seed and offset

Types rng_states_meta(const Args& a) {
  const int64_t n = a.integer("n");
  THUNDER_CHECK(n >= 1, Runtime, "rng_states", "there must be one state at least, got ", n);
  return Types(static_cast<size_t>(n), contiguous_type(DType::i64, a.device("device"), {kStateWords}));
}

TensorType drawn(const Args& a, DType t) {
  const TensorType& state = a.tensor("state");
  THUNDER_CHECK(state.dtype == DType::i64 && state.rank() == 1 && state.shape[0] == kStateWords, Runtime,
                a.op().schema.name, "the state is not seed and offset, got ", Type(state).str(), ", expected i64[2]");
  return contiguous_type(t, state.device, a.dims("shape"));
}

Types floating_at_meta(const Args& a) {
  const DType t = a.dtype("dtype");
  THUNDER_CHECK(t == DType::f32 || t == DType::f64 || t == DType::bf16 || t == DType::f16, NotImplemented,
                a.op().schema.name, "not implemented for ", torch_name(t));
  return {drawn(a, t)};
}

Types randint_at_meta(const Args& a) {
  const int64_t low = a.integer("low"), high = a.integer("high");
  THUNDER_CHECK(low < high && static_cast<uint64_t>(high) - static_cast<uint64_t>(low) <= uint64_t{1} << 32, Runtime,
                "randint_at", "the integers from low to below high are none, or more than 2^32, got ", low, " and ",
                high);
  return {drawn(a, DType::i64)};
}

constexpr uint64_t kTags = kRandom | kNoGrad;
constexpr uint64_t kCounted = kCreation | kNoGrad | kCheap;

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
     .tags = kTags | kCreation | kWaits, .meta = randperm_meta, .aten = "randperm(n, dtype=dtype, device=device)"},
    {.schema = "bernoulli(Tensor p) -> Tensor", .doc = "1 with the probability that each element gives, else 0.",
     .tags = kRandom, .meta = bernoulli_meta, .vjp = bernoulli_vjp, .aten = "bernoulli"},
    {.schema = "multinomial(Tensor a, int num_samples, bool replacement) -> Tensor",
     .doc = "Indices drawn with the weights in each row of `a`.", .tags = kTags | kWaits, .meta = multinomial_meta,
     .aten = "multinomial"},
    {.schema = "rng_states(int n, device device) -> Tensor[]",
     .doc = "n states, each a seed and an offset (i64[2]) drawn from the device's generator, for as many draws.",
     .tags = kTags | kCreation, .meta = rng_states_meta},
    {.schema = "uniform_at(Tensor state, int[] shape, *, dtype dtype) -> Tensor",
     .doc = "Numbers of [0, 1) that depend on nothing but the state and their place in the shape.", .tags = kCounted,
     .meta = floating_at_meta, .element = Element::Drawn},
    {.schema = "normal_at(Tensor state, int[] shape, *, dtype dtype) -> Tensor",
     .doc = "Numbers of the normal distribution of mean 0 and variance 1 that depend on nothing but the state and their "
            "place in the shape.",
     .tags = kCounted, .meta = floating_at_meta, .element = Element::Drawn},
    {.schema = "randint_at(Tensor state, int[] shape, int low, int high) -> Tensor",
     .doc = "Integers (i64) from low, ..., high - 1 that depend on nothing but the state and their place in the shape.",
     .tags = kCounted, .meta = randint_at_meta, .element = Element::Drawn},
};
// clang-format on

}  // namespace

Records random() { return kRecords; }

}  // namespace thunder::ops::prims
