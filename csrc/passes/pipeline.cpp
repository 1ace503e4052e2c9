#include "passes/pipeline.h"

#include <algorithm>

#include "core/error.h"
#include "passes/aligned_products.h"
#include "passes/attention_layout.h"
#include "passes/autodiff.h"
#include "passes/batched_products.h"
#include "passes/channels_last.h"
#include "passes/conversions.h"
#include "passes/counted_random.h"
#include "passes/distributed/comm_buckets.h"
#include "passes/distributed/comm_schedule.h"
#include "passes/distributed/distribute.h"
#include "passes/distributed/late_waits.h"
#include "passes/group_heads.h"
#include "passes/narrow_masks.h"
#include "passes/one_hot_sums.h"
#include "passes/passes.h"
#include "passes/prepare.h"
#include "passes/reach.h"
#include "passes/repeated.h"
#include "passes/row_major.h"
#include "passes/row_sums.h"
#include "passes/wide_rows.h"

namespace thunder {
namespace {

const PassName kLayout{"attention_layout", "Attention Layout"};
const PassName kCountedRandom{"counted_random", "Random Numbers By Counting"};
const PassName kDce{"dce", "Dead Code Elimination"};
const PassName kCse{"cse", "Common Subexpression Elimination"};
const PassName kFloat8{"float8", "Linear Layers In Float8"};
const PassName kRecords{"float8_records", "Maxima In One Record"};
const PassName kMasks{"known_masks", "Known Masks"};
const PassName kNarrow{"narrow_masks", "Narrow Masks"};
const PassName kPrepare{"prepare", "Prepared Arguments"};
const PassName kRowMajor{"row_major", "Row-Major Values"};
const PassName kChannelsLast{"channels_last", "Channels Last"};
const PassName kGradientLayout{"gradient_layout", "Gradients Laid Out As Inputs"};
const PassName kGroupHeads{"group_heads", "Grouped Heads In Attention"};
const PassName kRules{"executor_rules", "Executor Gradient Rules"};
const PassName kAutodiff{"autodiff", "Autodiff"};
const PassName kJointCse{"joint_cse", "Joint Common Subexpression Elimination"};
const PassName kDistribute{"distribute", "Distributed Parameters"};
const PassName kBuckets{"comm_buckets", "Communication In Buckets"};
const PassName kLateWaits{"late_waits", "Late Waits"};
const PassName kSchedule{"comm_schedule", "Communication Schedule"};
const PassName kRowSums{"row_sums", "Sums Of Rows"};
const PassName kOpen{"open", "Opening For Fusion"};
const PassName kAligned{"aligned_products", "Aligned Products"};
const PassName kBatched{"batched_products", "Batched Products"};
const PassName kWide{"wide_rows", "Wide Rows"};
const PassName kSplit{"split", "Forward Backward Split"};
const PassName kOneHot{"one_hot_sums", "Sums Of One-Hot Rows"};
const PassName kClaim{"claim", "Transform For Execution"};
const PassName kConverted{"converted_products", "Converted Products"};
const PassName kJoined{"joined_conversions", "Joined Conversions"};
const PassName kDel{"delete_last_used", "Delete Last Used"};

class Pipeline {
 public:
  Pipeline(const CompileOptions& options, const distributed::Distribution& distribution)
      : options_(options), distribution_(distribution) {
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
      c_.primal.reset();
      t.name = "computation";
      size_t all = t.calls.size();
      t = with_row_sums(t, all);
      if (fuses_) t = aligned(t, all);
      if (distribution_)
        t = run(kDistribute, t, c_.history,
                [&](const Trace& x) { return distributed::distribute(x, distribution_, collectives_); });
      c_.forward = finish(t, c_.history, repeated_values({&t}, visible_values(t)), Half::Forward);
    }
    collect();
    return std::move(c_);
  }

  /// Parameters that the backward must take from the forward for the program to be of use.
  const std::set<size_t>& too_late() const { return too_late_; }

