#include "executors/cudnn/any_length.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/op.h"
#include "executors/aten/by_aten.h"

namespace thunder::cudnn {
namespace {

// ---- one query, or one key, in float32 ------------------------------------------------------------------------------

// [B, heads of the query, length, size].
at::Tensor wide(const at::Tensor& x, const at::Tensor& query) {
  const int64_t repeats = query.size(1) / x.size(1);
  const at::Tensor y = x.to(at::kFloat);
  return repeats == 1 ? y : y.repeat_interleave(repeats, 1);
}

// The gradient of what wide() repeats.
at::Tensor narrow(const at::Tensor& gradient, const at::Tensor& x) {
  const int64_t repeats = gradient.size(1) / x.size(1);
  return repeats == 1 ? gradient
                      : gradient.view({x.size(0), x.size(1), repeats, gradient.size(2), gradient.size(3)}).sum(2);
}

struct AnyLengthAttention {
  at::Tensor query, key, value;
  std::optional<at::Tensor> bias;
  double scale;

  // A causal mask sees all there is: it has as many queries as keys.
  at::Tensor scores() const {
    at::Tensor s = at::matmul(query.to(at::kFloat), wide(key, query).transpose(-2, -1)).mul_(scale);
    return bias ? s.add_(bias->to(at::kFloat)) : s;
  }

  // Dimensions of the result lie in memory in the query's order.
  at::Tensor laid_out(const at::Tensor& result) const {
    std::vector<int64_t> order(4), strides(4);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return query.stride(a) > query.stride(b); });
    int64_t next = 1;
    for (size_t i = 4; i-- > 0; next *= result.size(order[i])) strides[static_cast<size_t>(order[i])] = next;
    return at::empty_strided(result.sizes(), strides, query.options()).copy_(result);
  }

  std::pair<at::Tensor, at::Tensor> forward() const {
    const at::Tensor s = scores(), log_sum = at::logsumexp(s, {-1}, true);
    return {laid_out(at::matmul(s.sub(log_sum).exp_(), wide(value, query))), log_sum};
  }

  // By the softmax's derivative, from its weights: those of the forward again.
  std::vector<at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& log_sum) const {
    const at::Tensor weights = scores().sub_(log_sum).exp_(), g = gradient.to(at::kFloat);
    const at::Tensor of_weights = at::matmul(g, wide(value, query).transpose(-2, -1)),
                     of_row = of_weights.mul(weights).sum(-1, true),  // exact for a single key, whose weight has none
        of_scores = of_weights.sub(of_row).mul_(weights).mul_(scale);
    const auto like = [](const at::Tensor& x, const at::Tensor& result) { return at::empty_like(x).copy_(result); };
    return {like(query, at::matmul(of_scores, wide(key, query))),
            like(key, narrow(at::matmul(of_scores.transpose(-2, -1), query.to(at::kFloat)), key)),
            like(value, narrow(at::matmul(weights.transpose(-2, -1), g), value))};
  }
};

// ---- the instruction ------------------------------------------------------------------------------------------------

class AnyLength final : public Instruction {
 public:
  AnyLength(const Call& call, const Assembler& assembler, std::unique_ptr<Instruction> by_cudnn)
      : op_(*call.op), by_cudnn_(std::move(by_cudnn)) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
  }
  std::string str() const override { return by_cudnn_.str() + ", of any length"; }

  void run(Frame& frame) const override {
    const AnyLengthAttention a = attention(frame);
    if (a.query.size(2) > 1 && a.key.size(2) > 1) return by_cudnn_.run(*this, frame);
    std::vector<at::Tensor> results;
    if (op_.schema.index_of("grad_out") >= 0) {
      results = a.backward(tensor(frame, "grad_out"), tensor(frame, "logsumexp"));
    } else {
      auto [out, log_sum] = a.forward();
      results = {std::move(out), std::move(log_sum)};
    }
    if (!drops.empty()) drop(frame);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] >= 0)
        frame.registers[static_cast<size_t>(outputs[i])] =
            i < results.size() ? results[i] : at::zeros({}, a.query.options().dtype(at::kLong));  // no random state
  }

 private:
  c10::IValue value(Frame& frame, const char* name) const {
    return operands[static_cast<size_t>(op_.schema.index_of(name))].load(frame);
  }
  at::Tensor tensor(Frame& frame, const char* name) const { return value(frame, name).toTensor(); }

  AnyLengthAttention attention(Frame& frame) const {
    AnyLengthAttention a{tensor(frame, "query"), tensor(frame, "key"), tensor(frame, "value"), {}, 0};
    if (const c10::IValue bias = value(frame, "attn_bias"); bias.isTensor()) a.bias = bias.toTensor();
    const c10::IValue scale = value(frame, "scale");
    a.scale = scale.isNone() ? 1 / std::sqrt(static_cast<double>(a.query.size(3))) : scale.toScalar().toDouble();
    return a;
  }

  const Op& op_;
  const ByAten by_cudnn_;
};

}  // namespace

std::unique_ptr<Instruction> with_any_length(const Call& call, const Assembler& assembler,
                                             std::unique_ptr<Instruction> by_cudnn) {
  const Args a = call.arguments();
  const bool known = a.tensor("query").shape[2].is_constant() && a.tensor("key").shape[2].is_constant();
  if (known || call.op->has(kRandom)) return by_cudnn;
  return std::make_unique<AnyLength>(call, assembler, std::move(by_cudnn));
}

}  // namespace thunder::cudnn
