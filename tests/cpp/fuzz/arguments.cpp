// Arguments from a schema: what a parameter's kind and name suggest.  Operators whose arguments must fit each other
// have a maker of their own in makers.cpp.
#include <algorithm>

#include "core/error.h"
#include "fuzz/generator.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;
using K = Param::Kind;

bool one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The arguments drawn so far, and what later ones take from them.
struct Drawn {
  Draw& draw;
  ArgList args;
  std::optional<Value> first;  ///< the first tensor

  Random& random() { return draw.random; }
  int64_t rank() const { return first ? first->rank() : 2; }
};

bool exact_prim(const Op& op) { return op.level == "prims"; }

Value next_tensor(Drawn& d) {
  if (!d.first) {
    d.first = d.draw.tensor({});
    return *d.first;
  }
  Value f = *d.first;
  if (exact_prim(d.draw.op) || d.random().chance(0.5)) return d.draw.like(f);
  Shape s = d.random().chance(0.85) ? d.draw.broadcastable(Draw::shape_of(f)) : d.draw.shape();
  DType t = d.random().chance(0.6) ? f.dtype() : d.draw.any_type();
  return d.draw.tensor({.dtype = t, .shape = s, .values = {}});
}

Arg number(Drawn& d, const Param& p) {
  Random& r = d.random();
  bool integral = d.first && !is_inexact(d.first->dtype());
  if (r.chance(0.2))
    if (std::optional<Value> v = d.draw.number_value(integral ? NumberKind::Int : NumberKind::Float)) return *v;
  if (one_of(p.name, {"eps"})) return 1e-5;
  if (d.first && is_bool(d.first->dtype())) return r.chance(0.5);
  if (integral || r.chance(0.3)) return r.between(1, 4);
  if (d.first && is_complex(d.first->dtype()) && r.chance(0.3))
    return std::complex<double>(r.uniform(-2, 2), r.uniform(-2, 2));
  return std::max(d.draw.op.domain.low, -2.0) >= 0 ? r.uniform(0.1, 2) : r.uniform(-2, 2);
}

Arg scalar(Drawn& d, const Param& p, bool last_chance) {
  // A primitive takes a number for one operand, but not for all.
  bool may_be_number = d.first ? true : !last_chance && exact_prim(d.draw.op);
  if (may_be_number && d.random().chance(0.25)) return number(d, p);
  return next_tensor(d);
}

int64_t a_dim(Drawn& d) {
  int64_t n = std::max<int64_t>(1, d.rank());
  if (exact_prim(d.draw.op)) return d.random().below(n);
  return d.random().between(-n, n - 1);
}

Arg integer(Drawn& d, const Param& p) {
  if (p.name.starts_with("dim") || one_of(p.name, {"axis", "source", "destination", "start_dim", "end_dim"}))
    return a_dim(d);
  if (one_of(p.name, {"diagonal", "offset", "shifts"})) return d.random().between(-2, 2);
  if (one_of(p.name, {"groups", "step"})) return 1;
  if (one_of(p.name, {"start", "low"})) return d.random().between(0, 2);
  return d.random().between(1, 4);
}

// A random subset of the dimensions, in order.
std::vector<int64_t> some_dims(Drawn& d) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < d.rank(); ++i)
    if (d.random().chance(0.5)) dims.push_back(i);
  return dims;
}

// Now and then an option that only the run knows; operators that cannot take one must say so.
std::optional<Value> number_of_run(Drawn& d, K kind) {
  static const std::map<K, NumberKind> kinds = {
      {K::Int, NumberKind::Int}, {K::Float, NumberKind::Float}, {K::Bool, NumberKind::Bool}};
  auto it = kinds.find(kind);
  if (it == kinds.end() || !d.random().chance(0.03)) return std::nullopt;
  return d.draw.number_value(it->second);
}

