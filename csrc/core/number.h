// A Python number that a program computes from the numbers of a call: its sizes and its float arguments.
//
// Sizes are polynomials (Dim) as long as integers come out; what does not stay an integer (`n / 2`, `n ** 0.5`) and what
// starts as a float is an expression tree.  It is computed anew at each call, in Python's arithmetic, and given to the
// program as an input.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/dim.h"

namespace thunder {

class NumberExpr {
 public:
  enum class Op : uint8_t { Constant, Input, Size, Add, Sub, Mul, Div, FloorDiv, Mod, Pow, Call };

  /// A function of one number, computed as Python computes it where the number is from `least` to `most`.
  struct Function {
    const char* name;
    double (*apply)(double x, int64_t digits);  ///< `digits`: of round()
    double least, most;
  };

  /// What the leaves are in a call.
  struct Values {
    std::function<double(size_t)> input;
    std::function<Dim(SymbolId)> symbol;
  };

  static NumberPtr constant(double value);
  /// A float argument of the call.
  static NumberPtr input(size_t index);
  static NumberPtr of_size(Dim size);
  static NumberPtr binary(Op op, NumberPtr left, NumberPtr right);
  /// By its name in the module math, or "round"; null: there is none.
  static const Function* function(std::string_view name);
  static NumberPtr call(const Function& f, NumberPtr of, int64_t digits = 0);

  Op op() const { return op_; }
  size_t index() const { return index_; }
  const Dim& size() const { return size_; }
  /// Error (Value) where Python raises: a division by zero, a power that is no real number.
  double evaluate(const Values& values) const;
  double hinted(const ShapeEnv& env) const;
  std::string str() const;
  bool same(const NumberExpr& other) const;
  /// Calls `leaf` for each float argument and each symbol that the number is computed from.
  void visit(const std::function<void(const NumberExpr&)>& leaf) const;

 private:
  Op op_ = Op::Constant;
  double constant_ = 0;
  size_t index_ = 0;
  Dim size_;
  NumberPtr left_, right_;
  const Function* function_ = nullptr;
  int64_t digits_ = 0;
};

/// A comparison of such numbers on which a compiled program relies.
struct NumberGuard {
  enum Relation { Equal, Less, LessEqual } relation;
  bool outcome;
  NumberPtr left, right;
  std::string where = {};  ///< the user's line that asked
  std::string str() const;
  bool holds(const NumberExpr::Values& values) const;
  static bool compare(Relation relation, double left, double right);
};

}  // namespace thunder
