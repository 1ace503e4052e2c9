// PyTorch's operators that copy elements to other places.
#include <algorithm>
#include <numeric>
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

// ---- cat, stack -----------------------------------------------------------------------------------------------------

ArgList promoted(Builder& b, const std::vector<Value>& tensors) {
  ArgList operands(tensors.begin(), tensors.end());
  if (tensors.empty()) return operands;
  bool one_dtype =
      std::all_of(tensors.begin(), tensors.end(), [&](Value v) { return v.dtype() == tensors[0].dtype(); });
  if (one_dtype) return operands;
  DType t = result_type(operands);
  for (Arg& x : operands) x = convert(b, x, t);
  return operands;
}

void check_tensor_list(const char* op, const Args& a, ErrorKind kind = ErrorKind::Value) {
  if (a["tensors"].items().empty())
    throw Error(kind, cat("[", op, "] ", op, "(): expected a non-empty list of Tensors"));
}

// The one tensor that is not empty, if prims.cat copies it into rows: a cache of keys that is still empty, and the first.
Value only_one(const ArgList& tensors, const Arg& joined_dim) {
  Value one;
  for (const Arg& a : tensors) {
    const Value v = a.value();
    if (known_empty(v.shape())) continue;
    if (one || v.rank() == 0) return {};
    one = v;
  }
  const auto last = [](const Arg& a) { return suggests_channels_last(a.value().tensor()); };
  if (!one || std::all_of(tensors.begin(), tensors.end(), last)) return {};
  const int64_t dim = wrapped_dim("cat", joined_dim, one.rank());
  for (const Arg& a : tensors) {
    const Dims& shape = a.value().shape();
    if (a.value().requires_grad() && !one.requires_grad()) return {};
    if (a.value() == one || shape.size() == 1) continue;
    if (shape.size() != one.shape().size()) return {};
    for (size_t i = 0; i < shape.size(); ++i)
      if (static_cast<int64_t>(i) != dim && !shape[i].same(one.shape()[i])) return {};
  }
  return one;
}

Arg cat_body(Builder& b, const Args& a) {
  check_tensor_list("cat", a);
  const ArgList tensors = promoted(b, a.values("tensors"));
  if (const Value one = only_one(tensors, a["dim"]))
    return b("prims.clone", one, kw("memory_format", ConstantArg{"torch.contiguous_format"}));
  return b("prims.cat", Arg::list(tensors), a["dim"]);
}

Arg stack_body(Builder& b, const Args& a) {
  check_tensor_list("stack", a, ErrorKind::Runtime);
  std::vector<Value> tensors = a.values("tensors");
  int64_t rank = tensors[0].rank(), dim = wrapped_dim("stack", a["dim"], rank + 1);
  for (size_t i = 1; i < tensors.size(); ++i)
    THUNDER_CHECK(equal(tensors[i].shape(), tensors[0].shape()), Runtime, "stack",
                  "stack expects each tensor to be equal size, but got ", str(tensors[0].shape()), " at entry 0 and ",
                  str(tensors[i].shape()), " at entry ", i);
  ArgList operands = promoted(b, tensors);
  if (dim == rank) {
    for (Arg& x : operands) x = unsqueeze_dims(b.expr(x), {dim});
    return b("prims.cat", Arg::list(std::move(operands)), dim);
  }
  // As eager: joined along the dimension, which is then taken apart.
  Expr joined = b("prims.cat", Arg::list(std::move(operands)), dim);
  Dims shape = tensors[0].shape();
  shape.insert(shape.begin() + dim, Dim(static_cast<int64_t>(tensors.size())));
  return reshape(joined, shape);
}

void stack_vjp(VjpContext& c) {
  std::vector<Value> tensors = c.args().values("tensors");
  int64_t dim = wrapped_dim("stack", c.args()["dim"], c.out().rank());
  bool all = std::all_of(tensors.begin(), tensors.end(), [](Value v) { return v.requires_grad(); });
  Expr parts = all ? c.b("torch.unbind", c.grad(), dim) : Expr();
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].requires_grad())
      c.put("tensors", i,
            to_dtype(all ? parts[i] : c.b("torch.select", c.grad(), dim, static_cast<int64_t>(i)), tensors[i].dtype()));
}

