// Parts of a tensor along dimensions: select, narrow, split and their kin, diagonals, windows.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

constexpr uint64_t kTags = kShape | kCheap | kLinear;

// ---- one part -------------------------------------------------------------------------------------------------------

struct Selected {
  int64_t dim;
  Dim index;
};

Selected selected(const Args& a, const TensorType& t) {
  THUNDER_CHECK(t.rank() > 0, Index, "select", "select() cannot be applied to a 0-dim tensor.");
  int64_t dim = wrapped_dim("select", a["dim"], t.rank());
  const Dim& size = t.shape[static_cast<size_t>(dim)];
  Dim index = size_arg("select", a["index"]);
  ShapeEnv::Asking scope;
  THUNDER_CHECK(index >= -size && index < size, Index, "select", "index ", index, " out of range for tensor of size ",
                str(t.shape), " at dimension ", dim);
  return {dim, index < 0 ? index + size : index};
}

Arg select_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Selected s = selected(a, x.tensor());
  return squeeze_dims(slice_dim(x, s.dim, s.index, s.index + 1), {s.dim});
}

void select_vjp(VjpContext& c) {
  Selected s = selected(c.args(), c.in("input").tensor());
  c.put("input", c.b("torch.select_backward", c.grad(), c.in("input").shape(), s.dim, s.index));
}

struct Narrowed {
  int64_t dim;
  Dim start, end;
};

Narrowed narrowed(const Args& a, const TensorType& t) {
  THUNDER_CHECK(t.rank() > 0, Runtime, "narrow", "narrow() cannot be applied to a 0-dim tensor.");
  int64_t dim = wrapped_dim("narrow", a["dim"], t.rank());
  const Dim& size = t.shape[static_cast<size_t>(dim)];
  Dim start = size_arg("narrow", a["start"]), length = size_arg("narrow", a["length"]);
  THUNDER_CHECK(length >= 0, Runtime, "narrow", "narrow(): length must be non-negative, got ", length);
  THUNDER_CHECK(start.same(size) || (start >= -size && start <= size), Index, "narrow",
                "start out of range (expected to be in range of [", -size, ", ", size, "], but got ", start, ")");
  if (!start.same(0) && start < 0) start += size;
  THUNDER_CHECK((start + length).same(size) || start + length <= size, Runtime, "narrow", "start (", start,
                ") + length (", length, ") exceeds dimension size (", size, ").");
  return {dim, start, start + length};
}

Arg narrow_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Narrowed n = narrowed(a, x.tensor());
  return slice_dim(x, n.dim, n.start, n.end);
}

void narrow_vjp(VjpContext& c) {
  Narrowed n = narrowed(c.args(), c.in("input").tensor());
  c.put("input", c.b("torch.slice_backward", c.grad(), c.in("input").shape(), n.dim, n.start, n.end, 1));
}

struct Sliced {
  int64_t dim;
  Dim start, end, step;
};

// Bounds are clamped as Python's are.
Sliced sliced(const Args& a, const TensorType& t) {
  THUNDER_CHECK(t.rank() > 0, Index, "slice", "slice() cannot be applied to a 0-dim tensor.");
  const int64_t dim = wrapped_dim("slice", a["dim"], t.rank());
  const Dim& size = t.shape[static_cast<size_t>(dim)];
  const auto bound = [&](const Arg& given, const Dim& missing) {
    if (given.is_none()) return missing;
    const Dim i = size_arg("slice", given);
    return max(min(i < 0 ? i + size : i, size), Dim(0));
  };
  const Dim step = size_arg("slice", a["step"]), start = bound(a["start"], 0);
  THUNDER_CHECK(step > 0, Runtime, "slice", "slice step must be positive, got ", step);
  return {dim, start, max(bound(a["end"], size), start), step};
}

Arg slice_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Sliced s = sliced(a, x.tensor());
  return slice_dim(x, s.dim, s.start, s.end, s.step);
}

void slice_vjp(VjpContext& c) {
  Sliced s = sliced(c.args(), c.in("input").tensor());
  c.put("input", c.b("torch.slice_backward", c.grad(), c.in("input").shape(), s.dim, s.start, s.end, s.step));
}

