#include "runtime/instruction.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <mutex>
#include <unordered_map>

#include "core/dim_algebra.h"
#include "core/error.h"
#include "passes/executor.h"
#include "runtime/convert.h"

namespace thunder {
namespace {

c10::IValue convert_number(const c10::IValue& v, Operand::Convert to, at::ScalarType dtype) {
  if (v.isTensor() || v.isNone()) return v;
  at::Scalar s = v.isBool() ? at::Scalar(v.toBool()) : v.toScalar();
  switch (to) {
    case Operand::Convert::Float: return s.toDouble();
    case Operand::Convert::Int: return s.toLong();
    case Operand::Convert::Bool: return s.toBool();
    case Operand::Convert::Tensor: return number_as_tensor(s, dtype);
    case Operand::Convert::None: break;
  }
  return v;
}

template <class T, class F>
c10::IValue load_list(const std::vector<Operand>& items, Frame& frame, F&& get) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const Operand& o : items) list.push_back(get(o.load(frame)));
  return list;
}

c10::IValue load_list(const Operand& o, Frame& frame) {
  using E = Operand::Element;
  switch (o.element) {
    case E::Tensor: return load_list<at::Tensor>(o.items, frame, [](c10::IValue v) { return std::move(v).toTensor(); });
    case E::OptionalTensor:
      return load_list<std::optional<at::Tensor>>(o.items, frame,
                                                  [](c10::IValue v) { return std::move(v).toOptional<at::Tensor>(); });
    case E::Int: return load_list<int64_t>(o.items, frame, [](const c10::IValue& v) { return v.toScalar().toLong(); });
    case E::Float:
      return load_list<double>(o.items, frame, [](const c10::IValue& v) { return v.toScalar().toDouble(); });
    case E::Bool: return load_list<bool>(o.items, frame, [](const c10::IValue& v) { return v.toBool(); });
    case E::Any: break;
  }
  c10::impl::GenericList list(c10::AnyType::get());
  for (const Operand& item : o.items) list.push_back(item.load(frame));
  return list;
}

}  // namespace

Operand Operand::of(c10::IValue value) {
  Operand o;
  o.constant = std::move(value);
  return o;
}

int64_t Operand::evaluate(const Frame& frame) const {
  return thunder::evaluate(expression, [&](SymbolId s) {
    for (const auto& [id, r] : symbols)
      if (id == s) return frame.registers[r].toScalar().toLong();
    THUNDER_ASSERT(false, "a size depends on a symbol that no register holds");
  });
}

c10::IValue Operand::load(Frame& frame) const {
  switch (kind) {
    case Kind::Constant: return constant;
    case Kind::Register: {
      c10::IValue& r = frame.registers[reg];
      if (convert != Convert::None) return convert_number(r, convert, number);
      if (last) return std::move(r);
      return r;
    }
    case Kind::Expression: {
      int64_t n = evaluate(frame);
      if (convert == Convert::Float) return static_cast<double>(n);
      if (convert == Convert::Tensor) return number_as_tensor(n, number);
      return n;
    }
    case Kind::List: return load_list(*this, frame);
  }
  return {};
}

Operand Assembler::value(Value v, Operand::Convert convert) const {
  Operand o;
  o.kind = Operand::Kind::Register;
  o.reg = register_of(v);
  o.convert = convert;
  return o;
}

Operand Assembler::expression(const Dim& dim) const {
  if (dim.is_constant()) return Operand::of(dim.constant());
  Operand o;
  o.kind = Operand::Kind::Expression;
  o.expression = dim;
  for (SymbolId s : dim.symbols()) o.symbols.emplace_back(s, register_of(s));
  return o;
}

Operand Assembler::natural(const Arg& arg) const {
  switch (arg.kind()) {
    case Arg::Kind::Value: return value(arg.value());
    case Arg::Kind::Int: return expression(arg.dim());
    case Arg::Kind::List:
    case Arg::Kind::Tuple: break;
    default: return Operand::of(literal_to_ivalue(arg));
  }
  bool constant = true, ints = true;
  Operand o;
  o.kind = Operand::Kind::List;
  for (const Arg& item : arg.items()) {
    o.items.push_back(natural(item));
    constant &= o.items.back().kind == Operand::Kind::Constant;
    ints &= item.is_number() && item.number_kind() == NumberKind::Int;
  }
  if (!ints) return o;
  o.element = Operand::Element::Int;
  if (!constant) return o;
  Operand c;
  for (const Operand& item : o.items) c.ints.push_back(item.constant.toInt());
  c.constant = c10::IValue(c.ints);
  return c;
}

namespace {
struct LowerFns {
  std::mutex mutex;
  std::unordered_map<std::string, LowerFn> by_executor;  // nodes are stable: find_lowering hands out pointers
};
LowerFns& lower_fns() {
  static LowerFns l;
  return l;
}
}  // namespace

void register_lowering(const std::string& executor, LowerFn lower) {
  THUNDER_CHECK(!Executors::instance().is_reserved(executor), Import, "executors", "the name '", executor,
                "' is taken by Thunder itself; give the executor another one");
  std::lock_guard lock(lower_fns().mutex);
  lower_fns().by_executor[executor] = std::move(lower);
}

const LowerFn* find_lowering(const std::string& executor) {
  std::lock_guard lock(lower_fns().mutex);
  auto it = lower_fns().by_executor.find(executor);
  return it == lower_fns().by_executor.end() ? nullptr : &it->second;
}

std::vector<Value> flat_results(const Arg& output) {
  if (output.is_none()) return {};
  if (output.is_value()) return {output.value()};
  std::vector<Value> out;
  for (const Arg& item : output.items()) out.push_back(item.is_value() ? item.value() : Value());
  return out;
}

}  // namespace thunder
