#include "passes/counted_random.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/common.h"
#include "ops/formula.h"
#include "passes/autodiff.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using ops::convert;
using ops::with_strides;

bool is_drawn(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::bf16 || t == DType::f16; }

// ---- what takes a draw's place, given a state -----------------------------------------------------------------------

Expr uniform_at(Builder& b, Value state, const Dims& shape, DType t) {
  return b("prims.uniform_at", state, shape, kw("dtype", t));
}

Arg uniform(Builder& b, const Args& a, Value state) {
  return uniform_at(b, state, a.dims("shape"), a.dtype("dtype")).arg();
}

Arg normal(Builder& b, const Args& a, Value state) {
  return b("prims.normal_at", state, a.dims("shape"), kw("dtype", a.dtype("dtype")));
}

Arg randint(Builder& b, const Args& a, Value state) {
  return convert(b, b("prims.randint_at", state, a.dims("shape"), a["low"], a["high"]), a.dtype("dtype"));
}

Arg bernoulli(Builder& b, const Args& a, Value state) {
  const TensorType p = a.tensor("p");
  const DType t = p.dtype == DType::f64 ? DType::f64 : DType::f32;
  Expr drawn = b("prims.lt", uniform_at(b, state, p.shape, t), convert(b, a["p"], t));
  return with_strides(b.expr(convert(b, drawn, p.dtype)), contiguous_strides(p.shape)).arg();
}

// Whether each element of a tensor like `x` is kept.
Expr kept(Builder& b, const TensorType& x, double p, Value state) {
  return b("prims.lt", uniform_at(b, state, x.shape, DType::f32), p);
}

Arg bernoulli_like(Builder& b, const Args& a, Value state) {
  const TensorType x = a.tensor("a");
  return with_strides(b.expr(convert(b, kept(b, x, a.real("p"), state), x.dtype)), preserve_format_strides(x)).arg();
}

Expr dropout_mask(Builder& b, const TensorType& x, double p, Value state) {
  return with_strides(kept(b, x, 1 - p, state), preserve_format_strides(x));
}

Arg dropout_mask_like(Builder& b, const Args& a, Value state) {
  return dropout_mask(b, a.tensor("a"), a.real("p"), state).arg();
}

Arg native_dropout(Builder& b, const Args& a, Value state) {
  const TensorType x = a.tensor("input");
  const double p = a.real("p");
  Expr keep = dropout_mask(b, x, p, state);
  Expr scale = b("prims.mul", convert(b, keep, x.dtype), p == 1 ? 0.0 : 1 / (1 - p));
  Expr y = with_strides(b("prims.mul", a["input"], scale), preserve_format_strides(x));
  return Arg::tuple({y, keep});
}

struct Draw {
  Arg (*replace)(Builder&, const Args&, Value);
  bool (*takes)(const Args&);
};

bool takes_drawn(const Args& a) { return is_drawn(a.dtype("dtype")); }

bool takes_integers(const Args& a) {
  const Arg &low = a["low"], &high = a["high"];
  if (low.kind() != Arg::Kind::Int || high.kind() != Arg::Kind::Int || is_complex(a.dtype("dtype"))) return false;
  if (!low.dim().is_constant() || !high.dim().is_constant()) return false;
  // More than a word of the generator tells apart stay with eager's.
  const uint64_t range = static_cast<uint64_t>(high.dim().constant()) - static_cast<uint64_t>(low.dim().constant());
  return range <= uint64_t{1} << 32;
}

bool takes_probabilities(const Args& a) { return is_drawn(a.tensor("p").dtype); }
bool takes_real(const Args& a) { return !is_complex(a.tensor("a").dtype); }

bool trains(const Args& a) { return is_drawn(a.tensor("input").dtype) && (!a.has("train") || a.flag("train")); }

const Draw* find_draw(const Call& call) {
  static const std::unordered_map<std::string_view, Draw> draws = {
      {"prims.uniform", {uniform, takes_drawn}},
      {"prims.normal", {normal, takes_drawn}},
      {"prims.randint", {randint, takes_integers}},
      {"prims.bernoulli", {bernoulli, takes_probabilities}},
      {"prims.bernoulli_like", {bernoulli_like, takes_real}},
      {"prims.dropout_mask_like", {dropout_mask_like, takes_real}},
      {"torch.native_dropout", {native_dropout, trains}},
  };
  const auto it = draws.find(call.op->full_name);
  return it == draws.end() ? nullptr : &it->second;
}

