// Arguments of operators that move elements.
#include <algorithm>
#include <numeric>

#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;

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
  return Named{{param(d, 0), v}, {param(d, 1), Arg(viewed(d, v))}};
}

Made reshape_as(Draw& d) {
  Value v = d.tensor({});
  return Named{{param(d, 0), v}, {param(d, 1), d.tensor({.dtype = {}, .shape = viewed(d, v), .values = {}})}};
}

// One dimension split in two.
Made unflatten(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  Shape sizes = n % 2 == 0 && n > 0 ? Shape{2, n / 2} : Shape{1, n};
  if (d.random.chance(0.3)) sizes[0] = -1;
  if (sizes[0] == -1 && sizes[1] == 0) sizes[0] = 1;
  return Named{{param(d, 0), v}, {"dim", dim}, {"sizes", Arg(sizes)}};
}

// Dimensions of size 1 grow, and new ones come in front.
Shape expanded(Draw& d, Value v, bool keep) {
  Shape s = Draw::shape_of(v);
  for (int64_t& n : s) {
    if (n == 1) n = d.random.between(1, 3);
    else if (keep && d.random.chance(0.3)) n = -1;
  }
  if (s.size() < 4 && d.random.chance(0.4)) s.insert(s.begin(), d.random.between(1, 3));
  return s;
}

Made expand(Draw& d) {
  Value v = d.tensor({});
  return Named{{param(d, 0), v}, {param(d, 1), Arg(expanded(d, v, true))}};
}

Made expand_as(Draw& d) {
  Value v = d.tensor({});
  return Named{{param(d, 0), v}, {param(d, 1), d.tensor({.dtype = {}, .shape = expanded(d, v, false), .values = {}})}};
}

Made sum_to_size(Draw& d) {
  Value v = d.tensor({});
  Shape s = Draw::shape_of(v);
  if (!s.empty() && d.random.chance(0.4)) s.erase(s.begin());
  for (int64_t& n : s)
    if (d.random.chance(0.4)) n = 1;
  return Named{{param(d, 0), v}, {param(d, 1), Arg(s)}};
}

Made repeat(Draw& d) {
  Value v = d.tensor({});
  Shape repeats;
  for (int64_t i = 0; i < v.rank() + d.random.below(2); ++i) repeats.push_back(d.random.between(0, 2) + (i % 2));
  return Named{{param(d, 0), v}, {param(d, 1), Arg(repeats)}};
}

Made slice_one(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim), start = d.random.between(0, n);
  Named m = {{param(d, 0), v}, {"dim", dim}, {"start", start}, {"length", d.random.between(0, n - start)}};
  if (d.op.schema.index_of("start_index") >= 0) {
    m["start_index"] = start;
    m["stop_index"] = d.random.between(start, n);
  }
  if (d.op.schema.overload == "tensor" || d.op.schema.name == "narrow_at")
    m["start"] = d.indices({}, n == 0 ? 1 : start + 1);
  return m;
}

// Bounds beyond the ends, too.
Made slice_by_bounds(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  auto bound = [&] { return d.random.chance(0.3) ? Arg() : Arg(d.random.between(-n - 2, n + 2)); };
  return Named{{param(d, 0), v}, {"dim", dim}, {"start", bound()}, {"end", bound()}, {"step", d.random.between(1, 3)}};
}

Made select(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  if (n == 0) return std::nullopt;
  return Named{{param(d, 0), v}, {"dim", dim}, {"index", d.random.between(-n, n - 1)}};
}

Made split_sizes(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  Shape sizes;
  while (n > 0) {
    sizes.push_back(d.random.between(0, n));
    n -= sizes.back();
  }
  if (sizes.empty()) sizes.push_back(0);
  return Named{{param(d, 0), v}, {param(d, 1), Arg(sizes)}, {"dim", dim}};
}

