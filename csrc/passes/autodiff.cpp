#include "passes/autodiff.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "passes/reverse_mode.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

std::unordered_map<std::string, GradientRule>& gradient_rules() {
  static auto* rules =
      new std::unordered_map<std::string, GradientRule>();  // never destroyed: rules may hold Python objects
  return *rules;
}

bool carries_gradient(const Call& call) {
  bool any = false;
  visit_outputs(call, [&](Value v) { any |= v.requires_grad(); });
  return any;
}

// ---- executors' rules -----------------------------------------------------------------------------------------------

class ExecutorRules {
 public:
  ExecutorRules(const Trace& trace, const ExecutorList& executors)
      : trace_(trace), executors_(executors), rewriter_(trace) {}

  Trace run() {
    for (const Call* original : trace_.calls)
      for (const Call* call : rewriter_.current(original)) apply(call);
    return rewriter_.finish();
  }

 private:
  // The rule that replaces a call, if there is one, and whether an executor would run the call as it is.
  struct Choice {
    const GradientRule* rule = nullptr;
    std::string who;
    bool claimed = false;
  };

  Choice choose(const Call& call) const {
    Choice c;
    for (const auto& executor : executors_) {
      const Implementation* i = executor->find(call);
      if (!i) continue;
      c.claimed = true;
      if (i->grad_transform)
        return {&i->grad_transform, cat("the gradient transform of executor '", executor->name(), "'"), true};
      break;
    }
    c.claimed = c.claimed || !call.op->executor.empty();
    if (const GradientRule* rule = find_gradient_rule(*call.op))
      return {rule, "the registered gradient rule", c.claimed};
    return c;
  }

  void apply(const Call* call) {
    if (!carries_gradient(*call)) return rewriter_.builder.append(call);
    Choice choice = choose(*call);
    if (choice.rule) return replace(*call, choice);
    // A rule of an executor deeper down counts only where autodiff would get there.
    const bool opens = registered_inside(*call) || (!choice.claimed && !call->op->vjp && rule_inside(*call));
    if (!opens) return rewriter_.builder.append(call);
    for (const Call* original : call->body)
      for (const Call* inner : rewriter_.current(original)) apply(inner);
  }

  // A registered rule is its user's word: it goes before the records' rules, and before who would run the whole.
  static bool registered_inside(const Call& call) {
    return std::any_of(call.body.begin(), call.body.end(), [](const Call* inner) {
      return carries_gradient(*inner) && (find_gradient_rule(*inner->op) || registered_inside(*inner));
    });
  }

  bool rule_inside(const Call& call) const {
    for (const Call* inner : call.body) {
      if (!carries_gradient(*inner)) continue;
      Choice choice = choose(*inner);
      if (choice.rule) return true;
      if (!choice.claimed && !inner->op->vjp && rule_inside(*inner)) return true;
    }
    return false;
  }

  void replace(const Call& call, const Choice& choice) {
    Arg results;
    std::vector<const Call*> made =
        rewriter_.collect(call, [&] { results = (*choice.rule)(rewriter_.builder, call.arguments()); });
    std::vector<Value> before = outputs_of(call), after = values_in(results);
    for (size_t i = 0; i < before.size() && i < after.size(); ++i)
      THUNDER_CHECK(
          after[i].requires_grad() || !before[i].requires_grad(), Value, call.op->name, choice.who,
          " gives for result ", i,
          " a tensor that no gradient flows through: its operator is tagged so, or it does not read the inputs");
    rewriter_.replace_outputs(call, results, choice.who);
    for (const Call* c : made) rewriter_.builder.append(c);
  }

  const Trace& trace_;
  const ExecutorList& executors_;
  Rewriter rewriter_;
};

// ---- reverse mode ---------------------------------------------------------------------------------------------------

Type cotangent_type(const TensorType& output) {
  TensorType t = output;
  t.requires_grad = false;
  t.strides = preserve_format_strides(output);
  return t;
}

// A base, so that it is there before the one that refers to it.
struct OwnBuilder {
  Builder own;
};

class Differentiator : private OwnBuilder, private ReverseMode {
 public:
  explicit Differentiator(const Trace& trace) : OwnBuilder{Builder(trace.arena)}, ReverseMode(own), trace_(trace) {
    b_.set_grad_enabled(false);
  }

  JointTrace run() {
    JointTrace joint;
    joint.forward = trace_.calls;
    joint.primal_inputs = trace_.inputs.size();
    joint.differentiable_outputs = differentiable_outputs(trace_);
    for (Value v : trace_.inputs) b_.add_input(v);
    const ArgList& outputs = trace_.output.items();
    joint.optional_cotangents = optional_cotangents(trace_, joint.differentiable_outputs);
    for (size_t i = 0; i < joint.differentiable_outputs.size(); ++i) {
      Value output = outputs[joint.differentiable_outputs[i]].value();
      const Value cotangent = b_.input(cotangent_type(output.tensor()));
      seed(output, joint.optional_cotangents[i] ? b_("prims.or_zeros", cotangent).value() : cotangent);
    }
    for (auto it = trace_.calls.rbegin(); it != trace_.calls.rend(); ++it) differentiate(**it);
    ArgList gradients;
    for (Value v : trace_.inputs) gradients.push_back(gradient_of(v));
    Trace backward = b_.finish("joint", Arg::tuple({Arg::tuple(outputs), Arg::tuple(std::move(gradients))}));
    assemble(joint, std::move(backward));
    return joint;
  }

