// An executor outside of Thunder's tree: cross entropy of float32 logits on the CPU, without the table of log probabilities.
//
// Takes torch.nn.functional.cross_entropy of [rows, classes] and class indices with reduction="mean". PyTorch's operators
// write a table of log probabilities, which the backward reads; this kernel keeps one number for each row instead.
//
//   t0, t1 = cross_entropy_forward(logits, target, -100)               t1: the logarithm of each row's sum of exponentials
//   t2 = cross_entropy_backward(grad, logits, target, t1, -100)
#include <ATen/core/Reduction.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "executors/plugin.h"
#include "ops/common.h"
#include "runtime/instruction.h"
#include "runtime/parallel.h"
#include "runtime/plain_tensors.h"

namespace {

using namespace thunder;

constexpr const char* kName = "fused_loss";

// ---- the arithmetic ---------------------------------------------------------------------------------------------------

constexpr int64_t kLanes = 16;       // partial results of a row, which compilers keep in vector registers
constexpr int64_t kGrain = 1 << 14;  // elements for which another thread is worth its start

// exp(x) of x <= 0 to about one unit in the last place, without branches and calls, which would keep loops scalar.
inline float exp_of(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: a sum with it has the nearest integer in its low bits
  const float shifted = x * 1.44269504f + kRound, n = shifted - kRound;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = p * r + c;
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127) << 23);
  return x < -87.0f ? 0.0f : (p * r * r + r + 1.0f) * power;
}

float log_sum_exp(const float* x, int64_t n) {
  float largest[kLanes], sums[kLanes] = {};
  std::fill_n(largest, kLanes, -std::numeric_limits<float>::infinity());
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) largest[l] = x[i + l] > largest[l] ? x[i + l] : largest[l];
  for (int64_t i = whole; i < n; ++i) largest[0] = std::max(largest[0], x[i]);
  const float top = *std::max_element(largest, largest + kLanes);
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) sums[l] += exp_of(x[i + l] - top);
  for (int64_t i = whole; i < n; ++i) sums[0] += exp_of(x[i] - top);
  float sum = 0;
  for (float s : sums) sum += s;
  return top + std::log(sum);
}

// ---- the operators ----------------------------------------------------------------------------------------------------

Types forward_types(const Args& a) {
  const TensorType& x = a.tensor("logits");
  return {ops::contiguous_type(x.dtype, x.device, {}), ops::contiguous_type(x.dtype, x.device, {x.shape[0]})};
}

Types backward_types(const Args& a) {
  const TensorType& x = a.tensor("logits");
  return {ops::contiguous_type(x.dtype, x.device, x.shape)};
}

void forward_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  c.put("logits", c.b("fused_loss.cross_entropy_backward", c.grad(0), c.in("logits"), c.in("target"), c.out(1),
                      c.in("ignore_index")));
}

constexpr OpDef kForward = {
    .schema = "cross_entropy_forward(Tensor logits, Tensor target, int ignore_index) -> (Tensor, Tensor)",
    .doc = "The mean loss, and for each row the logarithm of the sum of exponentials.",
    .meta = forward_types,
    .vjp = forward_vjp};
constexpr OpDef kBackward = {
    .schema =
        "cross_entropy_backward(Tensor grad, Tensor logits, Tensor target, Tensor log_sums, int ignore_index) "
        "-> Tensor",
    .doc = "Gradient of cross_entropy_forward.",
    .meta = backward_types};

// ---- how they run -----------------------------------------------------------------------------------------------------

class LossCall : public Instruction {
 public:
  LossCall(const Call& call, const Assembler& assembler) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
  }

  void run(Frame& frame) const override {
    std::vector<at::Tensor> inputs, results;
    for (size_t i = 0; i + 1 < operands.size(); ++i) inputs.push_back(frame.registers[operands[i].reg].toTensor());
    const int64_t ignored = operands.back().load(frame).toScalar().toLong();
    // A mode must see operators, and not every tensor has memory of its own.
    const bool plain = !frame.watched && std::all_of(inputs.begin(), inputs.end(), is_plain);
    results = plain ? by_kernel(inputs, ignored) : by_aten(inputs, ignored);
    drop(frame);
    for (size_t i = 0; i < results.size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = std::move(results[i]);
  }

 protected:
  using Tensors = std::vector<at::Tensor>;
  virtual Tensors by_kernel(const Tensors& inputs, int64_t ignored) const = 0;
  virtual Tensors by_aten(const Tensors& inputs, int64_t ignored) const = 0;

  static int64_t grain_of(const at::Tensor& logits) { return std::max<int64_t>(1, kGrain / (logits.size(1) + 1)); }
  static int64_t count_of(const at::Tensor& target, int64_t ignored) {
    const int64_t* t = target.const_data_ptr<int64_t>();
    return target.numel() - std::count(t, t + target.numel(), ignored);
  }
};

class ForwardCall final : public LossCall {
 public:
  using LossCall::LossCall;
  std::string str() const override { return "fused_loss cross_entropy_forward"; }

