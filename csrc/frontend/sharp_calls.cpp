#include "frontend/sharp_calls.h"

#include "frontend/c_methods.h"
#include "frontend/unseen.h"
#include "python/errors.h"
#include "python/mark.h"
#include "python/text.h"

namespace thunder::frontend {

bool of_random(std::string_view module) { return module == "_random" || module.starts_with("numpy.random"); }

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

bool SharpCalls::allow(PyObject* callable, PyObject* self, std::string_view name) {
  std::string module = origin(callable, self), unseen;
  if (self && !PyType_Check(self) && !PyModule_Check(self) && !fresh_.has(self))
    unseen = unseen_method(self, name, module);
  if (!unseen.empty()) return leave_to_eager(acquisition_, unseen);
  const char* reason = sharp_edge(module, name);
  if (!reason) return true;
  if (reason == kInput) not_kept_.add("calls " + std::string(name) + "(), which " + reason);
  if (edges_ == SharpEdges::Allow) return true;
  interpreter::NotInterpreting scope;
  std::string message = "[sharp_edges] " + (module == "builtins" ? "" : module + ".") + std::string(name) + "() " +
                        reason + "\n  at " + interpreter::current_place().str();
  // What the acquisition shows makes some of the draws parts of a call that is no sharp edge.
  if (of_random(module) && python_draws_.calls) {
    draws_.push_back(std::move(message));
    return true;
  }
  return tell(message);
}

bool SharpCalls::allow_setting(PyObject* callable) const {
  const std::optional<Ref> name = refused_setting(callable);
  if (!name) return true;
  const std::string text = printable(name->get());
  PyErr_Format(PyExc_NotImplementedError,
               "[%s] the setting cannot be changed inside of a compiled function: call %s() outside of it\n  at %s",
               text.c_str(), text.c_str(), interpreter::current_place().str().c_str());
  mark_error(Mark::Compiler);
  return false;
}

bool SharpCalls::tell(const std::string& message) const {
  if (edges_ != SharpEdges::Warn) PyErr_SetString(PyExc_RuntimeError, message.c_str());
  else if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) == 0) return true;
  mark_error(Mark::SharpEdge);
  return false;
}

void SharpCalls::will_change_global_generator(PyObject* callable) {
  static PyObject* global =
      PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("numpy.random.mtrand")).get(), "_rand");
  states_.touch(global);
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  not_kept_.add(std::string("calls ") + printable(name.get()) + "(), which " + kInput);
}

void SharpCalls::tell_draws() {
  if (const auto& place = python_draws_.opened()) {
    const std::string does = "reads an array of random numbers, for each of which the function is compiled";
    not_kept_.add(does, *place);
    if (edges_ != SharpEdges::Allow) draws_.push_back("[sharp_edges] the function " + does + "\n  at " + place->str());
  }
  for (const std::string& message : draws_)
    if (!tell(message)) throw PythonError();
}

}  // namespace thunder::frontend