Made split_from(Draw& d, int64_t least) {
  Value v = with_rank(d, least);
  int64_t dim = least == 3 ? 2 : least == 1 && v.rank() == 1 ? 0 : least == 2 ? 0 : 1;
  std::vector<int64_t> sections;
  int64_t n = Draw::size(v, dim);
  for (int64_t k = 1; k <= std::max<int64_t>(1, n); ++k)
    if (n % k == 0) sections.push_back(k);
  if (d.random.chance(0.4)) return Named{{param(d, 0), v}, {param(d, 1), Arg(Shape{d.random.between(0, n)})}};
  return Named{{param(d, 0), v}, {param(d, 1), d.random.pick(sections)}};
}

Made move_dims(Draw& d) {
  Value v = with_rank(d, 1);
  Shape from = {random_dim(d, v)}, to = {random_dim(d, v)};
  if (v.rank() > 1 && d.random.chance(0.4)) {
    from.push_back((from[0] + 1) % v.rank());
    to.push_back((to[0] + 1) % v.rank());
  }
  return Named{{param(d, 0), v}, {param(d, 1), Arg(from)}, {param(d, 2), Arg(to)}};
}

Made as_strided(Draw& d) {
  Value v = d.tensor({.dtype = {}, .shape = d.shape(1, 3), .values = {}, .fresh = true});
  if (!same(v.tensor().strides, contiguous_strides(v.shape()))) return std::nullopt;
  int64_t n = product_of(Draw::shape_of(v));
  Shape size, stride;
  for (int64_t extent = n - 1; extent >= 0 && size.size() < 3;) {
    size.push_back(d.random.between(1, std::min<int64_t>(3, extent + 1)));
    stride.push_back(size.back() > 1 ? d.random.between(0, extent / (size.back() - 1)) : 1);
    extent -= (size.back() - 1) * stride.back();
    if (d.random.chance(0.3)) break;
  }
  if (n == 0) size = {0}, stride = {1};
  return Named{{param(d, 0), v}, {"size", Arg(size)}, {"stride", Arg(stride)}, {"storage_offset", nullptr}};
}

// Whether two places of a strided view are one element.
bool overlaps(const Shape& size, const Shape& stride) {
  std::vector<int64_t> offsets = {0};
  for (size_t d = 0; d < size.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < size[d]; ++i) next.push_back(offset + i * stride[d]);
    offsets = std::move(next);
  }
  std::sort(offsets.begin(), offsets.end());
  return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

Made as_strided_scatter(Draw& d) {
  Made m = as_strided(d);
  if (!m) return m;
  Shape size, stride;
  for (const Arg& n : (*m)["size"].items()) size.push_back(n.dim().constant());
  for (const Arg& n : (*m)["stride"].items()) stride.push_back(n.dim().constant());
  if (d.smooth() && overlaps(size, stride)) return std::nullopt;
  (*m)["src"] = d.tensor({.dtype = (*m)[param(d, 0)].value().dtype(), .shape = size, .values = {}});
  return m;
}

Made restride(Draw& d) {
  Value v = d.tensor({});
  Shape s = Draw::shape_of(v), strides(s.size());
  int64_t next = 1;
  for (size_t i = 0; i < s.size(); ++i) {
    strides[i] = next;
    next *= std::max<int64_t>(1, s[i]);
  }
  return Named{{"a", v}, {"strides", Arg(strides)}};
}

Made view_dtype(Draw& d) {
  static const std::vector<std::pair<DType, DType>> pairs = {
      {DType::f32, DType::i32}, {DType::i64, DType::f64}, {DType::bf16, DType::i16}, {DType::f16, DType::bf16},
      {DType::f64, DType::i32}, {DType::i32, DType::i16}, {DType::c64, DType::f32},  {DType::f32, DType::f32},
  };
  auto [from, to] = d.random.pick(pairs);
  return Named{{param(d, 0), d.tensor({.dtype = from, .shape = d.shape(1, 3), .values = {}})}, {"dtype", to}};
}

Made complex_tensor(Draw& d) {
  DType t = d.random.chance(0.5) ? DType::c64 : DType::c128;
  return Named{{param(d, 0), d.tensor({.dtype = t, .shape = {}, .values = {}})}};
}

Made pairs(Draw& d) {
  Shape s = d.shape(0, 3);
  s.push_back(2);
  return Named{
      {param(d, 0), d.tensor({.dtype = d.random.chance(0.5) ? DType::f32 : DType::f64, .shape = s, .values = {}})}};
}

