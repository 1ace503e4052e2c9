#include "frontend/batched.h"

#include <algorithm>

#include "core/error.h"
#include "frontend/hooks.h"
#include "passes/batching.h"

namespace thunder::frontend {
namespace {

// What a value is seen through: the primitives that view it, from the memory in which it lies.
struct Seen {
  Value memory;
  bool made;  // by one of the calls
  std::vector<const Call*> path;
};

class Views {
 public:
  explicit Views(const std::vector<const Call*>& calls) {
    for (const Call* call : calls) {
      makers_.add(*call);
      visit_all_outputs(*call, [&](Value v) { made_.set(v, 1); });
    }
  }
  Seen seen(Value v) {
    Seen s{v, false, {}};
    for (const Call* view = makers_.of(v); view && view->op->has(kView); view = makers_.of(s.memory)) {
      const auto of = std::find_if(view->args.begin(), view->args.end(), [](const Arg& a) { return a.is_tensor(); });
      s.memory = of->value();
      s.path.push_back(view);
    }
    s.made = made_[s.memory] != 0;
    std::reverse(s.path.begin(), s.path.end());
    return s;
  }

 private:
  PrimitiveMakers makers_;
  ValueSet made_;
};

}  // namespace

std::vector<Ref> BatchedFunctions::call(PyObject* fn, const std::vector<PyObject*>& batches,
                                        const std::string& randomness) {
  using Randomness = Batching::Randomness;
  const Randomness draws = randomness == "different" ? Randomness::Different
                           : randomness == "same"    ? Randomness::Same
                                                     : Randomness::Refused;
  ShapeEnv::Scope shapes(acquisition_.shapes(), acquisition_.answers);
  for (PyObject* o : batches)
    if (!tensors_.value_of(o).tensor().strided()) acquisition_.leave_to_eager("torch.vmap of a sparse tensor");
  const FunctionApart f = functions_.record(fn, batches, sample_of, "torch.vmap");
  Batching batching(b_, f.given.at(0).shape().at(0), draws);
  for (size_t i = 0; i < f.own.size(); ++i) {
    batching.set(f.own[i], f.given[i]);
    tensors_.note_sample(f.own[i]);
  }
  return put(batching, f.calls, f.results, batches);
}

std::vector<Ref> BatchedFunctions::put(Batching& batching, const std::vector<const Call*>& calls,
                                       const std::vector<Value>& results, const std::vector<PyObject*>& batches) {
  CallsApart apart(acquisition_);
  // Each call's result says whether gradients were recorded.
  b_.set_grad_enabled(true);
  const bool known = std::all_of(calls.begin(), calls.end(), [&](const Call* call) { return batching.put(*call); });
  std::vector<Value> whole;
  if (known)
    for (Value v : results) whole.push_back(batching.whole(v).value());
  const std::vector<const Call*> put = apart.close();
  if (!known) acquisition_.leave_to_eager(cat("torch.vmap of ", batching.unknown()->name));
  for (const Call* call : put) b_.append(call);
  for (const Call* call : calls)
    visit_all_outputs(*call, [&](Value v) {
      if (batching.is_batch(v)) tensors_.note_sample(v);
    });
  b_.set_grad_enabled(hooks().grad_enabled());
  Views of_sample(calls), of_batch(put);
  std::vector<Ref> out;
  ValueMap<Value> in_batch, in_sample;
  for (size_t i = 0; i < results.size(); ++i) {
    const Seen sample = of_sample.seen(results[i]), batch = of_batch.seen(whole[i]);
    if (!in_batch[sample.memory]) in_batch.set(sample.memory, batch.memory);
    if (!in_sample[batch.memory]) in_sample.set(batch.memory, sample.memory);
    // A copy of a part of a sample may be a view of the batch.
    const bool alike = in_batch[sample.memory] == batch.memory && in_sample[batch.memory] == sample.memory;
    if (!alike || sample.made != batch.made)
      acquisition_.leave_to_eager("torch.vmap of a function that returns a view where the batch's is none");
    out.push_back(wrap_seen(whole[i], batch.memory, batch.path, batches));
  }
  return out;
}

// A result, as what it is seen through, of a value that is one of the batches or nobody else's.
Ref BatchedFunctions::wrap_seen(Value v, Value memory, const std::vector<const Call*>& path,
                                const std::vector<PyObject*>& batches) {
  const auto of =
      std::find_if(batches.begin(), batches.end(), [&](PyObject* o) { return tensors_.value_of(o) == memory; });
  if (of == batches.end() && !path.empty()) proxies_.wrap(memory, nullptr);
  const std::optional<TensorId> base = of != batches.end() ? tensors_.id_of(*of) : aliases_.owner(memory);
  if (path.empty()) return of != batches.end() ? proxies_.add_alias(*base) : proxies_.wrap(v, nullptr);
  if (const std::optional<TensorId> known = aliases_.owner(v)) return proxies_.object(*known);
  std::vector<const Call*> views = aliases_.path(*base);
  views.insert(views.end(), path.begin(), path.end());
  return proxies_.add(aliases_.add_view(*base, v, std::move(views)));
}

}  // namespace thunder::frontend
