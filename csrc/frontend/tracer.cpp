#include "frontend/tracer.h"

#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"

namespace thunder::frontend {

Tracer::Tracer(const std::vector<const void*>& shared, std::unordered_set<size_t> begin)
    : tensors_(*this, proxies_, inputs_, shared, std::move(begin)) {
  begin_numbers();
}

Tracer::Tracer(Builder& borrowed, bool metadata_only)
    : Acquisition(borrowed, metadata_only), tensors_(*this, proxies_, inputs_, {}, {}) {}

Ref Tracer::run(PyObject* fn, PyObject* args, PyObject* kwargs) {
  std::optional<interpreter::Interpreting> scope;
  if (observer_) scope.emplace(observer_);
  return Ref::steal(PyObject_Call(fn, args, kwargs));
}

// The variable is one of the process, so that other threads see it.
PyObject* Tracer::whether_compiled(PyObject* variables, PyObject* name) {
  static PyObject* flag = PyUnicode_InternFromString("_is_compiling_flag");
  if (name != flag || variables != hooks().compiler_variables.get()) return nullptr;
  asked_whether_compiled = true;
  return Py_NewRef(seems_compiled ? Py_True : Py_False);
}

}  // namespace thunder::frontend
