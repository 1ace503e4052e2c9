// Tracing: the program runs on proxies, and every torch call that it makes is recorded.
//
// Tensor arguments become proxies, wrapper subclasses of torch.Tensor with the right metadata and no data.  A torch
// function mode sends every torch call here.  Real tensors that the program meets on its way (parameters, buffers,
// tensors of closures) are captured as further inputs.  In-place operators become functional ones whose result is
// written through the AliasTracker.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/builder.h"
#include "frontend/alias.h"
#include "frontend/equal_values.h"
#include "frontend/hooks.h"
#include "frontend/interpreter/observer.h"
#include "frontend/language.h"
#include "frontend/number_places.h"
#include "frontend/value_reads.h"
#include "passes/replay.h"
#include "passes/visit.h"

namespace thunder {
class Error;
struct PartialGradients;
struct RecordedGradient;
}  // namespace thunder

namespace thunder {
class Batching;
}

namespace thunder::frontend {

/// Where an input of the computation comes from.
struct InputSource {
  enum Kind { Argument, Captured, Number, Read, Entry } kind = Argument;
  size_t argument = 0;         ///< index among the call's tensor arguments
  Ref tensor;                  ///< the captured tensor; what a value that reads computed is in this call
  bool whole_storage = false;  ///< not the tensor but its memory, as a 1-d tensor: several inputs share it
  NumberPtr number = nullptr;  ///< what a number is computed from
  bool integer = false;        ///< the number is an int
  Value value = {};            ///< that reads computed
  NumberPlace place = {};      ///< of an Entry, a number of the world
  bool partial = false;        ///< the program sees the whole of what this process holds a part of
  bool leaf = false;           ///< the program is for a tensor that was not computed from others
  bool becomes_leaf = false;   ///< of an Argument that requires no gradient: the program switches it on
  /// Of a captured tensor that lies in a DTensor's memory: the DTensor, and a function that makes its gradient of the
  /// tensor's.
  Ref dtensor = {}, wrap = {};
};

struct Acquired {
  Trace computation;
  std::vector<InputSource> sources;  ///< one per input of the computation
  /// Runs after the computation, with autograd on: writes to inputs, and outputs that view inputs or each other.
  /// Inputs: those of the computation, then its outputs.  Its output is a flat tuple of the user's tensors.
  Trace epilogue;
  bool trivial_epilogue = false;  ///< the user's tensors are the computation's outputs, in order
  /// Arguments that the program also met outside of them, and what it asked whether an argument is: the same tensors, or
  /// others, in its calls.
  std::vector<Ref> arguments_outside;
  std::vector<ValueRead> reads;  ///< what the program asked of its tensors' values, in order
  /// The inputs of the program that the reads begin with.
  std::vector<std::pair<Value, InputSource>> read_inputs;
  /// Of each tensor that keeps its gradient, which output of the computation it is; -1: nobody has it.
  std::vector<int64_t> retained;
};

/// Whether the object is a DTensor to programs, or a container with one in it.
bool holds_dtensor(PyObject* o);

class Tracer {
 public:
  /// `shared`: memory (as Hooks::storage_of names it) that several inputs share and the program writes to.
  /// `begin`: arguments that begin to require a gradient where the program says so.
  explicit Tracer(std::vector<const void*> shared = {}, std::unordered_set<size_t> begin = {});
  /// Memory that the program wrote to though several inputs share it: tracing has to start again with it in `shared`.
  const void* shared_memory_written() const { return shared_memory_written_; }
  /// An argument that is to begin to require a gradient: tracing has to start again with it in `begin`.
  std::optional<size_t> begins_to_require_grad() const { return new_beginner_; }
  /// Records into another's builder: a rule in Python that takes part in a pass.  Calls keep the builder's location.
  /// `metadata_only`: nothing of what is recorded will run (metas, checkers), so that tensors may come from nowhere.
  explicit Tracer(Builder& borrowed, bool metadata_only = false);
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// A proxy for a value of the borrowed builder; a traced number for a number.
  Ref add_value(Value v);
  /// Metadata only: a tensor of this type.
  Ref new_tensor(TensorType t);
  /// The argument that a Python object stands for.
  Arg convert(PyObject* o);
  /// Whether a tensor given by add_value() was written to.
  bool wrote_to_values() const;
  /// Records a call that the program makes by an operator's own name (thunder.torch.gelu) and not through PyTorch.
  Ref call_symbol(const std::string& op, PyObject* args, PyObject* kwargs);

