#include "passes/pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "passes/attention_layout.h"
#include "passes/autodiff.h"
#include "passes/counted_random.h"
#include "passes/group_heads.h"
#include "passes/one_hot_sums.h"
#include "passes/passes.h"
#include "passes/reach.h"
#include "passes/repeated.h"

namespace thunder {
namespace {

const PassName kLayout{"attention_layout", "Attention Layout"};
const PassName kCountedRandom{"counted_random", "Random Numbers By Counting"};
const PassName kDce{"dce", "Dead Code Elimination"};
const PassName kCse{"cse", "Common Subexpression Elimination"};
const PassName kGroupHeads{"group_heads", "Grouped Heads In Attention"};
const PassName kRules{"executor_rules", "Executor Gradient Rules"};
const PassName kAutodiff{"autodiff", "Autodiff"};
const PassName kJointCse{"joint_cse", "Joint Common Subexpression Elimination"};
const PassName kOpen{"open", "Opening For Fusion"};
const PassName kSplit{"split", "Forward Backward Split"};
const PassName kOneHot{"one_hot_sums", "Sums Of One-Hot Rows"};
const PassName kClaim{"claim", "Transform For Execution"};
const PassName kDel{"delete_last_used", "Delete Last Used"};

class Pipeline {
 public:
  explicit Pipeline(const CompileOptions& options) : options_(options) {
    // The fusion executors need no say in claiming; what they compute again costs no memory traffic.
    fuses_ =
        std::any_of(options.executors.begin(), options.executors.end(), [](const auto& e) { return e->is_fusion(); });
  }

  Compiled compile(const Trace& acquired, bool with_grad) {
    THUNDER_CHECK(acquired.output.is_sequence(), Value, acquired.name,
                  "compile() takes a trace whose output is a flat tuple");
    c_.history.push_back(acquired);
    Trace t = clean(acquired);
    c_.differentiable_outputs = with_grad ? differentiable_outputs(t) : std::vector<size_t>{};
    c_.has_backward = !c_.differentiable_outputs.empty();
    if (c_.has_backward) {
      differentiate(t);
    } else {
      t.name = "computation";
      c_.forward = finish(t, c_.history, repeated_values({&t}, visible_values(t)));
    }
    collect();
    return std::move(c_);
  }

 private:
  template <class F>
  Trace run(const PassName& name, const Trace& t, TraceHistory& history, F&& pass, bool required = true) {
    return run_pass(name, t, std::forward<F>(pass), options_.passes, &history, required);
  }

  Trace clean(const Trace& acquired) {
    Trace t = acquired;
    // The user's rewrites see the program as it was acquired, before we take anything out of it.
    for (const auto& [name, transform] : options_.transforms) t = run(name, t, c_.history, transform);
    // Leaves the expansions of keys and values behind as dead code.
    t = run(
        kGroupHeads, t, c_.history, [&](const Trace& x) { return group_heads(x, options_.executors); }, false);
    // Once heads are grouped, so that the small keys are laid out; before autodiff, so that gradients are laid out
    // alike.
    if (fuses_)
      t = run(
          kLayout, t, c_.history, [](const Trace& x) { return attention_layout(x); }, false);
    // Behind the passes that look for whole calls of attention, of which one with dropout is opened.
    if (fuses_ && options_.fusion.counted_random)
      t = run(
          kCountedRandom, t, c_.history, [&](const Trace& x) { return counted_random(x, options_.executors); }, false);
    // Dead code early: it costs the later passes time, and nothing may be saved for it.
    t = run(
        kDce, t, c_.history, [](const Trace& x) { return dce(x); }, false);
    // Before autodiff, so that a value computed twice is differentiated once.
    return run(
        kCse, t, c_.history, [](const Trace& x) { return cse(x); }, false);
  }

