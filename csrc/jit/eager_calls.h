// Calls that run the function itself, because a program in its place would not be what eager is.
//
// An EagerCalls owns how many there were, by reason, and the Python object that compiles the modules which such a call
// runs.  The user is warned once for a function, though it may be left to eager in several ways.
#pragma once

#include <map>
#include <string>

#include "jit/call_key.h"
#include "jit/user_function.h"

namespace thunder {

class EagerCalls {
 public:
  explicit EagerCalls(const UserFunction& function) : function_(function) {}
  EagerCalls(const EagerCalls&) = delete;
  EagerCalls& operator=(const EagerCalls&) = delete;

  /// `modules`: InnerModules of thunder/_inner_modules.py, for calls that eager runs since no program can.  `quiet`: no
  /// warnings of those.
  void set_inner_modules(PyObject* modules, bool quiet) {
    inner_modules_ = Ref::borrow(modules);
    warned_ = quiet;
  }
  /// Null: it has none.
  PyObject* inner_modules() const { return inner_modules_.get(); }
  /// How many calls ran the function itself, by why.
  const std::map<std::string, size_t>& counts() const { return counts_; }
  /// Null with an exception set.  `warns`: the function was refused, and the user is told.  Error (NotImplemented) where
  /// the function alone is not what the user asked for.
  PyObject* run(const CallArguments& args, const std::string& why, bool warns = false);

 private:
  bool warn(const std::string& why);

  const UserFunction& function_;
  Ref inner_modules_;
  bool warned_ = false;
  std::map<std::string, size_t> counts_;
};

}  // namespace thunder
