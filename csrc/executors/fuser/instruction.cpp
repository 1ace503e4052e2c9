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
#include "fuser/places.h"
#include "passes/executor.h"
#include "passes/passes.h"
#include "passes/visit.h"
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

using Numbers = c10::SmallVector<int64_t, 8>;
using Floats = c10::SmallVector<double, 4>;

// What a launch evaluates.
struct Evaluated {
  Numbers sizes;
  Floats floats;
};

// A number, or one of the sizes that a launch evaluates.
struct LaunchNumber {
  int64_t number = 0;
  int at = -1;
  int64_t in(const Numbers& sizes) const { return at < 0 ? number : sizes[static_cast<size_t>(at)]; }
};

// Numbers that a launch may have to evaluate anew.
class NumberList {
 public:
  template <class List>
  NumberList(const List& list, const Dims& sizes) {
    for (const auto& n : list) {
      numbers_.push_back(number(n, sizes));
      fixed_.push_back(numbers_.back().number);
      is_fixed_ = is_fixed_ && numbers_.back().at < 0;
    }
  }
  static LaunchNumber number(const fuser::Size& n, const Dims& sizes) {
    if (n.is_number()) return {n.number(), -1};
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i].same(n.dim())) return {0, static_cast<int>(i)};
    THUNDER_ASSERT(false, "a kernel has a size that its call does not have");
  }
  bool is_fixed() const { return is_fixed_; }
  /// `room` is where they are put if they are not known before.
  at::IntArrayRef in(const Numbers& sizes, Numbers& room) const {
    if (is_fixed_) return fixed_;
    room.clear();
    for (const LaunchNumber& n : numbers_) room.push_back(n.in(sizes));
    return room;
  }

 private:
  c10::SmallVector<LaunchNumber, 5> numbers_;
  Numbers fixed_;
  bool is_fixed_ = true;
};

struct KernelOutput {
  NumberList sizes, strides;
  at::ScalarType type;
};

// What a kernel's launch needs to know of its sizes.
struct KernelSizes {
  KernelSizes(const fuser::Kernel& k, const Dims& all)
      : rows(NumberList::number(k.rows, all)),
        cols(NumberList::number(k.cols, all)),
        arguments(k.sizes.all(), all),
        offsets(k.offsets, all),
        most(k.most, all) {}
  LaunchNumber rows, cols;
  NumberList arguments, offsets, most;
};

using HostKernel = int (*)(const void* const*, void* const*, char*, int64_t, int64_t);
using HostFinish = int (*)(const void* const*, void* const*, char*, int64_t);
using SizedHostKernel = int (*)(const void* const*, void* const*, char*, int64_t, int64_t, const int64_t*,
                                const double*);
using SizedHostFinish = int (*)(const void* const*, void* const*, char*, int64_t, const int64_t*, const double*);
using Pointers = c10::SmallVector<void*, 16>;

class FusionCall final : public Instruction {
 public:
  FusionCall(std::shared_ptr<FusedKernel> kernel, Trace alternative)
      : k_(std::move(kernel)),
        alternative_(std::move(alternative)),
        kernel_sizes_(k_->kernel, k_->sizes),
        any_sizes_(k_->any, k_->sizes) {
    moves_operands = false;
    for (const TensorType& t : k_->inputs) expected_.emplace_back(t.strides, k_->sizes);
    for (const TensorType& t : k_->outputs)
      made_.push_back({{t.shape, k_->sizes}, {t.strides, k_->sizes}, to_aten(t.dtype)});
  }

  std::string str() const override { return k_->name; }

