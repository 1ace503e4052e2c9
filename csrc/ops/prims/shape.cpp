// Primitives that copy elements to other places, and those that tie sizes and writes to the program.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/prims/view_rules.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

// ---- cat ------------------------------------------------------------------------------------------------------------

Dims cat_strides(const std::vector<Value>& tensors, const Dims& shape) {
  bool all = std::all_of(tensors.begin(), tensors.end(), [](Value v) { return suggests_channels_last(v.tensor()); });
  bool one_rank = std::all_of(tensors.begin(), tensors.end(), [&](Value v) { return v.rank() == tensors[0].rank(); });
  return all && one_rank ? channels_last_strides(shape) : contiguous_strides(shape);
}

Types cat_meta(const Args& a) {
  std::vector<Value> tensors = a.values("tensors");
  THUNDER_CHECK(!tensors.empty(), Runtime, "cat", "expected a non-empty list of Tensors");
  const std::vector<bool> left_out = legacy_empty(tensors);
  const TensorType* first = nullptr;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!first && !left_out[i]) first = &tensors[i].tensor();
  for (Value v : tensors) {
    THUNDER_CHECK(v.rank() > 0, Runtime, "cat", "zero-dimensional tensors cannot be concatenated");
    THUNDER_CHECK_DTYPE(v.dtype() == tensors[0].dtype(), "cat", "expected one dtype, got ", tensors[0].dtype(), " and ",
                        v.dtype());
    THUNDER_CHECK(v.tensor().device == tensors[0].tensor().device, Runtime, "cat",
                  "expected all tensors to be on the same device, got ", tensors[0].tensor().device, " and ",
                  v.tensor().device);
  }
  if (!first) return {contiguous_like(tensors[0].tensor(), {Dim(0)})};
  size_t dim = static_cast<size_t>(wrapped_dim("cat", a["dim"], first->rank()));
  Dims shape = first->shape;
  shape[dim] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorType& t = tensors[i].tensor();
    if (left_out[i]) continue;
    THUNDER_CHECK(t.rank() == first->rank(), Runtime, "cat", "Tensors must have same number of dimensions: got ",
                  first->rank(), " and ", t.rank());
    for (size_t k = 0; k < shape.size(); ++k)
      THUNDER_CHECK(k == dim || t.shape[k] == first->shape[k], Runtime, "cat",
                    "Sizes of tensors must match except in dimension ", dim, ". Expected size ", first->shape[k],
                    " but got size ", t.shape[k], " for tensor number ", i, " in the list.");
    shape[dim] += t.shape[dim];
  }
  Dims strides = cat_strides(tensors, shape);
  return {with_shape(*first, std::move(shape), std::move(strides))};
}

// ---- pad, flip ------------------------------------------------------------------------------------------------------

struct Padding {
  Dim low, high, interior;
};

std::vector<Padding> padding_of(const Args& a, int64_t rank) {
  std::vector<Padding> out;
  for (const Arg& item : a["config"].items()) {
    Dims d = size_args("pad", item);
    THUNDER_CHECK(d.size() == 3, Runtime, "pad", "a padding is (low, high, interior), got ", str(d));
    out.push_back({d[0], d[1], d[2]});
  }
  THUNDER_CHECK(static_cast<int64_t>(out.size()) == rank, Runtime, "pad",
                "one (low, high, interior) per dimension is needed, got ", out.size(), " for ", rank, " dimensions");
  return out;
}

Types pad_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  std::vector<Padding> config = padding_of(a, t.rank());
  Dims shape;
  for (size_t i = 0; i < config.size(); ++i) {
    const Padding& p = config[i];
    THUNDER_CHECK(p.interior >= 0, Runtime, "pad", "interior padding must not be negative, got ", p.interior);
    Dim between = p.interior.same(0) ? Dim(0) : max(t.shape[i] - 1, Dim(0)) * p.interior;
    shape.push_back(t.shape[i] + between + p.low + p.high);
    THUNDER_CHECK(shape.back() >= 0, Runtime, "pad", "dimension ", i, " of size ", t.shape[i], " padded by (", p.low,
                  ", ", p.high, ") would have the negative size ", shape.back());
  }
  return {contiguous_like(t, std::move(shape))};
}

