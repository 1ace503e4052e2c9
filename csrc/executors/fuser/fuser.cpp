#include "executors/fuser/fuser.h"

#include <c10/util/Float8_e4m3fn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_set>

#include "core/error.h"
#include "core/rewrite.h"
#include "executors/fuser/fused_kernel.h"
#include "fuser/open.h"
#include "fuser/partition.h"
#include "fuser/scalar.h"

namespace thunder {
namespace {

constexpr int64_t kRowBufferBytes = 256 << 10;  // on a thread's stack, and well within its second level cache
// A thread walks over all rows, instead of parts of them, where that leaves threads enough.
constexpr int64_t kFewRows = 64, kManyColumns = int64_t{1} << 18;

std::atomic<bool> always_emit_cuda{false};

// For tests: single operators go through the code generator, too.
bool fuses_single_operators() {
  const char* text = std::getenv("THUNDER_FUSE_SINGLE");
  return text && *text && std::string_view(text) != "0";
}

// Chunks of 16 bytes of the narrowest large operand, as far as the row's length allows.
int widest_lanes(const fuser::Fusion& f) {
  std::vector<Value> operands = f.inputs;
  operands.insert(operands.end(), f.outputs.begin(), f.outputs.end());
  int64_t size = 8, most = 1;
  for (Value v : operands) most = std::max(most, fuser::usual_numel(v));
  for (Value v : operands)
    if (fuser::usual_numel(v) * 2 >= most) size = std::min<int64_t>(size, itemsize(v.dtype()));
  return static_cast<int>(std::min<int64_t>(8, 16 / size));
}

// Each once, in the order in which the calls run.
void add_kernels(const std::vector<const Call*>& calls, std::unordered_set<std::string>& seen,
                 std::vector<const FusedKernel*>& out) {
  for (const Call* c : calls) {
    if (c->op->executor != "fuser") {
      add_kernels(c->body, seen, out);
      continue;
    }
    const auto* k = static_cast<const FusedKernel*>(c->op->context_owner.get());
    if (seen.insert(k->function).second) out.push_back(k);
  }
}

std::vector<const FusedKernel*> kernels_in(const Trace& trace) {
  std::vector<const FusedKernel*> out;
  std::unordered_set<std::string> seen;
  add_kernels(trace.calls, seen, out);
  return out;
}

class FuserExecutor final : public Executor {
 public:
  FuserExecutor() : Executor("fuser") {}
  bool is_fusion() const override { return true; }
  bool fuses_sums() const override { return true; }
  std::vector<const Call*> open(const Call& call, Arena& arena) const override { return fuser::opened(call, arena); }

  Trace fuse(const Trace& trace, const FusionOptions& fusion, const Repeated& repeated) const override {
    const bool eager = fusion.eager_numerics;
    auto batch = std::make_shared<KernelBatch>(), unaligned = std::make_shared<KernelBatch>();
    fuser::PartitionOptions options;
    options.repeated = &repeated;
    options.eager = eager;
    options.single = fuses_single_operators();
    options.make_op = [&](fuser::Fusion& f) { return make_op(f, trace.arena, batch, unaligned, eager); };
    // The forward and the backward bind symbols to values of their own.
    if (trace.arena->has_symbols()) bind_symbols(trace);
    Trace out = fuser::partition(trace, options);
    if (!fusion.compiles) return out;
    std::vector<std::string> order;
    for (const FusedKernel* k : kernels_in(out)) order.push_back(k->function);
    batch->start(order);  // the other one is compiled when a pointer asks for it, which is seldom
    return out;
  }

 private:
  static bool lower_host(const fuser::Fusion& f, FusedKernel& k, bool eager) {
    auto kernel = lower(f, {.split_rows = fuser::LowerOptions::SplitRows::Always,
                            .row_buffer = kRowBufferBytes,
                            .in_outputs = true,
                            .draw_ahead = true,
                            .name_distances = true,
                            .zeros_in_memory = true,
                            .eager_rounding = eager,
                            .exact = f.exact});
    if (!kernel) return false;
    k.kernel = std::move(*kernel);
    k.kernel.most.clear();  // offsets have 64 bits
    return true;
  }

  static std::optional<fuser::Kernel> lower(const fuser::Fusion& f, const fuser::LowerOptions& options) {
    return f.lowered->lower(f.roots, f.producer, f.materialized, options);
  }

  static bool caches_too_much(const fuser::Kernel& k) {
    return k.cached_bytes * fuser::cuda_shape(k).chunks > fuser::kCachedBytes;
  }

  static bool lower_cuda(const fuser::Fusion& f, FusedKernel& k, bool eager) {
    for (int lanes = widest_lanes(f); lanes >= 1; lanes /= 2) {
      fuser::LowerOptions options{.lanes = lanes,
                                  .cached = true,
                                  .keep_singles = true,
                                  .keep_costly = true,
                                  .online = !eager,
                                  .split_rows = fuser::LowerOptions::SplitRows::Long,
                                  .few_rows = kFewRows,
                                  .many_columns = kManyColumns,
                                  .eager_rounding = eager,
                                  .exact = f.exact};
      auto kernel = lower(f, options);
      if (!kernel) continue;
      options.keep_costly = !caches_too_much(*kernel);
      if (!options.keep_costly) kernel = lower(f, options);
      options.keep_singles = !caches_too_much(*kernel);
      if (!options.keep_singles) kernel = lower(f, options);
      // Random numbers give way to loads: they cost no memory traffic.
      options.draw_again = kernel->caches_draws && caches_too_much(*kernel);
      if (options.draw_again) kernel = lower(f, options);
      options.cached = false;
      if (caches_too_much(*kernel)) kernel = lower(f, options);
      k.kernel = std::move(*kernel);
      if (lanes == 1) {
        k.any = k.kernel;
        return true;
      }
      auto any = lower(f, {.eager_rounding = eager, .exact = f.exact});
      if (!any) return false;
      k.any = std::move(*any);
      return true;
    }
    return false;
  }

