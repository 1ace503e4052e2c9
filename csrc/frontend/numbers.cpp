// Traced numbers: sizes and numbers that calls of one program differ in, and what the program computes from them.
#include <algorithm>

#include "core/error.h"
#include "core/number.h"
#include "frontend/large_ints.h"
#include "frontend/tracer.h"

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

Value Tracer::add_number(NumberType type, NumberPtr number) {
  InputSource source;
  source.kind = InputSource::Number;
  source.number = std::move(number);
  source.integer = type.kind == NumberKind::Int;
  sources_.push_back(std::move(source));
  inputs_.push_back(kNoTensor);
  reals_.emplace_back();
  return b_.input(std::move(type));
}

Dim Tracer::add_size(int64_t hint, bool may_be_one) {
  Dim d = may_be_one ? shapes_.make_size(hint) : shapes_.make_symbol(hint, {}, 2);
  add_number({NumberKind::Int, d, nullptr}, NumberExpr::of_size(d));
  return d;
}

Ref Tracer::add_float(double hint, PyObject* of) { return number_result(shapes_.make_number(hint), of); }

// The input that brings the number, which is the same for equal ones.
Ref Tracer::number_result(const NumberPtr& number, PyObject* of) {
  for (size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i].number && !sources_[i].integer && sources_[i].number->same(*number))
      return make_number(b_.inputs()[i], of);
  return make_number(add_number({NumberKind::Float, std::nullopt, number}, number), of);
}

// For a size that the user's function returns.
Value Tracer::value_of_size(const Dim& size) {
  for (size_t i = 0; i < sources_.size(); ++i)
    if (const auto& dim = sources_[i].number && sources_[i].integer ? b_.inputs()[i].type().number().dim : std::nullopt;
        dim && dim->same(size))
      return b_.inputs()[i];
  const bool only_run = !has_hints(size);
  const std::vector<SymbolId> symbols = size.symbols();
  if (only_run && symbols.size() == 1 && size.same(Dim::symbol(symbols[0])))
    if (Value length = arena_->symbol_value(symbols[0])) return length;
  for (SymbolId s : symbols)
    if (only_run && !shapes_.knows(Dim::symbol(s))) ask_size(s, false);
  THUNDER_CHECK(owned_ && has_hints(size), NotImplemented, "jit",
                "returning an expression of sizes that only the run knows");
  return add_number({NumberKind::Int, std::nullopt, nullptr}, NumberExpr::of_size(size));
}

Ref Tracer::number_operation(const std::string& name, PyObject* a, PyObject* b) {
  return located([&]() -> Ref {
    if (!is_number(a) || !is_number(b)) return none();
    std::optional<Op> op = operator_of(name);
    if (!op && !is_comparison(name)) return none();
    Arg left = arg_of(a), right = arg_of(b);
    for (Arg* operand : {&left, &right})
      if (only_run_knows(*operand)) *operand = resolve(operand->value(), name);
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
    if (!owned_ || (x->size && !has_hints(*x->size)) || (y->size && !has_hints(*y->size))) return none();
    // An int to the power of an int may be either.
    if (*op == Op::Pow && x->size && y->size) return none();
    if (divides && !y->size && y->expr->op() != Op::Constant) compare_numbers("eq", y->expr, NumberExpr::constant(0));
    NumberPtr number = NumberExpr::binary(*op, x->expr, y->expr);
    number->hinted(shapes_);  // an error here is Python's to raise
    PyObject* of = class_of_number(a);
    return number_result(number, of ? of : class_of_number(b));
  });
}

Ref Tracer::number_function(const std::string& name, PyObject* number, int64_t digits) {
  return located([&]() -> Ref {
    const NumberExpr::Function* f = NumberExpr::function(name);
    if (!f || !owned_ || !is_traced_number(number)) return none();
    Arg a = arg_of(number);
    if (only_run_knows(a)) a = resolve(a.value(), name);
    std::optional<Number> x = number_of(a);
    if (!x || x->expr->op() == Op::Constant || (x->size && !has_hints(*x->size))) return none();
    const double now = x->expr->hinted(shapes_);
    if (!(now >= f->least && now <= f->most)) return none();
    compare_numbers("ge", x->expr, NumberExpr::constant(f->least));
    compare_numbers("le", x->expr, NumberExpr::constant(f->most));
    return number_result(NumberExpr::call(*f, x->expr, digits), name == "round" ? class_of_number(number) : nullptr);
  });
}

Ref Tracer::specialize(PyObject* number) {
  return located([&]() -> Ref {
    Arg a = arg_of(number);
    if (only_run_knows(a)) {
      a = resolve(a.value(), "item");
      if (!a.is_value() && a.kind() != Arg::Kind::Int) return to_python(a, {});
    }
    std::optional<Number> n = number_of(a);
    auto as_float = [&](double value) {
      Ref plain = Ref::steal(PyFloat_FromDouble(value));
      PyObject* of = class_of_number(number);
      return of ? Ref::steal(PyObject_CallOneArg(of, plain.get())) : plain;
    };
    if (n && !n->size && hold_exactly(*n->expr)) return as_float(n->expr->hinted(shapes_));
    if (n && n->size && has_hints(*n->size)) return Ref::steal(PyLong_FromLongLong(n->size->specialize()));
    if (n && !n->size && n->expr) return as_float(ShapeEnv::current()->specialize(n->expr));
    return none();
  });
}

Ref Tracer::to_number(PyObject* type, PyObject* o) {
  const bool to_float = type == reinterpret_cast<PyObject*>(&PyFloat_Type);
  if (!owned_ || !observer_) return {};
  return located([&]() -> Ref {
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
    Value v = value_of(o);
    for (const Dim& d : v.shape())
      if (!d.is_constant() || d.constant() != 1) return {};
    // What eager refuses, and what it rounds, is asked as eager asks it.
    if (is_complex(v.dtype()) || (!to_float && (is_inexact(v.dtype()) || v.dtype() == DType::u64)) || constant(v))
      return {};
    const DType wide = to_float ? DType::f64 : DType::i64;
    Expr wider = v.dtype() == wide ? b_.expr(Arg(v)) : b_("torch.to", v, wide);
    return make_number(b_("torch.item", wider).value());
  });
}

Ref Tracer::length(PyObject* tensor) {
  const TensorType t = type_of(tensor);
  if (t.rank() == 0 || !shapes_.knows(t.shape[0])) return {};
  return to_python(Arg(t.shape[0]), [](Value) -> Ref { return {}; });
}

bool Tracer::has_layout(PyObject* tensor, const std::string& format) {
  return located([&] {
           ShapeEnv::Exactly scope;
           const TensorType t = type_of(tensor);
           THUNDER_CHECK(t.strided(), Runtime, "is_contiguous", "a sparse tensor has no strides");
           if (format != "channels_last" && format != "channels_last_3d") return boolean(is_contiguous(t));
           if (t.rank() != (format == "channels_last" ? 4 : 5)) return boolean(false);
           const Dims want = channels_last_strides(t.shape);
           for (size_t i = 0; i < want.size(); ++i)
             if (t.shape[i] != Dim(1) && want[i] != t.strides[i]) return boolean(false);
           return boolean(true);
         }).get() == Py_True;
}

}  // namespace thunder::frontend
