// Views and their inverses: what shares memory with its input, the strides being those that eager gives.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/formula.h"
#include "ops/prims/view_rules.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

constexpr uint64_t kViewTags = kView | kShape | kCheap | kLinear;

// ---- broadcast_in_dim -----------------------------------------------------------------------------------------------

Types broadcast_in_dim_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Dims shape = a.dims("shape");
  std::vector<int64_t> from = a.integers("broadcast_dims");
  const bool operand = a.flag("operand");
  THUNDER_CHECK(from.size() == t.shape.size(), Runtime, "broadcast_in_dim", "broadcast_dims has ", from.size(),
                " entries, expected one per dimension of the input, ", t.shape.size());
  Dims strides(shape.size());
  int64_t next = static_cast<int64_t>(from.size()) - 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    size_t at = static_cast<size_t>(i);
    if (next >= 0 && from[static_cast<size_t>(next)] == i) {
      const Dim& size = t.shape[static_cast<size_t>(next)];
      bool kept = size.same(shape[at]) || (!(is_one(size)) && size == shape[at]) || (is_one(size) && is_one(shape[at]));
      THUNDER_CHECK(kept || is_one(size), Runtime, "broadcast_in_dim", "size ", size, " of dimension ", next,
                    " cannot be broadcast to ", shape[at]);
      strides[at] = kept ? t.strides[static_cast<size_t>(next)] : Dim(0);
      --next;
    } else if (operand || !is_one(shape[at])) {
      strides[at] = 0;
    } else {  // as unsqueeze and expand give it
      strides[at] = at + 1 == shape.size() ? Dim(1) : shape[at + 1] * strides[at + 1];
    }
  }
  THUNDER_CHECK(next < 0, Runtime, "broadcast_in_dim", "broadcast_dims must be increasing and below ", shape.size(),
                ", got [", join(from), "]");
  return {with_shape(t, std::move(shape), std::move(strides))};
}

void broadcast_in_dim_vjp(VjpContext& c) {
  Dims shape = c.args().dims("shape");
  std::vector<int64_t> from = c.args().integers("broadcast_dims"), sum, drop;
  const Dims& input = c.in("a").shape();
  size_t next = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    bool kept = next < from.size() && from[next] == static_cast<int64_t>(i);
    const Dim size = kept ? input[next++] : Dim(1);
    if (!kept) drop.push_back(static_cast<int64_t>(i));
    if (!size.same(shape[i]) && size != shape[i]) sum.push_back(static_cast<int64_t>(i));
  }
  Expr g = c.grad();
  if (!sum.empty()) g = c.b("torch.sum", g, sum, true);
  c.put("a", squeeze_dims(g, drop));
}

// ---- transpose, view, slice, squeeze --------------------------------------------------------------------------------

std::vector<int64_t> checked_permutation(const Args& a, int64_t rank) {
  std::vector<int64_t> p = a.integers("permutation"), sorted = p;
  std::sort(sorted.begin(), sorted.end());
  bool ok = static_cast<int64_t>(p.size()) == rank;
  for (size_t i = 0; ok && i < sorted.size(); ++i) ok = sorted[i] == static_cast<int64_t>(i);
  THUNDER_CHECK(ok, Runtime, "transpose", "[", join(p), "] is not a permutation of the ", rank, " dimensions");
  return p;
}

Types transpose_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Dims shape, strides;
  for (int64_t d : checked_permutation(a, t.rank())) {
    shape.push_back(t.shape[static_cast<size_t>(d)]);
    strides.push_back(t.strides[static_cast<size_t>(d)]);
  }
  return {with_shape(t, std::move(shape), std::move(strides))};
}

void transpose_vjp(VjpContext& c) {
  std::vector<int64_t> p = c.args().integers("permutation"), inverse(p.size());
  for (size_t i = 0; i < p.size(); ++i) inverse[static_cast<size_t>(p[i])] = static_cast<int64_t>(i);
  c.put("a", c.b("torch.permute", c.grad(), inverse));
}

