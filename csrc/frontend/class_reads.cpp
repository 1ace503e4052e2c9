#include "frontend/class_reads.h"

#include <algorithm>

#include "core/error.h"
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
  if (of_the_compiler(found)) return;
  if (log_.class_written(type, name)) return read_below_written(type, name);
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

// The program wrote the attribute of a base class, which needs no guard.  Each class before that base must keep its own
// entry, or have none: a look-up could find the value that the program writes.
void ClassReads::read_below_written(PyTypeObject* type, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    auto* base_type = reinterpret_cast<PyTypeObject*>(base);
    PyObject* dict = class_dict(base);
    PyObject* own = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
    const bool guarded = !log_.attribute_written(base, name) && can_change(base_type) && !fresh_.has(base);
    if (guarded) add_own_entry(base, name, own);
    if (own) return;
  }
}

void ClassReads::add_own_entry(PyObject* type, PyObject* name, PyObject* own) {
  auto at =
      std::find_if(own_entries_.begin(), own_entries_.end(), [&](const auto& e) { return e.first.get() == type; });
  if (at == own_entries_.end()) at = own_entries_.emplace(at, Ref::borrow(type), RecordedEntries());
  at->second.add(name, own);
  if (own) fresh_.came_from_outside(own);
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

void ClassReads::watch_own_entries(EnvironmentGuard& environment) const {
  for (const auto& [type, entries] : own_entries_)
    environment.watch_entries(class_dict(type.get()),
                              cat("class ", reinterpret_cast<PyTypeObject*>(type.get())->tp_name), entries.entries(),
                              -1, false);
}

void ClassReads::watch_functions(EnvironmentGuard& environment) const {
  for (const Ref& f : functions_.objects()) environment.watch_code(f.get());
}

}  // namespace thunder::frontend
