#include "executors/rows/rows.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.h"
#include "executors/aten/by_aten.h"
#include "executors/implementing.h"
#include "executors/rows/cuda.h"
#include "executors/rows/host.h"
#include "executors/rows/operands.h"
#include "runtime/allocate.h"
#include "runtime/instruction.h"

namespace thunder {
namespace {

using rows::GroupOperands;
using rows::SumOperands;

constexpr const char* kGroup = "prims.group_index";
constexpr const char* kSum = "prims.segment_sum";

using Results = std::optional<std::vector<at::Tensor>>;

// What both have: PyTorch's operators where somebody watches, or no kernel takes the numbers.
class RowsCall : public Instruction {
 public:
  RowsCall(const Call& call, const Assembler& assembler)
      : on_cpu_(call.args[0].value().tensor().device.type == DeviceType::cpu), by_aten_(call, assembler) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
  }

  std::string str() const override { return "rows " + by_aten_.str(); }

  void run(Frame& frame) const override {
    if (frame.watched || !rows::all_plain(operands, frame)) return by_aten_.run(*this, frame);
    Results results = compute(frame);
    if (!results) return by_aten_.run(*this, frame);
    if (!drops.empty()) drop(frame);
    for (size_t i = 0; i < results->size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = std::move((*results)[i]);
  }

 protected:
  virtual Results compute(Frame& frame) const = 0;
  const bool on_cpu_;

 private:
  const ByAten by_aten_;
};

class GroupCall final : public RowsCall {
 public:
  GroupCall(const Call& call, const Assembler& assembler) : RowsCall(call, assembler) {
    if (!on_cpu_) cuda_.emplace(call.args[0].value().dtype());
  }

 protected:
  Results compute(Frame& frame) const override {
    const GroupOperands o(operands, frame);
    return cuda_ ? cuda_->run(o) : on_host(o);
  }

 private:
  static Results on_host(const GroupOperands& o) {
    const int64_t count = o.index.numel();
    at::Tensor order = allocate(c10::DeviceType::CPU, {count}, at::kLong),
               starts = allocate(c10::DeviceType::CPU, {o.groups + 1}, at::kLong);
    auto group = [&](const auto* index) {
      return rows::group_index(index, count, o.groups, o.skips, order.mutable_data_ptr<int64_t>(),
                               starts.mutable_data_ptr<int64_t>());
    };
    const bool inside = o.index.scalar_type() == at::kInt ? group(o.index.const_data_ptr<int32_t>())
                                                          : group(o.index.const_data_ptr<int64_t>());
    THUNDER_CHECK(inside, Index, "group_index", "index out of range in self, expected numbers below ", o.groups);
    return Results({std::move(order), std::move(starts)});
  }

  std::optional<rows::CudaGroup> cuda_;
};

class SumCall final : public RowsCall {
 public:
  SumCall(const Call& call, const Assembler& assembler) : RowsCall(call, assembler) {
    if (!on_cpu_) cuda_.emplace(call.args[0].value().dtype());
  }

 protected:
  Results compute(Frame& frame) const override {
    const SumOperands o(operands, frame);
    if (!cuda_) return Results({on_host(o)});
    std::optional<at::Tensor> out = cuda_->run(o);
    return out ? Results({std::move(*out)}) : std::nullopt;
  }

 private:
  static at::Tensor on_host(const SumOperands& o) {
    at::Tensor out = allocate(c10::DeviceType::CPU, o.shape, o.a.scalar_type());
    rows::SegmentSum sum;
    sum.a = o.a.const_data_ptr();
    sum.outer = o.outer, sum.outer_stride = o.outer_stride;
    sum.slices = o.slices, sum.slice_stride = o.slice_stride, sum.inner = o.inner;
    sum.places = o.places.const_data_ptr<int64_t>(), sum.count = o.places.numel();
    sum.starts = o.starts.defined() ? o.starts.const_data_ptr<int64_t>() : nullptr;
    sum.length = o.length, sum.segments = o.segments, sum.skips = o.skips;
    sum.weights = o.weights.defined() ? o.weights.const_data_ptr() : nullptr;
    sum.out = out.mutable_data_ptr();
    THUNDER_CHECK(rows::segment_sum(o.a.scalar_type(), sum), Index, "segment_sum",
                  "index out of range in self, expected numbers below ", o.slices);
    return out;
  }

  std::optional<rows::CudaSum> cuda_;
};

bool on_cpu_or_gpu(const Call& call) {
  const DeviceType device = call.args[0].value().tensor().device.type;
  return device == DeviceType::cpu || device == DeviceType::cuda;
}

bool sums(DType t) {
  constexpr std::array kTypes = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64,
                                 DType::i32, DType::i16, DType::i8,   DType::u8};
  return std::find(kTypes.begin(), kTypes.end(), t) != kTypes.end();
}

class RowsExecutor final : public Executor {
 public:
  RowsExecutor() : Executor("rows") {
    register_implementation(kGroup, implementing(kGroup, name(), on_cpu_or_gpu));
    register_implementation(kSum, implementing(kSum, name(), [](const Call& call) {
                              return on_cpu_or_gpu(call) && sums(call.args[0].value().dtype());
                            }));
  }
};

std::shared_ptr<Executor> make_rows() {
  register_lowering("rows", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    if (call.op->implements->full_name == kGroup) return std::make_unique<GroupCall>(call, assembler);
    return std::make_unique<SumCall>(call, assembler);
  });
  return std::make_shared<RowsExecutor>();
}

}  // namespace

ExecutorDefinition rows_executor() { return {.place = ExecutorPlace::Default, .rank = 40, .make = make_rows}; }

}  // namespace thunder
