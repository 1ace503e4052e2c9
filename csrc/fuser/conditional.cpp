// Elements of what is put together: which part an element is of, and whether it is of any.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "fuser/elements.h"
#include "fuser/scalar.h"

namespace thunder::fuser {
namespace {

constexpr size_t kMaxConditions = 20;  // within each other: each is in the text of all within it

}  // namespace

// Evaluates under a condition: loads happen only where it holds.
template <class F>
Scalar Elements::under(const Scalar& condition, bool holds, F&& evaluate) {
  if (++conditions_ > kMaxConditions) throw Refused();
  auto saved = std::tuple(predicate_, predicate_key_, predicate_scope_);
  const std::string text = (holds ? "" : "!") + condition.text;
  predicate_ = predicate_.empty() ? text : "(" + predicate_ + " && " + text + ")";
  predicate_key_ = "|" + predicate_;
  predicate_scope_ = std::max(predicate_scope_, condition.scope);
  Scalar s = evaluate();
  std::tie(predicate_, predicate_key_, predicate_scope_) = saved;
  --conditions_;
  return s;
}

Scalar Elements::select(const std::string& type, const Scalar& condition, const Scalar& a, const Scalar& b) {
  return define(type, condition.text + " ? " + a.text + " : " + b.text, std::max({condition.scope, a.scope, b.scope}));
}

Scalar Elements::cat_element(const Call& call, const Multi& index) {
  Args a = call.arguments();
  std::vector<Value> parts;
  for (Value v : a.values("tensors"))
    if (!numel(v).is(0)) parts.push_back(v);
  return cat_from(call, parts, 0, index, dim_of(call, index.size()));
}

Scalar Elements::cat_from(const Call& call, const std::vector<Value>& parts, size_t first, Multi index, size_t dim) {
  const Size size = sizes(parts[first])[dim];
  if (first + 1 == parts.size()) {
    index[dim] = places_.bounded(index[dim], size);
    return element(parts[first], index);
  }
  Scope scope = Scope::Row;
  bool always = false;
  std::string text = places_.below(index[dim], size, scope, always);
  Multi rest = index;
  rest[dim] = indices_.add(index[dim], Index(-size));
  if (text.empty()) return always ? element(parts[first], index) : cat_from(call, parts, first + 1, rest, dim);
  Scalar condition = defined_once("bool", text, scope);
  index[dim] = places_.bounded(index[dim], size);
  Scalar here = under(condition, true, [&] { return element(parts[first], index); });
  Scalar there = under(condition, false, [&] { return cat_from(call, parts, first + 1, rest, dim); });
  return select(compute_name(call.output.value().dtype()), condition, here, there);
}

// Elements of what lies within its tensor, where all clauses hold.
struct Elements::Clause {
  std::string text;
  Scope scope;
  bool holds = true;  // or must not
};

// The part of a condition that is the same for a whole row is computed once a row: g++ does not vectorise a load whose
// condition has that part in the loop over elements.
Scalar Elements::all_hold(const std::vector<Clause>& clauses) {
  std::string of_row, text;
  Scope scope = Scope::Row;
  for (const Clause& c : clauses) {
    std::string& where = c.scope == Scope::Row ? of_row : text;
    where += (where.empty() ? "" : " && ") + (c.holds ? c.text : "!(" + c.text + ")");
    scope = std::max(scope, c.scope);
  }
  if (of_row.empty()) return defined_once("bool", text, scope);
  const Scalar row = defined_once("bool", of_row, Scope::Row);
  return text.empty() ? row : defined_once("bool", row.text + " && " + text, scope);
}

// The clauses under which a place lies within the source, whose index becomes `at`; false where none does.
bool Elements::within_source(const ArgList& config, const Size& size, Index& at, std::vector<Clause>& clauses) {
  Size low = config[0].dim();
  if (const Size step = Size(config[2].dim()) + 1; !step.is(1)) {
    const int64_t by = step.number(), shift = (by - low.number() % by) % by;
    const Index shifted = indices_.add(at, Index(shift)), between = indices_.mod(shifted, step);
    if (between.is_constant() && !between.constant().is(0)) return false;
    if (!between.is_constant()) clauses.push_back({indices_.text(between) + " == 0", indices_.scope(between)});
    at = indices_.div(shifted, step);
    low = (low.number() + shift) / by;
  }
  bool always = false, never_inside = false;
  Scope below = Scope::Row, fitting = Scope::Row;
  const std::string too_low = surely_at_least(0, low) ? "" : places_.below(at, low, below, never_inside);
  const std::string fits = places_.below(at, low + size, fitting, always);
  if (never_inside || (fits.empty() && !always)) return false;
  if (!too_low.empty()) clauses.push_back({too_low, below, false});
  if (!fits.empty()) clauses.push_back({fits, fitting});
  at = places_.bounded(indices_.add(at, Index(-low)), size);
  return true;
}

Scalar Elements::pad_element(const Call& call, const Multi& index) {
  Args a = call.arguments();
  const DType out = call.output.value().dtype();
  const Value source = a.value("a");
  const Sizes from = sizes(source);
  const Scalar filled{rounded(literal(a["value"], out), call.output.value()), Scope::Row};
  Multi inner = index;
  std::vector<Clause> clauses;
  for (size_t i = 0; i < from.size(); ++i)
    if (!within_source(a["config"].items()[i].items(), from[i], inner[i], clauses)) return filled;
  if (clauses.empty()) return element(source, inner);
  const bool holds = clauses.size() > 1 || clauses[0].holds;
  const Scalar condition = holds ? all_hold(clauses) : defined_once("bool", clauses[0].text, clauses[0].scope);
  const Scalar value = under(condition, holds, [&] { return element(source, inner); });
  return select(compute_name(out), condition, holds ? value : filled, holds ? filled : value);
}

}  // namespace thunder::fuser
