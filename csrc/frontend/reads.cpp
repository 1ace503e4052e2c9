#include "frontend/reads.h"

#include "core/progress.h"
#include "frontend/hooks.h"
#include "python/errors.h"
#include "python/lookup.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

// A parameter is gathered in another dtype than the one that its rows are kept in, which programs see.  Null for any
// other object or name.
PyObject* dtype_of_sharded(PyObject* object, PyObject* name) {
  if (!is_tensor(object) || is_proxy(object) || PyUnicode_CompareWithASCIIString(name, "dtype") != 0) return nullptr;
  const std::optional<Sharded> s = hooks().sharded(object);
  return s ? dtype_to_python(s->full.dtype).release() : nullptr;
}

}  // namespace

Reads::Reads(Tracer& tracer, SharpEdges edges)
    : tracer_(tracer), sharp_calls_(tracer, tracer.draws(), edges, not_kept_, fresh_, states_) {}

// ---- the arguments --------------------------------------------------------------------------------------------------

void Reads::take(const ArgumentCopies& arguments, const std::vector<PyObject*>& others,
                 const std::vector<PyObject*>& values) {
  arguments_.take(arguments);
  for (const Ref& copy : arguments.copies())
    if (!is_proxy(copy.get())) fresh_.add(copy.get());
  for (PyObject* o : others) fresh_.came_from_outside(o);
  for (PyObject* o : values) fresh_.add(o);
}

void Reads::find_arguments_elsewhere() {
  if (!arguments_.any()) return;
  const auto meet = [this](PyObject* value) { arguments_.met(value); };
  containers_.each_value(meet);
  classes_.each_value(meet);
  attributes_.each_value(meet);
  for (const Effect& e : log_.effects()) meet(e.owner.get());
}

// ---- frames ---------------------------------------------------------------------------------------------------------

bool Reads::enter(PyObject* function, PyCodeObject* code, PyObject* locals, PyObject* first) {
  Progress::step("acquiring", [&] { return printable(code->co_qualname); });
  draws_.frame_is_of(function, first);
  // The namespace of a class that is being made.
  if (locals && !(code->co_flags & CO_OPTIMIZED)) fresh_.add(locals);
  calls_.entered(function, code, first);
  if (function && classes_.read_function(function)) {
    if (PyObject* defaults = PyFunction_GET_DEFAULTS(function)) fresh_.came_from_outside(defaults);
    if (PyObject* defaults = PyFunction_GET_KW_DEFAULTS(function)) containers_.read_dict_whole(defaults);
  }
  // A special method that C code looked up in the class of its first argument.
  if (function && first && printable(code->co_name).starts_with("__")) {
    PyObject* found = class_attribute(Py_TYPE(first), code->co_name);
    if (found == function) classes_.read_type(first), classes_.read(Py_TYPE(first), code->co_name, found);
  }
  return true;
}

bool Reads::enters() {
  plain_frames_.push_back(numbers_.enter());
  draws_.frame_begins();
  return true;
}

PyObject* Reads::leaves(PyObject* result) {
  draws_.frame_ends(result);
  const bool plain = plain_frames_.back();
  plain_frames_.pop_back();
  return plain ? numbers_.leave(result) : result;
}

// ---- what the observer gives itself ---------------------------------------------------------------------------------

std::optional<PyObject*> Reads::entry(PyObject* container, PyObject* key) {
  if (PyObject* compiled = tracer_.whether_compiled(container, key)) return compiled;
  PyObject* counter = counters_.entry(container, key);
  return counter ? std::optional<PyObject*>(counter) : std::nullopt;
}

std::optional<PyObject*> Reads::attribute(PyObject* object, PyObject* name) {
  if (std::optional<PyObject*> of_number = numbers_.attribute(object, name)) return of_number;
  if (PyObject* counter = counters_.attribute(object, name)) return counter;
  if (PyObject* dtype = dtype_of_sharded(object, name)) return dtype;
  if (PyModule_Check(object))
    if (PyObject* compiled = tracer_.whether_compiled(PyModule_GetDict(object), name)) return compiled;
  if (!tracer_.calls().language()) return std::nullopt;
  interpreter::NotInterpreting scope;
  PyObject* value = tracer_.calls().attribute(object, name);
  if (!value && !PyErr_Occurred()) return std::nullopt;
  return value;
}

bool Reads::are_same(PyObject* left, PyObject* right) {
  if (!is_tensor(left) || !is_tensor(right) || is_proxy(left) == is_proxy(right)) return false;
  return is_proxy(left) ? tracer_.tensors().is_same(left, right) : tracer_.tensors().is_same(right, left);
}

bool Reads::is_plain_subclass(PyObject* object, PyObject* other) {
  return is_proxy(object) && is_tensor(other) && !is_proxy(other);
}

// ---- the end --------------------------------------------------------------------------------------------------------

void Reads::take_back() {
  log_.sort_new_entries();
  states_.put_back();
  log_.take_back();
}

std::vector<Effect> Reads::finish(EnvironmentGuard& environment) {
  take_back();
  find_arguments_elsewhere();
  attributes_.watch_tensors(environment);
  containers_.watch(environment);
  classes_.watch_types(environment);
  caching_.watch(environment);
  classes_.watch_classes(environment);
  classes_.watch_own_entries(environment);
  attributes_.watch_attributes(environment);
  classes_.watch_functions(environment);
  attributes_.add_tensors(environment);
  states_.watch_weak(environment);
  std::vector<Effect> effects = writes_.finish();
  states_.finish(environment, effects);
  return effects;
}

Reads::~Reads() {
  if (log_.size() == 0 && !states_.any()) return;
  const KeepError pending;
  take_back();
}

}  // namespace thunder::frontend
