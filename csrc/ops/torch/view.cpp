// PyTorch's view operators: reshaping, reordering, adding and dropping dimensions.
#include <algorithm>
#include <numeric>
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

constexpr uint64_t kTags = kShape | kCheap | kLinear;

Expr input(Builder& b, const Args& a) { return Expr(b, a.list()[0]); }

void reshape_back_vjp(VjpContext& c) {
  Expr in = Expr(c.b, c.call.args[0]);
  c.put(c.call.op->schema.params[0].name, c.b("torch.reshape", c.grad(), in.shape()));
}

void put_input(VjpContext& c, const Expr& g) { c.put(c.call.op->schema.params[0].name, g); }

// ---- shapes ---------------------------------------------------------------------------------------------------------

Arg reshape_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return reshape(x, inferred_shape("reshape", size_args("reshape", a["shape"]), x.tensor().numel()));
}

Expr viewed(const Expr& x, const Dims& size) {
  const TensorType& t = x.tensor();
  std::optional<Dims> strides = view_strides(t.shape, t.strides, size);
  if (strides && same(size, t.shape) && same(*strides, t.strides)) return x;
  return x.builder()("prims.view", x, size);  // its meta says what is wrong with the strides
}

Arg view_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return viewed(x, inferred_shape("view", size_args("view", a["size"]), x.tensor().numel()));
}

Arg view_dtype_body(Builder& b, const Args& a) {
  return a.dtype("dtype") == a.tensor("self").dtype ? a["self"] : b("prims.view_dtype", a["self"], a["dtype"]).arg();
}

Arg view_as_body(Builder& b, const Args& a) { return b("torch.view", a["self"], a.tensor("other").shape); }
Arg reshape_as_body(Builder& b, const Args& a) { return b("torch.reshape", a["self"], a.tensor("other").shape); }

Arg flatten_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  const Dims& s = x.shape();
  int64_t from = wrapped_dim("flatten", a["start_dim"], x.rank()), to = wrapped_dim("flatten", a["end_dim"], x.rank());
  THUNDER_CHECK(from <= to, Runtime, "flatten", "flatten() has invalid args: start_dim cannot come after end_dim, got ",
                from, " and ", to);
  if (s.empty()) return reshape(x, {Dim(1)});
  if (from == to) return x;
  Dims shape(s.begin(), s.begin() + from);
  shape.push_back(product(Dims(s.begin() + from, s.begin() + to + 1)));
  shape.insert(shape.end(), s.begin() + to + 1, s.end());
  return reshape(x, shape);
}

Arg ravel_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return is_contiguous(x.tensor()) ? reshape(x, {x.tensor().numel()}) : b("prims.reshape", x, Dims{x.tensor().numel()});
}

Arg unflatten_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  size_t dim = static_cast<size_t>(wrapped_dim("unflatten", a["dim"], x.rank()));
  Dims sizes = size_args("unflatten", a["sizes"]);
  THUNDER_CHECK(x.rank() > 0, Runtime, "unflatten", "a 0-d tensor has no dimension to unflatten");
  THUNDER_CHECK(!sizes.empty(), Runtime, "unflatten", "unflatten: sizes must be non-empty");
  sizes = inferred_shape("unflatten", sizes, x.shape()[dim]);
  Dims shape = x.shape();
  shape.erase(shape.begin() + static_cast<long>(dim));
  shape.insert(shape.begin() + static_cast<long>(dim), sizes.begin(), sizes.end());
  return viewed(x, shape);
}

// ---- order of dimensions --------------------------------------------------------------------------------------------

Arg permute_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  size_t given = a["dims"].items().size();
  THUNDER_CHECK(static_cast<int64_t>(given) == x.rank(), Runtime, "permute",
                "number of dimensions in the tensor input does not match the length of the desired ordering of "
                "dimensions, input.dim() = ",
                x.rank(), " is not equal to len(dims) = ", given);
  return permute(x, wrapped_dims("permute", a["dims"], x.rank()));
}

void permute_vjp(VjpContext& c) {
  Expr x = Expr(c.b, c.call.args[0]);
  std::vector<int64_t> p = wrapped_dims("permute", c.args()["dims"], x.rank()), inverse(p.size());
  for (size_t i = 0; i < p.size(); ++i) inverse[static_cast<size_t>(p[i])] = static_cast<int64_t>(i);
  put_input(c, c.b("torch.permute", c.grad(), inverse));
}

std::vector<int64_t> identity(int64_t rank) {
  std::vector<int64_t> p(static_cast<size_t>(rank));
  std::iota(p.begin(), p.end(), 0);
  return p;
}

