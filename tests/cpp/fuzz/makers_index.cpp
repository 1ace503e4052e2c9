// Arguments of operators that read and write by indices.
#include <algorithm>

#include "fuzz/makers.h"

namespace thunder::fuzz {
namespace {

using Shape = Draw::Shape;

// ---- indices --------------------------------------------------------------------------------------------------------

DType index_type(Draw& d) { return d.random.chance(0.8) ? DType::i64 : DType::i32; }

Made take(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank()), n = Draw::size(v, dim);
  Value index = d.indices({n == 0 ? 0 : d.random.between(0, 4)}, n, index_type(d));
  return Named{{param(d, 0), v}, {"dim", dim}, {"index", index}};
}

// torch.take, torch.put: positions in the flattened tensor.
Made flat_positions(Draw& d) {
  Value v = d.tensor({});
  int64_t n = product_of(Draw::shape_of(v));
  Shape s = n == 0 ? Shape{0} : d.op.schema.name == "put" ? Shape{1} : d.shape(0, 2);
  return Named{{param(d, 0), v},
               {"index", d.indices(s, n)},
               {"source", d.tensor({.dtype = v.dtype(), .shape = s, .values = {}})}};
}

Made masked(Draw& d) {
  Value v = d.tensor({});
  Shape s = Draw::shape_of(v);
  return Named{
      {"input", v},
      {"condition", d.mask(s)},
      {"pred", d.mask(s)},
      {"mask", d.mask(d.broadcastable(s))},
      {"other", d.like(v)},
      {"value", d.op.schema.overload == "Tensor" ? Arg(d.tensor({.dtype = v.dtype(), .shape = Shape{}, .values = {}}))
                                                 : Arg(1)}};
}

// Two writes to one place have no order, so what is written to differs.
Value some_rows(Draw& d, int64_t n) {
  if (d.op.schema.name == "setitem") return d.distinct_indices(d.random.between(1, std::min<int64_t>(3, n)), n);
  return d.indices({d.random.between(1, 3)}, n);
}

// x[key] with integers, slices, None, ... and tensors.
Made key(Draw& d) {
  Value v = with_rank(d, 1);
  ArgList parts;
  for (int64_t i = 0; i < v.rank() && !(i > 0 && d.random.chance(0.3)); ++i) {
    int64_t n = Draw::size(v, i);
    double x = d.random.uniform(0, 1);
    // A gradient reads by the key, and whether a length that only the run knows broadcasts with another cannot be
    // decided.
    bool beside_tensor =
        d.smooth() && std::any_of(parts.begin(), parts.end(), [](const Arg& p) { return p.is_tensor(); });
    if (d.random.chance(0.1)) parts.push_back(nullptr);
    if (x < 0.25 && n > 0) parts.push_back(d.random.between(-n, n - 1));
    else if (x < 0.6)
      parts.push_back(Arg::slice(d.random.chance(0.5) ? Arg() : Arg(d.random.between(-2, 2)),
                                 d.random.chance(0.5) ? Arg() : Arg(d.random.between(-1, 4)),
                                 d.random.chance(0.7) ? Arg() : Arg(2)));
    else if (x < 0.7 && n > 0 && !beside_tensor) parts.push_back(some_rows(d, n));
    else if (x < 0.75 && !beside_tensor) parts.push_back(d.mask({n}));
    else parts.push_back(Arg::slice({}, {}, {}));
  }
  Arg whole = parts.size() == 1 ? parts[0] : Arg::tuple(parts);
  return Named{
      {param(d, 0), v}, {"key", whole}, {"value", d.tensor({.dtype = v.dtype(), .shape = Shape{}, .values = {}})}};
}

// Integers from 0 to 3 in a row.
Made small_integers(Draw& d) {
  Value v = d.indices({d.random.between(0, 5)}, 4);
  Named m = {{param(d, 0), v}, {"output_size", nullptr}, {"weights", nullptr}, {"minlength", d.random.between(0, 5)}};
  if (d.random.chance(0.4))
    m["weights"] = d.tensor({.dtype = d.float_type(), .shape = Draw::shape_of(v), .values = {}});
  return m;
}

Made group_index(Draw& d) {
  const int64_t groups = d.random.between(0, 4), n = groups == 0 ? 0 : d.random.between(0, 6);
  return Named{{"index", d.indices({n}, groups, index_type(d))}, {"groups", groups}, {"skips", d.random.chance(0.5)}};
}

Made segment_sum(Draw& d) {
  Value v = with_rank(d, 1);
  if (is_bool(v.dtype()) || is_complex(v.dtype())) return std::nullopt;
  const int64_t dim = d.random.below(v.rank()), slices = Draw::size(v, dim), segments = d.random.between(0, 3),
                length = d.random.between(1, 3), n = slices == 0 ? 0 : segments * length;
  const bool regular = d.random.chance(0.5);
  Named m = {{param(d, 0), v},
             {"dim", dim},
             {"places", d.indices({n}, slices)},
             {"weights", nullptr},
             {"skips", d.random.chance(0.5)}};
  m["length"] = regular ? length : 0;
  m["starts"] = regular ? Arg() : Arg(d.sorted_indices(segments + 1, n + 1));
  if (d.random.chance(0.5)) m["weights"] = d.tensor({.dtype = v.dtype(), .shape = Shape{n}, .values = {}});
  return m;
}

// prims.embedding_bag_max, and torch.embedding_bag with bags of one length or by offsets.
Made embedding_bag(Draw& d) {
  const int64_t rows = d.random.between(1, 4), bags = d.random.between(1, 3), length = d.random.between(1, 3);
  const bool regular = d.op.schema.name == "embedding_bag" && d.random.chance(0.5);
  static const std::vector<const char*> modes = {"sum", "mean", "max"};
  const char* mode = d.random.pick(modes);
  Value weight = floats(d, {rows, d.random.between(1, 3)});
  const Shape shape = regular ? Shape{bags, length} : Shape{bags * length};
  Named m = {
      {"weight", weight},   {"input", d.indices(shape, rows)}, {"indices", d.indices(shape, rows)}, {"mode", mode},
      {"offsets", nullptr}, {"per_sample_weights", nullptr},   {"include_last_offset", false},      {"padding_idx", 0}};
  if (!regular) m["offsets"] = d.offsets(bags, bags * length);
  if (std::string(mode) == "sum" && d.random.chance(0.5))
    m["per_sample_weights"] = d.tensor({.dtype = weight.dtype(), .shape = shape, .values = {}});
  return m;
}

Made repeats(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v);
  return Named{
      {param(d, 0), v}, {"dim", dim}, {"repeats", d.indices({Draw::size(v, dim)}, 3)}, {"output_size", nullptr}};
}

