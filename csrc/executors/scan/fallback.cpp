#include "executors/scan/fallback.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumprod_backward.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/log.h>
#include <ATen/ops/logcumsumexp.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include <limits>

#include "core/error.h"

namespace thunder::scan {
namespace {

using fuser::scans::Kind;

at::Tensor gradient_of_logcumsumexp(const at::Tensor& g, const at::Tensor& x, const at::Tensor& out, int64_t dim) {
  const at::Tensor none = at::full_like(g, -std::numeric_limits<double>::infinity());
  const auto part = [&](const at::Tensor& of_one_sign) {
    const at::Tensor logarithm = at::sub(at::where(at::gt(of_one_sign, 0), at::log(of_one_sign), none), out);
    const at::Tensor sums = at::flip(at::logcumsumexp(at::flip(logarithm, {dim}), dim), {dim});
    return at::exp(at::add(sums, x));
  };
  return at::sub(part(g), part(at::neg(g))).contiguous();
}

}  // namespace

at::Tensor by_aten(Kind kind, const std::vector<at::Tensor>& inputs, int64_t dim, at::ScalarType type) {
  const at::Tensor& a = inputs[0];
  switch (kind) {
    case Kind::Sum: return at::cumsum(a, dim, type);
    case Kind::ReversedSum: return at::flip(at::cumsum(at::flip(a, {dim}), dim, type), {dim});
    case Kind::Product: return at::cumprod(a, dim, type);
    case Kind::ProductGradient: return at::cumprod_backward(a, inputs[1], dim, inputs[2]);
    case Kind::LogSumExp: return at::logcumsumexp(a, dim);
    case Kind::LogSumExpGradient: return gradient_of_logcumsumexp(a, inputs[1], inputs[2], dim);
  }
  THUNDER_ASSERT(false, "no such scan");
}

}  // namespace thunder::scan
