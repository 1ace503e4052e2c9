#include "frontend/container_reads.h"

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "python/errors.h"
#include "python/lookup.h"

namespace thunder::frontend {

// ---- dicts ----------------------------------------------------------------------------------------------------------

ContainerReads::DictRead& ContainerReads::dict_read(PyObject* dict) {
  auto [it, first] = dict_index_.emplace(dict, dicts_.size());
  if (first) dicts_.push_back({Ref::borrow(dict)});
  return dicts_[it->second];
}

void ContainerReads::read_entry(PyObject* dict, PyObject* key, PyObject* value) {
  if (!PyDict_Check(dict) || fresh_.has(dict) || log_.written(dict, key)) return;
  add_entry(dict, key, value);
  names_.name_value(dict, key, value, false);
}

void ContainerReads::add_entry(PyObject* dict, PyObject* key, PyObject* value) {
  DictRead& r = dict_read(dict);
  if (r.order) return;  // all of it is known
  if (r.entries.add(key, value)) r.places.push_back(interpreter::current_place());
  fresh_.came_from_outside(value);
}

void ContainerReads::read_dict_whole(PyObject* dict) {
  if (fresh_.has(dict)) return;
  DictRead& r = dict_read(dict);
  if (r.order) return;
  r.order = true;
  Ref original = log_.as_it_was(dict);
  PyObject* source = original.get();
  r.size = PyDict_GET_SIZE(source);
  if (PyODict_Check(dict) && r.size > 1) {  // its order is its own
    container_index_.emplace(dict, containers_.size());
    containers_.push_back({Ref::borrow(dict), Ref::steal(PySequence_Tuple(source)), r.size, {}});
  }
  Ref ordered = Ref::steal(PyDict_New());
  PyObject *key, *value;
  for (Py_ssize_t i = 0; PyDict_Next(source, &i, &key, &value);) {
    PyDict_SetItem(ordered.get(), key, value);
    names_.name_value(dict, key, value, false);
    fresh_.came_from_outside(value);
  }
  r.entries.assign(std::move(ordered));
  r.places = {interpreter::current_place()};
}

// ---- cells, lists, sets and deques ----------------------------------------------------------------------------------

void ContainerReads::read_cell(PyObject* cell, PyObject* value) {
  if (fresh_.has(cell) || log_.written(cell, nullptr)) return;
  fresh_.came_from_outside(value);
  auto [it, first] = cell_index_.emplace(cell, cells_.size());
  if (first) cells_.push_back({Ref::borrow(cell), Ref::borrow(value), "the function", interpreter::current_place()});
  names_.name_in_closure(value);
}

ContainerReads::ElementReads& ContainerReads::element_reads(PyObject* container) {
  auto [it, first] = container_index_.emplace(container, containers_.size());
  if (first) containers_.push_back({Ref::borrow(container), {}, -1, interpreter::current_place()});
  return containers_[it->second];
}

void ContainerReads::read_element(PyObject* list, PyObject* index) {
  Py_ssize_t i = PyLong_AsSsize_t(index), n = PyList_GET_SIZE(list);
  const bool inside = !PyErr_Occurred() && i >= -n && i < n;
  PyErr_Clear();
  if (i < 0 || !inside) read_length(list);
  if (!inside) return;
  if (i < 0) i += n;
  Ref key = Ref::steal(PyLong_FromSsize_t(i));
  if (log_.written(list, key.get())) return;
  element_reads(list).items.emplace(i, Ref::borrow(PyList_GET_ITEM(list, i)));
  fresh_.came_from_outside(PyList_GET_ITEM(list, i));
  names_.name_value(list, key.get(), PyList_GET_ITEM(list, i), false);
}

// ---- any object -----------------------------------------------------------------------------------------------------

void ContainerReads::read_item(PyObject* object, PyObject* key) {
  uses_.ask_identity(key);
  object = shown_by(object);
  states_.see_drawn(object);
  if (!is_tensor(object)) draws_.open_all(key);
  if (fresh_.has(object) || is_tensor(object)) return;
  const KeepError pending;
  states_.touch(object);
  if (PyDict_Check(object)) read_entry(object, key, PyDict_GetItemWithError(object, key));
  else if (PyList_CheckExact(object) && PyLong_Check(key)) read_element(object, key);
  else if (is_container(object)) read_whole(object);
}

void ContainerReads::read_membership(PyObject* object, PyObject* key) {
  uses_.ask_identity(key);
  const bool of_values = PyDictItems_Check(object) || PyDictValues_Check(object);
  object = shown_by(object);
  states_.see_drawn(object);
  if (fresh_.has(object)) return;
  if (PyDict_Check(object) && !of_values) return read_entry(object, key, PyDict_GetItemWithError(object, key));
  read_whole(object);
}

void ContainerReads::read_length(PyObject* object) {
  // What truth asks the class for.
  if (PyTypeObject* type = Py_TYPE(object); type->tp_flags & Py_TPFLAGS_HEAPTYPE)
    for (const char* name : {"__bool__", "__len__"}) {
      Ref key = Ref::steal(PyUnicode_InternFromString(name));
      classes_.read(type, key.get(), class_attribute(type, key.get()));
    }
  object = shown_by(object);
  states_.touch(object);
  if (!is_container(object) || fresh_.has(object)) return;
  if (log_.changed(object)) return read_whole(object);
  if (PyDict_Check(object)) {
    DictRead& r = dict_read(object);
    if (r.size < 0) r.size = PyDict_GET_SIZE(object);
    return;
  }
  ElementReads& r = element_reads(object);
  if (r.length < 0) r.length = PyObject_Size(object);
}

void ContainerReads::read_whole(PyObject* object) {
  object = shown_by(object);
  fresh_.will_advance(object);
  states_.touch(object);
  if (!is_container(object) || fresh_.has(object)) return;
  if (PyDict_Check(object)) return read_dict_whole(object);
  ElementReads& r = element_reads(object);
  if (r.elements) return;
  Ref original = log_.as_it_was(object);
  PyObject* source = original.get();
  r.elements = Ref::steal(PyAnySet_Check(source) ? PyFrozenSet_New(source) : PySequence_Tuple(source));
  r.length = PyObject_Size(source);
  if (!PyTuple_Check(r.elements.get())) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(r.elements.get()); ++i) {
    Ref index = Ref::steal(PyLong_FromSsize_t(i));
    names_.name_value(object, index.get(), PyTuple_GET_ITEM(r.elements.get(), i), false);
    fresh_.came_from_outside(PyTuple_GET_ITEM(r.elements.get(), i));
  }
}

