// Numbers of the environment that change from call to call: inputs of the program.
//
// Owns nothing: the places are those that calls have shown (jit/learned.h).  Calls the fresh objects, the log of
// writes, the reads, and the questions for values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "frontend/container_reads.h"
#include "frontend/value_questions.h"

namespace thunder::frontend {

/// Places that hold numbers which are known to change: a container and name_of_key().
using CounterPlaces = std::map<std::pair<PyObject*, std::string>, Ref>;

class Counters {
 public:
  Counters(ValueQuestions& questions, FreshObjects& fresh, const WriteLog& log, ClassReads& classes,
           ContainerReads& containers)
      : questions_(questions), fresh_(fresh), log_(log), classes_(classes), containers_(containers) {}

  /// From here on they are symbols where the program reads them.
  void take(const CounterPlaces& places) { places_ = &places; }
  /// What stands for the number in an attribute; null: it is taken as it is.
  PyObject* attribute(PyObject* object, PyObject* name);
  /// The same of an entry of a dict, an element of a list or a cell (then `key` is null).
  PyObject* entry(PyObject* container, PyObject* key);

 private:
  PyObject* read(PyObject* container, PyObject* key, PyObject* now);
  PyObject* attribute_of_class(PyTypeObject* type, PyObject* name);

  ValueQuestions& questions_;
  FreshObjects& fresh_;
  const WriteLog& log_;
  ClassReads& classes_;
  ContainerReads& containers_;
  const CounterPlaces* places_ = nullptr;
};

}  // namespace thunder::frontend