 private:
  Tensors by_kernel(const Tensors& inputs, int64_t ignored) const override {
    const at::Tensor &logits = inputs[0], &target = inputs[1];
    const int64_t rows = logits.size(0), classes = logits.size(1);
    at::Tensor loss = at::empty({}, logits.options()), log_sums = at::empty({rows}, logits.options());
    const float* x = logits.const_data_ptr<float>();
    const int64_t* t = target.const_data_ptr<int64_t>();
    float* out = log_sums.mutable_data_ptr<float>();
    parallel_for(0, rows, grain_of(logits), [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        THUNDER_CHECK(t[i] == ignored || (t[i] >= 0 && t[i] < classes), Index, "cross_entropy", "Target ", t[i],
                      " is out of bounds for ", classes, " classes.");
        out[i] = log_sum_exp(x + i * classes, classes);
      }
    });
    double sum = 0;  // by one thread, in one order
    for (int64_t i = 0; i < rows; ++i)
      if (t[i] != ignored) sum += out[i] - x[i * classes + t[i]];
    *loss.mutable_data_ptr<float>() = static_cast<float>(sum / static_cast<double>(count_of(target, ignored)));
    return {loss, log_sums};
  }

  Tensors by_aten(const Tensors& inputs, int64_t ignored) const override {
    return {at::cross_entropy_loss(inputs[0], inputs[1], {}, at::Reduction::Mean, ignored),
            at::logsumexp(inputs[0], {1})};
  }
};

class BackwardCall final : public LossCall {
 public:
  using LossCall::LossCall;
  std::string str() const override { return "fused_loss cross_entropy_backward"; }

 private:
  Tensors by_kernel(const Tensors& inputs, int64_t ignored) const override {
    const at::Tensor &logits = inputs[1], &target = inputs[2];
    const int64_t classes = logits.size(1);
    at::Tensor result = at::empty(logits.sizes(), logits.options());
    const float* x = logits.const_data_ptr<float>();
    const int64_t* t = target.const_data_ptr<int64_t>();
    const float* log_sums = inputs[3].const_data_ptr<float>();
    float* out = result.mutable_data_ptr<float>();
    const float share = *inputs[0].const_data_ptr<float>() / static_cast<float>(count_of(target, ignored));
    parallel_for(0, logits.size(0), grain_of(logits), [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        const float scale = t[i] == ignored ? 0.0f : share, log_sum = log_sums[i];
        for (int64_t j = i * classes; j < (i + 1) * classes; ++j) out[j] = scale * exp_of(x[j] - log_sum);
        if (t[i] != ignored) out[i * classes + t[i]] -= share;
      }
    });
    return {result};
  }

  Tensors by_aten(const Tensors& inputs, int64_t ignored) const override {
    const at::Tensor log_p = at::log_softmax(inputs[1], 1);
    const at::Tensor count = std::get<1>(at::nll_loss_forward(log_p, inputs[2], {}, at::Reduction::Mean, ignored));
    const at::Tensor g = at::nll_loss_backward(inputs[0], log_p, inputs[2], {}, at::Reduction::Mean, ignored, count);
    return {at::_log_softmax_backward_data(g, log_p, 1, at::kFloat)};
  }
};

// ---- the executor -----------------------------------------------------------------------------------------------------

// Only legal calls arrive: what remains is whether the kernel computes this one.
bool takes(const Call& call) {
  const Args a = call.arguments();
  const TensorType &x = a.tensor("input"), &t = a.tensor("target");
  return x.rank() == 2 && t.rank() == 1 && x.dtype == DType::f32 && t.dtype == DType::i64 &&
         x.device.type == DeviceType::cpu && t.device.type == DeviceType::cpu && is_contiguous(x) && is_contiguous(t) &&
         !a.has("weight") && !a.has("size_average") && !a.has("reduce") && a.str("reduction") == "mean" &&
         a.real("label_smoothing") == 0;
}

Arg fused(Builder& b, const Args& a) {
  return b("fused_loss.cross_entropy_forward", a["input"], a["target"], a["ignore_index"])[0].arg();
}

std::shared_ptr<Executor> make_fused_loss() {
  auto executor = std::make_shared<Executor>(kName, "0.1");
  executor->register_operator(kForward);
  executor->register_operator(kBackward);
  // The operator of the forward has a gradient rule, so that one function serves with and without gradients.
  executor->register_implementation("torch.cross_entropy",
                                    {.checker = takes, .transform = fused, .grad_transform = fused});
  register_lowering(kName, [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    if (call.op->schema.name == "cross_entropy_forward") return std::make_unique<ForwardCall>(call, assembler);
    return std::make_unique<BackwardCall>(call, assembler);
  });
  return executor;
}

// In the default list before the executors of matrix products and the fuser.
ExecutorDefinition fused_loss_executor() {
  return {.place = ExecutorPlace::Default, .rank = 45, .make = make_fused_loss};
}

}  // namespace

THUNDER_EXECUTOR(fused_loss_executor);
