#include "frontend/environment_writes.h"

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "frontend/unseen.h"
#include "python/lookup.h"

namespace thunder::frontend {
namespace {

// What looks after an attribute for a class of C code, or a slot.
bool is_c_descriptor(PyObject* o) { return Py_IS_TYPE(o, &PyMemberDescr_Type) || Py_IS_TYPE(o, &PyGetSetDescr_Type); }

}  // namespace

bool EnvironmentWrites::write_entry(PyObject* dict, PyObject* key, PyObject* value) {
  if (fresh_.has(dict) || !PyDict_Check(dict)) return true;
  PyObject* before = PyDict_GetItemWithError(dict, key);
  if (!before && PyErr_Occurred()) return false;
  if (!value) containers_.read_entry(dict, key, before);  // what is to be deleted must be there
  log_.add(Effect::Entry, dict, key, before);
  if (!value) log_.will_delete(dict, key);
  return !PyErr_Occurred();
}

bool EnvironmentWrites::write_cell(PyObject* cell, PyObject* value) {
  if (!fresh_.has(cell)) log_.add(Effect::Cell, cell, nullptr, PyCell_GET(cell));
  return true;
}

bool EnvironmentWrites::write_attribute(PyObject* object, PyObject* name, PyObject* value, bool raw) {
  if (!value) uses_.read(object, name);  // what is to be deleted must be there
  if (is_proxy(object)) return uses_.write_attribute_of_tensor(object, name), true;
  if (!PyType_Check(object)) classes_.read(Py_TYPE(object), name, class_attribute(Py_TYPE(object), name));
  if (fresh_.has(object)) return true;
  if (PyModule_Check(object)) return write_entry(PyModule_GetDict(object), name, value);
  if (is_tensor(object)) attributes_.hold_tensor(object);
  if (states_.touch_attribute(object, name)) return true;
  if (!PyType_Check(object)) return write_instance(object, name, value, raw);
  PyObject* before = PyDict_GetItemWithError(class_dict(object), name);
  if (!before && PyErr_Occurred()) return false;
  return write_named(object, name, value, before);
}

// A class's own __setattr__ or a property is interpreted and tells what it writes.
bool EnvironmentWrites::write_instance(PyObject* object, PyObject* name, PyObject* value, bool raw) {
  PyObject* found = class_attribute(Py_TYPE(object), name);
  classes_.read_type(object);
  // What sets a tensor's is PyTorch's.
  const bool slot = found && is_c_descriptor(found) && (!is_tensor(object) || Py_IS_TYPE(found, &PyMemberDescr_Type));
  if (Py_TYPE(object)->tp_setattro != PyObject_GenericSetAttr && !raw)
    return !sets_unseen(object) ||
           leave_to_eager(acquisition_, "sets an attribute of a " + std::string(Py_TYPE(object)->tp_name) +
                                            ", whose state cannot be seen");
  if (found && Py_TYPE(found)->tp_descr_set && !slot) return true;
  if (slot) {
    Ref now;
    if (PyObject* o = PyObject_GenericGetAttr(object, name)) now = Ref::steal(o);
    PyErr_Clear();
    return write_named(object, name, value, now.get());
  }
  PyObject** dict = dict_place(object);
  if (dict && *dict) return write_entry(*dict, name, value);
  return write_named(object, name, value, nullptr);
}

// A place of which only the name is known.
bool EnvironmentWrites::write_named(PyObject* object, PyObject* name, PyObject* value, PyObject* before) {
  if (!value) attributes_.read(object, name, nullptr);
  log_.add(Effect::Attribute, object, name, before);
  return true;
}

bool EnvironmentWrites::write_item(PyObject* object, PyObject* key, PyObject* value) {
  states_.see_drawn(object);
  if (!is_tensor(object)) draws_.open_all(key);
  if (fresh_.has(object) || is_tensor(object)) return true;
  states_.touch(object);
  if (PyDict_Check(object) && key != Py_None) return write_entry(object, key, value);
  bool element = PyList_CheckExact(object) && PyLong_Check(key) && value;
  if (element) will_set_element(object, key);
  else if (is_container(object) && !PyFrozenSet_Check(object)) will_change(object);
  return true;
}

void EnvironmentWrites::will_change(PyObject* container) {
  if (fresh_.has(container) || log_.has(container, Effect::Contents)) return;
  // What will be there is what was there, changed: it has to be the same the next time.
  containers_.read_whole(container);
  log_.add_container(Effect::Contents, container, copy_of(log_.as_it_was(container).get()));
}

void EnvironmentWrites::will_append(PyObject* list) {
  if (fresh_.has(list)) return;
  if (containers_.knows_elements(list) || !PyList_CheckExact(list)) return will_change(list);
  if (log_.has(list, Effect::Contents) || log_.has(list, Effect::Appended)) return;
  log_.add_container(Effect::Appended, list, Ref::steal(PyLong_FromSsize_t(PyList_GET_SIZE(list))));
}

void EnvironmentWrites::will_set_element(PyObject* list, PyObject* index) {
  Py_ssize_t i = PyLong_AsSsize_t(index), n = PyList_GET_SIZE(list);
  if (PyErr_Occurred() || i < -n || i >= n) return PyErr_Clear();
  if (i < 0) containers_.read_length(list), i += n;
  Ref key = Ref::steal(PyLong_FromSsize_t(i));
  log_.add(Effect::Element, list, key.get(), PyList_GET_ITEM(list, i));
}

// Whether a guard says that what was there before the effect is there.
bool EnvironmentWrites::guarded(const Effect& e) const {
  switch (e.kind) {
    case Effect::Entry:
    case Effect::Cell:
    case Effect::Element: return containers_.guards(e);
    case Effect::Attribute: return attributes_.guards(e.owner.get(), e.key.get());
    default: return true;
  }
}

std::vector<Effect> EnvironmentWrites::finish() {
  std::vector<Effect> out;
  for (Effect& e : log_.release()) {
    bool nothing = e.kind == Effect::Appended ? PyList_GET_SIZE(e.after.get()) == 0 : e.before.get() == e.after.get();
    nothing = nothing && !e.moved && guarded(e);
    if (nothing || fresh_.has(e.owner.get())) continue;
    if (e.kind == Effect::Contents || e.kind == Effect::Appended) fresh_.add(e.after.get());
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace thunder::frontend
