// The module thunder_frontend_tests, whose function run() runs the test cases: a list of doctest's arguments to doctest's
// exit status.
#include <Python.h>

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "ops/families.h"
#include "python/errors.h"
#include "python/text.h"

namespace {

REGISTER_EXCEPTION_TRANSLATOR(const thunder::PythonError&) {
  if (!PyErr_Occurred()) return "PythonError without an exception";
  const thunder::Raised raised = thunder::Raised::take();
  return (std::string(Py_TYPE(raised.value.get())->tp_name) + ": " + raised.text()).c_str();
}

PyObject* run(PyObject*, PyObject* list) {
  if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "run() takes a list of strings");
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) texts.push_back(thunder::printable(PyList_GET_ITEM(list, i)));
  std::vector<const char*> arguments;
  for (const std::string& text : texts) arguments.push_back(text.c_str());
  thunder::ops::register_all();
  doctest::Context context(static_cast<int>(arguments.size()), arguments.data());
  return PyLong_FromLong(context.run());
}

PyMethodDef methods[] = {{"run", run, METH_O, "Runs the test cases, with doctest's arguments: its exit status."}, {}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "thunder_frontend_tests", nullptr, -1, methods, {}, {}, {}, {}};

}  // namespace

extern "C" PyObject* PyInit_thunder_frontend_tests() { return PyModule_Create(&definition); }
