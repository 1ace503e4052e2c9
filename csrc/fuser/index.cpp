#include "fuser/index.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace thunder::fuser {
Size Index::factor_of(int32_t atom) const {
  for (const Term& t : terms_)
    if (t.atom == atom) return t.factor;
  return 0;
}

void Index::add_key(std::string& out) const {
  constant_.add_key(out);
  for (const Term& t : terms_) {
    out += '+';
    t.factor.add_key(out);
    out += 'a';
    out += std::to_string(t.atom);
  }
}

std::string Index::key() const {
  std::string out;
  add_key(out);
  return out;
}

Index Indices::term(int32_t atom) const {
  Index e;
  e.terms_ = {{atom, 1}};
  return e;
}

Index Indices::single(Atom atom) {
  for (size_t i = 0; i < atoms_.size(); ++i) {
    const Atom& a = atoms_[i];
    if (a.kind == atom.kind && a.name == atom.name && a.of == atom.of && a.by == atom.by && a.extent == atom.extent)
      return term(static_cast<int32_t>(i));
  }
  atoms_.push_back(std::move(atom));
  return term(static_cast<int32_t>(atoms_.size() - 1));
}

Index Indices::variable(std::string name, const Size& extent, LoopScope scope) {
  if (extent.is(1)) return 0;
  return single({Atom::Variable, std::move(name), {}, 0, extent, scope});
}

Index Indices::dynamic(std::string name, const Size& extent, LoopScope scope) {
  return single({Atom::Variable, std::move(name), {}, 0, extent.is(0) ? Size(1) : extent, scope, false});
}

Index Indices::bounded(const Index& e, const Size& extent, const Size& lanes) {
  if (within(e, extent)) return e;
  if (extent.is(1)) return 0;
  // The lanes stay visible, so that loads from them are still seen to be neighbours.
  if (const std::optional<Size> groups = quotient(extent, lanes); groups && !lanes.is(1)) {
    Index high, low;
    split(e, lanes, high, low);
    if (within(low, lanes)) return add(mul(single({Atom::Alias, {}, high, 0, *groups, scope(high)}), lanes), low);
  }
  return single({Atom::Alias, {}, e, 0, extent, scope(e)});
}

Index Indices::add(const Index& a, const Index& b) {
  Index sum;
  sum.constant_ = a.constant_ + b.constant_;
  auto i = a.terms_.begin();
  auto j = b.terms_.begin();
  while (i != a.terms_.end() || j != b.terms_.end()) {
    if (j == b.terms_.end() || (i != a.terms_.end() && i->atom < j->atom)) {
      sum.terms_.push_back(*i++);
    } else if (i == a.terms_.end() || j->atom < i->atom) {
      sum.terms_.push_back(*j++);
    } else {
      if (const Size f = i->factor + j->factor; !f.is(0)) sum.terms_.push_back({i->atom, f});
      ++i, ++j;
    }
  }
  return joined(std::move(sum));
}

// f*d*(X / d) + f*(X % d) is f*X, and f*d*((X / d) % e) + f*(X % d) is f*(X % (d*e)).
Index Indices::joined(Index sum) {
  for (const Index::Term& t : sum.terms_) {
    const Atom& a = atom_of(t);
    if (a.kind != Atom::Mod) continue;
    Index quotient = div(a.of, a.by);
    const auto again = std::find_if(sum.terms_.begin(), sum.terms_.end(), [&](const Index::Term& u) {
      return atom_of(u).kind == Atom::Mod && u.factor == t.factor * a.by && atom_of(u).of == quotient;
    });
    if (again != sum.terms_.end()) {
      const Index whole = mul(mod(a.of, a.by * atom_of(*again).by), t.factor);
      const int32_t both[] = {t.atom, again->atom};
      std::erase_if(sum.terms_, [&](const Index::Term& u) { return u.atom == both[0] || u.atom == both[1]; });
      return add(sum, whole);
    }
    if (!quotient.constant_.is(0) || quotient.terms_.size() != 1 || !quotient.terms_[0].factor.is(1)) continue;
    if (!(sum.factor_of(quotient.terms_[0].atom) == t.factor * a.by)) continue;
    const int32_t mod = t.atom, div = quotient.terms_[0].atom;
    const Size factor = t.factor;
    const Index of = a.of;
    std::erase_if(sum.terms_, [&](const Index::Term& u) { return u.atom == mod || u.atom == div; });
    return add(sum, mul(of, factor));
  }
  return sum;
}

