#include "passes/vector_products.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/formula.h"
#include "passes/padding.h"
#include "passes/rewriter.h"

namespace thunder {
namespace {

/// out[n] = the sum of matrix[n, k] * vector[k], and bias[n].
struct VectorProduct {
  Value matrix, vector, bias;
  bool transposed = false;  ///< the matrix is given as [k, n]
};

/// All sizes but that of dimension `but` are 1.
bool is_vector(const TensorType& t, size_t but) {
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (i != but && !t.shape[i].same(1)) return false;
  return true;
}

/// The rows that are added up lie together.
bool lies_by(const TensorType& matrix, size_t terms) { return matrix.strides[terms].same(1); }

std::optional<VectorProduct> linear(Value x, Value w, const Arg& bias) {
  if (w.rank() != 2 || !is_vector(x.tensor(), x.shape().size() - 1) || !lies_by(w.tensor(), 1)) return std::nullopt;
  VectorProduct p{.matrix = w, .vector = x, .bias = {}};
  if (bias.is_none()) return p;
  p.bias = bias.value();
  if (p.bias.rank() != 1 || !p.bias.shape()[0].same(w.shape()[0]) || p.bias.dtype() != w.dtype()) return std::nullopt;
  return p;
}

std::optional<VectorProduct> product(Value a, Value b) {
  if (b.rank() == 2 && is_vector(a.tensor(), a.shape().size() - 1) && lies_by(b.tensor(), 0))
    return VectorProduct{.matrix = b, .vector = a, .bias = {}, .transposed = true};
  if (a.rank() == 2 && b.rank() >= 1 && b.rank() <= 2 && is_vector(b.tensor(), 0) && lies_by(a.tensor(), 1))
    return VectorProduct{.matrix = a, .vector = b, .bias = {}};
  return std::nullopt;
}

bool is_product(const std::string& name) {
  static constexpr std::string_view kNames[] = {"torch.linear", "prims.linear", "torch.matmul",
                                                "torch.mm",     "torch.mv",     "prims.matmul"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::optional<VectorProduct> product_of(const Call& call, const VectorProductLimits& limits) {
  const std::string& name = call.op->full_name;
  if (!is_product(name) || !call.args[0].is_tensor() || !call.args[1].is_tensor() || !call.output.is_value())
    return std::nullopt;
  const Value first = call.args[0].value(), second = call.args[1].value();
  const TensorType &a = first.tensor(), &b = second.tensor();
  const bool type = is_16_bit(a.dtype) || a.dtype == DType::f32;
  if (!type || a.dtype != b.dtype || a.device.type != DeviceType::cuda || !(a.device == b.device)) return std::nullopt;
  if (a.rank() < 1 || b.rank() < 1 || !is_constant(a) || !is_constant(b)) return std::nullopt;
  const std::optional<VectorProduct> p =
      name.ends_with("linear") ? linear(first, second, call.args[2]) : product(first, second);
  if (!p) return std::nullopt;
  const int64_t terms = p->matrix.shape()[p->transposed ? 0 : 1].constant();
  const int64_t elements = p->matrix.tensor().numel().constant();
  return terms >= limits.least_terms && elements >= limits.least_elements ? p : std::nullopt;
}

bool takes(const Executor& e, const Call& call) {
  const Implementation* found = e.find(call);
  return found && (found->op || found->transform);
}

/// The executors before the fusion that makes a kernel of the sum.  Nothing where one of them wants the product, or
/// where none fuses sums.
std::optional<ExecutorList> before_fusion(const Call& call, const ExecutorList& executors) {
  ExecutorList out;
  for (const auto& e : executors) {
    if (e->fuses_sums()) return out;
    if (e->is_fusion() || (takes(*e, call) && !e->yields_vector_products())) return std::nullopt;
    out.push_back(e);
  }
  return std::nullopt;
}

/// Whether a part of the sum would be a call of its own, which writes all of the products.
bool is_divided(const std::vector<const Call*>& made, const ExecutorList& before) {
  return std::any_of(made.begin(), made.end(), [&](const Call* c) {
    return std::any_of(before.begin(), before.end(), [&](const auto& e) { return takes(*e, *c); });
  });
}

Arg sum_of_rows(Builder& b, const VectorProduct& p, const TensorType& out) {
  using namespace ops;
  const Expr matrix = p.transposed ? b("prims.transpose", p.matrix, Arg::list({1, 0})) : Expr(b, p.matrix);
  const Dims shape = matrix.shape();
  const Formula vector = compute(b, reshape(b, p.vector, {shape[1]}));
  const Formula spread_out(b("prims.broadcast_in_dim", vector, shape, Arg::list({1})));
  Formula y = sum(compute(b, matrix) * spread_out, {1});
  if (p.bias) y = y + compute(b, p.bias);
  return with_strides(reshape(b, store(y, out.dtype), out.shape), out.strides).arg();
}

}  // namespace

Trace vector_products(const Trace& trace, const ExecutorList& executors, const VectorProductLimits& limits) {
  const bool any =
      std::any_of(trace.calls.begin(), trace.calls.end(), [&](const Call* c) { return product_of(*c, limits); });
  if (!any) return trace;
  Rewriter rewriter(trace);
  for (const Call* original : trace.calls)
    for (const Call* call : rewriter.current(original)) {
      const std::optional<VectorProduct> p = product_of(*call, limits);
      const std::optional<ExecutorList> before = p ? before_fusion(*call, executors) : std::nullopt;
      std::vector<const Call*> made;
      Arg result;
      if (before)
        made =
            rewriter.collect(*call, [&] { result = sum_of_rows(rewriter.builder, *p, call->output.value().tensor()); });
      if (!before || is_divided(made, *before)) {
        rewriter.builder.append(call);
        continue;
      }
      rewriter.replace_outputs(*call, result, "vector_products");
      for (const Call* c : made) rewriter.builder.append(c);
    }
  return rewriter.finish();
}

}  // namespace thunder
