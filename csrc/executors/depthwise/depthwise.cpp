#include "executors/depthwise/depthwise.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.h"
#include "core/warning.h"
#include "executors/aten/by_aten.h"
#include "executors/implementing.h"
#include "fuser/depthwise.h"
#include "fuser/emit.h"
#include "passes/laid_out.h"
#include "runtime/allocate.h"
#include "runtime/convert.h"
#include "runtime/cuda_module.h"
#include "runtime/instruction.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

namespace depthwise = fuser::depthwise;
using depthwise::Kind;
using depthwise::Launch;
using depthwise::Plan;
using depthwise::Problem;

constexpr const char *kForward = "torch.convolution", *kBackward = "torch.convolution_backward";
constexpr int64_t kChannels = 1, kRows = 2, kColumns = 3;  // dimensions of an image

std::optional<std::array<int64_t, 2>> pair(const Dims& dims) {
  if (dims.size() != 2 || !dims[0].is_constant() || !dims[1].is_constant()) return std::nullopt;
  return std::array<int64_t, 2>{dims[0].constant(), dims[1].constant()};
}

// `y`: the convolution's result, or its gradient.
std::optional<Problem> problem_of(const Args& a, const TensorType& y) {
  const TensorType &x = a.tensor("input"), &w = a.tensor("weight");
  if (x.device.type != DeviceType::cuda || x.rank() != 4 || w.rank() != 4 || a.flag("transposed")) return std::nullopt;
  const bool constant = std::all_of(w.shape.begin(), w.shape.end(), [](const Dim& d) { return d.is_constant(); });
  if (!constant || !lies_so(x, channels_last_strides(x.shape))) return std::nullopt;
  const int64_t channels = w.shape[0].constant();
  if (w.shape[1].constant() != 1 || !x.shape[kChannels].same(channels) || !a.dim("groups").same(channels))
    return std::nullopt;
  const auto stride = pair(a.dims("stride")), padding = pair(a.dims("padding")), dilation = pair(a.dims("dilation"));
  if (!stride || !padding || !dilation || *dilation != std::array<int64_t, 2>{1, 1}) return std::nullopt;
  Problem p{.channels = channels,
            .height = w.shape[kRows].constant(),
            .width = w.shape[kColumns].constant(),
            .stride_y = (*stride)[0],
            .stride_x = (*stride)[1],
            .padding_y = (*padding)[0],
            .padding_x = (*padding)[1],
            .dtype = x.dtype};
  const Dim &columns = y.shape[kColumns], positions = y.shape[0] * y.shape[kRows] * columns;
  if (columns.is_constant()) p.columns = columns.constant();
  if (positions.is_constant()) p.positions = positions.constant();
  if (!depthwise::supported(p)) return std::nullopt;
  return p;
}

std::optional<Problem> problem_of_forward(const Call& call) {
  if (!call.output.is_value()) return std::nullopt;
  return problem_of(call.arguments(), call.output.value().tensor());
}

std::optional<Problem> problem_of_backward(const Call& call) {
  const Args a = call.arguments();
  const ArgList& mask = a["output_mask"].items();
  if (std::none_of(mask.begin(), mask.end(), [](const Arg& wanted) { return wanted.boolean(); })) return std::nullopt;
  return problem_of(a, a.tensor("grad_output"));
}

// A plan's kernels.
struct PlanKernels {
  PlanKernels(const Problem& p, Kind kind, bool bias = false)
      : plan(depthwise::plan_of(p, kind, bias)),
        module(CudaModule::of("depthwise", fuser::cuda_prelude() + depthwise::text_of(plan))) {}

  const CudaKernel* find(const char* name, int device) const {
    std::string why;
    const CudaKernel* kernel = module->find(name, device, &why);
    if (!kernel && cuda_available())
      warn_once("depthwise",
                cat("[depthwise] convolutions are left to PyTorch, their kernels cannot be compiled: ", why));
    return kernel;
  }

  Plan plan;
  std::shared_ptr<CudaModule> module;
};

// Sizes as the kernels take them.
struct ConvolutionSizes {
  int64_t batch = 0;
  int channels = 0, height = 0, width = 0, out_height = 0, out_width = 0;

  ConvolutionSizes(const at::Tensor& x, const at::Tensor& y)
      : batch(x.size(0)),
        channels(static_cast<int>(x.size(kChannels))),
        height(static_cast<int>(x.size(kRows))),
        width(static_cast<int>(x.size(kColumns))),
        out_height(static_cast<int>(y.size(kRows))),
        out_width(static_cast<int>(y.size(kColumns))) {}
};

at::Tensor image(std::array<int64_t, 4> sizes, at::ScalarType type) {
  const int64_t row = sizes[kColumns] * sizes[kChannels];
  return allocate(c10::DeviceType::CUDA, sizes, {sizes[kRows] * row, 1, row, sizes[kChannels]}, type);
}

