#include "passes/pass_table.h"

#include <algorithm>
#include <iterator>

#include "passes/aligned_products.h"
#include "passes/attention_layout.h"
#include "passes/batched_products.h"
#include "passes/channels_last.h"
#include "passes/complex_parts.h"
#include "passes/constants.h"
#include "passes/conversions.h"
#include "passes/counted_random.h"
#include "passes/distributed/comm_schedule.h"
#include "passes/distributed/late_waits.h"
#include "passes/early_waits.h"
#include "passes/flows.h"
#include "passes/group_heads.h"
#include "passes/known_masks.h"
#include "passes/narrow_masks.h"
#include "passes/one_hot_sums.h"
#include "passes/passes.h"
#include "passes/prepare.h"
#include "passes/reach.h"
#include "passes/row_major.h"
#include "passes/row_sums.h"
#include "passes/spread_sources.h"
#include "passes/vector_products.h"
#include "passes/wide_rows.h"
#include "passes/written_attention.h"

namespace thunder {
namespace {

using State = PipelineState;

// ---- passes that need more than the trace and options ----------------------------------------------------------------

Trace differentiated(const Trace& t, State& s) {
  s.compiled.reaches = reached_outputs(t, s.compiled.differentiable_outputs);
  s.joint = autodiff(mark_flows(t, s.compiled.differentiable_outputs));
  s.compiled.optional_cotangents = s.joint.optional_cotangents;
  return s.joint.trace;
}

Trace distributed_joint(const Trace& t, State& s) {
  std::vector<uint64_t>& reaches = s.compiled.reaches;
  // Other processes may use an output that this one's loss leaves out.
  for (const auto& [v, index] : s.distribution.inputs)
    reaches[static_cast<size_t>(std::find(t.inputs.begin(), t.inputs.end(), v) - t.inputs.begin())] = ~uint64_t{0};
  s.joint.trace = t;
  s.joint = distributed::distribute(s.joint, s.distribution, s.collectives);
  reaches.resize(s.joint.primal_inputs, ~uint64_t{0});
  return s.joint.trace;
}

// A pass that keeps the forward's calls in front, and says how many there are.
template <class F>
Trace with_boundary(const Trace& t, State& s, F&& pass) {
  size_t forward_calls = s.joint.forward_calls;
  Trace out = pass(forward_calls);
  if (out.calls == t.calls) return out;
  s.joint.forward_calls = forward_calls;
  s.joint.forward.assign(out.calls.begin(), out.calls.begin() + static_cast<ptrdiff_t>(forward_calls));
  return out;
}

std::vector<const Call*> opened(const Call& call, Arena& arena, const CompileOptions& options) {
  if (!call.op->executor.empty()) return {&call};  // what it stands for is not what its executor runs
  if (options.fusion.eager_numerics && adds_up_as_eager(*call.op)) return {&call};
  for (const auto& e : options.executors) {
    if (e->is_fusion()) return e->open(call, arena);
    if (e->find(call)) break;
  }
  return {&call};
}

// Opens what a fusion executor sees through, unless an executor before it takes the call whole.
Trace open_for_fusion(const Trace& t, State& s) {
  return with_boundary(t, s, [&](size_t& boundary) {
    Trace out = t.derived();
    size_t forward_calls = 0;
    for (size_t i = 0; i < t.calls.size(); ++i) {
      for (const Call* c : opened(*t.calls[i], *t.arena, s.options)) out.calls.push_back(c);
      if (i + 1 == boundary) forward_calls = out.calls.size();
    }
    boundary = forward_calls;
    return out;
  });
}

// Gathers that the backward repeats: those that the first program's did.  The first one repeats all but those that are
// kept, and those that the forward reads last, which the backward would ask for at once.
SplitOptions split_options(const Trace& t, const State& s) {
  SplitOptions out{.aggressive_recompute = s.fuses};
  if (!s.distribution || !s.distribution.plan->regather) return out;
  const auto& order = s.distribution.plan->order.regathers;
  std::vector<char> chosen;
  const auto last = distributed::bucket_read_last(t, s.joint.forward_calls, *s.distribution.plan, s.collectives);
  for (const distributed::PlannedParameter& p : s.distribution.plan->parameters)
    chosen.push_back(!order && !p.kept && p.bucket != last);
  if (order)
    for (const distributed::Bucket& b : *order)
      for (size_t i : b) chosen[i] = !s.distribution.saved.contains(i);
  for (size_t i = 0; i < s.joint.forward_calls; ++i) {
    const Call& call = *t.calls[i];
    const int index = s.collectives.gather_of(call);
    if (index >= 0 && chosen[static_cast<size_t>(index)]) out.regathered.set(call.output.value(), 1);
    if (!call.op->has(kComm) || !call.args[0].is_value() || !out.regathered[call.args[0].value()]) continue;
    const Value whole = call.output.value();
    if (order) out.needed.push_back(whole);
    const distributed::PlannedParameter& p =
        s.distribution.plan->parameters[static_cast<size_t>(s.collectives.gathers[call.args[0].value()])];
    out.bucket_of.set(whole, static_cast<int>(p.bucket));
    out.bucket_bytes.resize(std::max(out.bucket_bytes.size(), p.bucket + 1));
    out.bucket_bytes[p.bucket] += itemsize(p.full.dtype) * p.full.numel().constant();
  }
  return out;
}

Trace divided(const Trace& t, State& s) {
  s.joint.trace = t;
  ForwardBackward parts = split(s.joint, split_options(t, s));
  s.compiled.saved_tensors = parts.saved_tensors;
  s.backward = std::move(parts.backward);
  return std::move(parts.forward);
}

// The plan's collectives in buckets, and where they stand in its order.
Trace in_buckets(const Trace& t, State& s) {
  distributed::CommunicationPlan& plan = *s.distribution.plan;
  std::optional<std::vector<distributed::Bucket>> none;
  const bool keeps = s.distribution.mode == distributed::Synchronization::Accumulate && !plan.regather;
  auto& gathers = s.half == Half::Forward ? plan.order.gathers : plan.order.regathers;
  auto& reductions = s.half == Half::Forward || keeps ? none : plan.order.reductions;
  return distributed::comm_buckets(t, plan, s.collectives, gathers, reductions, s.positions);
}

Trace scheduled(const Trace& t, State& s) {
  std::optional<std::vector<size_t>> none;
  auto& before = s.half == Half::Forward ? none : s.distribution.plan->order.regathers_before;
  return distributed::comm_schedule(t, *s.distribution.plan, s.positions, before, s.too_late);
}

// The caller gets all that a program gives, but for what a forward saves.
const Arg& given(const Trace& t, const State& s) {
  return s.compiled.has_backward && s.half == Half::Forward ? t.output.items()[0] : t.output;
}

// ---- the table -------------------------------------------------------------------------------------------------------

// The captureless function of a row.
#define RUN(...) [](const Trace& t, [[maybe_unused]] State& s) -> Trace { return __VA_ARGS__; }

constexpr Pass kProgram[] = {
    {"float8", "Linear Layers In Float8", false, kFloat8Layers, RUN(float8(t, s.options.float8)),
     "products of chosen linear layers read float8 operands",
     "The records of linear layers must still be as the program called them."},
    {"written_attention", "Attention Written Out", true, kFuses | kOwnRounding,
     RUN(written_attention(t, s.options.executors, s.options.masks)),
     "two products and the softmax between them become one call of attention, where an executor takes it whole",
     "Before everything that looks for calls of attention. Kernels round otherwise than the operators one by one."},
    {"known_masks", "Known Masks", true, kReadsMasks | kOwnRounding,
     RUN(known_masks(t, s.options.masks, s.options.executors)),
     "attention whose mask depends on no input is told whether the mask is causal, a window around the diagonal, or "
     "hides nothing, and a mask that is a choice by a condition that always holds is none: they are made once, at "
     "compilation",
     "What later passes make of attention depends on its mask. Kernels for other masks round otherwise."},
    {"narrow_masks", "Narrow Masks", true, kAlways, RUN(narrow_masks(t)),
     "a mask of attention that repeats itself along a dimension is computed, kept and read once",
     "Before executors are asked what they make of a mask."},
    {"group_heads", "Grouped Heads In Attention", true, kAlways, RUN(group_heads(t, s.options.executors)),
     "attention reads grouped keys and values as they are, where an executor takes them so",
     "It leaves the expansions of keys and values behind as dead code."},
    {"channels_last", "Channels Last", true, kFuses | kOwnRounding, RUN(channels_last(t, s.options.executors)),
     "images between 16-bit convolutions on a GPU lie with their channels innermost, as tensor cores and the depthwise "
     "kernels read them; not where a grouped convolution has no kernel for that",
     "Before row_major, which looks at what stands behind a convolution. Kernels for another layout round otherwise."},
    {"row_major", "Row-Major Values", true, kFuses | kOwnRounding, RUN(row_major(t)),
     "a permuted value that row-wise operators read (a convolution's output in front of a transformer) is written by "
     "rows, and so are the sums behind it, and a small one that a GPU broadcasts",
     "Sums of 16 bits are rounded in the order in which they lie in memory."},
    {"attention_layout", "Attention Layout", true, kFuses, RUN(attention_layout(t)),
     "query and key are written with the heads inside the sequence, a value that would keep more than itself is copied",
     "Once heads are grouped, so that the small keys are laid out; before autodiff, so that gradients are laid out "
     "alike."},
    {"prepare", "Prepared Arguments", true, kAlways, RUN(prepare(t, s.options.executors)),
     "what executors make of an argument (numbers of a mask) is made in the program, once for all calls that want it",
     "Once it is known who takes attention, and how; before what is common is found."},
    {"counted_random", "Random Numbers By Counting", true, kFuses | kCountsRandom,
     RUN(counted_random(t, s.options.executors)), "draws become functions of a random state and a place",
     "Behind the passes that look for whole calls of attention, of which one with dropout is opened."},
    {"dce", "Dead Code Elimination", true, kAlways, RUN(dce(t)), "dead code goes",
     "Early: it costs the later passes time, and nothing may be saved for it."},
    {"cse", "Common Subexpression Elimination", true, kAlways, RUN(cse(t)), "what is computed twice is computed once",
     "Before autodiff, so that a value computed twice is differentiated once."},
};

constexpr Pass kJoint[] = {
    {"executor_rules", "Executor Gradient Rules", false, kGradients,
     RUN(executor_gradient_rules(t, s.options.executors)),
     "calls with a `grad_transform` of their executor or a rule of `register_grad` become the calls of the rule",
     "An executor that differentiates a call by itself must replace it while it is whole."},
    {"autodiff", "Autodiff", false, kGradients, differentiated, "the joint trace of forward and backward", ""},
    {"gradient_layout", "Gradients Laid Out As Inputs", true, kGradients | kFuses | kOwnRounding,
     RUN(gradients_as_inputs(t)),
     "a gradient that is channels last, of a parameter that is not, is written as the parameter lies",
     "Before anything reads gradients: collectives take them as parameters lie. Only channels_last makes others so."},
    {"joint_cse", "Joint Common Subexpression Elimination", true, kGradients, RUN(cse(t, s.joint.forward_calls)),
     "what rules repeat, of each other and of the forward, is computed once",
     "The forward's own calls stay: split closes them again."},
    {"float8_records", "Maxima In One Record", false, kGradients | kFloat8History, RUN(float8_records(t)),
     "what backwards put into the history of float8 scales is one call",
     "The rules put them into the history layer by layer."},
    {"distribute", "Distributed Parameters", false, kGradients | kDistributed, distributed_joint,
     "whole parameters become what this process holds of them, and what gathers and reduces",
     "Autodiff is done with whole parameters; what is gathered can still be chosen to be saved or gathered again."},
    {"row_sums", "Sums Of Rows", true, kRowSums,
     RUN(with_boundary(
         t, s, [&](size_t& n) { return row_sums(t, s.options.executors, n, {s.options.fusion.eager_numerics}); })),
     "sums of rows by an index become a sum for each row, by an index that is grouped once for all",
     "Once all sums are there, those of gradients too, and before it is decided what is saved."},
};

constexpr Pass kParts[] = {
    {"open", "Opening For Fusion", true, kGradients | kFuses, open_for_fusion,
     "composites are decomposed where a fusion executor fuses all their primitives",
     "A fusion executor computes parts of a composite again as easily as the whole."},
    {"complex_parts", "Complex Parts", true, kFuses | kOwnRounding,
     RUN(with_boundary(t, s, [&](size_t& n) { return complex_parts(t, n, s.options.executors); })),
     "arithmetic of complex numbers becomes arithmetic of real and imaginary parts, which kernels compute",
     "Once gradients are there, so that theirs is divided too, and before it is decided what is saved."},
    {"spread_sources", "Spread Sources", true, kGradients | kFuses, RUN(spread_sources(t, s.joint.forward_calls)),
     "what norms and their gradients compute of mean and deviation is one value",
     "Once norms are decomposed, and before it is decided what is saved: two values would be kept or made again "
     "twice."},
    {"batched_products", "Batched Products", true, kFuses,
     RUN(with_boundary(t, s, [&](size_t& n) { return batched_products(t, n, s.options.executors); })),
     "operands of batches of products that BLAS cannot read are copied by calls, once for all products, and what is "
     "uneven is padded; a result that is read transposed is computed so; on a GPU",
     "Once all products are there, and before it is decided which form of a value is saved."},
    {"aligned_products", "Aligned Products", true, kFuses,
     RUN(with_boundary(t, s, [&](size_t& n) { return aligned_products(t, n); })),
     "large 16-bit products on a GPU whose sizes are no multiples of 16 bytes (a vocabulary of 50,257) get padded "
     "operands, where kernels pad them at no cost or the copies cost less",
     ""},
    {"wide_rows", "Wide Rows", true, kFuses, RUN(with_boundary(t, s, [&](size_t& n) { return wide_rows(t, n); })),
     "what is computed row by row and then padded for a product (a softmax) is computed in padded rows",
     "Once it is known what is padded."},
    {"distribute", "Distributed Parameters", false, kAlone | kDistributed,
     RUN(distributed::distribute(t, s.distribution, s.collectives)),
     "whole parameters become what this process holds of them, and what gathers", ""},
    {"split", "Forward Backward Split", false, kGradients, divided, "two traces, and what is saved between them", ""},
};

constexpr Pass kEach[] = {
    {"comm_buckets", "Communication In Buckets", false, kDistributed, in_buckets,
     "collectives of parameters that belong together become one",
     "Before claim, so that what a bucket computes for the wire is fused."},
    {"one_hot_sums", "Sums Of One-Hot Rows", true, kAlways, RUN(one_hot_sums(t)),
     "sums along rows in which at most one element is not zero (the gradient of a class label's loss) are that element",
     "Composites are decomposed by now, and calls not yet divided among executors: a kernel less, or a phase of one."},
    {"vector_products", "Vector Products", true, kFuses | kOwnRounding, RUN(vector_products(t, s.options.executors)),
     "the product of a matrix and one row on a GPU (a weight, for one token) is a sum of each row of the matrix",
     "A product is not computed again for a backward, and a sum of rows might be: so behind split. A kernel takes what "
     "reads the sum along."},
    {"early_waits", "Early Waits", true, kWaitsOnGpu, RUN(early_waits(t)),
     "what the host waits for on a GPU, and what needs little but inputs (how many labels are valid), is computed "
     "first",
     "Before kernels are made, which would join what it needs with what comes later."},
    {"claim", "Transform For Execution", false, kAlways, RUN(claim(t, s.options.executors)),
     "every call goes to an executor", ""},
    {"fusion", "Fusion", true, kEachFusion,
     RUN(claim(s.fusion->fuse(t, s.options.fusion, s.repeated), s.options.executors)),
     "regions become kernels, and what that left unclaimed is claimed",
     "Claimed calls keep their bodies, so a fusion executor sees through those of executors after it in the list."},
    {"dce", "Dead Code Elimination", true, kAlways, RUN(dce(t)), "what only served calls that are kernels now goes",
     "Opened composites may hold calls that only served other results, and a region its own copy of what stands "
     "outside."},
    {"converted_products", "Converted Products", true, kOwnRounding, RUN(converted_products(t, s.options.executors)),
     "a product of 16-bit matrices whose only reader, outside of kernels, converts it to float32 gives float32, where "
     "the product's executor can",
     "Once kernels have taken what conversions they can. Eager rounds a product before it converts it."},
    {"joined_conversions", "Joined Conversions", true, kAlways, RUN(joined_conversions(t, s.options.executors)),
     "conversions of inputs on a GPU that no kernel took (autocast's of parameters) are made many at once, up to 32 MB",
     ""},
    {"constants", "Constants Made Once", true, kAlways, RUN(constants_once(t, given(t, s), s.options.is_opaque)),
     "calls that depend on no input run once for the program, and what others read of them is kept, up to 64 MB",
     "Once it is known what is a value in memory: what a kernel makes for itself costs less than reading it."},
    {"late_waits", "Late Waits", false, kCommunicates, RUN(distributed::late_waits(t)),
     "what users communicate is waited for where it is read first", "Before what decides about the plan's own waits."},
    {"comm_schedule", "Communication Schedule", false, kDistributed, scheduled,
     "where collectives start and where the program waits",
     "Once it is known what runs as one kernel, for nothing may move a collective afterwards."},
    {"delete_last_used", "Delete Last Used", false, kAlways, RUN(delete_last_used(t)), "`del` lines",
     "Last, since every other pass moves the end of a value's life."},
};

#undef RUN

struct Meaning {
  PassCondition bit;
  const char* text;
  bool (*holds)(const Trace&, const State&);
};

constexpr Meaning kMeanings[] = {
    {kFuses, "with a fusion executor", [](const Trace&, const State& s) { return s.fuses; }},
    {kOwnRounding, "not with `numerics=\"eager\"`",
     [](const Trace&, const State& s) { return !s.options.fusion.eager_numerics; }},
    {kGradients, "with gradients", [](const Trace&, const State& s) { return s.compiled.has_backward; }},
    {kAlone, "without gradients", [](const Trace&, const State& s) { return !s.compiled.has_backward; }},
    {kDistributed, "of distributed models",
     [](const Trace&, const State& s) { return static_cast<bool>(s.distribution); }},
    {kFloat8Layers, "with `thunder.transforms.Float8`",
     [](const Trace&, const State& s) { return !s.options.float8.layers.empty(); }},
    {kFloat8History, "with scales of float8 from a history",
     [](const Trace&, const State& s) { return static_cast<bool>(s.options.float8.history); }},
    {kReadsMasks, "where a mask's values may be read",
     [](const Trace&, const State& s) { return static_cast<bool>(s.options.masks.classify); }},
    {kCountsRandom, "with `rng=\"fused\"`",
     [](const Trace&, const State& s) { return s.options.fusion.counted_random; }},
    {kRowSums, "with an executor for them",
     [](const Trace&, const State& s) { return any_sums_rows(s.options.executors); }},
    {kWaitsOnGpu, "where the host waits for a GPU", [](const Trace& t, const State&) { return waits_on_gpu(t); }},
    {kCommunicates, "where the program communicates",
     [](const Trace& t, const State&) { return distributed::has_waits(t); }},
    {kEachFusion, "once for each fusion executor, by its name", [](const Trace&, const State& s) { return s.fuses; }},
};

}  // namespace

PipelineState::PipelineState(const CompileOptions& o, const distributed::Distribution& d)
    : options(o), distribution(d) {
  // Fusion executors need no say in claiming; what they compute again costs no memory traffic.
  fuses = std::any_of(o.executors.begin(), o.executors.end(), [](const auto& e) { return e->is_fusion(); });
}

std::span<const Pass> passes_of(Stage stage) {
  switch (stage) {
    case Stage::Program: return kProgram;
    case Stage::Joint: return kJoint;
    case Stage::Parts: return kParts;
    case Stage::Each: return kEach;
  }
  return {};
}

const char* description(Stage stage) {
  switch (stage) {
    case Stage::Program: return "the program as it was acquired, behind the user's transforms";
    case Stage::Joint: return "forward and backward as one trace, with all that they compute";
    case Stage::Parts: return "how that is computed, and what is a program of its own";
    case Stage::Each: return "each program, from operators to what runs";
  }
  return "";
}

bool holds(unsigned when, const Trace& trace, const PipelineState& state) {
  return std::all_of(std::begin(kMeanings), std::end(kMeanings),
                     [&](const Meaning& m) { return !(when & m.bit) || m.holds(trace, state); });
}

std::string condition_text(unsigned when) {
  std::string out;
  for (const Meaning& m : kMeanings)
    if (when & m.bit) out += (out.empty() ? "" : "; ") + std::string(m.text);
  return out;
}

}  // namespace thunder
