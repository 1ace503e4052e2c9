// What Reads finds out about calls that draw random numbers, and about the arrays that they gave (python_draws.h).
#include <algorithm>

#include "frontend/hooks.h"
#include "frontend/reads.h"

namespace thunder::frontend {

DrawingFrames::Done Reads::done() const { return {effects_.size(), read_written_, tracer_.builder().calls().size()}; }

bool Reads::enters() {
  plain_frames_.push_back(numbers_.enter());
  frames_.begins(done());
  return true;
}

PyObject* Reads::leaves(PyObject* result) {
  frames_.ends(done(), result && is_drawable(result));
  const bool plain = plain_frames_.back();
  plain_frames_.pop_back();
  return plain ? numbers_.leave(result) : result;
}

bool Reads::is_drawable(PyObject* result) const {
  return frontend::is_drawable(result, [this](PyObject* o) { return fresh(o); });
}

// A call that draws and is made as a whole, or from_numpy() of what such a call gave; null, without an exception: neither.
PyObject* Reads::call_drawing(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
  static PyObject* from_numpy = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("torch")).get(), "from_numpy");
  PythonDraws& draws = tracer_.draws();
  if (callable == from_numpy && n == 1) return draws.tensor_of(arguments[0], true).release();
  Ref result;
  try {
    const auto touched = [this](PyObject* o) {
      return std::any_of(states_.begin(), states_.end(), [o](const State& s) { return s.of.owner.get() == o; });
    };
    result = draws.call(
        callable, arguments, n, names, [this](PyObject* o) { return is_settled(o); }, touched);
  } catch (...) {
    interpreter::NotInterpreting scope;
    hooks().set_python_error();
    return nullptr;
  }
  if (result && state_kind(result.get()) == StateOf::Memory) made(result.get());
  return result.release();
}

// Code looks at an object: the numbers of an array of random numbers are others in every call.
void Reads::see_drawn(PyObject* object) {
  if (!takes_arrays_) tracer_.draws().open(object);
}

void Reads::tell_draws() {
  if (const auto& place = tracer_.draws().opened()) {
    const std::string does = "reads an array of random numbers, for each of which the function is compiled";
    keep_not(does, *place);
    if (edges_ != SharpEdges::Allow) draws_.push_back("[sharp_edges] the function " + does + "\n  at " + place->str());
  }
  for (const std::string& message : draws_)
    if (!tell(message)) throw PythonError();
}

}  // namespace thunder::frontend
