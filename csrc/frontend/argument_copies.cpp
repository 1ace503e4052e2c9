#include "frontend/argument_copies.h"

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "python/lookup.h"

namespace thunder::frontend {
namespace {

// The attributes of an object by name; null if it has none of its own.
Ref attributes_of(PyObject* o) {
  PyObject** dict = dict_place(o);
  if (dict && *dict) return Ref::steal(PyDict_Copy(*dict));
  if (PyList_Check(o) || PyDict_Check(o)) return {};
  // A dataclass with slots.
  Ref out = Ref::steal(PyDict_New());
  PyObject *fields = dataclass_fields(o), *name, *field;
  for (Py_ssize_t i = 0; fields && PyDict_Next(fields, &i, &name, &field);) {
    PyObject* value = PyObject_GetAttr(o, name);
    if (!value) PyErr_Clear();
    else if (PyDict_SetItem(out.get(), name, Ref::steal(value).get()) < 0) throw PythonError();
  }
  return out;
}

bool begins_with(PyObject* list, PyObject* start) {
  const Py_ssize_t n = PyList_GET_SIZE(start);
  if (PyList_GET_SIZE(list) < n) return false;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (PyList_GET_ITEM(list, i) != PyList_GET_ITEM(start, i)) return false;
  return true;
}

}  // namespace

void ClassUse::add(PyObject* name) {
  if (!names) names = Ref::steal(PySet_New(nullptr));
  if (PySet_Add(names.get(), name) < 0) throw PythonError();
}

void ClassUse::add(const ClassUse& other) {
  identity = identity || other.identity;
  everything = everything || other.everything;
  written = written || other.written;
  if (!names) names = Ref::steal(PySet_New(nullptr));
  if (other.names) Ref done = Ref::steal(PyObject_CallMethod(names.get(), "update", "O", other.names.get()));
}

bool is_wanted(const ClassUses& uses, PyObject* object, PyObject* name) {
  auto use = uses.find(Py_TYPE(object));
  return use == uses.end() || use->second.wants(name);
}

const ClassUse* use_of_tensors(const ClassUses* uses) {
  if (!uses || uses->empty()) return nullptr;
  auto use = uses->find(hooks().tensor_class);
  return use == uses->end() ? nullptr : &use->second;
}

ArgumentCopies::ArgumentCopies(const std::vector<PyObject*>& arguments, const ClassUses& uses)
    : uses_(uses), copies_(arguments.size()) {
  for (size_t i = 0; i < arguments.size(); ++i) index_.emplace(arguments[i], i);
}

PyObject* ArgumentCopies::copy_of(PyObject* argument) const {
  auto it = index_.find(argument);
  return it == index_.end() ? nullptr : copies_[it->second].get();
}

void ArgumentCopies::made(PyObject* argument, const Ref& copy) {
  auto it = index_.find(argument);
  if (it == index_.end()) return;
  copies_[it->second] = copy;
  by_copy_.emplace(copy.get(), it->second);
}

std::optional<size_t> ArgumentCopies::argument(PyObject* copy) const {
  auto it = by_copy_.find(copy);
  if (it == by_copy_.end()) return std::nullopt;
  return it->second;
}

ArgumentCopies::State ArgumentCopies::state_of(PyObject* copy) {
  State s;
  if (PyList_Check(copy) || PyDict_Check(copy)) s.contents = frontend::copy_of(copy);
  if (PyDict_Check(copy)) s.keys = Ref::steal(PySequence_List(copy));
  s.attributes = attributes_of(copy);
  return s;
}

void ArgumentCopies::seal() {
  before_.clear();
  for (const Ref& copy : copies_) before_.push_back(state_of(copy.get()));
}

void ArgumentCopies::compare_list(size_t i, const Ref& before, std::vector<Effect>& out) const {
  PyObject* now = copies_[i].get();
  const Py_ssize_t n = PyList_GET_SIZE(before.get());
  Effect e{.kind = Effect::Contents, .argument = i};
  if (!begins_with(now, before.get())) {
    e.after = frontend::copy_of(now);
  } else if (PyList_GET_SIZE(now) > n) {
    e.kind = Effect::Appended;
    e.after = Ref::steal(PyList_GetSlice(now, n, PyList_GET_SIZE(now)));
  } else {
    return;
  }
  out.push_back(std::move(e));
}

void ArgumentCopies::compare_dict(size_t i, const State& before, std::vector<Effect>& out) const {
  PyObject* now = copies_[i].get();
  Ref keys = Ref::steal(PySequence_List(now));
  if (!begins_with(keys.get(), before.keys.get())) {
    out.push_back({.kind = Effect::Contents, .after = frontend::copy_of(now), .argument = i});
    return;
  }
  for (Py_ssize_t k = 0; k < PyList_GET_SIZE(keys.get()); ++k) {
    PyObject* key = PyList_GET_ITEM(keys.get(), k);
    PyObject* value = PyDict_GetItemWithError(now, key);
    if (value != PyDict_GetItemWithError(before.contents.get(), key))
      out.push_back({.kind = Effect::Entry, .key = Ref::borrow(key), .after = Ref::borrow(value), .argument = i});
  }
}

void ArgumentCopies::compare_attributes(size_t i, const Ref& before, std::vector<Effect>& out) const {
  Ref now = attributes_of(copies_[i].get());
  if (!now) return;
  auto add = [&](PyObject* name, PyObject* value) {
    out.push_back({.kind = Effect::Attribute, .key = Ref::borrow(name), .after = Ref::borrow(value), .argument = i});
  };
  PyObject *name, *value;
  for (Py_ssize_t k = 0; before && PyDict_Next(before.get(), &k, &name, &value);)
    if (!PyDict_GetItemWithError(now.get(), name)) add(name, nullptr);
  for (Py_ssize_t k = 0; PyDict_Next(now.get(), &k, &name, &value);)
    if (!before || PyDict_GetItemWithError(before.get(), name) != value) add(name, value);
}

std::vector<Effect> ArgumentCopies::effects() const {
  std::vector<Effect> out;
  for (size_t i = 0; i < copies_.size(); ++i) {
    const State& before = before_[i];
    if (PyDict_Check(copies_[i].get())) compare_dict(i, before, out);
    else if (before.contents) compare_list(i, before.contents, out);
    compare_attributes(i, before.attributes, out);
  }
  return out;
}

}  // namespace thunder::frontend