 private:
  template <class F>
  Trace run(const PassName& name, const Trace& t, TraceHistory& history, F&& pass, bool required = true) {
    return run_pass(name, t, std::forward<F>(pass), options_.passes, &history, required);
  }

  Trace clean(const Trace& acquired) {
    Trace t = acquired;
    // The user's rewrites see the program as it was acquired, before we take anything out of it.
    for (const auto& [name, transform] : options_.transforms) t = run(name, t, c_.history, transform);
    if (!distribution_ && options_.float8.layers.empty()) c_.primal = t;
    // The records of linear layers must still be as the program called them.
    if (!options_.float8.layers.empty())
      t = run(kFloat8, t, c_.history, [&](const Trace& x) { return float8(x, options_.float8); });
    // First, since what later passes make of attention depends on its mask.  Kernels for other masks round otherwise.
    if (options_.masks.classify && !options_.fusion.eager_numerics)
      t = run(
          kMasks, t, c_.history, [&](const Trace& x) { return known_masks(x, options_.masks, options_.executors); },
          false);
    // Before executors are asked what they make of a mask.
    t = run(
        kNarrow, t, c_.history, [](const Trace& x) { return narrow_masks(x); }, false);
    // Leaves the expansions of keys and values behind as dead code.
    t = run(
        kGroupHeads, t, c_.history, [&](const Trace& x) { return group_heads(x, options_.executors); }, false);
    // Before row_major, which looks at what stands behind a convolution.  Kernels for another layout round otherwise.
    if (fuses_ && !options_.fusion.eager_numerics)
      t = run(
          kChannelsLast, t, c_.history, [&](const Trace& x) { return channels_last(x, options_.executors); }, false);
    // Sums of 16 bits are rounded in the order in which they lie in memory.
    if (fuses_ && !options_.fusion.eager_numerics)
      t = run(
          kRowMajor, t, c_.history, [](const Trace& x) { return row_major(x); }, false);
    // Once heads are grouped, so that the small keys are laid out; before autodiff, so that gradients are laid out
    // alike.
    if (fuses_)
      t = run(
          kLayout, t, c_.history, [](const Trace& x) { return attention_layout(x); }, false);
    // Once it is known who takes attention, and how; before what is common is found.
    t = run(
        kPrepare, t, c_.history, [&](const Trace& x) { return prepare(x, options_.executors); }, false);
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
    // Before anything reads gradients: collectives take them as parameters lie.  Only channels_last makes others so.
    if (fuses_ && !options_.fusion.eager_numerics)
      joint.trace = run(
          kGradientLayout, joint.trace, c_.history, [](const Trace& x) { return gradients_as_inputs(x); }, false);
    // Rules repeat each other, and what the forward has computed.  The forward's own calls stay: split() closes them
    // again.
    joint.trace = run(
        kJointCse, joint.trace, c_.history, [&](const Trace& x) { return cse(x, joint.forward_calls); }, false);
    // The rules put them into the history layer by layer.
    if (options_.float8.history)
      joint.trace = run(kRecords, joint.trace, c_.history, [](const Trace& x) { return float8_records(x); });
    // Autodiff is done with whole parameters; what is gathered can still be chosen to be saved or gathered again.
    if (distribution_) distribute(joint);
    sum_rows(joint);
    const Visible visible = visible_values(joint.trace);
    // A fusion executor computes parts of a composite again as easily as the whole.
    if (fuses_)
      joint.trace = run(
          kOpen, joint.trace, c_.history, [&](const Trace& x) { return open_for_fusion(x, joint); }, false);
    // Once all products are there, and before it is decided which form of a value is saved.
    if (fuses_) align_products(joint);
    ForwardBackward parts;
    Trace forward = run(kSplit, joint.trace, c_.history, [&](const Trace&) {
      parts = split(joint, split_options(joint));
      return parts.forward;
    });
    Trace backward = run(kSplit, parts.backward, c_.backward_history, [](const Trace& x) { return x; });
    c_.saved_tensors = parts.saved_tensors;
    const Repeated repeated = repeated_values({&forward, &backward}, visible);
    c_.forward = finish(forward, c_.history, repeated, Half::Forward);
    c_.backward = finish(backward, c_.backward_history, repeated, Half::Backward);
  }

