#include "frontend/functions_apart.h"

#include "frontend/interpreter/interpreter.h"

namespace thunder::frontend {

Ref call_user(PyObject* fn, PyObject* args) {
  interpreter::InterpretingAgain scope;
  return Ref::steal(PyObject_CallObject(fn, args));
}

std::vector<const Call*> CallsApart::close() {
  open_ = false;
  return acquisition_.close_scope();
}

// An exception leaves the function that is recorded: what it has computed is no part of the program.
CallsApart::~CallsApart() {
  if (!open_) return;
  close();
  if (before_ && !acquisition_.aliases().restore(*before_) && !acquisition_.eager)
    acquisition_.eager = NeedsEager{"a function under torch.func or torch.vmap writes to what it is given, and raises"};
}

FunctionApart FunctionsApart::record(PyObject* fn, const std::vector<PyObject*>& inputs,
                                     TensorType (*own)(const TensorType&), const char* transform) {
  FunctionApart f;
  for (PyObject* o : inputs) {
    f.given.push_back(tensors_.value_of(o));
    f.given_ids.push_back(tensors_.id_of(o));
  }
  f.before = std::make_unique<AliasTracker::Checkpoint>(aliases_.checkpoint());
  const size_t reads = questions_.reads().size();
  CallsApart apart(acquisition_, *f.before);
  Ref args = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
  for (size_t i = 0; i < inputs.size(); ++i) {
    f.own.push_back(acquisition_.arena()->make_value(own(f.given[i].tensor())));
    bool fresh = false;
    f.own_ids.push_back(aliases_.add_result(f.own.back(), nullptr, &fresh));
    f.proxies.push_back(proxies_.add(f.own_ids.back()));
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(f.proxies.back().get()));
  }
  f.made = call_user(fn, args.get());
  if (!f.made) throw PythonError();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(f.made.get()); ++i)
    f.results.push_back(tensors_.value_of(PyList_GET_ITEM(f.made.get(), i)));
  bool written = false;
  for (size_t i = 0; i < f.own.size(); ++i) written |= !(aliases_.value(f.own_ids[i]) == f.own[i]);
  f.calls = apart.close();
  if (!aliases_.restore(*f.before) || written)
    acquisition_.leave_to_eager(cat(transform, " of a function that writes to what it is given"));
  if (questions_.reads().size() != reads)
    acquisition_.leave_to_eager(cat(transform, " of a function that reads values"));
  return f;
}

}  // namespace thunder::frontend
