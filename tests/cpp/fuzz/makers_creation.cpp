// Arguments of operators that make tensors.
#include <algorithm>

#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;

// ---- creation -------------------------------------------------------------------------------------------------------

Made full(Draw& d) {
  DType t = d.any_type();
  Arg value = is_bool(t) ? Arg(true) : is_inexact(t) ? Arg(d.random.uniform(-2, 2)) : Arg(d.random.between(0, 5));
  return Named{
      {"dtype", t}, {"fill_value", value}, {"device", Device{}}, {"shape", Arg(d.shape())}, {"size", Arg(d.shape())},
      {"s", value}};
}

Made iota(Draw& d) {
  DType t = d.random.chance(0.5) ? DType::i64 : d.float_type();
  Arg start = is_inexact(t) ? Arg(d.random.uniform(-2, 2)) : Arg(d.random.between(-3, 3));
  Arg step = is_inexact(t) ? Arg(d.random.uniform(-2, 2)) : Arg(d.random.between(1, 3));
  return Named{
      {"length", d.random.between(0, 6)}, {"start", start}, {"step", step}, {"dtype", t}, {"device", Device{}}};
}

Made random_floats(Draw& d) {
  return Named{{"dtype", d.float_type()}, {"device", Device{}}, {"shape", Arg(d.shape())}};
}

Made random_integers(Draw& d) {
  return Named{{"low", 0},
               {"high", d.random.between(1, 6)},
               {"dtype", DType::i64},
               {"device", Device{}},
               {"shape", Arg(d.shape())}};
}

Made random_states(Draw& d) { return Named{{"n", d.random.between(1, 3)}, {"device", Device{}}}; }

Made counted_random(Draw& d) {
  const int64_t low = d.random.between(-3, 3);
  return Named{{"state", d.tensor({.dtype = DType::i64, .shape = Shape{2}, .values = {}})},
               {"shape", Arg(d.shape())},
               {"dtype", d.float_type()},
               {"low", low},
               {"high", low + d.random.between(1, 9)}};
}

Made permutation_of_integers(Draw& d) {
  return Named{{param(d, 0), d.random.between(0, 6)}, {"dtype", DType::i64}, {"device", Device{}}};
}

Made multinomial(Draw& d) {
  Shape s = d.random.chance(0.5) ? Shape{4} : Shape{2, 4};
  Value v = d.tensor({.dtype = d.float_type(), .shape = s, .values = Domain{0.1, 1}, .fresh = true});
  return Named{{param(d, 0), v}, {param(d, 1), d.random.between(1, 3)}};
}

Made bernoulli(Draw& d) {
  if (d.op.schema.params[0].kind != Param::Kind::Tensor) return Named{};
  return Named{
      {param(d, 0), d.tensor({.dtype = d.float_type(), .shape = {}, .values = Domain{0.1, 0.9}, .fresh = true})}};
}

Made shaped(Draw& d) { return Named{{param(d, 0), Arg(d.shape())}, {"dtype", d.any_type()}, {"device", Device{}}}; }

Made empty_strided(Draw& d) {
  Shape s = d.shape(), strides;
  for (size_t i = 0; i < s.size(); ++i) strides.push_back(d.random.between(1, 6));
  return Named{{param(d, 0), Arg(s)}, {param(d, 1), Arg(strides)}, {"dtype", d.any_type()}, {"device", Device{}}};
}

Made empty_permuted(Draw& d) {
  Shape s = d.shape(), order;
  for (size_t i = 0; i < s.size(); ++i)
    order.insert(order.begin() + static_cast<long>(d.random.between(0, static_cast<int64_t>(i))),
                 static_cast<int64_t>(i));
  return Named{{param(d, 0), Arg(s)}, {param(d, 1), Arg(order)}, {"dtype", d.any_type()}, {"device", Device{}}};
}

