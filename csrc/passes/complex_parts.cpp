#include "passes/complex_parts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/common.h"
#include "ops/formula.h"
#include "passes/complex_rules.h"
#include "passes/padding.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

bool is_complex_tensor(Value v) { return v.type().is_tensor() && is_complex(v.dtype()); }

template <class F>
void visit_complex(const Call& call, F&& fn) {
  const auto take = [&](Value v) {
    if (is_complex_tensor(v)) fn(v);
  };
  for (const Arg& a : call.args) visit_values(a, take);
  visit_outputs(call, take);
}

bool touches_complex(const Call& call) {
  bool any = false;
  visit_complex(call, [&](Value) { any = true; });
  return any;
}

/// Calls that share complex values are divided together or not at all.
class ComplexGroups {
 public:
  explicit ComplexGroups(size_t n) : parent_(n), value_(n, 0) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }

  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t i, size_t j) {
    const size_t a = root(i), b = root(j);
    if (a == b) return;
    parent_[b] = a;
    value_[a] += value_[b];
  }
  int& value(size_t i) { return value_[root(i)]; }

 private:
  std::vector<size_t> parent_;
  std::vector<int> value_;
};

class ComplexParts {
 public:
  ComplexParts(const Trace& trace, const ExecutorList& executors)
      : trace_(trace), executors_(executors), rewriter_(trace) {
    find_returned();
    for (const Call* c : trace.calls) visit_outputs(*c, [&](Value v) { makers_.set(v, c); });
    leaves_.resize(trace.calls.size());
    for (size_t i = 0; i < trace.calls.size(); ++i) leaves_[i] = divided(*trace.calls[i]);
    choose();
    for (const auto& leaves : leaves_)
      for (const Call* leaf : leaves) visit_outputs(*leaf, [&](Value v) { makers_.set(v, leaf); });
  }

  bool changes() const {
    return std::any_of(leaves_.begin(), leaves_.end(), [](const auto& leaves) { return !leaves.empty(); });
  }

  Trace run(size_t& boundary) {
    for (size_t i = 0, before = boundary; i < trace_.calls.size(); ++i) {
      if (leaves_[i].empty()) keep(*trace_.calls[i]);
      else
        for (const Call* leaf : leaves_[i]) divide(*leaf);
      if (i + 1 == before) boundary = rewriter_.builder.calls().size();
    }
    return without_dead_code(rewriter_.finish(), boundary);
  }

 private:
  // ---- which calls are divided --------------------------------------------------------------------------------------

  // Counts how often the program returns each value, as it is or by a view.
  void find_returned() {
    const auto add = [&](Value v) { returned_.set(v, returned_[v] + 1); };
    visit_values(trace_.output, add);
    for (size_t i = trace_.calls.size(); i-- > 0;)
      if (const Call& call = *trace_.calls[i]; is_pure_view(call) && returns(call)) visit_all_inputs(call, add);
  }

  bool returns(const Call& call) const {
    bool any = false;
    visit_outputs(call, [&](Value v) { any |= returned_[v] != 0; });
    return any;
  }

  // Whether a view is returned with others of its memory, or has another layout than what is made of parts.
  bool stays_returned(const Call& call) const {
    if (!is_pure_view(call) || !returns(call)) return false;
    const Call& inner = call.body.size() == 1 ? *call.body[0] : call;
    return inner.op->full_name != "prims.view_as_real" || returned_[inner.args[0].value()] > 1;
  }

  // The primitives of a call that touches complex numbers, if all of those that do have a rule; else none.
  std::vector<const Call*> divided(const Call& call) {
    if (!touches_complex(call) || effects(call) != 0 || stays_returned(call)) return {};
    std::vector<const Call*> leaves;
    return open(call, leaves) ? leaves : std::vector<const Call*>();
  }

  bool open(const Call& call, std::vector<const Call*>& leaves) {
    if (touches_complex(call) && find_specialist(executors_, call)) return false;
    if (!touches_complex(call) || complex_rule(call)) {
      leaves.push_back(&call);
      return true;
    }
    return !call.body.empty() &&
           std::all_of(call.body.begin(), call.body.end(), [&](const Call* c) { return open(*c, leaves); });
  }