  /// A proxy for the i-th tensor argument; the same tensor passed twice gets the same proxy.
  /// `type`: with symbolic sizes; null: the tensor's own.
  Ref add_argument(PyObject* tensor, size_t index, const TensorType* type = nullptr);
  /// A symbol for an int of the call, 2 or more: a size, a stride, an argument.  `may_be_one`: a size of 1 or more
  /// (ShapeEnv::make_size).
  Dim add_size(int64_t hint, bool may_be_one = false);
  /// A traced number for a float argument of the call; they count from 0.
  /// `of`: its class, where that is not float.
  Ref add_float(double hint, PyObject* of = nullptr);
  /// Arithmetic and comparisons of traced numbers.  None where an operand is no number, or where Python has to compute
  /// with the numbers themselves; an error that says what to do instead for numbers that only the run knows.
  Ref number_operation(const std::string& op, PyObject* a, PyObject* b);
  /// A function of one number (NumberExpr::function()); `digits`: of round().  None where Python has to compute it.
  Ref number_function(const std::string& name, PyObject* number, int64_t digits);
  /// The number itself, on which the program then depends; None for one that only the run knows.
  Ref specialize(PyObject* number);
  /// What float(o) or int(o) is, of a tensor or a traced number, where it can stay a traced number; null where not.
  Ref to_number(PyObject* type, PyObject* o);
  /// The tensor's value in this call, on which the program then depends: later calls run it only for the same one.
  Ref read(PyObject* tensor, const std::string& what);
  /// The program depends on what the tensor's strides are.
  void keep_layout(const TensorType& t);
  /// The program asks for the strides of that tensor.
  void keep_strides(const TensorType& t);
  /// Tells whether an int that is read at a place ("model.py:7 in forward #0") is known to differ from call to call;
  /// null: numbers that are read stay what they are.
  std::function<bool(const std::string& place, int64_t now)> int_varies;
  /// Whether reads may draw random numbers ahead of the program, which takes them as inputs then.
  bool draws_ahead = false;
  /// What torch.compiler.is_compiling() says to the program.
  bool seems_compiled = true;
  bool asked_whether_compiled = false;
  /// A number of the world that changes, an int of 2 at least or a float: each call reads it from its place.
  Ref read_counter(PyObject* container, PyObject* key, PyObject* now);
  /// Why no program can stand for the function, or why none may where it cannot be acquired (a sharded module gathers its
  /// parameters when it is called); empty: one can.  `tensor`: the one from outside that is the reason.
  struct Eager {
    std::string why;
    Ref tensor;
    bool warns = false;  ///< the user is told
  } eager, eager_if_it_fails;
  /// Ends this acquisition: the function itself has to run.
  [[noreturn]] void leave_to_eager(std::string why, PyObject* tensor = nullptr, bool warns = false);
  /// Leaves the generators as they are behind what reads have drawn, which else is undone in the end.
  void keep_drawn() { drawn_.clear(); }
  const std::vector<ValueRead>& value_reads() const { return value_reads_; }
  /// What the reads computed becomes inputs of the computation, which does not compute it again.
  void take_from_reads(Acquired& a) const;
  /// What len() gives; null where it raises.
  Ref length(PyObject* tensor);
  /// Whether a tensor has a memory format: "contiguous_format", "channels_last", "channels_last_3d".
  bool has_layout(PyObject* tensor, const std::string& format);
  /// Error (Runtime) where autograd forbids any write to it.
  void check_writable(PyObject* tensor, const char* op);
  bool requires_grad(PyObject* tensor) { return aliases_.requires_grad(id_of(tensor)); }
  bool is_conj(PyObject* tensor) { return aliases_.is_conj(id_of(tensor)); }
  /// Makes a tensor that the program can reach (a parameter, a buffer) an input; unused ones are dropped at the end.
  void add_captured(PyObject* tensor);
  /// The program's tensor for what this process holds of a DTensor: `local`, in its memory, whose gradient `wrap` makes
  /// the DTensor's; for a parameter of a communication plan what the plan gathers.
  Ref add_part(PyObject* dtensor, PyObject* local, PyObject* wrap);
  /// Numbers that change when the tensors are written to.
  std::vector<size_t> values(const std::vector<PyObject*>& tensors);
  size_t calls_made() const { return b_.calls().size(); }
  /// What is recorded until end_trial() is no part of the program: calls on wholes, of which others are made on parts.
  void begin_trial() { b_.open_scope(); }
  /// Whether the calls are the same ones as those behind the first `since`.
  bool end_trial(size_t since);
  /// A tensor of the trial: the whole, with these sizes, of which a tensor is a part.
  Ref whole_of(PyObject* part, PyObject* sizes);
  /// Given tensors that are parts, by the dimensions along which they are: the dimension of each result of the calls
  /// behind the first `since`; nothing for one that all processes have.  Error (NotImplemented) as distributed::Parts.
  std::vector<std::optional<int64_t>> parts(size_t since, const std::vector<std::pair<PyObject*, int64_t>>& given,
                                            const std::vector<PyObject*>& results);

