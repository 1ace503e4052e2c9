// What calls of one program may differ in: sizes, strides and numbers.
//
// A call's key leaves these numbers out; they are the call's tuple of numbers.  With cache="symbolic values" the key says
// of every size whether it is 0, 1 or more, and of every stride how it follows from sizes, and the tuple has the rest.
// With cache="varying values" the tuple has all sizes and strides (but for empty tensors), and earlier calls tell which
// of them vary (jit/varying.h).
//
// Compiling binds each number of the tuple to a symbol.  A number that does not vary, or on which the program depends, is
// bound to its value, or to another number that it must equal.  All other comparisons of symbols are guards.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/number.h"
#include "core/type.h"
#include "runtime/guards.h"

namespace thunder {

/// The sizes and strides of a tensor apart from their values.
class SymbolicLayout {
 public:
  /// Appends to `ints` what the layout does not say.  `whole`: that is all sizes and then all strides.
  SymbolicLayout(const at::Tensor& tensor, std::vector<int64_t>& ints, bool whole);
  void add_to(Fingerprint& f) const;
  /// "[n, 1, n] strides=[n, n, 1]", with n for what may be 2 or more, and words for a stride that follows from another.
  std::string str() const;
  /// Says of each int that the constructor appended what it is.
  void add_labels(const std::string& tensor, std::vector<std::string>& labels) const;
  /// `ints`: a Dim for each int of the vector to which the constructor appended.
  TensorType type(const at::Tensor& tensor, const Dims& ints) const;

 private:
  struct Extent {
    enum Kind : uint8_t { Constant, Int, Product } kind = Constant;  ///< Product: stride and size of dimension `at`
    int64_t at = 0;                                                  ///< the constant, or an index
  };
  void find_stride(size_t i, c10::IntArrayRef sizes, c10::IntArrayRef strides, const std::vector<bool>& known,
                   std::vector<int64_t>& ints);
  c10::SmallVector<Extent, 6> sizes_, strides_;
};

/// The tuple of numbers of a call.
struct Numbers {
  std::vector<int64_t> ints;
  std::vector<double> floats;
  uint64_t hash() const;
  friend bool operator==(const Numbers&, const Numbers&) = default;
};

/// What an int of the tuple is in a program.
struct IntBinding {
  enum Kind : uint8_t { Symbol, Constant, Same, Product } kind = Symbol;
  size_t other = 0, by = 0;  ///< Same: an earlier int; Product: two earlier ints, a stride and the size there
  size_t size = 0;           ///< Product: that of the dimension, whose stride nobody reads where it is 1
  bool may_be_one = false;   ///< a symbol for a size that is 1 in some calls (ShapeEnv::make_size)
};

/// What the numbers of a call are to a program that is being compiled, and the guards on them once it is.
class Symbols {
 public:
  /// All of them symbols, or all constants.
  Symbols(const Numbers& numbers, bool constant);
  /// `constant_floats`: of each float, whether it is a constant.
  Symbols(const Numbers& numbers, std::vector<IntBinding> ints, std::vector<char> constant_floats);

  /// What each int is, for explanations.
  std::vector<std::string> labels;
  const Numbers& numbers() const { return numbers_; }
  bool constant() const { return constant_; }
  /// Binds each int anew: `make_symbol` gives one for a hint, and whether it may be 1.
  template <class F>
  void bind(F&& make_symbol) {
    dims_.assign(ints_.size(), Dim());
    index_.clear();
    for (size_t i = 0; i < ints_.size(); ++i) {
      const IntBinding& b = ints_[i];
      if (b.kind == IntBinding::Constant) dims_[i] = numbers_.ints[i];
      if (b.kind == IntBinding::Same) dims_[i] = dims_[b.other];
      if (b.kind != IntBinding::Symbol) continue;
      dims_[i] = make_symbol(numbers_.ints[i], b.may_be_one);
      index_[dims_[i].symbols().at(0)] = i;
    }
    for (size_t i = 0; i < ints_.size(); ++i)
      if (ints_[i].kind == IntBinding::Product) dims_[i] = product(i);
  }
  const Dims& dims() const { return dims_; }
  bool is_constant_float(size_t i) const { return floats_[i] != 0; }

  /// Whether the guards say that a symbol is another or a constant; from the next bind() on it is.
  bool learn(const ShapeEnv& env);
  /// The guards of `env` must hold from now on, except those for which `other_dims` or `other_numbers` is true: others
  /// check them.
  void keep_guards(const ShapeEnv& env, const std::function<bool(const DimGuard&)>& other_dims,
                   const std::function<bool(const NumberGuard&)>& other_numbers);
  /// Whether the program runs on such numbers; else `why` not.
  bool hold(const Numbers& numbers, std::string* why) const;
  /// The place of a symbol among the ints; nothing for what is no lone symbol.
  std::optional<size_t> index(SymbolId id) const;
  std::optional<size_t> index(const Dim& size) const;
  NumberExpr::Values values(const Numbers& numbers) const;
  /// The guards as text, with the lines that asked.
  std::vector<std::string> text() const;
  /// "s0: size 1 of tensor argument 0", of each symbol; within the environment that made them.
  std::vector<std::string> symbol_text() const;
  /// Whether the program depends on the value of an int.
  bool learned(size_t i) const { return ints_[i].kind == IntBinding::Constant && reasons_.count(i) != 0; }
  bool is_symbol(size_t i) const { return ints_[i].kind == IntBinding::Symbol; }
  bool any_symbol() const;

 private:
  Dim product(size_t i) const {
    const IntBinding& b = ints_[i];
    return b.kind == IntBinding::Product ? product(b.other) * product(b.by) : dims_[i];
  }
  bool learn_one(const DimGuard& g);
  bool learn_ints(const DimGuard& g);
  std::string describe(size_t i) const;
  std::string explain(const DimGuard& g) const;

  Numbers numbers_;
  bool constant_;
  std::vector<IntBinding> ints_;
  std::vector<char> floats_;  // whether it is a constant
  Dims dims_;
  std::unordered_map<SymbolId, size_t> index_;
  std::vector<DimGuard> guards_;
  std::vector<NumberGuard> number_guards_;
  std::vector<SizeCheck> checks_;
  std::vector<std::string> texts_;                   // of guards_, then of number_guards_
  std::unordered_map<size_t, std::string> reasons_;  // why an int is bound as it is
  std::unordered_map<size_t, std::string> float_reasons_;
};

}  // namespace thunder