Arg diagonal_body(Builder& b, const Args& a) {
  return b("prims.diagonal", a["input"], a["offset"], a["dim1"], a["dim2"]);
}

Arg unfold_body(Builder& b, const Args& a) {
  return b("prims.unfold", a["self"], a["dimension"], a["size"], a["step"]);
}

Arg as_strided_body(Builder& b, const Args& a) {
  return b("prims.as_strided", a["input"], size_args("as_strided", a["size"]), size_args("as_strided", a["stride"]),
           a["storage_offset"]);
}

Arg detach_body(Builder& b, const Args& a) { return b("prims.detach", a["input"]); }
Arg view_as_real_body(Builder& b, const Args& a) { return b("prims.view_as_real", a["input"]); }
Arg view_as_complex_body(Builder& b, const Args& a) { return b("prims.view_as_complex", a["input"]); }

// ---- all parts ------------------------------------------------------------------------------------------------------

struct SplitSizes {
  size_t dim = 0;
  Dims sizes;
};

void check_has_dimensions(std::string_view op, const TensorType& t) {
  THUNDER_CHECK(t.rank() > 0, Runtime, op, op, " expects at least a 1-dimensional tensor");
}

Dims even_parts(const Dim& size, const Dim& part) {
  if (part.same(0)) return {size};
  int64_t n = std::max<int64_t>(ceildiv(size, part).specialize(), 1);
  Dims sizes(static_cast<size_t>(n), part);
  sizes.back() = size - part * (n - 1);
  return sizes;
}

SplitSizes split_parts(const Args& a, const TensorType& t) {
  check_has_dimensions("split", t);
  Dim part = size_arg("split", a["split_size_or_sections"]);
  THUNDER_CHECK(part >= 0, Runtime, "split", "split expects split_size be non-negative, but got split_size=", part);
  const size_t dim = static_cast<size_t>(wrapped_dim("split", a["dim"], t.rank()));
  const Dim& size = t.shape[dim];
  THUNDER_CHECK(part > 0 || size == 0, Runtime, "split",
                "split_size can only be 0 if dimension size is 0, but got dimension size of ", size);
  return {dim, even_parts(size, part)};
}

SplitSizes listed_parts(const Args& a, const TensorType& t) {
  check_has_dimensions("split_with_sizes", t);
  const size_t dim = static_cast<size_t>(wrapped_dim("split_with_sizes", a["dim"], t.rank()));
  const Dim& size = t.shape[dim];
  Dims sizes = size_args("split_with_sizes", a.list()[1]);
  Dim sum = 0;
  for (const Dim& s : sizes) {
    THUNDER_CHECK(s >= 0, Runtime, "split_with_sizes",
                  "split_with_sizes expects split_sizes have only non-negative entries, but got ", str(sizes));
    sum += s;
  }
  THUNDER_CHECK(sum == size, Runtime, "split_with_sizes", "split_with_sizes expects split_sizes to sum exactly to ",
                size, " (input tensor's size at dimension ", dim, "), but got split_sizes=", str(sizes));
  return {dim, std::move(sizes)};
}

SplitSizes chunk_parts(const Args& a, const TensorType& t) {
  check_has_dimensions("chunk", t);
  int64_t chunks = a.integer("chunks");
  THUNDER_CHECK(chunks > 0, Runtime, "chunk", "chunk expects `chunks` to be greater than 0, got: ", chunks);
  const size_t dim = static_cast<size_t>(wrapped_dim("chunk", a["dim"], t.rank()));
  const Dim& size = t.shape[dim];
  Dim part = ceildiv(size, chunks);
  // An empty dimension still gives the number of chunks asked for.
  if (part == 0) return {dim, Dims(static_cast<size_t>(chunks), Dim(0))};
  return {dim, even_parts(size, part)};
}

