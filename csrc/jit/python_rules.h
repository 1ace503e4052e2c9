// Operators, checkers and transforms written in Python, as the function pointers and std::functions of the executor
// contract.
//
// A Python function is run the way a user's program is: under the tracing mode, on proxies for the call's values.  What
// it records goes into the builder of the pass that asked, or, for metas and checkers, into one that is thrown away.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "frontend/tracer.h"
#include "passes/executor.h"
#include "python/gil.h"
#include "python/ref.h"

namespace thunder {

/// A Python function and the parameters it has.  A call's arguments are fitted to it: those at their defaults may be
/// left out.
struct PythonFunction {
  Ref callable;
  std::string name;                                  ///< for messages
  std::vector<std::string> positional;               ///< parameters that may be given by position
  std::vector<std::string> keyword;                  ///< keyword-only parameters
  bool any_positional = false, any_keyword = false;  ///< *args, **kwargs

  explicit operator bool() const { return static_cast<bool>(callable); }
  /// A call's arguments as this function takes them, by position and by name.  Nothing if one that it has no parameter
  /// for is not at its default; `misfit` then names it.
  struct Fitted {
    ArgList positional;
    std::vector<std::pair<std::string, Arg>> keyword;
  };
  std::optional<Fitted> fit(const Args& args, std::string* misfit = nullptr) const;
};

using Transform = std::function<Arg(Builder&, const Args&)>;

/// Runs `f` on a call's arguments in the tracer; the result is Python's.  `who` names it in messages: "the checker of
/// 'x'".
Ref call_python(frontend::Tracer& tracer, const PythonFunction& f, const Args& args, const std::string& who);
/// How many times a meta function or body of this thread's operators raised so far.  What it raised is an error of the
/// operator, which the user's function, run by itself, need not raise.
size_t failed_operators();
/// The values in `result` as new ones, each once: one that is an argument or stands there twice is cloned.
Arg distinct_results(Builder& b, const Args& args, const Arg& result);

/// An operator made in Python.
struct PythonOperator {
  std::string name;
  std::string doc;
  std::vector<Param> params;
  uint64_t tags = kNoTag;
  PythonFunction meta;  ///< gives the results' metadata, or ...
  PythonFunction like;  ///< ... the same computation, of which the operator's body is made
  Ref fn;               ///< runs it; null for an operator that executors implement
};
/// Error (Value) if it has neither meta nor like.
const Op& register_python_operator(Executor& executor, PythonOperator op);

std::function<bool(const Call&)> python_checker(PythonFunction checker);
Transform python_transform(PythonFunction transform);
/// Runs a symbol's calls by an operator whose parameters are not the same; `fits` tells which calls it can take.
Transform call_of(const Op& op);
std::function<bool(const Call&)> fits(const Op& op);

/// An argument as a Python object, values as their proxies in the tracer.
Ref to_python(frontend::Tracer& tracer, const Arg& arg);

}  // namespace thunder