Expr swapped(const Expr& x, int64_t d0, int64_t d1) {
  std::vector<int64_t> p = identity(x.rank());
  if (!p.empty()) std::swap(p[static_cast<size_t>(d0)], p[static_cast<size_t>(d1)]);
  return permute(x, p);
}

Arg swap_body(Builder& b, const Args& a, const Arg& dim0, const Arg& dim1) {
  Expr x = input(b, a);
  return swapped(x, wrapped_dim("transpose", dim0, x.rank()), wrapped_dim("transpose", dim1, x.rank()));
}
Arg transpose_body(Builder& b, const Args& a) { return swap_body(b, a, a["dim0"], a["dim1"]); }
Arg swapaxes_body(Builder& b, const Args& a) { return swap_body(b, a, a["axis0"], a["axis1"]); }

void transpose_vjp(VjpContext& c) { put_input(c, c.b("torch.transpose", c.grad(), c.call.args[1], c.call.args[2])); }

Arg t_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  THUNDER_CHECK(x.rank() <= 2, Runtime, "t", "t() expects a tensor with <= 2 dimensions, but self is ", x.rank(), "D");
  return x.rank() < 2 ? x : swapped(x, 0, 1);
}
void t_vjp(VjpContext& c) { put_input(c, c.b("torch.t", c.grad())); }

Arg numpy_t_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  if (x.rank() < 2) return x;
  std::vector<int64_t> p = identity(x.rank());
  std::reverse(p.begin(), p.end());
  return b("torch.permute", x, p);
}

Arg matrix_transpose_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  if (x.rank() == 0) return x;
  THUNDER_CHECK(x.rank() >= 2, Runtime, "mT", "tensor.mT is only supported on matrices or batches of matrices. Got ",
                x.rank(), "-D tensor.");
  return b("torch.transpose", x, -2, -1);
}

Arg movedim_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  std::vector<int64_t> from = wrapped_dims("movedim", a["source"], x.rank()),
                       to = wrapped_dims("movedim", a["destination"], x.rank());
  THUNDER_CHECK(from.size() == to.size(), Runtime, "movedim", "source and destination must have the same length, got ",
                from.size(), " and ", to.size());
  if (x.rank() == 0) return x;
  std::vector<int64_t> p(static_cast<size_t>(x.rank()), -1), rest;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(from.begin(), from.end(), d) == from.end()) rest.push_back(d);
  for (size_t i = 0; i < from.size(); ++i) p[static_cast<size_t>(to[i])] = from[i];
  size_t next = 0;
  for (int64_t& d : p)
    if (d < 0) d = rest[next++];
  return permute(x, p);
}

// ---- dimensions of size 1 -------------------------------------------------------------------------------------------

Arg squeeze_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return squeeze_dims(x, dims_of_one(x.shape()));
}

Arg squeeze_dim_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  std::vector<int64_t> dims = wrapped_dims("squeeze", a["dim"], x.rank());
  std::erase_if(dims, [&](int64_t d) { return d >= x.rank() || !turns_out_one(x.shape()[static_cast<size_t>(d)]); });
  return squeeze_dims(x, dims);
}

Arg unsqueeze_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return unsqueeze_dims(x, {wrapped_dim("unsqueeze", a["dim"], x.rank() + 1)});
}

void unsqueeze_vjp(VjpContext& c) {
  put_input(c, c.b("torch.squeeze", c.grad(), wrapped_dim("unsqueeze", c.args()["dim"], c.grad().rank())));
}

// ---- repetition without a copy --------------------------------------------------------------------------------------

Arg expand_body(Builder& b, const Args& a) { return expand_to_sizes("expand", input(b, a), a["size"]); }
Arg expand_as_body(Builder& b, const Args& a) { return b("torch.expand", a["self"], a.tensor("other").shape); }

void expand_vjp(VjpContext& c) { put_input(c, c.b("torch.sum_to_size", c.grad(), Expr(c.b, c.call.args[0]).shape())); }

Arg broadcast_tensors_body(Builder& b, const Args& a) {
  std::vector<Dims> shapes;
  for (Value v : a.values("tensors")) shapes.push_back(v.shape());
  Dims shape = broadcast_of("broadcast_tensors", shapes);
  bool nothing_to_do = std::all_of(shapes.begin(), shapes.end(), [&](const Dims& s) { return same(s, shape); });
  ArgList out;
  for (Value v : a.values("tensors")) {
    Expr x = expand(Expr(b, v), shape);
    // Results of one call are values of their own.
    out.push_back(nothing_to_do || !(x.value() == v) ? x : b("prims.broadcast_in_dim", x, shape, identity(x.rank())));
  }
  return Arg::tuple(std::move(out));
}

