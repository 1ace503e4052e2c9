#include "core/dim_algebra.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/error.h"
#include "core/sym_expr.h"

namespace thunder {
namespace {

// Symbols that stand for atoms: no environment makes as many of its own.
constexpr SymbolId kStandsForAtom = SymbolId{1} << 31;

bool is_never_negative(const SymAtom& a) {
  const auto at_least = [](const Dim& d, int64_t n) {
    const std::optional<int64_t> low = least_value(d);
    return low && *low >= n;
  };
  switch (a.kind) {
    case SymAtom::Symbol: return true;
    case SymAtom::Mod: return at_least(a.right, 1);
    case SymAtom::FloorDiv: return at_least(a.left, 0) && at_least(a.right, 1);
    case SymAtom::Max: return at_least(a.left, 0) || at_least(a.right, 0);
    case SymAtom::Min: return at_least(a.left, 0) && at_least(a.right, 0);
  }
  return false;
}

// The expression with each atom as a symbol and its least value; nothing if an atom may be negative.
std::optional<Dim> above_least(const Dim& d) {
  Dim sum = 0;
  std::vector<AtomPtr> others;
  const ShapeEnv* env = ShapeEnv::current();
  for (const SymTerm& t : d.expr()->terms) {
    Dim product = t.coefficient;
    for (const AtomPtr& a : t.atoms) {
      if (a->kind == SymAtom::Symbol) {
        product = product * (Dim::symbol(a->symbol) + (env ? env->least(a->symbol) : 0));
        continue;
      }
      if (!is_never_negative(*a)) return std::nullopt;
      auto known =
          std::find_if(others.begin(), others.end(), [&](const AtomPtr& b) { return sym::compare(*a, *b) == 0; });
      if (known == others.end()) known = others.insert(known, a);
      product = product * Dim::symbol(kStandsForAtom + static_cast<SymbolId>(known - others.begin()));
    }
    sum = sum + product;
  }
  return sum;
}

// Whether `by` divides the coefficient, which is the quotient then.  The processor traps at what does not fit.
bool divide_exactly(int64_t& coefficient, int64_t by) {
  if (by == 0 || (by == -1 && coefficient == std::numeric_limits<int64_t>::min())) return false;
  if (coefficient % by != 0) return false;
  coefficient /= by;
  return true;
}

}  // namespace

int64_t evaluate(const Dim& d, const std::function<int64_t(SymbolId)>& value_of) {
  if (d.is_constant()) return d.constant();
  int64_t sum = 0;
  for (const SymTerm& t : d.expr()->terms) {
    int64_t product = t.coefficient;
    for (const AtomPtr& a : t.atoms) {
      if (a->kind == SymAtom::Symbol) {
        product *= value_of(a->symbol);
        continue;
      }
      const int64_t right = evaluate(a->right, value_of);
      const bool divides = a->kind == SymAtom::FloorDiv || a->kind == SymAtom::Mod;
      THUNDER_CHECK(!divides || right != 0, Runtime, "size", "division of ", a->left, " by zero");
      product *= sym::evaluate(a->kind, evaluate(a->left, value_of), right);
    }
    sum += product;
  }
  return sum;
}

std::optional<int64_t> least_value(const Dim& d) {
  if (d.is_constant()) return d.constant();
  const std::optional<Dim> rests = above_least(d);
  if (!rests) return std::nullopt;
  int64_t bound = 0;
  for (const SymTerm& t : sym::as_expr(*rests).terms) {
    if (t.atoms.empty()) bound = t.coefficient;
    else if (t.coefficient < 0) return std::nullopt;
  }
  return bound;
}

std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  if (b.is_constant()) {
    SymExpr e = sym::as_expr(a);
    for (SymTerm& t : e.terms)
      if (!divide_exactly(t.coefficient, b.constant())) return std::nullopt;
    return sym::from_terms(e.terms);
  }
  // A single-term divisor cancels against every term that holds its atoms: (64*s0*s1) over (8*s0).
  SymExpr eb = sym::as_expr(b), ea = sym::as_expr(a);
  if (eb.terms.size() != 1) return std::nullopt;
  const SymTerm& d = eb.terms[0];
  for (SymTerm& t : ea.terms) {
    if (!divide_exactly(t.coefficient, d.coefficient)) return std::nullopt;
    for (const AtomPtr& atom : d.atoms) {
      auto it =
          std::find_if(t.atoms.begin(), t.atoms.end(), [&](const AtomPtr& x) { return sym::compare(*x, *atom) == 0; });
      if (it == t.atoms.end()) return std::nullopt;
      t.atoms.erase(it);
    }
  }
  return sym::from_terms(ea.terms);
}

std::pair<Dim, Dim> divided_terms(const Dim& a, const Dim& b) {
  Dim quotient = 0, rest = 0;
  for (const SymTerm& t : sym::as_expr(a).terms) {
    const Dim term = sym::from_terms({t});
    if (term.is_constant() && b.is_constant()) {
      quotient += sym::evaluate(SymAtom::FloorDiv, term.constant(), b.constant());
      rest += sym::evaluate(SymAtom::Mod, term.constant(), b.constant());
    } else if (const std::optional<Dim> exact = exact_quotient(term, b)) {
      quotient += *exact;
    } else {
      rest += term;
    }
  }
  return {quotient, rest};
}

Dim common_factor(const Dim& a, const Dim& b) {
  SymTerm common;
  bool first = true;
  for (const Dim* d : {&a, &b})
    for (const SymTerm& t : sym::as_expr(*d).terms) {
      common.coefficient = std::gcd(common.coefficient, t.coefficient);
      if (std::exchange(first, false)) {
        common.atoms = t.atoms;
        continue;
      }
      std::vector<AtomPtr> left = t.atoms, shared;
      for (const AtomPtr& atom : common.atoms) {
        auto it =
            std::find_if(left.begin(), left.end(), [&](const AtomPtr& x) { return sym::compare(*x, *atom) == 0; });
        if (it == left.end()) continue;
        left.erase(it);
        shared.push_back(atom);
      }
      common.atoms = std::move(shared);
    }
  return sym::from_terms({std::move(common)});
}

int64_t usual_value(const Dim& d, int64_t otherwise) {
  if (d.is_constant()) return d.constant();
  constexpr double kMost = static_cast<double>(int64_t{1} << 62);
  const ShapeEnv* env = ShapeEnv::current();
  double sum = 0;
  for (const SymTerm& t : d.expr()->terms) {
    double product = static_cast<double>(t.coefficient);
    for (const AtomPtr& a : t.atoms)
      product *= static_cast<double>(a->kind == SymAtom::Symbol
                                         ? (env ? env->hint(a->symbol) : std::nullopt).value_or(otherwise)
                                         : sym::evaluate(a->kind, usual_value(a->left, otherwise),
                                                         a->kind == SymAtom::FloorDiv || a->kind == SymAtom::Mod
                                                             ? std::max<int64_t>(1, usual_value(a->right, otherwise))
                                                             : usual_value(a->right, otherwise)));
    sum += product;
  }
  return static_cast<int64_t>(std::clamp(sum, -kMost, kMost));
}

bool known_in_run_alone(const Dim& d) {
  const ShapeEnv* env = d.is_constant() ? nullptr : ShapeEnv::current();
  if (!env) return false;
  const std::vector<SymbolId> symbols = d.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [&](SymbolId s) { return env->is_unbacked(s); });
}

}  // namespace thunder
