// Arithmetic with symbolic sizes that decides nothing: unlike the comparisons of Dim it records no guard, asks for no
// symbol, and says no more than what holds whatever the symbols are.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "core/dim.h"

namespace thunder {

/// The value for these values of the symbols; no Dim is made on the way.
int64_t evaluate(const Dim& d, const std::function<int64_t(SymbolId)>& value_of);

/// A value that `d` is never below, if one is seen: with each symbol at or above ShapeEnv::least(), or 0.  Remainders, and
/// quotients, maxima and minima of what is never negative, are never negative.
std::optional<int64_t> least_value(const Dim& d);

/// a / b where b divides every term of a: (64*s0*s1) / (8*s0) = 8*s1.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b);

/// The quotient of those terms of `a` that `b` divides, and the other terms; a constant term by a constant as Python's
/// divmod().
std::pair<Dim, Dim> divided_terms(const Dim& a, const Dim& b);

/// The greatest monomial that divides every term of both: of 6*s0*s1 + 4*s0 and 8*s0 it is 2*s0.  Not both are 0.
Dim common_factor(const Dim& a, const Dim& b);

/// The value under the hints of the current environment, with `otherwise` for symbols without one; at most 2^62.
int64_t usual_value(const Dim& d, int64_t otherwise);

/// Whether only a run can tell it: a symbol of it is unbacked in the current environment.
bool known_in_run_alone(const Dim& d);

}  // namespace thunder
