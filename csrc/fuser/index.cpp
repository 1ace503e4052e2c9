#include "fuser/index.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace thunder::fuser {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

}  // namespace

int64_t Index::factor_of(int32_t atom) const {
  for (const Term& t : terms_)
    if (t.atom == atom) return t.factor;
  return 0;
}

std::string Index::key() const {
  std::string out = std::to_string(constant_);
  for (const Term& t : terms_) out += "+" + std::to_string(t.factor) + "a" + std::to_string(t.atom);
  return out;
}

Index Indices::single(Atom atom) {
  for (size_t i = 0; i < atoms_.size(); ++i) {
    const Atom& a = atoms_[i];
    if (a.kind == atom.kind && a.name == atom.name && a.of == atom.of && a.by == atom.by && a.extent == atom.extent) {
      Index e;
      e.terms_ = {{static_cast<int32_t>(i), 1}};
      return e;
    }
  }
  atoms_.push_back(std::move(atom));
  Index e;
  e.terms_ = {{static_cast<int32_t>(atoms_.size() - 1), 1}};
  return e;
}

Index Indices::variable(std::string name, int64_t extent, Scope scope) {
  if (extent == 1) return 0;
  return single({Atom::Variable, std::move(name), {}, 0, extent, scope});
}

Index Indices::dynamic(std::string name, int64_t extent, Scope scope) {
  return single({Atom::Variable, std::move(name), {}, 0, std::max<int64_t>(extent, 1), scope, false});
}

Index Indices::bounded(const Index& e, int64_t extent, int64_t lanes) {
  if (min(e) >= 0 && max(e) < extent) return e;
  if (extent == 1) return 0;
  // The lanes stay visible, so that loads from them are still seen to be neighbours.
  Index high, low;
  split(e, lanes, high, low);
  if (lanes > 1 && extent % lanes == 0 && min(low) >= 0 && max(low) < lanes)
    return add(mul(single({Atom::Alias, {}, high, 0, extent / lanes, scope(high)}), lanes), low);
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
      if (int64_t f = i->factor + j->factor) sum.terms_.push_back({i->atom, f});
      ++i, ++j;
    }
  }
  return joined(std::move(sum));
}

// f*d*(X / d) + f*(X % d) is f*X.
Index Indices::joined(Index sum) {
  for (const Index::Term& t : sum.terms_) {
    const Atom& a = atoms_[static_cast<size_t>(t.atom)];
    if (a.kind != Atom::Mod) continue;
    Index quotient = div(a.of, a.by);
    if (quotient.constant_ != 0 || quotient.terms_.size() != 1 || quotient.terms_[0].factor != 1) continue;
    if (sum.factor_of(quotient.terms_[0].atom) != t.factor * a.by) continue;
    const int32_t mod = t.atom, div = quotient.terms_[0].atom;
    const int64_t factor = t.factor;
    const Index of = a.of;
    std::erase_if(sum.terms_, [&](const Index::Term& u) { return u.atom == mod || u.atom == div; });
    return add(sum, mul(of, factor));
  }
  return sum;
}

Index Indices::mul(const Index& a, int64_t factor) const {
  Index out;
  if (factor == 0) return out;
  out = a;
  out.constant_ *= factor;
  for (Index::Term& t : out.terms_) t.factor *= factor;
  return out;
}

void Indices::split(const Index& e, int64_t by, Index& quotient, Index& rest) const {
  quotient = Index(floor_div(e.constant_, by));
  rest = Index(e.constant_ - quotient.constant_ * by);
  for (const Index::Term& t : e.terms_) {
    if (t.factor % by == 0) quotient.terms_.push_back({t.atom, t.factor / by});
    else rest.terms_.push_back(t);
  }
  // C++ rounds quotients of negative numbers up, so the rest must not be negative.
  if (const int64_t least = min(rest); least < 0) {
    const int64_t up = (by - 1 - least) / by;
    quotient.constant_ -= up;
    rest.constant_ += up * by;
  }
}

int64_t Indices::common(const Index& rest, int64_t by, Index& high, Index& low) const {
  // The terms with the greatest factors may have a divisor in common with `by` that bounds the others.
  std::vector<Index::Term> terms = rest.terms_;
  std::sort(terms.begin(), terms.end(),
            [](const auto& a, const auto& b) { return std::abs(a.factor) > std::abs(b.factor); });
  for (size_t take = terms.size(); take > 0; --take) {
    int64_t g = by;
    for (size_t i = 0; i < take; ++i) g = std::gcd(g, terms[i].factor);
    if (g <= 1) continue;
    split(rest, g, high, low);
    if (min(low) >= 0 && max(low) < g) return g;
  }
  return 1;
}

