#include "core/dim.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <utility>

#include "core/dim_algebra.h"
#include "core/error.h"
#include "core/sym_expr.h"

namespace thunder {
namespace {

int compare(const SymExpr& a, const SymExpr& b);

}  // namespace

SymExpr sym::as_expr(const Dim& d) {
  if (d.expr()) return *d.expr();
  SymExpr e;
  if (d.constant() != 0) e.terms.push_back({{}, d.constant()});
  return e;
}

int sym::compare(const SymAtom& a, const SymAtom& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.kind == SymAtom::Symbol) return a.symbol == b.symbol ? 0 : (a.symbol < b.symbol ? -1 : 1);
  if (int c = thunder::compare(as_expr(a.left), as_expr(b.left))) return c;
  return thunder::compare(as_expr(a.right), as_expr(b.right));
}

namespace {

using sym::as_expr;
using sym::compare;
using sym::from_terms;

int compare(const std::vector<AtomPtr>& a, const std::vector<AtomPtr>& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;  // higher degrees first, the constant last
  for (size_t i = 0; i < a.size(); ++i)
    if (int c = compare(*a[i], *b[i])) return c;
  return 0;
}

int compare(const SymExpr& a, const SymExpr& b) {
  if (a.terms.size() != b.terms.size()) return a.terms.size() < b.terms.size() ? -1 : 1;
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (int c = compare(a.terms[i].atoms, b.terms[i].atoms)) return c;
    if (a.terms[i].coefficient != b.terms[i].coefficient)
      return a.terms[i].coefficient < b.terms[i].coefficient ? -1 : 1;
  }
  return 0;
}

[[noreturn]] void too_large(int64_t a, const char* op, int64_t b) {
  throw Error(ErrorKind::Runtime, cat("[size] ", a, " ", op, " ", b, " is too large for a symbolic integer"));
}

int64_t product_of(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) too_large(a, "*", b);
  return out;
}

int64_t sum_of(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) too_large(a, "+", b);
  return out;
}

int64_t difference_of(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_sub_overflow(a, b, &out)) too_large(a, "-", b);
  return out;
}

}  // namespace

Dim sym::from_terms(std::vector<SymTerm> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const SymTerm& a, const SymTerm& b) { return thunder::compare(a.atoms, b.atoms) < 0; });
  std::vector<SymTerm> merged;
  for (SymTerm& t : terms) {
    if (merged.empty() || thunder::compare(merged.back().atoms, t.atoms) != 0) merged.push_back(std::move(t));
    else merged.back().coefficient = sum_of(merged.back().coefficient, t.coefficient);
  }
  std::erase_if(merged, [](const SymTerm& t) { return t.coefficient == 0; });
  if (merged.empty()) return Dim(0);
  if (merged.size() == 1 && merged[0].atoms.empty()) return Dim(merged[0].coefficient);
  auto e = std::make_shared<SymExpr>();
  e->terms = std::move(merged);
  return Dim(SymPtr(std::move(e)));
}