  // Drops the groups of calls that gain nothing.
  void choose() {
    ComplexGroups groups(leaves_.size());
    std::unordered_map<ValueId, size_t> seen;
    for (size_t i = 0; i < leaves_.size(); ++i)
      for (const Call* leaf : leaves_[i]) {
        if (const ComplexRule* rule = complex_rule(*leaf); rule && touches_complex(*leaf))
          groups.value(i) += rule->gain;
        visit_complex(*leaf, [&](Value v) {
          if (const auto [it, is_new] = seen.emplace(v.id(), i); !is_new) groups.join(it->second, i);
        });
      }
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (groups.value(i) < kLeastGain) leaves_[i].clear();
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].empty()) visit_all_inputs(*trace_.calls[i], [&](Value v) { whole_.set(v, 1); });
    visit_values(trace_.output, [&](Value v) { whole_.set(v, 1); });
  }

  // ---- what stands in their place -----------------------------------------------------------------------------------

  void append(const std::vector<const Call*>& calls) {
    for (const Call* c : calls) rewriter_.builder.append(c);
  }

  // A call that is not divided.  It may read one side of pairs that are joined of parts, as z.real does.
  void keep(const Call& call) {
    if (const ComplexValue* z = call.op->full_name == "prims.slice" ? pairs_of(call.args[0]) : nullptr)
      if (const Expr* side = side_read(call, *z)) {
        append(rewriter_.collect(call, [&] {
          const Expr part = ops::reshape(rewriter_.builder, *side, call.output.value().shape());
          rewriter_.replace_outputs(call, part, kName);
        }));
        return;
      }
    if (reads_pairs(call))
      for (const Call* inner : call.body) keep(*inner);
    else append(rewriter_.current(&call));
  }

  const ComplexValue* pairs_of(const Arg& a) const {
    const auto it = a.is_tensor() ? pairs_.find(a.value().id()) : pairs_.end();
    return it == pairs_.end() ? nullptr : &it->second;
  }

  // Whether it is a composite that makes views of pairs and does not return them.
  bool reads_pairs(const Call& call) const {
    return !call.body.empty() && !call.args.empty() && pairs_of(call.args[0]) && is_pure_view(call) && !returns(call);
  }

  // The part that a slice takes whole.
  const Expr* side_read(const Call& slice, const ComplexValue& z) const {
    const TensorType& to = slice.output.value().tensor();
    const Dim begin = slice.arguments().dims("start_indices").back();
    Dims whole = z.re.shape();
    whole.push_back(1);
    if (returned_[slice.output.value()] || !same(to.shape, whole)) return nullptr;
    return begin.same(0) ? &z.re : begin.same(1) ? &z.im : nullptr;
  }

  void divide(const Call& call) {
    const ComplexRule* rule = touches_complex(call) ? complex_rule(call) : nullptr;
    if (rule && !stays_a_view(call)) append(rewriter_.collect(call, [&] { replace(*rule, call); }));
    else append(rewriter_.current(&call));
  }

  // The pairs of a value that is not divided are a view of it.
  bool stays_a_view(const Call& call) {
    return call.op->full_name == "prims.view_as_real" && !is_divided_[call.args[0].value()];
  }

  void replace(const ComplexRule& rule, const Call& call) {
    ComplexCall c{.b = rewriter_.builder,
                  .call = call,
                  .now = [&](const Arg& a) { return rewriter_.current(a); },
                  .maker = [&](Value v) { return makers_[v]; },
                  .parts = {}};
    for (const Arg& a : call.args)
      visit_values(a, [&](Value v) {
        if (is_complex_tensor(v)) c.parts.emplace(v.id(), parts_of(v));
      });
    const ComplexValue result = rule.run(c);
    const Value out = call.output.value();
    if (is_complex_tensor(out)) {
      parts_.insert_or_assign(out.id(), result);
      if (is_kept_view(rule, call)) return append(rewriter_.current(&call));
      is_divided_.set(out, 1);
      if (whole_[out]) rewriter_.replace_outputs(call, joined_complex(result, out.tensor()), kName);
      return;
    }
    // A part may lie in the memory of an argument.
    const bool joins = rule.op == "prims.view_as_real";
    if (joins) pairs_.emplace(out.id(), c.parts.begin()->second);
    const Expr real = returned_[out] && !joins ? rewriter_.builder("prims.clone", result.re) : result.re;
    rewriter_.replace_outputs(call, returned_[out] ? ops::with_strides(real, out.tensor().strides) : real, kName);
  }

  // Whether others read a view of a complex tensor that they can read as it is.
  bool is_kept_view(const ComplexRule& rule, const Call& call) const {
    return rule.gain == 0 && call.op->has(kView) && whole_[call.output.value()] && !is_divided_[call.args[0].value()];
  }

  // The parts of a value that is not divided are views of it.
  const ComplexValue& parts_of(Value v) {
    if (const auto it = parts_.find(v.id()); it != parts_.end()) return it->second;
    return parts_.emplace(v.id(), parts_of_pairs(rewriter_.builder("prims.view_as_real", rewriter_.current(Arg(v)))))
        .first->second;
  }

  static constexpr int kLeastGain = 2;
  static constexpr const char* kName = "complex_parts";

  const Trace& trace_;
  const ExecutorList& executors_;
  Rewriter rewriter_;
  ValueMap<const Call*> makers_;  // of values that the new trace has
  ValueMap<int> returned_;        // how often, as it is and by views
  ValueSet whole_, is_divided_;   // whole: read as a complex tensor
  std::vector<std::vector<const Call*>> leaves_;
  std::unordered_map<ValueId, ComplexValue> parts_, pairs_;  // pairs: by the tensor that joins them
};

}  // namespace

Trace complex_parts(const Trace& trace, size_t& boundary, const ExecutorList& executors) {
  if (std::none_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return touches_complex(*c); }))
    return trace;
  ComplexParts parts(trace, executors);
  return parts.changes() ? parts.run(boundary) : trace;
}

}  // namespace thunder
