#include "executors/scan/scan.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.h"
#include "core/warning.h"
#include "executors/implementing.h"
#include "executors/scan/fallback.h"
#include "fuser/emit.h"
#include "fuser/scan_kernels.h"
#include "passes/laid_out.h"
#include "runtime/allocate.h"
#include "runtime/convert.h"
#include "runtime/cuda_module.h"
#include "runtime/instruction.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

namespace scans = fuser::scans;
using scans::Kind;
using scans::Launch;
using scans::Problem;

// A record, and where its tensors stand in the order that the kernels take them.
struct ScanRecord {
  const char* symbol;
  Kind kind;
  std::array<const char*, 3> inputs;
};
constexpr std::array kForms = {
    ScanRecord{"torch.cumsum", Kind::Sum, {"input"}},
    ScanRecord{"prims.cumsum", Kind::Sum, {"a"}},
    ScanRecord{"torch.reversed_cumsum", Kind::ReversedSum, {"input"}},
    ScanRecord{"torch.cumprod", Kind::Product, {"input"}},
    ScanRecord{"prims.cumprod", Kind::Product, {"a"}},
    ScanRecord{"torch.cumprod_backward", Kind::ProductGradient, {"grad", "input", "output"}},
    ScanRecord{"torch.logcumsumexp", Kind::LogSumExp, {"input"}},
    ScanRecord{"prims.logcumsumexp", Kind::LogSumExp, {"a"}},
    ScanRecord{"torch.logcumsumexp_backward", Kind::LogSumExpGradient, {"grad", "input", "output"}},
};

const ScanRecord& form_of(const std::string& symbol) {
  const auto* form =
      std::find_if(kForms.begin(), kForms.end(), [&](const ScanRecord& f) { return f.symbol == symbol; });
  THUNDER_ASSERT(form != kForms.end(), "no scan ", symbol);
  return *form;
}

std::optional<Problem> problem_of(const ScanRecord& form, const Call& call) {
  if (!call.output.is_value()) return std::nullopt;
  const Args a = call.arguments();
  const TensorType &out = call.output.value().tensor(), &in = a.tensor(form.inputs[0]);
  const Problem p{form.kind, in.dtype, out.dtype};
  if (in.device.type != DeviceType::cuda || !scans::supported(p)) return std::nullopt;
  for (const char* name : form.inputs)
    if (name && (a.tensor(name).dtype != in.dtype || a.tensor(name).rank() != out.rank())) return std::nullopt;
  // Where the composite's own operators would leave another layout they stay.
  if (!lies_so(out, contiguous_strides(out.shape))) return std::nullopt;
  return p;
}