// 0-d to [1]; 1-d to [1, n]; 2-d to [m, n, 1].
Expr at_least(const Expr& x, int64_t rank) {
  const Dims& s = x.shape();
  if (x.rank() >= rank) return x;
  if (s.empty()) return reshape(x, Dims(static_cast<size_t>(rank), Dim(1)));
  if (rank == 2) return unsqueeze_dims(x, {0});
  return x.rank() == 1 ? unsqueeze_dims(x, {0, 2}) : unsqueeze_dims(x, {2});
}

template <int rank>
Arg at_least_body(Builder& b, const Args& a) {
  return at_least(b.expr(a["input"]), rank);
}

template <int rank>
Arg at_least_list_body(Builder& b, const Args& a) {
  std::vector<Value> tensors = a.values("tensors");
  bool nothing_to_do = std::all_of(tensors.begin(), tensors.end(), [](Value v) { return v.rank() >= rank; });
  ArgList out;
  for (Value v : tensors) {
    Expr x = at_least(Expr(b, v), rank);
    out.push_back(nothing_to_do || !(x.value() == v) ? x : b("prims.view", x, x.shape()));
  }
  return Arg::tuple(std::move(out));
}

template <int rank>
Arg numpy_stack_body(Builder& b, const Args& a) {
  check_tensor_list(rank == 1 ? "hstack" : rank == 2 ? "vstack" : "dstack", a, ErrorKind::Runtime);
  ArgList out;
  for (Value v : a.values("tensors")) out.push_back(at_least(Expr(b, v), rank));
  int64_t dim = rank == 1 ? (out[0].value().rank() == 1 ? 0 : 1) : rank == 2 ? 0 : 2;
  return b("torch.cat", Arg::list(std::move(out)), dim);
}

Arg column_stack_body(Builder& b, const Args& a) {
  check_tensor_list("column_stack", a, ErrorKind::Runtime);
  ArgList out;
  for (Value v : a.values("tensors")) {
    Expr x(b, v);
    out.push_back(x.rank() <= 1 ? reshape(x, {x.tensor().numel(), Dim(1)}) : x);
  }
  return b("torch.cat", Arg::list(std::move(out)), 1);
}

// ---- repetition -----------------------------------------------------------------------------------------------------

struct Tiling {
  Dims interleaved;             // r0, s0, r1, s1, ...
  std::vector<int64_t> sizes;   // places of s0, s1, ... of the input's own dimensions
  std::vector<int64_t> counts;  // places of r0, r1, ...
  Dims shape;
};

Tiling repeated(const Dims& input, const Dims& repeats) {
  THUNDER_CHECK(repeats.size() >= input.size(), Runtime, "repeat",
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor, got ",
                repeats.size(), " and ", input.size());
  Tiling r;
  size_t lead = repeats.size() - input.size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    THUNDER_CHECK(repeats[i] >= 0, Runtime, "repeat", "repeats must not be negative, got ", str(repeats));
    const Dim size = i < lead ? Dim(1) : input[i - lead];
    r.shape.push_back(repeats[i] * size);
    r.counts.push_back(static_cast<int64_t>(r.interleaved.size()));
    r.interleaved.push_back(repeats[i]);
    if (i < lead) continue;
    r.sizes.push_back(static_cast<int64_t>(r.interleaved.size()));
    r.interleaved.push_back(size);
  }
  return r;
}

Arg repeat_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["self"]);
  Tiling r = repeated(x.shape(), size_args("repeat", a["repeats"]));
  Expr wide = same(r.interleaved, x.shape()) ? x : b("prims.broadcast_in_dim", x, r.interleaved, r.sizes);
  return b("prims.reshape", wide, r.shape);
}

void repeat_vjp(VjpContext& c) {
  Tiling r = repeated(c.in("self").shape(), size_args("repeat", c.args()["repeats"]));
  Expr g = c.b("torch.reshape", c.grad(), r.interleaved);
  if (!r.counts.empty()) g = c.b("torch.sum", g, r.counts);
  c.put("self", g);
}

Arg tile_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Dims repeats = size_args("tile", a["dims"]);
  if (repeats.size() < x.shape().size()) repeats.insert(repeats.begin(), x.shape().size() - repeats.size(), Dim(1));
  return b("torch.repeat", x, repeats);
}

struct Interleaved {
  Expr x;  // the input, flat if no dim is given
  int64_t dim;
};

Interleaved interleaved(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  if (!a.has("dim")) return {x.rank() == 1 ? x : reshape(x, {x.tensor().numel()}), 0};
  return {x, wrapped_dim("repeat_interleave", a["dim"], x.rank())};
}

