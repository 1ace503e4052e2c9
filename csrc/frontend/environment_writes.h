// What the program does to objects of the environment becomes writes.
//
// Says which places an instruction or a call of C code is about to change, for the log of writes.  What is deleted, or
// changed as a whole, is read first: it has to be the same in later calls.  Owns nothing of its own.  Calls the log,
// all reads, the uses of arguments, the touched states and the drawn arrays.  Tells the acquisition why a program is left
// to eager.
#pragma once

#include <vector>

#include "frontend/acquisition.h"
#include "frontend/attribute_reads.h"
#include "frontend/container_reads.h"
#include "frontend/python_draws.h"
#include "frontend/write_log.h"

namespace thunder::frontend {

class EnvironmentWrites {
 public:
  EnvironmentWrites(Acquisition& acquisition, PythonDraws& draws, FreshObjects& fresh, ArgumentUses& uses,
                    WriteLog& log, TouchedStates& states, ClassReads& classes, ContainerReads& containers,
                    AttributeReads& attributes)
      : acquisition_(acquisition),
        draws_(draws),
        fresh_(fresh),
        uses_(uses),
        log_(log),
        states_(states),
        classes_(classes),
        containers_(containers),
        attributes_(attributes) {}

  // Before a write, as the observer says: false with an exception set.  A null `value` deletes.
  bool write_entry(PyObject* dict, PyObject* key, PyObject* value);
  bool write_cell(PyObject* cell, PyObject* value);
  /// `raw`: by object.__setattr__ itself.
  bool write_attribute(PyObject* object, PyObject* name, PyObject* value, bool raw = false);
  bool write_item(PyObject* object, PyObject* key, PyObject* value);

  /// C code is about to change what is in a container.
  void will_change(PyObject* container);
  /// The same where it only appends.
  void will_append(PyObject* list);

  /// After the log was taken back: what the program leaves in the environment.
  std::vector<Effect> finish();

 private:
  bool write_instance(PyObject* object, PyObject* name, PyObject* value, bool raw);
  bool write_named(PyObject* object, PyObject* name, PyObject* value, PyObject* before);
  void will_set_element(PyObject* list, PyObject* index);
  bool guarded(const Effect& e) const;

  Acquisition& acquisition_;
  PythonDraws& draws_;
  FreshObjects& fresh_;
  ArgumentUses& uses_;
  WriteLog& log_;
  TouchedStates& states_;
  ClassReads& classes_;
  ContainerReads& containers_;
  AttributeReads& attributes_;
};

}  // namespace thunder::frontend
