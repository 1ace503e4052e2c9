// Arguments of operators whose arguments must fit each other.
#include <algorithm>
#include <numeric>

#include "fuzz/generator.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;
using Made = std::optional<Named>;

std::string first_name(const Draw& d) { return d.op.schema.params.at(0).name; }

int64_t product_of(const Shape& s) { return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>()); }

// A value with at least `rank` dimensions.
Value with_rank(Draw& d, int64_t least, int64_t most = 4, std::optional<DType> t = {}) {
  for (int i = 0; i < 5; ++i) {
    Value v = d.tensor({.dtype = t, .shape = {}, .values = {}});
    if (v.rank() >= least && v.rank() <= most) return v;
  }
  return d.tensor({.dtype = t, .shape = d.shape(least, most), .values = {}});
}

// Another shape with as many elements.
Shape refactored(Draw& d, const Shape& from) {
  int64_t n = product_of(from);
  if (n == 0) {
    Shape s = d.shape(1, 3);
    s[static_cast<size_t>(d.random.below(static_cast<int64_t>(s.size())))] = 0;
    return s;
  }
  Shape out;
  while (n > 1) {
    std::vector<int64_t> divisors;
    for (int64_t k = 2; k <= n; ++k)
      if (n % k == 0) divisors.push_back(k);
    int64_t k = d.random.pick(divisors);
    out.push_back(k);
    n /= k;
    if (d.random.chance(0.2)) out.push_back(1);
  }
  return out;
}

// Merges or splits neighbours: what a view can do.
Shape viewed(Draw& d, Value v) {
  Shape s = Draw::shape_of(v);
  if (d.random.chance(0.3)) return refactored(d, s);
  if (s.size() > 1 && d.random.chance(0.5)) {
    size_t i = static_cast<size_t>(d.random.below(static_cast<int64_t>(s.size()) - 1));
    s[i] *= s[i + 1];
    s.erase(s.begin() + static_cast<long>(i) + 1);
  } else {
    s.insert(s.begin() + d.random.below(static_cast<int64_t>(s.size()) + 1), 1);
  }
  return s;
}

Made reshape(Draw& d) {
  Value v = d.tensor({});
  return Named{{first_name(d), v}, {"shape", Arg(viewed(d, v))}};
}

Made broadcast_in_dim(Draw& d) {
  Value v = d.tensor({});
  Shape from = Draw::shape_of(v), shape, dims;
  for (size_t i = 0; i < from.size(); ++i) {
    while (shape.size() < 4 && d.random.chance(0.25)) shape.push_back(d.random.between(1, 3));
    dims.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(from[i] == 1 ? d.random.between(1, 3) : from[i]);
  }
  while (shape.size() < 4 && d.random.chance(0.25)) shape.push_back(d.random.between(1, 3));
  return Named{{"a", v}, {"shape", Arg(shape)}, {"broadcast_dims", Arg(dims)}};
}

Shape permutation(Draw& d, int64_t n) {
  Shape p(static_cast<size_t>(n));
  std::iota(p.begin(), p.end(), 0);
  for (size_t i = p.size(); i > 1; --i) std::swap(p[i - 1], p[static_cast<size_t>(d.random.below(static_cast<int64_t>(i)))]);
  return p;
}

Made transpose(Draw& d) {
  Value v = d.tensor({});
  return Named{{"a", v}, {"permutation", Arg(permutation(d, v.rank()))}};
}

struct Bounds {
  Shape start, end, step, size;
};

Bounds bounds(Draw& d, Value v) {
  Bounds b;
  for (int64_t n : Draw::shape_of(v)) {
    int64_t start = d.random.chance(0.5) ? 0 : d.random.between(0, n), end = d.random.chance(0.5) ? n : d.random.between(start, n);
    int64_t step = d.random.chance(0.7) ? 1 : d.random.between(1, 3);
    b.start.push_back(start);
    b.end.push_back(end);
    b.step.push_back(step);
    b.size.push_back((end - start + step - 1) / step);
  }
  return b;
}

Made slice(Draw& d) {
  Value v = d.tensor({});
  Bounds b = bounds(d, v);
  return Named{{"a", v}, {"start_indices", Arg(b.start)}, {"end_indices", Arg(b.end)}, {"strides", Arg(b.step)}};
}