Types view_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Dims shape = inferred_shape("view", a.dims("shape"), t.numel());
  std::optional<Dims> strides = view_strides(t.shape, t.strides, shape);
  THUNDER_CHECK(
      strides, Runtime, "view",
      "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
      "contiguous subspaces), got shape ",
      str(shape), " of a tensor with shape ", str(t.shape), " and strides ", str(t.strides),
      ". Use .reshape(...) instead.");
  return {with_shape(t, std::move(shape), std::move(*strides))};
}

void reshape_back_vjp(VjpContext& c) { c.put("a", c.b("torch.reshape", c.grad(), c.in("a").shape())); }

Types reshape_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  return {contiguous_like(t, inferred_shape("reshape", a.dims("shape"), t.numel()))};
}

Types slice_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Dims start = a.dims("start_indices"), end = a.dims("end_indices"), step = a.dims("strides"), shape, strides;
  THUNDER_CHECK(start.size() == t.shape.size() && end.size() == t.shape.size() && step.size() == t.shape.size(),
                Runtime, "slice", "one start, end and stride per dimension are needed, got ", start.size(), ", ",
                end.size(), ", ", step.size(), " for a tensor of shape ", str(t.shape));
  for (size_t i = 0; i < start.size(); ++i) {
    const Dim& size = t.shape[i];
    bool whole = start[i].same(0) && end[i].same(size);
    THUNDER_CHECK(step[i] >= 1, Value, "slice", "slice step must be positive, got ", step[i]);
    THUNDER_CHECK(whole || (start[i] >= 0 && start[i] <= end[i] && end[i] <= size), Runtime, "slice", "start ",
                  start[i], ", end ", end[i], " are out of range for dimension ", i, " with size ", size);
    shape.push_back(whole && step[i].same(1) ? size : ceildiv(end[i] - start[i], step[i]));
    strides.push_back(t.strides[i] * step[i]);
  }
  return {with_shape(t, std::move(shape), std::move(strides))};
}

// The gradient of a slice along one dimension is ATen's slice_backward (zeros and one copy); of several, one padding.
void slice_vjp(VjpContext& c) {
  const Dims& shape = c.in("a").shape();
  Dims start = c.args().dims("start_indices"), end = c.args().dims("end_indices"), step = c.args().dims("strides");
  std::vector<size_t> cut;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!start[i].same(0) || !end[i].same(shape[i]) || !step[i].same(1)) cut.push_back(i);
  if (cut.empty()) return c.put("a", c.grad());
  if (cut.size() == 1)
    return c.put("a", c.b("torch.slice_backward", c.grad(), shape, static_cast<int64_t>(cut[0]), start[cut[0]],
                          end[cut[0]], step[cut[0]]));
  ArgList config;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim& n = c.out().shape()[i];
    Dim extent = step[i].same(1) ? n : (n == 0 ? Dim(0) : (n - 1) * step[i] + 1);
    config.push_back(Dims{start[i], shape[i] - start[i] - extent, step[i] - 1});
  }
  c.put("a", c.b("prims.pad", c.grad(), 0, Arg::list(std::move(config))));
}

// As slice, with a start that is known only when the program runs; so the shape is known, only the place is not.
Types narrow_at_meta(const Args& a) {
  const TensorType &t = a.tensor("a"), &start = a.tensor("start");
  size_t dim = static_cast<size_t>(wrapped_dim("narrow", a["dim"], t.rank()));
  THUNDER_CHECK(t.rank() > 0, Index, "narrow", "a 0-d tensor has no dimension to narrow");
  THUNDER_CHECK(start.rank() == 0 && is_integral(start.dtype), Runtime, "narrow",
                "start must be an 0-dim integral Tensor, got ", start.dtype, " of shape ", str(start.shape));
  Dims shape = t.shape;
  shape[dim] = size_arg("narrow", a["length"]);
  THUNDER_CHECK(shape[dim] >= 0 && shape[dim] <= t.shape[dim], Index, "narrow", "length ", shape[dim],
                " is out of range for dimension ", dim, " with size ", t.shape[dim]);
  return {with_shape(t, std::move(shape), t.strides)};
}