Arg repeat_interleave_body(Builder& b, const Args& a) {
  Dim n = size_arg("repeat_interleave", a["repeats"]);
  THUNDER_CHECK(n >= 0, Runtime, "repeat_interleave", "Repeats must be non-negative, got ", n);
  auto [x, dim] = interleaved(b, a);
  THUNDER_CHECK(x.rank() > 0, Index, "repeat_interleave",
                "Dimension out of range: a 0-d tensor has none, got dim=", dim);
  Dims wide = x.shape(), shape = x.shape();
  wide.insert(wide.begin() + dim + 1, n);
  shape[static_cast<size_t>(dim)] *= n;
  std::vector<int64_t> from;
  for (int64_t i = 0; i < static_cast<int64_t>(wide.size()); ++i)
    if (i != dim + 1) from.push_back(i);
  return b("prims.reshape", b("prims.broadcast_in_dim", x, wide, from), shape);
}

void repeat_interleave_vjp(VjpContext& c) {
  Dim n = size_arg("repeat_interleave", c.args()["repeats"]);
  Dims shape = c.in("input").shape();
  int64_t dim = c.args().has("dim") ? wrapped_dim("repeat_interleave", c.args()["dim"], c.in("input").rank()) : 0;
  if (!c.args().has("dim") || shape.empty()) shape = {c.in("input").tensor().numel()};
  shape.insert(shape.begin() + dim + 1, n);
  Expr g = c.b("torch.sum", c.b("torch.reshape", c.grad(), shape), dim + 1);
  c.put("input", c.b("torch.reshape", g, c.in("input").shape()));
}

Arg repeat_interleave_tensor_body(Builder& b, const Args& a) {
  Expr repeats = b.expr(a["repeats"]);
  auto [x, dim] = interleaved(b, a);
  THUNDER_CHECK(repeats.rank() <= 1, Runtime, "repeat_interleave", "repeats must be 0-dim or 1-dim tensor, got ",
                repeats.rank(), " dimensions");
  const Dim size = x.rank() == 0 ? Dim(1) : x.shape()[static_cast<size_t>(dim)];
  THUNDER_CHECK(repeats.rank() == 0 || repeats.shape()[0] == 1 || repeats.shape()[0] == size, Runtime,
                "repeat_interleave", "repeats must have the same size as input along dim, but got repeats.size(0) = ",
                repeats.tensor().numel(), " and input.size(", dim, ") = ", size);
  return b("prims.take", x,
           b("prims.repeat_index", expand(reshape(repeats, {repeats.tensor().numel()}), {size}), a["output_size"]),
           dim);
}

// ---- order of elements ----------------------------------------------------------------------------------------------

Arg flip_body(Builder& b, const Args& a) {
  return b("prims.flip", a["input"], wrapped_dims("flip", a["dims"], a.value("input").rank()));
}
void flip_vjp(VjpContext& c) { c.put("input", c.b("torch.flip", c.grad(), c.in("dims"))); }

template <int dim>
Arg flip_one_body(Builder& b, const Args& a) {
  constexpr const char* name = dim == 1 ? "fliplr" : "flipud";
  THUNDER_CHECK(a.value("input").rank() > dim, Runtime, name, "Input must be >= ", dim + 1, "-d.");
  return b("prims.flip", a["input"], std::vector<int64_t>{dim});
}

Expr rolled(const Expr& x, const Dim& shift, int64_t dim) {
  const Dim& size = x.shape()[static_cast<size_t>(dim)];
  if (size == 0) return x.builder()("prims.clone", x);
  Dim start = mod(size - shift, size);
  Expr head = slice_dim(x, dim, start, size), tail = slice_dim(x, dim, 0, start);
  return x.builder()("prims.cat", Arg::list({head, tail}), dim);
}

Arg roll_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Dims shifts = size_args("roll", a["shifts"]);
  const ArgList dims = a["dims"].is_sequence() ? a["dims"].items() : ArgList{};
  THUNDER_CHECK(!shifts.empty(), Runtime, "roll", "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    Expr flat = reshape(x, {x.tensor().numel()});
    return reshape(rolled(flat, shifts[0], 0), x.shape());
  }
  THUNDER_CHECK(shifts.size() == dims.size(), Runtime, "roll",
                "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  if (x.tensor().numel() == 0) return b("prims.clone", x);
  THUNDER_CHECK(x.rank() > 0, Index, "roll", "a 0-d tensor has no dimension to roll");
  if (x.tensor().device.type == DeviceType::cuda) x = b("torch.contiguous", x);  // as its kernel does
  for (size_t i = 0; i < dims.size(); ++i) x = rolled(x, shifts[i], wrapped_dim("roll", dims[i], x.rank()));
  return x;
}

