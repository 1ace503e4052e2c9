#include "executors/decoding/decoding.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/warning.h"
#include "executors/attention/backend.h"
#include "executors/implementing.h"
#include "fuser/decoding.h"
#include "fuser/emit.h"
#include "runtime/allocate.h"
#include "runtime/convert.h"
#include "runtime/cuda_module.h"
#include "runtime/instruction.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

namespace decoding = fuser::decoding;
using decoding::Launch;
using decoding::Problem;

constexpr size_t kHeads = 1, kRows = 2, kSize = 3;  // dimensions of [batch, heads, rows, size]

bool is_one(const Dim& d) { return d.is_constant() && d.constant() == 1; }

// Whether the mask is one row for all heads of a batch.
bool is_one_row(const TensorType& mask, const TensorType& q, const TensorType& k) {
  const Dims& m = mask.shape;
  if (mask.requires_grad || (m.size() != 2 && m.size() != 4) || !is_one(m[m.size() - 2])) return false;
  if (!m.back().same(k.shape[kRows])) return false;
  return m.size() == 2 || ((is_one(m[0]) || m[0].same(q.shape[0])) && (is_one(m[1]) || mask.strides[1].same(0)));
}

std::optional<Problem> problem_of(const Call& call) {
  const Args a = call.arguments();
  if (a.flag("is_causal") || a.real("dropout_p") != 0 || !a.has("attn_mask")) return std::nullopt;
  const TensorType &q = a.tensor("query"), &k = a.tensor("key"), &v = a.tensor("value"), &mask = a.tensor("attn_mask");
  for (const TensorType* t : {&q, &k, &v}) {
    if (t->device.type != DeviceType::cuda || t->rank() != 4 || t->dtype != q.dtype || t->requires_grad)
      return std::nullopt;
    if (!t->shape[kSize].same(q.shape[kSize]) || !t->strides[kSize].same(1)) return std::nullopt;
    if (!t->shape[kHeads].is_constant() || !t->shape[0].same(q.shape[0])) return std::nullopt;
  }
  if (!is_one(q.shape[kRows]) || !q.shape[kSize].is_constant() || !k.shape[kRows].same(v.shape[kRows]))
    return std::nullopt;
  const int64_t heads = q.shape[kHeads].constant(), of_keys = k.shape[kHeads].constant();
  if (of_keys == 0 || v.shape[kHeads].constant() != of_keys || heads % of_keys != 0) return std::nullopt;
  if ((heads != of_keys && !a.flag("enable_gqa")) || !is_one_row(mask, q, k)) return std::nullopt;
  if (!call.output.is_value()) return std::nullopt;
  const Dims& strides = call.output.value().tensor().strides;
  if (!std::all_of(strides.begin(), strides.end(), [](const Dim& d) { return d.is_constant(); }) ||
      !strides[kSize].same(1))
    return std::nullopt;
  Problem p{q.shape[kSize].constant(), heads / of_keys, q.dtype, mask.dtype};
  // It stands where PyTorch would take the kernel that reads masks.
  if (!decoding::supported(p) || !attention::support_of(a).efficient) return std::nullopt;
  return p;
}

class DecodingCall final : public Instruction {
 public:
  DecodingCall(const Call& call, const Assembler& assembler)
      : problem_(*problem_of(call)),
        scale_(static_cast<float>(ops::torch::attention_scale(call.arguments()))),
        module_(CudaModule::of("decoding", fuser::cuda_prelude() + decoding::kernels_text(problem_))) {
    moves_operands = false;
    for (const char* name : {"query", "key", "value", "attn_mask"})
      operands.push_back(assembler.value(call.arguments().value(name)));
    for (const Dim& d : call.output.value().tensor().strides) out_strides_.push_back(d.constant());
    grouped_ = call.arguments().flag("enable_gqa");
  }

  std::string str() const override { return "decoding"; }

  void run(Frame& frame) const override {
    const std::array<at::Tensor, 4> t = {tensor(frame, 0), tensor(frame, 1), tensor(frame, 2), tensor(frame, 3)};
    const c10::OptionalDeviceGuard guard(t[0].device());
    std::string why;
    const int device = t[0].device().index();
    const bool readable = !frame.watched &&
                          std::all_of(t.begin(), t.end(), [](const auto& x) { return is_plain(x); }) &&
                          is_aligned(t[0]) && is_aligned(t[1]) && is_aligned(t[2]);
    const CudaKernel* part = readable ? module_->find("decoding_part", device, &why) : nullptr;
    const CudaKernel* join = part ? module_->find("decoding_join", device, &why) : nullptr;
    LoadedKernels kernels{part, join};
    if (join && cuda_device_properties(device).major >= 9) {
      std::string unused;  // without these the others run
      kernels.of_8 = module_->find("decoding_cluster_8", device, &unused);
      kernels.of_2 = module_->find("decoding_cluster_2", device, &unused);
    }
    if (!why.empty())
      warn_once("decoding", cat("[decoding] attention is left to others, its kernels cannot be compiled: ", why));
    at::Tensor out = join ? launch(kernels, t, device) : by_pytorch(t);
    drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
  }

