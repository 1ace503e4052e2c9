#include "fuser/elements.h"

#include <algorithm>

#include "fuser/creations.h"
#include "fuser/moves.h"
#include "fuser/scalar.h"

namespace thunder::fuser {
namespace {

constexpr size_t kMaxDepth = 300;  // of operands within operands: an element is computed recursively

// Integers wrap around, which signed numbers of C++ do not; those narrower than `int` are computed in it.
bool wraps(const Op& op, DType out) {
  if (out != DType::i32 && out != DType::i64) return false;
  const std::string& name = op.full_name;
  return name == "prims.add" || name == "prims.sub" || name == "prims.mul" || name == "prims.neg";
}

}  // namespace

Scalar Elements::element(Value v, const Multi& index) {
  std::string key = std::to_string(v.id()) + made_.condition.key();
  for (const Index& i : index) {
    key += ',';
    i.add_key(key);
  }
  Statements& statements = made_.statements;
  if (const Scalar* known = statements.known(key)) return *known;
  if (const auto kept = kept_.from_earlier_phase(key, v.dtype())) {
    statements.know(key, *kept, false);
    return *kept;
  }
  if (++depth_ > kMaxDepth) throw Refused();
  Scalar s = compute(v, index);
  --depth_;
  statements.know(key, s, s.scope == LoopScope::Row && made_.condition.empty());
  return s;
}

Scalar Elements::element_of_root(Value v, const Multi& index) {
  computing_ = v.id();
  Scalar s = element(v, index);
  computing_ = UINT32_MAX;
  return s;
}

Scalar Elements::operand(const Call& reduction) {
  calls_.insert(&reduction);
  Value x = reduction.arguments().value("a");
  Scalar s = element(x, made_.places.here(x));
  s.text = converted(s.text, x.dtype(), reduction.output.value().dtype());
  return s;
}

void Elements::begin_phase() {
  kept_.end_phase();
  made_.statements.begin_phase();
  vectors_.begin_phase();
}

void Elements::begin_last() {
  made_.statements.begin_last();
  vectors_.forget();
}

void Elements::collect() {
  // A call may read what no element needs (a pad that cuts all of it off); the calls are a program all the same.
  std::vector<const Call*> open(calls_.begin(), calls_.end());
  std::sort(open.begin(), open.end(),
            [](const Call* a, const Call* b) { return a->output.value().id() < b->output.value().id(); });
  while (!open.empty()) {
    const Call* call = open.back();
    open.pop_back();
    visit_all_inputs(*call, [&](Value v) {
      if (v.type().is_number() && !v.type().number().dim) number_place(v);
      if (!v.type().is_tensor()) return;
      if (is_leaf(v)) loads_.input(v);
      else if (calls_.insert(producer_(v)).second) open.push_back(producer_(v));
    });
  }
  made_.kernel.calls.assign(calls_.begin(), calls_.end());
}

bool Elements::is_exact(Value v) const {
  return made_.options.eager_rounding || (made_.options.exact && (*made_.options.exact)[v]);
}

std::string Elements::rounded(const std::string& text, Value v) const {
  const DType t = v.dtype();
  if (!is_exact(v) || (t != DType::bf16 && t != DType::f16)) return text;
  return "th_round_" + storage_name(t) + "(" + text + ")";
}

Scalar Elements::compute(Value v, const Multi& index) {
  auto root = roots_.find(v.id());
  if (root != roots_.end() && root->second.mode != RootInfo::Mode::Full) return root_element(v, root->second, index);
  if (root != roots_.end() && v.id() != computing_ && (root->second.transposed || !made_.places.is_root_here(v, index)))
    throw Refused();
  return is_leaf(v) ? loads_.load(v, index) : computed(*producer_(v), index);
}

Scalar Elements::computed(const Call& call, const Multi& index) {
  calls_.insert(&call);
  if (call.op->has(kMayLackOperand)) {
    const Value a = call.args[0].value();
    const auto given = made_.options.zeros_in_memory ? Loads::Tensor::Given : Loads::Tensor::Optional;
    return is_leaf(a) ? loads_.load(a, index, given) : element(a, index);
  }
  switch (kind_of(call)) {
    case Kind::Pointwise: return pointwise(call, index);
    case Kind::Move: return Moves(*this, made_).element(call, index);
    case Kind::Create: return Creations(*this, vectors_, made_).element(call, index);
    case Kind::Random: return Creations(*this, vectors_, made_).draw(call, index);
    default: throw Refused();
  }
}

// A value of which a row, or a column, has one.
Scalar Elements::root_element(Value v, const RootInfo& info, const Multi& index) {
  Index at = made_.places.linearize(index, sizes(v));
  const bool is_row = at == made_.places.row(),
             is_column = made_.statements.in_finish() && at == made_.places.finish_column();
  switch (info.mode) {
    case RootInfo::Mode::Inner:
      if (info.name.empty() || !is_row) throw Refused();
      return {info.name, LoopScope::Row};
    case RootInfo::Mode::Outer:
      if (!is_column) throw Refused();
      return {info.name, made_.kernel.last ? LoopScope::Lane : LoopScope::Row};
    case RootInfo::Mode::Row:
      if (!is_row) throw Refused();
      break;
    case RootInfo::Mode::Extremum: throw Refused();
    default:
      if (!is_column) throw Refused();
      break;
  }
  return computed(*producer_(v), index);
}

// The quotient that a call is, or that it rounds, where the divisor is one for a row and the result has 16 bits; empty
// otherwise.
Scalar Elements::rounded_quotient(const Call& call, const Multi& index) {
  const Value out = call.output.value();
  if (!is_floating(out.dtype()) || itemsize(out.dtype()) != 2 || is_exact(out)) return {};
  const Call* quotient = &call;
  if (call.op->full_name == "prims.convert_element_type") {
    const Value from = call.args[0].value();
    quotient = from.dtype() == DType::f32 && !is_leaf(from) && !roots_.contains(from.id()) ? producer_(from) : nullptr;
  }
  if (!quotient || quotient->op->full_name != "prims.div" || !quotient->args[0].is_tensor() ||
      !quotient->args[1].is_tensor())
    return {};
  const Scalar divisor = element(quotient->args[1].value(), index);
  if (divisor.scope != LoopScope::Row) return {};
  const Scalar dividend = element(quotient->args[0].value(), index);
  if (dividend.scope == LoopScope::Row) return {};
  Scalar s = made_.statements.define("float", quotient_by_row(dividend.text, divisor.text), dividend.scope);
  s.costly = dividend.costly;
  return s;
}

Scalar Elements::pointwise(const Call& call, const Multi& index) {
  if (Scalar quotient = rounded_quotient(call, index); !quotient.text.empty()) return quotient;
  const DType out = call.output.value().dtype();
  // What numbers among the operands are converted to.
  DType operand = out;
  visit_own_inputs(call, [&](Value v) {
    if (!v.type().is_tensor()) return;
    if (call.op->full_name != "prims.where" || v.dtype() != DType::boolean) operand = v.dtype();
  });
  if (call.op->full_name == "prims.where") operand = out;
  std::vector<std::pair<std::string, std::string>> operands;
  LoopScope scope = LoopScope::Row;
  bool costly = calls_library(*call.op);
  DType from = operand;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Arg& a = call.args[i];
    if (a.is_tensor()) {
      Scalar s = element(a.value(), index);
      scope = std::max(scope, s.scope);
      costly |= s.costly;
      from = a.value().dtype();
      operands.emplace_back(call.op->schema.params[i].name, s.text);
    } else if (a.is_number()) {
      operands.emplace_back(call.op->schema.params[i].name, number(a, operand));
    }
  }
  if (wraps(*call.op, out))
    for (auto& [name, text] : operands) text = "u" + compute_name(out) + "(" + text + ")";
  std::string text = scalar_text(*call.op, operands);
  if (call.op->full_name == "prims.convert_element_type") text = converted(text, from, out);
  else if (compute_name(out) != "float" && compute_name(out) != "double") text = compute_name(out) + "(" + text + ")";
  Scalar s = made_.statements.define(compute_name(out), rounded(text, call.output.value()), scope);
  s.costly = costly;
  return s;
}

