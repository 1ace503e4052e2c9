#include "frontend/derivatives.h"

#include <algorithm>

#include "core/error.h"
#include "frontend/gradients.h"
#include "frontend/hooks.h"
#include "ops/common.h"
#include "passes/recorded_gradient.h"
#include "passes/reverse_mode.h"

namespace thunder::frontend {
namespace {

// Whether it computes from what carries a gradient what carries none, because of no_grad.
bool ends_gradients(const Call& call) {
  bool carries = false, given = false, inexact = false;
  for (const Arg& a : call.args) visit_values(a, [&](Value v) { given |= v.requires_grad(); });
  visit_outputs(call, [&](Value v) {
    carries |= v.requires_grad();
    inexact |= v.type().is_tensor() && is_inexact(v.dtype());
  });
  if (!given || carries || !inexact || call.op->has(kNoGrad)) return false;
  return call.body.empty() ||
         std::any_of(call.body.begin(), call.body.end(), [](const Call* inner) { return ends_gradients(*inner); });
}

// Whether the calls read what requires a gradient and is none of theirs.
bool reads_differentiable(const std::vector<const Call*>& calls, const std::vector<Value>& own) {
  ValueSet known;
  for (Value v : own) known.set(v, 1);
  bool any = false;
  for (const Call* call : calls) {
    visit_outer_inputs(*call, [&](Value v) { any |= v.requires_grad() && !known[v]; });
    visit_all_outputs(*call, [&](Value v) { known.set(v, 1); });
  }
  return any;
}

}  // namespace

// The function's calls as those of the program.  What it made, and Python may still have, is the program's.
void Derivatives::put_function(const FunctionApart& f, const ValueSet& read, Replay& calls) {
  for (size_t i = 0; i < f.own.size(); ++i) calls.set(f.own[i], f.given[i]);
  for (const Call* call : open_where_needed(f.calls, read)) calls.put(*call);
  std::vector<std::pair<TensorId, TensorId>> same;
  for (size_t i = 0; i < f.own.size(); ++i) same.emplace_back(f.own_ids[i], f.given_ids[i]);
  aliases_.replay(*f.before, calls, same);
  for (size_t i = 0; i < f.own.size(); ++i) proxies_.set_id(f.proxies[i].get(), f.given_ids[i]);
  for (const Call* call : f.calls)
    visit_all_outputs(*call, [&](Value v) {
      if (acquisition_.is_new_leaf(v)) acquisition_.add_new_leaf(calls.now(v));
    });
  layouts_.replay(calls);
}

// The rules of calls of the function, or of its gradient.
PartialGradients Derivatives::rules_apart(const std::vector<const Call*>& calls,
                                          const std::vector<std::pair<Value, Value>>& seeds,
                                          const std::vector<Value>& inputs) {
  PartialGradients made = partial_gradients(b_, calls, seeds, inputs);
  check_rules(acquisition_, made.applied, b_.grad_enabled() ? Differentiated::Twice : Differentiated::Once);
  CallsApart copies(acquisition_);
  made.gradients = in_own_memory(b_, made.gradients, made.calls);
  for (const Call* copy : copies.close()) made.calls.push_back(copy);
  return made;
}

std::pair<Ref, size_t> Derivatives::pullback(PyObject* fn, const std::vector<PyObject*>& inputs,
                                             const PullbackOptions& options) {
  ShapeEnv::Scope shapes(acquisition_.shapes(), acquisition_.answers);
  if (!acquisition_.owns_program()) acquisition_.leave_to_eager("torch.func in a rule");
  for (PyObject* o : inputs)
    if (const Value v = tensors_.value_of(o); !v.tensor().strided() || !is_floating(v.dtype()))
      acquisition_.leave_to_eager("torch.func of what is no dense tensor of real numbers");
  const auto requiring = [](const TensorType& given) {
    TensorType t = given;
    t.requires_grad = true;
    return t;
  };
  const FunctionApart f = functions_.record(fn, inputs, requiring, "torch.func");
  if (options.linear && std::any_of(f.calls.begin(), f.calls.end(), [](const Call* c) { return ends_gradients(*c); }))
    acquisition_.leave_to_eager("a forward-mode derivative through torch.no_grad()");
  auto any_given = [&] {
    return std::any_of(f.given.begin(), f.given.end(), [](Value v) { return v.requires_grad(); });
  };
  Pullback p{.function = Replay(b_), .given = f.given};
  p.twice = options.linear ||
            (options.recording && (options.any_cotangent || any_given() || reads_differentiable(f.calls, f.own)));
  p.scope = acquisition_.scope();
  b_.set_grad_enabled(p.twice);
  std::vector<std::pair<Value, Value>> seeds;
  for (Value v : f.results) {
    TensorType t = placeholder_type(v.tensor());
    t.requires_grad = p.twice;
    p.cotangents.push_back(acquisition_.arena()->make_value(std::move(t)));
    if (v.requires_grad()) seeds.emplace_back(v, p.cotangents.back());
  }
  try {
    PartialGradients made = rules_apart(f.calls, seeds, f.own);
    p.calls = std::move(made.calls);
    p.gradients = std::move(made.gradients);
    b_.set_grad_enabled(options.recording);
    put_function(f, made.read, p.function);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::NotImplemented || acquisition_.eager) throw;
    acquisition_.leave_to_eager(cat("torch.func: ", e.what()));
  }
  b_.set_grad_enabled(hooks().grad_enabled());
  pullbacks_.push_back(std::move(p));
  return {f.made, pullbacks_.size() - 1};
}

std::vector<Ref> Derivatives::pull(size_t number, const std::vector<PyObject*>& cotangents) {
  ShapeEnv::Scope shapes(acquisition_.shapes(), acquisition_.answers);
  const Pullback p = pullbacks_.at(number);
  if (!acquisition_.is_within(p.scope))
    acquisition_.leave_to_eager("a torch.func.vjp outside of the transform in which it was made");
  const bool recording = hooks().grad_enabled();
  b_.set_grad_enabled(recording);
  Replay calls = p.function;
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const TensorType& t = p.cotangents.at(i).tensor();
    const Value g = cotangents[i] == Py_None
                        ? b_("torch.ones", Arg(t.shape), kw("dtype", t.dtype), kw("device", t.device)).value()
                        : tensors_.value_of(cotangents[i]);
    if (g.dtype() != t.dtype || !ops::equal(g.shape(), t.shape))
      acquisition_.leave_to_eager("torch.func with a cotangent or tangent of another shape or dtype");
    if (recording && g.requires_grad() && !p.twice)
      acquisition_.leave_to_eager("a gradient of torch.func for a cotangent that requires one itself");
    calls.set(p.cotangents[i], g);
  }
  for (const Call* call : p.calls) calls.put(*call);
  std::vector<Ref> out;
  for (size_t i = 0; i < p.gradients.size(); ++i) {
    const Arg& g = p.gradients[i];
    b_.set_grad_enabled(recording);
    out.push_back(
        proxies_.wrap(g.is_none() ? b_("torch.zeros_like", p.given[i]).value() : calls.now(g.value()), nullptr));
  }
  return out;
}

}  // namespace thunder::frontend