void roll_vjp(VjpContext& c) {
  Dims back;
  for (const Dim& s : size_args("roll", c.args()["shifts"])) back.push_back(-s);
  c.put("input", c.b("torch.roll", c.grad(), back, c.in("dims")));
}

Arg rot90_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK(a["dims"].items().size() == 2, Runtime, "rot90",
                "expected total rotation dims == 2, but got dims = ", a["dims"].items().size());
  THUNDER_CHECK(x.rank() >= 2, Runtime, "rot90", "expected total dims >= 2, but got total dims = ", x.rank());
  std::vector<int64_t> d = wrapped_dims("rot90", a["dims"], x.rank());
  int64_t k = ((a.integer("k") % 4) + 4) % 4;
  if (k == 0) return b("prims.clone", x, kw("memory_format", ConstantArg{"torch.contiguous_format"}));
  if (k == 2) return b("prims.flip", x, d);
  Expr flipped = b("prims.flip", x, std::vector<int64_t>{k == 1 ? d[1] : d[0]});
  return b("torch.transpose", flipped, d[0], d[1]);
}

// What diff() is to add at an end fits the input but for the dimension `dim`.
void check_diff_end(Expr x, Expr end, size_t dim) {
  THUNDER_CHECK(end.rank() == x.rank(), Runtime, "diff", "expects prepend or append to be the same dimension as input");
  for (size_t i = 0; i < x.shape().size(); ++i)
    THUNDER_CHECK(
        i == dim || end.shape()[i] == x.shape()[i], Runtime, "diff",
        "expects the shape of tensor to prepend or append to match that of input except along the differencing "
        "dimension; input.size(",
        i, ") = ", x.shape()[i], ", but got tensor.size(", i, ") = ", end.shape()[i]);
}

Arg diff_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK(x.rank() >= 1, Runtime, "diff", "expects input to be at least one-dimensional");
  const int64_t dim = wrapped_dim("diff", a["dim"], x.rank()), n = a.integer("n");
  THUNDER_CHECK(n >= 0, Runtime, "diff", "order must be non-negative but got ", n);
  ArgList parts;
  for (const char* part : {"prepend", "input", "append"}) {
    if (!a.has(part)) continue;
    check_diff_end(x, b.expr(a[part]), static_cast<size_t>(dim));
    parts.push_back(a[part]);
  }
  if (parts.size() > 1) x = b("torch.cat", Arg::list(parts), dim);
  if (n == 0) return b("prims.clone", x);
  const char* difference = x.dtype() == DType::boolean ? "torch.logical_xor" : "torch.sub";
  const Dim size = x.shape()[static_cast<size_t>(dim)];
  for (int64_t i = 0; i < n && i < size; ++i) {
    // A result without elements has strides of its own, so its size is a number.
    const Dim left = size - i, rest = left == 1 ? Dim(0) : left - 1;
    x = b(difference, b("torch.narrow", x, dim, 1, rest), b("torch.narrow", x, dim, 0, rest));
  }
  return x;
}

// ---- diagonals ------------------------------------------------------------------------------------------------------

Arg diag_embed_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  int64_t rank = x.rank() + 1, offset = a.integer("offset");
  int64_t d1 = wrapped_dim("diag_embed", a["dim1"], rank), d2 = wrapped_dim("diag_embed", a["dim2"], rank);
  THUNDER_CHECK(x.rank() > 0, Runtime, "diag_embed", "a 0-d tensor has no dimension to embed");
  THUNDER_CHECK(d1 != d2, Runtime, "diag_embed", "diagonal dimensions cannot be identical ", d1, ", ", d2);
  Dim size = x.shape().back() + std::abs(offset);
  Dims shape(x.shape().begin(), x.shape().end() - 1);
  shape.insert(shape.begin() + std::min(d1, d2), size);
  shape.insert(shape.begin() + std::max(d1, d2), size);
  Arg blank = full(b, shape, 0, x.dtype(), x.tensor().device);
  return b("prims.diagonal_scatter", blank, x, offset, d1, d2);
}

void diag_embed_vjp(VjpContext& c) {
  c.put("input", c.b("torch.diagonal", c.grad(), c.in("offset"), c.in("dim1"), c.in("dim2")));
}