  void distribute(JointTrace& joint) {
    // Other processes may use an output that this one's loss leaves out.
    for (const auto& [v, index] : distribution_.inputs) {
      const std::vector<Value>& inputs = joint.trace.inputs;
      c_.reaches[static_cast<size_t>(std::find(inputs.begin(), inputs.end(), v) - inputs.begin())] = ~uint64_t{0};
    }
    run(kDistribute, joint.trace, c_.history, [&](const Trace&) {
      joint = distributed::distribute(joint, distribution_, collectives_);
      return joint.trace;
    });
    c_.reaches.resize(joint.primal_inputs, ~uint64_t{0});
  }

  // Gathers that the backward repeats: all of them but those that are kept, or those that the first program's did.
  SplitOptions split_options(const JointTrace& joint) const {
    SplitOptions out{.aggressive_recompute = fuses_};
    if (!distribution_ || !distribution_.plan->regather) return out;
    const auto& order = distribution_.plan->order.regathers;
    std::vector<char> chosen;
    for (const distributed::PlannedParameter& p : distribution_.plan->parameters) chosen.push_back(!order && !p.kept);
    if (order)
      for (const distributed::Bucket& b : *order)
        for (size_t i : b) chosen[i] = !distribution_.saved.contains(i);
    for (size_t i = 0; i < joint.forward_calls; ++i) {
      const Call& call = *joint.trace.calls[i];
      const int index = collectives_.gather_of(call);
      if (index >= 0 && chosen[static_cast<size_t>(index)]) out.regathered.set(call.output.value(), 1);
      if (!call.op->has(kComm) || !call.args[0].is_value() || !out.regathered[call.args[0].value()]) continue;
      const Value whole = call.output.value();
      if (order) out.needed.push_back(whole);
      const distributed::PlannedParameter& p =
          distribution_.plan->parameters[static_cast<size_t>(collectives_.gathers[call.args[0].value()])];
      out.bucket_of.set(whole, static_cast<int>(p.bucket));
      out.bucket_bytes.resize(std::max(out.bucket_bytes.size(), p.bucket + 1));
      out.bucket_bytes[p.bucket] += itemsize(p.full.dtype) * p.full.numel().constant();
    }
    return out;
  }

  Trace with_row_sums(const Trace& t, size_t& boundary) {
    if (!any_sums_rows(options_.executors)) return t;
    const RowSumOptions options{options_.fusion.eager_numerics};
    return run(
        kRowSums, t, c_.history, [&](const Trace& x) { return row_sums(x, options_.executors, boundary, options); },
        false);
  }

  // Once all sums are there, those of gradients too, and before it is decided what is saved.
  void sum_rows(JointTrace& joint) {
    replace_calls(joint, [&](size_t& n) { return with_row_sums(joint.trace, n); });
  }

  // What a pass makes of the joint trace, with the forward's calls in front as before.
  template <class F>
  static void replace_calls(JointTrace& joint, F&& pass) {
    size_t forward_calls = joint.forward_calls;
    const Trace out = pass(forward_calls);
    if (out.calls == joint.trace.calls) return;
    joint.trace = out;
    joint.forward_calls = forward_calls;
    joint.forward.assign(out.calls.begin(), out.calls.begin() + static_cast<ptrdiff_t>(forward_calls));
  }

