#include "frontend/hooks.h"

#include <atomic>

#include "core/number.h"
#include "python/stack.h"

namespace thunder::frontend {

Hooks& hooks() {
  static Hooks* h = new Hooks();  // never destroyed: holds Python objects, and Python may be gone by then
  return *h;
}

namespace {

constexpr const char* kCapsule = "thunder.Arg";

struct TracedNumber {
  Arg arg;
  uint64_t trace;  // that it was made in
  Ref hint;        // or None
  Ref of;          // its class, where that is not Python's own
};

std::atomic<uint64_t> traces{0};
thread_local uint64_t current_trace = 0;
thread_local bool numbers_made = false;

void free_number(PyObject* capsule) { delete static_cast<TracedNumber*>(PyCapsule_GetPointer(capsule, kCapsule)); }

const TracedNumber& inside(PyObject* number) {
  Ref capsule = Ref::steal(PyObject_GetAttrString(number, "_arg"));
  return *static_cast<TracedNumber*>(PyCapsule_GetPointer(capsule.get(), kCapsule));
}

Ref hint_of(const Arg& arg) {
  const ShapeEnv* env = ShapeEnv::current();
  const bool value = arg.is_value();
  const std::optional<Dim> size = value ? arg.value().type().number().dim : std::optional<Dim>(arg.dim());
  if (env && size) {
    bool known = true;
    Dim hint = size->substitute([&](SymbolId s) {
      known = known && env->hint(s);
      return Dim(env->hint(s).value_or(2));
    });
    if (known) return Ref::steal(PyLong_FromLongLong(hint.constant()));
  }
  if (env && value)
    if (const NumberPtr& expr = arg.value().type().number().expr)
      return Ref::steal(PyFloat_FromDouble(expr->hinted(*env)));
  return Ref::borrow(Py_None);
}

}  // namespace

Arg number_arg(PyObject* number) {
  const TracedNumber& n = inside(number);
  if (n.trace == current_trace || n.hint.get() == Py_None) return n.arg;
  return to_arg(n.hint.get(), [](PyObject*) -> Arg { return nullptr; });
}

Ref number_hint(PyObject* number) { return inside(number).hint; }

PyObject* class_of_number(PyObject* number) { return is_traced_number(number) ? inside(number).of.get() : nullptr; }

bool may_be_one(PyObject* number) {
  const ShapeEnv* env = ShapeEnv::current();
  const Arg arg = number_arg(number);
  const bool is_size = env && arg.kind() == Arg::Kind::Int;
  if (!is_size && !(env && arg.is_value() && arg.value().type().is_number() && arg.value().type().number().dim))
    return false;
  const std::vector<SymbolId> symbols = (is_size ? arg.dim() : *arg.value().type().number().dim).symbols();
  return std::any_of(symbols.begin(), symbols.end(), [&](SymbolId s) { return env->may_be_one(s); });
}

void begin_numbers() {
  current_trace = ++traces;
  numbers_made = false;
}

bool any_numbers() { return numbers_made; }

Arg to_arg(PyObject* o, const std::function<Arg(PyObject*)>& tensor) {
  return literal_from_python(o, [&](PyObject* other) -> std::optional<Arg> {
    if (is_tensor(other)) return tensor(other);
    if (is_traced_number(other)) return number_arg(other);
    return std::nullopt;
  });
}

Ref make_number(const Arg& arg, PyObject* of) {
  numbers_made = true;
  auto* made = new TracedNumber{arg, current_trace, hint_of(arg), Ref::borrow(of)};
  Ref capsule = Ref::steal(PyCapsule_New(made, kCapsule, free_number));
  const Hooks& h = hooks();
  const Ref& type = arg.number_kind() == NumberKind::Int     ? h.int_class
                    : arg.number_kind() == NumberKind::Float ? h.float_class
                                                             : h.number_class;
  return Ref::steal(PyObject_CallOneArg(type.get(), capsule.get()));
}

Ref to_python(const Arg& a, const std::function<Ref(Value)>& value) {
  return literal_to_python(
      a, [&](const Arg& other) { return other.is_value() ? value(other.value()) : make_number(other); });
}

}  // namespace thunder::frontend