Made two_like(Draw& d) {
  Value v = d.tensor({});
  return Named{{param(d, 0), v}, {param(d, 1), d.like(v)}};
}

Made matrix(Draw& d) { return Named{{param(d, 0), d.tensor({.dtype = {}, .shape = d.shape(2, 2), .values = {}})}}; }
Made at_least_matrix(Draw& d) { return Named{{param(d, 0), with_rank(d, 2)}}; }
Made at_least_vector(Draw& d) { return Named{{param(d, 0), with_rank(d, 1)}}; }

Made stacked(Draw& d) {
  Value first = d.tensor({});
  ArgList items = {first};
  for (int64_t n = d.random.below(3); n > 0; --n) items.push_back(d.like(first));
  Named m = {{param(d, 0), Arg::list(items)}};
  if (d.op.schema.index_of("dim") >= 0) m["dim"] = d.random.between(0, first.rank());
  return m;
}

Made vectors(Draw& d) {
  DType t = d.any_type();
  ArgList items;
  for (int64_t n = d.random.between(1, 3); n > 0; --n)
    items.push_back(d.tensor({.dtype = t, .shape = d.shape(1, 1), .values = {}}));
  return Named{{param(d, 0), Arg::list(items)}};
}

Made broadcast_list(Draw& d) {
  Value first = d.tensor({});
  ArgList items = {first};
  for (int64_t n = d.random.below(3); n > 0; --n)
    items.push_back(d.tensor({.dtype = {}, .shape = d.broadcastable(Draw::shape_of(first)), .values = {}}));
  return Named{{param(d, 0), Arg::list(items)}};
}

Made rot90(Draw& d) {
  Value v = with_rank(d, 2);
  int64_t dim = random_dim(d, v);
  return Named{{param(d, 0), v}, {"k", d.random.between(-2, 4)}, {"dims", Arg(Shape{dim, (dim + 1) % v.rank()})}};
}

Made roll(Draw& d) {
  Value v = d.tensor({});
  if (v.rank() == 0 || d.random.chance(0.3))
    return Named{{param(d, 0), v}, {"shifts", Arg(Shape{d.random.between(-3, 3)})}, {"dims", nullptr}};
  return Named{
      {param(d, 0), v}, {"shifts", Arg(Shape{d.random.between(-3, 3)})}, {"dims", Arg(Shape{random_dim(d, v)})}};
}

Made shuffle(Draw& d) {
  int64_t r = d.random.between(1, 2);
  bool un = d.op.schema.name == "pixel_unshuffle";
  Shape s = un ? Shape{2, 2 * r, 3 * r} : Shape{2 * r * r, 2, 3};
  if (d.random.chance(0.5)) s.insert(s.begin(), 2);
  return Named{{param(d, 0), d.tensor({.dtype = {}, .shape = s, .values = {}})}, {param(d, 1), r}};
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
  for (size_t i = p.size(); i > 1; --i)
    std::swap(p[i - 1], p[static_cast<size_t>(d.random.below(static_cast<int64_t>(i)))]);
  return p;
}

Made transpose(Draw& d) {
  Value v = d.tensor({});
  return Named{{param(d, 0), v}, {param(d, 1), Arg(permutation(d, v.rank()))}};
}

struct Bounds {
  Shape start, end, step, size;
};

