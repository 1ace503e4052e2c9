#include "frontend/gradient_hooks.h"

#include <algorithm>

#include "core/error.h"
#include "core/rewrite.h"
#include "passes/recorded_gradient.h"

namespace thunder::frontend {
namespace {

using Calls = std::vector<const Call*>;

// The call that makes the value, and does not pass it on.
Calls::iterator find_maker(Calls& calls, Value v) {
  return std::find_if(calls.begin(), calls.end(), [&](const Call* call) {
    bool gives = false, takes = false;
    visit_outputs(*call, [&](Value out) { gives |= out == v; });
    visit_all_inputs(*call, [&](Value in) { takes |= in == v; });
    return gives && !takes;
  });
}

Param list_parameter(const char* name) {
  Param p;
  p.name = name;
  p.list = true;
  return p;
}

Substitution renaming(Value from, Value to) {
  Substitution map;
  map.replace(from, to);
  return map;
}

}  // namespace

std::string GradientHooks::why_none(PyObject* tensor) {
  const TensorId id = tensors_.id_of(tensor);
  const Value v = aliases_.value(id);
  if (!acquisition_.records_program()) return "in a function that is recorded apart";
  if (tensors_.is_outside(id)) return "of a tensor from outside that is written to, or shares memory with another one";
  if (!v.requires_grad()) return "of a tensor that requires no gradient";
  if (acquisition_.is_new_leaf(v)) return "of a tensor that the function made a leaf";
  if (aliases_.is_alias(id)) return "of a view of a whole tensor";
  if (!aliases_.path(id).empty() && (aliases_.written(id) || aliases_.base_input(id)))
    return "of a view of what comes from outside, or is written to";
  // Eager adds the hook to those of the tensor as it was.
  for (const auto& [hooked, before] : hooked_tensors_)
    if (hooked.get() == tensor && before != id) return "of a tensor with hooks whose sizes were changed in place";
  Calls calls = b_.calls();
  auto next = hooked_.find(v.id());
  auto maker = find_maker(calls, next == hooked_.end() ? v : next->second);
  if (maker == calls.end()) return "of a tensor that no call of the program computes";
  return is_freed(*maker) ? "behind a torch.autograd.grad that keeps no graph" : "";
}

// The same tensor, with a gradient of its own.
const Call* GradientHooks::hook_call(Value in, Value out, PyObject* backward, const std::string& name) {
  auto rule = std::make_shared<RecordedGradient>();
  b_.open_scope();
  const bool enabled = b_.grad_enabled();
  b_.set_grad_enabled(true);
  const Value made = b_("prims.new_leaf", in).value();
  b_.set_grad_enabled(enabled);
  Calls body = b_.close_scope();
  for (const Call*& call : body) call = substitute(*acquisition_.arena(), call, renaming(made, out));
  rule->placeholders.emplace_back(out, acquisition_.arena()->make_value(placeholder_type(out.tensor())));
  rule->output = Arg::tuple({out});
  rule->backward = custom_.record_backward(backward, {in}, name, *rule);
  rule->args = {Arg::list({in}), Arg::list({in}), Arg::list({})};
  const ArgList args = rule->args;
  const Op& op = operator_of(*acquisition_.arena(), std::move(rule), name,
                             {list_parameter("outputs"), list_parameter("inputs"), list_parameter("saved")}, "any");
  return acquisition_.arena()->make_call(Call{.op = &op,
                                              .args = args,
                                              .output = Arg::tuple({out}),
                                              .body = std::move(body),
                                              .location = b_.location(),
                                              .symbols = {}});
}

size_t GradientHooks::put(PyObject* tensor, PyObject* backward, const std::string& name, bool last) {
  const TensorId id = tensors_.id_of(tensor);
  const Value v = aliases_.value(id);
  Value& next = hooked_.try_emplace(v.id(), v).first->second;
  const Value in = acquisition_.arena()->make_value(next.type()), out = next;
  const Call* hook = hook_call(in, out, backward, name);
  Calls calls = b_.calls();
  const auto maker = find_maker(calls, out);
  THUNDER_ASSERT(maker != calls.end(), "no call makes ", out.name());
  *maker = substitute(*acquisition_.arena(), *maker, renaming(out, in));
  calls.insert(maker + 1, hook);
  b_.replace_calls(std::move(calls));
  if (!last) next = in;
  if (!aliases_.path(id).empty()) hooked_views_.insert(aliases_.path(id).back());
  hooked_tensors_.emplace_back(Ref::borrow(tensor), id);
  hooks_.push_back(hook->op);
  return hooks_.size() - 1;
}

void GradientHooks::remove(size_t number) {
  Calls calls = b_.calls();
  const auto at =
      std::find_if(calls.begin(), calls.end(), [&](const Call* call) { return call->op == hooks_.at(number); });
  if (at == calls.end()) return;
  const Value in = (*at)->args[0].items()[0].value(), out = (*at)->output.items()[0].value();
  b_.open_scope();
  const Value made = b_("prims.same", in).value();
  const Calls same = b_.close_scope();
  *at = substitute(*acquisition_.arena(), same.at(0), renaming(made, out));
  b_.replace_calls(std::move(calls));
}

std::optional<size_t> GradientHooks::retain(PyObject* tensor) {
  for (const Retained& r : retained_)
    if (r.tensor.get() == tensor) return std::nullopt;
  retained_.push_back({Ref::borrow(tensor), tensors_.value_of(tensor)});
  return retained_.size() - 1;
}

void GradientHooks::free_graph(const Call& call) {
  freed_.insert(&call);
  for (const Call* inner : call.body) free_graph(*inner);
}

void GradientHooks::check_views(const std::vector<const Call*>& views) const {
  for (const Call* view : views)
    THUNDER_CHECK(hooked_views_.count(view) == 0, NotImplemented, "register_hook",
                  "a view that has a hook, and what it views, are both returned or kept");
}

}  // namespace thunder::frontend
