#include "passes/row_major.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "passes/laid_out.h"

namespace thunder {
namespace {

// Their first operand is read along its last dimension.
constexpr std::array<std::string_view, 5> kAlongRows = {"torch.layer_norm", "torch.native_layer_norm", "torch.rms_norm",
                                                        "torch.linear", "torch.softmax.int"};

constexpr int64_t kSpread = 64;  // elements that one is broadcast to, from which on a copy in order costs less

bool walks_along_rows(const Call& call) {
  return std::find(kAlongRows.begin(), kAlongRows.end(), call.op->full_name) != kAlongRows.end();
}

class RowMajor {
 public:
  explicit RowMajor(const Trace& trace) : trace_(trace), layouts_(trace) {
    for (const Call* c : trace.calls) visit_all_inputs(*c, [&](Value v) { readers_[v.id()].push_back(c); });
  }

  Trace run() {
    for (const Call* call : trace_.calls)
      for (const Call* c : changed(*call)) layouts_.rewriter.builder.append(c);
    return any_ ? layouts_.finish() : trace_;
  }

 private:
  // The call over what its inputs are now, and a row-major form of its result where that is wanted.
  std::vector<const Call*> changed(const Call& call) {
    const bool reads = layouts_.reads_any(call), seed = wants_rows(call) || is_spread(call);
    if (!reads && !seed) return {&call};
    any_ = true;
    if (reads)
      return layouts_.rewriter.collect(
          call, [&] { layouts_.again(call, is_indifferent(call) || (!effects(call) && walks_along_rows(call))); });
    std::vector<const Call*> made = {&call};
    const Value out = call.output.value();
    const auto rows = [&] { layouts_.lay_out(out, layouts_.restrided(out, contiguous_strides(out.shape()))); };
    for (const Call* c : layouts_.rewriter.collect(call, rows)) made.push_back(c);
    return made;
  }

  bool wants_rows(const Call& call) const {
    if (!call.op->has(kPointwise) || !call.output.is_value() || !call.output.value().type().is_tensor()) return false;
    const Value out = call.output.value();
    if (!is_permuted(out.tensor())) return false;
    bool one_is_by_rows = false;
    visit_all_inputs(call, [&](Value v) {
      one_is_by_rows |= v.type().is_tensor() && has_known_layout(v.tensor()) && is_contiguous(v.tensor()) &&
                        v.rank() >= 2 && v.shape().back().same(out.shape().back());
    });
    const auto it = readers_.find(out.id());
    return one_is_by_rows && it != readers_.end() &&
           std::any_of(it->second.begin(), it->second.end(), [&](const Call* c) {
             return walks_along_rows(*c) && c->args[0].is_value() && c->args[0].value() == out;
           });
  }

  // A GPU's kernel that broadcasts a permuted value would read each of its elements by itself, each time.
  bool is_spread(const Call& call) const {
    if (!call.output.is_value() || !call.output.value().type().is_tensor() || effects(call)) return false;
    const Value out = call.output.value();
    const auto it = readers_.find(out.id());
    if (it == readers_.end() || out.tensor().device.type != DeviceType::cuda || !is_permuted(out.tensor()))
      return false;
    const int64_t size = out.tensor().numel().constant();
    return std::any_of(it->second.begin(), it->second.end(), [&](const Call* c) {
      if (!c->op->has(kPointwise) || !c->output.is_value() || !c->output.value().type().is_tensor()) return false;
      const Dim n = c->output.value().tensor().numel();
      return n.is_constant() && n.constant() >= kSpread * size;
    });
  }

  const Trace& trace_;
  LaidOut layouts_;
  std::unordered_map<ValueId, std::vector<const Call*>> readers_;
  bool any_ = false;
};

}  // namespace

Trace row_major(const Trace& trace) { return trace.calls.empty() ? trace : RowMajor(trace).run(); }

}  // namespace thunder