Made repeat_number(Draw& d) {
  Value v = with_rank(d, 1);
  return Named{
      {param(d, 0), v}, {"dim", random_dim(d, v)}, {"repeats", d.random.between(0, 3)}, {"output_size", nullptr}};
}

Made one_hot(Draw& d) {
  return Named{{param(d, 0), d.indices(d.shape(0, 2), 3)}, {"num_classes", d.random.between(3, 4)}};
}

// Sorted rows, and values to look for.
Made sorted_row(Draw& d) {
  DType t = d.float_type();
  ArgList numbers;
  int64_t n = d.random.between(1, 4);
  Value row = d.tensor({.dtype = t, .shape = Shape{n}, .values = {}, .fresh = true});
  Named m = {{"sorted_sequence", row}, {"boundaries", row}, {"side", nullptr}, {"sorter", nullptr}};
  m["input"] = d.op.schema.overload == "scalar" ? Arg(d.random.uniform(-2, 2))
                                                : Arg(d.tensor({.dtype = t, .shape = d.shape(0, 2), .values = {}}));
  return m;
}

Made kthvalue(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = random_dim(d, v), n = Draw::size(v, dim);
  if (n == 0) return std::nullopt;
  return Named{{param(d, 0), v}, {"dim", dim}, {"k", d.random.between(1, n)}};
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
  return Named{{param(d, 0), v}, {"dim", dim}, {"index", index_within(d, v, dim)}};
}

Made scatter(Draw& d) {
  Made m = gather(d);
  Value v = (*m)[param(d, 0)].value(), index = (*m)["index"].value();
  // Two writes to one place have no order: every index along `dim` differs.
  int64_t dim = (*m)["dim"].dim().constant(), n = Draw::size(v, dim);
  if (d.op.schema.name == "scatter") {
    Shape s = Draw::shape_of(index);
    s[static_cast<size_t>(dim)] = n == 0 ? 0 : 1;
    index = d.indices(s, n);
    (*m)["index"] = index;
  }
  (*m)["src"] = d.tensor({.dtype = v.dtype(), .shape = Draw::shape_of(index), .values = {}});
  static const std::vector<const char*> kinds = {"sum", "prod", "mean", "amax", "amin"},
                                        old_kinds = {"add", "multiply"};
  (*m)["reduce"] = d.random.pick(d.op.schema.overload.empty() ? kinds : old_kinds);
  (*m)["value"] = 1;
  return m;
}

