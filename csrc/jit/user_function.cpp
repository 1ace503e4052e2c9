#include "jit/user_function.h"

#include "core/error.h"
#include "frontend/hooks.h"
#include "python/text.h"

namespace thunder {

UserFunction::UserFunction(PyObject* function, PyObject* of_module, JitOptions jit_options)
    : fn(Ref::borrow(function)), module(Ref::borrow(of_module)), options(std::move(jit_options)) {
  // Who asks for graphs gets a program for each tuple of sizes: every one is recorded.
  if (options.graphs && !options.graphs->automatic && options.cache == CacheMode::VaryingValues)
    options.cache = CacheMode::ConstantValues;
}

std::string UserFunction::name() const {
  if (is_module()) return Py_TYPE(module.get())->tp_name;
  PyObject* function = PyMethod_Check(fn.get()) ? PyMethod_GET_FUNCTION(fn.get()) : fn.get();
  if (!PyFunction_Check(function)) return Py_TYPE(function)->tp_name;
  return printable(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
}

bool UserFunction::is_of_distributed() const {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const bool out = frontend::hooks().is_distributed(module.get());
  PyErr_Restore(type, value, traceback);
  return out;
}

// Eager knows nothing of what lies on other processes.
void UserFunction::check_not_distributed(const std::string& why) const {
  THUNDER_CHECK(!distributed && !frontend::hooks().is_distributed(module.get()), NotImplemented, "distributed", why,
                ", where only the function itself can run, and its parameters are distributed over processes, which "
                "compiled programs alone know of");
}

}  // namespace thunder
