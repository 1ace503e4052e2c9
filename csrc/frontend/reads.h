// What interpreted code reads from the environment becomes guards, what it writes to it becomes effects.
//
// Objects are known by their identity.  Those that the code made itself (fresh) are its own business; all others came
// from outside.  A read of an outside object is remembered with the value that it gave, unless the code wrote there
// before.  A write to one really happens, so that the code sees it, and is taken back when acquisition ends; the final
// values are then written again after every run of the compiled program, the first one included.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/argument_copies.h"
#include "frontend/effect.h"
#include "frontend/environment.h"
#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/interpreter/observer.h"
#include "frontend/plain_numbers.h"
#include "frontend/tracer.h"

namespace thunder::frontend {

/// What looks after an attribute for a class of C code, or a slot.
bool is_c_descriptor(PyObject* o);
/// A list, dict, set or deque: what has elements and no attributes that matter.
bool is_container(PyObject* object);

/// What to do where code reads or writes what cannot be guarded or done again.
enum class SharpEdges { Allow, Warn, Error };

class Reads final : public interpreter::Observer {
 public:
  /// `tracer`: who records torch calls.
  Reads(Tracer& tracer, SharpEdges edges) : tracer_(tracer), edges_(edges) {}
  /// Takes the writes back if finish() did not.
  ~Reads() override;
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  /// Guards on what was read, into `environment`; the writes taken back and given as effects.
  std::vector<Effect> finish(EnvironmentGuard& environment);
  /// What messages call an object that the code begins with.
  void name_root(PyObject* object, std::string name);
  bool made_inside(PyObject* object) const override;
  /// What the code did once and for all, so that its program is good for this call only; empty: nothing.
  const std::string& once() const { return once_; }
  /// Why the program is good for this call only, though it may be acquired for it once more; empty: it is not.
  const std::string& not_kept() const { return not_kept_; }
  /// Places that hold numbers which are known to change: a container and name_of_key().
  using Counters = std::map<std::pair<PyObject*, std::string>, Ref>;
  /// From here on they are symbols where the program reads them.
  void take_counters(const Counters& counters) { counters_ = &counters; }
  /// The program is a call of this.
  void begin(PyObject* callable) { read_callable(callable); }
  /// The program takes these for arguments; `others`: those that are not copied; `values`: any of their value would do.
  void take(const ArgumentCopies& arguments, const std::vector<PyObject*>& others,
            const std::vector<PyObject*>& values);
  /// The calls that draw random numbers and can be made as a whole.
  const DrawingCalls& drawing_calls() { return frames_.found(); }
  /// Tells of the draws that were not made as a part of such a call, and of arrays that were read; PythonError if they
  /// are errors.
  void tell_draws();
  /// Looks for the arguments (take()) among all objects that the code read and wrote.  finish() does this itself; the
  /// caller does it for a call that raised.
  void find_arguments_elsewhere();
  /// What the code looked at in the objects among the arguments.  The identity of an object matters if the code also
  /// met the object elsewhere, or asked for its hash.
  const ClassUses& uses() const { return uses_; }
  /// The containers among the arguments that the code also met elsewhere.
  const Identities& themselves() const { return themselves_; }

  bool enter(PyObject* function, PyCodeObject* code, PyObject* locals, PyObject* first) override;
  bool enters() override;
  PyObject* leaves(PyObject* result) override;
  void operands(interpreter::Operands kind, PyObject** first) override { numbers_.operands(kind, first); }
  void made(PyObject* object) override;
  std::optional<PyObject*> entry(PyObject* container, PyObject* key) override;
  void read_entry(PyObject* dict, PyObject* key, PyObject* value) override;
  void read_cell(PyObject* cell, PyObject* value) override;
  std::optional<PyObject*> attribute(PyObject* object, PyObject* name) override;
  void read_attribute(PyObject* object, PyObject* name, PyObject* value) override;
  void read_item(PyObject* object, PyObject* key, PyObject* value) override;
  void read_membership(PyObject* object, PyObject* key, bool found) override;
  void read_length(PyObject* object) override;
  void read_whole(PyObject* object) override;
  void read_compared(PyObject* object) override;
  bool are_same(PyObject* left, PyObject* right) override;
  bool is_plain_subclass(PyObject* object, PyObject* other) override;
  bool write_entry(PyObject* dict, PyObject* key, PyObject* value) override;
  bool write_cell(PyObject* cell, PyObject* value) override;
  bool write_attribute(PyObject* object, PyObject* name, PyObject* value) override;
  bool write_item(PyObject* object, PyObject* key, PyObject* value) override;
  size_t writes() const override { return effects_.size(); }
  void forget_write(size_t before) override;
  std::optional<PyObject*> call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) override;

