// Sizes in generated kernels: numbers, or expressions that each launch evaluates.
//
// Two sizes are equal where their normal forms are, and in an order where that holds whatever the symbols are; nothing
// here asks what a symbol is in the call being compiled, except usual(), which is for choices that any outcome suits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dim.h"

namespace thunder::fuser {

class Size {
 public:
  Size(int64_t number = 0) : number_(number) {}
  Size(int number) : number_(number) {}
  Size(const Dim& dim) : number_(dim.is_constant() ? dim.constant() : 0), expr_(dim.expr()) {}

  bool is_number() const { return !expr_; }
  /// Only of a number.
  int64_t number() const { return number_; }
  Dim dim() const { return expr_ ? Dim(expr_) : Dim(number_); }
  bool is(int64_t number) const { return !expr_ && number_ == number; }
  /// Appends text that is the same for equal sizes.
  void add_key(std::string& out) const;

  friend Size operator+(const Size& a, const Size& b) {
    return a.is_number() && b.is_number() ? Size(a.number_ + b.number_) : Size(a.dim() + b.dim());
  }
  friend Size operator-(const Size& a, const Size& b) {
    return a.is_number() && b.is_number() ? Size(a.number_ - b.number_) : Size(a.dim() - b.dim());
  }
  friend Size operator*(const Size& a, const Size& b) {
    return a.is_number() && b.is_number() ? Size(a.number_ * b.number_) : Size(a.dim() * b.dim());
  }
  Size operator-() const { return Size(0) - *this; }
  /// Surely equal.
  friend bool operator==(const Size& a, const Size& b) {
    if (a.is_number() && b.is_number()) return a.number_ == b.number_;
    return !a.is_number() && !b.is_number() && a.dim().same(b.dim());
  }
  Size& operator+=(const Size& b) { return *this = *this + b; }
  Size& operator*=(const Size& b) { return *this = *this * b; }

 private:
  int64_t number_ = 0;
  SymPtr expr_;
};

using Sizes = std::vector<Size>;

/// Whether a >= b, whatever the symbols are.
bool surely_at_least_symbolic(const Size& a, const Size& b);
inline bool surely_at_least(const Size& a, const Size& b) {
  return a.is_number() && b.is_number() ? a.number() >= b.number() : surely_at_least_symbolic(a, b);
}
inline bool surely_below(const Size& a, const Size& b) {
  return a.is_number() && b.is_number() ? a.number() < b.number() : surely_at_least_symbolic(b, a + Size(1));
}
/// a / by where `by` divides every term of a.
std::optional<Size> symbolic_quotient(const Size& a, const Size& by);
inline bool divides(const Size& by, const Size& a) {
  if (a.is_number() && by.is_number()) return by.number() != 0 && a.number() % by.number() == 0;
  return symbolic_quotient(a, by).has_value();
}
inline std::optional<Size> quotient(const Size& a, const Size& by) {
  if (!a.is_number() || !by.is_number()) return symbolic_quotient(a, by);
  return divides(by, a) ? std::optional<Size>(a.number() / by.number()) : std::nullopt;
}
/// a = by * quotient + rest, with all terms that `by` divides in the quotient; of numbers 0 <= rest < by.
void split(const Size& a, const Size& by, Size& quotient, Size& rest);
/// The greatest divisor of both that is a number times symbols; of 0 and a it is a.
Size common_factor(const Size& a, const Size& b);
/// What it is in the call being compiled; a usual length stands for what only a run can tell.
int64_t usual(const Size& a);

/// The symbolic sizes that a kernel's text names: n0, n1 and so on, which are arguments of a launch.
class NamedSizes {
 public:
  /// "128", or the name, which is new if need be.
  std::string text(const Size& size);
  /// The name of a size that has one, or a number.
  std::string known(const Size& size) const;
  const Sizes& all() const { return all_; }
  bool empty() const { return all_.empty(); }

 private:
  Sizes all_;
};

}  // namespace thunder::fuser