Made arange(Draw& d) {
  DType t = d.random.chance(0.5) ? DType::i64 : d.float_type();
  return Named{{"length", d.random.between(0, 6)}, {"dtype", t}, {"device", Device{}}};
}

Made range(Draw& d) {
  Arg start = d.random.between(-3, 3);
  int64_t end = start.dim().constant() + d.random.between(0, 6);
  return Named{
      {"start", start},
      {"end", d.op.schema.overload.empty() && d.op.schema.name == "arange" ? Arg(d.random.between(0, 6)) : Arg(end)},
      {"step", d.random.between(1, 2)},
      {"dtype", nullptr}};
}

Made triangle_indices(Draw& d) {
  return Named{{"row", d.random.between(0, 4)},
               {"col", d.random.between(0, 4)},
               {"offset", d.random.between(-3, 3)},
               {"dtype", nullptr}};
}

Made random_range(Draw& d) {
  return Named{
      {"low", d.random.between(-2, 1)}, {"high", d.random.between(2, 6)}, {"size", Arg(d.shape())}, {"dtype", nullptr}};
}

Made like(Draw& d) {
  return Named{{"dtype", d.random.chance(0.5) ? Arg() : Arg(d.float_type())}, {param(d, 0), floats(d, d.shape())}};
}

Made from_data(Draw& d) {
  ArgList row;
  for (int64_t n = d.random.between(0, 4); n > 0; --n)
    row.push_back(d.random.chance(0.5) ? Arg(d.random.between(0, 5)) : Arg(d.random.uniform(-2, 2)));
  return Named{{"data", Arg::list(std::move(row))}, {"dtype", d.random.chance(0.5) ? Arg() : Arg(d.float_type())}};
}

Made tensor_from_sequence(Draw& d) {
  ArgList rows;
  int64_t columns = d.random.between(0, 3);
  for (int64_t r = d.random.between(1, 3); r > 0; --r) {
    ArgList row;
    for (int64_t c = 0; c < columns; ++c) row.push_back(d.random.between(0, 5));
    rows.push_back(Arg::list(std::move(row)));
  }
  return Named{{param(d, 0), Arg::list(std::move(rows))}, {"dtype", d.any_type()}, {"device", Device{}}};
}

}  // namespace

void add_creation_makers(Makers& m) {
  m.insert({{"prims.full", full},
            {"torch.full", full},
            {"torch.scalar_tensor", full},
            {"prims.iota", iota},
            {"prims.arange", arange},
            {"torch.arange", range},
            {"torch.arange.start", range},
            {"torch.linspace", range},
            {"prims.empty", shaped},
            {"prims.empty_strided", empty_strided},
            {"torch.empty_strided", empty_strided},
            {"torch.empty_permuted", empty_permuted},
            {"prims.uniform", random_floats},
            {"prims.normal", random_floats},
            {"prims.randint", random_integers},
            {"prims.rng_states", random_states},
            {"prims.uniform_at", counted_random},
            {"prims.normal_at", counted_random},
            {"prims.randint_at", counted_random},
            {"torch.randint", random_range},
            {"torch.tril_indices", triangle_indices},
            {"torch.triu_indices", triangle_indices},
            {"torch.randint.low", random_range},
            {"prims.randperm", permutation_of_integers},
            {"prims.multinomial", multinomial},
            {"torch.multinomial", multinomial},
            {"prims.bernoulli", bernoulli},
            {"torch.bernoulli", bernoulli},
            {"torch.rand_like", like},
            {"torch.randn_like", like},
            {"prims.tensor_from_sequence", tensor_from_sequence},
            {"torch.tensor", from_data}});
  for (const char* name : {"torch.rand", "torch.randn"})
    m[name] = [](Draw& d) -> Made {
      return Named{{"size", Arg(d.shape())}, {"dtype", d.random.chance(0.5) ? Arg() : Arg(d.float_type())}};
    };
}

}  // namespace thunder::fuzz
