#include "executors/cudnn/kernels_ahead.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/op.h"
#include "passes/padding.h"
#include "runtime/background.h"
#include "runtime/convert.h"
#include "runtime/kernels/cuda_api.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/fork.h"
#include "runtime/own_streams.h"

namespace thunder::cudnn {
namespace {

constexpr size_t kMostBytes = size_t{256} << 20;

std::vector<Value> tensors_read(const Call& call) {
  std::vector<Value> out;
  visit_own_inputs(call, [&](Value v) {
    if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  });
  return out;
}

// What kernels are compiled for.  Lengths, heads and batches are arguments of a kernel; with others cuDNN chooses among
// kernels that it has.
std::string kind_of(const Call& call) {
  const Args a = call.arguments();
  const auto of = [](const TensorType& t) { return cat(short_name(t.dtype), " ", t.shape.back().str()); };
  std::string kind = cat(call.op->full_name, " ", of(a.tensor("query")), " ", of(a.tensor("value")), " ",
                         a.tensor("query").device.str(), a.flag("is_causal") ? " causal" : "");
  if (!a.has("attn_bias")) return kind;
  for (const Dim& d : a.tensor("attn_bias").shape) kind += d.is_constant() && d.constant() == 1 ? " one" : " all";
  return kind;
}

bool first_of_its_kind(const Call& call) {
  static std::mutex mutex;
  static std::set<std::string> seen;
  std::lock_guard lock(mutex);
  return seen.insert(kind_of(call)).second;
}

// One of the batch is enough, or two where a bias differs from one to the next.
int64_t batch_for(const Call& call) {
  const Args a = call.arguments();
  return a.has("attn_bias") && !a.tensor("attn_bias").shape[0].same(1) ? 2 : 1;
}

// Memory in the tensor's order of dimensions, without gaps.
struct DenseMemory {
  std::vector<int64_t> sizes, strides;
  at::TensorOptions options;

  DenseMemory(const TensorType& t, int64_t batch)
      : options(at::TensorOptions(to_aten(t.dtype)).device(to_aten(t.device))) {
    for (const Dim& d : t.shape) sizes.push_back(d.constant());
    for (const Dim& d : t.strides) strides.push_back(d.constant());
    if (sizes.size() == 4) sizes[0] = std::min(sizes[0], batch);
    strides = at::infer_dense_strides(sizes, strides);
  }
  size_t bytes() const { return at::detail::computeStorageNbytes(sizes, strides, options.dtype().itemsize()); }
  at::Tensor make() const { return at::empty_strided(sizes, strides, options); }
};

// Registers for the values of one call, which runs alone.
class Alone final : public Assembler {
 public:
  explicit Alone(const std::vector<Value>& reads) {
    for (Value v : reads) registers_.emplace(v, static_cast<uint32_t>(registers_.size()));
  }
  uint32_t register_of(Value v) const override { return registers_.at(v); }
  uint32_t register_of(SymbolId) const override { THUNDER_ASSERT(false, "a size that is known at run time alone"); }

 private:
  std::unordered_map<Value, uint32_t, ValueHash> registers_;
};

// The instruction, and the memory of what it reads, by their registers.
struct Lone {
  std::unique_ptr<Instruction> instruction;
  std::vector<DenseMemory> reads;

  // On a stream of its own, so that it waits for nothing and nothing for it.  Allocations are allowed while another
  // thread captures a graph.
  void run() const {
    const c10::Stream own = take_stream(reads[0].options.device());
    const MayFork no_lock_is_held;
    const RelaxedCaptureScope relaxed;
    const c10::StreamGuard stream(own);
    Frame frame;
    for (const DenseMemory& m : reads) frame.registers.emplace_back(m.make());
    frame.registers.resize(reads.size() + instruction->outputs.size());
    instruction->run(frame);
  }
};

}  // namespace

void compile_ahead(const Call& call, const LowerFn& lower) {
  const std::vector<Value> reads = tensors_read(call);
  const bool known =
      std::all_of(reads.begin(), reads.end(), [](Value v) { return v.type().is_tensor() && is_constant(v.tensor()); });
  // Deterministic algorithms may warn, which is for the thread that calls.
  const bool quiet = !at::globalContext().deterministicAlgorithms();
  if (!known || !quiet || call.op->has(kRandom) || !at::hasCUDA() || !cuda_available()) return;
  auto lone = std::make_shared<Lone>();
  size_t bytes = 0;
  for (Value v : reads) bytes += lone->reads.emplace_back(v.tensor(), batch_for(call)).bytes();
  if (bytes > kMostBytes || !first_of_its_kind(call)) return;
  lone->instruction = lower(call, Alone(reads));
  for (size_t i = 0; i < flat_results(call.output).size(); ++i)
    lone->instruction->outputs.push_back(static_cast<int32_t>(reads.size() + i));
  run_in_background([lone = std::move(lone)] {
    try {
      lone->run();
    } catch (const std::exception&) {
      // The program's own call raises what there is to be said.
    }
  });
}

}  // namespace thunder::cudnn