  void run(Frame& frame) const override {
    // The program's own guard stands for its first GPU; a kernel may belong to another.
    if (frame.watched || !have_memory(frame)) return run_body(frame);
    c10::OptionalDeviceGuard guard;
    if (k_->on_cuda) guard.reset_device(device_of(frame));
    const Evaluated now = evaluated(frame);
    const Numbers& sizes = now.sizes;
    Numbers room;
    Pointers in, out;
    for (size_t i = 0; i < tensors(); ++i) {
      c10::IValue& operand = frame.registers[operands[i].reg];
      const at::IntArrayRef expected = expected_[i].in(sizes, room);
      if (!operand.toTensor().defined() && !k_->on_cuda) operand = zeros_for(i, expected);
      const bool missing = !operand.toTensor().defined();
      if (!missing && needs_copy(operand.toTensor(), expected)) write_out(operand, expected);
      in.push_back(missing ? nullptr : const_cast<void*>(operand.toTensor().const_data_ptr()));
    }
    std::vector<at::Tensor> results;
    results.reserve(made_.size());
    for (size_t i = 0; i < made_.size(); ++i) {
      results.push_back(make_result(frame, i, sizes));
      out.push_back(results.back().mutable_data_ptr());
    }
    if (!(k_->on_cuda ? run_cuda(in, out, results, now) : run_host(in, out, now))) return run_body(frame);
    hand_over(frame, results);
  }

 private:
  // Operands are the kernel's inputs, its numbers, others that bind the symbols of its calls, and its sizes.
  size_t tensors() const { return k_->inputs.size(); }

  Evaluated evaluated(const Frame& frame) const {
    Evaluated out;
    for (size_t i = operands.size() - k_->sizes.size(); i < operands.size(); ++i)
      out.sizes.push_back(operands[i].evaluate(frame));
    for (size_t i = 0; i < k_->kernel.numbers.size(); ++i)
      out.floats.push_back(frame.registers[operands[tensors() + i].reg].toScalar().toDouble());
    return out;
  }

  // The imaginary part of a conjugate says of itself that its memory holds the negative.  And an operator of PyTorch's
  // may lay out its result otherwise than the trace says.
  static bool needs_copy(const at::Tensor& t, at::IntArrayRef expected) {
    const at::IntArrayRef sizes = t.sizes(), strides = t.strides();
    for (size_t d = 0; d < sizes.size(); ++d)
      if (strides[d] != expected[d] && sizes[d] > 1 && t.numel() > 0) return true;
    return t.is_neg();
  }

  // A backward's cotangents are whatever was computed from its results.
  bool have_memory(const Frame& frame) const {
    return std::all_of(operands.begin(), operands.begin() + static_cast<ptrdiff_t>(tensors()),
                       [&](const Operand& o) { return is_plain_but_negative(frame.registers[o.reg].toTensor()); });
  }

  // What or_zeros() reads has constant sizes.
  at::Tensor zeros_for(size_t i, at::IntArrayRef strides) const {
    const TensorType& t = k_->inputs[i];
    Numbers sizes;
    for (const Dim& d : t.shape) sizes.push_back(d.constant());
    return allocate(c10::DeviceType::CPU, sizes, strides, to_aten(t.dtype)).zero_();
  }

  static void write_out(c10::IValue& value, at::IntArrayRef strides) {
    const at::Tensor& t = value.toTensor();
    at::Tensor plain = at::empty_strided(t.sizes(), strides, t.options());
    plain.copy_(t);
    value = std::move(plain);
  }