Arg integers(Drawn& d, const Param& p) {
  if (p.name.starts_with("dim") || p.name == "axes") return Arg(some_dims(d));
  if (one_of(p.name, {"shape", "size", "sizes"})) return Arg(d.draw.shape());
  std::vector<int64_t> out;
  for (int64_t i = d.random().between(1, 3); i > 0; --i) out.push_back(d.random().between(1, 3));
  if (std::optional<Value> v = number_of_run(d, K::Int)) {
    ArgList items = Arg(out).items();
    items[0] = *v;
    return Arg::list(std::move(items));
  }
  return Arg(out);
}

Arg tensors(Drawn& d, const Param& p) {
  ArgList items;
  for (int64_t n = d.random().between(1, 3); n > 0; --n) items.push_back(next_tensor(d));
  return Arg::list(std::move(items));
}

Arg text(Drawn& d, const Param& p) {
  static const std::map<std::string, std::vector<const char*>> known = {
      {"reduction", {"none", "mean", "sum"}},
      {"rounding_mode", {"floor", "trunc"}},
      {"approximate", {"none", "tanh"}},
      {"indexing", {"ij", "xy"}},
  };
  auto it = known.find(p.name);
  if (it != known.end()) return d.random().pick(it->second);
  return p.default_value.value_or(Arg("none"));
}

Arg draw_one(Drawn& d, const Param& p, bool last_chance) {
  if (p.list) {
    if (p.kind == K::Tensor) return tensors(d, p);
    if (p.kind == K::Int) return integers(d, p);
    return p.default_value.value_or(Arg::list({}));
  }
  if (std::optional<Value> v = number_of_run(d, p.kind)) return *v;
  switch (p.kind) {
    case K::Tensor: return next_tensor(d);
    case K::Scalar: return scalar(d, p, last_chance);
    case K::Number: return number(d, p);
    case K::Int: return integer(d, p);
    case K::Float: return p.name == "p" ? Arg(d.random().uniform(0.1, 0.9)) : Arg(d.random().uniform(0.1, 2));
    case K::Bool: return d.random().chance(0.5);
    case K::Str: return text(d, p);
    case K::DType: return d.draw.any_type();
    case K::Device: return Device{};
    default: return p.default_value.value_or(Arg());
  }
}

Arg with_default(Drawn& d, const Param& p, bool last_chance) {
  // Layouts, devices and memory formats keep their defaults; other options are given now and then.
  bool fixed = p.kind == K::Layout || p.kind == K::Device || p.kind == K::MemoryFormat || p.kind == K::Any;
  if (p.default_value && (fixed || d.random().chance(0.5))) return *p.default_value;
  if (p.optional && (fixed || d.random().chance(0.4))) return nullptr;
  return draw_one(d, p, last_chance);
}

}  // namespace

std::optional<ArgList> draw_arguments(Draw& draw) {
  Named named;
  if (const ArgumentMaker* make = argument_maker(draw.op)) {
    std::optional<Named> made = (*make)(draw);
    if (!made) return std::nullopt;
    named = std::move(*made);
  }
  Drawn d{draw, {}, std::nullopt};
  const std::vector<Param>& params = draw.op.schema.params;
  size_t last_operand = 0;
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].kind == K::Tensor || params[i].kind == K::Scalar) last_operand = i;
  for (size_t i = 0; i < params.size(); ++i) {
    auto it = named.find(params[i].name);
    Arg a = it != named.end() ? it->second : with_default(d, params[i], i == last_operand);
    if (!d.first)
      for (Value v : values_in(a))
        if (v.type().is_tensor() && !d.first) d.first = v;
    if (!accepts(params[i], a)) return std::nullopt;
    // As bind() leaves them: lists are lists, floats are floats.
    if (a.kind() == Arg::Kind::Tuple && params[i].list) a = Arg::list(a.items());
    if (params[i].kind == K::Float && !params[i].list && a.is_literal_number()) a = a.real();
    if (params[i].list && !a.is_none() && !a.is_sequence()) a = Arg::list({a});
    d.args.push_back(std::move(a));
  }
  return std::move(d.args);
}

}  // namespace thunder::fuzz
