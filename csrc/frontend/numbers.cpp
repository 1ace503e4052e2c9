#include "frontend/numbers.h"

#include <algorithm>

#include "core/error.h"
#include "core/number.h"
#include "frontend/hooks.h"
#include "frontend/language.h"
#include "frontend/large_ints.h"

namespace thunder::frontend {
namespace {

using Op = NumberExpr::Op;

// An operand of Python's arithmetic.
struct Number {
  std::optional<Dim> size;  // an int
  NumberPtr expr;           // any number of the call's
};

// What is beyond int64 is Python's to compute with.
bool is_number(PyObject* o) {
  return (PyLong_Check(o) && !is_beyond_int64(o)) || PyFloat_Check(o) || is_traced_number(o);
}

// A number that only the run knows, the result of item() say.
bool only_run_knows(const Arg& a) {
  return a.is_value() && !a.value().type().number().dim && !a.value().type().number().expr;
}

Arg arg_of(PyObject* o) {
  return to_arg(o, [](PyObject*) -> Arg { return nullptr; });
}

// Nothing for a complex number.
std::optional<Number> number_of(Arg a) {
  Number n;
  if (a.kind() == Arg::Kind::Complex) return std::nullopt;
  if (a.kind() == Arg::Kind::Bool) a = Arg(a.boolean() ? 1 : 0);
  if (a.kind() == Arg::Kind::Int) n.size = a.dim();
  else if (a.kind() == Arg::Kind::Float) n.expr = NumberExpr::constant(a.real());
  else if (a.value().type().number().dim) n.size = a.value().type().number().dim;
  else n.expr = a.value().type().number().expr;
  if (n.size) n.expr = NumberExpr::of_size(*n.size);
  return n;
}

bool has_hints(const Dim& d) { return ShapeEnv::current()->knows(d); }

bool is_zero(const Number& n) {
  ShapeEnv::Exactly scope;
  return n.size ? *n.size == Dim(0) : n.expr->hinted(*ShapeEnv::current()) == 0;
}

Ref boolean(bool b) { return Ref::borrow(b ? Py_True : Py_False); }
Ref none() { return Ref::borrow(Py_None); }

std::optional<Op> operator_of(const std::string& name) {
  static const std::pair<const char*, Op> kOps[] = {{"add", Op::Add},          {"sub", Op::Sub}, {"mul", Op::Mul},
                                                    {"truediv", Op::Div},      {"mod", Op::Mod}, {"pow", Op::Pow},
                                                    {"floordiv", Op::FloorDiv}};
  for (const auto& [text, op] : kOps)
    if (name == text) return op;
  return std::nullopt;
}

bool is_comparison(const std::string& name) {
  static const char* const kNames[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* n) { return name == n; });
}

// Which way the user's program goes is asked; only layouts and broadcasting are not to depend on sizes of 1.
bool compare_sizes(const std::string& op, const Dim& x, const Dim& y) {
  ShapeEnv::Exactly scope;
  if (op == "eq") return x == y;
  if (op == "ne") return x != y;
  if (op == "lt") return x < y;
  if (op == "le") return x <= y;
  if (op == "gt") return x > y;
  return x >= y;
}

// Recorded as a guard: other floats may compare otherwise.
bool compare_numbers(const std::string& op, NumberPtr x, NumberPtr y) {
  if (op == "gt" || op == "ge") std::swap(x, y);
  const auto relation = op == "eq" || op == "ne"   ? NumberGuard::Equal
                        : op == "lt" || op == "gt" ? NumberGuard::Less
                                                   : NumberGuard::LessEqual;
  ShapeEnv& env = *ShapeEnv::current();
  const bool outcome = NumberGuard::compare(relation, x->hinted(env), y->hinted(env));
  env.guard(NumberGuard{relation, outcome, x, y});
  return op == "ne" ? !outcome : outcome;
}

// An int from ints; nothing where Python gives a float, or where it is no polynomial.
std::optional<Dim> size_operation(Op op, const Dim& x, const Dim& y) {
  switch (op) {
    case Op::Add: return x + y;
    case Op::Sub: return x - y;
    case Op::Mul: return x * y;
    case Op::FloorDiv: return floordiv(x, y);
    case Op::Mod: return mod(x, y);
    default: break;
  }
  if (op != Op::Pow || !y.is_constant() || y.constant() < 0 || y.constant() > 4) return std::nullopt;
  Dim power = 1;
  for (int64_t i = 0; i < y.constant(); ++i) power = power * x;
  return power;
}

}  // namespace

