#include "frontend/proxies.h"

#include "frontend/hooks.h"

namespace thunder::frontend {

Ref new_proxy(const TensorType& t) {
  Hooks& h = hooks();
  auto sizes = [](const Dims& dims) {
    Ref out = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (size_t i = 0; i < dims.size(); ++i) {
      // The proxy's own sizes are not read where they are symbolic (see the handlers of shape and size).
      int64_t d = dims[i].is_constant() ? dims[i].constant() : 2;
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(d));
    }
    return out;
  };
  Ref shape = sizes(t.shape), strides = sizes(t.strided() ? t.strides : contiguous_strides(t.shape));
  Ref args = Ref::steal(PyTuple_Pack(3, h.proxy_class, shape.get(), strides.get()));
  Ref kwargs = Ref::steal(PyDict_New());
  Ref device = device_to_python(t.device);
  PyDict_SetItemString(kwargs.get(), "dtype", dtype_to_python(t.dtype).get());
  PyDict_SetItemString(kwargs.get(), "device", device.get());
  PyDict_SetItemString(kwargs.get(), "requires_grad", t.requires_grad ? Py_True : Py_False);
  Ref proxy = Ref::steal(PyObject_Call(h.make_wrapper_subclass.get(), args.get(), kwargs.get()));
  h.forbid_data(proxy.get());
  return proxy;
}

std::optional<TensorId> Proxies::find(PyObject* tensor) const {
  const auto at = ids_.find(tensor);
  return at == ids_.end() ? std::nullopt : std::optional(at->second);
}

void Proxies::bind(PyObject* object, TensorId t) {
  ids_[object] = t;
  objects_[t] = Ref::borrow(object);
}

void Proxies::rebind(PyObject* object, TensorId before, TensorId t) {
  const Ref proxy = new_proxy(aliases_.value(t).tensor());
  Ref::steal(PyObject_CallFunctionObjArgs(hooks().swap_tensors.get(), object, proxy.get(), nullptr));
  const Ref kept = Ref::borrow(object);
  objects_.erase(before);
  bind(object, t);
}

Proxies::Unchanged Proxies::unchanged_by(const std::string& op) {
  for (const Op* o : Registry::instance().overloads(op))
    if (o->level != "torch" || o->has(kReturnsInput)) return Unchanged::Returned;
  return Unchanged::Viewed;
}

Ref Proxies::wrap(Value v, const Call* call, Unchanged unchanged, PyObject* first) {
  if (!v.type().is_tensor()) return make_number(v);
  if (auto it = first ? ids_.find(first) : ids_.end(); it != ids_.end() && aliases_.value(it->second) == v)
    return unchanged == Unchanged::Viewed ? add_alias(it->second) : Ref::borrow(first);
  bool fresh = false;
  TensorId id = aliases_.add_result(v, call, &fresh);
  if (fresh) layouts_.note_copy(v, call);
  if (!fresh && unchanged == Unchanged::Viewed) return add_alias(id);
  if (acquisition_.is_new_leaf(v)) aliases_.make_leaf(id);
  auto it = objects_.find(id);
  return it != objects_.end() ? it->second : add(id);
}

Ref Proxies::add_alias(TensorId of) {
  Value v = aliases_.value(of);
  TensorId id;
  if (v.requires_grad() && !hooks().grad_enabled()) {
    bool fresh = false;
    v = aliases_.viewed_whole(of);
    id = aliases_.add_result(v, acquisition_.builder().calls().back(), &fresh);
  } else {
    id = aliases_.add_alias(of);
  }
  return add(id);
}

Ref Proxies::add(TensorId t) {
  Ref proxy = new_proxy(aliases_.value(t).tensor());
  bind(proxy.get(), t);
  return proxy;
}

}  // namespace thunder::frontend