const TensorType& drawn_type(const Call& call) { return outputs_of(call).at(0).tensor(); }

// Where a kernel can draw: on tensors of constant sizes.
bool fits(const TensorType& t) {
  return all_constant(t.shape) && product(t.shape).constant() > 0 &&
         (t.device.type == DeviceType::cpu || t.device.type == DeviceType::cuda);
}

// ---- the pass -------------------------------------------------------------------------------------------------------

class RandomCounter {
 public:
  RandomCounter(const Trace& trace, const ExecutorList& executors)
      : trace_(trace), executors_(executors), rewriter_(trace) {}

  Trace run() {
    for (const Call* original : trace_.calls)
      for (const Call* call : rewriter_.current(original)) visit(call);
    Trace out = rewriter_.finish();
    for (auto it = states_.rbegin(); it != states_.rend(); ++it) insert(out, *it);
    return out;
  }

 private:
  struct States {
    Device device;
    std::vector<Value> values;
    const Call* before;  // the call that reads the first of them
    const SourceLocation* location;
  };

  bool draws(const Call& call) const { return tags_within(call, kRandom) != 0; }

  static bool carries_gradient(const Call& call) {
    const std::vector<Value> outputs = outputs_of(call);
    return std::any_of(outputs.begin(), outputs.end(), [](Value v) { return v.requires_grad(); });
  }

  // Whether a fusion executor comes before any that runs the call whole.
  bool reaches_fusion(const Call& call) const {
    for (const auto& e : executors_) {
      if (e->is_fusion()) return true;
      if (e->find(call)) break;
    }
    return false;
  }

  // Whether all that the call draws can be counted.
  bool countable(const Call& call) const {
    if (!call.op->executor.empty() || !reaches_fusion(call)) return false;
    if (carries_gradient(call) && find_gradient_rule(*call.op)) return false;
    if (const Draw* draw = find_draw(call)) return fits(drawn_type(call)) && draw->takes(call.arguments());
    // A rule of its own may mean another gradient than its body's.
    if (call.body.empty() || (call.op->vjp && carries_gradient(call))) return false;
    return std::all_of(call.body.begin(), call.body.end(),
                       [&](const Call* inner) { return !draws(*inner) || countable(*inner); });
  }

  void visit(const Call* call) {
    if (draws(*call) && countable(*call)) count(*call);
    else rewriter_.builder.append(call);
  }

  void count(const Call& call) {
    const Draw* draw = find_draw(call);
    if (!draw) {
      for (const Call* original : call.body)
        for (const Call* inner : rewriter_.current(original)) visit(inner);
      return;
    }
    Builder& b = rewriter_.builder;
    States& states = states_of(drawn_type(call).device);
    states.values.push_back(trace_.arena->make_value(ops::contiguous_type(DType::i64, states.device, {2})));
    Arg results;
    const std::vector<const Call*> made = rewriter_.collect(call, [&] {
      b.set_grad_enabled(carries_gradient(call));
      results = draw->replace(b, call.arguments(), states.values.back());
      b.set_grad_enabled(true);
    });
    if (!states.before) states.before = made.front(), states.location = call.location;
    rewriter_.replace_outputs(call, results, "the same draw by counting");
    for (const Call* c : made) b.append(c);
  }

  States& states_of(Device device) {
    for (States& s : states_)
      if (s.device == device) return s;
    return states_.emplace_back(States{device, {}, nullptr, nullptr});
  }

  void insert(Trace& out, const States& states) const {
    const Op& op = Registry::instance().get("prims.rng_states");
    const Call* call =
        trace_.arena->make_call(Call{.op = &op,
                                     .args = {Arg(states.values.size()), Arg(states.device)},
                                     .output = Arg::list(ArgList(states.values.begin(), states.values.end())),
                                     .body = {},
                                     .location = states.location,
                                     .symbols = {}});
    out.calls.insert(std::find(out.calls.begin(), out.calls.end(), states.before), call);
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  Rewriter rewriter_;
  std::vector<States> states_;
};

}  // namespace

Trace counted_random(const Trace& trace, const ExecutorList& executors) {
  const bool any =
      std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return tags_within(*c, kRandom) != 0; });
  // Whose numbers the program sets itself are drawn from that generator.
  const bool sets =
      std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return changes_generator(*c); });
  return any && !sets ? RandomCounter(trace, executors).run() : trace;
}

bool changes_generator(const Call& call) { return call.op->executor == "generators"; }

}  // namespace thunder
