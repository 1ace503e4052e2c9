// Calls of what keeps its results: functools.lru_cache around a function of the user's.
#include "frontend/hooks.h"
#include "frontend/reads.h"

namespace thunder::frontend {
namespace {

bool same_arguments(const EnvironmentGuard::Answer& a, const EnvironmentGuard::Answer& b) {
  int same = PyObject_RichCompareBool(a.arguments.get(), b.arguments.get(), Py_EQ);
  if (same == 1) same = PyObject_RichCompareBool(a.keywords.get(), b.keywords.get(), Py_EQ);
  if (same < 0) PyErr_Clear();
  return same == 1;
}

}  // namespace

// Whether it was there before this acquisition, and is the same in every call.
bool Reads::is_settled(PyObject* o) const {
  if (is_traced_value(o) || fresh(o)) return false;
  for (Py_ssize_t i = 0; PyTuple_Check(o) && i < PyTuple_GET_SIZE(o); ++i)
    if (!is_settled(PyTuple_GET_ITEM(o, i))) return false;
  return true;
}

// A functools.lru_cache of the user's is asked as eager asks it, and asked again before each run.  It must not keep what
// is of this acquisition: then the function is called without it.
PyObject* Reads::call_caching(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
  bool settled = !fresh(callable);
  const size_t all = n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  for (size_t i = 0; i < all; ++i) settled = settled && is_settled(arguments[i]);
  if (!settled)
    return PyObject_Vectorcall(Ref::steal(PyObject_GetAttrString(callable, "__wrapped__")).get(), arguments, n, names);
  static PyObject* call_outside =
      PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("thunder._frontend")).get(), "call_outside");
  EnvironmentGuard::Answer answer{
      Ref::borrow(callable), Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(n))), Ref::steal(PyDict_New()), {}};
  for (size_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(answer.arguments.get(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
  for (size_t i = n; i < all; ++i)
    if (PyDict_SetItem(answer.keywords.get(), PyTuple_GET_ITEM(names, i - n), arguments[i]) < 0) throw PythonError();
  interpreter::NotInterpreting scope;
  PyObject* value =
      PyObject_CallFunctionObjArgs(call_outside, callable, answer.arguments.get(), answer.keywords.get(), nullptr);
  if (!value) return nullptr;
  answer.value = Ref::borrow(value);
  for (const EnvironmentGuard::Answer& known : answers_)
    if (known.function.get() == callable && known.value.get() == value && same_arguments(known, answer)) return value;
  answers_.push_back(std::move(answer));
  return value;
}

}  // namespace thunder::frontend