namespace {

Dim from_atom(SymAtom a) {
  auto e = std::make_shared<SymExpr>();
  e->terms.push_back({{std::make_shared<const SymAtom>(std::move(a))}, 1});
  return Dim(SymPtr(std::move(e)));
}

int64_t floordiv_int(int64_t a, int64_t b) {
  if (b == -1 && a == std::numeric_limits<int64_t>::min()) too_large(a, "//", b);
  int64_t q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

int64_t mod_int(int64_t a, int64_t b) {
  int64_t r = b == -1 ? 0 : a % b;  // the processor traps where the quotient does not fit
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

}  // namespace

int64_t sym::evaluate(SymAtom::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case SymAtom::FloorDiv: return floordiv_int(a, b);
    case SymAtom::Mod: return mod_int(a, b);
    case SymAtom::Max: return std::max(a, b);
    default: return std::min(a, b);
  }
}

namespace {

Dim binary(SymAtom::Kind kind, const Dim& a, const Dim& b) {
  if (kind == SymAtom::FloorDiv || kind == SymAtom::Mod)
    THUNDER_CHECK(!b.is_constant() || b.constant() != 0, Runtime, "size", "division of ", a, " by zero");
  if (a.is_constant() && b.is_constant()) return sym::evaluate(kind, a.constant(), b.constant());
  switch (kind) {
    case SymAtom::FloorDiv:
      if (a.is_constant() && a.constant() == 0) return 0;
      if (std::optional<Dim> q = exact_quotient(a, b)) return *q;
      break;
    case SymAtom::Mod:
      if (exact_quotient(a, b)) return 0;
      break;
    default:
      if (a.same(b)) return a;
      break;
  }
  return from_atom({kind, 0, a, b});
}

void print(std::ostream& out, const SymExpr& e, const std::function<std::string(SymbolId)>& name_of);

void print(std::ostream& out, const SymAtom& a, const std::function<std::string(SymbolId)>& name_of) {
  switch (a.kind) {
    case SymAtom::Symbol: out << name_of(a.symbol); return;
    case SymAtom::FloorDiv: out << "((" << a.left.str(name_of) << ") // (" << a.right.str(name_of) << "))"; return;
    case SymAtom::Mod: out << "((" << a.left.str(name_of) << ") % (" << a.right.str(name_of) << "))"; return;
    case SymAtom::Max: out << "max(" << a.left.str(name_of) << ", " << a.right.str(name_of) << ")"; return;
    case SymAtom::Min: out << "min(" << a.left.str(name_of) << ", " << a.right.str(name_of) << ")"; return;
  }
}

void print(std::ostream& out, const SymExpr& e, const std::function<std::string(SymbolId)>& name_of) {
  bool first = true;
  for (const SymTerm& t : e.terms) {
    const bool negative = t.coefficient < 0;
    const uint64_t c = negative ? 0 - static_cast<uint64_t>(t.coefficient) : static_cast<uint64_t>(t.coefficient);
    // The least integer has no positive counterpart that could be read and subtracted.
    const bool least = c > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!first) out << (negative && !least ? " - " : " + ");
    if (negative && (first || least)) out << "-";
    first = false;
    bool star = false;
    if (c != 1 || t.atoms.empty()) {
      out << c;
      star = true;
    }
    for (const AtomPtr& a : t.atoms) {
      if (star) out << "*";
      star = true;
      print(out, *a, name_of);
    }
  }
}

std::string default_symbol_name(SymbolId id) {
  if (ShapeEnv* env = ShapeEnv::current()) return env->name(id);
  return "s" + std::to_string(id);
}

void collect_symbols(const Dim& d, std::vector<SymbolId>& out) {
  if (!d.expr()) return;
  for (const SymTerm& t : d.expr()->terms)
    for (const AtomPtr& a : t.atoms) {
      if (a->kind != SymAtom::Symbol) {
        collect_symbols(a->left, out);
        collect_symbols(a->right, out);
      } else if (std::find(out.begin(), out.end(), a->symbol) == out.end()) {
        out.push_back(a->symbol);
      }
    }
}

// The value under the hints, or nothing if a symbol has none.
std::optional<int64_t> hinted(const Dim& d) {
  if (d.is_constant()) return d.constant();
  bool known = true;
  Dim v = d.substitute([&](SymbolId id) {
    std::optional<int64_t> h = ShapeEnv::current() ? ShapeEnv::current()->hint(id) : std::nullopt;
    if (!h) known = false;
    return Dim(h.value_or(1));
  });
  if (!known || !v.is_constant()) return std::nullopt;
  return v.constant();
}

// A value that the expression is never below; nothing if none is known.  With every symbol written as its least value
// and a rest, a polynomial whose terms in the rests have no negative coefficients is never below its constant term.
// `taken`: what symbols without a hint, and sizes that may be 1, are taken not to be below.
std::optional<int64_t> lower_bound(const Dim& d, int64_t taken = 0) {
  if (d.is_constant()) return d.constant();
  for (const SymTerm& t : d.expr()->terms)
    for (const AtomPtr& a : t.atoms)
      if (a->kind != SymAtom::Symbol) return std::nullopt;
  Dim rests = d.substitute([&](SymbolId id) {
    if (!ShapeEnv::current()) return Dim::symbol(id);
    const int64_t least = ShapeEnv::current()->hint(id) ? ShapeEnv::current()->least(id) : 0;
    const bool soft = !ShapeEnv::current()->hint(id) || ShapeEnv::current()->may_be_one(id);
    return Dim::symbol(id) + (soft ? std::max(least, taken) : least);
  });
  int64_t bound = 0;
  for (const SymTerm& t : as_expr(rests).terms) {
    if (t.atoms.empty()) bound = t.coefficient;
    else if (t.coefficient < 0) return std::nullopt;
  }
  return bound;
}

// As hinted(), and asks for what is not known.
std::optional<int64_t> asked(const Dim& d, SizeAnswers::Need need = SizeAnswers::Need::Useful) {
  if (!d.is_constant() && ShapeEnv::current()) ShapeEnv::current()->knows(d, need);
  return hinted(d);
}

bool is_zero_or_one(const Dim& d) { return d.is_constant() && (d.constant() == 0 || d.constant() == 1); }

[[noreturn]] void unknown(const std::string& asked_for) {
  throw Error(ErrorKind::Runtime,
              cat("[size] the program ", asked_for,
                  ", but that size depends on the values in a tensor and is known only when the program runs"));
}

[[noreturn]] void undecidable(const Dim& a, const char* relation, const Dim& b) {
  unknown(cat("asks whether ", a, relation, b));
}

}  // namespace