  // All that a launch has to know of the symbols.
  static Dims sizes_of(const FusedKernel& k) {
    Dims out;
    const auto add = [&](const fuser::Size& n) {
      const auto is_it = [&](const Dim& d) { return d.same(n.dim()); };
      if (!n.is_number() && std::none_of(out.begin(), out.end(), is_it)) out.push_back(n.dim());
    };
    for (const fuser::Kernel* kernel : {&k.kernel, &k.any}) {
      for (const fuser::Size& n : {kernel->rows, kernel->cols}) add(n);
      for (const auto* list : {&kernel->sizes.all(), &kernel->offsets, &kernel->most})
        for (const fuser::Size& n : *list) add(n);
    }
    for (const auto* types : {&k.inputs, &k.outputs})
      for (const TensorType& t : *types)
        for (const Dims* dims : {&t.shape, &t.strides})
          for (const Dim& d : *dims) add(d);
    return out;
  }

  static std::string add_wide(fuser::Kernel kernel, KernelBatch& batch, const std::string& name) {
    if (kernel.most.empty()) return "";
    kernel.wide = true;
    return batch.add_cuda(kernel, name);
  }

  static const Op* make_op(fuser::Fusion& f, const std::shared_ptr<Arena>& arena,
                           const std::shared_ptr<KernelBatch>& batch, const std::shared_ptr<KernelBatch>& unaligned,
                           bool eager) {
    auto k = std::make_shared<FusedKernel>();
    k->on_cuda = f.outputs.at(0).tensor().device.type == DeviceType::cuda;
    if (!(k->on_cuda ? lower_cuda(f, *k, eager) : lower_host(f, *k, eager))) return nullptr;
    // The variants must agree with the plain lowering on what comes in and goes out.
    if (k->kernel.inputs != f.inputs || k->kernel.outputs != f.outputs) return nullptr;
    if (k->on_cuda && k->any.numbers != k->kernel.numbers) return nullptr;
    k->name = cat("fusion", arena->unique("fusion"));
    k->arena = arena;
    k->batch = batch;
    k->any_batch = k->kernel.lanes == 1 ? batch : unaligned;
    k->function = k->on_cuda ? batch->add_cuda(k->kernel, k->name) : batch->add_host(k->kernel, k->name);
    k->any_function = !k->on_cuda            ? ""
                      : k->kernel.lanes == 1 ? k->function
                                             : unaligned->add_cuda(k->any, k->name + "_any");
    for (Value v : f.inputs) k->inputs.push_back(v.tensor());
    for (Value v : f.outputs) k->outputs.push_back(v.tensor());
    if (k->on_cuda) {
      k->wide_function = add_wide(k->kernel, *k->any_batch, k->name + "_wide");
      k->any_wide_function = add_wide(k->any, *k->any_batch, k->name + "_any_wide");
    }
    k->sizes = sizes_of(*k);
    f.numbers.assign(k->kernel.numbers.begin(), k->kernel.numbers.end());
    f.numbers.insert(f.numbers.end(), k->sizes.begin(), k->sizes.end());
    if (FusedKernel other; always_emit_cuda && lower_cuda(f, other, eager))
      k->cuda_text = fuser::emit_cuda(other.kernel, k->name);
    OpDef def;
    const std::string schema = k->name + "() -> any";
    def.schema = schema;
    auto op = std::make_unique<Op>("fuser", def);
    for (size_t i = 0; i < f.inputs.size() + f.numbers.size(); ++i) {
      Param p;
      p.name = cat("a", i);
      op->schema.params.push_back(std::move(p));
    }
    op->print_name = k->name;
    op->executor = "fuser";
    op->context_owner = k;
    return &arena->own(std::move(op));
  }
};

}  // namespace

std::vector<std::pair<std::string, std::string>> kernels_of(const Trace& trace) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const FusedKernel* k : kernels_in(trace)) out.emplace_back(k->function, k->batch->text(k->function));
  return out;
}

std::vector<std::pair<std::string, std::string>> cuda_texts_of(const Trace& trace) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const FusedKernel* k : kernels_in(trace)) out.emplace_back(k->name, fuser::cuda_prelude() + k->cuda_text);
  return out;
}

void set_always_emit_cuda(bool on) { always_emit_cuda = on; }

namespace {

std::shared_ptr<Executor> make_fuser() {
  fuser::set_float8_saturates(static_cast<float>(c10::Float8_e4m3fn(1000.0f)) == 448.0f);
  register_fuser_lowering();
  return std::make_shared<FuserExecutor>();
}

}  // namespace

ExecutorDefinition fuser_executor() { return {.place = ExecutorPlace::Default, .rank = 90, .make = make_fuser}; }

}  // namespace thunder
