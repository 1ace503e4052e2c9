#include "executors/cudnn/kernels_ahead.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/op.h"
#include "runtime/background.h"
#include "runtime/convert.h"

namespace thunder::cudnn {
namespace {

std::vector<Value> tensors_read(const Call& call) {
  std::vector<Value> out;
  for_each_input(call, [&](Value v) {
    if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
  });
  return out;
}

bool constant(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
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

// One of the batch is enough.
at::Tensor memory_for(const TensorType& t) {
  std::vector<int64_t> sizes, strides;
  for (const Dim& d : t.shape) sizes.push_back(d.constant());
  for (const Dim& d : t.strides) strides.push_back(d.constant());
  if (sizes.size() == 4) sizes[0] = 1;
  return at::empty_strided(sizes, strides, at::TensorOptions(to_aten(t.dtype)).device(to_aten(t.device)));
}

// Registers for the values of one call, which runs alone.
class Alone final : public Assembler {
 public:
  explicit Alone(const Call& call) {
    for (Value v : tensors_read(call)) registers_.emplace(v, static_cast<uint32_t>(registers_.size()));
  }
  uint32_t register_of(Value v) const override { return registers_.at(v); }
  uint32_t register_of(SymbolId) const override { THUNDER_ASSERT(false, "a size that is known at run time alone"); }

 private:
  std::unordered_map<Value, uint32_t, ValueHash> registers_;
};

// The instruction and the types of what it reads, by their registers.
struct Lone {
  std::unique_ptr<Instruction> instruction;
  std::vector<TensorType> reads;
  size_t registers = 0;

  Lone(const Call& call, const LowerFn& lower) : instruction(lower(call, Alone(call))) {
    for (Value v : tensors_read(call)) reads.push_back(v.tensor());
    registers = reads.size();
    for (size_t i = flat_results(call.output).size(); i > 0; --i)
      instruction->outputs.push_back(static_cast<int32_t>(registers++));
  }

  // On a stream of its own, so that it waits for nothing and nothing for it.
  void run() const {
    const c10::impl::VirtualGuardImpl device(c10::DeviceType::CUDA);
    const c10::StreamGuard stream(device.getStreamFromGlobalPool(to_aten(reads[0].device)));
    Frame frame;
    for (const TensorType& t : reads) frame.registers.emplace_back(memory_for(t));
    frame.registers.resize(registers);
    instruction->run(frame);
  }
};

}  // namespace

void compile_ahead(const Call& call, const LowerFn& lower) {
  const std::vector<Value> reads = tensors_read(call);
  const bool known = std::all_of(reads.begin(), reads.end(), [](Value v) {
    return v.type().is_tensor() && constant(v.tensor().shape) && constant(v.tensor().strides);
  });
  if (!known || call.op->has(kRandom) || !at::hasCUDA() || !first_of_its_kind(call)) return;
  run_in_background([lone = std::make_shared<Lone>(call, lower)] {
    try {
      lone->run();
    } catch (const std::exception&) {
      // The program's own call raises what there is to be said.
    }
  });
}

}  // namespace thunder::cudnn
