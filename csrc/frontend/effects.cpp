// Writes of interpreted code to the environment: remembered, taken back, and done again.
#include <algorithm>

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "frontend/reads.h"
#include "frontend/unseen.h"
#include "python/lookup.h"

namespace thunder::frontend {
namespace {

bool set_or_delete(int (*set)(PyObject*, PyObject*, PyObject*), int (*remove)(PyObject*, PyObject*), PyObject* owner,
                   PyObject* key, PyObject* value) {
  if (value) return set(owner, key, value) == 0;
  if (remove(owner, key) == 0) return true;
  // What is to go is gone.
  if (!PyErr_ExceptionMatches(PyExc_KeyError) && !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
  PyErr_Clear();
  return true;
}

// An ordered dict keeps its order beside the dict.
int set_entry(PyObject* d, PyObject* key, PyObject* value) {
  return PyODict_Check(d) ? PyODict_SetItem(d, key, value) : PyDict_SetItem(d, key, value);
}

int delete_entry(PyObject* d, PyObject* key) {
  return PyODict_Check(d) ? PyODict_DelItem(d, key) : PyDict_DelItem(d, key);
}

// Classes and modules have their own way; instances theirs is what their __setattr__ came to.  Null deletes.
int set_attribute(PyObject* o, PyObject* name, PyObject* value) {
  return PyType_Check(o) || PyModule_Check(o) ? PyObject_SetAttr(o, name, value)
                                              : PyObject_GenericSetAttr(o, name, value);
}

int delete_attribute(PyObject* o, PyObject* name) { return set_attribute(o, name, nullptr); }

}  // namespace

// By the methods of the base, whatever the class makes of them.
bool set_contents(PyObject* container, PyObject* contents) {
  if (PyList_Check(container)) return PyList_SetSlice(container, 0, PyList_GET_SIZE(container), contents) == 0;
  Ref held = Ref::borrow(contents);
  PyTypeObject* base = Py_TYPE(container);  // a deque's own
  if (PyAnySet_Check(container)) base = &PySet_Type;
  if (PyDict_Check(container)) base = PyODict_Check(container) ? &PyODict_Type : &PyDict_Type;
  auto* methods = reinterpret_cast<PyObject*>(base);
  PyObject* cleared = PyObject_CallMethod(methods, "clear", "O", container);
  Py_XDECREF(cleared);
  if (!cleared) return false;
  PyObject *key, *value;
  if (PyDict_Check(container)) {
    for (Py_ssize_t i = 0; PyDict_Next(contents, &i, &key, &value);)
      if (set_entry(container, key, value) < 0) return false;
    return true;
  }
  const char* method = PyAnySet_Check(container) ? "update" : "extend";
  PyObject* done = PyObject_CallMethod(methods, method, "OO", container, contents);
  Py_XDECREF(done);
  return done != nullptr;
}

Ref copy_of(PyObject* container) {
  if (PyDict_Check(container)) return Ref::steal(PyDict_Copy(container));
  return Ref::steal(PyAnySet_Check(container) ? PySet_New(container) : PySequence_List(container));
}

bool apply_effect(const Effect& e, PyObject* owner, PyObject* value) {
  switch (e.kind) {
    case Effect::Entry:
      if (e.moved && value && !set_or_delete(set_entry, delete_entry, owner, e.key.get(), nullptr)) return false;
      return set_or_delete(set_entry, delete_entry, owner, e.key.get(), value);
    case Effect::Element: return PyList_SetItem(owner, PyLong_AsSsize_t(e.key.get()), Py_XNewRef(value)) == 0;
    case Effect::Attribute: return set_or_delete(set_attribute, delete_attribute, owner, e.key.get(), value);
    case Effect::Cell: return PyCell_Set(owner, value) == 0;
    case Effect::Appended: {
      Py_ssize_t end = PyList_GET_SIZE(owner);
      return PyList_SetSlice(owner, end, end, value) == 0;
    }
    case Effect::State: return e.state->put(value);
    default: return set_contents(owner, value);
  }
}

bool Reads::written(PyObject* owner, PyObject* key) const {
  auto it = effects_of_.find(owner);
  if (it == effects_of_.end()) return false;
  for (size_t i : it->second) {
    const Effect& e = effects_[i];
    if (e.kind == Effect::Contents || e.kind == Effect::Cell || e.key.get() == key) return ++read_written_;
    if (e.kind == Effect::Appended && PyLong_Check(key) && PyObject_RichCompareBool(e.before.get(), key, Py_LE) == 1)
      return ++read_written_;
    if (!e.key) continue;
    int same = PyObject_RichCompareBool(e.key.get(), key, Py_EQ);
    if (same < 0) PyErr_Clear();
    if (same == 1) return ++read_written_;
  }
  return false;
}

bool Reads::attribute_written(PyObject* owner, PyObject* name) const {
  auto it = attributes_of_.find(owner);
  const bool found = it != attributes_of_.end() && std::any_of(it->second.begin(), it->second.end(), [&](size_t i) {
                       return PyUnicode_Compare(effects_[i].key.get(), name) == 0;
                     });
  read_written_ += found;
  return found;
}

// Whether the code wrote what a class has or inherits under the name.
bool Reads::class_written(PyTypeObject* type, PyObject* name) const {
  if (attributes_of_.empty() || !type->tp_mro) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    if (attribute_written(base, name)) return true;
    PyObject* dict = class_dict(base);
    if (dict && PyDict_Contains(dict, name) != 0) return false;
  }
  return false;
}

// Whether a guard says that what was there before the effect is there.
bool Reads::guarded(const Effect& e) const {
  PyObject* owner = e.owner.get();
  switch (e.kind) {
    case Effect::Entry: {
      auto it = dict_index_.find(owner);
      return it != dict_index_.end() && PyDict_Contains(dicts_[it->second].entries.get(), e.key.get()) == 1;
    }
    case Effect::Cell: return cell_index_.count(owner) != 0;
    case Effect::Element: {
      auto it = container_index_.find(owner);
      if (it == container_index_.end()) return false;
      const ContainerReads& r = containers_[it->second];
      return r.elements || r.items.count(PyLong_AsSsize_t(e.key.get()));
    }
    case Effect::Attribute:
      return std::any_of(attributes_.begin(), attributes_.end(), [&](const AttributeRead& r) {
        return r.object.get() == owner && r.name.get() == e.key.get();
      });
    default: return true;
  }
}

void Reads::will_write(Effect::Kind kind, PyObject* owner, PyObject* key, PyObject* before) {
  const bool attribute = kind == Effect::Attribute;
  if (attribute ? attribute_written(owner, key) : written(owner, key)) return;
  (attribute ? attributes_of_ : effects_of_)[owner].push_back(effects_.size());
  effects_.push_back(
      {.kind = kind, .owner = Ref::borrow(owner), .key = Ref::borrow(key), .before = Ref::borrow(before)});
}

void Reads::forget_write(size_t at) {
  effects_.erase(effects_.begin() + static_cast<std::ptrdiff_t>(at));
  for (auto* index : {&effects_of_, &attributes_of_})
    for (auto& [owner, places] : *index) {
      std::erase(places, at);
      for (size_t& i : places) i -= i > at;
    }
}

void Reads::will_change(PyObject* container) {
  if (fresh(container)) return;
  for (size_t i : effects_of_[container])
    if (effects_[i].kind == Effect::Contents) return;
  // What will be there is what was there, changed: it has to be the same the next time.
  read_whole(container);
  Ref before = copy_of(as_it_was(container).get());
  effects_of_[container].push_back(effects_.size());
  effects_.push_back({.kind = Effect::Contents, .owner = Ref::borrow(container), .before = std::move(before)});
}

void Reads::will_append(PyObject* list) {
  if (fresh(list)) return;
  auto known = container_index_.find(list);
  bool read = known != container_index_.end() && containers_[known->second].elements;
  if (read || !PyList_CheckExact(list)) return will_change(list);
  for (size_t i : effects_of_[list])
    if (effects_[i].kind != Effect::Element) return;
  effects_of_[list].push_back(effects_.size());
  Ref length = Ref::steal(PyLong_FromSsize_t(PyList_GET_SIZE(list)));
  effects_.push_back({.kind = Effect::Appended, .owner = Ref::borrow(list), .before = std::move(length)});
}

void Reads::will_set_element(PyObject* list, PyObject* index) {
  Py_ssize_t i = PyLong_AsSsize_t(index), n = PyList_GET_SIZE(list);
  if (i < -n || i >= n) return PyErr_Clear();
  if (i < 0) read_length(list), i += n;
  Ref key = Ref::steal(PyLong_FromSsize_t(i));
  will_write(Effect::Element, list, key.get(), PyList_GET_ITEM(list, i));
}

// What is made again after it was deleted comes last: the order is remembered.
void Reads::will_delete(PyObject* dict, PyObject* key) {
  auto [it, first] = orders_.try_emplace(dict);
  if (first) {
    Ref original = as_it_was(dict);
    Ref keys = Ref::steal(PySequence_List(original.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i)
      it->second.push_back(Ref::borrow(PyList_GET_ITEM(keys.get(), i)));
  }
  for (size_t i : effects_of_[dict]) {
    Effect& e = effects_[i];
    if (e.kind == Effect::Entry && e.before && PyObject_RichCompareBool(e.key.get(), key, Py_EQ) == 1) e.moved = true;
  }
}

void Reads::restore_orders() {
  for (const auto& [dict, keys] : orders_)
    for (const Ref& key : keys) {
      PyObject* value = PyDict_GetItemWithError(dict, key.get());
      if (!value) continue;
      Ref held = Ref::borrow(value);
      if (delete_entry(dict, key.get()) < 0 || set_entry(dict, key.get(), value) < 0) PyErr_Clear();
    }
  orders_.clear();
}

bool Reads::write_entry(PyObject* dict, PyObject* key, PyObject* value) {
  if (fresh(dict) || !PyDict_Check(dict)) return true;
  PyObject* before = PyDict_GetItemWithError(dict, key);
  if (!before && PyErr_Occurred()) return false;
  if (!value) read_entry(dict, key, before);  // what is to be deleted must be there
  will_write(Effect::Entry, dict, key, before);
  if (!value) will_delete(dict, key);
  return !PyErr_Occurred();
}

bool Reads::write_cell(PyObject* cell, PyObject* value) {
  if (!fresh(cell)) will_write(Effect::Cell, cell, nullptr, PyCell_GET(cell));
  return true;
}

bool Reads::write_attribute(PyObject* object, PyObject* name, PyObject* value) {
  // What is to be deleted must be there.
  if (ClassUse* use = value ? nullptr : use_of(object)) use->add(name);
  if (is_proxy(object)) return write_attribute_of_tensor(object, name), true;
  if (!PyType_Check(object)) read_class(Py_TYPE(object), name, class_attribute(Py_TYPE(object), name));
  if (fresh(object)) return true;
  if (PyModule_Check(object)) return write_entry(PyModule_GetDict(object), name, value);
  if (is_tensor(object) && attributed_.insert(object).second) keep(object);
  if (touch_attribute(object, name)) return true;
  PyObject* before = nullptr;
  if (PyType_Check(object)) {
    before = PyDict_GetItemWithError(class_dict(object), name);
  } else {
    // A class's own __setattr__ or a property is interpreted and tells what it writes.
    PyObject* found = class_attribute(Py_TYPE(object), name);
    read_type(object);
    // What sets a tensor's is PyTorch's.
    const bool slot = found && is_c_descriptor(found) && (!is_tensor(object) || Py_IS_TYPE(found, &PyMemberDescr_Type));
    if (Py_TYPE(object)->tp_setattro != PyObject_GenericSetAttr && !raw_write_)
      return !sets_unseen(object) || leave_to_eager("sets an attribute of a " + std::string(Py_TYPE(object)->tp_name) +
                                                    ", whose state cannot be seen");
    if (found && Py_TYPE(found)->tp_descr_set && !slot) return true;
    if (slot) {
      Ref now;
      if (PyObject* o = PyObject_GenericGetAttr(object, name)) now = Ref::steal(o);
      PyErr_Clear();
      if (!value) read_attribute(object, name, nullptr);
      will_write(Effect::Attribute, object, name, now.get());
      return true;
    }
    PyObject** dict = dict_place(object);
    before = dict && *dict ? PyDict_GetItemWithError(*dict, name) : nullptr;
    if (dict && *dict) return write_entry(*dict, name, value);
  }
  if (!before && PyErr_Occurred()) return false;
  if (!value) read_attribute(object, name, nullptr);
  will_write(Effect::Attribute, object, name, before);
  return true;
}

bool Reads::write_item(PyObject* object, PyObject* key, PyObject* value) {
  see_drawn(object);
  if (!is_tensor(object)) tracer_.draws().open_all(key);
  if (fresh(object) || is_tensor(object)) return true;
  touch(object);
  if (PyDict_Check(object) && key != Py_None) return write_entry(object, key, value);
  bool element = PyList_CheckExact(object) && PyLong_Check(key) && value;
  if (element) will_set_element(object, key);
  else if (is_container(object) && !PyFrozenSet_Check(object)) will_change(object);
  return true;
}

// Entries that were made are made in the order in which the dict has them at the end.
void Reads::sort_new_entries() {
  for (const auto& [owner, indices] : effects_of_) {
    if (!PyDict_Check(owner)) continue;
    std::vector<size_t> places, order;
    PyObject *key, *value;
    for (size_t i : indices)
      if (const Effect& e = effects_[i]; e.kind == Effect::Entry && (!e.before || e.moved)) places.push_back(i);
    if (places.size() < 2) continue;
    for (Py_ssize_t pos = 0; PyDict_Next(owner, &pos, &key, &value);)
      for (size_t i : places)
        if (PyObject_RichCompareBool(effects_[i].key.get(), key, Py_EQ) == 1) order.push_back(i);
    for (size_t i : places)  // what is gone again
      if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
    std::vector<Effect> sorted;
    for (size_t i : order) sorted.push_back(effects_[i]);
    for (size_t k = 0; k < places.size(); ++k) effects_[places[k]] = std::move(sorted[k]);
  }
}

// The environment as it was; each effect keeps what the code left there.
void Reads::take_back() {
  sort_new_entries();
  for (size_t i = states_.size(); i-- > 0;) put_back(states_[i]);
  for (size_t i = effects_.size(); i-- > 0;) {
    Effect& e = effects_[i];
    PyObject* owner = e.owner.get();
    PyObject* now = nullptr;
    switch (e.kind) {
      case Effect::Entry: now = Py_XNewRef(PyDict_GetItemWithError(owner, e.key.get())); break;
      case Effect::Attribute:
        now = PyType_Check(owner) ? PyObject_GetAttr(owner, e.key.get()) : PyObject_GenericGetAttr(owner, e.key.get());
        break;
      case Effect::Cell: now = Py_XNewRef(PyCell_GET(owner)); break;
      case Effect::Element: now = Py_XNewRef(PyList_GetItem(owner, PyLong_AsSsize_t(e.key.get()))); break;
      case Effect::Contents: now = copy_of(owner).release(); break;
      case Effect::State: break;  // below
      case Effect::Appended: now = PyList_GetSlice(owner, PyLong_AsSsize_t(e.before.get()), PY_SSIZE_T_MAX);
    }
    PyErr_Clear();
    if (now) e.after = Ref::steal(now);
    if (e.kind == Effect::Appended) {
      PyList_SetSlice(owner, PyLong_AsSsize_t(e.before.get()), PY_SSIZE_T_MAX, nullptr);
      continue;
    }
    if (!apply_effect(e, owner, e.before.get())) PyErr_Clear();
  }
  restore_orders();
  effects_of_.clear();
  attributes_of_.clear();
}

}  // namespace thunder::frontend
