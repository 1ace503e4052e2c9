// How a symbolic size is made: for the files that compute with Dim, and nobody else.
//
// An expression is a sum of terms: a coefficient and a product of atoms.  Atoms are symbols and the functions that a
// polynomial cannot express.  Terms are sorted by their product, so equal expressions are equal term by term.
#pragma once

#include <vector>

#include "core/dim.h"

namespace thunder {

struct SymAtom {
  enum Kind : uint8_t { Symbol, FloorDiv, Mod, Max, Min } kind;
  SymbolId symbol = 0;
  Dim left, right;
};

using AtomPtr = std::shared_ptr<const SymAtom>;

struct SymTerm {
  std::vector<AtomPtr> atoms;  // sorted; empty: the constant term
  int64_t coefficient = 0;
};

class SymExpr {
 public:
  std::vector<SymTerm> terms;
};

namespace sym {

/// A constant as an expression of one term, or of none.
SymExpr as_expr(const Dim& d);
/// Negative, 0 or positive, in the order in which atoms stand in a term.
int compare(const SymAtom& a, const SymAtom& b);
/// Sorts and merges.
Dim from_terms(std::vector<SymTerm> terms);
/// Python's floor division, remainder, maximum, minimum of integers.
int64_t evaluate(SymAtom::Kind kind, int64_t a, int64_t b);

}  // namespace sym
}  // namespace thunder