void narrow_at_vjp(VjpContext& c) {
  Expr g = c.grad(), in = c.in("a"), start = c.in("start");
  int64_t dim = wrapped_dim("narrow", c.args()["dim"], in.rank());
  const Dim &size = in.shape()[static_cast<size_t>(dim)], &length = g.shape()[static_cast<size_t>(dim)];
  Expr steps = c.b("prims.iota", length, 0, 1, kw("dtype", DType::i64), kw("device", in.tensor().device));
  Expr places = c.b("torch.remainder", steps + c.b("torch.to", start, DType::i64), size);
  c.put("a", c.b("torch.index_add", zeros(c.b, in.shape(), g.tensor()), dim, places, g));
}

Types squeeze_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  std::vector<int64_t> drop = wrapped_dims("squeeze", a["dims"], t.rank());
  Dims shape, strides;
  for (int64_t i = 0; i < t.rank(); ++i) {
    size_t at = static_cast<size_t>(i);
    if (std::find(drop.begin(), drop.end(), i) == drop.end()) {
      shape.push_back(t.shape[at]);
      strides.push_back(t.strides[at]);
    } else {
      THUNDER_CHECK(is_one(t.shape[at]), Runtime, "squeeze", "dimension ", i, " has size ", t.shape[at],
                    ", expected 1");
    }
  }
  return {with_shape(t, std::move(shape), std::move(strides))};
}

// ---- as_strided, diagonal, unfold -----------------------------------------------------------------------------------

Types as_strided_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Dims size = a.dims("size"), stride = a.dims("stride");
  THUNDER_CHECK(size.size() == stride.size(), Runtime, "as_strided", "mismatch in length of strides and shape, got ",
                str(stride), " and ", str(size));
  for (const Dim& s : size) THUNDER_CHECK(s >= 0, Runtime, "as_strided", "sizes must not be negative, got ", str(size));
  for (const Dim& s : stride)
    THUNDER_CHECK(s >= 0, Runtime, "as_strided", "strides must not be negative, got ", str(stride));
  return {with_shape(t, std::move(size), std::move(stride))};
}

// Position in storage of every element, as an index tensor of the shape.
Expr storage_index(Builder& b, const Dims& shape, const Dims& strides, Device device) {
  Expr index = b("torch.zeros", Dims{}, kw("dtype", DType::i64), kw("device", device));
  for (size_t i = 0; i < shape.size(); ++i) {
    if (strides[i].same(0)) continue;
    Expr steps = b("prims.iota", shape[i], 0, strides[i], kw("dtype", DType::i64), kw("device", device));
    std::vector<int64_t> places;
    for (size_t k = i + 1; k < shape.size(); ++k) places.push_back(static_cast<int64_t>(k - i));
    index = index + unsqueeze_dims(steps, places);
  }
  return expand(index, shape);
}

// Adds up, in a row that stands for the storage, what was read several times; then reads the input's own elements
// there.
void as_strided_vjp(VjpContext& c) {
  const TensorType& in = c.in("a").tensor();
  THUNDER_CHECK(!c.args().has("storage_offset"), NotImplemented, "as_strided",
                "a gradient needs storage_offset=None: the offset of the input in its storage is not known");
  Dims size = c.args().dims("size"), stride = c.args().dims("stride");
  Dim out_extent = storage_extent(size, stride), in_extent = storage_extent(in.shape, in.strides);
  Expr row = zeros(c.b, {max(out_extent, in_extent)}, in);
  if (reads_once(size, stride)) {
    row = c.b("prims.as_strided_scatter", row, c.grad(), size, stride);
  } else {
    Expr index = c.b("torch.reshape", storage_index(c.b, size, stride, in.device), Dims{Dim(-1)});
    row = c.b("torch.index_add", row, 0, index, c.b("torch.reshape", c.grad(), Dims{Dim(-1)}));
  }
  if (!is_non_overlapping_and_dense(in.shape, in.strides)) {  // an expanded input: its elements share the gradient
    Expr own = c.b("torch.reshape", storage_index(c.b, in.shape, in.strides, in.device), Dims{Dim(-1)});
    Expr count = c.b("torch.index_add", zeros(c.b, row.shape(), in), 0, own,
                     c.b("torch.ones", own.shape(), kw("dtype", in.dtype), kw("device", in.device)));
    row = row / c.b("torch.clamp", count, kw("min", 1));
  }
  c.put("a", c.b("prims.as_strided", row, in.shape, in.strides));
}