unsigned over(int64_t a, int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

Launch launch_of(const Plan& plan, const ConvolutionSizes& s, int device) {
  const bool of_input = plan.kind == Kind::Input;
  return depthwise::launch_of(plan, s.batch, of_input ? s.height : s.out_height, of_input ? s.width : s.out_width,
                              cuda_device_properties(device).multiprocessors);
}

// A kernel with three or four pointers, which `sizes` follow.
template <class... P>
void launch(const CudaKernel& kernel, const Plan& plan, const Launch& l, const ConvolutionSizes& s, int device,
            P... pointers) {
  int lanes = static_cast<int>(plan.lanes), segment = static_cast<int>(l.segment);
  int segments = static_cast<int>(l.segments), strips = static_cast<int>(l.strips);
  ConvolutionSizes n = s;
  void* params[] = {static_cast<void*>(&pointers)...,
                    &n.channels,
                    &lanes,
                    &n.height,
                    &n.width,
                    &n.out_height,
                    &n.out_width,
                    &segment,
                    &segments,
                    &strips};
  const auto slots = static_cast<unsigned>(depthwise::kThreads / plan.lanes);
  kernel.launch(device, {static_cast<unsigned>(l.blocks_x), static_cast<unsigned>(plan.blocks_y)},
                {slots * static_cast<unsigned>(plan.lanes)}, 0, current_cuda_stream(device), params);
}

class Convolution : public Instruction {
 public:
  Convolution(const Call& call, const Assembler& assembler) : by_aten_(call, assembler) {
    moves_operands = false;
    for (const Arg& a : call.args) operands.push_back(assembler.natural(a));
  }

  std::string str() const override { return "depthwise " + by_aten_.str(); }

 protected:
  const at::Tensor& tensor(const Frame& frame, size_t i) const { return frame.registers[operands[i].reg].toTensor(); }
  bool is_tensor(size_t i) const { return operands[i].kind == Operand::Kind::Register; }

  // Images as the kernels read them: a gradient may lie in another way than the image that it is of.
  static at::Tensor channels_last(const at::Tensor& t) {
    const int64_t row = t.size(kColumns) * t.size(kChannels);
    const std::array<int64_t, 4> strides = {t.size(kRows) * row, 1, row, t.size(kChannels)};
    for (int64_t d = 0; d < 4; ++d)
      if (t.size(d) > 1 && t.stride(d) != strides[static_cast<size_t>(d)]) {
        at::Tensor out = image({t.size(0), t.size(1), t.size(2), t.size(3)}, t.scalar_type());
        return out.copy_(t);
      }
    return t;
  }
  // A filter after the other, whichever of its two layouts a weight has.
  static at::Tensor filters(const at::Tensor& w) {
    const bool dense = (w.size(0) <= 1 || w.stride(0) == w.size(kRows) * w.size(kColumns)) &&
                       (w.size(kRows) <= 1 || w.stride(kRows) == w.size(kColumns)) &&
                       (w.size(kColumns) <= 1 || w.stride(kColumns) == 1);
    return dense ? w : w.contiguous();
  }
  static bool is_aligned(const at::Tensor& t, const Plan& plan) {
    return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % (static_cast<size_t>(plan.items) * t.itemsize()) == 0;
  }

  const ByAten by_aten_;
};

class Forward final : public Convolution {
 public:
  Forward(const Call& call, const Assembler& assembler)
      : Convolution(call, assembler), kernels_(*problem_of_forward(call), Kind::Forward) {}

  void run(Frame& frame) const override {
    const at::Tensor &x = tensor(frame, 0), &weight = tensor(frame, 1);
    const bool biased = is_tensor(2);
    const bool plain = !frame.watched && is_plain(x) && is_plain(weight) && (!biased || is_plain(tensor(frame, 2)));
    if (!plain || x.numel() == 0) return by_aten_.run(*this, frame);
    const c10::OptionalDeviceGuard guard(x.device());
    const int device = x.device().index();
    const CudaKernel* kernel = kernels_.find("depthwise_forward", device);
    const at::Tensor from = channels_last(x), w = filters(weight);
    if (!kernel || !is_aligned(from, kernels_.plan)) return by_aten_.run(*this, frame);
    const at::Tensor bias = biased ? tensor(frame, 2).contiguous() : at::Tensor();
    const Problem& p = kernels_.plan.problem;
    at::Tensor out = image({x.size(0), p.channels, (x.size(kRows) + 2 * p.padding_y - p.height) / p.stride_y + 1,
                            (x.size(kColumns) + 2 * p.padding_x - p.width) / p.stride_x + 1},
                           x.scalar_type());
    if (out.numel() > 0) {
      const ConvolutionSizes sizes(x, out);
      launch(*kernel, kernels_.plan, launch_of(kernels_.plan, sizes, device), sizes, device, from.const_data_ptr(),
             w.const_data_ptr(), biased ? bias.const_data_ptr() : nullptr, out.mutable_data_ptr());
    }
    drop(frame);
    if (outputs[0] >= 0) frame.registers[static_cast<size_t>(outputs[0])] = std::move(out);
  }

 private:
  const PlanKernels kernels_;
};

class ConvolutionBackward final : public Convolution {
 public:
  ConvolutionBackward(const Call& call, const Assembler& assembler) : Convolution(call, assembler) {
    const Problem p = *problem_of_backward(call);
    const ArgList& mask = call.arguments()["output_mask"].items();
    for (size_t i = 0; i < wanted_.size(); ++i) wanted_[i] = mask[i].boolean();
    if (wanted_[0]) input_.emplace(p, Kind::Input);
    if (wanted_[1] || wanted_[2]) weight_.emplace(p, Kind::Weight, wanted_[2]);
  }

  void run(Frame& frame) const override {
    const at::Tensor &given = tensor(frame, 0), &x = tensor(frame, 1), &weight = tensor(frame, 2);
    const bool plain = !frame.watched && is_plain(given) && is_plain(x) && is_plain(weight);
    if (!plain || given.numel() == 0 || x.numel() == 0) return by_aten_.run(*this, frame);
    const c10::OptionalDeviceGuard guard(x.device());
    const int device = x.device().index();
    const CudaKernel* of_input = input_ ? input_->find("depthwise_input", device) : nullptr;
    const CudaKernel* of_weight = weight_ ? weight_->find("depthwise_weight", device) : nullptr;
    const CudaKernel* join = of_weight ? weight_->find("depthwise_join", device) : nullptr;
    const at::Tensor g = channels_last(given), from = channels_last(x), w = filters(weight);
    const bool ready = (!input_ || of_input) && (!weight_ || join);
    const Plan& plan = input_ ? input_->plan : weight_->plan;
    if (!ready || !is_aligned(g, plan) || !is_aligned(from, plan)) return by_aten_.run(*this, frame);
    std::array<at::Tensor, 3> out;
    const ConvolutionSizes sizes(x, g);
    if (of_input) {
      out[0] = image({x.size(0), x.size(1), x.size(2), x.size(3)}, x.scalar_type());
      launch(*of_input, input_->plan, launch_of(input_->plan, sizes, device), sizes, device, g.const_data_ptr(),
             w.const_data_ptr(), out[0].mutable_data_ptr());
    }
    if (join) gradients_of_filters(*of_weight, *join, g, from, sizes, device, out);
    drop(frame);
    for (size_t i = 0; i < out.size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = std::move(out[i]);
  }

 private:
  void gradients_of_filters(const CudaKernel& kernel, const CudaKernel& join, const at::Tensor& g, const at::Tensor& x,
                            const ConvolutionSizes& sizes, int device, std::array<at::Tensor, 3>& out) const {
    const Plan& plan = weight_->plan;
    const Problem& p = plan.problem;
    const Launch l = launch_of(plan, sizes, device);
    if (wanted_[1]) out[1] = image({p.channels, 1, p.height, p.width}, x.scalar_type());
    if (wanted_[2]) out[2] = allocate(c10::DeviceType::CUDA, {p.channels}, {1}, x.scalar_type());
    at::Tensor parts = allocate(c10::DeviceType::CUDA, {depthwise::partial_numbers(plan, l)}, {1}, at::kFloat);
    launch(kernel, plan, l, sizes, device, g.const_data_ptr(), x.const_data_ptr(), parts.mutable_data_ptr());
    const void* from = parts.const_data_ptr();
    void* dw = wanted_[1] ? out[1].mutable_data_ptr() : nullptr;
    void* db = wanted_[2] ? out[2].mutable_data_ptr() : nullptr;
    int channels = sizes.channels, count = static_cast<int>(l.blocks_x);
    void* params[] = {&from, &dw, &db, &channels, &count};
    join.launch(device, {over(channels, 32), static_cast<unsigned>(depthwise::results_of(plan))},
                {depthwise::kJoinThreads}, 0, current_cuda_stream(device), params);
  }

  std::array<bool, 3> wanted_{};  // gradients of the input, the weight, the bias
  std::optional<PlanKernels> input_, weight_;
};

class DepthwiseExecutor final : public Executor {
 public:
  DepthwiseExecutor() : Executor("depthwise") {
    register_implementation(
        kForward, implementing(kForward, name(), [](const Call& c) { return problem_of_forward(c).has_value(); }));
    register_implementation(
        kBackward, implementing(kBackward, name(), [](const Call& c) { return problem_of_backward(c).has_value(); }));
  }
  bool has_eagers_bits() const override { return false; }
};

std::shared_ptr<Executor> make_depthwise() {
  register_lowering("depthwise", [](const Call& call, const Assembler& assembler) -> std::unique_ptr<Instruction> {
    if (call.op->implements->full_name == kForward) return std::make_unique<Forward>(call, assembler);
    return std::make_unique<ConvolutionBackward>(call, assembler);
  });
  return std::make_shared<DepthwiseExecutor>();
}

}  // namespace

ExecutorDefinition depthwise_executor() {
  return {.place = ExecutorPlace::Default, .rank = 20, .make = make_depthwise};
}

}  // namespace thunder
