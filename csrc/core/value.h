// Values and arguments.
//
// A Value is a handle on a node of the compilation's arena: an id, unique in all traces of one compilation, and a type.
// Names (t0, i1) exist only in print.  An Arg is whatever a call may take: a value, a literal, or a nested container.
#pragma once

#include <complex>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/type.h"

namespace thunder {

using ValueId = uint32_t;

struct ValueNode {
  ValueId id;
  Type type;
  std::string name;  ///< a user's name for an input ("logits"); empty: print makes one
};

class Value {
 public:
  Value() = default;
  explicit Value(const ValueNode* node) : node_(node) {}
  explicit operator bool() const { return node_ != nullptr; }
  ValueId id() const { return node_->id; }
  const Type& type() const { return node_->type; }
  const TensorType& tensor() const { return node_->type.tensor(); }
  const std::string& given_name() const { return node_->name; }
  /// "t12" for tensors, "i", "f", "b", "c" for numbers, "p" for futures, "o" for opaque things; or
  /// the given name.
  std::string name() const;

  // Shorthands that metas, bodies and gradient rules use all the time.
  const Dims& shape() const { return tensor().shape; }
  DType dtype() const { return tensor().dtype; }
  int64_t rank() const { return tensor().rank(); }
  bool requires_grad() const { return type().is_tensor() && tensor().requires_grad; }

  friend bool operator==(Value a, Value b) { return a.node_ == b.node_; }

 private:
  const ValueNode* node_ = nullptr;
};

struct ValueHash {
  size_t operator()(Value v) const { return v.id(); }
};

class Arg;
using ArgList = std::vector<Arg>;

/// `start:stop:step` in an index.
struct SliceArg;
/// A torch constant that is neither a dtype nor a device: torch.contiguous_format, torch.strided, Ellipsis.
struct ConstantArg {
  std::string name;  ///< as printed: "torch.contiguous_format", "..."
  friend bool operator==(const ConstantArg&, const ConstantArg&) = default;
};
/// A thing that print cannot spell (a process group, a Python callable): printed by its name, found in the trace's
/// context.
struct OpaqueArg {
  std::string name;
  std::shared_ptr<void> object;
};

class Arg {
 public:
  // clang-format off
  enum class Kind : uint8_t {
    None, Bool, Int, Float, Complex, Str, DType, Device, Value, List, Tuple, Dict, Slice, Constant, Opaque
  };
  // clang-format on

  Arg() = default;
  Arg(std::nullptr_t) {}
  Arg(bool b) : v_(b) {}
  Arg(int i) : v_(Dim(i)) {}
  Arg(int64_t i) : v_(Dim(i)) {}
  Arg(size_t i) : v_(Dim(static_cast<int64_t>(i))) {}
  Arg(Dim d) : v_(std::move(d)) {}
  Arg(double f) : v_(f) {}
  Arg(std::complex<double> c) : v_(c) {}
  Arg(std::string s) : v_(std::move(s)) {}
  Arg(const char* s) : v_(std::string(s)) {}
  Arg(DType t) : v_(t) {}
  Arg(Device d) : v_(d) {}
  Arg(thunder::Value v) : v_(v) {}
  Arg(ConstantArg c) : v_(std::move(c)) {}
  Arg(OpaqueArg o) : v_(std::make_shared<const OpaqueArg>(std::move(o))) {}
  Arg(const Dims& dims);  ///< a list of ints
  Arg(const std::vector<int64_t>& ints);
  Arg(const std::vector<thunder::Value>& values);  ///< a list
  template <class T>
  Arg(const std::optional<T>& o) {
    if (o) *this = Arg(*o);
  }
  static Arg list(ArgList items);
  static Arg tuple(ArgList items);
  static Arg dict(std::vector<std::pair<Arg, Arg>> items);
  static Arg slice(Arg start, Arg stop, Arg step);

  Kind kind() const;
  bool is_none() const { return kind() == Kind::None; }
  bool is_value() const { return kind() == Kind::Value; }
  bool is_tensor() const { return is_value() && value().type().is_tensor(); }
  bool is_sequence() const { return kind() == Kind::List || kind() == Kind::Tuple; }
  /// A literal bool, int, float or complex, or a value that is a number.
  bool is_number() const;
  bool is_literal_number() const;
  bool is_real_literal() const;  ///< a number that is not complex and does not depend on a symbol

  // Of another kind: std::bad_variant_access, but Error (Internal) from real(), complex() and items().
  thunder::Value value() const { return std::get<thunder::Value>(v_); }
  bool boolean() const { return std::get<bool>(v_); }
  const Dim& dim() const { return std::get<Dim>(v_); }
  /// A literal bool, int or float, or a number of the call's (which is specialized), as double.
  double real() const;
  std::complex<double> complex() const;
  const std::string& str() const { return std::get<std::string>(v_); }
  thunder::DType dtype() const { return std::get<thunder::DType>(v_); }
  const thunder::Device& device() const { return std::get<thunder::Device>(v_); }
  const ConstantArg& constant() const { return std::get<ConstantArg>(v_); }
  const OpaqueArg& opaque() const { return *std::get<std::shared_ptr<const OpaqueArg>>(v_); }
  const ArgList& items() const;                             ///< of a list or tuple
  const std::vector<std::pair<Arg, Arg>>& entries() const;  ///< of a dict
  const SliceArg& slice() const;

  /// Number kind of a literal number or a number value.
  NumberKind number_kind() const;

  /// Structural equality; values by identity, dims by normal form, floats by bits (NaN equals NaN, 0.0 differs from
  /// -0.0).
  bool same(const Arg& other) const;

 private:
  struct ListBox;
  struct DictBox;
  std::variant<std::monostate, bool, Dim, double, std::complex<double>, std::string, thunder::DType, thunder::Device,
               thunder::Value, std::shared_ptr<const ListBox>, std::shared_ptr<const DictBox>,
               std::shared_ptr<const SliceArg>, ConstantArg, std::shared_ptr<const OpaqueArg>>
      v_;
};

struct SliceArg {
  Arg start, stop, step;
};

/// Calls `fn(Value)` for every value in the argument, in order, containers included.
template <class F>
void visit_values(const Arg& arg, F&& fn) {
  switch (arg.kind()) {
    case Arg::Kind::Value: fn(arg.value()); break;
    case Arg::Kind::List:
    case Arg::Kind::Tuple:
      for (const Arg& a : arg.items()) visit_values(a, fn);
      break;
    case Arg::Kind::Dict:
      for (const auto& [key, item] : arg.entries()) visit_values(item, fn);
      break;
    case Arg::Kind::Slice:
      visit_values(arg.slice().start, fn);
      visit_values(arg.slice().stop, fn);
      visit_values(arg.slice().step, fn);
      break;
    default: break;
  }
}

/// Symbols that dims inside the argument mention.
void for_each_symbol(const Arg& arg, const std::function<void(SymbolId)>& fn);
/// The argument with every value replaced by what `fn` gives.
Arg map_values(const Arg& arg, const std::function<Arg(Value)>& fn);
/// All values in the argument, in order.
std::vector<Value> values_in(const Arg& arg);

}  // namespace thunder