void pad_vjp(VjpContext& c) {
  std::vector<Padding> config = padding_of(c.args(), c.in("a").rank());
  Expr g = c.grad();
  ArgList crop;
  Dims start, end, step;
  bool grows = true;
  for (size_t i = 0; i < config.size(); ++i) {
    const Padding& p = config[i];
    grows &= p.low >= 0 && p.high >= 0;
    start.push_back(p.low);
    end.push_back(g.shape()[i] - p.high);
    step.push_back(p.interior + 1);
    crop.push_back(Dims{-p.low, -p.high, Dim(0)});
  }
  if (!grows) {  // what was cut off gets zeros
    g = c.b("prims.pad", g, 0, Arg::list(std::move(crop)));
    start = Dims(config.size(), Dim(0));
    end = g.shape();
  }
  c.put("a", slice_dims(g, start, end, step));
}

Types flip_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  wrapped_dims("flip", a["dims"], t.rank());
  return {preserve_like(t)};
}

void flip_vjp(VjpContext& c) { c.put("a", c.b("torch.flip", c.grad(), c.in("dims"))); }

// ---- size, item, copy_ ----------------------------------------------------------------------------------------------

Types size_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  size_t dim = static_cast<size_t>(wrapped_dim("size", a["dim"], t.rank()));
  THUNDER_CHECK(t.rank() > 0, Index, "size", "a 0-d tensor has no dimensions");
  return {NumberType{NumberKind::Int, t.shape[dim]}};
}

Types item_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  THUNDER_CHECK(t.numel() == 1, Runtime, "item", "a Tensor with ", t.numel(),
                " elements cannot be converted to Scalar");
  return {NumberType{number_kind(t.dtype), std::nullopt}};
}

Types copy_meta(const Args& a) {
  TensorType t = a.tensor("dst");
  const Dims &to = t.shape, &from = a.tensor("src").shape;
  bool ok = from.size() <= to.size();
  for (size_t i = 0; ok && i < from.size(); ++i) ok = is_one(from[i]) || from[i] == to[to.size() - from.size() + i];
  THUNDER_CHECK(ok, Runtime, "copy_", "a tensor of shape ", str(from), " cannot be broadcast to ", str(to));
  t.requires_grad = false;
  return {t};
}

void copy_vjp(VjpContext& c) {
  if (c.needs("src")) c.put("src", c.b("torch.sum_to_size", c.grad(), c.in("src").shape()));
}

constexpr OpDef kRecords[] = {
    {.schema = "cat(Tensor[] tensors, int dim) -> Tensor",
     .doc = "Tensors of one dtype, one behind the other along a dimension.",
     .tags = kShape | kLinear,
     .meta = cat_meta,
     .vjp = cat_vjp,
     .aten = "cat",
     .element = Element::Gathered},
    {.schema = "pad(Tensor a, Number value, any[] config) -> Tensor",
     .doc = "Per dimension (low, high, interior): so many values in front, behind, and between elements; negative ones "
            "cut off.",
     .tags = kShape,
     .meta = pad_meta,
     .vjp = pad_vjp,
     .element = Element::Gathered},
    {.schema = "flip(Tensor a, int[] dims) -> Tensor",
     .doc = "Elements in reverse order along some dimensions.",
     .tags = kShape | kLinear,
     .meta = flip_meta,
     .vjp = flip_vjp,
     .aten = "flip",
     .index_map = flip_map},
    {.schema = "size(Tensor a, int dim) -> int",
     .doc = "A size as a number; binds the symbol that stands for it.",
     .tags = kNoGrad | kCheap,
     .meta = size_meta,
     .aten = "sym_size.int"},
    {.schema = "item(Tensor a) -> Number",
     .doc = "The only element as a Python number.",
     .tags = kNoGrad | kHostSync,
     .meta = item_meta,
     .aten = "_local_scalar_dense"},
    {.schema = "copy_(Tensor dst, Tensor src) -> Tensor",
     .doc = "Writes `src`, broadcast and converted, into `dst`.",
     .tags = kWrite,
     .meta = copy_meta,
     .vjp = copy_vjp,
     .aten = "copy_"},
};

}  // namespace

std::span<const OpDef> shape() { return kRecords; }

}  // namespace thunder::ops::prims