// A division takes as long as ten products.  Of a quotient that is rounded to 16 bits nobody sees that the reciprocal was
// rounded; the scale keeps the reciprocal of the smallest and largest numbers within float32.
std::string Elements::quotient_by_row(const std::string& dividend, const std::string& divisor) {
  const std::string
      scale = made_.statements.defined_once("float", "th_divisor_scale(" + divisor + ")", LoopScope::Row).text,
      reciprocal =
          made_.statements.defined_once("float", "1.0f / (" + divisor + " * " + scale + ")", LoopScope::Row).text;
  return "(" + dividend + " * " + reciprocal + " * " + scale + ")";
}

size_t Elements::number_place(Value number) {
  std::vector<Value>& known = made_.kernel.numbers;
  auto it = std::find(known.begin(), known.end(), number);
  if (it == known.end()) it = known.insert(it, number);
  return static_cast<size_t>(it - known.begin());
}

std::string Elements::number(const Arg& a, DType t) {
  const NumberType* type = a.is_value() ? &a.value().type().number() : nullptr;
  if (type && !type->dim) {
    return compute_name(t) + "(f" + std::to_string(number_place(a.value())) + ")";
  }
  if (!type && a.kind() != Arg::Kind::Int) return literal(a, t);
  const Dim& n = type ? *type->dim : a.dim();
  return n.is_constant() ? literal(n, t) : compute_name(t) + "(" + made_.indices.text(Size(n)) + ")";
}

}  // namespace thunder::fuser