SplitSizes sections_parts(const Args& a, const TensorType& t) {
  THUNDER_CHECK(t.rank() > 0, Runtime, "tensor_split",
                "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  size_t dim = static_cast<size_t>(wrapped_dim("tensor_split", a["dim"], t.rank()));
  int64_t n = a.dim("indices_or_sections").specialize();
  THUNDER_CHECK(n > 0, Runtime, "tensor_split", "number of sections must be larger than 0, got ", n);
  Dim small = floordiv(t.shape[dim], n);
  int64_t larger = mod(t.shape[dim], n).specialize();
  SplitSizes p{dim, {}};
  for (int64_t i = 0; i < n; ++i) p.sizes.push_back(i < larger ? small + 1 : small);
  return p;
}

// Every part is a value of its own, also one that is the whole (the others being empty), unless it is the only one.
Arg parts_body(Builder& b, const Expr& x, const SplitSizes& p) {
  if (p.sizes.size() == 1) return Arg::tuple({x});
  ArgList out;
  Dims start(x.shape().size(), Dim(0)), end = x.shape(), step(x.shape().size(), Dim(1));
  for (const Dim& size : p.sizes) {
    end[p.dim] = start[p.dim] + size;
    out.push_back(b("prims.slice", x, start, end, step));
    start[p.dim] = end[p.dim];
  }
  return Arg::tuple(std::move(out));
}

// One concatenation for all parts, zeros for those through which no gradient flows.
void parts_vjp(VjpContext& c, const SplitSizes& p) {
  const Expr x(c.b, c.call.args[0]);
  std::string_view name = c.call.op->schema.params[0].name;
  size_t with_grad = 0, last = 0;
  for (size_t i = 0; i < p.sizes.size(); ++i)
    if (c.has_grad(i)) ++with_grad, last = i;
  int64_t dim = static_cast<int64_t>(p.dim);
  if (with_grad == 1) {
    Dim start = 0;
    for (size_t i = 0; i < last; ++i) start += p.sizes[i];
    return c.put(name, c.b("torch.slice_backward", c.grad(last), x.shape(), dim, start, start + p.sizes[last], 1));
  }
  ArgList grads;
  for (size_t i = 0; i < p.sizes.size(); ++i) {
    Dims shape = x.shape();
    shape[p.dim] = p.sizes[i];
    grads.push_back(c.has_grad(i) ? c.grad(i) : zeros(c.b, shape, x.tensor()));
  }
  c.put(name, c.b("torch.cat", Arg::list(std::move(grads)), dim));
}

template <SplitSizes (*parts)(const Args&, const TensorType&)>
Arg split_by(Builder& b, const Args& a) {
  Expr x = b.expr(a.list()[0]);
  return parts_body(b, x, parts(a, x.tensor()));
}

template <SplitSizes (*parts)(const Args&, const TensorType&)>
void split_by_vjp(VjpContext& c) {
  parts_vjp(c, parts(c.args(), c.call.args[0].value().tensor()));
}

// Indices are clamped as Python's slices are: parts may be empty or overlap.
Arg tensor_split_indices_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK(x.rank() > 0, Runtime, "tensor_split",
                "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  int64_t dim = wrapped_dim("tensor_split", a["dim"], x.rank());
  const Dim& size = x.shape()[static_cast<size_t>(dim)];
  Dims ends = size_args("tensor_split", a["indices_or_sections"]);
  ends.push_back(size);
  auto clamped = [&](const Dim& i) { return max(min(i < 0 ? i + size : i, size), Dim(0)); };
  if (ends.size() == 1) return Arg::tuple({x});
  ArgList out;
  size_t d = static_cast<size_t>(dim);
  Dims from(x.shape().size(), Dim(0)), to = x.shape(), step(x.shape().size(), Dim(1));
  Dim start = 0;
  for (const Dim& e : ends) {
    from[d] = clamped(start);
    to[d] = max(clamped(e), from[d]);
    out.push_back(b("prims.slice", x, from, to, step));
    start = e;
  }
  return Arg::tuple(std::move(out));
}

Arg unbind_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK(x.rank() > 0, Index, "unbind", "unbind expects at least a 1-dimensional tensor");
  int64_t dim = wrapped_dim("unbind", a["dim"], x.rank());
  int64_t n = x.shape()[static_cast<size_t>(dim)].specialize();
  ArgList out;
  for (int64_t i = 0; i < n; ++i) out.push_back(squeeze_dims(slice_dim(x, dim, i, i + 1), {dim}));
  return Arg::tuple(std::move(out));
}

