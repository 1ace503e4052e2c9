#include "jit/eager_calls.h"

#include "core/error.h"

namespace thunder {

namespace {

// While this lives, modules run as programs of their own: `modules` are InnerModules of thunder/_inner_modules.py, or
// null.
class WithInnerModules {
 public:
  explicit WithInnerModules(PyObject* modules) : modules_(modules) {
    if (!modules_) return;
    entered_ = PyObject_CallMethod(modules_, "enter", nullptr);
    if (!entered_) PyErr_WriteUnraisable(modules_);
  }
  ~WithInnerModules() {
    if (!entered_) return;
    // The function may have raised.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject* left = PyObject_CallMethod(modules_, "leave", "(O)", entered_);
    if (!left) PyErr_WriteUnraisable(modules_);
    Py_XDECREF(left);
    Py_DECREF(entered_);
    PyErr_Restore(type, value, traceback);
  }
  WithInnerModules(const WithInnerModules&) = delete;
  WithInnerModules& operator=(const WithInnerModules&) = delete;

 private:
  PyObject* const modules_;
  PyObject* entered_ = nullptr;
};

}  // namespace

// Transforms that the user gave are a part of the function, which eager would leave out without a word.
PyObject* EagerCalls::run(const CallArguments& args, const std::string& why, bool warns) {
  const std::string left_out = function_.transform();
  THUNDER_CHECK(left_out.empty(), NotImplemented, "jit", why,
                ", where only the function itself can run, without the transform ", left_out,
                ". Call the function there as it was before thunder.jit, or compile it without transforms");
  function_.check_not_distributed(why);
  ++counts_[why];
  const Ref result = [&] {
    // Under modes, and for classes of tensors, modules are left to eager as well.
    const WithInnerModules inner(warns ? inner_modules_.get() : nullptr);
    return Ref::steal(PyObject_Vectorcall(function_.fn.get(), args.args, args.nargs, args.names));
  }();
  // What eager refuses as well is its exception alone.
  if (!result.get() || (warns && !warn(why))) return nullptr;
  return Py_NewRef(result.get());
}

// False with an exception set.
bool EagerCalls::warn(const std::string& why) {
  if (warned_) return true;
  const bool is_function = !function_.is_module();
  const std::string which = is_function ? "The function" : "The module";
  // A refusal has the operator's name before it, and lines.
  const bool is_error = why.starts_with("[");
  const char* inner =
      "; the modules that it calls are compiled where they can be (compile_stats(f)[\"inner_modules\"])";
  const std::string text = cat(is_error ? "" : "[jit] ", why, is_error ? "\n  " : ". ", which,
                               " runs by eager PyTorch, not compiled", inner_modules_.get() ? inner : "");
  // A module's __call__ is Python.
  warned_ = PyErr_WarnEx(PyExc_UserWarning, text.c_str(), is_function ? 1 : 2) == 0;
  return warned_;
}

}  // namespace thunder
