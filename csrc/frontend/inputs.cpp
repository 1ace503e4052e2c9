#include "frontend/inputs.h"

#include <algorithm>

namespace thunder::frontend {

std::optional<size_t> Inputs::find(TensorId t) const {
  const auto at = std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.id == t; });
  if (at == inputs_.end()) return std::nullopt;
  return static_cast<size_t>(at - inputs_.begin());
}

void Inputs::add(TensorId t, InputSource source, Ref real) {
  inputs_.push_back({.source = std::move(source), .id = t, .real = std::move(real)});
}

Value Inputs::add_number(NumberType type, NumberPtr number) {
  InputSource source;
  source.kind = InputSource::Number;
  source.number = std::move(number);
  source.integer = type.kind == NumberKind::Int;
  inputs_.push_back({.source = std::move(source)});
  return b_.input(std::move(type));
}

Value Inputs::add_entry(NumberPlace place, PyObject* now) {
  InputSource source;
  source.kind = InputSource::Entry;
  source.place = std::move(place);
  inputs_.push_back({.source = std::move(source), .real = Ref::borrow(now)});
  const NumberKind kind = PyLong_Check(now) ? NumberKind::Int : NumberKind::Float;
  return b_.input(NumberType{kind, std::nullopt, nullptr});
}

Dim Inputs::add_size(int64_t hint, bool may_be_one) {
  Dim d = may_be_one ? shapes_.make_size(hint) : shapes_.make_symbol(hint, {}, 2);
  add_number({NumberKind::Int, d, nullptr}, NumberExpr::of_size(d));
  return d;
}

}  // namespace thunder::frontend
