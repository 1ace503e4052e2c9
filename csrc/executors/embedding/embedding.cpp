#include "executors/embedding/embedding.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "core/error.h"
#include "core/warning.h"
#include "fuser/embedding_gradient.h"
#include "fuser/emit.h"
#include "runtime/allocate.h"
#include "runtime/background.h"
#include "runtime/convert.h"
#include "runtime/implementing.h"
#include "runtime/instruction.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/kernels/nvrtc.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

namespace embedding = fuser::embedding;
using embedding::Launch;
using embedding::Problem;

constexpr const char* kSymbol = "torch.embedding_backward";

bool takes(int64_t tokens) { return tokens > 0 && tokens <= embedding::kMaxTokens; }

std::optional<Problem> problem_of(const Call& call) {
  const Args a = call.arguments();
  for (const char* name : {"num_weights", "padding_idx"})
    if (a[name].is_value() || !a.dim(name).is_constant()) return std::nullopt;
  const TensorType &grad = a.tensor("grad"), &ids = a.tensor("indices");
  for (const TensorType* t : {&grad, &ids}) {
    if (t->device.type != DeviceType::cuda || t->shape.empty()) return std::nullopt;
    if (!same(t->strides, contiguous_strides(t->shape))) return std::nullopt;
  }
  if (!grad.shape.back().is_constant()) return std::nullopt;
  Problem p{a.dim("num_weights").constant(), grad.shape.back().constant(), a.dim("padding_idx").constant(), grad.dtype,
            ids.dtype};
  const bool types = (p.dtype == DType::f32 || p.dtype == DType::bf16 || p.dtype == DType::f16) &&
                     (p.index == DType::i64 || p.index == DType::i32);
  // What only the run knows of the tokens' number is asked there.
  const bool few = !ids.numel().is_constant() || takes(ids.numel().constant());
  const bool sizes = few && p.cols > 0 && p.rows < INT32_MAX / 2;
  if (!types || !sizes || a.flag("scale_grad_by_freq") || a.flag("sparse")) return std::nullopt;
  return p;
}

/// The kernels of one problem, compiled from the start on.
class Kernels {
 public:
  enum Which { Place, Sum, Rest };

  explicit Kernels(const Problem& p) : text_(fuser::cuda_prelude() + embedding::kernels_text(p)) {
    if (cuda_available()) compiled(0);
  }
  ~Kernels() {
    for (auto& [device, cubin] : cubins_) cubin.finish();
  }

  /// Null, and `why`, if they cannot be compiled.
  const CudaKernel* find(Which which, int device, std::string* why) {
    if (!cuda_available(why)) return nullptr;
    const Compilation<CompiledCubin> compilation = compiled(device);
    const CompiledCubin& c = compilation.get();
    if (!c.ok()) {
      *why = c.log;
      return nullptr;
    }
    std::lock_guard lock(mutex_);
    std::unique_ptr<CudaKernel>& k = kernels_[device][which];
    constexpr const char* names[] = {"embedding_place", "embedding_sum", "embedding_rest"};
    if (!k) k = std::make_unique<CudaKernel>(std::make_shared<const std::string>(c.cubin), names[which]);
    return k.get();
  }

 private:
  Compilation<CompiledCubin> compiled(int device) {
    std::lock_guard lock(mutex_);
    Compilation<CompiledCubin>& f = cubins_[device];
    if (!f.valid())
      f = in_background([text = text_, device] {
        const CudaDeviceProperties& p = cuda_device_properties(device);
        return compile_cuda({{"embedding", text}}, p.major, p.minor)[0];
      });
    return f;
  }

  const std::string text_;
  std::mutex mutex_;
  std::map<int, Compilation<CompiledCubin>> cubins_;
  std::map<int, std::array<std::unique_ptr<CudaKernel>, 3>> kernels_;
};