 private:
  // Gradients have been taken, so that a detached value is as good as its source, which may be at hand or saved anyway.
  // Only at the top level: a source within a composite would have to be brought out of it.
  void forget_identities(Trace& backward) const {
    Substitution map;
    ValueSet mapped;
    for (const Call* c : trace_.calls) {
      Value source = identity_source(*c);
      if (!source || !source.type().same(c->output.value().type(), false)) continue;
      map.replace(c->output.value(), source);
      mapped.set(c->output.value(), 1);
    }
    if (map.empty()) return;
    for (const Call*& c : backward.calls) {
      bool reads = false;
      visit_all_inputs(*c, [&](Value v) { reads |= mapped[v] != 0; });
      if (reads) c = substitute(*trace_.arena, c, map);
    }
  }

  // The or_zeros() of an operator are tensors: each is made in front of its first reader.
  static std::vector<const Call*> zeros_at_readers(const std::vector<const Call*>& calls) {
    ValueMap<const Call*> waiting(nullptr);
    std::vector<const Call*> out;
    const auto place = [&](Value v) {
      const Call* zeros = waiting[v];
      if (!zeros) return;
      waiting.set(v, nullptr);
      out.push_back(zeros);
    };
    for (const Call* c : calls) {
      if (is_or_zeros(*c)) {
        waiting.set(c->output.value(), c);
        continue;
      }
      visit_all_inputs(*c, place);
      out.push_back(c);
    }
    for (const Call* c : calls)
      if (is_or_zeros(*c)) place(c->output.value());  // one that is a gradient as it is
    return out;
  }
  static bool is_or_zeros(const Call& call) { return call.op->has(kMayLackOperand); }

  // Drops what no gradient needs (rules may compute more than was asked for), and opens the forward calls.
  void assemble(JointTrace& joint, Trace backward) {
    forget_identities(backward);
    ValueSet read;
    for (const Arg& g : backward.output.items()[1].items()) visit_values(g, [&](Value v) { read.set(v, 1); });
    const std::vector<const Call*> live = zeros_at_readers(live_calls(backward.calls, read));
    joint.trace = std::move(backward);
    joint.trace.calls = open_where_needed(trace_.calls, read);
    joint.forward_calls = joint.trace.calls.size();
    joint.trace.calls.insert(joint.trace.calls.end(), live.begin(), live.end());
  }

  const Trace& trace_;
};

}  // namespace

void register_gradient_rule(std::string symbol, GradientRule rule) {
  if (rule) gradient_rules()[std::move(symbol)] = std::move(rule);
  else gradient_rules().erase(symbol);
}

const GradientRule* find_gradient_rule(const Op& op) {
  const auto& rules = gradient_rules();
  if (rules.empty()) return nullptr;
  auto it = rules.find(op.full_name);
  if (it == rules.end()) it = rules.find(op.name);
  return it == rules.end() ? nullptr : &it->second;
}

Trace executor_gradient_rules(const Trace& trace, const ExecutorList& executors) {
  return ExecutorRules(trace, executors).run();
}

std::vector<size_t> differentiable_outputs(const Trace& trace) {
  ValueSet known;
  for (Value v : trace.inputs) known.set(v, 1);
  std::vector<size_t> out;
  const ArgList& outputs = trace.output.items();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_value() || !outputs[i].value().requires_grad() || known[outputs[i].value()]) continue;
    known.set(outputs[i].value(), 1);
    out.push_back(i);
  }
  return out;
}

JointTrace autodiff(const Trace& trace) { return Differentiator(trace).run(); }

std::vector<char> optional_cotangents(const Trace& trace, const std::vector<size_t>& differentiable_outputs) {
  const auto type = [&](size_t i) -> const TensorType& { return trace.output.items()[i].value().tensor(); };
  const bool has_loss = std::any_of(differentiable_outputs.begin(), differentiable_outputs.end(),
                                    [&](size_t i) { return type(i).shape.empty() && is_floating(type(i).dtype); });
  const auto constant = [](const Dims& dims) {
    return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
  };
  std::vector<char> out;
  for (size_t i : differentiable_outputs) {
    const TensorType& t = type(i);
    out.push_back(has_loss && !t.shape.empty() && t.strided() && constant(t.shape) && constant(t.strides));
  }
  return out;
}

}  // namespace thunder