  /// Calls the user's function, interpreted, with `observer` told what it reads; null: Python runs it.
  Ref run(PyObject* fn, PyObject* args, PyObject* kwargs);
  void set_observer(interpreter::Observer* observer) { observer_ = observer; }
  /// A container that stands for no object of the caller's: what the function does to it ends with the function.
  void made(PyObject* container) {
    if (observer_) observer_->made(container);
  }
  /// Whether the function made the object; true where that is not known.
  bool made_inside(PyObject* object) const { return !observer_ || observer_->made_inside(object); }
  /// Why no hook can be put behind the tensor; empty if one can.
  std::string why_no_hook(PyObject* tensor);
  /// Puts a call behind the tensor, for all that reads it, before this line too.  `backward`: a function from the
  /// tensor's gradient to a list of one, which runs now, on proxies.  `last`: behind the hooks of the tensor that are
  /// still to come.  Returns the hook's number.
  size_t put_hook(PyObject* tensor, PyObject* backward, const std::string& name, bool last);
  /// Takes a hook away again.
  void remove_hook(size_t number);
  /// Whether there is a hook behind the tensor as it is now.
  bool is_hooked(PyObject* tensor);
  /// Whether it is the caller's own tensor, or one that the program met outside, as it is there.
  bool is_plain_input(PyObject* tensor);
  /// The tensor's gradient is to be kept in its .grad: the place under which the backward gives it (Acquired::retained);
  /// nothing where that has been asked for.
  std::optional<size_t> retain_gradient(PyObject* tensor);
  /// From here on only eager says whether the tensor and its views may be written to, where gradients are recorded.
  void forbid_writes(PyObject* tensor) { unwritable_.insert(aliases_.storage(id_of(tensor))); }
  bool interprets() const { return observer_ != nullptr; }
  /// Interpreted calls of torch functions come here without a detour through Python, as long as no further torch
  /// function mode is active.
  void take_calls() { modes_ = hooks().function_modes(); }
  bool takes_calls() const { return modes_ >= 0 && hooks().function_modes() == modes_; }

  /// The language of the user's code from here on; null: PyTorch's alone.
  void set_language(const Language* language) {
    language_ = language;
    speaks_ = speaks_ || language;
  }
  const Language* language() const { return language_; }
  /// Whether a part of the program was in a language, in which Python alone does not run it.
  bool speaks() const { return speaks_; }
  /// What a callable means here; null if nothing.
  const TorchFunction* meaning(PyObject* callable) const;
  /// `object.name` in the language: a new reference, null with an exception, or null without if it is the object's own.
  PyObject* attribute(PyObject* object, PyObject* name) const;

