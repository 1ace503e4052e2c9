#include "frontend/drawing_observer.h"

#include "frontend/hooks.h"

namespace thunder::frontend {

DrawingFrames::Done DrawingObserver::done() const {
  return {log_.size(), log_.read_written(), acquisition_.builder().calls().size()};
}

bool DrawingObserver::gives(PyObject* result) const {
  return result && is_drawable(result, [this](PyObject* o) { return fresh_.has(o); });
}

void DrawingObserver::frame_is_of(PyObject* function, PyObject* first) {
  frames_.is_of(function, first, function && !fresh_.has(function) && !(first && fresh_.has(first)));
}

void DrawingObserver::called(PyObject* self, const std::string& method, PyObject* result) {
  if (self && is_random(self)) frames_.drew(self, method, fresh_.has(self), gives(result));
}

PyObject* DrawingObserver::call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
  static PyObject* from_numpy = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("torch")).get(), "from_numpy");
  if (callable == from_numpy && n == 1) return draws_.tensor_of(arguments[0], true).release();
  Ref result;
  try {
    result = draws_.call(
        callable, arguments, n, names, [this](PyObject* o) { return fresh_.is_settled(o); },
        [this](PyObject* o) { return states_.touched(o); });
  } catch (...) {
    interpreter::NotInterpreting scope;
    hooks().set_python_error();
    return nullptr;
  }
  if (result && state_kind(result.get()) == StateOf::Memory) fresh_.add(result.get());
  return result.release();
}

}  // namespace thunder::frontend