 private:
  const at::Tensor& tensor(const Frame& frame, size_t i) const { return frame.registers[operands[i].reg].toTensor(); }

  // A thread reads 16 bytes of a head.
  static bool is_aligned(const at::Tensor& t) {
    const auto item = static_cast<int64_t>(t.itemsize());
    for (int64_t d = 0; d < t.dim() - 1; ++d)
      if (t.size(d) > 1 && t.stride(d) * item % 16 != 0) return false;
    return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0;
  }

  struct LoadedKernels {
    const CudaKernel *part = nullptr, *join = nullptr;
    const CudaKernel *of_8 = nullptr, *of_2 = nullptr;  // null where the GPU has no clusters
  };

  at::Tensor launch(const LoadedKernels& kernels, const std::array<at::Tensor, 4>& t, int device) const {
    const auto& [q, k, v, mask] = t;
    const int64_t batch = q.size(0), heads = k.size(kHeads), keys = k.size(kRows);
    const Launch l = decoding::launch_of(problem_, batch, heads, keys, cuda_device_properties(device).multiprocessors,
                                         kernels.of_8 && kernels.of_2);
    at::Tensor out = allocate(c10::DeviceType::CUDA, q.sizes(), out_strides_, q.scalar_type());
    if (out.numel() == 0) return out;
    at::Tensor parts;
    if (const int64_t n = decoding::partial_numbers(problem_, l, batch, heads); n > 0)
      parts = allocate(c10::DeviceType::CUDA, {n}, {1}, at::kFloat);
    std::array<void*, 6> p = {const_cast<void*>(q.const_data_ptr()),
                              const_cast<void*>(k.const_data_ptr()),
                              const_cast<void*>(v.const_data_ptr()),
                              const_cast<void*>(mask.const_data_ptr()),
                              out.mutable_data_ptr(),
                              parts.defined() ? parts.mutable_data_ptr() : nullptr};
    std::array<int, 3> n = {static_cast<int>(heads), static_cast<int>(keys), static_cast<int>(l.splits)};
    float scale = scale_;
    const bool of_batch = mask.dim() == 4 && mask.size(0) > 1;
    std::array<int64_t, 12> strides = {q.stride(0),      q.stride(kHeads), k.stride(0),
                                       k.stride(kHeads), k.stride(kRows),  v.stride(0),
                                       v.stride(kHeads), v.stride(kRows),  of_batch ? mask.stride(0) : 0,
                                       mask.stride(-1),  out.stride(0),    out.stride(kHeads)};
    std::vector<void*> params;
    for (void*& x : p) params.push_back(&x);
    for (int& x : n) params.push_back(&x);
    params.push_back(&scale);
    for (int64_t& x : strides) params.push_back(&x);
    void* stream = current_cuda_stream(device);
    const CudaKernel& first = !l.clustered ? *kernels.part : l.splits == 8 ? *kernels.of_8 : *kernels.of_2;
    const int threads = l.clustered ? decoding::cluster_threads(problem_, l.splits) : decoding::kThreads;
    first.launch(device, {static_cast<unsigned>(batch * heads * l.groups * l.splits)}, {static_cast<unsigned>(threads)},
                 0, stream, params.data());
    if (l.splits == 1 || l.clustered) return out;
    params = {&p[5], &p[4], &n[0], &n[2], &strides[10], &strides[11]};
    kernels.join->launch(device, {static_cast<unsigned>(batch * q.size(kHeads))},
                         {static_cast<unsigned>(decoding::join_threads(problem_))}, 0, stream, params.data());
    return out;
  }

  at::Tensor by_pytorch(const std::array<at::Tensor, 4>& t) const {
    // PyTorch's kernels for GPUs read 16 bytes at a time wherever they are, and fail where that is not aligned.
    std::array<at::Tensor, 3> x = {t[0], t[1], t[2]};
    for (at::Tensor& of : x)
      if (!is_aligned(of)) of = of.clone(at::MemoryFormat::Contiguous);
    const at::Tensor y = at::scaled_dot_product_attention(x[0], x[1], x[2], t[3], 0.0, false, scale_, grouped_);
    if (y.strides() == at::IntArrayRef(out_strides_)) return y;
    return at::empty_strided(y.sizes(), out_strides_, y.options()).copy_(y);
  }

  const Problem problem_;
  const float scale_;
  const std::shared_ptr<CudaModule> module_;
  std::vector<int64_t> out_strides_;
  bool grouped_ = false;
};

class DecodingExecutor final : public Executor {
 public:
  DecodingExecutor() : Executor("decoding") {
    const std::string symbol(ops::torch::kAttention);
    Implementation i;
    i.op = &register_implementing_operator(Registry::instance().get(symbol), name(), name() + "_attention");
    i.checker = [](const Call& call) { return problem_of(call).has_value(); };
    register_implementation(symbol, std::move(i));
  }
};

std::shared_ptr<Executor> make_decoding() {
  register_lowering("decoding", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    return std::make_unique<DecodingCall>(call, assembler);
  });
  return std::make_shared<DecodingExecutor>();
}

}  // namespace

ExecutorDefinition decoding_executor() { return {.place = ExecutorPlace::Default, .rank = 10, .make = make_decoding}; }

}  // namespace thunder
