// User functions that are recorded apart from the program.  Such a function runs on stand-in tensors instead of its
// arguments, and its calls do not go to the program: a transform (torch.func, torch.vmap) makes the program's calls of
// them.
//
// Owns nothing.  Calls the proxies and the tensors.
#pragma once

#include <memory>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/proxies.h"
#include "frontend/tensors.h"
#include "frontend/value_questions.h"

namespace thunder::frontend {

/// Calls a function of the user's from the compiler's own Python.
Ref call_user(PyObject* fn, PyObject* args);

/// Calls that are recorded apart until close(), or until an exception leaves the scope.
class CallsApart {
 public:
  explicit CallsApart(Acquisition& acquisition) : acquisition_(acquisition) { acquisition.open_scope(); }
  /// Of a function of the user's.  `before`: what was known before it runs.
  CallsApart(Acquisition& acquisition, const AliasTracker::Checkpoint& before) : CallsApart(acquisition) {
    before_ = &before;
  }
  ~CallsApart();
  CallsApart(const CallsApart&) = delete;
  CallsApart& operator=(const CallsApart&) = delete;
  std::vector<const Call*> close();

 private:
  Acquisition& acquisition_;
  const AliasTracker::Checkpoint* before_ = nullptr;
  bool open_ = true;
};

struct FunctionApart {
  std::vector<Value> given, own, results;
  std::vector<TensorId> given_ids, own_ids;
  std::vector<Ref> proxies;  ///< of its own tensors
  Ref made = {};             ///< the list that it returned
  std::vector<const Call*> calls;
  std::unique_ptr<AliasTracker::Checkpoint> before;
};

class FunctionsApart {
 public:
  FunctionsApart(Acquisition& acquisition, Proxies& proxies, Tensors& tensors, const ValueQuestions& questions)
      : acquisition_(acquisition),
        aliases_(acquisition.aliases()),
        proxies_(proxies),
        tensors_(tensors),
        questions_(questions) {}

  /// Runs a function that returns a list of tensors.  `own`: the type of what stands for an input, by the input's.
  /// `transform`: who asks, for messages.
  FunctionApart record(PyObject* fn, const std::vector<PyObject*>& inputs, TensorType (*own)(const TensorType&),
                       const char* transform);

 private:
  Acquisition& acquisition_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Tensors& tensors_;
  const ValueQuestions& questions_;
};

}  // namespace thunder::frontend
