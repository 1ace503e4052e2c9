// Calls that run the function itself, because a program in its place would not be what eager is.
#include "core/error.h"
#include "jit/cache_entry.h"

namespace thunder {

void JitFunction::Key::check_kinds() const {
  if (other_kind) throw NeedsEager{cat("an argument is a tensor ", other_kind_of_tensor(other_kind)), {}};
  if (flat.overriding)
    throw NeedsEager{
        cat("an argument is of class ", Py_TYPE(flat.overriding)->tp_name, ", which overrides torch functions"), {}};
}

// Eager knows nothing of what lies on other processes.
void JitFunction::check_not_distributed(const std::string& why) const {
  THUNDER_CHECK(!distributed_ && !frontend::hooks().is_distributed(module_.get()), NotImplemented, "distributed", why,
                ", where only the function itself can run, and its parameters are distributed over processes, which "
                "compiled programs alone know of");
}

// Transforms that the user gave are a part of the function, which eager would leave out without a word.
PyObject* JitFunction::run_eagerly(const Arguments& args, const std::string& why) {
  const std::string left_out = transform();
  THUNDER_CHECK(left_out.empty(), NotImplemented, "jit", why,
                ", where only the function itself can run, without the transform ", left_out,
                ". Call the function there as it was before thunder.jit, or compile it without transforms");
  check_not_distributed(why);
  ++eager_[why];
  return PyObject_Vectorcall(fn_.get(), args.args, args.nargs, args.names);
}

// Once for a function, though it may be left to eager in several ways.
void JitFunction::warn_of_eager(const NeedsEager& reason) {
  if (!reason.warns || warned_) return;
  warned_ = true;
  const std::string text = cat("[jit] ", reason.why, ". ", module_.get() == Py_None ? "The function" : "The module",
                               " runs by eager PyTorch, not compiled");
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) != 0) throw frontend::PythonError();
}

// Later calls with the same key, in the same world, need not find that out again.
void JitFunction::CacheEntry::be_eager(const Key& of, const NeedsEager& reason) {
  eager = reason.why;
  symbols = nullptr;
  effects.clear();
  be_for(of);
  eager_for_tensor = static_cast<bool>(reason.tensor);
  if (eager_for_tensor) world.add_tensor(reason.tensor.get());
}

}  // namespace thunder