  /// A torch call of the running program.  Throws Error, or PythonError.
  Ref handle(PyObject* func, PyObject* args, PyObject* kwargs);
  /// Records a call of a registered operator with Python arguments; what handlers use.
  Ref apply(const std::string& op, PyObject* args, PyObject* kwargs, bool in_place = false);
  /// `target.copy_(source)`: broadcasts and casts.
  void copy_into(PyObject* target, PyObject* source, const char* op);
  /// Writes results into what was given as out=, one tensor or several.
  void write_out(PyObject* out, const Arg& result, const std::string& op);
  /// The tensor that this one always is, whatever the inputs are; null if it depends on them, or on chance.
  Ref constant(PyObject* tensor);
  /// `tensor.requires_grad_()` of one that does not.
  void require_grad(PyObject* tensor);
  /// What as_strided() with these sizes and strides, and this offset or None, is to be taken of, without an offset: the
  /// tensor, or where it reaches beyond its elements a row of the memory in which they lie.  None for an input's memory,
  /// of which PyTorch's as_strided() takes it.
  Ref memory_from(PyObject* tensor, PyObject* sizes, PyObject* strides, PyObject* storage_offset);
  /// The tensor object is what `other` is from here on.  `op`: for the error, which says that an input cannot.
  void become(PyObject* tensor, PyObject* other, const char* op);
  /// `tensor.detach_()`.
  void detach_in_place(PyObject* tensor);
  /// Calls a function of the user's from the compiler's own Python.
  Ref call_user(PyObject* fn, PyObject* args);
  /// `outputs` again, as functions of `inputs` whose gradient is `backward`: a function from the outputs' gradients to a
  /// list of the inputs', each a tensor or None.  It runs now, on proxies.
  std::vector<Ref> with_gradient(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& inputs,
                                 PyObject* backward, const std::string& name);
  /// torch.autograd.grad: the gradients of the inputs, None where none flows.  `cotangents`: of the outputs, or None for
  /// ones.  `batched`: they are batches of such, and so are the gradients.
  std::vector<Ref> gradients(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& cotangents,
                             const std::vector<PyObject*>& inputs, bool create_graph, bool retain_graph, bool batched);
  /// Records a function of tensors, which returns a list of such, as calls of the program, and its gradient apart.
  /// Returns that list and a number for pull().  `recording`: gradients flow through the calls where the program's
  /// tensors require any.  `linear`: what pull() gives is to be differentiated for the cotangents.  `any_cotangent`:
  /// cotangents may require gradients where nothing else does.
  std::pair<Ref, size_t> pullback(PyObject* fn, const std::vector<PyObject*>& inputs, bool recording, bool linear,
                                  bool any_cotangent);
  /// The gradients of the inputs for these of the results, or None for ones.
  std::vector<Ref> pull(size_t number, const std::vector<PyObject*>& cotangents);
  /// What torch.vmap gives for a function of samples, which returns a list of tensors: `batches` have the samples along
  /// their first dimension, and so do the results.  The function runs once, on one sample.  `randomness`: as PyTorch's,
  /// "error", "different" or "same".
  std::vector<Ref> batched(PyObject* fn, const std::vector<PyObject*>& batches, const std::string& randomness);
  /// Writes `value` (cast to it) into `tensor`.
  void write(PyObject* tensor, const Arg& value, const char* op);

  /// Whether a tensor that requires grad is one that the program made a leaf; nothing for one from outside.
  std::optional<bool> made_leaf(PyObject* tensor);
  /// Writes to the tensor are such that autograd does not see them.
  void set_uncounted(PyObject* tensor) { aliases_.set_uncounted(id_of(tensor)); }
  /// `target.data = source`.  Error (NotImplemented) where what both were could be told from what they are.
  void set_data(PyObject* target, PyObject* source);
  /// Whether it is an input, or a part of one.
  bool is_from_outside(PyObject* tensor) { return is_outside(id_of(tensor)); }
  /// Whether a proxy stands for a tensor that the program met outside.
  bool is_same(PyObject* proxy, PyObject* real);
  bool share_memory(PyObject* a, PyObject* b) { return aliases_.share_memory(id_of(a), id_of(b)); }

  /// Ends tracing: `outputs` are the tensors and traced numbers that the user's function returned, in order.
  Acquired finish(const std::vector<PyObject*>& outputs);