class GradientCall final : public Instruction {
 public:
  GradientCall(const Call& call, const Assembler& assembler)
      : problem_(*problem_of(call)), kernels_(std::make_unique<Kernels>(problem_)), by_aten_(call, assembler) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
  }

  std::string str() const override { return "embedding " + by_aten_.str(); }

  void run(Frame& frame) const override {
    const at::Tensor &grad = tensor(frame, 0), &ids = tensor(frame, 1);
    if (frame.watched || !is_plain(grad) || !is_plain(ids) || !takes(ids.numel())) return by_aten_.run(*this, frame);
    const c10::OptionalDeviceGuard guard(grad.device());
    const int device = grad.device().index();
    std::string why;
    std::array<const CudaKernel*, 3> kernels{};
    for (auto which : {Kernels::Place, Kernels::Sum, Kernels::Rest})
      kernels[which] = kernels_->find(which, device, &why);
    if (!why.empty()) {
      warn_once("embedding", cat("[embedding] a gradient is left to PyTorch, its kernels cannot be compiled: ", why));
      return by_aten_.run(*this, frame);
    }
    if (reinterpret_cast<uintptr_t>(grad.const_data_ptr()) % 16 != 0) return by_aten_.run(*this, frame);
    at::Tensor out = launch(kernels, grad, ids);
    if (!drops.empty()) drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
  }

 private:
  const at::Tensor& tensor(const Frame& frame, size_t i) const { return frame.registers[operands[i].reg].toTensor(); }

  at::Tensor launch(const std::array<const CudaKernel*, 3>& kernels, const at::Tensor& grad,
                    const at::Tensor& ids) const {
    int tokens = static_cast<int>(ids.numel());
    const Launch l = embedding::launch_of(problem_, tokens);
    auto make = [](int64_t n, at::ScalarType type) { return allocate(c10::DeviceType::CUDA, {n}, {1}, type); };
    at::Tensor out =
        allocate(c10::DeviceType::CUDA, {problem_.rows, problem_.cols}, {problem_.cols, 1}, to_aten(problem_.dtype));
    const at::Tensor order = make(tokens, at::kInt), first = make(problem_.rows, at::kInt),
                     end = make(problem_.rows, at::kInt), sums = make(2 * l.chunks * problem_.cols, at::kFloat);
    const int device = grad.device().index();
    void* stream = current_cuda_stream(device);
    auto start = [&](Kernels::Which which, CudaDim grid, int threads,
                     std::initializer_list<const at::Tensor*> tensors) {
      std::vector<void*> pointers, params;
      for (const at::Tensor* t : tensors) pointers.push_back(const_cast<void*>(t->const_data_ptr()));
      for (void*& p : pointers) params.push_back(&p);
      if (which != Kernels::Rest) params.push_back(&tokens);
      kernels[which]->launch(device, grid, {static_cast<unsigned>(threads)}, 0, stream, params.data());
    };
    start(Kernels::Place, {l.place_blocks}, embedding::kPlaceThreads, {&ids, &order, &end});
    start(Kernels::Sum, {l.chunks, l.tiles}, l.threads, {&grad, &ids, &order, &first, &end, &out, &sums});
    start(Kernels::Rest, {static_cast<unsigned>(problem_.rows), l.tiles}, l.threads, {&first, &end, &sums, &out});
    return out;
  }

  const Problem problem_;
  std::unique_ptr<Kernels> kernels_;
  const ByAten by_aten_;
};

class EmbeddingExecutor final : public Executor {
 public:
  EmbeddingExecutor() : Executor("embedding") {
    const Op* op = Registry::instance().find(kSymbol);
    THUNDER_ASSERT(op, "there is no operator ", kSymbol);
    Implementation i;
    i.op = &register_implementing_operator(*op, name(), name() + "_backward");
    i.checker = [](const Call& call) { return problem_of(call).has_value(); };
    register_implementation(kSymbol, std::move(i));
  }
};

}  // namespace

std::shared_ptr<Executor> make_embedding_executor() {
  register_lowering("embedding", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    return std::make_unique<GradientCall>(call, assembler);
  });
  return std::make_shared<EmbeddingExecutor>();
}

}  // namespace thunder