Made slice_scatter(Draw& d) {
  Value v = d.tensor({});
  Bounds b = bounds(d, v);
  Value src = d.tensor({.dtype = v.dtype(), .shape = b.size, .values = {}});
  return Named{{"a", v}, {"src", src}, {"start_indices", Arg(b.start)}, {"end_indices", Arg(b.end)}, {"strides", Arg(b.step)}};
}

Made squeeze(Draw& d) {
  Shape s = d.shape(0, 4);
  if (!s.empty()) s[static_cast<size_t>(d.random.below(static_cast<int64_t>(s.size())))] = 1;
  Value v = d.random.chance(0.4) ? d.tensor({}) : d.tensor({.dtype = {}, .shape = s, .values = {}});
  Shape dims;
  for (int64_t i = 0; i < v.rank(); ++i)
    if (Draw::size(v, i) == 1 && d.random.chance(0.7)) dims.push_back(i);
  return Named{{"a", v}, {"dims", Arg(dims)}};
}

std::pair<int64_t, int64_t> two_dims(Draw& d, int64_t rank) {
  int64_t first = d.random.below(rank), second = d.random.below(rank - 1);
  return {first, second >= first ? second + 1 : second};
}

Made diagonal(Draw& d) {
  Value v = with_rank(d, 2);
  auto [dim1, dim2] = two_dims(d, v.rank());
  int64_t offset = d.random.between(-Draw::size(v, dim1), Draw::size(v, dim2));
  return Named{{first_name(d), v}, {"offset", offset}, {"dim1", dim1}, {"dim2", dim2}};
}

Made diagonal_scatter(Draw& d) {
  Made m = diagonal(d);
  Value v = (*m)[first_name(d)].value();
  int64_t dim1 = (*m)["dim1"].dim().constant(), dim2 = (*m)["dim2"].dim().constant(), offset = (*m)["offset"].dim().constant();
  Shape shape;
  for (int64_t i = 0; i < v.rank(); ++i)
    if (i != dim1 && i != dim2) shape.push_back(Draw::size(v, i));
  int64_t rows = Draw::size(v, dim1) + std::min<int64_t>(0, offset), columns = Draw::size(v, dim2) - std::max<int64_t>(0, offset);
  shape.push_back(std::max<int64_t>(0, std::min(rows, columns)));
  (*m)["src"] = d.tensor({.dtype = v.dtype(), .shape = shape, .values = {}});
  return m;
}

Made unfold(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank()), size = Draw::size(v, dim) == 0 ? 0 : d.random.between(1, Draw::size(v, dim));
  return Named{{first_name(d), v}, {d.op.schema.params[1].name, dim}, {"size", size}, {"step", d.random.between(1, 3)}};
}

Made join(Draw& d) {
  Value first = with_rank(d, 1);
  int64_t dim = d.random.below(first.rank());
  ArgList items = {first};
  for (int64_t n = d.random.below(3); n > 0; --n) {
    Shape s = Draw::shape_of(first);
    s[static_cast<size_t>(dim)] = d.random.between(0, 3);
    items.push_back(d.tensor({.dtype = first.dtype(), .shape = s, .values = {}}));
  }
  return Named{{"tensors", Arg::list(items)}, {"dim", dim}};
}

Made pad(Draw& d) {
  Value v = d.tensor({});
  ArgList config;
  for (int64_t n : Draw::shape_of(v)) {
    int64_t low = d.random.between(-1, 2), high = d.random.between(-1, 2);
    if (n + low + high < 0) low = high = 0;
    config.push_back(Arg::tuple({low, high, d.random.chance(0.8) ? 0 : 1}));
  }
  return Named{{"a", v}, {"value", is_inexact(v.dtype()) ? Arg(0.5) : is_bool(v.dtype()) ? Arg(true) : Arg(1)}, {"config", Arg::list(config)}};
}

// ---- indices ---------------------------------------------------------------------------------------------------------

DType index_type(Draw& d) { return d.random.chance(0.8) ? DType::i64 : DType::i32; }

Made take(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank()), n = Draw::size(v, dim);
  Value index = d.indices({n == 0 ? 0 : d.random.between(0, 4)}, n, index_type(d));
  return Named{{first_name(d), v}, {"dim", dim}, {"index", index}};
}