Index Indices::mul(const Index& a, const Size& factor) const {
  Index out;
  if (factor.is(0)) return out;
  out = a;
  out.constant_ *= factor;
  for (Index::Term& t : out.terms_) t.factor *= factor;
  return out;
}

void Indices::split(const Index& e, const Size& by, Index& quotient, Index& rest) const {
  quotient = rest = Index();
  fuser::split(e.constant_, by, quotient.constant_, rest.constant_);
  for (const Index::Term& t : e.terms_) {
    if (const std::optional<Size> exact = fuser::quotient(t.factor, by)) quotient.terms_.push_back({t.atom, *exact});
    else rest.terms_.push_back(t);
  }
  // C++ rounds quotients of negative numbers up, so the rest must not be negative.
  const std::optional<Size> least = min(rest);
  if (!least) throw Refused();
  if (surely_at_least(*least, 0)) return;
  const Size up = least->is_number() && by.is_number() ? (by.number() - 1 - least->number()) / by.number() : 1;
  quotient.constant_ = quotient.constant_ - up;
  rest.constant_ = rest.constant_ + up * by;
  if (!surely_at_least(*least + up * by, 0)) throw Refused();
}

Size Indices::common(const Index& rest, const Size& by, Index& high, Index& low) const {
  // The terms with the greatest factors may have a divisor in common with `by` that bounds the others.
  std::vector<Index::Term> terms = rest.terms_;
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return std::abs(usual(a.factor)) > std::abs(usual(b.factor)); });
  for (size_t take = terms.size(); take > 0; --take) {
    Size g = by;
    for (size_t i = 0; i < take; ++i) g = common_factor(g, terms[i].factor);
    if (g.is(1)) continue;
    split(rest, g, high, low);
    if (within(low, g)) return g;
  }
  return 1;
}

Size Indices::extent_of_quotient(const Index& e, const Size& by) const {
  const std::optional<Size> most = max(e);
  if (!most) throw Refused();
  if (most->is_number() && by.is_number()) return most->number() / by.number() + 1;
  if (const std::optional<Size> exact = quotient(*most + 1, by)) return *exact;
  return Size(floordiv(most->dim(), by.dim())) + 1;
}

Index Indices::div(const Index& e, const Size& by) {
  if (by.is(1)) return e;
  Index quotient, rest;
  split(e, by, quotient, rest);
  if (within(rest, by)) return joined(quotient);
  Index high, low;
  if (const Size g = common(rest, by, high, low); !g.is(1)) return add(quotient, div(high, *fuser::quotient(by, g)));
  if (rest.terms_.size() == 1 && rest.constant_.is(0) && rest.terms_[0].factor.is(1)) {
    const Atom a = atom_of(rest.terms_[0]);
    if (a.kind == Atom::Div) return add(quotient, div(a.of, a.by * by));
  }
  return add(quotient, single({Atom::Div, {}, rest, by, extent_of_quotient(rest, by), scope(rest)}));
}

Index Indices::mod(const Index& e, const Size& by) {
  if (by.is(1)) return 0;
  Index quotient, rest;
  split(e, by, quotient, rest);
  if (within(rest, by)) return joined(rest);
  Index high, low;
  if (const Size g = common(rest, by, high, low); !g.is(1)) return add(mul(mod(high, *fuser::quotient(by, g)), g), low);
  return single({Atom::Mod, {}, rest, by, by, scope(rest)});
}

std::optional<Size> Indices::min(const Index& e) const {
  Size m = e.constant_;
  for (const Index::Term& t : e.terms_) {
    if (surely_at_least(t.factor, 0)) continue;
    if (!surely_at_least(0, t.factor)) return std::nullopt;
    m += t.factor * (atom_of(t).extent - 1);
  }
  return m;
}

std::optional<Size> Indices::max(const Index& e) const {
  Size m = e.constant_;
  for (const Index::Term& t : e.terms_) {
    if (surely_at_least(0, t.factor)) continue;
    if (!surely_at_least(t.factor, 0)) return std::nullopt;
    m += t.factor * (atom_of(t).extent - 1);
  }
  return m;
}

bool Indices::within(const Index& e, const Size& extent) const {
  const std::optional<Size> least = min(e), most = max(e);
  return least && most && surely_at_least(*least, 0) && surely_below(*most, extent);
}

