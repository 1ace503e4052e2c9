// Operators: one record each.
//
// A record (OpDef) stands in the table of its family (csrc/ops/<level>/<family>.cpp) and holds all there is to know
// about an operator; what else needs the knowledge (argument parsing, printing, the reference, tests, the executors)
// derives it.  Records made at run time, from Python or by an executor, are the same thing: function pointers and a
// context pointer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/index_map.h"
#include "core/schema.h"

namespace thunder {

class Builder;
class Args;
class Expr;
class VjpContext;
struct Call;

/// Properties of an operator, instead of lists of "operators that are X".
enum Tag : uint64_t {
  kNoTag = 0,
  kPointwise = 1ull << 0,  ///< out[i] depends on in[i] only; output layout by pointwise_strides
  kReduction = 1ull << 1,
  kView = 1ull << 2,      ///< the output aliases the first tensor argument
  kShape = 1ull << 3,     ///< moves elements without computing (cat, flip, ...)
  kCreation = 1ull << 4,  ///< makes a tensor from no tensor (or from a random state)
  kMatmul = 1ull << 5,
  kRandom = 1ull << 6,      ///< effect class: draws from a generator
  kCollective = 1ull << 7,  ///< effect class: communicates, as the user's program says
  kWrite = 1ull << 8,       ///< effect class: writes to memory that the caller can see
  kHostSync = 1ull << 9,    ///< effect class: its result is read by the host (item, nonzero)
  kNoGrad = 1ull << 10,     ///< outputs never require grad
  kCommutative = 1ull << 11,
  kCheap = 1ull << 12,          ///< worth recomputing in backward rather than saving (pointwise, views, norms, casts)
  kDataDependent = 1ull << 13,  ///< the output's shape depends on values: unbacked dims
  kInput = 1ull << 14,          ///< reads the outside world (unpacking); never removed
  kComparison = 1ull << 15,     ///< result is bool
  kIdentity = 1ull << 16,       ///< returns its last tensor argument's data unchanged (detach): executors need no work
  kLinear = 1ull << 17,
  kReturnsInput = 1ull << 18,  ///< where it has nothing to do it returns its first argument itself, and no view of it
  kAnyLayout = 1ull << 19,     ///< takes tensors that are not strided, too
  kSteps = 1ull << 20,         ///< of floating numbers that are close it gives floating numbers that are not (floor)
  /// Communicates because parameters are distributed: no effect, and moved by the passes of distributed training alone.
  kComm = 1ull << 21,
  kWaits = 1ull << 22,  ///< on a GPU PyTorch's operator may wait for the device: no part of a CUDA graph
  /// Effect class: reads or writes what the compiler's own operators keep from run to run, and nothing else reads.
  kState = 1ull << 23,
  kAutograd = 1ull << 24,  ///< an executor's operator whose gradient is autograd's of what it runs
  kWhole = 1ull << 25,     ///< PyTorch's operator gives what its parts do not (the mean of infinities): not for kernels
  /// The size of the last result is known to the operator alone, and only its gradient reads that: types estimate it.
  kOwnSize = 1ull << 26,
  kOnce = 1ull << 27,  ///< the first run that is not watched executes its body; later runs hand out what that gave
  kMayLackOperand = 1ull << 28,  ///< a missing operand counts as zeros: kernels read no memory for it
};
inline constexpr uint64_t kEffects = kRandom | kCollective | kWrite | kHostSync | kState;

/// For each result, its type.
using Types = std::vector<Type>;
/// Checks arguments and gives the results' types.  Throws Error with the exception kind that PyTorch raises.
using MetaFn = Types (*)(const Args& args);
/// The same computation one level lower; returns the results, or None (beside a meta): left whole for these arguments.
using BodyFn = Arg (*)(Builder& b, const Args& args);
/// Puts the gradients of the call's inputs, given those of its outputs.
using VjpFn = void (*)(VjpContext& c);

/// `base` with `written` in the place of the elements that the view shows: what a write through the view leaves in its
/// base.  `view`: the arguments of the view's call.  `op`: the operator that writes, for errors.
using WriteBackFn = Arg (*)(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);

/// How a reduction joins two elements.
enum class Combine : uint8_t { None, Add, Mul, Max, Min, Or, And };

/// What a generated kernel computes for an element of a primitive, where the record's other fields do not tell: a
/// primitive with an `index_map` reads one element, one with `combine` joins elements, and a pointwise one with `scalar`
/// computes the expression.  What a gathered, created or drawn element is, the fuser knows by the primitive's name
/// (csrc/fuser/elements.cpp).
enum class Element : uint8_t {
  FromFields,
  Computed,  ///< the operand's element at the same place (kMayLackOperand)
  Gathered,  ///< one element of an operand, or a constant, at a place that the primitive computes
  Created,   ///< from the place alone
  Drawn,     ///< from a random state and the place
};

/// Where a real-valued unary operator is defined and smooth, for the tests.
struct Domain {
  double low = -1e9, high = 1e9;
};

struct OpDef {
  std::string_view schema;
  std::string_view doc;
  uint64_t tags = kNoTag;
  MetaFn meta = nullptr;  ///< a primitive has a meta, ...
  BodyFn body =
      nullptr;  ///< ... a composite has a body; with both, the meta wins for types and the body is for the passes
  VjpFn vjp = nullptr;
  /// The ATen operator for the default executor, with its arguments by schema name where they are not simply the same
  /// in the same order: "add.Tensor", "embedding(weight, input, padding_idx)", "full(size, value, dtype=dtype,
  /// device=device)".
  std::string_view aten = {};
  /// Public names that mean this operator, the first one being how the default executor's call prints:
  /// "torch.nn.functional.gelu", "torch.add torch.Tensor.add torch.Tensor.__add__".
  std::string_view python = {};
  /// C expression of a pointwise primitive over its schema names, for the fuser and documentation: "a + b".
  std::string_view scalar = {};
  Domain domain = {};
  /// Parameters that PyTorch's function writes to, "running_mean running_var". The record's last results are their new
  /// values, in this order; the new value of an argument that is left alone is the argument.
  std::string_view writes = {};
  IndexMapFn index_map = nullptr;    ///< of a primitive whose results are elements of its argument `a`
  WriteBackFn write_back = nullptr;  ///< where PyTorch's result is a view of `a`; without it a write there is refused
  Combine combine = Combine::None;   ///< of a reduction primitive over the argument `dims`
  Element element = Element::FromFields;
  void* context = nullptr;  ///< for records made at run time
};

class Op {
 public:
  Op(std::string level, const OpDef& def);
  std::string level;       ///< "prims", "clang", "torch", or an executor's name
  std::string name;        ///< "torch.max": level and schema name
  std::string full_name;   ///< "torch.max.dim": with the overload, unique in the registry
  std::string print_name;  ///< "ltorch.max", "prims.add"; for executors' operators what stands in the final program
  Schema schema;
  std::string doc;
  uint64_t tags = 0;
  MetaFn meta = nullptr;
  BodyFn body = nullptr;
  VjpFn vjp = nullptr;
  std::string aten;
  std::vector<std::string> python;
  std::string scalar;
  Domain domain;
  std::vector<std::string> writes;
  IndexMapFn index_map = nullptr;
  WriteBackFn write_back = nullptr;
  Combine combine = Combine::None;
  Element element = Element::FromFields;
  void* context = nullptr;
  std::shared_ptr<void> context_owner;  ///< keeps `context` alive for records made at run time