  /// Whether the object takes part in this trace.
  bool knows(PyObject* tensor) const { return ids_.count(tensor) != 0; }
  /// The value's type now, which in-place writes may have changed since the object was made.
  TensorType type_of(PyObject* tensor) { return value_of(tensor).tensor(); }
  Builder& builder() { return b_; }
  /// The sizes that only the run knows; current while what was traced is compiled.
  ShapeEnv& shapes() { return shapes_; }
  std::string location() const;
  /// Whether PyTorch's Python, and not the user's, runs.
  bool in_library() const;

 private:
  // Calls that are recorded apart until close(), in a part of the program that has a number.
  class CallsApart {
   public:
    explicit CallsApart(Tracer& t) : tracer_(t) {
      t.b_.open_scope();
      t.scopes_.push_back(++t.last_scope_);
    }
    /// Of a function of the user's.  `before`: what was known before it runs.
    CallsApart(Tracer& t, const AliasTracker::Checkpoint& before) : CallsApart(t) { before_ = &before; }
    ~CallsApart();
    CallsApart(const CallsApart&) = delete;
    CallsApart& operator=(const CallsApart&) = delete;
    std::vector<const Call*> close();

   private:
    Tracer& tracer_;
    const AliasTracker::Checkpoint* before_ = nullptr;
    bool open_ = true;
  };
  // A function that was recorded apart, on tensors of its own in place of those that it is given.
  struct Function {
    std::vector<Value> given, own, results;
    std::vector<TensorId> given_ids, own_ids;
    std::vector<Ref> proxies;
    Ref made = {};
    std::vector<const Call*> calls;
    std::unique_ptr<AliasTracker::Checkpoint> before;
  };
  // Its gradient, for any gradients of its results.
  struct Pullback {
    Replay function;  // what stands for the function's values, which the calls read
    std::vector<Value> given, cotangents = {};
    std::vector<const Call*> calls = {};
    std::vector<Arg> gradients = {};
    bool twice = false;  // gradients flow through the calls
    size_t scope = 0;    // of the program's parts, the one in which it can be used
  };
  Function record_apart(PyObject* fn, const std::vector<PyObject*>& inputs, TensorType (*own)(const TensorType&),
                        const char* transform);
  void put_function(const Function& f, const ValueSet& read, Replay& calls);
  PartialGradients rules_apart(const std::vector<const Call*>& calls, const std::vector<std::pair<Value, Value>>& seeds,
                               const std::vector<Value>& inputs);
  using Samples = std::vector<std::pair<Value, Value>>;  // and the batches that stand for them
  std::vector<Arg> batched_gradients(const PartialGradients& made, const Samples& samples);
  void check_rules(const std::vector<const Call*>& applied, bool twice);
  std::vector<Arg> in_own_memory(std::vector<Arg> gradients, const std::vector<const Call*>& made);
  std::vector<Ref> put_batched(Batching& batching, const std::vector<const Call*>& calls,
                               const std::vector<Value>& results, const std::vector<PyObject*>& batches);
  Ref wrap_seen(Value v, Value memory, const std::vector<const Call*>& path, const std::vector<PyObject*>& batches);
  static constexpr TensorId kNoTensor = ~TensorId{0};