Bounds bounds(Draw& d, Value v) {
  Bounds b;
  for (int64_t n : Draw::shape_of(v)) {
    int64_t start = d.random.chance(0.5) ? 0 : d.random.between(0, n),
            end = d.random.chance(0.5) ? n : d.random.between(start, n);
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

// torch.slice_scatter: along one dimension.
Made slice_scatter_one(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim), start = d.random.between(0, n),
          end = d.random.between(start, n);
  Shape s = Draw::shape_of(v);
  s[static_cast<size_t>(dim)] = end - start;
  return Named{{param(d, 0), v}, {"src", d.tensor({.dtype = v.dtype(), .shape = s, .values = {}})},
               {"dim", dim},     {"start", start},
               {"end", end},     {"step", 1}};
}

Made select_scatter(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  if (n == 0) return std::nullopt;
  Shape s = Draw::shape_of(v);
  s.erase(s.begin() + dim);
  return Named{{param(d, 0), v},
               {"src", d.tensor({.dtype = v.dtype(), .shape = s, .values = {}})},
               {"dim", dim},
               {"index", d.random.below(n)}};
}

Made slice_scatter(Draw& d) {
  Value v = d.tensor({});
  Bounds b = bounds(d, v);
  Value src = d.tensor({.dtype = v.dtype(), .shape = b.size, .values = {}});
  return Named{
      {"a", v}, {"src", src}, {"start_indices", Arg(b.start)}, {"end_indices", Arg(b.end)}, {"strides", Arg(b.step)}};
}

Made squeeze(Draw& d) {
  Shape s = d.shape(0, 4);
  if (!s.empty()) s[static_cast<size_t>(d.random.below(static_cast<int64_t>(s.size())))] = 1;
  Value v = d.random.chance(0.4) ? d.tensor({}) : d.tensor({.dtype = {}, .shape = s, .values = {}});
  Shape dims;
  for (int64_t i = 0; i < v.rank(); ++i)
    if (Draw::size(v, i) == 1 && d.random.chance(0.7)) dims.push_back(i);
  return Named{{param(d, 0), v}, {param(d, 1), Arg(dims)}};
}

Made diagonal(Draw& d) {
  Value v = with_rank(d, 2);
  auto [dim1, dim2] = two_dims(d, v.rank());
  int64_t offset = d.random.between(-Draw::size(v, dim1), Draw::size(v, dim2));
  return Named{{param(d, 0), v}, {"offset", offset}, {"dim1", dim1}, {"dim2", dim2}};
}

Made diagonal_scatter(Draw& d) {
  Made m = diagonal(d);
  Value v = (*m)[param(d, 0)].value();
  int64_t dim1 = (*m)["dim1"].dim().constant(), dim2 = (*m)["dim2"].dim().constant(),
          offset = (*m)["offset"].dim().constant();
  Shape shape;
  for (int64_t i = 0; i < v.rank(); ++i)
    if (i != dim1 && i != dim2) shape.push_back(Draw::size(v, i));
  int64_t rows = Draw::size(v, dim1) + std::min<int64_t>(0, offset),
          columns = Draw::size(v, dim2) - std::max<int64_t>(0, offset);
  shape.push_back(std::max<int64_t>(0, std::min(rows, columns)));
  (*m)["src"] = d.tensor({.dtype = v.dtype(), .shape = shape, .values = {}});
  return m;
}

Made unfold(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank()), size = Draw::size(v, dim) == 0 ? 0 : d.random.between(1, Draw::size(v, dim));
  return Named{{param(d, 0), v}, {param(d, 1), dim}, {"size", size}, {"step", d.random.between(1, 3)}};
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
  return Named{{param(d, 0), Arg::list(items)}, {"dim", dim}};
}

Made pad(Draw& d) {
  Value v = d.tensor({});
  ArgList config;
  for (int64_t n : Draw::shape_of(v)) {
    int64_t low = d.random.between(-1, 2), high = d.random.between(-1, 2);
    if (n + low + high < 0) low = high = 0;
    config.push_back(Arg::tuple({low, high, d.random.chance(0.8) ? 0 : 1}));
  }
  return Named{{"a", v},
               {"value", is_inexact(v.dtype()) ? Arg(0.5)
                         : is_bool(v.dtype())  ? Arg(true)
                                               : Arg(1)},
               {"config", Arg::list(config)}};
}

}  // namespace