// An index for gather and scatter: no longer than the tensor, except along `dim`.
Value index_within(Draw& d, Value v, int64_t dim) {
  Shape s = Draw::shape_of(v);
  int64_t n = s[static_cast<size_t>(dim)];
  for (int64_t& k : s)
    if (k > 1 && d.random.chance(0.3)) --k;
  s[static_cast<size_t>(dim)] = n == 0 ? 0 : d.random.between(1, 4);
  return d.indices(s, n);
}

Made gather(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank());
  return Named{{first_name(d), v}, {"dim", dim}, {"index", index_within(d, v, dim)}};
}

Made scatter(Draw& d) {
  Made m = gather(d);
  Value v = (*m)[first_name(d)].value(), index = (*m)["index"].value();
  // Two writes to one place have no order: every index along `dim` differs.
  int64_t dim = (*m)["dim"].dim().constant(), n = Draw::size(v, dim);
  if (d.op.schema.name == "scatter") {
    Shape s = Draw::shape_of(index);
    s[static_cast<size_t>(dim)] = n == 0 ? 0 : 1;
    index = d.indices(s, n);
    (*m)["index"] = index;
  }
  (*m)["src"] = d.tensor({.dtype = v.dtype(), .shape = Draw::shape_of(index), .values = {}});
  return m;
}

// index_add, index_copy: a source whose size along `dim` is that of the index.
Made index_write(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank()), n = Draw::size(v, dim), length = n == 0 ? 0 : 1;
  Shape s = Draw::shape_of(v);
  s[static_cast<size_t>(dim)] = length;
  Named m = {{first_name(d), v}, {"dim", dim}, {"index", d.indices({length}, n)}};
  m["source"] = d.tensor({.dtype = v.dtype(), .shape = s, .values = {}});
  return m;
}

// Tensors or None a dimension; the tensors broadcast.
Arg index_list(Draw& d, Value v, bool distinct) {
  Shape common = distinct ? Shape{1} : d.shape(1, 2);
  ArgList items;
  bool any = false;
  for (int64_t i = 0; i < v.rank(); ++i) {
    if (d.random.chance(0.4) && !(i + 1 == v.rank() && !any)) {
      items.push_back(nullptr);
      continue;
    }
    any = true;
    int64_t n = Draw::size(v, i);
    Shape s = n == 0 ? Shape{0} : common;
    items.push_back(d.indices(s, n));
    if (d.random.chance(0.3)) break;
  }
  return Arg::list(std::move(items));
}

Made index(Draw& d) {
  Value v = with_rank(d, 1);
  if (d.random.chance(0.1)) return Named{{first_name(d), v}, {"indices", Arg::list({d.mask(Draw::shape_of(v))})}};
  return Named{{first_name(d), v}, {"indices", index_list(d, v, false)}};
}

Made index_put(Draw& d) {
  Value v = with_rank(d, 1);
  bool accumulate = d.random.chance(0.5);
  Arg indices = index_list(d, v, !accumulate);
  Value values = d.tensor({.dtype = v.dtype(), .shape = Shape{}, .values = {}});
  return Named{{first_name(d), v}, {"indices", indices}, {"values", values}, {"accumulate", accumulate}};
}

Made item(Draw& d) {
  static const std::vector<Shape> single = {{}, {1}, {1, 1}};
  return Named{{first_name(d), d.tensor({.dtype = {}, .shape = d.random.pick(single), .values = {}})}};
}

Made topk(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank());
  return Named{{first_name(d), v}, {"dim", dim}, {"k", d.random.between(0, Draw::size(v, dim))}};
}

Made masked_scatter(Draw& d) {
  Value v = d.tensor({});
  return Named{{first_name(d), v}, {"mask", d.mask(Draw::shape_of(v))}, {"source", d.like(v)}};
}

// ---- products --------------------------------------------------------------------------------------------------------

Made matmul(Draw& d) {
  Value a = with_rank(d, 2, 4);
  Shape s = Draw::shape_of(a);
  std::swap(s[s.size() - 1], s[s.size() - 2]);
  if (d.random.chance(0.6)) s.back() = d.random.between(1, 4);
  return Named{{"a", a}, {"b", d.tensor({.dtype = a.dtype(), .shape = s, .values = {}})}};
}