Arg meshgrid_body(Builder& b, const Args& a) {
  std::vector<Value> tensors = a.values("tensors");
  std::string indexing = a.has("indexing") ? a.str("indexing") : "ij";
  THUNDER_CHECK(!tensors.empty(), Runtime, "meshgrid", "meshgrid expects a non-empty TensorList");
  THUNDER_CHECK(indexing == "ij" || indexing == "xy", Runtime, "meshgrid",
                "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: ", indexing);
  bool swap = indexing == "xy" && tensors.size() >= 2;
  if (swap) std::swap(tensors[0], tensors[1]);
  Dims shape;
  for (Value v : tensors) {
    THUNDER_CHECK_DTYPE(v.dtype() == tensors[0].dtype(), "meshgrid",
                        "torch.meshgrid expects all tensors to have the same dtype, got ", v.dtype(), " and ",
                        tensors[0].dtype());
    THUNDER_CHECK(v.rank() <= 1, Runtime, "meshgrid", "expected scalars or 1D tensors, got shape ", str(v.shape()));
    shape.push_back(v.tensor().numel());
  }
  ArgList out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Dims one(tensors.size(), Dim(1));
    one[i] = tensors[i].tensor().numel();
    out.push_back(expand(reshape(Expr(b, tensors[i]), one), shape));
  }
  if (swap) std::swap(out[0], out[1]);
  return Arg::tuple(std::move(out));
}