LoopScope Indices::scope(const Index& e) const {
  LoopScope s = LoopScope::Row;
  for (const Index::Term& t : e.terms_) s = std::max(s, atoms_[static_cast<size_t>(t.atom)].scope);
  return s;
}

bool Indices::fixed(const Index& e, bool rows) const {
  return std::all_of(e.terms_.begin(), e.terms_.end(), [&](const Index::Term& t) {
    const Atom& a = atoms_[static_cast<size_t>(t.atom)];
    return a.kind == Atom::Variable ? a.fixed || (rows && a.scope == LoopScope::Row) : fixed(a.of, rows);
  });
}

bool Indices::depends_on(const Index& e, int32_t variable) const {
  return std::any_of(e.terms_.begin(), e.terms_.end(), [&](const Index::Term& t) {
    const Atom& a = atom_of(t);
    return a.kind == Atom::Variable ? t.atom == variable || !a.fixed : depends_on(a.of, variable);
  });
}

bool Indices::depends_only_on(const Index& e, int32_t variable) const {
  return std::all_of(e.terms_.begin(), e.terms_.end(), [&](const Index::Term& t) {
    const Atom& a = atom_of(t);
    return a.kind == Atom::Variable ? t.atom == variable : depends_only_on(a.of, variable);
  });
}

bool Indices::assumes(const Index& e) const {
  return std::any_of(e.terms_.begin(), e.terms_.end(), [&](const Index::Term& t) {
    const Atom& a = atom_of(t);
    return a.kind == Atom::Alias || (a.kind != Atom::Variable && assumes(a.of));
  });
}

bool Indices::steps_with(const Index& e, int32_t variable) const {
  return std::any_of(e.terms_.begin(), e.terms_.end(), [&](const Index::Term& t) {
    const Atom& a = atom_of(t);
    if (!t.factor.is(1) || a.kind == Atom::Div) return false;
    return a.kind == Atom::Variable ? t.atom == variable : steps_with(a.of, variable);
  });
}

bool Indices::multiple_of(const Index& e, int64_t n, int32_t without) const {
  if (!divides(n, e.constant_)) return false;
  return std::all_of(e.terms_.begin(), e.terms_.end(),
                     [&](const Index::Term& t) { return t.atom == without || divides(n, t.factor); });
}

void Indices::note_division(const Atom& a) const {
  if ((a.kind != Atom::Div && a.kind != Atom::Mod) || a.scope == LoopScope::Row) return;
  const bool shifts = a.by.is_number() && (a.by.number() & (a.by.number() - 1)) == 0;
  division_ = std::max(division_, shifts ? Division::Shift : Division::Other);
  // A remainder of quotients changes where they do.
  const bool of_quotients =
      a.kind == Atom::Mod && std::none_of(a.of.terms_.begin(), a.of.terms_.end(), [&](const Index::Term& u) {
        const Atom& inner = atom_of(u);
        return inner.kind != Atom::Div && inner.scope != LoopScope::Row;
      });
  if (!of_quotients) common_divisor_ = a.by.is_number() ? std::gcd(common_divisor_, a.by.number()) : 1;
}

std::string Indices::text(const Index& e) const {
  std::string out;
  for (const Index::Term& t : e.terms_) {
    const Atom& a = atom_of(t);
    note_division(a);
    std::string atom;
    switch (a.kind) {
      case Atom::Variable: atom = a.name; break;
      case Atom::Div: atom = "(" + text(a.of) + ") / " + text(a.by); break;
      case Atom::Mod: atom = "(" + text(a.of) + ") % " + text(a.by); break;
      case Atom::Alias: atom = "(" + text(a.of) + ")"; break;
    }
    const bool negative = surely_below(t.factor, 0);
    if (!out.empty()) out += negative ? " - " : " + ";
    else if (negative) out += "-";
    const Size f = negative ? -t.factor : t.factor;
    out += f.is(1) ? (a.kind == Atom::Div || a.kind == Atom::Mod ? "(" + atom + ")" : atom)
                   : text(f) + " * " + (a.kind == Atom::Variable || a.kind == Atom::Alias ? atom : "(" + atom + ")");
  }
  if (out.empty()) return text(e.constant_);
  if (e.constant_.is(0)) return out;
  return surely_below(e.constant_, 0) ? out + " - " + text(-e.constant_) : out + " + " + text(e.constant_);
}

}  // namespace thunder::fuser
