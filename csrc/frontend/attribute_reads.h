// What the program read of the attributes of objects.
//
// Most attributes are entries of an object's dict or look-ups in its class, which the reads of containers and of
// classes record.  Owns the records of the others: slots, other attributes of objects of C code, and the tensors whose
// attributes the program looks at or sets.  Calls the names, the fresh objects, the uses of arguments, the log of
// writes, the touched states, and the reads of classes and containers.
#pragma once

#include <vector>

#include "frontend/container_reads.h"

namespace thunder::frontend {

class AttributeReads {
 public:
  AttributeReads(ObjectNames& names, FreshObjects& fresh, ArgumentUses& uses, const WriteLog& log,
                 TouchedStates& states, ClassReads& classes, ContainerReads& containers)
      : names_(names),
        fresh_(fresh),
        uses_(uses),
        log_(log),
        states_(states),
        classes_(classes),
        containers_(containers) {}

  /// object.name gave `value`; null: it raised, or what it gives does not matter.
  void read(PyObject* object, PyObject* name, PyObject* value);
  /// The attribute is to be `value` in later calls.
  void add(PyObject* object, PyObject* name, PyObject* value);
  /// The program looks at the attributes of a captured tensor, or sets some.
  void hold_tensor(PyObject* tensor) { held_.add(tensor); }
  /// Whether there is such a guard on the attribute.
  bool guards(PyObject* object, PyObject* name) const;

  /// Before the places are where tensors lie.
  void watch_tensors(EnvironmentGuard& environment) const;
  void watch_attributes(EnvironmentGuard& environment);
  /// After all places.
  void add_tensors(EnvironmentGuard& environment) const;
  template <class Visit>
  void each_value(Visit&& visit) const {
    for (const AttributeRead& r : attributes_) visit(r.value.get());
  }

 private:
  struct AttributeRead {
    Ref object, name, value;
  };

  void read_of_fresh(PyObject* object, PyObject* name, PyObject* value);
  void read_of_module(PyObject* module, PyObject* name);
  void read_of_class(PyObject* type, PyObject* name);
  void read_of_tensor(PyObject* tensor, PyObject* name, PyObject* value);
  void read_descriptor(PyObject* object, PyObject* name, PyObject* found);
  void read_in_dict(PyObject* object, PyObject* name);

  ObjectNames& names_;
  FreshObjects& fresh_;
  ArgumentUses& uses_;
  const WriteLog& log_;
  TouchedStates& states_;
  ClassReads& classes_;
  ContainerReads& containers_;
  std::vector<AttributeRead> attributes_;
  KeptSet held_;   // captured tensors whose attributes matter
  KeptSet asked_;  // and those that the code asked for something
};

}  // namespace thunder::frontend
