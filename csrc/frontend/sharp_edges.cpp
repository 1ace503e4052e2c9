// Calls of C code whose results or effects are no matter of their arguments: what `sharp_edges` tells of.
#include <algorithm>
#include <string_view>

#include "frontend/kinds.h"
#include "frontend/reads.h"
#include "frontend/unseen.h"
#include "python/mark.h"
#include "python/text.h"

namespace thunder::frontend {

bool of_random(std::string_view module) { return module == "_random" || module.starts_with("numpy.random"); }

// Where a C function comes from: its module, or the class of what it is a method of.
std::string origin(PyObject* callable, PyObject* self) {
  if (self && is_random(self)) return "_random";
  if (self && PyModule_Check(self)) return PyModule_GetName(self);
  PyObject* type = !self || PyType_Check(self) ? self : reinterpret_cast<PyObject*>(Py_TYPE(self));
  for (PyObject* o : {callable, type}) {
    PyObject* module = o ? PyObject_GetAttrString(o, "__module__") : nullptr;
    if (!module) PyErr_Clear();
    std::string name = module && PyUnicode_Check(module) ? printable(module) : "";
    Py_XDECREF(module);
    if (!name.empty()) return name;
  }
  return {};
}

bool one_of(std::string_view name, const std::initializer_list<std::string_view>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

namespace {

// Why a call of a C function is a sharp edge: what it does or gives is not a matter of its arguments.  Null: it is none.
constexpr const char* kOutput = "writes to the outside, and only when the program is compiled";
constexpr const char* kInput = "gives something else in every call, for each of which the function is compiled";
const char* sharp_edge(std::string_view module, std::string_view name) {
  if (module == "builtins" && name == "print") return kOutput;
  if (module == "builtins" && (name == "input" || name == "open")) return kInput;
  if (module == "time" && !one_of(name, {"strftime", "gmtime", "mktime"})) return kInput;
  if (of_random(module)) return kInput;
  if (module == "datetime" && one_of(name, {"now", "utcnow", "today"})) return kInput;
  if (module == "_thread" && one_of(name, {"get_ident", "get_native_id"})) return kInput;
  if (module == "posix" && !one_of(name, {"fspath", "cpu_count"})) return kInput;
  if (module == "_io" && one_of(name, {"write", "writelines", "flush", "close"})) return kOutput;
  if (module == "_io" || module == "_socket") return kInput;
  return nullptr;
}

}  // namespace

bool Reads::allow_call(PyObject* callable, PyObject* self, std::string_view name) {
  std::string module = origin(callable, self), unseen;
  if (self && !PyType_Check(self) && !PyModule_Check(self) && !fresh(self)) unseen = unseen_method(self, name, module);
  if (!unseen.empty()) return leave_to_eager(unseen);
  const char* reason = sharp_edge(module, name);
  if (!reason) return true;
  if (reason == kInput) keep_not("calls " + std::string(name) + "(), which " + reason);
  if (edges_ == SharpEdges::Allow) return true;
  interpreter::NotInterpreting scope;
  std::string message = "[sharp_edges] " + (module == "builtins" ? "" : module + ".") + std::string(name) + "() " +
                        reason + "\n  at " + interpreter::current_place().str();
  // What the acquisition shows makes some of the draws parts of a call that is no sharp edge.
  if (of_random(module) && tracer_.draws().calls) {
    draws_.push_back(std::move(message));
    return true;
  }
  return tell(message);
}

bool Reads::tell(const std::string& message) const {
  if (edges_ == SharpEdges::Warn) return PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) == 0;
  PyErr_SetString(PyExc_RuntimeError, message.c_str());
  mark_error(Mark::SharpEdge);
  return false;
}

// Functions of NumPy's own (seed()) write to the generator that all programs share.
void Reads::change_global_generator(PyObject* callable) {
  static PyObject* global =
      PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("numpy.random.mtrand")).get(), "_rand");
  touch(global);
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  keep_not(std::string("calls ") + printable(name.get()) + "(), which " + kInput);
}

}  // namespace thunder::frontend