struct Diagonal {
  size_t dim1, dim2;
  Dim length;
  Dims shape, strides;
};

Diagonal diagonal_of(const Args& a, const TensorType& t) {
  int64_t d1 = wrapped_dim("diagonal", a["dim1"], t.rank()), d2 = wrapped_dim("diagonal", a["dim2"], t.rank());
  int64_t offset = a.integer("offset");
  THUNDER_CHECK(d1 != d2, Runtime, "diagonal", "diagonal dimensions cannot be identical ", d1, ", ", d2);
  Diagonal r{static_cast<size_t>(d1), static_cast<size_t>(d2), {}, {}, {}};
  const Dim &rows = t.shape[r.dim1], &columns = t.shape[r.dim2];
  r.length = max(offset >= 0 ? min(rows, columns - offset) : min(rows + offset, columns), Dim(0));
  for (size_t i = 0; i < t.shape.size(); ++i) {
    if (i == r.dim1 || i == r.dim2) continue;
    r.shape.push_back(t.shape[i]);
    r.strides.push_back(t.strides[i]);
  }
  r.shape.push_back(r.length);
  r.strides.push_back(t.strides[r.dim1] + t.strides[r.dim2]);
  return r;
}

Types diagonal_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Diagonal d = diagonal_of(a, t);
  return {with_shape(t, std::move(d.shape), std::move(d.strides))};
}

void diagonal_vjp(VjpContext& c) {
  c.put("a", c.b("torch.diagonal_backward", c.grad(), c.in("a").shape(), c.in("offset"), c.in("dim1"), c.in("dim2")));
}

Types unfold_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  int64_t d = wrapped_dim("unfold", a["dimension"], t.rank());
  Dim size = size_arg("unfold", a["size"]), step = size_arg("unfold", a["step"]);
  bool scalar = t.rank() == 0;
  size_t at = static_cast<size_t>(d);
  Dim extent = scalar ? Dim(1) : t.shape[at];
  THUNDER_CHECK(size >= 0, Runtime, "unfold", "size is ", size, " but must be >= 0");
  THUNDER_CHECK(size <= extent, Runtime, "unfold", "maximum size for tensor at dimension ", d, " is ", extent,
                " but size is ", size);
  THUNDER_CHECK(step > 0, Runtime, "unfold", "step is ", step, " but must be > 0");
  Dims shape = t.shape, strides = t.strides;
  if (!scalar) {
    shape[at] = floordiv(extent - size, step) + 1;
    strides[at] = t.strides[at] * step;
  }
  shape.push_back(size);
  strides.push_back(scalar ? Dim(1) : t.strides[at]);
  return {with_shape(t, std::move(shape), std::move(strides))};
}

void unfold_vjp(VjpContext& c) {
  c.put("a", c.b("torch.unfold_backward", c.grad(), c.in("a").shape(), c.in("dimension"), c.in("size"), c.in("step")));
}

// ---- other element types --------------------------------------------------------------------------------------------

Types view_dtype_meta(const Args& a) {
  TensorType t = a.tensor("a");
  DType to = a.dtype("dtype");
  int from_size = itemsize(t.dtype), to_size = itemsize(to);
  t.requires_grad = false;
  t.dtype = to;
  if (from_size == to_size) return {t};
  THUNDER_CHECK(!t.shape.empty(), Runtime, "view", "self.dim() cannot be 0 to view ", a.tensor("a").dtype, " as ", to,
                " (different element sizes)");
  THUNDER_CHECK(is_one(t.strides.back()), Runtime, "view", "self.stride(-1) must be 1 to view ", a.tensor("a").dtype,
                " as ", to, ", got ", t.strides.back());
  if (from_size > to_size) {
    int64_t ratio = from_size / to_size;
    t.shape.back() *= ratio;
    for (size_t i = 0; i + 1 < t.strides.size(); ++i) t.strides[i] *= ratio;
    t.strides.back() = 1;
    return {t};
  }
  int64_t ratio = to_size / from_size;
  THUNDER_CHECK(mod(t.shape.back(), ratio) == 0, Runtime, "view", "self.size(-1) must be divisible by ", ratio,
                " to view ", a.tensor("a").dtype, " as ", to, ", got ", t.shape.back());
  for (size_t i = 0; i + 1 < t.strides.size(); ++i) {
    THUNDER_CHECK(mod(t.strides[i], ratio) == 0, Runtime, "view", "self.stride(", i, ") must be divisible by ", ratio,
                  ", got ", t.strides[i]);
    t.strides[i] = floordiv(t.strides[i], ratio);
  }
  t.shape.back() = floordiv(t.shape.back(), ratio);
  return {t};
}

