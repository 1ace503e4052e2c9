#include "frontend/attribute_reads.h"

#include <algorithm>

#include "frontend/hooks.h"
#include "python/errors.h"
#include "python/lookup.h"

namespace thunder::frontend {
namespace {

// The dict of an instance, or null.
PyObject* instance_dict(PyObject* o) {
  PyObject** place = dict_place(o);
  if (!place) return nullptr;
  if (!*place) {
    PyObject* made = PyObject_GenericGetDict(o, nullptr);
    if (!made) PyErr_Clear();
    Py_XDECREF(made);
    place = dict_place(o);
  }
  return place ? *place : nullptr;
}

}  // namespace

void AttributeReads::read(PyObject* object, PyObject* name, PyObject* value) {
  if (PyErr_Occurred()) {
    // Being told of what raised must not disturb the exception.
    const KeepError pending;
    read(object, name, nullptr);
    return;
  }
  if (is_proxy(object)) return uses_.read_attribute_of_tensor(object, name);
  if (!is_tensor(object) && hooks().is_dtensor(object)) return;  // the program made it
  if (fresh_.has(object)) return read_of_fresh(object, name, value);
  if (PyModule_Check(object)) return read_of_module(object, name);
  if (PyType_Check(object)) return read_of_class(object, name);
  if (PyObject_TypeCheck(object, &PySuper_Type)) return classes_.read_super(object, name);
  states_.touch_attribute(object, name);
  PyTypeObject* type = Py_TYPE(object);
  classes_.read_type(object);
  PyObject* found = class_attribute(type, name);
  classes_.read(type, name, found);
  if (is_tensor(object) && found) return read_of_tensor(object, name, value);
  if (!found || !Py_TYPE(found)->tp_descr_set) return read_in_dict(object, name);
  // What a property reads is told by itself.
  read_descriptor(object, name, found);
  if (value && PyDict_CheckExact(value) && instance_dict(object) == value) names_.name_instance_dict(object, value);
}

void AttributeReads::read_of_fresh(PyObject* object, PyObject* name, PyObject* value) {
  states_.see_drawn(object);
  uses_.read(object, name);
  // The dict of what is the code's own is its own.
  if (value && PyDict_CheckExact(value) && dict_place(object) && instance_dict(object) == value) {
    fresh_.add(value);
    uses_.ask_everything(object);
  }
  // Its class may be somebody else's.
  PyTypeObject* type = PyType_Check(object) ? reinterpret_cast<PyTypeObject*>(object) : Py_TYPE(object);
  classes_.read(type, name, class_attribute(type, name));
}

void AttributeReads::read_of_module(PyObject* module, PyObject* name) {
  PyObject* dict = PyModule_GetDict(module);
  names_.name_globals(module, dict);
  containers_.read_entry(dict, name, PyDict_GetItemWithError(dict, name));
}

void AttributeReads::read_of_class(PyObject* object, PyObject* name) {
  auto* type = reinterpret_cast<PyTypeObject*>(object);
  classes_.read(type, name, class_attribute(type, name));
  classes_.read(Py_TYPE(object), name, class_attribute(Py_TYPE(object), name));
}

// What its class gives: its metadata, say.
void AttributeReads::read_of_tensor(PyObject* tensor, PyObject* name, PyObject* value) {
  asked_.add(tensor);
  // Whether it is a leaf is no part of a tensor's type, nor is its gradient, of which programs see None alone.
  const bool is_gradient = PyUnicode_CompareWithASCIIString(name, "grad") == 0;
  const bool of_graph = is_gradient || PyUnicode_CompareWithASCIIString(name, "grad_fn") == 0 ||
                        PyUnicode_CompareWithASCIIString(name, "is_leaf") == 0;
  if (of_graph) hold_tensor(tensor);
  if (is_gradient && (!value || value == Py_None)) add(tensor, name, Py_None);
}

// What a slot, or an attribute of an object of C code that can be set, gives.
void AttributeReads::read_descriptor(PyObject* object, PyObject* name, PyObject* found) {
  const bool slot = Py_IS_TYPE(found, &PyMemberDescr_Type) && (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  const bool settable =
      Py_IS_TYPE(found, &PyGetSetDescr_Type) && reinterpret_cast<PyGetSetDescrObject*>(found)->d_getset->set;
  if ((!slot && !settable) || state_kind(object) || log_.attribute_written(object, name)) return;
  Ref now, again;
  for (Ref* r : {&now, &again})
    if (PyObject* o = PyObject_GenericGetAttr(object, name)) *r = Ref::steal(o);
  PyErr_Clear();
  // The class and the dict of an object have guards of their own.
  if (!slot && (!now || !same_value(now.get(), again.get()) || PyType_Check(now.get()) || PyDict_Check(now.get())))
    return;
  fresh_.came_from_outside(now.get());
  add(object, name, now.get());
}

void AttributeReads::read_in_dict(PyObject* object, PyObject* name) {
  PyObject* dict = instance_dict(object);
  if (is_tensor(object)) hold_tensor(object);
  if (!dict || log_.attribute_written(object, name)) return;
  names_.name_instance_dict(object, dict);
  PyObject* now = PyDict_GetItemWithError(dict, name);
  if (!log_.written(dict, name)) containers_.add_entry(dict, name, now);
  names_.name_value(object, name, now, true);
}

void AttributeReads::add(PyObject* object, PyObject* name, PyObject* value) {
  attributes_.push_back({Ref::borrow(object), Ref::borrow(name), Ref::borrow(value)});
}

bool AttributeReads::guards(PyObject* object, PyObject* name) const {
  return std::any_of(attributes_.begin(), attributes_.end(),
                     [&](const AttributeRead& r) { return r.object.get() == object && r.name.get() == name; });
}

void AttributeReads::watch_tensors(EnvironmentGuard& environment) const {
  for (const Ref& tensor : held_.objects()) environment.hold_tensor(tensor.get());
}

void AttributeReads::watch_attributes(EnvironmentGuard& environment) {
  for (const AttributeRead& r : attributes_)
    environment.watch_attribute(r.object.get(), r.name.get(), r.value.get(), names_.of(r.object.get()));
}

void AttributeReads::add_tensors(EnvironmentGuard& environment) const {
  for (const Ref& tensor : asked_.objects()) environment.add_tensor(tensor.get());
}

}  // namespace thunder::frontend
