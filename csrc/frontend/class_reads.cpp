#include "frontend/class_reads.h"

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "python/lookup.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

// torch.autograd.Function.apply is the compiler's while programs are acquired.
bool of_the_compiler(PyObject* found) {
  if (!found || !Py_IS_TYPE(found, &PyClassMethod_Type) || hooks().internal_paths.empty()) return false;
  Ref function = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  if (!PyFunction_Check(function.get())) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get()));
  return printable(code->co_filename).starts_with(hooks().internal_paths[0]);
}

// Classes of C code do not change.
bool can_change(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}

}  // namespace

void ClassReads::read(PyTypeObject* type, PyObject* name, PyObject* found) {
  if (of_the_compiler(found) || log_.class_written(type, name)) return;
  fresh_.came_from_outside(found);
  if (!can_change(type)) return;
  auto* o = reinterpret_cast<PyObject*>(type);
  if (fresh_.has(o)) {
    PyTypeObject* base = type->tp_base;
    return base ? read(base, name, class_attribute(base, name)) : void();
  }
  auto [it, first] = index_.emplace(o, classes_.size());
  if (first) {
    classes_.push_back({type});
    kept_.push_back(Ref::borrow(o));
  }
  classes_[it->second].found.add(name, found);
}

void ClassReads::read_type(PyObject* object) {
  if (!can_change(Py_TYPE(object))) return;
  if (is_tensor(object) || fresh_.has(object) || hooks().is_dtensor(object)) return;
  types_.add(object);
}

void ClassReads::read_super(PyObject* super, PyObject* name) {
  struct Fields {
    PyObject_HEAD
    PyTypeObject* type;
    PyObject* object;
    PyTypeObject* object_type;
  };
  auto* s = reinterpret_cast<Fields*>(super);
  PyObject* order = s->object_type ? s->object_type->tp_mro : nullptr;
  bool below = true;
  for (Py_ssize_t i = 0; order && i < PyTuple_GET_SIZE(order); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if (!below) {
      read(type, name, class_attribute(type, name));
      if (PyDict_Contains(class_dict(PyTuple_GET_ITEM(order, i)), name) != 0) return;
    }
    below = below && type != s->type;
  }
}

void ClassReads::watch_types(EnvironmentGuard& environment) const {
  for (const Ref& o : types_.objects()) environment.watch_type(o.get());
}

void ClassReads::watch_classes(EnvironmentGuard& environment) const {
  for (const ClassRead& r : classes_) environment.watch_class(r.type, r.found.entries());
}

void ClassReads::watch_functions(EnvironmentGuard& environment) const {
  for (const Ref& f : functions_.objects()) environment.watch_code(f.get());
}

}  // namespace thunder::frontend