Made linear(Draw& d) {
  Value a = with_rank(d, 1, 3, d.float_type());
  int64_t out = d.random.between(1, 4);
  Value w = d.tensor({.dtype = a.dtype(), .shape = Shape{out, Draw::size(a, a.rank() - 1)}, .values = {}});
  Named m = {{d.op.schema.params[0].name, a}, {d.op.schema.params[1].name, w}};
  m["bias"] = d.random.chance(0.5) ? Arg() : Arg(d.tensor({.dtype = a.dtype(), .shape = Shape{out}, .values = {}}));
  return m;
}

struct ConvolutionSetup {
  Named named;
  Shape output;
  DType dtype;
};

ConvolutionSetup convolution_setup(Draw& d) {
  int64_t spatial = d.random.between(1, 2), groups = d.random.between(1, 2), per_group = d.random.between(1, 2);
  bool transposed = d.random.chance(0.3);
  int64_t in_channels = groups * d.random.between(1, 2), out_channels = groups * per_group;
  Shape x = {d.random.between(1, 2), in_channels}, w, stride, padding, dilation, output_padding;
  w = transposed ? Shape{in_channels, per_group} : Shape{out_channels, in_channels / groups};
  Shape out = {x[0], out_channels};
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t k = d.random.between(1, 3), n = d.random.between(3, 5), s = d.random.between(1, 2), p = d.random.between(0, 1), dil = 1;
    if (k == 2) dil = d.random.between(1, 2);
    x.push_back(n);
    w.push_back(k);
    stride.push_back(s);
    padding.push_back(transposed && k == 1 ? 0 : p);
    dilation.push_back(dil);
    output_padding.push_back(transposed && s == 2 ? d.random.between(0, 1) : 0);
    int64_t reach = dil * (k - 1) + 1;
    out.push_back(transposed ? (n - 1) * s - 2 * padding.back() + reach + output_padding.back() : (n + 2 * padding.back() - reach) / s + 1);
  }
  ConvolutionSetup c{{}, out, d.float_type()};
  c.named = {{"input", d.tensor({.dtype = c.dtype, .shape = x, .values = {}})},
             {"weight", d.tensor({.dtype = c.dtype, .shape = w, .values = {}})},
             {"stride", Arg(stride)}, {"padding", Arg(padding)}, {"dilation", Arg(dilation)},
             {"transposed", transposed}, {"output_padding", Arg(output_padding)}, {"groups", groups}};
  return c;
}

Made convolution(Draw& d) {
  ConvolutionSetup c = convolution_setup(d);
  c.named["bias"] = d.random.chance(0.5) ? Arg() : Arg(d.tensor({.dtype = c.dtype, .shape = Shape{c.output[1]}, .values = {}}));
  return c.named;
}

Made convolution_backward(Draw& d) {
  ConvolutionSetup c = convolution_setup(d);
  c.named["grad_output"] = d.tensor({.dtype = c.dtype, .shape = c.output, .values = {}});
  bool bias = d.random.chance(0.5);
  c.named["bias_sizes"] = bias ? Arg(Shape{c.output[1]}) : Arg();
  c.named["output_mask"] = Arg::list({true, d.random.chance(0.7), bias});
  return c.named;
}

// ---- creation --------------------------------------------------------------------------------------------------------

Made full(Draw& d) {
  DType t = d.any_type();
  Arg value = is_bool(t) ? Arg(true) : is_inexact(t) ? Arg(d.random.uniform(-2, 2)) : Arg(d.random.between(0, 5));
  return Named{{"dtype", t}, {"fill_value", value}, {"device", Device{}}, {"shape", Arg(d.shape())}};
}

Made iota(Draw& d) {
  DType t = d.random.chance(0.5) ? DType::i64 : d.float_type();
  Arg start = is_inexact(t) ? Arg(d.random.uniform(-2, 2)) : Arg(d.random.between(-3, 3));
  Arg step = is_inexact(t) ? Arg(d.random.uniform(-2, 2)) : Arg(d.random.between(1, 3));
  return Named{{"length", d.random.between(0, 6)}, {"start", start}, {"step", step}, {"dtype", t}, {"device", Device{}}};
}