 private:
  struct DictReads {
    Ref dict;
    Ref entries;                             // a dict: key -> value, or absent() where there was none
    std::vector<interpreter::Place> places;  // of the entries
    Py_ssize_t size = -1;                    // asked for
    bool order = false;
  };
  struct ContainerReads {
    Ref object, elements;
    Py_ssize_t length;  // -1: was not asked for
    interpreter::Place place;
    std::map<Py_ssize_t, Ref> items = {};  // those that were read one by one
  };
  struct ClassReads {
    PyTypeObject* type;
    Ref found;  // a dict: name -> what the lookup gave, or absent()
  };
  struct AttributeRead {
    Ref object, name, value;
  };
  struct CellRead {
    Ref cell, value;
    std::string name;
    interpreter::Place place;
  };

  const Counters* counters_ = nullptr;

  bool fresh(PyObject* o) const { return fresh_.count(o) != 0; }
  DictReads& reads_of(PyObject* dict);
  void add_entry(PyObject* dict, PyObject* key, PyObject* value);
  ContainerReads& container_reads(PyObject* container);
  void read_element(PyObject* list, PyObject* index);
  Ref as_it_was(PyObject* container);
  void read_class(PyTypeObject* type, PyObject* name, PyObject* found);
  void read_type(PyObject* object);
  void read_descriptor(PyObject* object, PyObject* name, PyObject* found);
  void read_attribute_of_tensor(PyObject* proxy, PyObject* name);
  void write_attribute_of_tensor(PyObject* proxy, PyObject* name);
  void read_super(PyObject* super, PyObject* name);
  void read_callable(PyObject* callable);
  void watch(EnvironmentGuard& environment, const ContainerReads& r);
  void read_dict_whole(PyObject* dict);
  void read_deep(PyObject* object);
  void name_value(PyObject* owner, PyObject* key, PyObject* value, bool attribute);
  const std::string& name_of(PyObject* o);
  void name_instance_dict(PyObject* object, PyObject* dict);
  void keep(PyObject* o) { kept_.push_back(Ref::borrow(o)); }

  PyObject* read_counter(PyObject* container, PyObject* key, PyObject* now);
  PyObject* read_counter(PyObject* object, PyObject* name);
  PyObject* read_counter_of_class(PyTypeObject* type, PyObject* name);
  bool written(PyObject* owner, PyObject* key) const;
  bool attribute_written(PyObject* owner, PyObject* name) const;
  bool class_written(PyTypeObject* type, PyObject* name) const;
  void will_write(Effect::Kind kind, PyObject* owner, PyObject* key, PyObject* before);
  void will_change(PyObject* container);
  void will_append(PyObject* list);
  void will_set_element(PyObject* list, PyObject* index);
  void will_delete(PyObject* dict, PyObject* key);
  void restore_orders();
  bool guarded(const Effect& effect) const;
  void sort_new_entries();
  void take_back();

  ClassUse* use_of(PyObject* copy);
  ClassUse& use_of(PyTypeObject* type);
  void came_from_outside(PyObject* value);
  void will_advance(PyObject* iterator);
  void ask_identity(PyObject* object);
  void ask_everything(PyObject* object);
  void met(PyObject* value);

  // outside_calls.cpp
  struct Method;
  // states.cpp
  struct State {
    StateOf of;
    Ref before, after{};  // `after`: null where it is what it was
    interpreter::Place place;
    std::vector<Ref> tokens{};  // of a context variable without a value
  };
  bool shows_fresh_memory(PyObject* object) const;
  void take_memory(PyObject* object);
  void touch(StateOf of);
  void touch(PyObject* object);
  void see_drawn(PyObject* object);
  void change_global_generator(PyObject* callable);
  bool touch_attribute(PyObject* object, PyObject* name);
  void touch_call(PyObject* callable, PyObject* self, PyObject* const* arguments, size_t n);
  void called(PyObject* callable, PyObject* self, PyObject* result);
  static void put_back(State& state);
  void keep_not(std::string why);
  void keep_not(std::string why, const interpreter::Place& place);
  void finish_weak(EnvironmentGuard& environment);
  bool allow_setting(PyObject* callable) const;
  /// Whether a setting of PyTorch's is, or was, changed.
  bool sets() const;
  void finish_states(EnvironmentGuard& environment, std::vector<Effect>& out);
  void refuse_written_memory(const State& state);