  at::Tensor make_result(const Frame& frame, size_t i, const Numbers& now) const {
    const KernelOutput& o = made_[i];
    Numbers size_room, stride_room;
    const at::IntArrayRef sizes = o.sizes.in(now, size_room), strides = o.strides.in(now, stride_room);
    if (k_->on_cuda) return allocate(c10::DeviceType::CUDA, sizes, strides, o.type);
    for (const fuser::InPlace& pair : k_->kernel.in_place) {
      const uint32_t r = operands[pair.input].reg;
      if (pair.output != i || std::find(drops.begin(), drops.end(), r) == drops.end()) continue;
      const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(o.type));
      // An operand that an earlier output took is no longer the only owner of its memory.
      at::Tensor t = allocate_in(frame.registers[r].toTensor(), sizes, strides, o.type, bytes);
      if (t.defined()) return t;
    }
    return allocate(c10::DeviceType::CPU, sizes, strides, o.type);
  }

  template <class T>
  void hand_over(Frame& frame, std::vector<T>& results) const {
    if (!drops.empty()) drop(frame);
    for (size_t i = 0; i < results.size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = std::move(results[i]);
  }

  // ---- the CPU ------------------------------------------------------------------------------------------------------

  // As the kernel has them: alignment is that of the tensors.
  Pointers moved(const Pointers& in, const KernelSizes& k, const Numbers& sizes) const {
    Pointers out = in;
    Numbers room;
    const at::IntArrayRef offsets = k.offsets.in(sizes, room);
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i]) out[i] = static_cast<char*>(out[i]) + offsets[i] * itemsize(k_->inputs[i].dtype);
    return out;
  }

  struct HostLaunch {
    void* kernel;
    const Pointers &in, &out;
    int64_t rows, cols;
    at::IntArrayRef sizes;
    const Floats& floats;

    bool has_arguments() const { return !sizes.empty() || !floats.empty(); }
    /// Whether all places were inside of their tensors.
    bool run(char* partial, int64_t begin, int64_t end) const {
      if (!has_arguments()) return !reinterpret_cast<HostKernel>(kernel)(in.data(), out.data(), partial, begin, end);
      return !reinterpret_cast<SizedHostKernel>(kernel)(in.data(), out.data(), partial, begin, end, sizes.data(),
                                                        floats.data());
    }
    bool finish(void* f, char* partial, int64_t parts) const {
      if (!has_arguments()) return !reinterpret_cast<HostFinish>(f)(in.data(), out.data(), partial, parts);
      return !reinterpret_cast<SizedHostFinish>(f)(in.data(), out.data(), partial, parts, sizes.data(), floats.data());
    }
  };

  bool run_host(const Pointers& tensors, const Pointers& out, const Evaluated& now) const {
    void* kernel = host_.load(std::memory_order_acquire);
    if (!kernel) {
      std::string why;
      kernel = k_->batch->host_function(k_->function, &why);
      if (!kernel) return give_up(why);
      if (!k_->kernel.columns.empty()) finish_.store(k_->batch->host_function(k_->function + "_finish", &why));
      host_.store(kernel, std::memory_order_release);
    }
    const Numbers& sizes = now.sizes;
    const Pointers in = moved(tensors, kernel_sizes_, sizes);
    Numbers room;
    const HostLaunch launch{kernel,
                            in,
                            out,
                            kernel_sizes_.rows.in(sizes),
                            kernel_sizes_.cols.in(sizes),
                            kernel_sizes_.arguments.in(sizes, room),
                            now.floats};
    const bool inside = k_->kernel.columns.empty() ? run_rows(launch) : run_columns(launch);
    THUNDER_CHECK(inside, Index, k_->name, "index out of range");
    return true;
  }

  bool run_rows(const HostLaunch& launch) const {
    const bool by_column = fuser::host_splits_columns(k_->kernel);
    const int64_t n = by_column ? launch.cols : launch.rows;
    const int64_t grain = by_column ? kGrain : std::max<int64_t>(1, kGrain / std::max<int64_t>(1, launch.cols));
    if (n <= grain) return launch.run(nullptr, 0, n);
    std::atomic<int> outside{0};
    parallel_for(0, n, grain, [&](int64_t begin, int64_t end) {
      if (!launch.run(nullptr, begin, end)) outside.store(1, std::memory_order_relaxed);
    });
    return outside == 0;
  }

  // Every thread sums its own part of the rows: the result depends on the number of threads, not on their timing.
  bool run_columns(const HostLaunch& launch) const {
    const int64_t rows = launch.rows, bytes = fuser::partial_bytes(k_->kernel, fuser::Target::Host, launch.cols);
    const int64_t most = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), rows));
    const int64_t parts = std::clamp<int64_t>(rows * launch.cols / kGrain, 1, most);
    at::Tensor partial = at::empty({parts * bytes + 64}, at::TensorOptions().dtype(at::kByte));
    auto* base = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(partial.mutable_data_ptr()) + 63) / 64 * 64);
    std::atomic<int> outside{0};
    auto part = [&](int64_t p) {
      if (!launch.run(base + p * bytes, rows * p / parts, rows * (p + 1) / parts))
        outside.store(1, std::memory_order_relaxed);
    };
    if (parts == 1) part(0);
    else
      parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) part(p);
      });
    return launch.finish(finish_.load(), base, parts) && outside == 0;
  }

  // ---- CUDA ---------------------------------------------------------------------------------------------------------

  struct Variant {
    std::shared_ptr<CudaKernel> kernel, finish;
    fuser::CudaShape shape;
    fuser::CudaBlocks blocks;   // of the first launch, and of all if the kernel has no symbolic sizes
    int64_t partial_bytes = 0;  // of one block's sums in the same launches
    unsigned at_once = 0;       // blocks, of a persistent kernel
  };

  static bool aligned(const Pointers& pointers) {
    return std::all_of(pointers.begin(), pointers.end(),
                       [](void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
  }

  const Variant* variant(bool fast, bool wide, int device, int64_t rows, int64_t cols, std::string* why) const {
    const size_t which = (fast ? 1 : 0) + (wide ? 2 : 0);
    if (const Variant* ready = ready_[which].load(std::memory_order_acquire)) return ready;
    std::lock_guard lock(mutex_);
    Variant& v = variants_[which];
    if (v.kernel) return &v;
    const std::string& name =
        wide ? (fast ? k_->wide_function : k_->any_wide_function) : (fast ? k_->function : k_->any_function);
    KernelBatch& batch = fast && !wide ? *k_->batch : *k_->any_batch;
    std::shared_ptr<CudaKernel> main = batch.cuda_kernel(name, device, why);
    if (!main) return nullptr;
    const fuser::Kernel& k = fast ? k_->kernel : k_->any;
    v.shape = fuser::cuda_shape(k);
    v.blocks = fuser::cuda_blocks(k, rows, cols);
    if (v.shape.persistent) {
      const int at_once =
          std::clamp(main->blocks_per_multiprocessor(device, v.shape.threads * v.shape.rows_per_block, 0), 1,
                     v.shape.blocks_per_multiprocessor);
      v.at_once = static_cast<unsigned>(cuda_device_properties(device).multiprocessors * at_once);
    }
    if (fuser::finishes_apart(k)) {
      v.finish = batch.cuda_kernel(name + "_finish", device, why);
      if (!v.finish) return nullptr;
      v.partial_bytes = fuser::partial_bytes(k, fuser::Target::Cuda, cols);
    }
    v.kernel = std::move(main);
    ready_[which].store(&v, std::memory_order_release);
    return &v;
  }

  at::Device device_of(const Frame& frame) const {
    for (size_t i = 0; i < tensors(); ++i)
      if (const at::Tensor& t = frame.registers[operands[i].reg].toTensor(); t.defined()) return t.device();
    return to_aten(k_->outputs[0].device);
  }

  bool run_cuda(const Pointers& tensors, const Pointers& out, const std::vector<at::Tensor>& results,
                const Evaluated& now) const {
    const Numbers& sizes = now.sizes;
    const int device = results[0].device().index();
    const bool fast = k_->kernel.lanes == 1 || (aligned(tensors) && aligned(out));
    const fuser::Kernel& k = fast ? k_->kernel : k_->any;
    const KernelSizes& of_kernel = fast ? kernel_sizes_ : any_sizes_;
    Numbers room, most_room;
    const at::IntArrayRef most = of_kernel.most.in(sizes, most_room);
    const bool wide = !k.wide && !std::all_of(most.begin(), most.end(), fuser::Places::narrow);
    std::string why;
    const int64_t rows = of_kernel.rows.in(sizes), cols = of_kernel.cols.in(sizes);
    const Variant* v = variant(fast, wide, device, rows, cols, &why);
    if (!v) return give_up(why);
    const bool as_first = k_->sizes.empty();  // no symbolic sizes
    const fuser::CudaBlocks blocks = as_first ? v->blocks : fuser::cuda_blocks(k, rows, cols);
    CudaDim grid{static_cast<unsigned>(blocks.x), static_cast<unsigned>(blocks.y), 1};
    if (v->shape.persistent && grid.y > 0) grid.x = std::clamp(grid.x, 1u, std::max(1u, v->at_once / grid.y));
    if (grid.x == 0 || grid.y == 0) return true;  // a result without elements
    const Pointers in = moved(tensors, of_kernel, sizes);
    const at::IntArrayRef arguments = of_kernel.arguments.in(sizes, room);
    c10::SmallVector<int32_t, 8> narrow(arguments.begin(), arguments.end());
    at::Tensor partial;
    int parts = static_cast<int>(k.extrema.empty() ? grid.x : grid.x * grid.y);
    if (v->finish) {
      const int64_t bytes = as_first ? v->partial_bytes : fuser::partial_bytes(k, fuser::Target::Cuda, cols);
      partial = allocate(c10::DeviceType::CUDA, {parts * bytes}, {1}, at::kByte);
    }
    void* partial_pointer = v->finish ? partial.mutable_data_ptr() : nullptr;
    c10::SmallVector<void*, 24> params;
    for (const Pointers* list : {&in, &out})
      for (void* const& p : *list) params.push_back(const_cast<void**>(&p));
    for (size_t i = 0; i < arguments.size(); ++i)
      params.push_back(wide || k.wide ? const_cast<void*>(static_cast<const void*>(&arguments[i])) : &narrow[i]);
    for (const double& f : now.floats) params.push_back(const_cast<double*>(&f));
    params.push_back(&partial_pointer);
    void* stream = current_cuda_stream(device);
    const CudaDim block{static_cast<unsigned>(v->shape.width()), static_cast<unsigned>(v->shape.height()), 1};
    v->kernel->launch(device, grid, block, 0, stream, params.data());
    if (!v->finish) return true;
    params.push_back(&parts);
    const CudaDim finish_grid{k.extrema.empty() ? static_cast<unsigned>((cols + 31) / 32) : 1, 1, 1};
    v->finish->launch(device, finish_grid, {32, fuser::kFinishRows, 1}, 0, stream, params.data());
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
    for (size_t i = 0; i < operands.size() - k_->sizes.size(); ++i) inputs.push_back(frame.registers[operands[i].reg]);
    std::vector<c10::IValue> results = body->run(std::move(inputs));
    hand_over(frame, results);
  }

  std::shared_ptr<FusedKernel> k_;
  Trace alternative_;  // the same by other executors, for when no kernel can be compiled
  KernelSizes kernel_sizes_, any_sizes_;
  std::vector<KernelOutput> made_;
  std::vector<NumberList> expected_;  // strides of the operands
  mutable std::atomic<void*> host_{nullptr}, finish_{nullptr};
  mutable std::mutex mutex_;
  mutable std::array<Variant, 4> variants_;
  mutable std::array<std::atomic<const Variant*>, 4> ready_{};  // those that have a kernel
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
    ValueSet seen;
    visit_outer_inputs(call, [&](Value v) {
      if (seen[v]) return;
      seen.set(v, 1);
      alternative.inputs.push_back(v);
    });
    auto out = std::make_unique<FusionCall>(kernel, alternative);
    for (Value v : alternative.inputs) out->operands.push_back(assembler.value(v));
    for (size_t i = kernel->inputs.size() + kernel->kernel.numbers.size(); i < call.args.size(); ++i)
      out->operands.push_back(assembler.expression(call.args[i].dim()));
    return out;
  });
}

}  // namespace thunder
