#include "core/number.h"

#include <cmath>

#include "core/error.h"

namespace thunder {
namespace {

// Python's remainder has the divisor's sign, and its quotient rounds down.
double mod_of(double a, double b) {
  double m = std::fmod(a, b);
  if (m != 0) return (b < 0) != (m < 0) ? m + b : m;
  return std::copysign(0.0, b);
}

double floordiv_of(double a, double b) {
  double m = std::fmod(a, b), quotient = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double apply(NumberExpr::Op op, double a, double b) {
  using Op = NumberExpr::Op;
  if (op == Op::Div || op == Op::FloorDiv || op == Op::Mod)
    THUNDER_CHECK(b != 0, Value, "number", "division of ", a, " by zero");
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::FloorDiv: return floordiv_of(a, b);
    case Op::Mod: return mod_of(a, b);
    default: break;
  }
  const double power = std::pow(a, b);
  THUNDER_CHECK(std::isfinite(power) || !std::isfinite(a) || !std::isfinite(b), Value, "number", a, " ** ", b,
                " is no finite real number");
  return power;
}

const char* text_of(NumberExpr::Op op) {
  static constexpr const char* kText[] = {"", "", "", " + ", " - ", " * ", " / ", " // ", " % ", " ** "};
  return kText[static_cast<size_t>(op)];
}

}  // namespace

NumberPtr NumberExpr::constant(double value) {
  auto e = std::make_shared<NumberExpr>();
  e->constant_ = value;
  return e;
}

NumberPtr NumberExpr::input(size_t index) {
  auto e = std::make_shared<NumberExpr>();
  e->op_ = Op::Input;
  e->index_ = index;
  return e;
}

NumberPtr NumberExpr::of_size(Dim size) {
  auto e = std::make_shared<NumberExpr>();
  e->op_ = Op::Size;
  e->size_ = std::move(size);
  return e;
}

NumberPtr NumberExpr::binary(Op op, NumberPtr left, NumberPtr right) {
  auto e = std::make_shared<NumberExpr>();
  e->op_ = op;
  e->left_ = std::move(left);
  e->right_ = std::move(right);
  return e;
}

double NumberExpr::evaluate(const Values& values) const {
  switch (op_) {
    case Op::Constant: return constant_;
    case Op::Input: return values.input(index_);
    case Op::Size: return static_cast<double>(size_.substitute(values.symbol).constant());
    default: return apply(op_, left_->evaluate(values), right_->evaluate(values));
  }
}

double NumberExpr::hinted(const ShapeEnv& env) const {
  return evaluate({[&](size_t i) { return env.number_hint(i); },
                   [&](SymbolId s) {
                     std::optional<int64_t> hint = env.hint(s);
                     THUNDER_CHECK(hint, Runtime, "number", "the size ", env.name(s),
                                   " depends on the values in a tensor and is known only when the program runs");
                     return Dim(*hint);
                   }});
}

std::string NumberExpr::str() const {
  switch (op_) {
    case Op::Constant: return cat(constant_);
    case Op::Input: return cat("f", index_);
    case Op::Size: {
      const std::string text = size_.str();
      return text.find(' ') == std::string::npos ? text : "(" + text + ")";
    }
    default: return cat("(", left_->str(), text_of(op_), right_->str(), ")");
  }
}

void NumberExpr::visit(const std::function<void(const NumberExpr&)>& leaf) const {
  if (op_ == Op::Constant) return;
  if (op_ == Op::Input || op_ == Op::Size) return leaf(*this);
  left_->visit(leaf);
  right_->visit(leaf);
}

bool NumberExpr::same(const NumberExpr& other) const {
  if (this == &other) return true;
  if (op_ != other.op_) return false;
  switch (op_) {
    case Op::Constant: return constant_ == other.constant_;
    case Op::Input: return index_ == other.index_;
    case Op::Size: return size_.same(other.size_);
    default: return left_->same(*other.left_) && right_->same(*other.right_);
  }
}

bool NumberGuard::compare(Relation relation, double left, double right) {
  return relation == Equal ? left == right : relation == Less ? left < right : left <= right;
}

std::string NumberGuard::str() const {
  static constexpr const char* kText[] = {" == ", " < ", " <= "};
  std::string text = left->str() + kText[relation] + right->str();
  return outcome ? text : "not " + text;
}

bool NumberGuard::holds(const NumberExpr::Values& values) const {
  return compare(relation, left->evaluate(values), right->evaluate(values)) == outcome;
}

}  // namespace thunder