void unbind_vjp(VjpContext& c) {
  Expr x = c.in("input");
  int64_t dim = wrapped_dim("unbind", c.args()["dim"], x.rank());
  size_t n = c.call.output.items().size(), with_grad = 0, last = 0;
  for (size_t i = 0; i < n; ++i)
    if (c.has_grad(i)) ++with_grad, last = i;
  if (with_grad == 1) return c.put("input", c.b("torch.select_backward", c.grad(last), x.shape(), dim, last));
  ArgList grads;
  for (size_t i = 0; i < n; ++i) grads.push_back(c.has_grad(i) ? c.grad(i) : zeros(c.b, c.out(i).shape(), x.tensor()));
  c.put("input", c.b("torch.stack", Arg::list(std::move(grads)), dim));
}

template <int dim_if_many, int rank>
Arg numpy_split_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  constexpr const char* name = rank == 1 ? "hsplit" : rank == 2 ? "vsplit" : "dsplit";
  THUNDER_CHECK(x.rank() >= rank, Runtime, name, "torch.", name, " requires a tensor with at least ", rank,
                " dimensions, but got ", x.rank());
  int64_t dim = rank == 1 && x.rank() == 1 ? 0 : dim_if_many;
  const Arg& how = a["indices_or_sections"];
  if (how.kind() == Arg::Kind::Int) {
    const Dim& size = x.shape()[static_cast<size_t>(dim)];
    THUNDER_CHECK(how.dim() > 0 && mod(size, how.dim()) == 0, Runtime, name, "attempted to split along dimension ", dim,
                  ", but the size of the dimension ", size, " is not divisible by the split_size ", how.dim());
  }
  return b("torch.tensor_split", x, how, dim);
}

