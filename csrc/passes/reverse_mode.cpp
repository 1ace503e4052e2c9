#include "passes/reverse_mode.h"

#include <algorithm>

#include "core/error.h"

namespace thunder {
namespace {

// Symbolic sizes may be spelled in several ways; comparing their hints records a guard.
bool equal_shapes(const Dims& a, const Dims& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Dim& x, const Dim& y) { return x.same(y) || x == y; });
}

// A rule may keep more digits than the input has: all that is added up for the input is then rounded once.
bool keeps_digits(DType gradient, DType input) {
  return gradient == input || (gradient == DType::f32 && (input == DType::bf16 || input == DType::f16));
}

bool is_empty(Value v) {
  for (const Dim& d : v.shape())
    if (d.is_constant() && d.constant() == 0) return true;
  return false;
}

bool has_rule(const Call& call) {
  bool carries = false;
  visit_outputs(call, [&](Value v) { carries |= v.requires_grad(); });
  if (!carries || call.op->vjp || call.op->has(kNoGrad)) return true;
  return !call.body.empty() &&
         std::all_of(call.body.begin(), call.body.end(), [](const Call* inner) { return has_rule(*inner); });
}

// What the call makes of its differentiable inputs, and through which no gradient flows though one could: statistics
// that an operator keeps for its gradient.
class Stopped {
 public:
  explicit Stopped(const Call& call) {
    for (const Arg& a : call.args)
      visit_values(a, [&](Value v) {
        if (v.requires_grad()) depends_.set(v, 1);
      });
    add(call);
  }
  bool operator[](Value v) const { return stopped_[v] != 0; }

 private:
  void add(const Call& call) {
    for (const Call* inner : call.body) add(*inner);
    bool any = false;
    for (const Arg& a : call.args) visit_values(a, [&](Value v) { any |= depends_[v] != 0; });
    if (!any) return;
    visit_all_outputs(call, [&](Value v) {
      if (!v.type().is_tensor() || !is_inexact(v.dtype())) return;
      depends_.set(v, 1);
      if (!v.requires_grad()) stopped_.set(v, 1);
    });
  }
  ValueSet depends_, stopped_;
};

// Whether gradients flow through the gradients that a rule made.
bool is_differentiable(const Call& call, const std::vector<const Call*>& rule) {
  const Stopped stopped(call);
  return std::all_of(rule.begin(), rule.end(), [&](const Call* made) {
    bool reads = false;
    visit_all_inputs(*made, [&](Value v) { reads |= stopped[v]; });
    return !reads && has_rule(*made);
  });
}

}  // namespace

void ReverseMode::differentiate(const Call& call) {
  bool any = false;
  visit_outputs(call, [&](Value v) { any |= gradients_[v] || zero_[v]; });
  if (!any) return;
  if (call.op->vjp) return apply_rule(call);
  if (!call.body.empty()) return differentiate_body(call);
  bool wanted = false;
  for (const Arg& a : call.args) visit_values(a, [&](Value v) { wanted |= v.requires_grad(); });
  THUNDER_CHECK(!wanted || call.op->has(kNoGrad), NotImplemented, call.op->name,
                "a gradient flows through this operator, but it has no gradient rule", user_line(call));
}

void ReverseMode::apply_rule(const Call& call) {
  const ArgList single{call.output};
  const ArgList& outputs = call.output.is_sequence() ? call.output.items() : single;
  std::vector<Arg> gradients;
  for (size_t i = 0; i < outputs.size(); ++i) gradients.push_back(gradient_for(call, outputs, i));
  if (std::all_of(gradients.begin(), gradients.end(), [](const Arg& g) { return g.is_none(); })) return;
  // Nothing but empty tensors (rotary embeddings slice off zero columns): rules are linear, so the inputs' gradients
  // are zeros, which are only made if no other gradient reaches the input.  What the user's own backward() does is not
  // known, and where a gradient communicates, the other processes may have some of it.
  const bool skips = !twice_ && call.op->level != "augmented" && !call.op->has(kCollective);
  if (skips && std::all_of(gradients.begin(), gradients.end(),
                           [](const Arg& g) { return g.is_none() || is_empty(g.value()); })) {
    for (const Arg& a : call.args)
      visit_values(a, [&](Value v) {
        if (v.requires_grad()) zero_.set(v, 1);
      });
    return;
  }
  const SourceLocation* before = b_.location();
  b_.set_location(call.location);
  b_.open_scope();
  std::vector<std::pair<Value, Value>> results;
  try {
    VjpContext context(b_, call, std::move(gradients));
    call.op->vjp(context);
    results = context.result();
  } catch (...) {
    b_.close_scope();
    throw;
  }
  const std::vector<const Call*> rule = b_.close_scope();
  if (twice_ && !is_differentiable(call, rule)) {
    THUNDER_CHECK(!call.body.empty(), NotImplemented, call.op->name,
                  "the gradient of this operator cannot be differentiated", user_line(call));
    differentiate_body(call);
  } else {
    for (const Call* made : rule) b_.append(made);
    for (const auto& [input, gradient] : results) accumulate(call, input, gradient);
  }
  b_.set_location(before);
}

// The gradient by the definition, where the rule reads what carries none.
void ReverseMode::differentiate_body(const Call& call) {
  for (auto it = call.body.rbegin(); it != call.body.rend(); ++it) differentiate(**it);
}

// An output that is one of the inputs, or an earlier output again, has its gradient in that place already.
Arg ReverseMode::gradient_for(const Call& call, const ArgList& outputs, size_t i) {
  if (!outputs[i].is_value()) return {};
  Value output = outputs[i].value();
  bool elsewhere = false;
  for (size_t j = 0; j < i; ++j) elsewhere |= outputs[j].is_value() && outputs[j].value() == output;
  for (const Arg& a : call.args) visit_values(a, [&](Value v) { elsewhere |= v == output; });
  return elsewhere ? Arg() : gradient_of(output);
}

Arg ReverseMode::gradient_of(Value v) {
  if (!gradients_[v] && zero_[v]) {
    const TensorType& t = v.tensor();
    gradients_.set(v, t.strided()
                          ? b_("torch.zeros", Arg(t.shape), kw("dtype", t.dtype), kw("device", t.device)).value()
                          : b_("prims.sparse_zeros_like", v).value());
  }
  if (gradients_[v] && gradients_[v].dtype() != v.dtype())
    gradients_.set(v, b_("prims.convert_element_type", gradients_[v], v.dtype()).value());
  return gradients_[v] ? Arg(gradients_[v]) : Arg();
}

void ReverseMode::accumulate(const Call& call, Value input, Value gradient) {
  THUNDER_CHECK(gradient.type().is_tensor() && equal_shapes(gradient.shape(), input.shape()) &&
                    keeps_digits(gradient.dtype(), input.dtype()),
                Runtime, call.op->name, "the gradient rule gives ", gradient.type().str(), " for an input of type ",
                input.type().str(), user_line(call));
  Value sum = gradients_[input];
  std::string_view add = input.tensor().strided() ? "torch.add" : "prims.sparse_add";
  gradients_.set(input, sum ? b_(add, sum, gradient).value() : gradient);
}

}  // namespace thunder
