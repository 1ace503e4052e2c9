#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "core/error.h"
#include "core/warning.h"
#include "executors/fuser/fused_kernel.h"
#include "executors/fuser/fuser.h"
#include "passes/executor.h"
#include "passes/passes.h"
#include "runtime/allocate.h"
#include "runtime/convert.h"
#include "runtime/instruction.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/parallel.h"
#include "runtime/program.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

constexpr int64_t kGrain = 16384;  // elements that are worth another thread

struct Output {
  c10::SmallVector<int64_t, 5> sizes, strides;
  at::ScalarType type;
  size_t bytes;
};

using HostKernel = int (*)(const void* const*, void* const*, char*, int64_t, int64_t);
using HostFinish = int (*)(const void* const*, void* const*, char*, int64_t);
using Pointers = c10::SmallVector<void*, 16>;

class FusionCall final : public Instruction {
 public:
  FusionCall(std::shared_ptr<FusedKernel> kernel, Trace alternative)
      : k_(std::move(kernel)), alternative_(std::move(alternative)) {
    moves_operands = false;
    for (const TensorType& t : k_->inputs) {
      expected_.emplace_back();
      for (const Dim& d : t.strides) expected_.back().push_back(d.constant());
    }
    for (const TensorType& t : k_->outputs) {
      Output o;
      for (const Dim& d : t.shape) o.sizes.push_back(d.constant());
      for (const Dim& d : t.strides) o.strides.push_back(d.constant());
      o.type = to_aten(t.dtype);
      o.bytes = at::detail::computeStorageNbytes(o.sizes, o.strides, c10::elementSize(o.type));
      made_.push_back(std::move(o));
    }
  }

  std::string str() const override { return k_->name; }