Types view_as_real_meta(const Args& a) {
  TensorType t = a.tensor("a");
  THUNDER_CHECK(is_complex(t.dtype), Runtime, "view_as_real", "expected a complex tensor, got ", t.dtype);
  t.dtype = real_part_type(t.dtype);
  t.requires_grad = false;
  for (Dim& s : t.strides) s *= 2;
  t.shape.push_back(2);
  t.strides.push_back(1);
  return {t};
}

void view_as_real_vjp(VjpContext& c) { c.put("a", c.b("torch.view_as_complex", c.b("torch.contiguous", c.grad()))); }

Types view_as_complex_meta(const Args& a) {
  TensorType t = a.tensor("a");
  THUNDER_CHECK(is_floating(t.dtype) && t.dtype != DType::bf16 && !is_float8(t.dtype), Runtime, "view_as_complex",
                "only half, float and double tensors are supported, got ", t.dtype);
  THUNDER_CHECK(!t.shape.empty(), Runtime, "view_as_complex", "input tensor must have one or more dimensions");
  THUNDER_CHECK(t.shape.back() == 2, Runtime, "view_as_complex", "the last dimension must have size 2, got ",
                t.shape.back());
  THUNDER_CHECK(is_one(t.strides.back()), Runtime, "view_as_complex", "the last dimension must have stride 1, got ",
                t.strides.back());
  t.dtype = complex_type_of(t.dtype);
  t.requires_grad = false;
  t.shape.pop_back();
  t.strides.pop_back();
  for (Dim& s : t.strides) {
    THUNDER_CHECK(mod(s, 2) == 0, Runtime, "view_as_complex",
                  "strides other than the last must be divisible by 2, got ", s);
    s = floordiv(s, 2);
  }
  return {t};
}

void view_as_complex_vjp(VjpContext& c) { c.put("a", c.b("torch.view_as_real", c.grad())); }

// ---- inverses of views: the tensor with the view's elements replaced ------------------------------------------------

Types scatter_type(const char* op, const Args& a, const TensorType& view) {
  const TensorType &t = a.tensor("a"), &src = a.tensor("src");
  THUNDER_CHECK(src.shape.size() == view.shape.size(), Runtime, op, "expected src of shape ", str(view.shape), ", got ",
                str(src.shape));
  for (size_t i = 0; i < src.shape.size(); ++i)
    THUNDER_CHECK(src.shape[i] == view.shape[i], Runtime, op, "expected src of shape ", str(view.shape), ", got ",
                  str(src.shape));
  THUNDER_CHECK(src.dtype == t.dtype, Runtime, op, "expected src of ", t.dtype, ", got ", src.dtype);
  // ATen copies the input with its very strides, gaps included, unless elements share a place.
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (t.strides[i].same(0) && !is_one(t.shape[i])) return {preserve_like(t)};
  return {with_shape(t, t.shape, t.strides)};
}

Types slice_scatter_meta(const Args& a) { return {scatter_type("slice_scatter", a, slice_meta(a)[0].tensor())}; }

void slice_scatter_vjp(VjpContext& c) {
  Dims start = c.args().dims("start_indices"), end = c.args().dims("end_indices"), step = c.args().dims("strides");
  Expr g = c.grad();
  if (c.needs("a")) {
    Expr none = zeros(c.b, c.in("src").shape(), g.tensor());
    c.put("a", c.b("prims.slice_scatter", g, none, start, end, step));
  }
  if (c.needs("src")) c.put("src", slice_dims(g, start, end, step));
}

