#include "python/text.h"

#include "python/errors.h"

namespace thunder {

std::string utf8(PyObject* str) {
  Py_ssize_t n = 0;
  const char* s = PyUnicode_AsUTF8AndSize(str, &n);
  if (!s) throw PythonError();
  return {s, static_cast<size_t>(n)};
}

std::string printable(PyObject* str) {
  const KeepError pending;
  Py_ssize_t n = 0;
  if (const char* s = PyUnicode_AsUTF8AndSize(str, &n)) return {s, static_cast<size_t>(n)};
  PyErr_Clear();  // of the lone surrogate
  PyObject* bytes = PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace");
  if (bytes) {
    const Ref owned = Ref::steal(bytes);
    return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
  }
  PyErr_Clear();
  return {};
}

}  // namespace thunder
