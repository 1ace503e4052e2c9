#include "frontend/argument_uses.h"

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "python/errors.h"
#include "python/lookup.h"

namespace thunder::frontend {

void ArgumentUses::take(const ArgumentCopies& arguments) {
  arguments_ = &arguments;
  for (const Ref& copy : arguments.copies()) of(copy.get());
}

ClassUse& ArgumentUses::of(PyTypeObject* type) {
  ClassUse& use = uses_[type];
  if (!use.type) use.type = Ref::borrow(reinterpret_cast<PyObject*>(type));
  return use;
}

// Null: it is not the copy of an object that was taken apart.
ClassUse* ArgumentUses::of(PyObject* copy) {
  if (!arguments_ || is_container(copy) || is_proxy(copy) || !arguments_->argument(copy)) return nullptr;
  return &of(Py_TYPE(copy));
}

void ArgumentUses::read(PyObject* copy, PyObject* name) {
  if (ClassUse* use = of(copy)) use->add(name);
}

void ArgumentUses::ask_identity(PyObject* copy) {
  if (Py_TYPE(copy)->tp_hash != PyBaseObject_Type.tp_hash) return;
  if (ClassUse* use = of(copy)) use->identity = true;
}

void ArgumentUses::ask_everything(PyObject* copy) {
  if (ClassUse* use = of(copy)) use->everything = true;
}

void ArgumentUses::read_attribute_of_tensor(PyObject* proxy, PyObject* name) {
  if (!arguments_ || !arguments_->is_argument_tensor(proxy)) return;
  const KeepError pending;  // the read may have raised
  if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0) of(hooks().tensor_class).everything = true;
  else if (!class_attribute(Py_TYPE(proxy), name)) of(hooks().tensor_class).add(name);
}

void ArgumentUses::write_attribute_of_tensor(PyObject* proxy, PyObject* name) {
  if (!arguments_ || !arguments_->is_argument_tensor(proxy)) return;
  PyObject* found = class_attribute(Py_TYPE(proxy), name);
  if (found && Py_TYPE(found)->tp_descr_set) return;
  ClassUse& use = of(hooks().tensor_class);
  use.add(name);
  use.written = true;
}

void ArgumentUses::met(PyObject* object) {
  if (!arguments_ || !object || is_tensor(object) || !arguments_->stands_for(object)) return;
  if (is_container(object)) themselves_.emplace(object, Ref::borrow(object));
  else of(Py_TYPE(object)).identity = true;
}

}  // namespace thunder::frontend
