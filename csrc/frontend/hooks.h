// What the front end needs to know of PyTorch's objects.  It does not include PyTorch: the bindings fill this in once.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "core/trace.h"
#include "core/value.h"
#include "frontend/value_reads.h"
#include "python/literals.h"

namespace thunder::frontend {

/// A parameter that other processes hold parts of.
struct Sharded {
  std::string name;
  Ref local;             ///< what the program takes, of which it sees the whole
  TensorType full;       ///< of the whole
  bool dtensor = false;  ///< the whole is a DTensor's part
};

struct Hooks {
  PyTypeObject* tensor_class = nullptr;  ///< torch.Tensor
  PyTypeObject* proxy_class = nullptr;   ///< thunder's wrapper subclass
  /// The type of a real tensor, strides and requires_grad included.
  TensorType (*type_of)(PyObject* tensor) = nullptr;
  bool (*is_leaf)(PyObject* tensor) = nullptr;
  /// Names the tensor's memory: equal for tensors of one storage.
  const void* (*storage_of)(PyObject* tensor) = nullptr;
  /// Makes C++ code that asks for a proxy's memory (DLPack) fail instead of reading address 0.
  void (*forbid_data)(PyObject* proxy) = nullptr;
  /// Where in its memory a tensor begins, and how many of its elements the whole memory holds.
  std::pair<int64_t, int64_t> (*place_in_storage)(PyObject* tensor) = nullptr;
  bool (*grad_enabled)() = nullptr;
  /// What a tensor is that no program takes (a wrapper, another class); empty: programs take it.
  std::string (*other_kind_of_tensor)(PyObject* tensor) = nullptr;
  /// Whether a module was wrapped by thunder.distributed; any object may be asked about.
  bool (*is_distributed)(PyObject* module) = nullptr;
  /// Whether an object is a DTensor to programs, whose torch calls `of_dtensors` records; any object may be asked about.
  bool (*is_dtensor)(PyObject* o) = nullptr;
  /// Nothing for a tensor that lies here as a whole.
  std::optional<Sharded> (*sharded)(PyObject* tensor) = nullptr;
  /// Who sees operators below torch functions (a dispatch mode, a transform of torch.func); empty: nobody.
  std::string (*watcher)() = nullptr;
  /// How many torch function modes are active in this thread; -1 where they are disabled.
  int64_t (*function_modes)() = nullptr;
  /// Sets the Python exception for the C++ exception that is being handled.
  void (*set_python_error)() = nullptr;
  bool (*any_autocast)() = nullptr;
  /// PyTorch's global settings may be others now.
  void (*adopt_settings)() = nullptr;
  /// Runs a trace without inputs now: its one result, a real tensor.
  Ref (*evaluate)(const Trace&) = nullptr;

  /// Runs a trace now: its results, real tensors and Python numbers.
  std::vector<Ref> (*run)(const Trace&, const std::vector<RealInput>&) = nullptr;
  /// The number that a real tensor of one element holds: no call of the program's.
  Ref (*item)(PyObject* tensor) = nullptr;
  /// Remembers the generators of these devices; what it returns makes them what they are now.
  std::function<void()> (*remember_generators)(const std::vector<Device>&) = nullptr;
  /// What a trace is given for an input.
  Ref (*run_input)(const RealInput&) = nullptr;

  /// A function of (torch function, args, kwargs, the record's exception) that records the call otherwise: a tuple of its
  /// result, or None if the exception stands.  It raises what eager does.  Null before it is set.
  Ref unrecorded;
  /// A function of (torch function, args, kwargs) that records a call with DTensors.  Null before there are any.
  Ref of_dtensors;
  /// By code, what stands for functions of PyTorch's; the code lives as long as PyTorch.
  std::unordered_map<PyObject*, Ref> replaced;
  /// The module thunder._outside.  Null before it is set.
  Ref outside_states;
  /// A function of (torch function, args, kwargs) that is asked under autocast: (args, kwargs) to record the call with, a
  /// tuple of the result of one that is recorded already, or None.
  Ref autocast;

  // Python objects that conversions use.
  Ref make_wrapper_subclass;  ///< torch.Tensor._make_wrapper_subclass
  Ref swap_tensors;           ///< torch._C._swap_tensor_impl
  Ref torch_size;             ///< torch.Size
  Ref compiler_variables;     ///< torch.compiler.__dict__
  /// thunder's traced number: for an int, for a float, for anything else.
  Ref int_class, float_class, number_class;
  std::vector<std::string> internal_paths;  ///< files below these are never the user's line
};

Hooks& hooks();

inline bool is_tensor(PyObject* o) { return PyType_IsSubtype(Py_TYPE(o), hooks().tensor_class); }
/// A number that only the run knows (the result of item(), the length of a nonzero()), or that other calls may give
/// another value (cache="symbolic values").
inline bool is_traced_number(PyObject* o) {
  const Hooks& h = hooks();
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
  return type == h.int_class.get() || type == h.float_class.get() || type == h.number_class.get();
}
/// What an output is made of: tensors, and numbers that the run computes.
inline bool is_traced_value(PyObject* o) { return is_tensor(o) || is_traced_number(o); }
inline bool is_proxy(PyObject* o) { return Py_TYPE(o) == hooks().proxy_class; }

/// An object of the user's program as an argument: a literal (python/literals.h), a traced number, or a container of
/// these; `tensor` converts the tensors in it.
Arg to_arg(PyObject* o, const std::function<Arg(PyObject*)>& tensor);
/// The reverse; `value` converts the values in it.
Ref to_python(const Arg& arg, const std::function<Ref(Value)>& value);

/// A number that only the run knows, in Python: thunder's traced number around `arg` (a value or a symbolic size).
/// `of`: its class, where that is not Python's own.
Ref make_number(const Arg& arg, PyObject* of = nullptr);
/// The value or the symbolic size in a traced number.  A traced number that outlived its trace (in an attribute, a
/// global) gives the Python number that it was in the call of that trace.
Arg number_arg(PyObject* number);
/// The number in the call that is or was traced; None for one that only the run knows.
Ref number_hint(PyObject* number);
/// The class that a traced number is of where that is not Python's own (np.float64), borrowed; null where it is.
PyObject* class_of_number(PyObject* number);
/// Whether it is a size that is 1 in some calls (ShapeEnv::make_size).
bool may_be_one(PyObject* number);
/// Whether any number was made in the trace of this thread.
bool any_numbers();
/// Numbers made from now on in this thread belong to another trace than those before.
void begin_numbers();

}  // namespace thunder::frontend