Arg diag_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK(x.rank() == 1 || x.rank() == 2, Runtime, "diag", "diag(): Supports 1D or 2D tensors. Got ", x.rank(),
                "D");
  if (x.rank() == 1) return b("torch.diag_embed", x, a["diagonal"]);
  Expr d = b("prims.diagonal", x, a["diagonal"], 0, 1);
  return b("prims.reshape", d, d.shape());
}

// One more than the largest class, as a size: the length of a vector that repeats its one element so many times.
Dim classes_of(const Expr& x) {
  Builder& b = x.builder();
  THUNDER_CHECK(!x.tensor().numel().same(0), Runtime, "one_hot",
                "Can not infer total number of classes from empty tensor.");
  Expr count = b("torch.add", b("torch.max", x), 1);
  return b("prims.repeat_index", reshape(count, {Dim(1)}), nullptr).shape()[0];
}

Arg one_hot_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["tensor"]);
  Dim classes = size_arg("one_hot", a["num_classes"]);
  THUNDER_CHECK(x.dtype() == DType::i64, Runtime, "one_hot",
                "one_hot is only applicable to index tensor of type LongTensor, got ", x.dtype());
  if (classes.same(-1)) classes = classes_of(x);
  else THUNDER_CHECK(classes >= 1, Runtime, "one_hot", "num_classes should be positive, got ", classes);
  Dims shape = x.shape();
  shape.push_back(classes);
  const Expr each = b("prims.iota", classes, 0, 1, kw("dtype", DType::i64), kw("device", x.tensor().device));
  // A class is looked up among all of them, so that one that there is not is an error.
  const Expr known = reshape(b("prims.take", each, reshape(x, {x.tensor().numel()}), 0), x.shape());
  std::vector<int64_t> dims(x.shape().size());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const Expr wide = b("prims.broadcast_in_dim", known, shape, Arg(std::move(dims)));
  const Expr all = b("prims.broadcast_in_dim", each, shape, Arg(std::vector<int64_t>{x.rank()}));
  return b("prims.convert_element_type", b("prims.eq", all, wide), DType::i64);
}

constexpr uint64_t kTags = kShape | kLinear;

