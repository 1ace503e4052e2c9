// One instruction of CPython's, run by CPython.
#include <map>
#include <tuple>

#include "frontend/interpreter/code.h"
#include "frontend/interpreter/handlers.h"
#include "frontend/interpreter/interpreter.h"

namespace thunder::frontend::interpreter {
namespace {

// lambda a, b, ...: <the instruction on a, b, ...>
PyObject* make(int opcode, int argument, int n_operands, int n_results, PyObject* names) {
  std::string source = "lambda ";
  for (int i = 0; i < n_operands; ++i) source += (i ? ", a" : "a") + std::to_string(i);
  source += ": None";
  Ref scope = Ref::steal(PyDict_New());
  Ref builtins = Ref::borrow(PyEval_GetBuiltins());
  PyDict_SetItemString(scope.get(), "__builtins__", builtins.get());
  Ref lambda = Ref::steal(Py_CompileString(source.c_str(), kAloneFile, Py_eval_input));
  Ref function = Ref::steal(PyEval_EvalCode(lambda.get(), scope.get(), scope.get()));
  std::string bytes = {static_cast<char>(RESUME), 0};
  for (int i = 0; i < n_operands; ++i) bytes += {static_cast<char>(LOAD_FAST), static_cast<char>(i)};
  bytes += {static_cast<char>(opcode), static_cast<char>(argument)};
  if (n_results > 1) bytes += {static_cast<char>(BUILD_TUPLE), static_cast<char>(n_results)};
  bytes += {static_cast<char>(RETURN_VALUE), 0};
  Ref code = Ref::steal(PyObject_GetAttrString(function.get(), "__code__"));
  Ref replace = Ref::steal(PyObject_GetAttrString(code.get(), "replace"));
  Ref text = Ref::steal(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  Ref changes = Ref::steal(
      Py_BuildValue("{s:O,s:i,s:s}", "co_code", text.get(), "co_stacksize", n_operands + 4, "co_filename", kAloneFile));
  if (names) PyDict_SetItemString(changes.get(), "co_names", names);
  Ref nothing = Ref::steal(PyTuple_New(0));
  Ref changed = Ref::steal(PyObject_Call(replace.get(), nothing.get(), changes.get()));
  if (PyObject_SetAttrString(function.get(), "__code__", changed.get()) < 0) throw PythonError();
  return function.release();
}

// The traceback of what was raised does not show our function.
void leave_traceback() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) {
    auto* entry = reinterpret_cast<PyTracebackObject*>(traceback);
    Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(entry->tb_frame)));
    const DecodedCode* ready = decoded(reinterpret_cast<PyCodeObject*>(code.get()));
    if (ready && ready->alone) {
      traceback = Py_XNewRef(reinterpret_cast<PyObject*>(entry->tb_next));
      Py_DECREF(entry);
      PyException_SetTraceback(value, traceback ? traceback : Py_None);
    }
  }
  PyErr_Restore(type, value, traceback);
}

}  // namespace

PyObject* run_alone(int opcode, int argument, PyObject* const* operands, int n_operands, int n_results,
                    PyObject* names) {
  // Never released: few, and needed until the end.
  static auto* made = new std::map<std::tuple<int, int>, PyObject*>();
  PyObject* function = nullptr;
  Ref once;
  {
    NotInterpreting scope;
    if (names) {
      once = Ref::steal(make(opcode, argument, n_operands, n_results, names));
      function = once.get();
    } else {
      PyObject*& kept = (*made)[{opcode, argument}];
      if (!kept) kept = make(opcode, argument, n_operands, n_results, nullptr);
      function = kept;
    }
  }
  PyObject* result = PyObject_Vectorcall(function, operands, static_cast<size_t>(n_operands), nullptr);
  if (!result) leave_traceback();
  return result;
}

}  // namespace thunder::frontend::interpreter
