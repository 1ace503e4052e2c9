// Transforms of torch.func: a function is recorded apart, on inputs that require gradients for it alone, and its calls
// are then made again for the program's tensors.
//
//   pull = vjp(f, x)          # apart: x1 requires a gradient     # of the program, whose x does or does not
//                             t1 = sin(x1)                        t3 = sin(x)
//   pull(g)                   # the gradient for any g1
//                             t2 = mul(g1, cos(x1))               t4 = mul(g, cos(x))
//
// So whether a result requires a gradient is what the program's tensors say, and functions of such functions are
// differentiated, and batched, as all others are.
#include <algorithm>

#include "core/error.h"
#include "frontend/tracer.h"
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

std::vector<const Call*> Tracer::CallsApart::close() {
  tracer_.scopes_.pop_back();
  open_ = false;
  return tracer_.b_.close_scope();
}

// An exception leaves the function that is recorded: what it has computed is no part of the program.
Tracer::CallsApart::~CallsApart() {
  if (!open_) return;
  close();
  if (before_ && !tracer_.aliases_.restore(*before_) && tracer_.eager.why.empty())
    tracer_.eager.why = "a function under torch.func or torch.vmap writes to what it is given, and raises";
}

// `own`: the type of what stands for an input, by the input's.
Tracer::Function Tracer::record_apart(PyObject* fn, const std::vector<PyObject*>& inputs,
                                      TensorType (*own)(const TensorType&), const char* transform) {
  Function f;
  for (PyObject* o : inputs) {
    f.given.push_back(value_of(o));
    f.given_ids.push_back(id_of(o));
  }
  f.before = std::make_unique<AliasTracker::Checkpoint>(aliases_.checkpoint());
  const size_t reads = value_reads_.size();
  CallsApart apart(*this, *f.before);
  Ref args = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) {
    f.own.push_back(arena_->make_value(own(f.given[i].tensor())));
    bool fresh = false;
    f.own_ids.push_back(aliases_.add_result(f.own.back(), nullptr, &fresh));
    f.proxies.push_back(proxy_of(f.own_ids.back()));
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(f.proxies.back().get()));
  }
  f.made = call_user(fn, args.get());
  if (!f.made) throw PythonError();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(f.made.get()); ++i)
    f.results.push_back(value_of(PyList_GET_ITEM(f.made.get(), i)));
  bool written = false;
  for (size_t i = 0; i < f.own.size(); ++i) written |= !(aliases_.value(f.own_ids[i]) == f.own[i]);
  f.calls = apart.close();
  if (!aliases_.restore(*f.before) || written)
    leave_to_eager(cat(transform, " of a function that writes to what it is given"));
  if (value_reads_.size() != reads) leave_to_eager(cat(transform, " of a function that reads values"));
  return f;
}

// The function's calls as those of the program.  What it made, and Python may still have, is the program's.
void Tracer::put_function(const Function& f, const ValueSet& read, Replay& calls) {
  for (size_t i = 0; i < f.own.size(); ++i) calls.set(f.own[i], f.given[i]);
  for (const Call* call : open_where_needed(f.calls, read)) calls.put(*call);
  std::vector<std::pair<TensorId, TensorId>> same;
  for (size_t i = 0; i < f.own.size(); ++i) same.emplace_back(f.own_ids[i], f.given_ids[i]);
  aliases_.replay(*f.before, calls, same);
  for (size_t i = 0; i < f.own.size(); ++i) ids_[f.proxies[i].get()] = f.given_ids[i];
  for (const Call* call : f.calls)
    visit_all_outputs(*call, [&](Value v) {
      if (new_leaves_.count(v.id()) != 0) new_leaves_.insert(calls.now(v).id());
    });
  for (Copy& copy : copies_) copy.value = calls.now(copy.value);
}

// The rules of calls of the function, or of its gradient.
PartialGradients Tracer::rules_apart(const std::vector<const Call*>& calls,
                                     const std::vector<std::pair<Value, Value>>& seeds,
                                     const std::vector<Value>& inputs) {
  PartialGradients made = partial_gradients(b_, calls, seeds, inputs);
  check_rules(made.applied, b_.grad_enabled());
  CallsApart copies(*this);
  made.gradients = in_own_memory(made.gradients, made.calls);
  for (const Call* copy : copies.close()) made.calls.push_back(copy);
  return made;
}