Made random_floats(Draw& d) {
  return Named{{"dtype", d.float_type()}, {"device", Device{}}, {"shape", Arg(d.shape())}};
}

Made random_integers(Draw& d) {
  return Named{{"low", 0}, {"high", d.random.between(1, 6)}, {"dtype", DType::i64}, {"device", Device{}}, {"shape", Arg(d.shape())}};
}

Made permutation_of_integers(Draw& d) {
  return Named{{first_name(d), d.random.between(0, 6)}, {"dtype", DType::i64}, {"device", Device{}}};
}

Made multinomial(Draw& d) {
  Shape s = d.random.chance(0.5) ? Shape{4} : Shape{2, 4};
  Value v = d.tensor({.dtype = d.float_type(), .shape = s, .values = Domain{0.1, 1}, .fresh = true});
  return Named{{first_name(d), v}, {d.op.schema.params[1].name, d.random.between(1, 3)}};
}

Made bernoulli(Draw& d) {
  if (d.op.schema.params[0].kind != Param::Kind::Tensor) return Named{};
  return Named{{first_name(d), d.tensor({.dtype = d.float_type(), .shape = {}, .values = Domain{0.1, 0.9}, .fresh = true})}};
}

Made tensor_from_sequence(Draw& d) {
  ArgList rows;
  int64_t columns = d.random.between(0, 3);
  for (int64_t r = d.random.between(1, 3); r > 0; --r) {
    ArgList row;
    for (int64_t c = 0; c < columns; ++c) row.push_back(d.random.between(0, 5));
    rows.push_back(Arg::list(std::move(row)));
  }
  return Named{{first_name(d), Arg::list(std::move(rows))}, {"dtype", d.any_type()}, {"device", Device{}}};
}

const std::map<std::string, ArgumentMaker>& makers() {
  static const std::map<std::string, ArgumentMaker> table = {
      {"prims.view", reshape}, {"prims.reshape", reshape}, {"torch.view", reshape}, {"torch.reshape", reshape},
      {"prims.broadcast_in_dim", broadcast_in_dim}, {"prims.transpose", transpose}, {"prims.slice", slice},
      {"prims.slice_scatter", slice_scatter}, {"prims.squeeze", squeeze}, {"prims.diagonal", diagonal},
      {"torch.diagonal", diagonal}, {"prims.diagonal_scatter", diagonal_scatter}, {"prims.unfold", unfold},
      {"torch.unfold", unfold}, {"prims.cat", join}, {"torch.cat", join}, {"prims.pad", pad},
      {"prims.take", take}, {"torch.index_select", take}, {"prims.take_along_axis", gather}, {"torch.gather", gather},
      {"prims.scatter", scatter}, {"prims.scatter_add", scatter}, {"torch.scatter_add", scatter},
      {"prims.index_add", index_write}, {"prims.index_copy", index_write}, {"torch.index_add", index_write},
      {"torch.index_copy", index_write}, {"prims.index_fill", index_write}, {"torch.index_fill", index_write},
      {"prims.index", index}, {"prims.index_put", index_put}, {"torch.index_put", index_put},
      {"prims.item", item}, {"torch.item", item}, {"prims.topk", topk}, {"torch.topk", topk},
      {"prims.masked_scatter", masked_scatter}, {"torch.masked_scatter", masked_scatter},
      {"prims.matmul", matmul}, {"prims.linear", linear}, {"torch.linear", linear},
      {"prims.convolution", convolution}, {"torch.convolution", convolution}, {"torch.convolution_backward", convolution_backward},
      {"prims.full", full}, {"prims.iota", iota}, {"prims.uniform", random_floats}, {"prims.normal", random_floats},
      {"prims.randint", random_integers}, {"prims.randperm", permutation_of_integers}, {"prims.multinomial", multinomial},
      {"prims.bernoulli", bernoulli}, {"prims.tensor_from_sequence", tensor_from_sequence},
  };
  return table;
}

}  // namespace

const ArgumentMaker* argument_maker(const Op& op) {
  auto it = makers().find(op.full_name);
  return it == makers().end() ? nullptr : &it->second;
}

}  // namespace thunder::fuzz
