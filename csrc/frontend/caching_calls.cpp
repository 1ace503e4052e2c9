#include "frontend/caching_calls.h"

#include <cstring>

#include "python/errors.h"

namespace thunder::frontend {
namespace {

bool same_arguments(const EnvironmentGuard::Answer& a, const EnvironmentGuard::Answer& b) {
  int same = PyObject_RichCompareBool(a.arguments.get(), b.arguments.get(), Py_EQ);
  if (same == 1) same = PyObject_RichCompareBool(a.keywords.get(), b.keywords.get(), Py_EQ);
  if (same < 0) PyErr_Clear();
  return same == 1;
}

}  // namespace

bool CachingCalls::is_caching(PyObject* callable) {
  return std::strcmp(Py_TYPE(callable)->tp_name, "functools._lru_cache_wrapper") == 0;
}

// A functools.lru_cache of the user's is asked as eager asks it, and asked again before each run.  It must not keep
// what is of this acquisition: then the function is called without it.
PyObject* CachingCalls::call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
  bool settled = !fresh_.has(callable);
  const size_t all = n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  for (size_t i = 0; i < all; ++i) settled = settled && fresh_.is_settled(arguments[i]);
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

PyObject* CachingCalls::call_setting(PyObject* callable) {
  PyObject* answer = PyObject_CallNoArgs(callable);
  if (answer && (PyBool_Check(answer) || PyUnicode_Check(answer)))
    answers_.push_back(
        {Ref::borrow(callable), Ref::steal(PyTuple_New(0)), Ref::steal(PyDict_New()), Ref::borrow(answer)});
  return answer;
}

void CachingCalls::watch(EnvironmentGuard& environment) {
  for (EnvironmentGuard::Answer& answer : answers_) environment.watch_answer(std::move(answer));
}

}  // namespace thunder::frontend
