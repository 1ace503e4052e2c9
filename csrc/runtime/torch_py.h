// PyObject <-> at::Tensor without pybind11: torch/csrc/autograd/python_variable.h pulls it in, 13 seconds a file. These
// declarations need only Tensor.h; python_error.cpp includes the real header and asserts that they agree.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#ifndef THUNDER_REAL_TORCH_PY
struct THPVariable {
  PyObject_HEAD
  at::Tensor cdata;
  PyObject* backward_hooks;
  PyObject* post_accumulate_grad_hooks;
};
extern PyObject* THPVariableClass;
extern PyObject* ParameterClass;
PyObject* THPVariable_Wrap(const at::TensorBase& var);
PyObject* THPVariable_Wrap(at::TensorBase&& var);
#endif

namespace thunder::torch_py {

/// torch.Tensor or torch.nn.Parameter itself.
inline bool is_exact_tensor(PyObject* o) {
  PyTypeObject* t = Py_TYPE(o);
  return t == reinterpret_cast<PyTypeObject*>(THPVariableClass) || t == reinterpret_cast<PyTypeObject*>(ParameterClass);
}

/// A tensor of any class.  Never runs Python code, unlike THPVariable_Check, whose slow path is PyObject_IsInstance.
inline bool is_tensor(PyObject* o) {
  return is_exact_tensor(o) || PyType_IsSubtype(Py_TYPE(o), reinterpret_cast<PyTypeObject*>(THPVariableClass));
}

/// Of an object for which is_tensor() holds.
inline const at::Tensor& tensor(PyObject* o) { return reinterpret_cast<THPVariable*>(o)->cdata; }

}  // namespace thunder::torch_py
