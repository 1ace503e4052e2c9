// How symbolic sizes are made: sorted terms, so that equal expressions are equal term by term.
#include "core/sym_expr.h"

#include <doctest.h>

namespace thunder {
namespace {

struct Symbols {
  ShapeEnv env;
  ShapeEnv::Scope scope{env};
  Dim s = env.make_symbol(6, "s"), t = env.make_symbol(5, "t");
};

const SymAtom& atom(const Dim& d) { return *d.expr()->terms.at(0).atoms.at(0); }

TEST_CASE("as_expr: a constant is one term without atoms, 0 is none") {
  CHECK(sym::as_expr(0).terms.empty());
  const SymExpr e = sym::as_expr(-5);
  REQUIRE(e.terms.size() == 1);
  CHECK(e.terms[0].atoms.empty());
  CHECK(e.terms[0].coefficient == -5);
}

TEST_CASE("sym_expr: equal expressions are equal term by term, however they were made") {
  Symbols d;
  const SymExpr a = sym::as_expr((d.s + 1) * (d.t + floordiv(d.s, 2)) - 3);
  const SymExpr b = sym::as_expr(floordiv(d.s, 2) - 3 + d.t + d.s * d.t + floordiv(d.s, 2) * d.s);
  REQUIRE(a.terms.size() == 5);
  REQUIRE(b.terms.size() == 5);
  for (size_t i = 0; i < a.terms.size(); ++i) {
    CHECK(a.terms[i].coefficient == b.terms[i].coefficient);
    REQUIRE(a.terms[i].atoms.size() == b.terms[i].atoms.size());
    for (size_t j = 0; j < a.terms[i].atoms.size(); ++j)
      CHECK(sym::compare(*a.terms[i].atoms[j], *b.terms[i].atoms[j]) == 0);
  }
}

TEST_CASE("from_terms: sorts and merges") {
  Symbols d;
  const SymTerm one_s = d.s.expr()->terms[0], one_t = d.t.expr()->terms[0];
  const auto times = [](SymTerm term, int64_t n) {
    term.coefficient = n;
    return term;
  };
  const SymTerm constant{{}, 4};
  CHECK(sym::from_terms({}).same(0));
  CHECK(sym::from_terms({constant}).same(4));
  CHECK(sym::from_terms({constant, constant}).same(8));
  CHECK(sym::from_terms({constant, one_t, times(one_s, 2), one_t}).same(2 * d.s + 2 * d.t + 4));
  CHECK(sym::from_terms({one_s, constant}).same(sym::from_terms({constant, one_s})));
}

TEST_CASE("from_terms: terms that cancel leave nothing, and a sum without symbols is a constant") {
  Symbols d;
  SymTerm one_s = d.s.expr()->terms[0], minus_s = one_s;
  minus_s.coefficient = -1;
  const Dim constant = sym::from_terms({one_s, {{}, 7}, minus_s});
  CHECK(constant.is_constant());
  CHECK(constant.constant() == 7);
  CHECK(sym::from_terms({one_s, minus_s}).is_constant());
}

TEST_CASE("compare: an order of atoms, 0 for those that mean the same alone") {
  Symbols d;
  const std::vector<Dim> atoms = {d.s, d.t, floordiv(d.s, 2), floordiv(d.s, 3), floordiv(d.t, 2), mod(d.s, 2)};
  for (size_t i = 0; i < atoms.size(); ++i)
    for (size_t j = 0; j < atoms.size(); ++j) {
      CAPTURE(i);
      CAPTURE(j);
      const int c = sym::compare(atom(atoms[i]), atom(atoms[j]));
      CHECK((c == 0) == (i == j));
      CHECK((c < 0) == (sym::compare(atom(atoms[j]), atom(atoms[i])) > 0));
      for (const Dim& k : atoms)
        if (c < 0 && sym::compare(atom(atoms[j]), atom(k)) < 0) CHECK(sym::compare(atom(atoms[i]), atom(k)) < 0);
    }
  CHECK(sym::compare(atom(floordiv(d.s + d.t, 2)), atom(floordiv(d.t + d.s, 2))) == 0);
}

TEST_CASE("evaluate: Python's quotients and remainders, maximum and minimum") {
  for (int64_t a = -7; a <= 7; ++a)
    for (int64_t b : {-3, -1, 1, 2, 5}) {
      CAPTURE(a);
      CAPTURE(b);
      const int64_t q = sym::evaluate(SymAtom::FloorDiv, a, b), r = sym::evaluate(SymAtom::Mod, a, b);
      CHECK(q * b + r == a);
      CHECK((b > 0 ? 0 <= r && r < b : b < r && r <= 0));
      CHECK(sym::evaluate(SymAtom::Max, a, b) == (a > b ? a : b));
      CHECK(sym::evaluate(SymAtom::Min, a, b) == (a < b ? a : b));
    }
}

}  // namespace
}  // namespace thunder
