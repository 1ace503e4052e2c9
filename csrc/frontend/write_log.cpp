#include "frontend/write_log.h"

#include <algorithm>

#include "frontend/kinds.h"
#include "python/lookup.h"

namespace thunder::frontend {

namespace {

// A new reference to what a class itself has by the name, as it lies there: neither inherited nor bound.
PyObject* own_attribute(PyObject* type, PyObject* name) {
  if (PyObject* own = PyDict_GetItemWithError(class_dict(type), name)) return Py_NewRef(own);
  PyObject* found = class_attribute(Py_TYPE(type), name);
  return found && Py_TYPE(found)->tp_descr_set ? PyObject_GetAttr(type, name) : nullptr;
}

}  // namespace

const std::vector<size_t>& WriteLog::of(PyObject* owner) const {
  static const std::vector<size_t> none;
  auto it = effects_of_.find(owner);
  return it == effects_of_.end() ? none : it->second;
}

bool WriteLog::written(PyObject* owner, PyObject* key) const {
  for (size_t i : of(owner)) {
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

bool WriteLog::attribute_written(PyObject* owner, PyObject* name) const {
  auto it = attributes_of_.find(owner);
  const bool found = it != attributes_of_.end() && std::any_of(it->second.begin(), it->second.end(), [&](size_t i) {
                       return PyUnicode_Compare(effects_[i].key.get(), name) == 0;
                     });
  read_written_ += found;
  return found;
}

bool WriteLog::class_written(PyTypeObject* type, PyObject* name) const {
  if (attributes_of_.empty() || !type->tp_mro) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    if (attribute_written(PyTuple_GET_ITEM(type->tp_mro, i), name)) return true;
  }
  return false;
}

bool WriteLog::has(PyObject* container, Effect::Kind kind) const {
  const std::vector<size_t>& effects = of(container);
  return std::any_of(effects.begin(), effects.end(), [&](size_t i) { return effects_[i].kind == kind; });
}

bool WriteLog::wrote_to(PyObject* object) const {
  auto attributes = attributes_of_.find(object);
  return changed(object) || (attributes != attributes_of_.end() && !attributes->second.empty());
}

Ref WriteLog::as_it_was(PyObject* container) const {
  if (PyDict_Check(container)) return dict_as_it_was(container);
  if (PyList_Check(container)) return list_as_it_was(container);
  return changed(container) ? effects_[of(container).front()].before : Ref::borrow(container);
}

namespace {

// Those of these keys that a dict has stand in this order, behind all others.
void put_in_order(PyObject* dict, const std::vector<Ref>& keys) {
  for (const Ref& key : keys) {
    PyObject* value = PyDict_GetItemWithError(dict, key.get());
    if (!value) continue;
    const Ref held = Ref::borrow(value);
    if (!move_to_end(dict, key.get(), value)) PyErr_Clear();
  }
}

}  // namespace

Ref WriteLog::dict_as_it_was(PyObject* container) const {
  const std::vector<size_t>& effects = of(container);
  for (size_t i : effects)
    if (effects_[i].kind == Effect::Contents) return effects_[i].before;
  if (effects.empty()) return Ref::borrow(container);
  Ref dict = copy_of(container);
  for (size_t i : effects) {
    const Effect& e = effects_[i];
    if (e.before) PyDict_SetItem(dict.get(), e.key.get(), e.before.get());
    else if (PyDict_DelItem(dict.get(), e.key.get()) < 0) PyErr_Clear();
  }
  if (const auto order = orders_.find(container); order != orders_.end()) put_in_order(dict.get(), order->second);
  return dict;
}

Ref WriteLog::list_as_it_was(PyObject* container) const {
  Ref list = Ref::steal(PySequence_List(container));
  for (size_t i : of(container)) {
    const Effect& e = effects_[i];
    if (e.kind == Effect::Contents) return e.before;
    if (e.kind == Effect::Appended) {
      PyList_SetSlice(list.get(), PyLong_AsSsize_t(e.before.get()), PY_SSIZE_T_MAX, nullptr);
    }
  }
  for (size_t i : of(container))
    if (const Effect& e = effects_[i]; e.kind == Effect::Element)
      PyList_SetItem(list.get(), PyLong_AsSsize_t(e.key.get()), Py_NewRef(e.before.get()));
  return list;
}

void WriteLog::add(Effect::Kind kind, PyObject* owner, PyObject* key, PyObject* before) {
  const bool attribute = kind == Effect::Attribute;
  if (attribute ? attribute_written(owner, key) : written(owner, key)) return;
  (attribute ? attributes_of_ : effects_of_)[owner].push_back(effects_.size());
  effects_.push_back(
      {.kind = kind, .owner = Ref::borrow(owner), .key = Ref::borrow(key), .before = Ref::borrow(before)});
}

void WriteLog::add_container(Effect::Kind kind, PyObject* container, Ref before) {
  effects_of_[container].push_back(effects_.size());
  effects_.push_back({.kind = kind, .owner = Ref::borrow(container), .before = std::move(before)});
}

void WriteLog::forget(size_t at) {
  effects_.erase(effects_.begin() + static_cast<std::ptrdiff_t>(at));
  for (auto* index : {&effects_of_, &attributes_of_})
    for (auto& [owner, places] : *index) {
      std::erase(places, at);
      for (size_t& i : places) i -= i > at;
    }
}

void WriteLog::will_delete(PyObject* dict, PyObject* key) {
  auto [it, first] = orders_.try_emplace(dict);
  if (first) {
    Ref original = as_it_was(dict);
    Ref keys = Ref::steal(PySequence_List(original.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i)
      it->second.push_back(Ref::borrow(PyList_GET_ITEM(keys.get(), i)));
  }
  for (size_t i : of(dict)) {
    Effect& e = effects_[i];
    if (e.kind == Effect::Entry && e.before && PyObject_RichCompareBool(e.key.get(), key, Py_EQ) == 1) e.moved = true;
  }
}

void WriteLog::restore_orders() {
  for (const auto& [dict, keys] : orders_) put_in_order(dict, keys);
  orders_.clear();
}

void WriteLog::sort_new_entries() {
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

void WriteLog::take_back() {
  for (size_t i = effects_.size(); i-- > 0;) take_back(effects_[i]);
  restore_orders();
  effects_of_.clear();
  attributes_of_.clear();
}

void WriteLog::take_back(Effect& e) {
  PyObject* owner = e.owner.get();
  PyObject* now = nullptr;
  switch (e.kind) {
    case Effect::Entry: now = Py_XNewRef(PyDict_GetItemWithError(owner, e.key.get())); break;
    case Effect::Attribute:
      now = PyType_Check(owner) ? own_attribute(owner, e.key.get()) : PyObject_GenericGetAttr(owner, e.key.get());
      break;
    case Effect::Cell: now = Py_XNewRef(PyCell_GET(owner)); break;
    case Effect::Element: now = Py_XNewRef(PyList_GetItem(owner, PyLong_AsSsize_t(e.key.get()))); break;
    case Effect::Contents: now = copy_of(owner).release(); break;
    case Effect::State: break;  // TouchedStates has those
    case Effect::Appended: now = PyList_GetSlice(owner, PyLong_AsSsize_t(e.before.get()), PY_SSIZE_T_MAX);
  }
  PyErr_Clear();
  if (now) e.after = Ref::steal(now);
  if (e.kind == Effect::Appended) PyList_SetSlice(owner, PyLong_AsSsize_t(e.before.get()), PY_SSIZE_T_MAX, nullptr);
  else if (!apply_effect(e, owner, e.before.get())) PyErr_Clear();
}

}  // namespace thunder::frontend