  void run(Frame& frame) const override {
    // The program's own guard stands for its first GPU; a kernel may belong to another.
    if (frame.watched || !have_memory(frame)) return run_body(frame);
    c10::OptionalDeviceGuard guard;
    if (k_->on_cuda) guard.reset_device(device_of(frame));
    Pointers in, out;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Operand& o = operands[i];
      if (needs_copy(frame.registers[o.reg].toTensor(), expected_[i])) write_out(frame.registers[o.reg], expected_[i]);
      in.push_back(const_cast<void*>(frame.registers[o.reg].toTensor().const_data_ptr()));
    }
    std::vector<at::Tensor> results;
    results.reserve(made_.size());
    for (size_t i = 0; i < made_.size(); ++i) {
      results.push_back(make_result(frame, i));
      out.push_back(results.back().mutable_data_ptr());
    }
    if (!(k_->on_cuda ? run_cuda(in, out, results) : run_host(in, out))) return run_body(frame);
    hand_over(frame, results);
  }

 private:
  using Strides = c10::SmallVector<int64_t, 5>;

  // The imaginary part of a conjugate says of itself that its memory holds the negative.  And an operator of PyTorch's
  // may lay out its result otherwise than the trace says.
  static bool needs_copy(const at::Tensor& t, const Strides& expected) {
    const at::IntArrayRef sizes = t.sizes(), strides = t.strides();
    for (size_t d = 0; d < sizes.size(); ++d)
      if (strides[d] != expected[d] && sizes[d] > 1 && t.numel() > 0) return true;
    return t.is_neg();
  }

  // A backward's cotangents are whatever was computed from its results.
  bool have_memory(const Frame& frame) const {
    return std::all_of(operands.begin(), operands.end(),
                       [&](const Operand& o) { return is_plain_but_negative(frame.registers[o.reg].toTensor()); });
  }

  static void write_out(c10::IValue& value, const Strides& strides) {
    const at::Tensor& t = value.toTensor();
    at::Tensor plain = at::empty_strided(t.sizes(), strides, t.options());
    plain.copy_(t);
    value = std::move(plain);
  }

  at::Tensor make_result(const Frame& frame, size_t i) const {
    const Output& o = made_[i];
    if (k_->on_cuda) return allocate(c10::DeviceType::CUDA, o.sizes, o.strides, o.type);
    for (const fuser::InPlace& pair : k_->kernel.in_place) {
      const uint32_t r = operands[pair.input].reg;
      if (pair.output != i || std::find(drops.begin(), drops.end(), r) == drops.end()) continue;
      // An operand that an earlier output took is no longer the only owner of its memory.
      at::Tensor t = allocate_in(frame.registers[r].toTensor(), o.sizes, o.strides, o.type, o.bytes);
      if (t.defined()) return t;
    }
    return allocate(c10::DeviceType::CPU, o.sizes, o.strides, o.type);
  }

  template <class T>
  void hand_over(Frame& frame, std::vector<T>& results) const {
    if (!drops.empty()) drop(frame);
    for (size_t i = 0; i < results.size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = std::move(results[i]);
  }

  // ---- the CPU ------------------------------------------------------------------------------------------------------

  // As the kernel has them: alignment is that of the tensors.
  Pointers moved(const Pointers& in, const fuser::Kernel& k) const {
    Pointers out = in;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<char*>(out[i]) + k.offsets[i] * itemsize(k_->inputs[i].dtype);
    return out;
  }

  bool run_host(const Pointers& tensors, const Pointers& out) const {
    auto* kernel = reinterpret_cast<HostKernel>(host_.load(std::memory_order_acquire));
    if (!kernel) {
      std::string why;
      void* f = k_->batch->host_function(k_->function, &why);
      if (!f) return give_up(why);
      if (!k_->kernel.columns.empty()) finish_.store(k_->batch->host_function(k_->function + "_finish", &why));
      host_.store(f, std::memory_order_release);
      kernel = reinterpret_cast<HostKernel>(f);
    }
    const Pointers in = moved(tensors, k_->kernel);
    const bool inside = k_->kernel.columns.empty() ? run_rows(kernel, in, out) : run_columns(kernel, in, out);
    THUNDER_CHECK(inside, Index, k_->name, "index out of range");
    return true;
  }

  // Whether all places were inside of their tensors.
  bool run_rows(HostKernel kernel, const Pointers& in, const Pointers& out) const {
    const fuser::Kernel& k = k_->kernel;
    const bool by_column = fuser::host_splits_columns(k);
    const int64_t n = by_column ? k.cols : k.rows;
    const int64_t grain = by_column ? kGrain : std::max<int64_t>(1, kGrain / k.cols);
    if (n <= grain) return kernel(in.data(), out.data(), nullptr, 0, n) == 0;
    std::atomic<int> outside{0};
    parallel_for(0, n, grain, [&](int64_t begin, int64_t end) {
      if (kernel(in.data(), out.data(), nullptr, begin, end)) outside.store(1, std::memory_order_relaxed);
    });
    return outside == 0;
  }

  // Every thread sums its own part of the rows: the result depends on the number of threads, not on their timing.
  bool run_columns(HostKernel kernel, const Pointers& in, const Pointers& out) const {
    const fuser::Kernel& k = k_->kernel;
    const int64_t bytes = fuser::partial_bytes(k, fuser::Target::Host);
    const int64_t parts =
        std::clamp<int64_t>(k.rows * k.cols / kGrain, 1, std::min<int64_t>(at::get_num_threads(), k.rows));
    at::Tensor partial = at::empty({parts * bytes + 64}, at::TensorOptions().dtype(at::kByte));
    auto* base = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(partial.mutable_data_ptr()) + 63) / 64 * 64);
    std::atomic<int> outside{0};
    auto part = [&](int64_t p) {
      if (kernel(in.data(), out.data(), base + p * bytes, k.rows * p / parts, k.rows * (p + 1) / parts))
        outside.store(1, std::memory_order_relaxed);
    };
    if (parts == 1) part(0);
    else
      parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) part(p);
      });
    return reinterpret_cast<HostFinish>(finish_.load())(in.data(), out.data(), base, parts) == 0 && outside == 0;
  }

  // ---- CUDA ---------------------------------------------------------------------------------------------------------

  struct Variant {
    std::shared_ptr<CudaKernel> kernel, finish;
    CudaDim grid, block, finish_grid;
    int parts = 0;              // of the column sums
    int64_t partial_bytes = 0;  // of all parts
  };

  static bool aligned(const Pointers& pointers) {
    return std::all_of(pointers.begin(), pointers.end(),
                       [](void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
  }

  const Variant* variant(bool fast, int device, std::string* why) const {
    std::lock_guard lock(mutex_);
    Variant& v = variants_[fast ? 1 : 0];
    if (v.kernel) return &v;
    const fuser::Kernel& k = fast ? k_->kernel : k_->any;
    const std::string& name = fast ? k_->function : k_->any_function;
    KernelBatch& batch = fast ? *k_->batch : *k_->any_batch;
    std::shared_ptr<CudaKernel> main = batch.cuda_kernel(name, device, why);
    if (!main) return nullptr;
    const fuser::CudaShape shape = fuser::cuda_shape(k);
    const auto threads = static_cast<unsigned>(shape.threads), rows = static_cast<unsigned>(shape.rows_per_block);
    v.block = {threads, rows, 1};
    v.grid = {static_cast<unsigned>(shape.blocks_x), static_cast<unsigned>(shape.blocks_y), 1};
    if (shape.persistent) {
      const int at_once = std::clamp(main->blocks_per_multiprocessor(device, static_cast<int>(threads * rows), 0), 1,
                                     shape.blocks_per_multiprocessor);
      const auto most = static_cast<unsigned>(cuda_device_properties(device).multiprocessors * at_once);
      v.grid.x = std::min(v.grid.x, std::max(1u, most / v.grid.y));
    }
    if (!k.columns.empty()) {
      v.finish = batch.cuda_kernel(name + "_finish", device, why);
      v.finish_grid = {static_cast<unsigned>((k.cols + 31) / 32), 1, 1};
      v.parts = static_cast<int>(v.grid.x) * shape.parts;
      v.partial_bytes = v.parts * fuser::partial_bytes(k, fuser::Target::Cuda);
    }
    v.kernel = std::move(main);
    return &v;
  }

  at::Device device_of(const Frame& frame) const {
    if (!operands.empty()) return frame.registers[operands[0].reg].toTensor().device();
    return to_aten(k_->outputs[0].device);
  }

  bool run_cuda(const Pointers& tensors, const Pointers& out, const std::vector<at::Tensor>& results) const {
    const int device = results[0].device().index();
    const bool fast = k_->kernel.lanes == 1 || (aligned(tensors) && aligned(out));
    std::string why;
    const Variant* v = variant(fast, device, &why);
    if (!v) return give_up(why);
    const Pointers in = moved(tensors, fast ? k_->kernel : k_->any);
    at::Tensor partial;
    if (v->finish) partial = allocate(c10::DeviceType::CUDA, {v->partial_bytes}, {1}, at::kByte);
    void* partial_pointer = v->finish ? partial.mutable_data_ptr() : nullptr;
    int parts = v->parts;
    c10::SmallVector<void*, 24> params;
    for (const Pointers* list : {&in, &out})
      for (void* const& p : *list) params.push_back(const_cast<void**>(&p));
    params.push_back(&partial_pointer);
    void* stream = current_cuda_stream(device);
    v->kernel->launch(device, v->grid, v->block, 0, stream, params.data());
    if (!v->finish) return true;
    params.push_back(&parts);
    v->finish->launch(device, v->finish_grid, {32, fuser::kFinishRows, 1}, 0, stream, params.data());
    return true;
  }

  // ---- without a kernel ---------------------------------------------------------------------------------------------

  bool give_up(const std::string& why) const {
    warn_once("fuser", cat("[", k_->name, "] a kernel cannot be compiled, its operators run one by one: ", why));
    return false;
  }

  void run_body(Frame& frame) const {
    std::shared_ptr<Program> body;
    {
      std::lock_guard lock(mutex_);
      if (!body_) body_ = Program::build(claim(alternative_, Executors::instance().always(), false));
      body = body_;
    }
    std::vector<c10::IValue> inputs;
    for (const Operand& o : operands) inputs.push_back(frame.registers[o.reg]);
    std::vector<c10::IValue> results = body->run(std::move(inputs));
    hand_over(frame, results);
  }

  std::shared_ptr<FusedKernel> k_;
  Trace alternative_;  // the same by other executors, for when no kernel can be compiled
  std::vector<Output> made_;
  std::vector<Strides> expected_;  // of the operands
  mutable std::atomic<void*> host_{nullptr}, finish_{nullptr};
  mutable std::mutex mutex_;
  mutable std::array<Variant, 2> variants_;
  mutable std::shared_ptr<Program> body_;
};

}  // namespace

void register_fuser_lowering() {
  register_lowering("fuser", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    auto kernel = std::static_pointer_cast<FusedKernel>(call.op->context_owner);
    Trace alternative;
    alternative.arena = kernel->arena.lock();
    alternative.calls = call.body;
    alternative.output = call.output;
    for (const Arg& a : call.args) alternative.inputs.push_back(a.value());
    auto out = std::make_unique<FusionCall>(std::move(kernel), std::move(alternative));
    for (const Arg& a : call.args) out->operands.push_back(assembler.natural(a));
    return out;
  });
}

}  // namespace thunder