Index Indices::div(const Index& e, int64_t by) {
  if (by == 1) return e;
  Index quotient, rest;
  split(e, by, quotient, rest);
  if (min(rest) >= 0 && max(rest) < by) return joined(quotient);
  Index high, low;
  if (int64_t g = common(rest, by, high, low); g > 1) return add(quotient, div(high, by / g));
  if (rest.terms_.size() == 1 && rest.constant_ == 0 && rest.terms_[0].factor == 1) {
    const Atom a = atoms_[static_cast<size_t>(rest.terms_[0].atom)];
    if (a.kind == Atom::Div) return add(quotient, div(a.of, a.by * by));
  }
  const int64_t extent = max(rest) / by + 1;
  return add(quotient, single({Atom::Div, {}, rest, by, extent, scope(rest)}));
}

Index Indices::mod(const Index& e, int64_t by) {
  if (by == 1) return 0;
  Index quotient, rest;
  split(e, by, quotient, rest);
  if (min(rest) >= 0 && max(rest) < by) return joined(rest);
  Index high, low;
  if (int64_t g = common(rest, by, high, low); g > 1) return add(mul(mod(high, by / g), g), low);
  return single({Atom::Mod, {}, rest, by, by, scope(rest)});
}

int64_t Indices::min(const Index& e) const {
  int64_t m = e.constant_;
  for (const Index::Term& t : e.terms_)
    if (t.factor < 0) m += t.factor * (atoms_[static_cast<size_t>(t.atom)].extent - 1);
  return m;
}

int64_t Indices::max(const Index& e) const {
  int64_t m = e.constant_;
  for (const Index::Term& t : e.terms_)
    if (t.factor > 0) m += t.factor * (atoms_[static_cast<size_t>(t.atom)].extent - 1);
  return m;
}

Scope Indices::scope(const Index& e) const {
  Scope s = Scope::Row;
  for (const Index::Term& t : e.terms_) s = std::max(s, atoms_[static_cast<size_t>(t.atom)].scope);
  return s;
}

bool Indices::fixed(const Index& e, bool rows) const {
  return std::all_of(e.terms_.begin(), e.terms_.end(), [&](const Index::Term& t) {
    const Atom& a = atoms_[static_cast<size_t>(t.atom)];
    return a.kind == Atom::Variable ? a.fixed || (rows && a.scope == Scope::Row) : fixed(a.of, rows);
  });
}

bool Indices::multiple_of(const Index& e, int64_t n, int32_t without) const {
  if (e.constant_ % n != 0) return false;
  return std::all_of(e.terms_.begin(), e.terms_.end(),
                     [&](const Index::Term& t) { return t.atom == without || t.factor % n == 0; });
}

std::string Indices::text(const Index& e) const {
  std::string out;
  for (const Index::Term& t : e.terms_) {
    const Atom& a = atoms_[static_cast<size_t>(t.atom)];
    if ((a.kind == Atom::Div || a.kind == Atom::Mod) && a.scope != Scope::Row) {
      division_ = std::max(division_, (a.by & (a.by - 1)) == 0 ? Division::Shift : Division::Other);
      // A remainder of quotients changes where they do.
      const bool of_quotients =
          a.kind == Atom::Mod && std::none_of(a.of.terms_.begin(), a.of.terms_.end(), [&](const Index::Term& u) {
            const Atom& inner = atoms_[static_cast<size_t>(u.atom)];
            return inner.kind != Atom::Div && inner.scope != Scope::Row;
          });
      if (!of_quotients) common_divisor_ = std::gcd(common_divisor_, a.by);
    }
    std::string atom;
    switch (a.kind) {
      case Atom::Variable: atom = a.name; break;
      case Atom::Div: atom = "(" + text(a.of) + ") / " + std::to_string(a.by); break;
      case Atom::Mod: atom = "(" + text(a.of) + ") % " + std::to_string(a.by); break;
      case Atom::Alias: atom = "(" + text(a.of) + ")"; break;
    }
    if (!out.empty()) out += t.factor < 0 ? " - " : " + ";
    else if (t.factor < 0) out += "-";
    const int64_t f = std::abs(t.factor);
    out += f == 1 ? (a.kind == Atom::Div || a.kind == Atom::Mod ? "(" + atom + ")" : atom)
                  : std::to_string(f) + " * " +
                        (a.kind == Atom::Variable || a.kind == Atom::Alias ? atom : "(" + atom + ")");
  }
  if (out.empty()) return std::to_string(e.constant_);
  if (e.constant_ > 0) out += " + " + std::to_string(e.constant_);
  if (e.constant_ < 0) out += " - " + std::to_string(-e.constant_);
  return out;
}

}  // namespace thunder::fuser