Dim::Dim(SymPtr expr) : expr_(std::move(expr)) {}

Dim Dim::symbol(SymbolId id) { return from_atom({SymAtom::Symbol, id, {}, {}}); }

int64_t Dim::constant() const {
  if (!expr_) return value_;
  THUNDER_CHECK(asked(*this, SizeAnswers::Need::Necessary), Runtime, "size",
                "a known integer is needed, got the symbolic size ", str());
  return specialize();
}

int64_t Dim::specialize() const {
  if (!expr_) return value_;
  std::optional<int64_t> h = asked(*this, SizeAnswers::Need::Necessary);
  if (!h) unknown(cat("needs the value of ", *this));
  ShapeEnv::current()->guard(DimGuard{DimGuard::Equal, *this, Dim(*h)});
  return *h;
}

std::vector<SymbolId> Dim::symbols() const {
  std::vector<SymbolId> out;
  collect_symbols(*this, out);
  return out;
}

Dim Dim::substitute(const std::function<Dim(SymbolId)>& value_of) const {
  if (!expr_) return *this;
  Dim sum = 0;
  for (const SymTerm& t : expr_->terms) {
    Dim p = t.coefficient;
    for (const AtomPtr& a : t.atoms) {
      if (a->kind == SymAtom::Symbol) p = p * value_of(a->symbol);
      else p = p * binary(a->kind, a->left.substitute(value_of), a->right.substitute(value_of));
    }
    sum = sum + p;
  }
  return sum;
}

std::string Dim::str(const std::function<std::string(SymbolId)>& name_of) const {
  if (!expr_) return std::to_string(value_);
  std::ostringstream out;
  print(out, *expr_, name_of ? name_of : default_symbol_name);
  return out.str();
}