constexpr OpDef kRecords[] = {
    {.schema = "select(Tensor input, int dim, int index) -> Tensor",
     .doc = "One slice along a dimension, which is dropped.",
     .tags = kTags,
     .body = select_body,
     .vjp = select_vjp,
     .aten = "select.int",
     .python = "torch.select torch.Tensor.select"},
    {.schema = "narrow(Tensor input, int dim, int start, int length) -> Tensor",
     .doc = "`length` slices along a dimension.",
     .tags = kTags,
     .body = narrow_body,
     .vjp = narrow_vjp,
     .aten = "narrow",
     .python = "torch.narrow torch.Tensor.narrow"},
    {.schema = "slice(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
     .doc = "input[start:end:step] along a dimension.",
     .tags = kTags,
     .body = slice_body,
     .vjp = slice_vjp,
     .aten = "slice.Tensor",
     .python = "torch.ops.aten.slice torch.ops.aten.slice.Tensor"},
    {.schema = "diagonal(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     .doc = "A diagonal, as the last dimension.",
     .tags = kTags,
     .body = diagonal_body,
     .aten = "diagonal",
     .python = "torch.diagonal torch.Tensor.diagonal"},
    {.schema = "linalg_diagonal(Tensor input, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     .doc = "A diagonal of matrices, as the last dimension.",
     .tags = kTags,
     .body = diagonal_body,
     .python = "torch.linalg.diagonal"},
    {.schema = "unfold(Tensor self, int dimension, int size, int step) -> Tensor",
     .doc = "Windows along a dimension, as a new last one.",
     .tags = kTags,
     .body = unfold_body,
     .aten = "unfold",
     .python = "torch.Tensor.unfold"},
    {.schema = "as_strided(Tensor input, int[:] size, int[:] stride, int? storage_offset=None) -> Tensor",
     .doc = "A view of the storage with any sizes and strides.",
     .tags = kTags,
     .body = as_strided_body,
     .aten = "as_strided",
     .python = "torch.as_strided torch.Tensor.as_strided"},
    {.schema = "detach(Tensor input) -> Tensor",
     .doc = "The same tensor, through which no gradient flows.",
     .tags = kShape | kCheap | kAnyLayout,
     .body = detach_body,
     .aten = "detach",
     .python = "torch.detach torch.Tensor.detach"},
    {.schema = "view_as_real(Tensor input) -> Tensor",
     .doc = "Complex numbers as pairs.",
     .tags = kTags,
     .body = view_as_real_body,
     .aten = "view_as_real",
     .python = "torch.view_as_real"},
    {.schema = "view_as_complex(Tensor input) -> Tensor",
     .doc = "Pairs as complex numbers.",
     .tags = kTags,
     .body = view_as_complex_body,
     .aten = "view_as_complex",
     .python = "torch.view_as_complex"},
    {.schema = "split(Tensor tensor, int split_size_or_sections, int dim=0) -> Tensor[]",
     .doc = "Parts of one size; the last may be smaller.",
     .tags = kTags,
     .body = split_by<split_parts>,
     .vjp = split_by_vjp<split_parts>,
     .aten = "split.Tensor",
     .python = "torch.split torch.Tensor.split"},
    {.schema = "split.sizes(Tensor tensor, int[] split_size_or_sections, int dim=0) -> Tensor[]",
     .doc = "Parts of given sizes.",
     .tags = kTags,
     .body = split_by<listed_parts>,
     .vjp = split_by_vjp<listed_parts>,
     .aten = "split_with_sizes",
     .python = "torch.split torch.Tensor.split"},
    {.schema = "split_with_sizes(Tensor input, int[:] split_sizes, int dim=0) -> Tensor[]",
     .doc = "Parts of given sizes.",
     .tags = kTags,
     .body = split_by<listed_parts>,
     .vjp = split_by_vjp<listed_parts>,
     .aten = "split_with_sizes",
     .python = "torch.split_with_sizes torch.Tensor.split_with_sizes"},
    {.schema = "chunk(Tensor input, int chunks, int dim=0) -> Tensor[]",
     .doc = "At most so many parts of one size.",
     .tags = kTags,
     .body = split_by<chunk_parts>,
     .vjp = split_by_vjp<chunk_parts>,
     .aten = "chunk",
     .python = "torch.chunk torch.Tensor.chunk"},
    {.schema = "tensor_split(Tensor input, int indices_or_sections, int dim=0) -> Tensor[]",
     .doc = "So many parts, the first ones larger.",
     .tags = kTags,
     .body = split_by<sections_parts>,
     .vjp = split_by_vjp<sections_parts>,
     .aten = "tensor_split.sections",
     .python = "torch.tensor_split torch.Tensor.tensor_split"},
    {.schema = "tensor_split.indices(Tensor input, int[] indices_or_sections, int dim=0) -> Tensor[]",
     .doc = "Parts between positions.",
     .tags = kTags,
     .body = tensor_split_indices_body,
     .aten = "tensor_split.indices",
     .python = "torch.tensor_split torch.Tensor.tensor_split"},
    {.schema = "hsplit(Tensor input, any indices_or_sections) -> Tensor[]",
     .doc = "tensor_split along columns.",
     .tags = kTags,
     .body = numpy_split_body<1, 1>,
     .python = "torch.hsplit torch.Tensor.hsplit"},
    {.schema = "vsplit(Tensor input, any indices_or_sections) -> Tensor[]",
     .doc = "tensor_split along rows.",
     .tags = kTags,
     .body = numpy_split_body<0, 2>,
     .python = "torch.vsplit torch.Tensor.vsplit"},
    {.schema = "dsplit(Tensor input, any indices_or_sections) -> Tensor[]",
     .doc = "tensor_split along depth.",
     .tags = kTags,
     .body = numpy_split_body<2, 3>,
     .python = "torch.dsplit torch.Tensor.dsplit"},
    {.schema = "unbind(Tensor input, int dim=0) -> Tensor[]",
     .doc = "All slices along a dimension, which is dropped.",
     .tags = kTags,
     .body = unbind_body,
     .vjp = unbind_vjp,
     .aten = "unbind.int",
     .python = "torch.unbind torch.Tensor.unbind"},
};

}  // namespace

std::span<const OpDef> split() { return kRecords; }

}  // namespace thunder::ops::torch