class ScanCall final : public Instruction {
 public:
  ScanCall(const Call& call, const Assembler& assembler)
      : form_(form_of(call.op->implements->full_name)),
        problem_(*problem_of(form_, call)),
        type_(to_aten(problem_.out)),
        module_(CudaModule::of("scan", fuser::cuda_prelude() + scans::text_of(problem_))) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
    const Schema& schema = call.op->implements->schema;
    for (const char* name : form_.inputs)
      if (name) inputs_.push_back(static_cast<size_t>(schema.index_of(name)));
    dim_ = static_cast<size_t>(schema.index_of("dim"));
  }

  std::string str() const override { return cat("scan ", form_.symbol); }

  void run(Frame& frame) const override {
    std::vector<at::Tensor> inputs;
    for (size_t i : inputs_) inputs.push_back(frame.registers[operands[i].reg].toTensor());
    const int64_t given = operands[dim_].load(frame).toScalar().toLong();
    std::optional<at::Tensor> out;
    if (!frame.watched && std::all_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return is_plain(t); }))
      out = by_kernels(inputs, given < 0 ? given + inputs[0].dim() : given);
    if (!out) out = scan::by_aten(problem_.kind, inputs, given, type_);
    drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(*out);
  }

 private:
  struct Sizes {
    int64_t outer = 1, length = 1, inner = 1;
  };
  static Sizes sizes_of(const at::Tensor& t, int64_t dim) {
    Sizes s;
    for (int64_t d = 0; d < t.dim(); ++d) (d < dim ? s.outer : d == dim ? s.length : s.inner) *= t.size(d);
    return s;
  }

  // Nothing if they cannot be compiled, which gives a warning, or there is too much for a grid.
  std::optional<at::Tensor> by_kernels(std::vector<at::Tensor>& inputs, int64_t dim) const {
    const c10::OptionalDeviceGuard guard(inputs[0].device());
    const int device = inputs[0].device().index();
    at::Tensor out = allocate(c10::DeviceType::CUDA, inputs[0].sizes(), type_);
    if (out.numel() == 0) return out;
    const Sizes s = sizes_of(out, dim);
    std::string why;
    if (!cuda_available(&why)) return std::nullopt;
    bool aligned = true;
    std::array<const void*, 3> in{};
    std::vector<at::Tensor> kept;
    for (size_t k = 0; k < inputs.size(); ++k) {
      kept.push_back(inputs[k].contiguous());
      in[k] = kept[k].const_data_ptr();
      aligned = aligned && reinterpret_cast<uintptr_t>(in[k]) % 16 == 0;
    }
    const Launch l =
        scans::launch_of(problem_, s.outer, s.length, s.inner, aligned, cuda_device_properties(device).multiprocessors);
    if (l.blocks >= INT32_MAX) return std::nullopt;
    if (!launch(l, s, device, in, out, aligned ? 1 : 0)) return std::nullopt;
    return out;
  }

  bool launch(const Launch& l, Sizes s, int device, std::array<const void*, 3> in, at::Tensor& out, int aligned) const {
    const bool columns = l.way == Launch::Way::Columns, short_rows = l.way == Launch::Way::ShortRows;
    const std::string suffix = columns && l.columns == 1 ? "_1" : "";
    const CudaKernel* scan = find(columns      ? "scan_columns" + suffix
                                  : short_rows ? "scan_short_rows"
                                               : "scan_rows",
                                  device);
    const CudaKernel* cut = nullptr;
    if (l.parts > 1) cut = find(columns ? "scan_column_parts" + suffix : "scan_row_parts", device);
    if (!scan || (l.parts > 1 && !cut)) return false;
    at::Tensor states;
    if (cut) states = allocate(c10::DeviceType::CUDA, {l.states * scans::state_bytes(problem_)}, at::kByte);
    void *parts = cut ? states.mutable_data_ptr() : nullptr, *to = out.mutable_data_ptr();
    Launch n = l;
    std::vector<void*> params = {&in[0], &in[1], &in[2]};
    const auto start = [&](const CudaKernel& kernel, std::initializer_list<void*> rest) {
      params.resize(3);
      params.insert(params.end(), rest);
      kernel.launch(device, {static_cast<unsigned>(l.blocks), static_cast<unsigned>(l.parts)},
                    {static_cast<unsigned>(l.threads)}, 0, current_cuda_stream(device), params.data());
    };
    if (short_rows) {
      start(*scan, {&to, &s.outer, &s.length, &n.team, &aligned});
    } else if (columns) {
      if (cut) start(*cut, {&parts, &s.outer, &s.length, &s.inner, &n.part, &n.team});
      start(*scan, {&parts, &to, &s.outer, &s.length, &s.inner, &n.part, &n.team});
    } else {
      if (cut) start(*cut, {&parts, &s.outer, &s.length, &n.part, &aligned});
      start(*scan, {&parts, &to, &s.outer, &s.length, &n.part, &aligned});
    }
    return true;
  }

  const CudaKernel* find(const std::string& name, int device) const {
    std::string why;
    const CudaKernel* kernel = module_->find(name, device, &why);
    if (!kernel) warn_once("scan", cat("[scan] scans are left to PyTorch, their kernels cannot be compiled: ", why));
    return kernel;
  }

  const ScanRecord& form_;
  const Problem problem_;
  const at::ScalarType type_;
  const std::shared_ptr<CudaModule> module_;
  std::vector<size_t> inputs_;
  size_t dim_ = 0;
};

class ScanExecutor final : public Executor {
 public:
  ScanExecutor() : Executor("scan") {
    for (const ScanRecord& form : kForms)
      register_implementation(
          form.symbol,
          implementing(
              form.symbol, name(), [&form](const Call& call) { return problem_of(form, call).has_value(); }, kWaits));
  }
  bool has_eagers_bits() const override { return false; }
};

std::shared_ptr<Executor> make_scan() {
  register_lowering("scan", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    return std::make_unique<ScanCall>(call, assembler);
  });
  return std::make_shared<ScanExecutor>();
}

}  // namespace

ExecutorDefinition scan_executor() { return {.place = ExecutorPlace::Default, .rank = 30, .make = make_scan}; }

}  // namespace thunder