constexpr OpDef kRecords[] = {
    {.schema = "reshape(Tensor input, int[] ...shape) -> Tensor",
     .doc = "A view in another shape if strides allow it, else a copy.",
     .tags = kTags,
     .body = reshape_body,
     .vjp = reshape_back_vjp,
     .aten = "reshape",
     .python = "torch.reshape torch.Tensor.reshape"},
    {.schema = "view(Tensor self, int[] ...size) -> Tensor",
     .doc = "A view in another shape; an error if strides do not allow it.",
     .tags = kTags,
     .body = view_body,
     .vjp = reshape_back_vjp,
     .aten = "view",
     .python = "torch.Tensor.view"},
    {.schema = "view.dtype(Tensor self, dtype dtype) -> Tensor",
     .doc = "The bytes read as another element type.",
     .tags = kShape | kCheap,
     .body = view_dtype_body,
     .aten = "view.dtype",
     .python = "torch.Tensor.view"},
    {.schema = "view_as(Tensor self, Tensor other) -> Tensor",
     .doc = "A view in the shape of another tensor.",
     .tags = kTags,
     .body = view_as_body,
     .python = "torch.Tensor.view_as"},
    {.schema = "reshape_as(Tensor self, Tensor other) -> Tensor",
     .doc = "reshape to the shape of another tensor.",
     .tags = kTags,
     .body = reshape_as_body,
     .python = "torch.Tensor.reshape_as"},
    {.schema = "flatten(Tensor input, int start_dim=0, int end_dim=-1) -> Tensor",
     .doc = "Joins neighbouring dimensions to one.",
     .tags = kTags | kReturnsInput,
     .body = flatten_body,
     .vjp = reshape_back_vjp,
     .aten = "flatten.using_ints",
     .python = "torch.flatten torch.Tensor.flatten"},
    {.schema = "ravel(Tensor input) -> Tensor",
     .doc = "A row-major 1-d tensor of the elements.",
     .tags = kTags,
     .body = ravel_body,
     .vjp = reshape_back_vjp,
     .aten = "ravel",
     .python = "torch.ravel torch.Tensor.ravel"},
    {.schema = "unflatten(Tensor input, int dim, int[:] sizes) -> Tensor",
     .doc = "Splits a dimension into several.",
     .tags = kTags,
     .body = unflatten_body,
     .vjp = reshape_back_vjp,
     .aten = "unflatten.int",
     .python = "torch.unflatten torch.Tensor.unflatten"},
    {.schema = "permute(Tensor input, int[] ...dims) -> Tensor",
     .doc = "The dimensions in another order.",
     .tags = kTags,
     .body = permute_body,
     .vjp = permute_vjp,
     .aten = "permute",
     .python = "torch.permute torch.Tensor.permute"},
    {.schema = "transpose(Tensor input, int dim0, int dim1) -> Tensor",
     .doc = "Two dimensions exchanged.",
     .tags = kTags,
     .body = transpose_body,
     .vjp = transpose_vjp,
     .aten = "transpose.int",
     .python = "torch.transpose torch.Tensor.transpose"},
    {.schema = "swapdims(Tensor input, int dim0, int dim1) -> Tensor",
     .doc = "Two dimensions exchanged.",
     .tags = kTags,
     .body = transpose_body,
     .vjp = transpose_vjp,
     .aten = "swapdims",
     .python = "torch.swapdims torch.Tensor.swapdims"},
    {.schema = "swapaxes(Tensor input, int axis0, int axis1) -> Tensor",
     .doc = "Two dimensions exchanged.",
     .tags = kTags,
     .body = swapaxes_body,
     .vjp = transpose_vjp,
     .aten = "swapaxes",
     .python = "torch.swapaxes torch.Tensor.swapaxes"},
    {.schema = "t(Tensor input) -> Tensor",
     .doc = "A matrix with rows and columns exchanged; a vector as it is.",
     .tags = kTags,
     .body = t_body,
     .vjp = t_vjp,
     .aten = "t",
     .python = "torch.t torch.Tensor.t"},
    {.schema = "numpy_T(Tensor self) -> Tensor",
     .doc = "The dimensions in reverse order (x.T).",
     .tags = kTags,
     .body = numpy_t_body,
     .python = "torch.Tensor.T"},
    {.schema = "mT(Tensor self) -> Tensor",
     .doc = "The last two dimensions exchanged (x.mT).",
     .tags = kTags | kReturnsInput,
     .body = matrix_transpose_body,
     .python = "torch.Tensor.mT"},
    {.schema = "movedim(Tensor input, int[] source, int[] destination) -> Tensor",
     .doc = "Dimensions moved to other places.",
     .tags = kTags,
     .body = movedim_body,
     .aten = "movedim.intlist",
     .python = "torch.movedim torch.Tensor.movedim"},
    {.schema = "moveaxis(Tensor input, int[] source, int[] destination) -> Tensor",
     .doc = "Dimensions moved to other places.",
     .tags = kTags,
     .body = movedim_body,
     .aten = "moveaxis.intlist",
     .python = "torch.moveaxis torch.Tensor.moveaxis"},
    {.schema = "squeeze(Tensor input) -> Tensor",
     .doc = "Without dimensions of size 1.",
     .tags = kTags,
     .body = squeeze_body,
     .vjp = reshape_back_vjp,
     .aten = "squeeze",
     .python = "torch.squeeze torch.Tensor.squeeze"},
    {.schema = "squeeze.dim(Tensor input, int[] dim) -> Tensor",
     .doc = "Without these dimensions where they have size 1.",
     .tags = kTags,
     .body = squeeze_dim_body,
     .vjp = reshape_back_vjp,
     .aten = "squeeze.dims",
     .python = "torch.squeeze torch.Tensor.squeeze"},
    {.schema = "unsqueeze(Tensor input, int dim) -> Tensor",
     .doc = "With a new dimension of size 1.",
     .tags = kTags,
     .body = unsqueeze_body,
     .vjp = unsqueeze_vjp,
     .aten = "unsqueeze",
     .python = "torch.unsqueeze torch.Tensor.unsqueeze"},
    {.schema = "expand(Tensor self, int[] ...size, *, bool implicit=False) -> Tensor",
     .doc = "Dimensions of size 1 repeated without a copy.",
     .tags = kTags,
     .body = expand_body,
     .vjp = expand_vjp,
     .aten = "expand",
     .python = "torch.Tensor.expand"},
    {.schema = "expand_as(Tensor self, Tensor other) -> Tensor",
     .doc = "expand to the shape of another tensor.",
     .tags = kTags,
     .body = expand_as_body,
     .python = "torch.Tensor.expand_as"},
    {.schema = "broadcast_to(Tensor input, int[:] size) -> Tensor",
     .doc = "Dimensions of size 1 repeated without a copy.",
     .tags = kTags,
     .body = expand_body,
     .vjp = expand_vjp,
     .aten = "broadcast_to",
     .python = "torch.broadcast_to torch.Tensor.broadcast_to"},
    {.schema = "broadcast_tensors(Tensor[] ...tensors) -> Tensor[]",
     .doc = "All expanded to the shape to which they broadcast.",
     .tags = kTags,
     .body = broadcast_tensors_body,
     .python = "torch.broadcast_tensors"},
    {.schema = "meshgrid(Tensor[] ...tensors, *, str? indexing=None) -> Tensor[]",
     .doc = "Coordinates of a grid spanned by vectors.",
     .tags = kTags,
     .body = meshgrid_body,
     .python = "torch.meshgrid"},
};

}  // namespace

std::span<const OpDef> view() { return kRecords; }

}  // namespace thunder::ops::torch