  struct Outputs;
  TensorId id_of(PyObject* tensor);
  Ref constant(Value v);
  Value new_leaf(Value v);
  void require_grad_outside(PyObject* tensor);
  bool is_beginner(TensorId t) const;
  Value value_of(PyObject* tensor) { return aliases_.value(id_of(tensor)); }
  Ref located(const std::function<Ref()>& record);
  std::optional<TensorId> add_sharded(PyObject* tensor);
  TensorId add_input(PyObject* object, PyObject* real, InputSource source, const TensorType* type = nullptr);
  Value add_number(NumberType type, NumberPtr number);
  Ref number_result(const NumberPtr& number, PyObject* of = nullptr);
  Value value_of_size(const Dim& size);
  Arg resolve(Value number, const std::string& what);
  bool fold(Arg& a, bool read);
  Arg call_with_numbers(const std::string& op, const ArgList& positional,
                        const std::vector<std::pair<std::string, Arg>>& keyword, const Error& refusal);
  RealInput real_input(size_t i) const;
  std::vector<const Call*> calls_leading_to(const std::vector<Value>& values, const std::vector<const Call*>& all,
                                            const std::string& what) const;
  void find_calls(ValueRead& read, Value v, const std::string& what) const;
  void run_now(const std::vector<const Call*>& calls);
  ValueRead& read_value(Value v, const std::string& what);
  bool becomes_symbol(const ValueRead& r, int64_t n) const;
  Arg as_symbol(ValueRead& r);
  Arg as_number(ValueRead& r);
  bool ask_size(SymbolId s, bool firmly);
  bool hold_exactly(const NumberExpr& number);
  void add_read_inputs(Acquired& a) const;
  std::vector<bool> used_inputs(const Trace& computation, const Outputs& plan) const;
  std::vector<size_t> in_order(const std::vector<bool>& used) const;
  TensorId add_view_of_shared(PyObject* real, InputSource source, const void* memory);
  TensorId input_itself(TensorId t);
  const InputSource& source_of(TensorId input) const;
  bool is_outside(TensorId t) const { return aliases_.is_input(t) || views_of_shared_.count(t) != 0; }
  [[noreturn]] void share(const void* memory, const char* op);
  /// What operators do with an argument that they need not change.
  enum class Unchanged { Returned, Viewed };
  static Unchanged unchanged_by(const std::string& op);
  /// The object of a result.  `first`: the call's first argument, or null.
  Ref wrap(Value v, const Call* call, Unchanged unchanged = Unchanged::Returned, PyObject* first = nullptr);
  Ref alias_of(TensorId of);
  Ref proxy_of(TensorId t);
  void check_strided_write(TensorId t, const char* op);
  Ref record_with_dtensors(PyObject* func, PyObject* args, PyObject* kwargs);
  Ref new_proxy(const TensorType& t);
  Arg call_operator(const std::string& op, ArgList positional, std::vector<std::pair<std::string, Arg>> keyword);
  Arg fit_gradient(PyObject* gradient, Value input, const std::string& name);
  void check_differentiable(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& inputs);
  void require_leaves(const ValueSet& reached, const std::vector<PyObject*>& inputs);
  void take_rules_once(const std::vector<const Call*>& applied, bool retain_graph);
  std::vector<const Call*> record_backward(PyObject* backward, const std::vector<Value>& inputs,
                                           const std::string& name, RecordedGradient& rule);
  Ref dispatch(PyObject* func, PyObject* args, PyObject* kwargs);
  Ref autocast(const TorchFunction& f, PyObject* func, PyObject* args, PyObject* kwargs);
  Ref dispatch_settled(const TorchFunction& f, PyObject* func, PyObject* args, PyObject* kwargs);
  Ref record(const TorchFunction& f, PyObject* args, PyObject* kwargs);
  Ref record_unrecorded(PyObject* func, PyObject* args, PyObject* kwargs);
  void check_watchers(PyObject* args, PyObject* kwargs);
  void update_location();

  // How a user's output is made: a computed value and the views that lead from it; an input's own views if `computed`
  // is -1.
  struct Derived {
    int64_t computed = -1;
    TensorId base = 0;
    std::vector<const Call*> path;
    bool alias = false;     ///< of what the path leads to
    bool detached = false;  ///< made where no gradients were recorded
  };
  // A tensor that keeps its gradient, and what it was when that was asked for.
  struct Retained {
    Ref tensor;
    Value value;
  };
  void check_unwritable(TensorId id);
  const Call* hook_call(Value in, Value out, PyObject* backward, const std::string& name);
  void check_hooks(const Derived& d) const;
  int64_t place_of_retained(const Retained& r, const std::vector<PyObject*>& outputs,
                            const std::vector<Derived>& derived);
  Outputs plan_outputs(const std::vector<PyObject*>& outputs);
  void give_own_memory(Outputs& outputs);
  bool is_view_of_copy(TensorId t, const MemoryOf& memory_of) const;
  void add_sizes(Outputs& outputs) const;
  void add_indices(Outputs& outputs) const;
  bool is_written(Value memory, const Outputs& plan) const;
  /// The tensor object is another tensor from here on.
  void rebind(PyObject* object, TensorId id, const char* op);
  bool changes_metadata(PyObject* written, const Arg& result, const Call* call, const std::string& op);
  void take_dtype_of(PyObject* target, const std::string& op, const ArgList& positional,
                     std::vector<std::pair<std::string, Arg>>& keyword);
  void resize_for(PyObject* out, const Arg& result, const std::string& op);
  void check_out_gradient(const std::string& op) const;
  void check_same_shape(PyObject* target, const Arg& result, const std::string& op);
  std::vector<std::pair<std::string, Arg>> keywords(PyObject* args, PyObject* kwargs, PyObject*& out,
                                                    PyObject*& written);
  void note_copy(Value v, const Call* call);
  void keep_sizes_of_one(const std::vector<Value>& computed);
  Trace build_epilogue(const Outputs& outputs, const std::vector<bool>& used);