  void differentiate(const Trace& t) {
    // An executor that differentiates a call by itself must replace it while it is whole.
    Trace primal =
        run(kRules, t, c_.history, [&](const Trace& x) { return executor_gradient_rules(x, options_.executors); });
    c_.reaches = reached_outputs(primal, c_.differentiable_outputs);
    JointTrace joint;
    run(kAutodiff, primal, c_.history, [&](const Trace& x) {
      joint = autodiff(x);
      return joint.trace;
    });
    // Rules repeat each other, and what the forward has computed.  The forward's own calls stay: split() closes them
    // again.
    joint.trace = run(
        kJointCse, joint.trace, c_.history, [&](const Trace& x) { return cse(x, joint.forward_calls); }, false);
    const Visible visible = visible_values(joint.trace);
    // A fusion executor computes parts of a composite again as easily as the whole.
    if (fuses_)
      joint.trace = run(
          kOpen, joint.trace, c_.history, [&](const Trace& x) { return open_for_fusion(x, joint); }, false);
    ForwardBackward parts;
    Trace forward = run(kSplit, joint.trace, c_.history, [&](const Trace&) {
      parts = split(joint, {.aggressive_recompute = fuses_});
      return parts.forward;
    });
    Trace backward = run(kSplit, parts.backward, c_.backward_history, [](const Trace& x) { return x; });
    c_.saved_tensors = parts.saved_tensors;
    const Repeated repeated = repeated_values({&forward, &backward}, visible);
    c_.forward = finish(forward, c_.history, repeated);
    c_.backward = finish(backward, c_.backward_history, repeated);
  }

  // Opens what a fusion executor sees through, unless an executor before it takes the call whole.
  Trace open_for_fusion(const Trace& t, JointTrace& joint) {
    Trace out = t.derived();
    size_t forward_calls = 0;
    for (size_t i = 0; i < t.calls.size(); ++i) {
      for (const Call* c : opened(*t.calls[i], *t.arena)) out.calls.push_back(c);
      if (i + 1 == joint.forward_calls) forward_calls = out.calls.size();
    }
    joint.forward_calls = forward_calls;
    joint.forward.assign(out.calls.begin(), out.calls.begin() + static_cast<ptrdiff_t>(forward_calls));
    return out;
  }

  std::vector<const Call*> opened(const Call& call, Arena& arena) {
    if (!call.op->executor.empty()) return {&call};  // what it stands for is not what its executor runs
    for (const auto& e : options_.executors) {
      if (e->is_fusion()) return e->open(call, arena);
      if (e->find(call)) break;
    }
    return {&call};
  }

  // From a program of operators to one that runs.
  Trace finish(const Trace& trace, TraceHistory& history, const Repeated& repeated) {
    // Opened by now, and not yet divided among executors: a kernel less, or a phase of one.
    Trace t = run(
        kOneHot, trace, history, [](const Trace& x) { return one_hot_sums(x); }, false);
    t = run(kClaim, t, history, [&](const Trace& x) { return claim(x, options_.executors); });
    // Claimed calls keep their bodies, so a fusion executor sees through those of executors after it in the list.
    for (const auto& e : options_.executors)
      if (e->is_fusion())
        t = run(
            {e->name(), "Fusion by " + e->name()}, t, history,
            [&](const Trace& x) { return claim(e->fuse(x, options_.fusion, repeated), options_.executors); }, false);
    // Opened composites may hold calls that only served other results, and a region its own copy of what stands
    // outside.
    t = run(
        kDce, t, history, [](const Trace& x) { return dce(x); }, false);
    // Last, since every other pass moves the end of a value's life.
    return run(kDel, t, history, [](const Trace& x) { return delete_last_used(x); });
  }

  // Claiming may have replaced values, so they are read off the final program.
  void collect() {
    const Trace& f = c_.forward;
    const Arg* outputs = &f.output;
    if (c_.has_backward) {
      outputs = &f.output.items()[0].entries()[2].second;
      for (const Arg& list : f.output.items()[1].items())
        for (const Arg& a : list.items()) {
          THUNDER_ASSERT(a.is_value(), "a saved value became a literal");
          c_.saved.push_back(a.value());
        }
    }
    for (const Arg& a : outputs->items()) c_.flat_outputs.push_back(a.is_value() ? a.value() : Value());
  }

  const CompileOptions& options_;
  bool fuses_ = false;
  Compiled c_;
};

}  // namespace

Compiled compile(const Trace& acquired, const CompileOptions& options, bool with_grad) {
  return Pipeline(options).compile(acquired, with_grad);
}

}  // namespace thunder