bool Dim::same(const Dim& other) const {
  if (!expr_ && !other.expr_) return value_ == other.value_;
  if (!expr_ || !other.expr_) return false;
  return expr_ == other.expr_ || compare(*expr_, *other.expr_) == 0;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return sum_of(a.value_, b.value_);
  std::vector<SymTerm> terms = as_expr(a).terms;
  for (SymTerm& t : as_expr(b).terms) terms.push_back(std::move(t));
  return from_terms(std::move(terms));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return product_of(a.value_, b.value_);
  std::vector<SymTerm> terms;
  SymExpr ea = as_expr(a), eb = as_expr(b);
  for (const SymTerm& x : ea.terms)
    for (const SymTerm& y : eb.terms) {
      SymTerm t = x;
      t.coefficient = product_of(t.coefficient, y.coefficient);
      t.atoms.insert(t.atoms.end(), y.atoms.begin(), y.atoms.end());
      std::sort(t.atoms.begin(), t.atoms.end(), [](const AtomPtr& p, const AtomPtr& q) { return compare(*p, *q) < 0; });
      terms.push_back(std::move(t));
    }
  return from_terms(std::move(terms));
}

Dim operator-(const Dim& a) { return a * Dim(-1); }
Dim operator-(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return difference_of(a.value_, b.value_);
  return a + -b;
}
Dim floordiv(const Dim& a, const Dim& b) { return binary(SymAtom::FloorDiv, a, b); }
Dim mod(const Dim& a, const Dim& b) { return binary(SymAtom::Mod, a, b); }

namespace {
// Whether `a < b` can be told: by its form, or by the hints.
bool decidable(const Dim& a, const Dim& b) {
  if (hinted(a) && hinted(b)) return true;
  std::optional<int64_t> above = lower_bound(b - a - 1), below = lower_bound(a - b);
  return (above && *above >= 0) || (below && *below >= 0);
}
}  // namespace

Dim max(const Dim& a, const Dim& b) { return decidable(a, b) ? (a < b ? b : a) : binary(SymAtom::Max, a, b); }
// Equal operands give the outcome, and so the guard, of a slice that is shorter than its tensor.
Dim min(const Dim& a, const Dim& b) { return decidable(a, b) ? (b < a ? b : a) : binary(SymAtom::Min, a, b); }

namespace {
// With lengths that only a run can tell, and sizes that may be 1, taken to differ from 0 and 1.
bool is_positive(const Dim& d) {
  std::optional<int64_t> low = lower_bound(d, 2);
  return low && *low > 0;
}
}  // namespace

bool ShapeEnv::assumes() { return !ShapeEnv::current() || !ShapeEnv::current()->asks; }

bool ShapeEnv::may_assume() { return !ShapeEnv::current() || !ShapeEnv::current()->insists; }

bool ShapeEnv::assume(bool outcome) {
  if (ShapeEnv::current()) ShapeEnv::current()->assumed_ = true;
  return outcome;
}

bool ShapeEnv::takes() { return ShapeEnv::current() && !ShapeEnv::current()->asks && !ShapeEnv::current()->exact_; }

bool ShapeEnv::take_to_differ(const Dim& difference, bool* positive) {
  if (!takes()) return false;
  const std::vector<SymbolId> symbols = difference.symbols();
  if (std::none_of(symbols.begin(), symbols.end(), [](SymbolId s) { return ShapeEnv::current()->may_be_one(s); }))
    return false;
  *positive = is_positive(difference);
  return *positive || is_positive(-difference);
}

bool ShapeEnv::take(DimGuard::Relation relation, const Dim& a, const Dim& b, bool outcome) {
  ShapeEnv::current()->taken_.push_back(
      DimGuard{relation, a, b, ShapeEnv::current()->location ? ShapeEnv::current()->location() : ""});
  return assume(outcome);
}

