#include "executors/onednn/onednn.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>

#include "core/error.h"
#include "core/type.h"
#include "executors/aten/by_aten.h"
#include "executors/aten/product.h"
#include "executors/implementing.h"
#include "runtime/instruction.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

constexpr const char* kSymbols[] = {"torch.matmul", "torch.mm", "torch.linear", "prims.matmul"};
constexpr int64_t kLeastWork = 1 << 20;  // multiplications of a product that is worth measuring
constexpr int kRounds = 5, kFewest = 2;  // of a measurement
constexpr double kLongest = 0.02;        // seconds of one, from which on the fewest rounds do
constexpr double kClearly = 0.97;        // of the other's time: with less to gain the bits stay PyTorch's

using LinearFn = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                            c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

// Null where PyTorch was built without oneDNN.
const c10::TypedOperatorHandle<LinearFn>* onednn_linear() {
  static const auto handle = []() -> std::optional<c10::TypedOperatorHandle<LinearFn>> {
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found || !at::globalContext().hasMKLDNN()) return std::nullopt;
    return found->typed<LinearFn>();
  }();
  return handle ? &*handle : nullptr;
}

// ---- which of the two -----------------------------------------------------------------------------------------------

// A quarter of the way from one power of two to the next: sizes between share a measurement, or a program that meets a
// new length in each call would measure in each.
int64_t rounded(int64_t n) {
  const int bits = std::bit_width(static_cast<uint64_t>(n));
  return bits <= 3 ? n : n >> (bits - 3) << (bits - 3);
}

// A product to both libraries: rows, columns and terms, rounded, whether the matrix lies by columns, bias, threads.
struct MatrixSizes {
  int64_t m, n, k;
  bool by_columns, bias;
  int threads;
  auto operator<=>(const MatrixSizes&) const = default;
};

class Choices {
 public:
  static Choices& instance() {
    static Choices choices;
    return choices;
  }
  // `blas` and `onednn` compute the product.
  template <class Blas, class OneDnn>
  bool takes_onednn(const MatrixSizes& p, Blas&& blas, OneDnn&& onednn) {
    {
      std::lock_guard lock(mutex_);
      if (auto known = takes_.find(p); known != takes_.end()) return known->second;
    }
    const bool takes = is_faster(onednn, blas);
    std::lock_guard lock(mutex_);
    return takes_.emplace(p, takes).first->second;
  }

 private:
  // Alternately, so that whatever else the machine does meets both alike.
  template <class A, class B>
  static bool is_faster(A&& a, B&& b) {
    double of_a = std::numeric_limits<double>::infinity(), of_b = of_a;
    a(), b();
    double all = 0;
    for (int i = 0; i < kRounds && (i < kFewest || all < kLongest); ++i) {
      const double now_a = seconds(a), now_b = seconds(b);
      of_a = std::min(of_a, now_a);
      of_b = std::min(of_b, now_b);
      all += now_a + now_b;
    }
    return of_a < kClearly * of_b;
  }
  template <class F>
  static double seconds(F&& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::mutex mutex_;
  std::map<MatrixSizes, bool> takes_;
};

// ---- the product ----------------------------------------------------------------------------------------------------

class OneDnnProductCall final : public Instruction {
 public:
  OneDnnProductCall(const Call& call, const Assembler& assembler)
      : by_aten_(call, assembler), is_linear_(call.op->implements->full_name == "torch.linear") {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
  }

  std::string str() const override { return "onednn " + by_aten_.str(); }
  bool can_accumulate() const override { return !is_linear_; }

  void run(Frame& frame) const override {
    const at::Tensor &a = tensor(frame, 0), &b = tensor(frame, 1);
    const std::optional<at::Tensor> bias = has_bias() ? std::optional(tensor(frame, 2)) : std::nullopt;
    if (frame.watched || !is_plain(a) || !is_plain(b) || (bias && !is_plain(*bias))) return by_aten_.run(*this, frame);
    if (accumulated(frame, [&](const at::Tensor& sum) { return aten::add_product(sum, a, b); })) return;
    // By output features, as oneDNN wants it.
    const at::Tensor matrix = is_linear_ ? b : b.t();
    if (!takes_onednn(a, matrix, bias)) return by_aten_.run(*this, frame);
    at::Tensor out = by_onednn(a, matrix, bias);
    if (!drops.empty()) drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
  }

 private:
  static at::Tensor by_onednn(const at::Tensor& a, const at::Tensor& matrix, const std::optional<at::Tensor>& bias) {
    return onednn_linear()->call(a, matrix, bias, "none", c10::List<std::optional<at::Scalar>>(), std::nullopt);
  }

  bool takes_onednn(const at::Tensor& a, const at::Tensor& matrix, const std::optional<at::Tensor>& bias) const {
    const int64_t n = matrix.size(0), k = matrix.size(1), m = k > 0 ? a.numel() / k : 0;
    if (m < 2 || m * n * k < kLeastWork || !a.is_contiguous() || !at::globalContext().userEnabledMkldnn() ||
        at::globalContext().deterministicAlgorithms())
      return false;
    const MatrixSizes p{rounded(m),       rounded(n),           rounded(k), !matrix.is_contiguous(),
                        bias.has_value(), at::get_num_threads()};
    return Choices::instance().takes_onednn(
        p, [&] { bias ? at::linear(a, matrix, *bias) : at::matmul(a, matrix.t()); },
        [&] { by_onednn(a, matrix, bias); });
  }

  bool has_bias() const { return operands.size() > 2 && operands[2].kind == Operand::Kind::Register; }
  const at::Tensor& tensor(const Frame& frame, size_t i) const { return frame.registers[operands[i].reg].toTensor(); }

  const ByAten by_aten_;
  const bool is_linear_;
};

// Rows of `a` times one matrix, none of which oneDNN's operator would copy.
bool fits(const Op& op, const ArgList& args) {
  if (!args[0].is_tensor() || !args[1].is_tensor()) return false;
  const TensorType &a = args[0].value().tensor(), &b = args[1].value().tensor();
  if (a.device.type != DeviceType::cpu || !(a.device == b.device) || a.dtype != DType::f32 || b.dtype != DType::f32)
    return false;
  if (a.shape.size() < 2 || b.shape.size() != 2 || !same(a.strides, contiguous_strides(a.shape))) return false;
  const Dims by_columns = {Dim(1), b.shape[0]};
  if (!same(b.strides, contiguous_strides(b.shape)) && !same(b.strides, by_columns)) return false;
  return op.full_name != "torch.linear" || args.size() < 3 || args[2].is_none() ||
         (args[2].is_tensor() && args[2].value().dtype() == DType::f32);
}

class OneDnnExecutor final : public Executor {
 public:
  OneDnnExecutor() : Executor("onednn") {
    for (const char* symbol : kSymbols)
      register_implementation(symbol, implementing(symbol, name(), [](const Call& call) {
                                return onednn_linear() && fits(*call.op, call.args);
                              }));
  }
  std::string unavailable() const override { return onednn_linear() ? "" : "this PyTorch was built without oneDNN"; }
  bool has_eagers_bits() const override { return false; }
};

std::shared_ptr<Executor> make_onednn() {
  register_lowering("onednn", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    return std::make_unique<OneDnnProductCall>(call, assembler);
  });
  return std::make_shared<OneDnnExecutor>();
}

}  // namespace

ExecutorDefinition onednn_executor() { return {.place = ExecutorPlace::Default, .rank = 60, .make = make_onednn}; }

}  // namespace thunder
