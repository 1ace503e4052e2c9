// What interpreted code reads from the environment becomes guards, what it writes to it becomes effects.
//
// Objects are known by their identity.  Those that the code made itself (fresh) are its own business; all others came
// from outside.  A read of an outside object is remembered with the value that it gave, unless the code wrote there
// before.  A write to one really happens, so that the code sees it, and is taken back when acquisition ends; the final
// values are then written again after every run of the compiled program, the first one included.
//
// The class Reads is the observer of an acquisition with all parts of the environment, and hands each event to the part
// that it concerns.  A part calls only parts that are made before it, in this order:
//
//   not kept            why a program is good for this call only
//   object names        what messages call the objects
//   fresh objects       which objects the program made, and which came from outside
//   argument uses       what the program looks at in the objects among its arguments
//   write log           the places that were written to, and taking them back
//   touched states      what C code keeps
//   class reads         look-ups in classes, classes of objects, code of functions
//   container reads     entries, elements, lengths, cells
//   attribute reads     slots, and the attributes of tensors
//   environment writes  which places an instruction or a call changes
//   deep reads          what C code reads of all that it is given
//   counters            numbers that change from call to call
//   plain numbers       traced numbers where C code looks at them
//   sharp calls         calls that can be neither checked nor repeated
//   caching calls       calls that are made again before each run
//   drawing observer    calls that draw random numbers
//   outside calls       all calls of what is not interpreted
#pragma once

#include <string>
#include <vector>

#include "frontend/interpreter/observer.h"
#include "frontend/outside_calls.h"

namespace thunder::frontend {

class Reads final : public interpreter::Observer {
 public:
  /// `tracer`: who records torch calls.
  Reads(Tracer& tracer, SharpEdges edges);
  /// Takes the writes back if finish() did not.
  ~Reads() override;
  Reads(const Reads&) = delete;

  ObjectNames& names() { return names_; }
  Counters& counters() { return counters_; }
  SharpCalls& sharp_calls() { return sharp_calls_; }
  DrawingObserver& draws() { return draws_; }
  const NotKept& not_kept() const { return not_kept_; }
  const ArgumentUses& arguments() const { return arguments_; }

  /// The program is a call of this.
  void begin(PyObject* callable) { deep_.read_callable(callable); }
  /// The program takes these for arguments; `others`: those that are not copied; `values`: any of their value would do.
  void take(const ArgumentCopies& arguments, const std::vector<PyObject*>& others,
            const std::vector<PyObject*>& values);
  /// Looks for the arguments (take()) among all objects that the code read and wrote.  finish() does this itself; the
  /// caller does it for a call that raised.
  void find_arguments_elsewhere();
  /// Guards on what was read, into `environment`; the writes taken back and given as effects.
  std::vector<Effect> finish(EnvironmentGuard& environment);

  bool enter(PyObject* function, PyCodeObject* code, PyObject* locals, PyObject* first) override;
  bool enters() override;
  PyObject* leaves(PyObject* result) override;
  void operands(interpreter::Operands kind, PyObject** first) override { numbers_.operands(kind, first); }
  void made(PyObject* object) override { fresh_.add(object); }
  bool made_inside(PyObject* object) const override { return fresh_.made_inside(object); }
  std::optional<PyObject*> entry(PyObject* container, PyObject* key) override;
  void read_entry(PyObject* dict, PyObject* key, PyObject* value) override { containers_.read_entry(dict, key, value); }
  void read_cell(PyObject* cell, PyObject* value) override { containers_.read_cell(cell, value); }
  std::optional<PyObject*> attribute(PyObject* object, PyObject* name) override;
  void read_attribute(PyObject* object, PyObject* name, PyObject* value) override {
    attributes_.read(object, name, value);
  }
  void read_item(PyObject* object, PyObject* key, PyObject* value) override { containers_.read_item(object, key); }
  void read_membership(PyObject* object, PyObject* key, bool found) override {
    containers_.read_membership(object, key);
  }
  void read_length(PyObject* object) override { containers_.read_length(object); }
  void read_whole(PyObject* object) override { containers_.read_whole(object); }
  void read_compared(PyObject* object) override { deep_.read(object); }
  bool are_same(PyObject* left, PyObject* right) override;
  bool is_plain_subclass(PyObject* object, PyObject* other) override;
  bool write_entry(PyObject* dict, PyObject* key, PyObject* value) override {
    return writes_.write_entry(dict, key, value);
  }
  bool write_cell(PyObject* cell, PyObject* value) override { return writes_.write_cell(cell, value); }
  bool write_attribute(PyObject* object, PyObject* name, PyObject* value) override {
    return writes_.write_attribute(object, name, value);
  }
  bool write_item(PyObject* object, PyObject* key, PyObject* value) override {
    return writes_.write_item(object, key, value);
  }
  size_t writes() const override { return log_.size(); }
  void forget_write(size_t before) override { log_.forget(before); }
  std::optional<PyObject*> call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) override {
    return calls_.call(callable, arguments, n, names);
  }

 private:
  void take_back();

  Tracer& tracer_;
  NotKept not_kept_;
  ObjectNames names_;
  FreshObjects fresh_{not_kept_};
  ArgumentUses arguments_;
  WriteLog log_;
  TouchedStates states_{tracer_, tracer_.draws(), not_kept_, fresh_};
  ClassReads classes_{fresh_, log_};
  ContainerReads containers_{tracer_.draws(), names_, fresh_, arguments_, log_, states_, classes_};
  AttributeReads attributes_{names_, fresh_, arguments_, log_, states_, classes_, containers_};
  EnvironmentWrites writes_{tracer_, tracer_.draws(), fresh_,      arguments_, log_,
                            states_, classes_,        containers_, attributes_};
  DeepReads deep_{fresh_, arguments_, states_, containers_, attributes_, writes_};
  Counters counters_{tracer_.questions(), fresh_, log_, classes_, containers_};
  // A number may be in what the program made, or wrote to.
  PlainNumbers numbers_{tracer_.calls(), [this](PyObject* o) { return fresh_.has(o) || log_.wrote_to(o); }};
  SharpCalls sharp_calls_;
  CachingCalls caching_{fresh_};
  DrawingObserver draws_{tracer_, tracer_.draws(), fresh_, log_, states_};
  OutsideCalls calls_{{.tracer = tracer_,
                       .fresh = fresh_,
                       .uses = arguments_,
                       .log = log_,
                       .states = states_,
                       .classes = classes_,
                       .containers = containers_,
                       .attributes = attributes_,
                       .writes = writes_,
                       .deep = deep_,
                       .counters = counters_,
                       .numbers = numbers_,
                       .sharp = sharp_calls_,
                       .caching = caching_,
                       .drawing = draws_}};
  std::vector<bool> plain_frames_;  // whose results become Python's own numbers
};

}  // namespace thunder::frontend