Ref Numbers::add_float(double hint, PyObject* of) { return result(shapes_.make_number(hint), of); }

// The input that brings the number, which is the same for equal ones.
Ref Numbers::result(const NumberPtr& number, PyObject* of) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (const InputSource& s = inputs_[i].source; s.number && !s.integer && s.number->same(*number))
      return make_number(inputs_.value(i), of);
  return make_number(inputs_.add_number({NumberKind::Float, std::nullopt, number}, number), of);
}

Value Numbers::value_of_size(const Dim& size) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const InputSource& s = inputs_[i].source;
    if (!s.number || !s.integer) continue;
    if (const auto& dim = inputs_.value(i).type().number().dim; dim && dim->same(size)) return inputs_.value(i);
  }
  const bool only_run = !has_hints(size);
  const std::vector<SymbolId> symbols = size.symbols();
  if (only_run && symbols.size() == 1 && size.same(Dim::symbol(symbols[0])))
    if (Value length = acquisition_.arena()->symbol_value(symbols[0])) return length;
  for (SymbolId s : symbols)
    if (only_run && !shapes_.hint(s)) questions_.find(s, SizeAnswers::Need::Useful);
  THUNDER_CHECK(acquisition_.owns_program() && has_hints(size), NotImplemented, "jit",
                "returning an expression of sizes that only the run knows");
  return inputs_.add_number({NumberKind::Int, std::nullopt, nullptr}, NumberExpr::of_size(size));
}

Ref Numbers::operation(const std::string& name, PyObject* a, PyObject* b) {
  return acquisition_.located_with_answers([&]() -> Ref {
    if (!is_number(a) || !is_number(b)) return none();
    std::optional<Op> op = operator_of(name);
    if (!op && !is_comparison(name)) return none();
    Arg left = arg_of(a), right = arg_of(b);
    for (Arg* operand : {&left, &right})
      if (only_run_knows(*operand)) *operand = questions_.resolve(operand->value(), name);
    std::optional<Number> x = number_of(left), y = number_of(right);
    if (!x || !y) return none();
    const bool divides = op && (*op == Op::Div || *op == Op::FloorDiv || *op == Op::Mod);
    // The length of what depends on values is asked for: it may well be 0.
    for (const Number* n : {&*x, &*y})
      if (n->size && (!op || (divides && n == &*y)))
        THUNDER_CHECK(has_hints(*n->size), NotImplemented, "size", "the program asks for the size ", *n->size,
                      ", which depends on the values in a tensor and is known only when the program runs");
    if (!op && x->size && y->size) return boolean(compare_sizes(name, *x->size, *y->size));
    if (!op) return boolean(compare_numbers(name, x->expr, y->expr));
    if (divides && is_zero(*y)) return none();
    if (x->size && y->size) {
      if (std::optional<Dim> size = size_operation(*op, *x->size, *y->size))
        return to_python(Arg(*size), [](Value) -> Ref { return {}; });
    }
    if (!acquisition_.owns_program() || (x->size && !has_hints(*x->size)) || (y->size && !has_hints(*y->size)))
      return none();
    // An int to the power of an int may be either.
    if (*op == Op::Pow && x->size && y->size) return none();
    if (divides && !y->size && y->expr->op() != Op::Constant) compare_numbers("eq", y->expr, NumberExpr::constant(0));
    NumberPtr number = NumberExpr::binary(*op, x->expr, y->expr);
    number->hinted(shapes_);  // an error here is Python's to raise
    PyObject* of = class_of_number(a);
    return result(number, of ? of : class_of_number(b));
  });
}