Types as_strided_scatter_meta(const Args& a) {
  return {scatter_type("as_strided_scatter", a, as_strided_meta(a)[0].tensor())};
}

// The gradient in the input's layout, in which the sizes and strides are meant. An offset, which the input's own memory
// begins somewhere before, is one from the gradient's first element, as in PyTorch's formula.
void as_strided_scatter_vjp(VjpContext& c) {
  Expr g = with_strides(c.grad(), c.out().tensor().strides);
  const Dims shape = g.shape(), strides = g.tensor().strides;
  Dims size = c.args().dims("size"), stride = c.args().dims("stride");
  Dim offset = c.args().has("storage_offset") ? c.args().dim("storage_offset") : Dim(0);
  Dim extent = storage_extent(shape, strides);
  Expr row = offset.same(0) ? g : c.b("prims.as_strided", g, Dims{extent}, Dims{Dim(1)});
  Expr part = offset.same(0) ? g : slice_dim(row, 0, offset, extent);
  if (c.needs("src")) c.put("src", c.b("prims.as_strided", part, size, stride));
  if (!c.needs("a")) return;
  part = c.b("prims.as_strided_scatter", part, zeros(c.b, size, g.tensor()), size, stride);
  if (offset.same(0)) return c.put("a", part);
  row = c.b("prims.slice_scatter", row, part, Dims{offset}, Dims{extent}, Dims{Dim(1)});
  c.put("a", c.b("prims.as_strided", row, shape, strides));
}

Types diagonal_scatter_meta(const Args& a) {
  return {scatter_type("diagonal_scatter", a, diagonal_meta(a)[0].tensor())};
}

void diagonal_scatter_vjp(VjpContext& c) {
  Expr g = c.grad();
  if (c.needs("a")) {
    Expr none = zeros(c.b, c.in("src").shape(), g.tensor());
    c.put("a", c.b("prims.diagonal_scatter", g, none, c.in("offset"), c.in("dim1"), c.in("dim2")));
  }
  if (c.needs("src")) c.put("src", c.b("torch.diagonal", g, c.in("offset"), c.in("dim1"), c.in("dim2")));
}