// index_add, index_copy: a source whose size along `dim` is that of the index.
Made index_write(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank()), n = Draw::size(v, dim), length = n == 0 ? 0 : 1;
  Shape s = Draw::shape_of(v);
  s[static_cast<size_t>(dim)] = length;
  Named m = {{param(d, 0), v}, {"dim", dim}, {"index", d.indices({length}, n)}};
  m["source"] = d.tensor({.dtype = v.dtype(), .shape = s, .values = {}});
  m["value"] =
      d.op.schema.overload == "tensor" ? Arg(d.tensor({.dtype = v.dtype(), .shape = Shape{}, .values = {}})) : Arg(1);
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
  if (d.random.chance(0.1)) return Named{{param(d, 0), v}, {"indices", Arg::list({d.mask(Draw::shape_of(v))})}};
  return Named{{param(d, 0), v}, {"indices", index_list(d, v, false)}};
}

Made index_put(Draw& d) {
  Value v = with_rank(d, 1);
  bool accumulate = d.random.chance(0.5);
  Arg indices = index_list(d, v, !accumulate);
  Value values = d.tensor({.dtype = v.dtype(), .shape = Shape{}, .values = {}});
  return Named{{param(d, 0), v}, {"indices", indices}, {"values", values}, {"accumulate", accumulate}};
}

Made item(Draw& d) {
  static const std::vector<Shape> single = {{}, {1}, {1, 1}};
  return Named{{param(d, 0), d.tensor({.dtype = {}, .shape = d.random.pick(single), .values = {}})}};
}

Made topk(Draw& d) {
  Value v = with_rank(d, 1);
  int64_t dim = d.random.below(v.rank());
  return Named{{param(d, 0), v}, {"dim", dim}, {"k", d.random.between(0, Draw::size(v, dim))}};
}

Made masked_scatter(Draw& d) {
  Value v = d.tensor({});
  return Named{{param(d, 0), v}, {"mask", d.mask(Draw::shape_of(v))}, {"source", d.like(v)}};
}

// Bounds of which no two are the same: where they are, eager sends the gradient nowhere, though the result follows the
// bound.
Made bounds(Draw& d) {
  Value v = d.tensor({});
  auto bound = [&] {
    return d.tensor(
        {.dtype = v.dtype(), .shape = d.broadcastable(Draw::shape_of(v)), .values = {}, .fresh = d.smooth()});
  };
  int64_t which = d.random.below(3);
  return Named{{"input", v}, {"min", which == 0 ? Arg() : Arg(bound())}, {"max", which == 1 ? Arg() : Arg(bound())}};
}

}  // namespace

void add_index_makers(Makers& m) {
  for (const char* level : {"prims.", "clang.", "torch."}) {
    auto add = [&](const char* name, ArgumentMaker maker) { m[std::string(level) + name] = std::move(maker); };
    add("index_add", index_write);
    add("index_copy", index_write);
    add("index_fill", index_write);
    add("index_put", index_put);
    add("index", index);
    add("take_along_axis", gather);
    add("scatter", scatter);
    add("scatter_add", scatter);
    add("scatter_reduce", scatter);
    add("scatter_value", scatter);
    add("topk", topk);
    add("item", item);
    add("masked_scatter", masked_scatter);
    add("bincount", small_integers);
    add("where", masked);
  }
  m.insert({{"prims.take", take},
            {"clang.take", take},
            {"torch.index_select", take},
            {"torch.gather", gather},
            {"torch.scatter.value", scatter},
            {"torch.scatter.reduce", scatter},
            {"torch.scatter.value_reduce", scatter},
            {"torch.index_fill.tensor", index_write},
            {"torch.take", flat_positions},
            {"torch.put", flat_positions},
            {"torch.masked_select", masked},
            {"torch.where_method", masked},
            {"torch.where.condition", masked},
            {"torch.masked_fill", masked},
            {"torch.masked_fill.Tensor", masked},
            {"torch.getitem", key},
            {"torch.setitem", key},
            {"prims.repeat_index", small_integers},
            {"prims.group_index", group_index},
            {"prims.segment_sum", segment_sum},
            {"prims.embedding_bag_max", embedding_bag},
            {"torch.embedding_bag", embedding_bag},
            {"torch.repeat_interleave.tensor", repeats},
            {"torch.repeat_interleave", repeat_number},
            {"torch.one_hot", one_hot},
            {"torch.searchsorted", sorted_row},
            {"torch.searchsorted.scalar", sorted_row},
            {"torch.bucketize", sorted_row},
            {"torch.bucketize.scalar", sorted_row},
            {"torch.kthvalue", kthvalue},
            {"torch.clamp.Tensor", bounds}});
  m["torch.take_along_dim"] = [](Draw& d) -> Made {
    Value v = with_rank(d, 1);
    int64_t dim = random_dim(d, v);
    return Named{{"input", v}, {"dim", dim}, {"indices", index_within(d, v, dim)}};
  };
}

}  // namespace thunder::fuzz
