// What C code may read of the objects that are its arguments: all that is in them.
//
// Owns nothing that outlives a read.  Calls the fresh objects, the uses of arguments, the touched states, the reads of
// containers and attributes, and the writes.
#pragma once

#include <unordered_set>

#include "frontend/attribute_reads.h"
#include "frontend/environment_writes.h"

namespace thunder::frontend {

class DeepReads {
 public:
  DeepReads(FreshObjects& fresh, ArgumentUses& uses, TouchedStates& states, ContainerReads& containers,
            AttributeReads& attributes, EnvironmentWrites& writes)
      : fresh_(fresh),
        uses_(uses),
        states_(states),
        containers_(containers),
        attributes_(attributes),
        writes_(writes) {}

  void read(PyObject* object);
  void read_arguments(PyObject* const* arguments, size_t n);
  /// An object of C code that calls others, which is about to be called.
  void read_callable(PyObject* o);

 private:
  FreshObjects& fresh_;
  ArgumentUses& uses_;
  TouchedStates& states_;
  ContainerReads& containers_;
  AttributeReads& attributes_;
  EnvironmentWrites& writes_;
  std::unordered_set<PyObject*> visited_;  // the containers around the one that is being read
};

}  // namespace thunder::frontend
