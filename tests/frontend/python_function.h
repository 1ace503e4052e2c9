// Functions of Python's with a C++ body: what programs hand over to be run on proxies.
#pragma once

#include <functional>
#include <vector>

#include "fake_torch.h"

namespace thunder::frontend::test {

/// From the arguments to the list that the function returns, in which null is None.
using Body = std::function<std::vector<Ref>(const std::vector<PyObject*>&)>;

inline PyObject* call_body(PyObject* capsule, PyObject* args) {
  auto* body = static_cast<Body*>(PyCapsule_GetPointer(capsule, nullptr));
  std::vector<PyObject*> given;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) given.push_back(PyTuple_GET_ITEM(args, i));
  try {
    Ref list = Ref::steal(PyList_New(0));
    for (const Ref& o : (*body)(given)) PyList_Append(list.get(), o ? o.get() : Py_None);
    return list.release();
  } catch (...) {
    hooks().set_python_error();
    return nullptr;
  }
}

inline Ref function(Body body) {
  static PyMethodDef method = {"function", call_body, METH_VARARGS, nullptr};
  const auto free = [](PyObject* capsule) { delete static_cast<Body*>(PyCapsule_GetPointer(capsule, nullptr)); };
  const Ref capsule = Ref::steal(PyCapsule_New(new Body(std::move(body)), nullptr, free));
  return Ref::steal(PyCFunction_New(&method, capsule.get()));
}

/// A function that raises a ValueError.
inline Ref raising() {
  return function([](const auto&) -> std::vector<Ref> {
    PyErr_SetString(PyExc_ValueError, "the function raises");
    throw PythonError();
  });
}

inline std::vector<PyObject*> borrowed(const std::vector<Ref>& objects) {
  std::vector<PyObject*> out;
  for (const Ref& o : objects) out.push_back(o ? o.get() : Py_None);
  return out;
}

}  // namespace thunder::frontend::test
