// torch.vmap: the function runs on one sample, and what it calls is then called for the whole batch (passes/batching.h).
#include "passes/batching.h"

#include <algorithm>

#include "core/error.h"
#include "frontend/tracer.h"

namespace thunder::frontend {
namespace {

TensorType sample_of(const TensorType& batch) {
  TensorType t = batch;
  t.shape.erase(t.shape.begin());
  t.strides.erase(t.strides.begin());
  return t;
}

using Makers = ValueMap<const Call*>;

Makers makers_of(const std::vector<const Call*>& calls) {
  Makers makers{nullptr};
  for (const Call* call : calls) visit_all_outputs(*call, [&](Value v) { makers.set(v, call); });
  return makers;
}

// What memory a value is in: the value that one of the calls makes there.  Nothing if that is older than the calls.
Value memory_of(Value v, const Makers& makers) {
  while (makers[v] && is_pure_view(*makers[v])) {
    const Call& view = *makers[v];
    if (view.args.empty() || !view.args[0].is_tensor()) return {};
    v = view.args[0].value();
  }
  return makers[v] ? v : Value();
}

}  // namespace

std::vector<Ref> Tracer::batched(PyObject* fn, const std::vector<PyObject*>& batches) {
  const AliasTracker::Checkpoint before = aliases_.checkpoint();
  const size_t reads = value_reads_.size();
  Batching batching(b_, type_of(batches.at(0)).shape.at(0));
  std::vector<Value> results;
  bool written = false;
  ShapeEnv::Scope shapes(shapes_);
  CallsApart apart(*this);
  std::vector<std::pair<TensorId, Value>> given;
  Ref samples = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(batches.size())));
  for (size_t i = 0; i < batches.size(); ++i) {
    const Value batch = value_of(batches[i]);
    if (!batch.tensor().strided()) leave_to_eager("torch.vmap of a sparse tensor");
    const Value sample = arena_->make_value(sample_of(batch.tensor()));
    batching.set(sample, batch);
    bool fresh = false;
    given.emplace_back(aliases_.add_result(sample, nullptr, &fresh), sample);
    Ref proxy = proxy_of(given.back().first);
    PyTuple_SET_ITEM(samples.get(), static_cast<Py_ssize_t>(i), proxy.release());
  }
  Ref made = call_user(fn, samples.get());
  if (!made) throw PythonError();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(made.get()); ++i)
    results.push_back(value_of(PyList_GET_ITEM(made.get(), i)));
  for (const auto& [id, sample] : given) {
    written = written || !(aliases_.value(id) == sample);
    samples_.insert(sample.id());
  }
  const std::vector<const Call*> calls = apart.close();
  if (!aliases_.restore(before) || written) leave_to_eager("torch.vmap of a function that writes in place");
  if (value_reads_.size() != reads) leave_to_eager("torch.vmap of a function that reads values");
  return put_batched(batching, calls, results);
}

std::vector<Ref> Tracer::put_batched(Batching& batching, const std::vector<const Call*>& calls,
                                     const std::vector<Value>& results) {
  CallsApart apart(*this);
  // Each call's result says whether gradients were recorded.
  b_.set_grad_enabled(true);
  const bool known = std::all_of(calls.begin(), calls.end(), [&](const Call* call) { return batching.put(*call); });
  const std::vector<const Call*> put = apart.close();
  if (!known) leave_to_eager(cat("torch.vmap of ", batching.unknown()->name));
  for (const Call* call : put) b_.append(call);
  const Makers of_sample = makers_of(calls), of_batch = makers_of(put);
  for (const Call* call : calls)
    visit_all_outputs(*call, [&](Value v) {
      if (batching.is_batch(v)) samples_.insert(v.id());
    });
  std::vector<Ref> out;
  ValueMap<Value> in_memory;
  for (Value v : results) {
    const Value memory = memory_of(batching.now(v).value(), of_batch);
    // The tracker takes each result for memory of its own.  A copy of a part of a sample may be a view of the batch.
    const bool shared = !memory || (in_memory[memory] && !(in_memory[memory] == v));
    if (shared || !of_sample[v]) leave_to_eager("torch.vmap of a function that returns a view");
    in_memory.set(memory, v);
    out.push_back(wrap(batching.whole(v).value(), nullptr));
  }
  b_.set_grad_enabled(hooks().grad_enabled());
  return out;
}

}  // namespace thunder::frontend