void add_shape_makers(Makers& m) {
  m.insert({{"prims.view", reshape},        {"prims.reshape", reshape},         {"clang.reshape", reshape},
            {"torch.view", reshape},        {"torch.view_copy", reshape},       {"torch.reshape", reshape},
            {"torch.view_as", reshape_as},  {"torch.reshape_as", reshape_as},   {"torch.unflatten", unflatten},
            {"torch.expand", expand},       {"clang.expand", expand},           {"torch.broadcast_to", expand},
            {"torch.expand_as", expand_as}, {"torch.sum_to_size", sum_to_size}, {"torch.repeat", repeat},
            {"torch.tile", repeat},         {"torch.narrow", slice_one},        {"torch.narrow.tensor", slice_one},
            {"prims.narrow_at", slice_one}, {"clang.slice_in_dim", slice_one},  {"torch.slice", slice_by_bounds},
            {"torch.select", select},       {"torch.split.sizes", split_sizes}, {"torch.split_with_sizes", split_sizes},
            {"torch.movedim", move_dims},   {"torch.moveaxis", move_dims}});
  m.insert({{"torch.hsplit", [](Draw& d) { return split_from(d, 1); }},
            {"torch.vsplit", [](Draw& d) { return split_from(d, 2); }},
            {"torch.dsplit", [](Draw& d) { return split_from(d, 3); }}});
  m.insert({{"prims.broadcast_in_dim", broadcast_in_dim},
            {"prims.transpose", transpose},
            {"clang.transpose", transpose},
            {"torch.permute", transpose},
            {"prims.slice", slice},
            {"prims.slice_scatter", slice_scatter},
            {"torch.slice_scatter", slice_scatter_one},
            {"torch.select_scatter", select_scatter},
            {"prims.squeeze", squeeze},
            {"clang.squeeze", squeeze},
            {"torch.squeeze.dim", squeeze},
            {"prims.diagonal", diagonal},
            {"clang.diagonal", diagonal},
            {"torch.diagonal", diagonal},
            {"torch.linalg_diagonal", diagonal},
            {"prims.diagonal_scatter", diagonal_scatter},
            {"torch.diagonal_scatter", diagonal_scatter},
            {"prims.unfold", unfold},
            {"clang.unfold", unfold},
            {"torch.unfold", unfold},
            {"prims.cat", join},
            {"clang.cat", join},
            {"torch.cat", join},
            {"torch.concat", join},
            {"torch.concatenate", join},
            {"prims.pad", pad},
            {"clang.pad", pad}});
  m.insert({{"prims.as_strided", as_strided},
            {"torch.as_strided", as_strided},
            {"prims.as_strided_scatter", as_strided_scatter},
            {"torch.as_strided_scatter", as_strided_scatter},
            {"prims.restride", restride},
            {"prims.view_dtype", view_dtype},
            {"torch.view.dtype", view_dtype},
            {"prims.view_as_real", complex_tensor},
            {"torch.view_as_real", complex_tensor},
            {"prims.real", complex_tensor},
            {"prims.imag", complex_tensor},
            {"torch.imag", complex_tensor},
            {"prims.view_as_complex", pairs},
            {"torch.view_as_complex", pairs},
            {"prims.graft", two_like},
            {"torch.t", matrix},
            {"torch.numpy_T", matrix},
            {"torch.H", matrix},
            {"torch.mT", at_least_matrix},
            {"torch.mH", at_least_matrix},
            {"torch.adjoint", at_least_matrix},
            {"clang.matrix_transpose", at_least_matrix},
            {"torch.fliplr", at_least_matrix},
            {"torch.tril", at_least_matrix},
            {"torch.triu", at_least_matrix},
            {"torch.flipud", at_least_vector},
            {"torch.unbind", at_least_vector},
            {"torch.diag_embed", at_least_vector},
            {"prims.size", at_least_vector}});
  m.insert({{"torch.stack", stacked},
            {"clang.stack", stacked},
            {"torch.hstack", stacked},
            {"torch.vstack", stacked},
            {"torch.dstack", stacked},
            {"torch.column_stack", stacked},
            {"torch.atleast_1d.list", stacked},
            {"torch.atleast_2d.list", stacked},
            {"torch.atleast_3d.list", stacked},
            {"torch.meshgrid", vectors},
            {"torch.cartesian_prod", vectors},
            {"torch.broadcast_tensors", broadcast_list},
            {"torch.rot90", rot90},
            {"torch.roll", roll},
            {"torch.pixel_shuffle", shuffle},
            {"torch.pixel_unshuffle", shuffle}});
}

}  // namespace thunder::fuzz
