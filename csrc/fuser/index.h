// Index arithmetic of generated kernels: sums of atoms with constant factors, kept in normal form.
//
// An atom is a loop variable, a quotient or a remainder of an index by a constant, a number loaded at run time, or an
// alias (an atom that stands for another index, known to be smaller than its range).  All extents are known, so
// quotients and remainders vanish where ranges and factors allow: with 0 <= j < 8,
//
//   (64*r + 8*q + j) / 64            = r + q / 8
//   64*((8*q + j) / 64) + (8*q + j) % 64 = 8*q + j
//
// so that a chain of views over a contiguous tensor ends as the loop variable itself, and a load from eight lanes in a
// row is seen to be one vector load.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace thunder::fuser {

class Indices;

/// How often an index changes in the loop nest of a kernel: once a row, once a chunk of lanes, once a lane.
enum class Scope : uint8_t { Row, Chunk, Lane };

/// A quotient or remainder by a power of two is a shift.
enum class Division : uint8_t { None, Shift, Other };

class Index {
 public:
  Index(int64_t constant = 0) : constant_(constant) {}
  struct Term {
    int32_t atom;
    int64_t factor;
    friend bool operator==(const Term&, const Term&) = default;
  };
  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  int64_t factor_of(int32_t atom) const;
  std::string key() const;
  friend bool operator==(const Index&, const Index&) = default;

 private:
  friend class Indices;
  int64_t constant_ = 0;
  std::vector<Term> terms_;  // sorted by atom, no factor is 0
};

/// Owns the atoms of one kernel.
class Indices {
 public:
  /// A loop variable in [0, extent); one of extent 1 is 0.
  Index variable(std::string name, int64_t extent, Scope scope);
  /// A number that the kernel computes, in [0, extent).
  Index dynamic(std::string name, int64_t extent, Scope scope);
  /// The same number, known to be in [0, extent) where it is used.
  Index bounded(const Index& e, int64_t extent, int64_t lanes);

  Index add(const Index& a, const Index& b);
  Index mul(const Index& a, int64_t factor) const;
  Index div(const Index& e, int64_t by);
  Index mod(const Index& e, int64_t by);

  int64_t min(const Index& e) const;
  int64_t max(const Index& e) const;
  Scope scope(const Index& e) const;
  /// Whether it is known without numbers that the kernel computes; with `rows`, those of a whole row may be in it.
  bool fixed(const Index& e, bool rows = false) const;
  /// C++ text with the lane variable replaced by `lane` where it is not empty.
  std::string text(const Index& e) const;
  /// Whether every term, and the constant, is a multiple of `n`, the term of `without` aside.
  bool multiple_of(const Index& e, int64_t n, int32_t without = -1) const;
  /// The costliest division within a row that text() has written, and the greatest number that all of their divisors are
  /// multiples of.
  Division division() const { return division_; }
  int64_t common_divisor() const { return common_divisor_; }
  /// The atom of a loop variable.
  static int32_t atom(const Index& variable) { return variable.terms().at(0).atom; }

 private:
  struct Atom {
    enum Kind { Variable, Div, Mod, Alias } kind;
    std::string name;  // of a variable
    Index of;          // of the others
    int64_t by = 0;
    int64_t extent = 0;
    Scope scope = Scope::Row;
    bool fixed = true;
  };
  Index single(Atom atom);
  /// Splits e into by*quotient + rest, the rest as small as can be seen.
  void split(const Index& e, int64_t by, Index& quotient, Index& rest) const;
  /// A divisor g of `by` such that rest = g*high + low with 0 <= low < g; 1 if there is none but that.
  int64_t common(const Index& rest, int64_t by, Index& high, Index& low) const;
  Index joined(Index sum);

  std::deque<Atom> atoms_;  // one may be looked at while others are made
  mutable Division division_ = Division::None;
  mutable int64_t common_divisor_ = 0;
};

}  // namespace thunder::fuser
