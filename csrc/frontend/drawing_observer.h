// Which calls of an acquisition draw random numbers by Python's or NumPy's generators (python_draws.h).
//
// Owns the frames of the acquisition.  Calls the fresh objects, the log of writes and the touched states, which show
// what else a call does, and the draws.
#pragma once

#include <string>

#include "frontend/acquisition.h"
#include "frontend/fresh_objects.h"
#include "frontend/python_draws.h"
#include "frontend/touched_states.h"
#include "frontend/write_log.h"

namespace thunder::frontend {

class DrawingObserver {
 public:
  DrawingObserver(Acquisition& acquisition, PythonDraws& draws, FreshObjects& fresh, const WriteLog& log,
                  const TouchedStates& states)
      : acquisition_(acquisition), draws_(draws), fresh_(fresh), log_(log), states_(states) {}

  /// The calls that draw and can be made as a whole.
  const DrawingCalls& found() { return frames_.found(); }

  /// A function of Python's is about to be called.
  void will_call(PyObject* function) { frames_.will_call(function); }
  void frame_begins() { frames_.begins(done()); }
  /// The innermost frame is of this function.  `first`: its first argument, or null.
  void frame_is_of(PyObject* function, PyObject* first);
  void frame_ends(PyObject* result) { frames_.ends(done(), kind_of(result)); }
  /// A method of C code was called on an object.
  void called(PyObject* self, const std::string& method, PyObject* result);
  /// A call that draws and is made as a whole, or from_numpy() of what such a call gave; null, without an exception:
  /// neither.
  PyObject* call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);

 private:
  DrawingFrames::Done done() const;
  DrawingFrames::Result kind_of(PyObject* result) const;

  Acquisition& acquisition_;
  PythonDraws& draws_;
  FreshObjects& fresh_;
  const WriteLog& log_;
  const TouchedStates& states_;
  DrawingFrames frames_;
};

}  // namespace thunder::frontend