#define THUNDER_AT_LEAST(n)                                                                                            \
  {.schema = "atleast_" #n "d(Tensor input) -> Tensor",                                                                \
   .doc = "With at least " #n " dimensions.",                                                                          \
   .tags = kTags | kCheap | kReturnsInput,                                                                             \
   .body = at_least_body<n>,                                                                                           \
   .python = "torch.atleast_" #n "d"},                                                                                 \
  {                                                                                                                    \
    .schema = "atleast_" #n "d.list(Tensor[] ...tensors) -> Tensor[]", .doc = "Each with at least " #n " dimensions.", \
    .tags = kTags | kCheap | kReturnsInput, .body = at_least_list_body<n>, .python = "torch.atleast_" #n "d"           \
  }

constexpr OpDef kRecords[] = {
    {.schema = "cat(Tensor[] tensors, int dim=0) -> Tensor",
     .doc = "One behind the other along a dimension.",
     .tags = kTags,
     .body = cat_body,
     .vjp = cat_vjp,
     .aten = "cat",
     .python = "torch.cat"},
    {.schema = "concat(Tensor[] tensors, int dim=0) -> Tensor",
     .doc = "One behind the other along a dimension.",
     .tags = kTags,
     .body = cat_body,
     .vjp = cat_vjp,
     .aten = "cat",
     .python = "torch.concat"},
    {.schema = "concatenate(Tensor[] tensors, int dim=0) -> Tensor",
     .doc = "One behind the other along a dimension.",
     .tags = kTags,
     .body = cat_body,
     .vjp = cat_vjp,
     .aten = "cat",
     .python = "torch.concatenate"},
    {.schema = "stack(Tensor[] tensors, int dim=0) -> Tensor",
     .doc = "Along a new dimension.",
     .tags = kTags,
     .body = stack_body,
     .vjp = stack_vjp,
     .aten = "stack",
     .python = "torch.stack"},
    {.schema = "hstack(Tensor[] tensors) -> Tensor",
     .doc = "Side by side.",
     .tags = kTags,
     .body = numpy_stack_body<1>,
     .python = "torch.hstack"},
    {.schema = "vstack(Tensor[] tensors) -> Tensor",
     .doc = "One below the other.",
     .tags = kTags,
     .body = numpy_stack_body<2>,
     .python = "torch.vstack torch.row_stack"},
    {.schema = "dstack(Tensor[] tensors) -> Tensor",
     .doc = "One behind the other in depth.",
     .tags = kTags,
     .body = numpy_stack_body<3>,
     .python = "torch.dstack"},
    {.schema = "column_stack(Tensor[] tensors) -> Tensor",
     .doc = "Vectors as columns.",
     .tags = kTags,
     .body = column_stack_body,
     .python = "torch.column_stack"},
    THUNDER_AT_LEAST(1),
    THUNDER_AT_LEAST(2),
    THUNDER_AT_LEAST(3),
    {.schema = "repeat(Tensor self, int[] ...repeats) -> Tensor",
     .doc = "The whole repeated along dimensions.",
     .tags = kTags,
     .body = repeat_body,
     .vjp = repeat_vjp,
     .aten = "repeat",
     .python = "torch.Tensor.repeat"},
    {.schema = "tile(Tensor input, int[] ...dims) -> Tensor",
     .doc = "The whole repeated along the last dimensions.",
     .tags = kTags,
     .body = tile_body,
     .aten = "tile",
     .python = "torch.tile torch.Tensor.tile"},
    {.schema = "repeat_interleave(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
     .doc = "Each slice repeated.",
     .tags = kTags,
     .body = repeat_interleave_body,
     .vjp = repeat_interleave_vjp,
     .aten = "repeat_interleave.self_int",
     .python = "torch.repeat_interleave torch.Tensor.repeat_interleave"},
    {.schema =
         "repeat_interleave.tensor(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
     .doc = "Each slice repeated as often as a tensor says.",
     .tags = kShape,
     .body = repeat_interleave_tensor_body,
     .python = "torch.repeat_interleave torch.Tensor.repeat_interleave"},
    {.schema = "flip(Tensor input, int[] ...dims) -> Tensor",
     .doc = "Elements in reverse order.",
     .tags = kTags,
     .body = flip_body,
     .vjp = flip_vjp,
     .aten = "flip",
     .python = "torch.flip torch.Tensor.flip"},
    {.schema = "fliplr(Tensor input) -> Tensor",
     .doc = "Columns in reverse order.",
     .tags = kTags,
     .body = flip_one_body<1>,
     .aten = "fliplr",
     .python = "torch.fliplr torch.Tensor.fliplr"},
    {.schema = "flipud(Tensor input) -> Tensor",
     .doc = "Rows in reverse order.",
     .tags = kTags,
     .body = flip_one_body<0>,
     .aten = "flipud",
     .python = "torch.flipud torch.Tensor.flipud"},
    {.schema = "roll(Tensor input, int[] shifts, int[]? dims=None) -> Tensor",
     .doc = "Elements moved along dimensions, round the end.",
     .tags = kTags,
     .body = roll_body,
     .vjp = roll_vjp,
     .python = "torch.roll torch.Tensor.roll"},
    {.schema = "rot90(Tensor input, int k=1, int[:] dims=[0, 1]) -> Tensor",
     .doc = "Turned k times by 90 degrees.",
     .tags = kTags,
     .body = rot90_body,
     .aten = "rot90",
     .python = "torch.rot90 torch.Tensor.rot90"},
    {.schema = "diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
     .doc = "Differences of neighbours along `dim`, n times; `prepend` and `append` are added to the input before.",
     .tags = kTags,
     .body = diff_body,
     .aten = "diff",
     .python = "torch.diff torch.Tensor.diff"},
    {.schema = "diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
     .doc = "Zeros with the input on a diagonal.",
     .tags = kTags,
     .body = diag_embed_body,
     .vjp = diag_embed_vjp,
     .aten = "diag_embed",
     .python = "torch.diag_embed torch.Tensor.diag_embed"},
    {.schema = "diag(Tensor input, int diagonal=0) -> Tensor",
     .doc = "The diagonal of a matrix, or the matrix of a diagonal.",
     .tags = kTags,
     .body = diag_body,
     .aten = "diag",
     .python = "torch.diag torch.Tensor.diag"},
    {.schema = "one_hot(Tensor tensor, int num_classes=-1) -> Tensor",
     .doc = "1 at the class, 0 elsewhere.",
     .tags = kNoGrad,
     .body = one_hot_body,
     .aten = "one_hot",
     .python = "torch.nn.functional.one_hot"},
};

#undef THUNDER_AT_LEAST

}  // namespace

std::span<const OpDef> shape() { return kRecords; }

}  // namespace thunder::ops::torch
