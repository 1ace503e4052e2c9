#include "passes/known_masks.h"

#include <algorithm>

#include "core/dim_algebra.h"
#include "core/rewrite.h"
#include "ops/common.h"
#include "ops/torch/attention.h"
#include "passes/mask_programs.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using ops::torch::kAttention;

class Masks {
 public:
  Masks(const Trace& trace, const MaskReader& reader, const ExecutorList& executors)
      : trace_(trace), programs_(trace, reader), executors_(executors), rewriter_(trace) {}

  Trace run() {
    for (const Call* call : trace_.calls) {
      programs_.note(*call);
      if (call->op->full_name == "torch.where") choices_.set(call->output.value(), call);
      if (call->op->full_name == kAttention && (replace(*call) || replace_choice(*call))) continue;
      for (const Call* c : rewriter_.current(call)) rewriter_.builder.append(c);
    }
    return rewriter_.finish();
  }

 private:
  bool replace(const Call& call) {
    const Args a = call.arguments();
    if (!a["attn_mask"].is_value() || a.flag("is_causal") || !programs_.is_known(a.value("attn_mask"))) return false;
    const Value mask = a.value("attn_mask");
    const KnownMask& known = programs_.kind(mask);
    if (known.kind == MaskKind::Other || (known.kind == MaskKind::Causal && !is_square(a))) return false;
    const bool window = known.kind == MaskKind::Window;
    if (window && !has_all_places(a)) return false;
    Arg result;
    std::vector<const Call*> made = rewriter_.collect(call, [&] {
      if (window) result = windowed(a, known);
      else result = rewriter_.builder.call(*call.op, without_mask(call, known.kind == MaskKind::Causal));
    });
    if (window && (made.size() != 1 || !is_taken(*made.front()))) return false;
    put(call, made, result, mask, known);
    return true;
  }

  // A mask that is x where a condition holds, which is known to hold everywhere.
  bool replace_choice(const Call& call) {
    const Args a = call.arguments();
    const Call* choice = a["attn_mask"].is_value() ? choices_[a.value("attn_mask")] : nullptr;
    if (!choice) return false;
    const Args of = choice->arguments();
    const Value condition = of.value("condition"), mask = a.value("attn_mask");
    if (!programs_.is_known(condition) || !of["input"].is_tensor()) return false;
    const TensorType& chosen = of.tensor("input");
    if (chosen.requires_grad != mask.requires_grad() || chosen.device != mask.tensor().device) return false;
    const KnownMask& known = programs_.kind(condition);
    if (known.kind != MaskKind::Full) return false;
    Arg result, simpler;
    std::vector<const Call*> made = rewriter_.collect(call, [&] {
      Builder& b = rewriter_.builder;
      ArgList args = call.args;
      simpler = ops::expand_to(b, ops::convert(b, of["input"], mask.dtype()), mask.shape());
      args[static_cast<size_t>(call.op->schema.index_of("attn_mask"))] = simpler;
      result = b.call(*call.op, std::move(args));
    });
    if (!ops::torch::draws_alike(a, simpler.value().tensor())) return false;
    put(call, made, result, condition, known);
    return true;
  }

  // The calls that stand for one of attention, which depend on what the mask is.
  void put(const Call& call, const std::vector<const Call*>& made, const Arg& result, Value mask,
           const KnownMask& known) {
    rewriter_.replace_outputs(call, result, "attention with a known mask");
    programs_.depend_on(mask, known);
    for (const Call* m : made)
      for (const Call* c : rewriter_.current(m)) rewriter_.builder.append(c);
  }

  static ArgList without_mask(const Call& call, bool causal) {
    ArgList args = call.args;
    args[static_cast<size_t>(call.op->schema.index_of("attn_mask"))] = {};
    args[static_cast<size_t>(call.op->schema.index_of("is_causal"))] = causal;
    return args;
  }

  Arg windowed(const Args& a, const KnownMask& known) {
    return rewriter_
        .builder(ops::torch::kWindowedAttention, a["query"], a["key"], a["value"], known.left, known.right,
                 a["dropout_p"], kw("scale", a["scale"]), kw("enable_gqa", a["enable_gqa"]))
        .arg();
  }

  bool is_taken(const Call& call) const {
    return std::any_of(executors_.begin(), executors_.end(), [&](const auto& e) { return e->find(call); });
  }

  static bool has_all_places(const Args& a) {
    const Dims &q = a.tensor("query").shape, &k = a.tensor("key").shape, &mask = a.tensor("attn_mask").shape;
    return q.size() == 4 && k.size() == 4 && q[2].same(mask[mask.size() - 2]) && k[2].same(mask.back());
  }

  // Whether two sizes are equal in the call being compiled.  If they are, the program depends on it by a guard.
  static bool is_equal(const Dim& a, const Dim& b) {
    if (a.same(b)) return true;
    if (!ShapeEnv::current() || known_in_run_alone(a) || known_in_run_alone(b)) return false;
    return usual_value(a, 0) == usual_value(b, 0) && a == b;
  }

  // A mask of one row serves every query, and kernels differ in what is causal where there are more keys than queries.
  static bool is_square(const Args& a) {
    const Dims &q = a.tensor("query").shape, &k = a.tensor("key").shape, &mask = a.tensor("attn_mask").shape;
    const Dim& rows = q[q.size() - 2];
    return is_equal(rows, k[k.size() - 2]) && is_equal(rows, mask[mask.size() - 2]) && is_equal(rows, mask.back());
  }

  const Trace& trace_;
  MaskPrograms programs_;
  const ExecutorList& executors_;
  Rewriter rewriter_;
  ValueMap<const Call*> choices_;  // by torch.where
};

bool has_mask(const Call& c) { return c.op->full_name == kAttention && c.arguments()["attn_mask"].is_value(); }

}  // namespace

Trace known_masks(const Trace& trace, const MaskReader& reader, const ExecutorList& executors) {
  const bool any = std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return has_mask(*c); });
  return any ? Masks(trace, reader, executors).run() : trace;
}

}  // namespace thunder
