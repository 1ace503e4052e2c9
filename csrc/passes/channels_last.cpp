#include "passes/channels_last.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "passes/laid_out.h"

namespace thunder {
namespace {

// Their values do not depend on the layout, and their results follow it.
constexpr std::array<std::string_view, 4> kConvolutions = {"torch.conv2d", "torch.conv_transpose2d", "torch.conv3d",
                                                           "torch.conv_transpose3d"};
constexpr std::array<std::string_view, 13> kOfImages = {"torch.batch_norm_functional",
                                                        "torch.max_pool2d",
                                                        "torch.max_pool3d",
                                                        "torch.avg_pool2d",
                                                        "torch.avg_pool3d",
                                                        "torch.adaptive_avg_pool2d",
                                                        "torch.mean",
                                                        "torch.sum",
                                                        "torch.cat",
                                                        "torch.pad",
                                                        "torch.upsample_nearest2d",
                                                        "torch._upsample_nearest_exact2d",
                                                        "torch.upsample_bilinear2d"};

bool is_one_of(std::span<const std::string_view> names, const Call& call) {
  return std::find(names.begin(), names.end(), call.op->full_name) != names.end();
}
bool is_convolution(const Call& call) { return is_one_of(kConvolutions, call); }
bool is_any_convolution(const Call& call) {
  return call.op->full_name.starts_with("torch.conv") && call.op->has(kMatmul);
}

bool can_lie_so(const TensorType& t) { return (t.rank() == 4 || t.rank() == 5) && has_known_layout(t); }

const TensorType* image(const Arg& a) {
  if (!a.is_tensor()) return nullptr;
  const TensorType& t = a.value().tensor();
  const bool half = t.dtype == DType::f16 || t.dtype == DType::bf16;
  return half && t.device.type == DeviceType::cuda && can_lie_so(t) ? &t : nullptr;
}

// The number of groups that the call normalises: of a group norm, or the channels of an instance norm without running
// statistics.  Nothing for other calls.
std::optional<Arg> groups_of_norm(const Call& call) {
  const Args a = call.arguments();
  if (call.op->full_name == "torch.group_norm") return a["num_groups"];
  if (call.op->full_name != "torch.instance_norm" || !a.flag("use_input_stats") || a.has("running_mean")) return {};
  return call.args[0].value().shape()[1];
}

bool lies_channels_last(Value v) {
  const TensorType& t = v.tensor();
  return can_lie_so(t) && lies_so(t, channels_last_strides(t.shape));
}

bool is_grouped(const Call& call) { return call.arguments().integer("groups") != 1; }

// All convolutions are of images or volumes that can lie channels last; and one at least is not yet.
bool is_for(const Trace& trace) {
  bool any = false;
  for (const Call* call : trace.calls) {
    if (!is_any_convolution(*call)) continue;
    if (!is_convolution(*call) || !image(call->args[0]) || !image(call->args[1])) return false;
    if (!call->arguments()["groups"].is_literal_number()) return false;
    any |= is_contiguous(*image(call->args[0]));
  }
  return any;
}

class ChannelsLast {
 public:
  ChannelsLast(const Trace& trace, const ExecutorList& executors)
      : trace_(trace), executors_(executors), layouts_(trace) {}

  Trace run() {
    size_t convolutions = 0;
    for (const Call* call : trace_.calls) {
      convolutions += is_convolution(*call);
      for (const Call* c : changed(*call)) layouts_.rewriter.builder.append(c);
    }
    Trace out = layouts_.finish();
    const bool all = std::all_of(out.calls.begin(), out.calls.end(), [&](const Call* c) { return has_kernels(*c); });
    return all && 2 * (layouts_.restored(4) + layouts_.restored(5)) <= convolutions ? out : trace_;
  }

 private:
  std::vector<const Call*> changed(const Call& call) {
    const std::optional<Arg> groups = groups_of_norm(call);
    const bool norm = groups && lies_channels_last(now(call.args[0].value()));
    if (!is_convolution(call) && !norm && !layouts_.reads_any(call)) return {&call};
    return layouts_.rewriter.collect(call, [&] {
      if (is_convolution(call)) {
        put_channels_last(call.args[0].value());
        put_channels_last(call.args[1].value());
      }
      if (norm) norm_of_groups(call, *groups);
      else layouts_.again(call, takes(call));
    });
  }

  bool has_kernels(const Call& call) const { return !is_convolution(call) || !is_grouped(call) || is_taken(call); }
  // The call, or one that it consists of.
  bool is_taken(const Call& call) const {
    return find_specialist(executors_, call) ||
           std::any_of(call.body.begin(), call.body.end(), [&](const Call* c) { return is_taken(*c); });
  }

  static bool takes(const Call& call) {
    if (is_indifferent(call)) return true;
    return is_convolution(call) || (!effects(call) && is_one_of(kOfImages, call));
  }

  Value now(Value v) const { return layouts_.now(v) ? layouts_.now(v) : v; }

  void put_channels_last(Value v) {
    if (!lies_channels_last(now(v))) layouts_.lay_out(v, layouts_.restrided(now(v), channels_last_strides(v.shape())));
  }

  // PyTorch's result lies by rows on a GPU, wherever the image lies.
  void norm_of_groups(const Call& call, const Arg& groups) {
    const Args a = call.arguments();
    const Value image = now(call.args[0].value());
    const Dims& shape = image.shape();
    const Dim positions = product(Dims(shape.begin() + 2, shape.end()));
    const Expr norm = layouts_.rewriter.builder("torch.group_norm_as_laid_out", image, a["weight"], a["bias"], shape[0],
                                                shape[1], positions, groups, a["eps"])[0];
    layouts_.lay_out(call.output.value(), norm.value());
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  LaidOut layouts_;
};

}  // namespace

Trace channels_last(const Trace& trace, const ExecutorList& executors) {
  return is_for(trace) ? ChannelsLast(trace, executors).run() : trace;
}

Trace gradients_as_inputs(const Trace& joint) {
  const ArgList& gradients = joint.output.items().at(1).items();
  Rewriter rewriter(joint);
  for (const Call* call : joint.calls) rewriter.builder.append(call);
  ArgList out = gradients;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].is_tensor() || !joint.inputs[i].type().is_tensor()) continue;
    const TensorType &g = gradients[i].value().tensor(), &of = joint.inputs[i].tensor();
    if (!can_lie_so(g) || !is_contiguous(of) || lies_so(g, of.strides)) continue;
    if (lies_so(g, channels_last_strides(g.shape)))
      out[i] = rewriter.builder("prims.restride", gradients[i].value(), of.strides).arg();
  }
  Trace changed = rewriter.finish();
  changed.output = Arg::tuple({joint.output.items()[0], Arg::tuple(std::move(out))});
  return changed.calls.size() == joint.calls.size() ? joint : changed;
}

}  // namespace thunder