constexpr OpDef kRecords[] = {
    {.schema = "broadcast_in_dim(Tensor a, int[] shape, int[] broadcast_dims, *, bool operand=False) -> Tensor",
     .doc =
         "A view in which dimension i of `a` is dimension broadcast_dims[i] of the result; others, and those of "
         "size 1, repeat.  Other dimensions of size 1 have the stride that expand() gives them, those of an `operand` "
         "0: they have no say in the layout of a pointwise result (TensorIterator).",
     .tags = kViewTags,
     .meta = broadcast_in_dim_meta,
     .vjp = broadcast_in_dim_vjp,
     .index_map = broadcast_map,
     .write_back = write_broadcast},
    {.schema = "transpose(Tensor a, int[] permutation) -> Tensor",
     .doc = "A view with the dimensions in another order.",
     .tags = kViewTags,
     .meta = transpose_meta,
     .vjp = transpose_vjp,
     .aten = "permute",
     .index_map = transpose_map,
     .write_back = write_transposed},
    {.schema = "view(Tensor a, int[] shape) -> Tensor",
     .doc = "The same elements in another shape, if strides allow it without a copy.",
     .tags = kViewTags,
     .meta = view_meta,
     .vjp = reshape_back_vjp,
     .aten = "view",
     .index_map = row_major,
     .write_back = write_reshaped},
    {.schema = "reshape(Tensor a, int[] shape) -> Tensor",
     .doc = "A row-major copy in another shape.",
     .tags = kShape | kCheap | kLinear,
     .meta = reshape_meta,
     .vjp = reshape_back_vjp,
     .aten = "_reshape_copy",
     .index_map = row_major},
    {.schema = "slice(Tensor a, int[] start_indices, int[] end_indices, int[] strides) -> Tensor",
     .doc = "A view of a[start:end:stride] in every dimension; 0 <= start <= end <= size, stride >= 1.",
     .tags = kViewTags,
     .meta = slice_meta,
     .vjp = slice_vjp,
     .index_map = slice_map,
     .write_back = write_slice},
    {.schema = "narrow_at(Tensor a, int dim, Tensor start, int length) -> Tensor",
     .doc = "A view of `length` slices from a start that a 0-d tensor holds; a negative one counts from the end. What "
            "is written to "
            "it, index_copy writes.",
     .tags = kViewTags | kHostSync,
     .meta = narrow_at_meta,
     .vjp = narrow_at_vjp,
     .aten = "narrow.Tensor",
     .write_back = write_narrow},
    {.schema = "squeeze(Tensor a, int[] dims) -> Tensor",
     .doc = "A view without these dimensions, which have size 1.",
     .tags = kViewTags,
     .meta = squeeze_meta,
     .vjp = reshape_back_vjp,
     .aten = "squeeze.dims",
     .index_map = squeeze_map,
     .write_back = write_reshaped},
    {.schema = "as_strided(Tensor a, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
     .doc = "A view of the storage of `a` with any sizes and strides.",
     .tags = kViewTags,
     .meta = as_strided_meta,
     .vjp = as_strided_vjp,
     .aten = "as_strided",
     .write_back = write_as_strided},
    {.schema = "diagonal(Tensor a, int offset, int dim1, int dim2) -> Tensor",
     .doc = "A view of a diagonal, as the last dimension.",
     .tags = kViewTags,
     .meta = diagonal_meta,
     .vjp = diagonal_vjp,
     .aten = "diagonal",
     .index_map = diagonal_map,
     .write_back = write_diagonal},
    {.schema = "unfold(Tensor a, int dimension, int size, int step) -> Tensor",
     .doc = "A view of windows of `size` every `step` along a dimension, as a new last dimension.",
     .tags = kViewTags,
     .meta = unfold_meta,
     .vjp = unfold_vjp,
     .aten = "unfold",
     .index_map = unfold_map},
    {.schema = "view_dtype(Tensor a, dtype dtype) -> Tensor",
     .doc = "The same bytes read as another element type.",
     .tags = kView | kShape | kCheap | kNoGrad,
     .meta = view_dtype_meta,
     .aten = "view.dtype",
     .write_back = write_as_dtype},
    {.schema = "view_as_real(Tensor a) -> Tensor",
     .doc = "A view of a complex tensor as pairs of real and imaginary part.",
     .tags = kViewTags,
     .meta = view_as_real_meta,
     .vjp = view_as_real_vjp,
     .aten = "view_as_real",
     .write_back = write_as_complex},
    {.schema = "view_as_complex(Tensor a) -> Tensor",
     .doc = "A view of pairs as complex numbers.",
     .tags = kViewTags,
     .meta = view_as_complex_meta,
     .vjp = view_as_complex_vjp,
     .aten = "view_as_complex",
     .write_back = write_as_real},
    {.schema = "slice_scatter(Tensor a, Tensor src, int[] start_indices, int[] end_indices, int[] strides) -> Tensor",
     .doc = "A copy of `a` in which a[start:end:stride] is `src`.",
     .tags = kShape,
     .meta = slice_scatter_meta,
     .vjp = slice_scatter_vjp},
    {.schema = "slice_scatter_(Tensor a, Tensor src, int[] start_indices, int[] end_indices, int[] strides) -> Tensor",
     .doc = "slice_scatter into the memory of `a`, which it returns.",
     .tags = kWrite,
     .meta = slice_scatter_meta},
    {.schema = "as_strided_scatter(Tensor a, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
     .doc = "A copy of `a` in which the elements that as_strided would read are `src`.",
     .tags = kShape,
     .meta = as_strided_scatter_meta,
     .vjp = as_strided_scatter_vjp,
     .aten = "as_strided_scatter"},
    {.schema = "diagonal_scatter(Tensor a, Tensor src, int offset, int dim1, int dim2) -> Tensor",
     .doc = "A copy of `a` in which a diagonal is `src`.",
     .tags = kShape,
     .meta = diagonal_scatter_meta,
     .vjp = diagonal_scatter_vjp,
     .aten = "diagonal_scatter"},
};

}  // namespace

std::span<const OpDef> view() { return kRecords; }

}  // namespace thunder::ops::prims