  std::unique_ptr<Builder> owned_;  // null where the builder is borrowed
  Builder& b_;
  std::shared_ptr<Arena> arena_;
  bool metadata_only_ = false;
  interpreter::Observer* observer_ = nullptr;
  const Language* language_ = nullptr;
  bool speaks_ = false;
  bool settled_ = false;  ///< what autocast does to the call that is being recorded has been done
  int64_t modes_ = -1;
  AliasTracker aliases_;
  ShapeEnv shapes_;
  EqualValues equal_values_{b_};
  std::unordered_map<PyObject*, TensorId> ids_;
  std::unordered_map<TensorId, Ref> objects_;
  std::unordered_set<ValueId> new_leaves_;
  std::unordered_set<size_t> leaves_;             // inputs that must be leaves, by index
  std::unordered_set<const Call*> freed_;         // whose rules a torch.autograd.grad took that keeps no graph
  std::unordered_map<ValueId, Value> hooked_;     // of values that have hooks, the one behind which the next goes
  std::unordered_set<const Call*> hooked_views_;  // the last views of paths that lead to tensors with hooks
  std::vector<std::pair<Ref, TensorId>> hooked_tensors_;
  std::vector<const Op*> hooks_;             // by number
  std::vector<Retained> retained_;           // by place
  std::unordered_set<uint32_t> unwritable_;  // storages
  std::vector<Pullback> pullbacks_;          // by number
  std::vector<size_t> scopes_ = {0};         // of the parts that are being recorded, from the program itself inwards
  size_t last_scope_ = 0;
  std::unordered_set<ValueId> samples_;  // of functions that torch.vmap has called: nothing in the program makes them
  std::vector<InputSource> sources_;
  std::vector<TensorId> inputs_;  // parallel to the builder's inputs; kNoTensor for a number
  std::vector<Ref> reals_;        // the same, as they are in this call; null for a number
  std::vector<ValueRead> value_reads_;
  std::unordered_map<ValueId, Ref> values_now_;  // what reads computed
  std::vector<std::function<void()>> drawn_;     // undo what reads have drawn
  std::map<std::pair<PyObject*, std::string>, Arg> counters_;
  std::unordered_map<ValueId, Arg> resolved_;    // numbers that only the run knew
  std::unordered_map<std::string, int> places_;  // how often a line has read
  std::unordered_set<PyObject*> arguments_, met_outside_;
  std::unordered_map<PyObject*, Ref> compared_;         // tensors from outside that arguments may be
  std::vector<TensorId> values_;                        // given by add_value()
  std::unordered_map<const void*, TensorId> storages_;  // of the inputs
  std::unordered_map<const void*, TensorId>
      shared_;  // memory given to the constructor, and the input that stands for it
  std::unordered_map<TensorId, const void*> aliased_;  // inputs that share memory with another input
  std::unordered_set<TensorId> reaches_out_;           // inputs of which as_strided() made views that reach beyond them
  std::unordered_map<TensorId, InputSource> views_of_shared_;  // what is an input too, though its memory stands for it
  const void* shared_memory_written_ = nullptr;
  const std::unordered_set<size_t> beginners_;  // given to the constructor
  std::optional<size_t> new_beginner_;
  // A tensor that would be another one itself for sizes of 1: those comparisons were decided as if there were none.
  struct Copy {
    Value value;
    size_t from, to;  // in ShapeEnv::taken()
    bool lays_out;    // what is computed from it, otherwise for a size of 1
  };
  std::vector<Copy> copies_;
  size_t copies_known_ = 0;
};

}  // namespace thunder::frontend