Ref Numbers::function(const std::string& name, PyObject* number, int64_t digits) {
  return acquisition_.located_with_answers([&]() -> Ref {
    const NumberExpr::Function* f = NumberExpr::function(name);
    if (!f || !acquisition_.owns_program() || !is_traced_number(number)) return none();
    Arg a = arg_of(number);
    if (only_run_knows(a)) a = questions_.resolve(a.value(), name);
    std::optional<Number> x = number_of(a);
    if (!x || x->expr->op() == Op::Constant || (x->size && !has_hints(*x->size))) return none();
    const double now = x->expr->hinted(shapes_);
    if (!(now >= f->least && now <= f->most)) return none();
    compare_numbers("ge", x->expr, NumberExpr::constant(f->least));
    compare_numbers("le", x->expr, NumberExpr::constant(f->most));
    return result(NumberExpr::call(*f, x->expr, digits), name == "round" ? class_of_number(number) : nullptr);
  });
}

Ref Numbers::specialize(PyObject* number) {
  return acquisition_.located_with_answers([&]() -> Ref {
    Arg a = arg_of(number);
    if (only_run_knows(a)) {
      a = questions_.resolve(a.value(), "item");
      if (!a.is_value() && a.kind() != Arg::Kind::Int) return to_python(a, {});
    }
    std::optional<Number> n = number_of(a);
    auto as_float = [&](double value) {
      Ref plain = Ref::steal(PyFloat_FromDouble(value));
      PyObject* of = class_of_number(number);
      return of ? Ref::steal(PyObject_CallOneArg(of, plain.get())) : plain;
    };
    if (n && !n->size && questions_.hold_exactly(*n->expr)) return as_float(n->expr->hinted(shapes_));
    if (n && n->size && has_hints(*n->size)) return Ref::steal(PyLong_FromLongLong(n->size->specialize()));
    if (n && !n->size && n->expr) return as_float(ShapeEnv::current()->specialize(n->expr));
    return none();
  });
}

Ref Numbers::convert(PyObject* type, PyObject* o) {
  const bool to_float = type == reinterpret_cast<PyObject*>(&PyFloat_Type);
  if (!acquisition_.owns_program()) return {};
  return acquisition_.located_with_answers([&]() -> Ref {
    if (is_traced_number(o)) {
      // PyTorch's classes of symbolic numbers, which it derives from, mean Python's own.
      if (in_library()) return {};
      Arg a = arg_of(o);
      if (to_float && a.is_value() && a.number_kind() == NumberKind::Float)
        return class_of_number(o) ? make_number(a) : Ref::borrow(o);
      if (!to_float && a.number_kind() == NumberKind::Int) return Ref::borrow(o);
      return {};
    }
    if (!is_tensor(o)) return {};
    Value v = tensors_.value_of(o);
    for (const Dim& d : v.shape())
      if (!d.is_constant() || d.constant() != 1) return {};
    // What eager refuses, and what it rounds, is asked as eager asks it.
    if (is_complex(v.dtype()) || (!to_float && (is_inexact(v.dtype()) || v.dtype() == DType::u64)) ||
        constants_.find(v))
      return {};
    const DType wide = to_float ? DType::f64 : DType::i64;
    Expr wider = v.dtype() == wide ? b_.expr(Arg(v)) : b_("torch.to", v, wide);
    return make_number(b_("torch.item", wider).value());
  });
}

Ref Numbers::length(const TensorType& t) const {
  if (t.rank() == 0 || !questions_.find_all(t.shape[0])) return {};
  return to_python(Arg(t.shape[0]), [](Value) -> Ref { return {}; });
}

}  // namespace thunder::frontend
