// Hooks of tensors that the program computes: what autograd calls with a tensor's gradient is a call in the backward.
//
//   t1 = tanh(x)                            t3 = tanh(x)
//   t2 = mul(t1, t1)           -->          (t1,) = register_hook_augmented((t3,), (t3,), ())
//   t1.register_hook(f)                     t2 = mul(t1, t1)
//
// The call that makes the tensor gives another value, so that what read it before reads it behind the hook: the hook
// gets the whole gradient.  Hooks run in the order in which they were registered, the one of retain_grad() last.
#include <algorithm>

#include "core/error.h"
#include "core/rewrite.h"
#include "frontend/tracer.h"
#include "passes/recorded_gradient.h"

namespace thunder::frontend {
namespace {

using Calls = std::vector<const Call*>;

// The call that makes the value, and does not pass it on.
Calls::iterator find_maker(Calls& calls, Value v) {
  return std::find_if(calls.begin(), calls.end(), [&](const Call* call) {
    bool gives = false, takes = false;
    visit_outputs(*call, [&](Value out) { gives |= out == v; });
    visit_inputs(*call, [&](Value in) { takes |= in == v; });
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

std::string Tracer::why_no_hook(PyObject* tensor) {
  const TensorId id = id_of(tensor);
  const Value v = aliases_.value(id);
  if (!owned_ || &b_.calls() != &b_.outermost_calls()) return "in a function that is recorded apart";
  if (is_outside(id)) return "of a tensor from outside that is written to, or shares memory with another one";
  if (!v.requires_grad()) return "of a tensor that requires no gradient";
  if (new_leaves_.count(v.id()) != 0) return "of a tensor that the function made a leaf";
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
  return freed_.count(*maker) != 0 ? "behind a torch.autograd.grad that keeps no graph" : "";
}

// The same tensor, with a gradient of its own.
const Call* Tracer::hook_call(Value in, Value out, PyObject* backward, const std::string& name) {
  auto rule = std::make_shared<RecordedGradient>();
  b_.open_scope();
  const bool enabled = b_.grad_enabled();
  b_.set_grad_enabled(true);
  const Value made = b_("prims.new_leaf", in).value();
  b_.set_grad_enabled(enabled);
  Calls body = b_.close_scope();
  for (const Call*& call : body) call = substitute(*arena_, call, renaming(made, out));
  rule->placeholders.emplace_back(out, arena_->make_value(placeholder_type(out.tensor())));
  rule->output = Arg::tuple({out});
  rule->backward = record_backward(backward, {in}, name, *rule);
  rule->args = {Arg::list({in}), Arg::list({in}), Arg::list({})};
  const ArgList args = rule->args;
  const Op& op = operator_of(*arena_, std::move(rule), name,
                             {list_parameter("outputs"), list_parameter("inputs"), list_parameter("saved")}, "any");
  return arena_->make_call(Call{.op = &op,
                                .args = args,
                                .output = Arg::tuple({out}),
                                .body = std::move(body),
                                .location = b_.location(),
                                .symbols = {}});
}

size_t Tracer::put_hook(PyObject* tensor, PyObject* backward, const std::string& name, bool last) {
  const TensorId id = id_of(tensor);
  const Value v = aliases_.value(id);
  Value& next = hooked_.try_emplace(v.id(), v).first->second;
  const Value in = arena_->make_value(next.type()), out = next;
  const Call* hook = hook_call(in, out, backward, name);
  Calls calls = b_.calls();
  const auto maker = find_maker(calls, out);
  THUNDER_ASSERT(maker != calls.end(), "no call makes ", out.name());
  *maker = substitute(*arena_, *maker, renaming(out, in));
  calls.insert(maker + 1, hook);
  b_.replace_calls(std::move(calls));
  if (!last) next = in;
  if (!aliases_.path(id).empty()) hooked_views_.insert(aliases_.path(id).back());
  hooked_tensors_.emplace_back(Ref::borrow(tensor), id);
  hooks_.push_back(hook->op);
  return hooks_.size() - 1;
}

void Tracer::remove_hook(size_t number) {
  Calls calls = b_.calls();
  const auto at =
      std::find_if(calls.begin(), calls.end(), [&](const Call* call) { return call->op == hooks_.at(number); });
  if (at == calls.end()) return;
  const Value in = (*at)->args[0].items()[0].value(), out = (*at)->output.items()[0].value();
  b_.open_scope();
  const Value made = b_("prims.same", in).value();
  const Calls same = b_.close_scope();
  *at = substitute(*arena_, same.at(0), renaming(made, out));
  b_.replace_calls(std::move(calls));
}

bool Tracer::is_hooked(PyObject* tensor) { return hooked_.count(value_of(tensor).id()) != 0; }

bool Tracer::is_plain_input(PyObject* tensor) {
  const TensorId id = id_of(tensor);
  if (!owned_ || !aliases_.is_input(id) || views_of_shared_.count(id) || aliases_.written(id)) return false;
  const InputSource& s = source_of(id);
  return (s.kind == InputSource::Argument || s.kind == InputSource::Captured) && !s.whole_storage && !s.partial &&
         !s.becomes_leaf && !s.dtensor;
}

std::optional<size_t> Tracer::retain_gradient(PyObject* tensor) {
  for (const Retained& r : retained_)
    if (r.tensor.get() == tensor) return std::nullopt;
  retained_.push_back({Ref::borrow(tensor), value_of(tensor)});
  return retained_.size() - 1;
}

void Tracer::check_unwritable(TensorId id) {
  constexpr bool kWarns = true;
  if (hooks().grad_enabled() && unwritable_.count(aliases_.storage(id)) != 0)
    leave_to_eager("a write to what a module with backward hooks is given or gives", nullptr, kWarns);
}

// Hooks stand in the computation: the gradient of what the epilogue makes must come by there.
void Tracer::check_hooks(const Derived& d) const {
  for (const Call* view : d.path)
    THUNDER_CHECK(hooked_views_.count(view) == 0, NotImplemented, "register_hook",
                  "a view that has a hook, and what it views, are both returned or kept");
}

int64_t Tracer::place_of_retained(const Retained& r, const std::vector<PyObject*>& outputs,
                                  const std::vector<Derived>& derived) {
  const auto at = std::find(outputs.begin(), outputs.end(), r.tensor.get());
  if (at == outputs.end()) return -1;
  const Derived& d = derived[static_cast<size_t>(at - outputs.begin())];
  THUNDER_CHECK(d.computed >= 0 && d.path.empty() && !d.alias && !d.detached, NotImplemented, "retain_grad",
                "a view that keeps its gradient, and what it views, are both returned or kept");
  THUNDER_CHECK(value_of(r.tensor.get()) == r.value, NotImplemented, "retain_grad",
                "a tensor that keeps its gradient is written to, and returned or kept");
  return d.computed;
}

}  // namespace thunder::frontend