  /// Of an operator that an executor made for a claim: who runs it, and what it stands for.
  std::string executor;
  const Op* implements = nullptr;

  bool has(uint64_t any_of) const { return (tags & any_of) != 0; }
  bool is_prim() const { return level == "prims"; }
};

/// All operators by name.  Filled once from the family tables; grows when executors or users register.
class Registry {
 public:
  static Registry& instance();
  /// Error (Value) if the full name is taken and `replace` is false.
  const Op& add(std::string level, const OpDef& def, bool replace = false);
  const Op& add(std::unique_ptr<Op> op, bool replace = false);
  const Op* find(std::string_view full_name) const;
  /// Error (Internal) if there is none.
  const Op& get(std::string_view full_name) const;
  /// All overloads of "torch.max", in order of registration.
  const std::vector<const Op*>& overloads(std::string_view name) const;
  /// Operators whose printed name this is.
  std::vector<const Op*> by_print_name(std::string_view print_name) const;
  /// In order of registration.
  const std::vector<const Op*>& all() const;

 private:
  Registry();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A call's arguments, read by schema name.  Each accessor fails as Arg's does where the argument is of another kind.
class Args {
 public:
  Args(const Op& op, const ArgList& args) : op_(&op), args_(&args) {}
  const Op& op() const { return *op_; }
  const ArgList& list() const { return *args_; }
  const Arg& operator[](std::string_view param) const;
  bool has(std::string_view param) const { return !(*this)[param].is_none(); }  ///< given and not None

  Value value(std::string_view param) const { return (*this)[param].value(); }
  const TensorType& tensor(std::string_view param) const { return value(param).tensor(); }
  // Error (Runtime) for a number that only the run knows (the result of item()).
  /// A literal, or the symbol that a number value binds.
  const Dim& dim(std::string_view param) const;
  int64_t integer(std::string_view param) const { return dim(param).constant(); }
  bool flag(std::string_view param) const;
  /// A number without an imaginary part; a symbolic one is taken at its hint.
  double real(std::string_view param) const;
  const std::string& str(std::string_view param) const { return (*this)[param].str(); }
  DType dtype(std::string_view param) const { return (*this)[param].dtype(); }
  Device device(std::string_view param) const { return (*this)[param].device(); }
  Dims dims(std::string_view param) const;
  std::vector<int64_t> integers(std::string_view param) const;
  std::vector<Value> values(std::string_view param) const;  ///< of a list of tensors

 private:
  const Op* op_;
  const ArgList* args_;
};

}  // namespace thunder