// ---- guards ---------------------------------------------------------------------------------------------------------

bool ContainerReads::knows_elements(PyObject* container) const {
  auto it = container_index_.find(container);
  return it != container_index_.end() && containers_[it->second].elements;
}

bool ContainerReads::guards(const Effect& e) const {
  PyObject* owner = e.owner.get();
  if (e.kind == Effect::Cell) return cell_index_.count(owner) != 0;
  if (e.kind == Effect::Entry) {
    auto it = dict_index_.find(owner);
    return it != dict_index_.end() && dicts_[it->second].entries.has(e.key.get());
  }
  auto it = container_index_.find(owner);
  if (it == container_index_.end()) return false;
  const ElementReads& r = containers_[it->second];
  return r.elements || r.items.count(PyLong_AsSsize_t(e.key.get()));
}

void ContainerReads::watch(EnvironmentGuard& environment) {
  for (const DictRead& r : dicts_) {
    PyObject* dict = r.dict.get();
    if (fresh_.has(dict)) continue;
    const bool order = r.order && !PyODict_Check(dict);  // of which containers_ has the order
    environment.watch_entries(dict, names_.of(dict), r.entries.entries(r.places), r.size, order);
  }
  for (const CellRead& r : cells_) environment.watch_cell(r.cell.get(), r.value.get(), r.name, r.place);
  for (const ElementReads& r : containers_) watch_elements(environment, r);
}

void ContainerReads::watch_elements(EnvironmentGuard& environment, const ElementReads& r) {
  PyObject* o = r.object.get();
  if (fresh_.has(o)) return;
  std::string name = names_.of(o);
  bool list = PyList_Check(o);
  if (r.length >= 0) environment.watch_container(o, r.length, list ? Ref() : r.elements, name, r.place);
  if (!list) return;
  for (Py_ssize_t i = 0; r.elements && i < PyTuple_GET_SIZE(r.elements.get()); ++i)
    environment.watch_element(o, i, PyTuple_GET_ITEM(r.elements.get(), i), name, r.place);
  for (const auto& [i, value] : r.items)
    if (!r.elements) environment.watch_element(o, i, value.get(), name, r.place);
}

}  // namespace thunder::frontend
