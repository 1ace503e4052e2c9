// What the program looks at in the objects among its arguments, of which it has copies.
//
// A key is made of that alone in later calls (structure.h).  Owns the uses of each class, and which containers the
// program also reaches by another way.  Calls the copies.
#pragma once

#include "frontend/argument_copies.h"

namespace thunder::frontend {

class ArgumentUses {
 public:
  /// The program takes these for arguments, until the end of the acquisition.
  void take(const ArgumentCopies& arguments);
  /// Whether find_elsewhere() has anything to look for.
  bool any() const { return arguments_ && !arguments_->copies().empty(); }

  /// The identity of an object matters if the code also met the object elsewhere, or asked for its hash.
  const ClassUses& uses() const { return uses_; }
  /// The containers among the arguments that the code also met elsewhere.
  const Identities& themselves() const { return themselves_; }

  /// The program reads an attribute.
  void read(PyObject* copy, PyObject* name);
  /// The code tells apart what equals the caller's object and what is it.
  void ask_identity(PyObject* copy);
  void ask_everything(PyObject* copy);
  /// An attribute of an argument tensor: the call's key says what is there, once it is known that the code looks.
  void read_attribute_of_tensor(PyObject* proxy, PyObject* name);
  /// What is left in an argument is written to the caller's tensor.
  void write_attribute_of_tensor(PyObject* proxy, PyObject* name);
  /// An object that the code read or wrote to: an argument is one object there and its copy here.
  void met(PyObject* object);

 private:
  ClassUse* of(PyObject* copy);
  ClassUse& of(PyTypeObject* type);

  const ArgumentCopies* arguments_ = nullptr;
  ClassUses uses_;
  Identities themselves_;
};

}  // namespace thunder::frontend
