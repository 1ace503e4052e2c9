// What C code keeps (outside_state.h), as far as the program reads or changes it.
//
// A state is taken when the program first touches it, and compared when acquisition ends.  Owns those states, and the
// weak references to tensors that the program called.  Calls the fresh objects and the drawn arrays.  Tells NotKept why
// a program is not kept, and the acquisition why it is left to eager.
#pragma once

#include <string>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/effect.h"
#include "frontend/environment.h"
#include "frontend/fresh_objects.h"
#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/not_kept.h"
#include "frontend/outside_state.h"
#include "frontend/python_draws.h"

namespace thunder::frontend {

class TouchedStates {
 public:
  TouchedStates(Acquisition& acquisition, PythonDraws& draws, NotKept& not_kept, FreshObjects& fresh)
      : acquisition_(acquisition), draws_(draws), not_kept_(not_kept), fresh_(fresh) {}

  /// The state is about to be read or changed.
  void touch(StateOf of);
  /// The same of the state that an object has, if it has one.
  void touch(PyObject* object);
  /// Whether the attribute belongs to what C code keeps, which is touched then.
  bool touch_attribute(PyObject* object, PyObject* name);
  /// Before a call of C code.
  void will_call(PyObject* callable, PyObject* self, PyObject* const* arguments, size_t n);
  /// After it.
  void called(PyObject* callable, PyObject* self, PyObject* result);
  /// Code looks at an object: the numbers of an array of random numbers are others in every call.
  void see_drawn(PyObject* object);

  /// While `takes`, the function that is called makes inputs of the program of the arrays that it is given.
  void take_arrays(bool takes) { takes_arrays_ = takes; }
  /// The program makes a tensor of the object's memory.
  void take_memory(PyObject* object);

  bool any() const { return !states_.empty(); }
  /// Whether a state of the object was touched.
  bool touched(PyObject* owner) const;
  /// Whether a setting of PyTorch's is, or was, changed.
  bool sets() const;

  /// The states as they were.
  void put_back();
  /// After all other guards: the tensors have been found by then.
  void watch_weak(EnvironmentGuard& environment);
  /// After put_back(): guards on what did not change, effects of what did.
  void finish(EnvironmentGuard& environment, std::vector<Effect>& out);

 private:
  struct State {
    StateOf of;
    Ref before, after{};  // `after`: null where it is what it was
    interpreter::Place place;
    std::vector<Ref> tokens{};  // of a context variable without a value
  };
  struct Weak {
    Ref reference;
    interpreter::Place place;
  };

  bool shows_fresh_memory(PyObject* object) const;
  void refuse_written_memory(const State& state);
  static void put_back(State& state);

  Acquisition& acquisition_;
  PythonDraws& draws_;
  NotKept& not_kept_;
  FreshObjects& fresh_;
  std::vector<State> states_;
  std::vector<Ref> taken_memory_;                  // of arrays of which the program has a tensor
  const bool gradients_ = hooks().grad_enabled();  // were recorded when acquisition began
  std::vector<Weak> weak_;                         // references to tensors that were called
  bool takes_arrays_ = false;
};

}  // namespace thunder::frontend
