// What recordings cost in memory and in copies, and the limits of both where nobody asked for graphs.
#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "runtime/graph_support.h"
#include "runtime/graphs.h"

namespace thunder {
namespace {

constexpr double kCopied = 1e6;       // bytes that a device copies in a microsecond
constexpr double kCopying = 0.25;     // of the time that the host needs to issue a run: copies for a device that waits
constexpr double kPauses = 0.06;      // the same for one that does not: what it saves between its kernels
constexpr int64_t kShareTwice = 4;    // of a step's memory: copies of results beside it are at most a quarter
constexpr int64_t kSmallShare = 256;  // of the device's memory: so small copies do not matter

}  // namespace

int64_t bytes_of(const at::Tensor& t) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
}

std::string megabytes(int64_t bytes) { return cat((bytes + (1 << 19)) >> 20, " MB"); }

int64_t EntryGraphs::most_bytes() const {
  int64_t kept = 0;
  for (const auto& spec : specs_)
    for (const auto& g : spec->graphs) {
      kept += g->recording->bytes();
      for (const auto& b : g->backwards) kept += b->recording->bytes();
    }
  return settings_->most_bytes(index_, kept);
}

bool EntryGraphs::too_large(Direction& direction, GraphSpecialization::Direction& spec, int64_t bytes, int64_t most) {
  if (bytes <= most) return false;
  give_up(direction, spec,
          cat("it would keep ", megabytes(bytes), ", and may keep ", megabytes(std::max<int64_t>(0, most))));
  return true;
}

EntryGraphs::Copied EntryGraphs::copied(const Programs& programs, const GraphSpecialization& spec,
                                        const ForwardGraph& graph) {
  Copied out;
  const std::vector<int64_t>&outputs = spec.forward.given, &gradients = spec.backward.given;
  const auto lent = [&](const GraphSpecialization::Direction& direction, size_t i) {
    return graph.lends && direction.handed.drops(i);
  };
  for (size_t i = 0; i < outputs.size(); ++i) out.outputs += lent(spec.forward, i) ? 0 : outputs[i];
  for (size_t i = 0; i < gradients.size(); ++i) out.gradients += lent(spec.backward, i) ? 0 : gradients[i];
  // As large as the outputs.
  for (size_t k = 0; k < programs.differentiable_outputs.size(); ++k) {
    const size_t i = programs.differentiable_outputs[k];
    const bool missing = k < spec.missing.size() && spec.missing[k];
    if (!missing && i < outputs.size()) out.cotangents += outputs[i];
  }
  return out;
}

// Arguments, and what is given to the caller.
bool EntryGraphs::copies_too_much(Direction& direction, GraphSpecialization& spec, const Values& inputs,
                                  const std::vector<Place>& places, const Copied& copies) {
  if (!settings_->automatic) return false;
  spec.backward.times.settle();
  const bool forward = &direction == &forward_;
  GraphSpecialization::Direction& of_spec = forward ? spec.forward : spec.backward;
  int64_t copied = forward ? copies.outputs : copies.gradients;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const at::Tensor* t = places[i] == Place::Buffer ? defined_tensor(inputs[i]) : nullptr) copied += bytes_of(*t);
  const auto takes_too_long = [](int64_t bytes, double most) { return static_cast<double>(bytes) / kCopied > most; };
  const double issued = of_spec.times.issued(), backward = spec.backward.times.issued();
  // A forward is not recorded without its backward.
  const bool gradients = forward && takes_too_long(copies.gradients, kCopying * backward);
  bool too_long = gradients || takes_too_long(copied, kCopying * issued);
  if (forward && !too_long && of_spec.times.verdict() == RunTimes::Verdict::Helps) {
    if (trains_ && std::isinf(backward)) return true;  // no backward has been timed yet
    copied += copies.cotangents + copies.gradients;
    too_long = takes_too_long(copied, kPauses * (trains_ ? issued + backward : issued));
  }
  if (!too_long) return false;
  give_up(direction, of_spec,
          cat("copies of ", megabytes(gradients ? copies.gradients : copied), gradients ? " of gradients" : "",
              " would take the device longer than a graph saves"));
  return true;
}

// Outputs and gradients of a recording, which are copied for the caller.
bool EntryGraphs::holds_too_much_twice(GraphSpecialization& spec, const Copied& copies) {
  if (!settings_->automatic) return false;
  const int64_t twice = copies.outputs + copies.gradients;
  const int64_t once = std::max({forward_.live, backward_.live, spec.forward.results});
  if (twice <= once / kShareTwice || twice <= settings_->memory(index_).first / kSmallShare) return false;
  give_up(forward_, spec.forward, cat(megabytes(twice), " of outputs and gradients would be in memory twice"));
  return true;
}

}  // namespace thunder
