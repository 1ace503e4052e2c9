#include "core/value.h"

#include <bit>
#include <cstring>

#include "core/error.h"

namespace thunder {

struct Arg::ListBox {
  ArgList items;
  bool tuple;
};
struct Arg::DictBox {
  std::vector<std::pair<Arg, Arg>> entries;
};

std::string Value::name() const {
  if (!node_->name.empty()) return node_->name;
  const char* prefix = "o";
  if (type().is_tensor()) prefix = "t";
  if (type().is_future()) prefix = "p";
  if (type().is_number()) {
    static constexpr const char* kPrefixes[] = {"b", "i", "f", "c"};
    prefix = kPrefixes[static_cast<size_t>(type().number().kind)];
  }
  return prefix + std::to_string(id());
}

Arg::Arg(const Dims& dims) : Arg(list(ArgList(dims.begin(), dims.end()))) {}
Arg::Arg(const std::vector<int64_t>& ints) : Arg(list(ArgList(ints.begin(), ints.end()))) {}
Arg::Arg(const std::vector<thunder::Value>& values) : Arg(list(ArgList(values.begin(), values.end()))) {}

Arg Arg::list(ArgList items) {
  Arg a;
  a.v_ = std::make_shared<const ListBox>(ListBox{std::move(items), false});
  return a;
}

Arg Arg::tuple(ArgList items) {
  Arg a;
  a.v_ = std::make_shared<const ListBox>(ListBox{std::move(items), true});
  return a;
}

Arg Arg::dict(std::vector<std::pair<Arg, Arg>> items) {
  Arg a;
  a.v_ = std::make_shared<const DictBox>(DictBox{std::move(items)});
  return a;
}

Arg Arg::slice(Arg start, Arg stop, Arg step) {
  Arg a;
  a.v_ = std::make_shared<const SliceArg>(SliceArg{std::move(start), std::move(stop), std::move(step)});
  return a;
}

Arg::Kind Arg::kind() const {
  static constexpr Kind kKinds[] = {Kind::None, Kind::Bool,  Kind::Int,      Kind::Float, Kind::Complex,
                                    Kind::Str,  Kind::DType, Kind::Device,   Kind::Value, Kind::List,
                                    Kind::Dict, Kind::Slice, Kind::Constant, Kind::Opaque};
  Kind k = kKinds[v_.index()];
  if (k == Kind::List && std::get<std::shared_ptr<const ListBox>>(v_)->tuple) return Kind::Tuple;
  return k;
}

bool Arg::is_literal_number() const {
  Kind k = kind();
  return k == Kind::Bool || k == Kind::Int || k == Kind::Float || k == Kind::Complex;
}

bool Arg::is_real_literal() const {
  return is_literal_number() && kind() != Kind::Complex && (kind() != Kind::Int || dim().is_constant());
}

bool Arg::is_number() const { return is_literal_number() || (is_value() && value().type().is_number()); }

double Arg::real() const {
  switch (kind()) {
    case Kind::Bool: return boolean() ? 1 : 0;
    case Kind::Int: return static_cast<double>(dim().constant());
    case Kind::Float: return std::get<double>(v_);
    case Kind::Value:
      if (!value().type().is_number() || !ShapeEnv::current()) break;
      if (const NumberPtr& known = value().type().number().expr) return ShapeEnv::current()->specialize(known);
      break;
    default: break;
  }
  THUNDER_ASSERT(false, "a real number was expected");
}

std::complex<double> Arg::complex() const {
  if (kind() == Kind::Complex) return std::get<std::complex<double>>(v_);
  return real();
}

const ArgList& Arg::items() const {
  THUNDER_ASSERT(is_sequence(), "a list was expected");
  return std::get<std::shared_ptr<const ListBox>>(v_)->items;
}

const std::vector<std::pair<Arg, Arg>>& Arg::entries() const {
  return std::get<std::shared_ptr<const DictBox>>(v_)->entries;
}

const SliceArg& Arg::slice() const { return *std::get<std::shared_ptr<const SliceArg>>(v_); }

NumberKind Arg::number_kind() const {
  switch (kind()) {
    case Kind::Bool: return NumberKind::Bool;
    case Kind::Int: return NumberKind::Int;
    case Kind::Float: return NumberKind::Float;
    case Kind::Complex: return NumberKind::Complex;
    default: break;
  }
  return value().type().number().kind;
}

namespace {

bool same_bits(double a, double b) {
  return (a != a && b != b) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool same_list(const ArgList& a, const ArgList& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!a[i].same(b[i])) return false;
  return true;
}

}  // namespace

bool Arg::same(const Arg& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::None: return true;
    case Kind::Bool: return boolean() == other.boolean();
    case Kind::Int: return dim().same(other.dim());
    case Kind::Float: return same_bits(real(), other.real());
    case Kind::Complex:
      return same_bits(complex().real(), other.complex().real()) && same_bits(complex().imag(), other.complex().imag());
    case Kind::Str: return str() == other.str();
    case Kind::DType: return dtype() == other.dtype();
    case Kind::Device: return device() == other.device();
    case Kind::Value: return value() == other.value();
    case Kind::List:
    case Kind::Tuple: return same_list(items(), other.items());
    case Kind::Slice:
      return slice().start.same(other.slice().start) && slice().stop.same(other.slice().stop) &&
             slice().step.same(other.slice().step);
    case Kind::Constant: return constant() == other.constant();
    case Kind::Opaque: return opaque().object == other.opaque().object && opaque().name == other.opaque().name;
    case Kind::Dict: break;
  }
  const auto &a = entries(), &b = other.entries();
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!a[i].first.same(b[i].first) || !a[i].second.same(b[i].second)) return false;
  return true;
}