  // `boundary`: a number of calls at the trace's begin, as many as they are then.
  Trace aligned(const Trace& t, size_t& boundary) {
    const Trace batched = run(
        kBatched, t, c_.history, [&](const Trace& x) { return batched_products(x, boundary, options_.executors); },
        false);
    const Trace aligned = run(
        kAligned, batched, c_.history, [&](const Trace& x) { return aligned_products(x, boundary); }, false);
    // Once it is known what is padded.
    return run(
        kWide, aligned, c_.history, [&](const Trace& x) { return wide_rows(x, boundary); }, false);
  }

  void align_products(JointTrace& joint) {
    replace_calls(joint, [&](size_t& n) { return aligned(joint.trace, n); });
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
    if (options_.fusion.eager_numerics && adds_up_as_eager(*call.op)) return {&call};
    for (const auto& e : options_.executors) {
      if (e->is_fusion()) return e->open(call, arena);
      if (e->find(call)) break;
    }
    return {&call};
  }

  enum class Half : uint8_t { Forward, Backward };

  // The plan's collectives in buckets, and where they stand in its order.
  Trace in_buckets(const Trace& trace, TraceHistory& history, Half half, distributed::Positions& positions) {
    distributed::CommunicationPlan& plan = *distribution_.plan;
    std::optional<std::vector<distributed::Bucket>> none;
    const bool keeps = distribution_.mode == distributed::Synchronization::Accumulate && !plan.regather;
    auto& gathers = half == Half::Forward ? plan.order.gathers : plan.order.regathers;
    auto& reductions = half == Half::Forward || keeps ? none : plan.order.reductions;
    return run(kBuckets, trace, history, [&](const Trace& x) {
      return distributed::comm_buckets(x, plan, collectives_, gathers, reductions, positions);
    });
  }

  Trace scheduled(const Trace& trace, TraceHistory& history, Half half, const distributed::Positions& positions) {
    std::optional<std::vector<size_t>> none;
    auto& before = half == Half::Forward ? none : distribution_.plan->order.regathers_before;
    return run(kSchedule, trace, history, [&](const Trace& x) {
      return distributed::comm_schedule(x, *distribution_.plan, positions, before, too_late_);
    });
  }

  // From a program of operators to one that runs.
  Trace finish(const Trace& trace, TraceHistory& history, const Repeated& repeated, Half half) {
    distributed::Positions positions;
    // Before claim, so that what a bucket computes for the wire is fused.
    Trace t = distribution_ ? in_buckets(trace, history, half, positions) : trace;
    // Opened by now, and not yet divided among executors: a kernel less, or a phase of one.
    t = run(
        kOneHot, t, history, [](const Trace& x) { return one_hot_sums(x); }, false);
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
    // Once kernels have taken what conversions they can.  Eager rounds a product before it converts it.
    if (!options_.fusion.eager_numerics)
      t = run(
          kConverted, t, history, [&](const Trace& x) { return converted_products(x, options_.executors); }, false);
    t = run(
        kJoined, t, history, [&](const Trace& x) { return joined_conversions(x, options_.executors); }, false);
    // Before what decides about the plan's own waits.
    if (distributed::has_waits(t))
      t = run(
          kLateWaits, t, history, [](const Trace& x) { return distributed::late_waits(x); }, false);
    // Once it is known what runs as one kernel, for nothing may move a collective afterwards.
    if (distribution_) t = scheduled(t, history, half, positions);
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
  const distributed::Distribution& distribution_;
  distributed::Collectives collectives_;
  std::set<size_t> too_late_;
  bool fuses_ = false;
  Compiled c_;
};

}  // namespace

Compiled compile(const Trace& acquired, const CompileOptions& options, bool with_grad,
                 const distributed::Distribution& distribution) {
  distributed::Distribution d = distribution;
  while (true) {
    Pipeline pipeline(options, d);
    Compiled out = pipeline.compile(acquired, with_grad);
    if (pipeline.too_late().empty()) return out;
    // Fusion may have made one kernel of what needs several parameters, so only the whole pipeline knows.
    d.saved.insert(pipeline.too_late().begin(), pipeline.too_late().end());
  }
}

}  // namespace thunder
