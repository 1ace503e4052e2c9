#include "runtime/python_error.h"

#define THUNDER_REAL_TORCH_PY
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "core/error.h"
#include "core/out_of_bounds.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/mark.h"
#include "runtime/kernels/fork.h"
#include "runtime/torch_py.h"

namespace thunder {

// torch_py.h declares these by hand in all other files.
static_assert(offsetof(THPVariable, cdata) == sizeof(PyObject));
static_assert(sizeof(THPVariable) == sizeof(PyObject) + sizeof(at::Tensor) + 2 * sizeof(PyObject*));
static_assert(std::is_same_v<decltype(static_cast<PyObject* (*)(const at::TensorBase&)>(&THPVariable_Wrap)),
                             PyObject* (*)(const at::TensorBase&)>);

void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

void warn_in_python(const std::string& message) {
  const MayFork waiting;  // for the GIL, which a forking thread has
  const Gil gil;
  if (PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1) != 0) throw_python_error();
}

namespace {

PyObject* exception_type(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Runtime: return PyExc_RuntimeError;
    case ErrorKind::Type: return PyExc_TypeError;
    case ErrorKind::Value: return PyExc_ValueError;
    case ErrorKind::Index: return PyExc_IndexError;
    case ErrorKind::NotImplemented: return PyExc_NotImplementedError;
    case ErrorKind::Attribute: return PyExc_AttributeError;
    case ErrorKind::Assertion: return PyExc_AssertionError;
    case ErrorKind::Import: return PyExc_ImportError;
    case ErrorKind::Internal: return PyExc_RuntimeError;
  }
  return PyExc_RuntimeError;
}

// By name: libtorch_python does not export its own variables for these classes.
PyObject* torch_exception(const char* module, const char* name) {
  PyObject* m = PyImport_ImportModule(module);
  PyObject* type = m ? PyObject_GetAttrString(m, name) : nullptr;
  Py_XDECREF(m);
  if (type) return type;
  PyErr_Clear();
  return PyExc_RuntimeError;
}

Mark mark_for(const Error& e) {
  if (e.kind() == ErrorKind::Internal) return Mark::Internal;
  return dynamic_cast<const OutOfBounds*>(&e) ? Mark::OutOfBounds : Mark::Compiler;
}

bool set(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  return true;
}

std::string message(const c10::Error& e) { return torch::processErrorMsg(e.what_without_backtrace()); }

}  // namespace

bool set_python_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (python_error& e) {
    // The exception may be thrown again.  PyTorch throws some whose error is the indicator's alone, and restore()
    // empties the others.
    e.persist();
    python_error(e).restore();
    return true;
  } catch (const Error& e) {
    set(exception_type(e.kind()), e.what());
    mark_error(mark_for(e));
    return true;
  } catch (const c10::IndexError& e) {
    return set(PyExc_IndexError, message(e));
  } catch (const c10::ValueError& e) {
    return set(PyExc_ValueError, message(e));
  } catch (const c10::TypeError& e) {
    return set(PyExc_TypeError, message(e));
  } catch (const c10::NotImplementedError& e) {
    return set(PyExc_NotImplementedError, message(e));
  } catch (const c10::OutOfMemoryError& e) {
    return set(torch_exception("torch", "OutOfMemoryError"), message(e));
  } catch (const c10::LinAlgError& e) {
    return set(torch_exception("torch.linalg", "LinAlgError"), message(e));
  } catch (const c10::Error& e) {
    return set(PyExc_RuntimeError, message(e));
  } catch (...) {
    return false;
  }
}

std::string message_of(const std::exception_ptr& exception) {
  if (!set_python_error(exception)) return "an unknown error";
  const std::string text = Raised::take().text();
  return text.empty() ? "an unknown error" : text;
}

}  // namespace thunder
