#include "frontend/dtensors.h"

#include "frontend/hooks.h"
#include "passes/distributed/shards.h"

namespace thunder::frontend {

bool holds_dtensor(PyObject* o) {
  if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      if (holds_dtensor(PySequence_Fast_GET_ITEM(o, i))) return true;
    return false;
  }
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Check(o) && PyDict_Next(o, &pos, &key, &value);)
    if (holds_dtensor(value)) return true;
  return hooks().is_dtensor(o);
}

Ref record_with_dtensors(PyObject* func, PyObject* args, PyObject* kwargs) {
  if (!hooks().of_dtensors) return {};
  if (!holds_dtensor(args) && !(kwargs && holds_dtensor(kwargs))) return {};
  const Ref named = kwargs ? Ref::borrow(kwargs) : Ref::steal(PyDict_New());
  return Ref::steal(PyObject_CallFunctionObjArgs(hooks().of_dtensors.get(), func, args, named.get(), nullptr));
}

Ref DTensors::add_part(PyObject* dtensor, PyObject* local, PyObject* wrap) {
  const std::optional<Sharded> s = hooks().sharded(dtensor);
  InputSource source{.kind = InputSource::Captured, .tensor = s ? s->local : Ref::borrow(local)};
  TensorType t = s ? s->full : hooks().type_of(local);
  if (s) {
    source.partial = true;
  } else {
    t.requires_grad = hooks().type_of(dtensor).requires_grad;
    source.dtensor = Ref::borrow(dtensor), source.wrap = Ref::borrow(wrap);
  }
  const Ref proxy = new_proxy(t);
  PyObject* real = source.tensor.get();
  tensors_.add_input(proxy.get(), real, std::move(source), &t);
  return proxy;
}

namespace {

bool same_calls(const std::vector<const Call*>& a, size_t from, const std::vector<const Call*>& b) {
  if (a.size() - from != b.size()) return false;
  for (size_t i = 0; i < b.size(); ++i)
    if (a[from + i]->op != b[i]->op || !same_calls(a[from + i]->body, 0, b[i]->body)) return false;
  return true;
}

// Memory that is laid out as the part's: what lies outside of the divided dimension lies farther apart.
Dims strides_of_whole(const TensorType& part, const Dims& sizes) {
  Dims out = part.strides;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].same(part.shape[d])) continue;
    if (part.shape[d].same(Dim(0))) return contiguous_strides(sizes);
    for (size_t i = 0; i < out.size(); ++i) {
      const bool outside = out[i].is_constant() && out[d].is_constant() ? out[d].constant() < out[i].constant() : i < d;
      if (outside) out[i] = floordiv(out[i] * sizes[d], part.shape[d]);
    }
    return out;
  }
  return out;
}

}  // namespace

bool DTensors::end_trial(size_t since) {
  const std::vector<const Call*> of_wholes = b_.close_scope();
  return same_calls(b_.calls(), since, of_wholes);
}

Ref DTensors::whole_of(PyObject* part, PyObject* sizes) {
  TensorType t = tensors_.type_of(part);
  Dims shape;
  const Arg given = tensors_.convert(sizes);
  for (const Arg& n : given.items()) shape.push_back(n.dim());
  t.strides = strides_of_whole(t, shape);
  t.shape = std::move(shape);
  return proxies_.add(aliases_.add_input(arena_->make_value(t), true));
}

std::vector<size_t> DTensors::values(const std::vector<PyObject*>& tensors) {
  std::vector<size_t> out;
  for (PyObject* t : tensors) out.push_back(tensors_.value_of(t).id());
  return out;
}

std::vector<std::optional<int64_t>> DTensors::parts(size_t since,
                                                    const std::vector<std::pair<PyObject*, int64_t>>& given,
                                                    const std::vector<PyObject*>& results) {
  distributed::Shards parts;
  for (const auto& [tensor, dim] : given) parts.set_shard(tensors_.value_of(tensor), dim);
  const std::vector<const Call*>& calls = b_.calls();
  for (size_t i = since; i < calls.size(); ++i) parts.add(*calls[i]);
  std::vector<std::optional<int64_t>> out;
  for (PyObject* t : results) out.push_back(parts.dim_of(tensors_.value_of(t)));
  return out;
}

}  // namespace thunder::frontend
