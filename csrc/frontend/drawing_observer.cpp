#include "frontend/drawing_observer.h"

#include "frontend/hooks.h"

namespace thunder::frontend {

DrawingFrames::Done DrawingObserver::done() const {
  return {log_.size(), log_.read_written(), acquisition_.builder().calls().size()};
}

DrawingFrames::Result DrawingObserver::kind_of(PyObject* result) const {
  const bool drawable = result && is_drawable(result, [this](PyObject* o) { return fresh_.has(o); });
  return drawable ? DrawingFrames::Result::Input : DrawingFrames::Result::Other;
}

void DrawingObserver::frame_is_of(PyObject* function, PyObject* first) {
  const bool made = function && (fresh_.has(function) || (first && fresh_.has(first)));
  frames_.is_of(made ? nullptr : function, first);
}

void DrawingObserver::called(PyObject* self, const std::string& method, PyObject* result) {
  if (!self || !is_random(self)) return;
  const auto whose = fresh_.has(self) ? DrawingFrames::Generator::Own : DrawingFrames::Generator::Outside;
  frames_.drew(self, whose, method, kind_of(result));
}

PyObject* DrawingObserver::call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
  static PyObject* from_numpy = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("torch")).get(), "from_numpy");
  if (callable == from_numpy && n == 1) return draws_.tensor_of(arguments[0], PythonDraws::Memory::One).release();
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
