#include "core/number.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

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

// The nearest decimal number of so many digits, as text, and that as a number: Python rounds so, too.
double round_of(double x, int64_t digits) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), x);
  return std::strtod(text.data(), nullptr);
}

constexpr double kAny = std::numeric_limits<double>::max();
constexpr double kPositive = std::numeric_limits<double>::denorm_min();
constexpr double kAboveMinusOne = -1 + std::numeric_limits<double>::epsilon() / 2;
constexpr double kLargestExponent = 709.782712893384, kLargestOfCosh = 710.4758600739439;

// clang-format off
constexpr NumberExpr::Function kFunctions[] = {
    {"exp", [](double x, int64_t) { return std::exp(x); }, -kAny, kLargestExponent},
    {"expm1", [](double x, int64_t) { return std::expm1(x); }, -kAny, kLargestExponent},
    {"exp2", [](double x, int64_t) { return std::exp2(x); }, -kAny, 1023},
    {"log", [](double x, int64_t) { return std::log(x); }, kPositive, kAny},
    {"log2", [](double x, int64_t) { return std::log2(x); }, kPositive, kAny},
    {"log10", [](double x, int64_t) { return std::log10(x); }, kPositive, kAny},
    {"log1p", [](double x, int64_t) { return std::log1p(x); }, kAboveMinusOne, kAny},
    {"sqrt", [](double x, int64_t) { return std::sqrt(x); }, 0, kAny},
    {"sin", [](double x, int64_t) { return std::sin(x); }, -kAny, kAny},
    {"cos", [](double x, int64_t) { return std::cos(x); }, -kAny, kAny},
    {"tan", [](double x, int64_t) { return std::tan(x); }, -kAny, kAny},
    {"asin", [](double x, int64_t) { return std::asin(x); }, -1, 1},
    {"acos", [](double x, int64_t) { return std::acos(x); }, -1, 1},
    {"atan", [](double x, int64_t) { return std::atan(x); }, -kAny, kAny},
    {"sinh", [](double x, int64_t) { return std::sinh(x); }, -kLargestOfCosh, kLargestOfCosh},
    {"cosh", [](double x, int64_t) { return std::cosh(x); }, -kLargestOfCosh, kLargestOfCosh},
    {"tanh", [](double x, int64_t) { return std::tanh(x); }, -kAny, kAny},
    {"fabs", [](double x, int64_t) { return std::fabs(x); }, -kAny, kAny},
    {"round", round_of, -kAny, kAny},
};
// clang-format on

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

const NumberExpr::Function* NumberExpr::function(std::string_view name) {
  for (const Function& f : kFunctions)
    if (name == f.name) return &f;
  return nullptr;
}

NumberPtr NumberExpr::call(const Function& f, NumberPtr of, int64_t digits) {
  auto e = std::make_shared<NumberExpr>();
  e->op_ = Op::Call;
  e->function_ = &f;
  e->left_ = std::move(of);
  e->digits_ = digits;
  return e;
}

double NumberExpr::evaluate(const Values& values) const {
  switch (op_) {
    case Op::Constant: return constant_;
    case Op::Input: return values.input(index_);
    case Op::Size: return static_cast<double>(size_.substitute(values.symbol).constant());
    case Op::Call: return function_->apply(left_->evaluate(values), digits_);
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
    case Op::Call: return cat(function_->name, "(", left_->str(), digits_ ? cat(", ", digits_) : "", ")");
    default: return cat("(", left_->str(), text_of(op_), right_->str(), ")");
  }
}

void NumberExpr::visit(const std::function<void(const NumberExpr&)>& leaf) const {
  if (op_ == Op::Constant) return;
  if (op_ == Op::Input || op_ == Op::Size) return leaf(*this);
  left_->visit(leaf);
  if (right_) right_->visit(leaf);
}

bool NumberExpr::same(const NumberExpr& other) const {
  if (this == &other) return true;
  if (op_ != other.op_) return false;
  switch (op_) {
    case Op::Constant: return constant_ == other.constant_;
    case Op::Input: return index_ == other.index_;
    case Op::Size: return size_.same(other.size_);
    case Op::Call: return function_ == other.function_ && digits_ == other.digits_ && left_->same(*other.left_);
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
