#include "frontend/custom_gradient.h"

#include "core/error.h"
#include "frontend/functions_apart.h"
#include "frontend/hooks.h"
#include "passes/recorded_gradient.h"
#include "passes/visit.h"

namespace thunder::frontend {
namespace {

Param list_parameter(const char* name) {
  Param p;
  p.name = name;
  p.list = true;
  return p;
}

// What the calls read that none of them makes.
ArgList read_from_outside(const std::vector<const Call*>& calls,
                          const std::vector<std::pair<Value, Value>>& placeholders,
                          const std::vector<std::pair<Value, Arg>>& puts) {
  ValueSet known;
  ArgList out;
  for (const auto& [result, placeholder] : placeholders) known.set(placeholder, 1);
  auto read = [&](Value v) {
    if (known[v]) return;
    known.set(v, 1);
    out.push_back(v);
  };
  for (const Call* call : calls) {
    visit_all_inputs(*call, read);
    visit_outputs(*call, [&](Value v) { known.set(v, 1); });
  }
  for (const auto& [input, gradient] : puts) visit_values(gradient, read);
  return out;
}

}  // namespace

// The gradient of an input, as autograd takes it: of the input's dtype, summed where the input was broadcast.
Arg CustomGradients::fit_gradient(PyObject* gradient, Value input, const std::string& name) {
  Arg g = tensors_.convert(gradient);
  THUNDER_CHECK(g.is_tensor(), Type, name, "backward() must return tensors or None, got ", Py_TYPE(gradient)->tp_name);
  Expr e = b_.expr(g);
  if (!same(e.shape(), input.shape())) e = b_("torch.sum_to_size", e, input.shape());
  if (e.dtype() != input.dtype()) e = b_("torch.to", e, input.dtype());
  return e.arg();
}

std::vector<const Call*> CustomGradients::record_backward(PyObject* backward, const std::vector<Value>& inputs,
                                                          const std::string& name, RecordedGradient& rule) {
  const AliasTracker::Checkpoint before = aliases_.checkpoint();
  b_.open_scope();
  try {
    Ref cotangents = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(rule.placeholders.size())));
    for (size_t i = 0; i < rule.placeholders.size(); ++i) {
      Value placeholder = rule.placeholders[i].second;
      Ref proxy = proxies_.add(aliases_.add_input(placeholder, false));
      PyTuple_SET_ITEM(cotangents.get(), static_cast<Py_ssize_t>(i), proxy.release());
    }
    Ref gradients = call_user(backward, cotangents.get());
    b_.set_grad_enabled(false);
    for (size_t i = 0; i < inputs.size(); ++i) {
      PyObject* g = PyList_GET_ITEM(gradients.get(), static_cast<Py_ssize_t>(i));
      if (g != Py_None) rule.puts.emplace_back(inputs[i], fit_gradient(g, inputs[i], name));
    }
  } catch (...) {
    b_.close_scope();
    throw;
  }
  std::vector<const Call*> calls = b_.close_scope();
  THUNDER_CHECK(aliases_.restore(before), NotImplemented, name,
                "backward() writes in place to a tensor that it did not make; clone() it first");
  return calls;
}

std::vector<Ref> CustomGradients::with_gradient(const std::vector<PyObject*>& outputs,
                                                const std::vector<PyObject*>& inputs, PyObject* backward,
                                                const std::string& name) {
  std::vector<Value> given;
  for (PyObject* o : inputs) given.push_back(tensors_.value_of(o));
  auto rule = std::make_shared<RecordedGradient>();
  ArgList raw, results;
  for (PyObject* o : outputs) {
    // The results are tensors of their own: nothing that is seen elsewhere, too, may be one of them.
    Value v = tensors_.value_of(o);
    b_.set_grad_enabled(false);
    if (aliases_.base_input(tensors_.id_of(o)) || aliases_.path(tensors_.id_of(o)).size())
      v = b_("torch.clone", v).value();
    raw.push_back(v);
  }
  b_.open_scope();
  for (const Arg& v : raw) results.push_back(b_("prims.new_leaf", v).arg());
  std::vector<const Call*> body = b_.close_scope();
  for (const Arg& r : results)
    rule->placeholders.emplace_back(r.value(), arena_->make_value(placeholder_type(r.value().tensor())));
  rule->output = Arg::tuple(results);
  rule->backward = record_backward(backward, given, name, *rule);
  ArgList saved = read_from_outside(rule->backward, rule->placeholders, rule->puts);
  rule->args = {Arg::list(raw), Arg::list(ArgList(given.begin(), given.end())), Arg::list(std::move(saved))};
  ArgList args = rule->args;
  Arg output = rule->output;
  const Op& op = operator_of(*arena_, std::move(rule), name,
                             {list_parameter("outputs"), list_parameter("inputs"), list_parameter("saved")}, "any");
  b_.append(arena_->make_call(Call{.op = &op,
                                   .args = std::move(args),
                                   .output = output,
                                   .body = std::move(body),
                                   .location = b_.location(),
                                   .symbols = {}}));
  std::vector<Ref> out;
  for (const Arg& r : results) out.push_back(proxies_.wrap(r.value(), nullptr));
  return out;
}

}  // namespace thunder::frontend
