// Index arithmetic of generated kernels: sums of atoms with constant factors, kept in normal form.
//
// An atom is a loop variable, a quotient or a remainder of an index by a size, a number loaded at run time, or an
// alias (an atom that stands for another index, known to be smaller than its range).  Every atom has an extent, so
// quotients and remainders vanish where ranges and factors allow: with 0 <= j < 8,
//
//   (64*r + 8*q + j) / 64            = r + q / 8
//   64*((8*q + j) / 64) + (8*q + j) % 64 = 8*q + j
//
// so that a chain of views over a contiguous tensor ends as the loop variable itself, and a load from eight lanes in a
// row is seen to be one vector load.
//
// Factors, divisors and extents are sizes, which may be symbolic.  A simplification is made where it holds whatever the
// symbols are: with 0 <= s < n, (n*b + s) / n = b.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuser/size.h"

namespace thunder::fuser {

class Indices;

/// Thrown where a group does not fit one kernel.
struct Refused {};

/// How often an index changes in the loop nest of a kernel: once a row, once a chunk of lanes, once a lane.
enum class LoopScope : uint8_t { Row, Chunk, Lane };

/// A quotient or remainder by a power of two is a shift.
enum class Division : uint8_t { None, Shift, Other };

class Index {
 public:
  Index(Size constant = 0) : constant_(std::move(constant)) {}
  Index(int64_t constant) : constant_(constant) {}
  Index(int constant) : constant_(constant) {}
  struct Term {
    int32_t atom;
    Size factor;
    friend bool operator==(const Term& a, const Term& b) { return a.atom == b.atom && a.factor == b.factor; }
  };
  const Size& constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  Size factor_of(int32_t atom) const;
  /// Text that is the same for equal indices.
  std::string key() const;
  void add_key(std::string& out) const;
  friend bool operator==(const Index& a, const Index& b) { return a.constant_ == b.constant_ && a.terms_ == b.terms_; }

 private:
  friend class Indices;
  Size constant_;
  std::vector<Term> terms_;  // sorted by atom, no factor is 0
};

/// Owns the atoms of one kernel.
class Indices {
 public:
  /// A loop variable in [0, extent); one of extent 1 is 0.
  Index variable(std::string name, const Size& extent, LoopScope scope);
  /// A number that the kernel computes, in [0, extent).
  Index dynamic(std::string name, const Size& extent, LoopScope scope);
  /// The same number, known to be in [0, extent) where it is used.
  Index bounded(const Index& e, const Size& extent, const Size& lanes);

  Index add(const Index& a, const Index& b);
  /// An atom by its number.
  Index term(int32_t atom) const;
  Index mul(const Index& a, const Size& factor) const;
  /// Refused where `e` may be negative for all that is known.
  Index div(const Index& e, const Size& by);
  Index mod(const Index& e, const Size& by);

  /// Nothing where a factor may have either sign.
  std::optional<Size> min(const Index& e) const;
  std::optional<Size> max(const Index& e) const;
  /// Whether it is surely in [0, extent).
  bool within(const Index& e, const Size& extent) const;
  LoopScope scope(const Index& e) const;
  /// Whether it is known without numbers that the kernel computes; with `rows`, those of a whole row may be in it.
  bool fixed(const Index& e, bool rows = false) const;
  bool depends_on(const Index& e, int32_t variable) const;
  /// Whether it is known from this loop variable alone.
  bool depends_only_on(const Index& e, int32_t variable) const;
  /// Whether a part of it is known to be smaller than its range (bounded()), which holds only where it is used.
  bool assumes(const Index& e) const;
  /// Whether it grows by one with the variable, but for where a remainder begins anew.
  bool steps_with(const Index& e, int32_t variable) const;
  /// C++ text with the lane variable replaced by `lane` where it is not empty.
  std::string text(const Index& e) const;
  std::string text(const Size& size) const { return names_.text(size); }
  /// The symbolic sizes that text() has named.
  const NamedSizes& names() const { return names_; }
  /// Whether every term, and the constant, is a multiple of `n`, the term of `without` aside.
  bool multiple_of(const Index& e, int64_t n, int32_t without = -1) const;
  /// The costliest division within a row that text() has written since the last forget_divisions(), and the greatest
  /// number that all of their divisors are multiples of.
  Division division() const { return division_; }
  int64_t common_divisor() const { return common_divisor_; }
  void forget_divisions() { division_ = Division::None, common_divisor_ = 0; }
  /// The atom of a loop variable.
  static int32_t atom(const Index& variable) { return variable.terms().at(0).atom; }

 private:
  struct Atom {
    enum Kind { Variable, Div, Mod, Alias } kind;
    std::string name;  // of a variable
    Index of;          // of the others
    Size by;
    Size extent;
    LoopScope scope = LoopScope::Row;
    bool fixed = true;
  };
  const Atom& atom_of(const Index::Term& t) const { return atoms_[static_cast<size_t>(t.atom)]; }
  Index single(Atom atom);
  /// Splits e into by*quotient + rest, the rest as small as can be seen, and never negative.
  void split(const Index& e, const Size& by, Index& quotient, Index& rest) const;
  /// A divisor g of `by` such that rest = g*high + low with 0 <= low < g; 1 if there is none but that.
  Size common(const Index& rest, const Size& by, Index& high, Index& low) const;
  Size extent_of_quotient(const Index& e, const Size& by) const;
  Index joined(Index sum);
  void note_division(const Atom& a) const;

  std::deque<Atom> atoms_;  // one may be looked at while others are made
  mutable NamedSizes names_;
  mutable Division division_ = Division::None;
  mutable int64_t common_divisor_ = 0;
};

}  // namespace thunder::fuser
