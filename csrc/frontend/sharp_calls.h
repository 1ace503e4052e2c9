// Calls of C code whose results or effects are no matter of their arguments: what `sharp_edges` tells of.
//
// Owns the messages about draws, which come at the end: the acquisition shows that some of the draws are parts of a
// call that is no sharp edge.  Calls the fresh objects, the touched states and the draws.  Tells NotKept why a program
// is not kept.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/fresh_objects.h"
#include "frontend/not_kept.h"
#include "frontend/python_draws.h"
#include "frontend/touched_states.h"

namespace thunder::frontend {

/// What to do where code reads or writes what cannot be guarded or done again.
enum class SharpEdges { Allow, Warn, Error };

class SharpCalls {
 public:
  SharpCalls(Acquisition& acquisition, const PythonDraws& draws, SharpEdges edges, NotKept& not_kept,
             FreshObjects& fresh, TouchedStates& states)
      : acquisition_(acquisition),
        python_draws_(draws),
        edges_(edges),
        not_kept_(not_kept),
        fresh_(fresh),
        states_(states) {}

  /// Before a call of a C function or method: false, with an exception set, if it cannot be made.
  bool allow(PyObject* callable, PyObject* self, std::string_view name);
  /// Before any call: false, with an exception set, if the callable sets what cannot be set in a program.
  bool allow_setting(PyObject* callable) const;
  /// A function of NumPy's own (seed()), which writes to the generator that all programs share.
  void will_change_global_generator(PyObject* callable);
  /// Tells of the draws that were not made as a part of a call, and of arrays that were read; PythonError if they are
  /// errors.
  void tell_draws();

 private:
  bool tell(const std::string& message) const;

  Acquisition& acquisition_;
  const PythonDraws& python_draws_;
  SharpEdges edges_;
  NotKept& not_kept_;
  FreshObjects& fresh_;
  TouchedStates& states_;
  std::vector<std::string> draws_;  // messages about draws
};

/// Whether it is a module of Python's or NumPy's generators.
bool of_random(std::string_view module);

}  // namespace thunder::frontend