  bool tell(const std::string& message) const;
  bool allow_call(PyObject* callable, PyObject* self, std::string_view name);
  /// Ends the acquisition; false, with the error set.
  bool leave_to_eager(const std::string& does);
  void read_arguments(PyObject* const* arguments, size_t n);
  PyObject* call_and_compare(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  bool read_getter(PyObject* callable, PyObject* const* arguments, size_t n);
  void take_result(PyObject* result);
  std::optional<PyObject*> call_torch(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  std::optional<PyObject*> call_unbound(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  bool is_settled(PyObject* object) const;
  DrawingFrames::Done done() const;
  bool is_drawable(PyObject* result) const;
  PyObject* call_drawing(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  bool may_hold_numbers(PyObject* object) const;
  PyObject* call_caching(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  PyObject* call_class(PyObject* type, PyObject* const* arguments, size_t n, PyObject* names);
  std::optional<PyObject*> call_unrecorded(PyObject* callable, const std::optional<Method>& method,
                                           PyObject* const* arguments, size_t n, PyObject* names);
  PyObject* call_builtin(const Method& m, PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  static std::optional<Method> method_of(PyObject* callable, PyObject* const* arguments, size_t n);
  static std::optional<Method> method_of_extension(PyObject* bound, PyObject* const* arguments, size_t n);
  PyObject* call_method(const Method& m, PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  std::optional<bool> before_entry_method(const Method& m);
  bool before_container_method(const Method& m);
  bool before_object_method(const Method& m);

  Tracer& tracer_;
  PlainNumbers numbers_{tracer_.calls(), [this](PyObject* o) { return may_hold_numbers(o); }};
  SharpEdges edges_;
  DrawingFrames frames_;
  std::vector<bool> plain_frames_;  // whose results become Python's own numbers
  std::unordered_set<PyObject*> fresh_;
  std::vector<Ref> kept_;  // addresses stay what they are: everything in fresh_, and the owners of reads
  std::unordered_map<PyObject*, size_t> dict_index_, class_index_;
  // Deques: what is read while an entry is being filled in, by a key's __eq__, does not move it.
  std::deque<DictReads> dicts_;
  std::vector<ClassReads> classes_;
  std::unordered_map<PyObject*, size_t> container_index_;
  std::deque<ContainerReads> containers_;
  std::vector<AttributeRead> attributes_;
  std::unordered_map<PyObject*, size_t> cell_index_;
  std::vector<CellRead> cells_;
  std::unordered_set<PyObject*> functions_, types_, visited_;
  std::unordered_set<PyObject*> attributed_;                // captured tensors whose attributes matter
  std::unordered_set<PyObject*> asked_;                     // and those that the code asked for something
  std::unordered_map<PyObject*, std::vector<Ref>> orders_;  // the keys of dicts before any was deleted
  std::vector<EnvironmentGuard::Answer> answers_;
  std::unordered_map<PyObject*, std::string> names_;  // of outside objects, for messages
  std::unordered_set<PyObject*> instance_dicts_;
  std::vector<PyObject*> constructing_;  // classes that are being called
  const ArgumentCopies* arguments_ = nullptr;
  ClassUses uses_;
  Identities themselves_;
  std::unordered_set<PyObject*> iterators_;  // that came from outside
  std::string once_, not_kept_;
  std::vector<State> states_;
  std::vector<Ref> taken_memory_;                  // of arrays of which the program has a tensor
  const bool gradients_ = hooks().grad_enabled();  ///< were recorded when acquisition began
  struct Weak {
    Ref reference;
    interpreter::Place place;
  };
  std::vector<Weak> weak_;     // references to tensors that were called
  bool takes_arrays_ = false;  // the function that is called: a tensor of one is an input of the program
  bool raw_write_ = false;     // object.__setattr__ itself
  std::vector<Effect> effects_;
  std::vector<std::string> draws_;   // messages about draws, as sharp edges
  mutable size_t read_written_ = 0;  // how often a place that the program wrote to was asked for
  std::unordered_map<PyObject*, std::vector<size_t>> effects_of_, attributes_of_;  // the latter: Effect::Attribute
};

/// Where a C function comes from: its module, or the class of what it is a method of.
std::string origin(PyObject* callable, PyObject* self);
/// Whether it is a module of Python's or NumPy's generators.
bool of_random(std::string_view module);
bool one_of(std::string_view name, const std::initializer_list<std::string_view>& names);

/// The `dtype` that programs see of a parameter which is gathered in another one than its rows have; null for any other
/// object or name.
PyObject* dtype_of_sharded(PyObject* object, PyObject* name);

}  // namespace thunder::frontend