namespace {
// Whether it is `size == 1` for a size whose symbols may be 1 and that is no less in this call: s0 - 1, of a slice.
bool asks_for_one(const Dim& size, const Dim& one) {
  if (!one.is_constant() || one.constant() != 1 || size.is_constant()) return false;
  const std::vector<SymbolId> symbols = size.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [](SymbolId s) { return ShapeEnv::current()->may_be_one(s); }) &&
         hinted(size).value_or(0) >= 1;
}
}  // namespace

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return a.value_ == b.value_;
  Dim difference = a - b;
  if (difference.is_constant()) return difference.constant() == 0;
  // A size that is at least 1 more than the other is not equal to it, whatever the symbols are.
  if (std::optional<int64_t> low = lower_bound(difference); low && *low > 0) return false;
  if (std::optional<int64_t> low = lower_bound(-difference); low && *low > 0) return false;
  bool positive = false;
  if (ShapeEnv::take_to_differ(difference, &positive)) return ShapeEnv::take(DimGuard::NotEqual, a, b, false);
  if (ShapeEnv::takes())
    for (const auto& [size, one] : {std::pair(&a, &b), std::pair(&b, &a)})
      if (asks_for_one(*size, *one)) {
        ShapeEnv::current()->guard(DimGuard{DimGuard::GreaterEqual, *size, 1});
        return ShapeEnv::take(DimGuard::NotEqual, *size, 1, false);
      }
  std::optional<int64_t> ha = hinted(a), hb = hinted(b);
  if (!ha || !hb) {
    const bool differ = is_zero_or_one(a) || is_zero_or_one(b) || is_positive(difference) || is_positive(-difference);
    if (!differ || !ShapeEnv::assumes()) ha = asked(a), hb = asked(b);
    if (!ha || !hb) {
      if (differ && ShapeEnv::may_assume()) return ShapeEnv::assume(false);
      if (!(ha = asked(a, SizeAnswers::Need::Necessary)) || !(hb = asked(b, SizeAnswers::Need::Necessary)))
        undecidable(a, " equals ", b);
    }
  }
  bool equal = *ha == *hb;
  ShapeEnv::current()->guard(DimGuard{equal ? DimGuard::Equal : DimGuard::NotEqual, a, b});
  return equal;
}

bool operator<(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return a.value_ < b.value_;
  if (std::optional<int64_t> low = lower_bound(b - a - 1); low && *low >= 0) return true;
  if (std::optional<int64_t> low = lower_bound(a - b); low && *low >= 0) return false;
  bool positive = false;
  if (ShapeEnv::current() && ShapeEnv::current()->laying_out_ && ShapeEnv::take_to_differ(b - a, &positive))
    return ShapeEnv::take(positive ? DimGuard::Less : DimGuard::GreaterEqual, a, b, positive);
  std::optional<int64_t> ha = hinted(a), hb = hinted(b);
  if (!ha || !hb) {
    const bool is_less = is_positive(b - a), is_not = is_positive(a - b + 1);
    if ((!is_less && !is_not) || !ShapeEnv::assumes()) ha = asked(a), hb = asked(b);
    if (!ha || !hb) {
      if ((is_less || is_not) && ShapeEnv::may_assume()) return ShapeEnv::assume(is_less);
      if (!(ha = asked(a, SizeAnswers::Need::Necessary)) || !(hb = asked(b, SizeAnswers::Need::Necessary)))
        undecidable(a, " is less than ", b);
    }
  }
  bool less = *ha < *hb;
  ShapeEnv::current()->guard(DimGuard{less ? DimGuard::Less : DimGuard::GreaterEqual, a, b});
  return less;
}

std::ostream& operator<<(std::ostream& out, const Dim& d) { return out << d.str(); }

bool all_constant(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_constant(); });
}

Dim product(const Dims& dims) {
  Dim p = 1;
  for (const Dim& d : dims) p = p * d;
  return p;
}

bool same(const Dims& a, const Dims& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const Dim& x, const Dim& y) { return x.same(y); });
}

std::string str(const Dims& dims) { return "[" + join(dims) + "]"; }

std::string DimGuard::str() const {
  static constexpr const char* kText[] = {" == ", " != ", " < ", " >= "};
  return left.str() + kText[relation] + right.str();
}

bool DimGuard::holds(const std::function<Dim(SymbolId)>& value_of) const {
  const int64_t a = left.substitute(value_of).constant(), b = right.substitute(value_of).constant();
  switch (relation) {
    case Equal: return a == b;
    case NotEqual: return a != b;
    case Less: return a < b;
    default: return a >= b;
  }
}

}  // namespace thunder