namespace {

// Calls `fn` for each direct element of a container.
template <class F>
void for_each_element(const Arg& arg, F&& fn) {
  switch (arg.kind()) {
    case Arg::Kind::List:
    case Arg::Kind::Tuple:
      for (const Arg& a : arg.items()) fn(a);
      break;
    case Arg::Kind::Dict:
      for (const auto& [key, item] : arg.entries()) fn(item);
      break;
    case Arg::Kind::Slice:
      fn(arg.slice().start);
      fn(arg.slice().stop);
      fn(arg.slice().step);
      break;
    default: break;
  }
}

}  // namespace

void for_each_symbol(const Arg& arg, const std::function<void(SymbolId)>& fn) {
  if (arg.kind() == Arg::Kind::Int && !arg.dim().is_constant())
    for (SymbolId s : arg.dim().symbols()) fn(s);
  for_each_element(arg, [&](const Arg& a) { for_each_symbol(a, fn); });
}

Arg map_values(const Arg& arg, const std::function<Arg(Value)>& fn) {
  switch (arg.kind()) {
    case Arg::Kind::Value: return fn(arg.value());
    case Arg::Kind::List:
    case Arg::Kind::Tuple: {
      ArgList items;
      items.reserve(arg.items().size());
      for (const Arg& a : arg.items()) items.push_back(map_values(a, fn));
      return arg.kind() == Arg::Kind::List ? Arg::list(std::move(items)) : Arg::tuple(std::move(items));
    }
    case Arg::Kind::Dict: {
      std::vector<std::pair<Arg, Arg>> entries;
      for (const auto& [key, item] : arg.entries()) entries.emplace_back(key, map_values(item, fn));
      return Arg::dict(std::move(entries));
    }
    case Arg::Kind::Slice:
      return Arg::slice(map_values(arg.slice().start, fn), map_values(arg.slice().stop, fn),
                        map_values(arg.slice().step, fn));
    default: return arg;
  }
}

std::vector<Value> values_in(const Arg& arg) {
  std::vector<Value> out;
  visit_values(arg, [&](Value v) { out.push_back(v); });
  return out;
}

}  // namespace thunder
