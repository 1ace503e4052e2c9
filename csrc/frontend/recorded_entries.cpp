#include "frontend/recorded_entries.h"

#include <algorithm>

namespace thunder::frontend {
namespace {

// Stands for "there is no such entry" as a value.
PyObject* absent() {
  static PyObject* o = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return o;
}

}  // namespace

bool RecordedEntries::add(PyObject* key, PyObject* value) {
  const Py_ssize_t before = PyDict_GET_SIZE(entries_.get());
  if (!PyDict_SetDefault(entries_.get(), key, value ? value : absent())) PyErr_Clear();
  return PyDict_GET_SIZE(entries_.get()) > before;
}

std::vector<EnvironmentGuard::GuardedEntry> RecordedEntries::entries(
    const std::vector<interpreter::Place>& places) const {
  std::vector<EnvironmentGuard::GuardedEntry> out;
  PyObject *key, *value;
  for (Py_ssize_t i = 0; PyDict_Next(entries_.get(), &i, &key, &value);) {
    EnvironmentGuard::GuardedEntry e{Ref::borrow(key), {}, {}};
    if (value != absent()) e.value = Ref::borrow(value);
    if (!places.empty()) e.place = places[std::min(out.size(), places.size() - 1)];
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace thunder::frontend