std::pair<Ref, size_t> Tracer::pullback(PyObject* fn, const std::vector<PyObject*>& inputs, bool recording, bool linear,
                                        bool any_cotangent) {
  ShapeEnv::Scope shapes(shapes_);
  if (!owned_) leave_to_eager("torch.func in a rule");
  for (PyObject* o : inputs)
    if (const Value v = value_of(o); !v.tensor().strided() || !is_floating(v.dtype()))
      leave_to_eager("torch.func of what is no dense tensor of real numbers");
  const auto requiring = [](const TensorType& given) {
    TensorType t = given;
    t.requires_grad = true;
    return t;
  };
  const Function f = record_apart(fn, inputs, requiring, "torch.func");
  if (linear && std::any_of(f.calls.begin(), f.calls.end(), [](const Call* c) { return ends_gradients(*c); }))
    leave_to_eager("a forward-mode derivative through torch.no_grad()");
  auto any_given = [&] {
    return std::any_of(f.given.begin(), f.given.end(), [](Value v) { return v.requires_grad(); });
  };
  Pullback p{.function = Replay(b_), .given = f.given};
  p.twice = linear || (recording && (any_cotangent || any_given() || reads_differentiable(f.calls, f.own)));
  p.scope = scopes_.back();
  b_.set_grad_enabled(p.twice);
  std::vector<std::pair<Value, Value>> seeds;
  for (Value v : f.results) {
    TensorType t = placeholder_type(v.tensor());
    t.requires_grad = p.twice;
    p.cotangents.push_back(arena_->make_value(std::move(t)));
    if (v.requires_grad()) seeds.emplace_back(v, p.cotangents.back());
  }
  try {
    PartialGradients made = rules_apart(f.calls, seeds, f.own);
    p.calls = std::move(made.calls);
    p.gradients = std::move(made.gradients);
    b_.set_grad_enabled(recording);
    put_function(f, made.read, p.function);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::NotImplemented || !eager.why.empty()) throw;
    leave_to_eager(cat("torch.func: ", e.what()));
  }
  b_.set_grad_enabled(hooks().grad_enabled());
  pullbacks_.push_back(std::move(p));
  return {f.made, pullbacks_.size() - 1};
}

std::vector<Ref> Tracer::pull(size_t number, const std::vector<PyObject*>& cotangents) {
  ShapeEnv::Scope shapes(shapes_);
  const Pullback p = pullbacks_.at(number);
  if (std::find(scopes_.begin(), scopes_.end(), p.scope) == scopes_.end())
    leave_to_eager("a torch.func.vjp outside of the transform in which it was made");
  const bool recording = hooks().grad_enabled();
  b_.set_grad_enabled(recording);
  Replay calls = p.function;
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const TensorType& t = p.cotangents.at(i).tensor();
    const Value g = cotangents[i] == Py_None
                        ? b_("torch.ones", Arg(t.shape), kw("dtype", t.dtype), kw("device", t.device)).value()
                        : value_of(cotangents[i]);
    if (g.dtype() != t.dtype || !ops::equal(g.shape(), t.shape))
      leave_to_eager("torch.func with a cotangent or tangent of another shape or dtype");
    if (recording && g.requires_grad() && !p.twice)
      leave_to_eager("a gradient of torch.func for a cotangent that requires one itself");
    calls.set(p.cotangents[i], g);
  }
  for (const Call* call : p.calls) calls.put(*call);
  std::vector<Ref> out;
  for (size_t i = 0; i < p.gradients.size(); ++i) {
    const Arg& g = p.gradients[i];
    b_.set_grad_enabled(recording);
    out.push_back(wrap(g.is_none() ? b_("torch.zeros_like", p.given[i]).value() : calls.now(g.value()), nullptr));
  }
  return out;
}

}  // namespace thunder::frontend
