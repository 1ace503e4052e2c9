#include "frontend/gradients.h"

#include <algorithm>

#include "core/error.h"
#include "frontend/functions_apart.h"
#include "passes/autodiff.h"
#include "passes/batching.h"
#include "passes/reverse_mode.h"

namespace thunder::frontend {
namespace {

constexpr bool kWarns = true;

// Whether its gradient belongs to the backward of the whole program, which is what knows of the call's tensors.
bool is_of_backward(const Call& call) {
  return call.op->name == "augmented.retain_grad" || call.op->name == "augmented.backward_hooks";
}

// The user's own word about a gradient: a rule that was registered, or, where it is differentiated itself, the backward()
// of a torch.autograd.Function, whose outputs are no functions of its inputs to autograd while it runs.
const Call* find_own_rule(const Call& call, Differentiated differentiated) {
  const bool twice = differentiated == Differentiated::Twice;
  if (find_gradient_rule(*call.op) || (twice && call.op->level == "augmented")) return &call;
  for (const Call* inner : call.body)
    if (const Call* found = find_own_rule(*inner, differentiated)) return found;
  return nullptr;
}

}  // namespace

// That the result may be asked for its gradient, and the input for one.  What is refused, eager refuses or decides.
void Gradients::check_differentiable(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& inputs) {
  for (PyObject* o : outputs)
    if (!tensors_.value_of(o).requires_grad())
      acquisition_.leave_to_eager("torch.autograd.grad of what requires no gradient", nullptr, kWarns);
  for (PyObject* o : inputs) {
    if (!tensors_.value_of(o).requires_grad())
      acquisition_.leave_to_eager("torch.autograd.grad with respect to what requires no gradient", nullptr, kWarns);
    // Other objects of the same memory have the same value, and gradients of their own.
    if (aliases_.is_alias(tensors_.id_of(o)))
      acquisition_.leave_to_eager("torch.autograd.grad with respect to a view of a whole tensor", nullptr, kWarns);
    if (hooks_.is_hooked(tensors_.value_of(o)))
      acquisition_.leave_to_eager("torch.autograd.grad with respect to a tensor that has hooks", nullptr, kWarns);
  }
}

// A tensor from outside may have been computed there from another one: the gradient would flow on outside.  The program
// is for calls where it was not.
void Gradients::require_leaves(const ValueSet& reached, const std::vector<PyObject*>& inputs) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const TensorId t = inputs_[i].id;
    if (inputs_[i].is_number() || !inputs_[i].real || !reached[inputs_.value(i)]) continue;
    const bool other = std::any_of(inputs.begin(), inputs.end(), [&](PyObject* o) {
      return tensors_.is_outside(tensors_.id_of(o)) && tensors_.id_of(o) != t;
    });
    if (!other) continue;
    inputs_.require_leaf(i);
  }
}

void Gradients::check_not_freed(const std::vector<const Call*>& applied) {
  for (const Call* call : applied)
    if (hooks_.is_freed(call))
      acquisition_.leave_to_eager(
          cat("a second torch.autograd.grad through what the first one freed (", call->op->name, ")"), nullptr, kWarns);
}

void check_rules(Acquisition& acquisition, const std::vector<const Call*>& applied, Differentiated differentiated) {
  for (const Call* call : applied)
    if (const Call* own = find_own_rule(*call, is_of_backward(*call) ? Differentiated::Twice : differentiated))
      acquisition.leave_to_eager(
          cat("torch.autograd.grad or torch.func through ", own->op->name, ", which has a gradient of its own"),
          nullptr, kWarns);
}

std::vector<Arg> in_own_memory(Builder& b, std::vector<Arg> gradients, const std::vector<const Call*>& made) {
  ValueSet fresh;
  for (const Call* call : made) visit_all_outputs(*call, [&](Value v) { fresh.set(v, 1); });
  const MemoryOf memory_of(made);
  ValueSet taken;
  for (Arg& g : gradients) {
    if (g.is_none()) continue;
    const Value memory = memory_of(g.value());
    if (!fresh[memory] || taken[memory]) g = b("torch.clone", g.value()).arg();
    taken.set(memory, 1);
  }
  return gradients;
}

// Gradients for one of the cotangents, made for all of them.
std::vector<Arg> Gradients::batched_gradients(const PartialGradients& made, const Samples& samples) {
  CallsApart apart(acquisition_);
  Batching batching(b_, samples.at(0).second.shape().at(0));
  for (const auto& [sample, batch] : samples) batching.set(sample, batch);
  const bool known =
      std::all_of(made.calls.begin(), made.calls.end(), [&](const Call* call) { return batching.put(*call); });
  std::vector<Arg> out;
  for (const Arg& g : made.gradients) out.push_back(known && g.is_value() ? batching.whole(g.value()).arg() : Arg());
  const std::vector<const Call*> put = apart.close();
  if (!known)
    acquisition_.leave_to_eager(cat("torch.autograd.grad with is_grads_batched=True: ", batching.unknown()->name));
  for (const Call* call : put) b_.append(call);
  return in_own_memory(b_, std::move(out), put);
}

std::vector<Ref> Gradients::of(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& cotangents,
                               const std::vector<PyObject*>& inputs, const Options& options) {
  if (!acquisition_.records_program())
    acquisition_.leave_to_eager("torch.autograd.grad in a function that is recorded apart", nullptr, kWarns);
  check_differentiable(outputs, inputs);
  const bool enabled = b_.grad_enabled();
  b_.set_grad_enabled(options.create_graph);
  std::vector<std::pair<Value, Value>> seeds;
  Samples samples;
  std::vector<Value> results, wanted;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(tensors_.value_of(outputs[i]));
    seeds.emplace_back(results.back(), cotangents[i] == Py_None ? b_("torch.ones_like", results.back()).value()
                                                                : tensors_.value_of(cotangents[i]));
    if (!options.batched) continue;
    const Value batch = seeds.back().second;
    seeds.back().second = acquisition_.arena()->make_value(sample_of(batch.tensor()));
    samples.emplace_back(seeds.back().second, batch);
  }
  for (PyObject* o : inputs) wanted.push_back(tensors_.value_of(o));
  const std::vector<const Call*> program = b_.calls();
  require_leaves(reached_by_gradients(program, results), inputs);
  PartialGradients made;
  try {
    made = partial_gradients(b_, program, seeds, wanted);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::NotImplemented) throw;
    acquisition_.leave_to_eager(cat("torch.autograd.grad: ", e.what()), nullptr, kWarns);
  }
  check_rules(acquisition_, made.applied, options.create_graph ? Differentiated::Twice : Differentiated::Once);
  b_.replace_calls(open_where_needed(program, made.read));
  if (options.batched) made.gradients = batched_gradients(made, samples);
  else
    for (const Call* call : made.calls) b_.append(call);
  check_not_freed(made.applied);
  if (!options.retain_graph)
    for (const Call* call : made.applied) hooks_.free_graph(*call);
  std::vector<Ref> out;
  for (const Arg& g : options.batched ? made.gradients : in_own_memory(b_, made.gradients, made.calls))
    out.push_back(g.is_none() ? Ref::borrow(Py_None) : proxies_.wrap(g.value(), nullptr));
  b_.set_grad_enabled(enabled);
  return out;
}

}  // namespace thunder::frontend
