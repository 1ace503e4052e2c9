// Elements of what is put together: which part an element is of, and whether it is of any.
#include <algorithm>
#include <string>
#include <vector>

#include "fuser/moves.h"
#include "fuser/scalar.h"

namespace thunder::fuser {

Scalar Moves::select(const std::string& type, const Scalar& condition, const Scalar& a, const Scalar& b) {
  return made_.statements.define(type, condition.text + " ? " + a.text + " : " + b.text,
                                 std::max({condition.scope, a.scope, b.scope}));
}

Scalar Moves::cat_element(const Call& call, const Multi& index) {
  Args a = call.arguments();
  std::vector<Value> parts;
  for (Value v : a.values("tensors"))
    if (!numel(v).is(0)) parts.push_back(v);
  return cat_from(call, parts, 0, index, dim_of(call, index.size()));
}

Scalar Moves::cat_from(const Call& call, const std::vector<Value>& parts, size_t first, Multi index, size_t dim) {
  const Size size = sizes(parts[first])[dim];
  if (first + 1 == parts.size()) {
    index[dim] = places_.bounded(index[dim], size);
    return elements_.element(parts[first], index);
  }
  LoopScope scope = LoopScope::Row;
  bool always = false;
  std::string text = places_.below(index[dim], size, scope, always);
  Multi rest = index;
  rest[dim] = indices_.add(index[dim], Index(-size));
  if (text.empty())
    return always ? elements_.element(parts[first], index) : cat_from(call, parts, first + 1, rest, dim);
  Scalar condition = made_.statements.defined_once("bool", text, scope);
  index[dim] = places_.bounded(index[dim], size);
  Scalar here = made_.condition.narrowed(condition, true, [&] { return elements_.element(parts[first], index); });
  Scalar there =
      made_.condition.narrowed(condition, false, [&] { return cat_from(call, parts, first + 1, rest, dim); });
  return select(compute_name(call.output.value().dtype()), condition, here, there);
}

// Elements of what lies within its tensor, where all clauses hold.
struct Moves::Clause {
  std::string text;
  LoopScope scope;
  bool holds = true;  // or must not
};

// The part of a condition that is the same for a whole row is computed once a row: g++ does not vectorise a load whose
// condition has that part in the loop over elements.
Scalar Moves::all_hold(const std::vector<Clause>& clauses) {
  std::string of_row, text;
  LoopScope scope = LoopScope::Row;
  for (const Clause& c : clauses) {
    std::string& where = c.scope == LoopScope::Row ? of_row : text;
    where += (where.empty() ? "" : " && ") + (c.holds ? c.text : "!(" + c.text + ")");
    scope = std::max(scope, c.scope);
  }
  if (of_row.empty()) return made_.statements.defined_once("bool", text, scope);
  const Scalar row = made_.statements.defined_once("bool", of_row, LoopScope::Row);
  return text.empty() ? row : made_.statements.defined_once("bool", row.text + " && " + text, scope);
}

// The clauses under which a place lies within the source, whose index becomes `at`; false where none does.
bool Moves::within_source(const ArgList& config, const Size& size, Index& at, std::vector<Clause>& clauses) {
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
  LoopScope below = LoopScope::Row, fitting = LoopScope::Row;
  const std::string too_low = surely_at_least(0, low) ? "" : places_.below(at, low, below, never_inside);
  const std::string fits = places_.below(at, low + size, fitting, always);
  if (never_inside || (fits.empty() && !always)) return false;
  if (!too_low.empty()) clauses.push_back({too_low, below, false});
  if (!fits.empty()) clauses.push_back({fits, fitting});
  at = places_.bounded(indices_.add(at, Index(-low)), size);
  return true;
}

Scalar Moves::pad_element(const Call& call, const Multi& index) {
  Args a = call.arguments();
  const DType out = call.output.value().dtype();
  const Value source = a.value("a");
  const Sizes from = sizes(source);
  const Scalar filled{elements_.rounded(literal(a["value"], out), call.output.value()), LoopScope::Row};
  Multi inner = index;
  std::vector<Clause> clauses;
  for (size_t i = 0; i < from.size(); ++i)
    if (!within_source(a["config"].items()[i].items(), from[i], inner[i], clauses)) return filled;
  if (clauses.empty()) return elements_.element(source, inner);
  const bool holds = clauses.size() > 1 || clauses[0].holds;
  const Scalar condition =
      holds ? all_hold(clauses) : made_.statements.defined_once("bool", clauses[0].text, clauses[0].scope);
  const Scalar value = made_.condition.narrowed(condition, holds, [&] { return elements_.element(source, inner); });
  return select(compute_name(out), condition, holds ? value : filled, holds ? filled : value);
}

}  // namespace thunder::fuser
