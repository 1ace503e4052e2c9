// torch.*: random tensors.  They draw from torch's generators, in program order, so the numbers are eager's.
#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"

namespace thunder::ops::torch {
namespace {

DType dtype_or(const Args& a, DType fallback) { return a.has("dtype") ? a.dtype("dtype") : fallback; }
Device device_or(const Args& a, Device fallback) { return a.has("device") ? a.device("device") : fallback; }

template <auto& Prim>
Arg factory_body(Builder& b, const Args& a) {
  return b(Prim, a["size"], kw("dtype", dtype_or(a, default_dtype())), kw("device", device_or(a, {})));
}

template <auto& Prim>
Arg like_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  Arg out = b(Prim, x.shape, kw("dtype", dtype_or(a, x.dtype)), kw("device", device_or(a, x.device)));
  Dims strides = strides_in(x, a["memory_format"]);
  return same(strides, out.value().tensor().strides) ? out : b("prims.restride", out, strides);
}

constexpr char kUniform[] = "prims.uniform";
constexpr char kNormal[] = "prims.normal";

Arg integers(Builder& b, const Args& a, const Arg& low) {
  return b("prims.randint", a["size"], low, a["high"], kw("dtype", dtype_or(a, DType::i64)), kw("device", device_or(a, {})));
}

Arg randint_body(Builder& b, const Args& a) { return integers(b, a, 0); }
Arg randint_low_body(Builder& b, const Args& a) { return integers(b, a, a["low"]); }

Arg randperm_body(Builder& b, const Args& a) {
  return b("prims.randperm", a["n"], kw("dtype", dtype_or(a, DType::i64)), kw("device", device_or(a, {})));
}

Arg bernoulli_body(Builder& b, const Args& a) { return b("prims.bernoulli", a["input"]); }

Arg multinomial_body(Builder& b, const Args& a) {
  return b("prims.multinomial", a["input"], a["num_samples"], a["replacement"]);
}

constexpr uint64_t kTags = kRandom | kNoGrad;

// clang-format off
#define THUNDER_FACTORY_OPTIONS "*, dtype? dtype=None, device? device=None, layout? layout=None"
#define THUNDER_LIKE_OPTIONS THUNDER_FACTORY_OPTIONS ", memory_format? memory_format=None"
constexpr OpDef kRecords[] = {
    {.schema = "rand(int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "Numbers drawn uniformly from [0, 1).",
     .tags = kTags, .body = factory_body<kUniform>, .python = "torch.rand"},
    {.schema = "randn(int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Numbers drawn from the standard normal distribution.", .tags = kTags, .body = factory_body<kNormal>, .python = "torch.randn"},
    {.schema = "rand_like(Tensor input, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Numbers drawn uniformly from [0, 1), in the input's shape.", .tags = kTags, .body = like_body<kUniform>,
     .aten = "rand_like(input, dtype=dtype, device=device, memory_format=memory_format)", .python = "torch.rand_like"},
    {.schema = "randn_like(Tensor input, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Numbers drawn from the standard normal distribution, in the input's shape.", .tags = kTags,
     .body = like_body<kNormal>, .aten = "randn_like(input, dtype=dtype, device=device, memory_format=memory_format)",
     .python = "torch.randn_like"},
    {.schema = "randint(int high, int[] size, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "Integers drawn from 0, ..., high - 1.",
     .tags = kTags, .body = randint_body, .python = "torch.randint"},
    {.schema = "randint.low(int low, int high, int[] size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Integers drawn from low, ..., high - 1.", .tags = kTags, .body = randint_low_body, .python = "torch.randint"},
    {.schema = "randperm(int n, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "0, ..., n - 1 in random order.", .tags = kTags,
     .body = randperm_body, .python = "torch.randperm"},
    {.schema = "bernoulli(Tensor input) -> Tensor", .doc = "1 with the probability that each element gives, else 0.",
     .tags = kTags, .body = bernoulli_body, .aten = "bernoulli", .python = "torch.bernoulli torch.Tensor.bernoulli"},
    {.schema = "multinomial(Tensor input, int num_samples, bool replacement=False) -> Tensor",
     .doc = "Indices drawn with the weights in each row.", .tags = kTags, .body = multinomial_body, .aten = "multinomial",
     .python = "torch.multinomial torch.Tensor.multinomial"},
};
// clang-format on

}  // namespace

Records random() { return kRecords; }

}  // namespace thunder::ops::torch
