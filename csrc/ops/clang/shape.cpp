// Shape and index operators of the core language: negative dimensions count from the end, dtypes are promoted where
// tensors are joined; otherwise as the primitives.
#include <algorithm>
#include <numeric>
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::clang {
namespace {

Expr input(Builder& b, const Args& a) { return b.expr(a.list()[0]); }
int64_t dim_of(const char* op, const Args& a) { return wrapped_dim(op, a["dim"], a.list()[0].value().rank()); }

Arg reshape_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return reshape(x, inferred_shape("reshape", size_args("reshape", a["shape"]), x.tensor().numel()));
}

Arg flatten_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  int64_t from = wrapped_dim("flatten", a["start_dim"], x.rank()), to = wrapped_dim("flatten", a["end_dim"], x.rank());
  THUNDER_CHECK(from <= to, Runtime, "flatten", "start_dim cannot come after end_dim, got ", from, " and ", to);
  if (x.rank() == 0) return reshape(x, {Dim(1)});
  Dims shape(x.shape().begin(), x.shape().begin() + from);
  shape.push_back(product(Dims(x.shape().begin() + from, x.shape().begin() + to + 1)));
  shape.insert(shape.end(), x.shape().begin() + to + 1, x.shape().end());
  return reshape(x, shape);
}

Arg transpose_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  std::vector<int64_t> p = wrapped_dims("transpose", a["permutation"], x.rank());
  THUNDER_CHECK(static_cast<int64_t>(p.size()) == x.rank(), Runtime, "transpose", "a permutation of ", x.rank(),
                " dimensions is needed, got ", p.size());
  return permute(x, p);
}

Arg matrix_transpose_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  THUNDER_CHECK(x.rank() >= 2, Runtime, "matrix_transpose", "at least 2 dimensions are needed, got ", x.rank());
  std::vector<int64_t> p(static_cast<size_t>(x.rank()));
  std::iota(p.begin(), p.end(), 0);
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  return permute(x, p);
}

Arg squeeze_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return squeeze_dims(x, a.has("dims") ? wrapped_dims("squeeze", a["dims"], x.rank()) : dims_of_one(x.shape()));
}

Arg unsqueeze_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  return unsqueeze_dims(
      x, wrapped_dims("unsqueeze", a["dims"], x.rank() + static_cast<int64_t>(a["dims"].items().size())));
}

Arg expand_body(Builder& b, const Args& a) { return expand_to_sizes("expand", input(b, a), a["shape"]); }

Arg slice_in_dim_body(Builder& b, const Args& a) {
  Expr x = input(b, a);
  int64_t dim = dim_of("slice_in_dim", a);
  const Dim& size = x.shape().at(static_cast<size_t>(dim));
  auto clamped = [&](const Dim& i) { return max(min(i < 0 ? i + size : i, size), Dim(0)); };
  Dim start = clamped(size_arg("slice_in_dim", a["start_index"])),
      end = max(clamped(size_arg("slice_in_dim", a["stop_index"])), start);
  return slice_dim(x, dim, start, end, size_arg("slice_in_dim", a["stride"]));
}

ArgList promoted(Builder& b, const std::vector<Value>& tensors) {
  THUNDER_CHECK(!tensors.empty(), Value, "cat", "expected a non-empty list of Tensors");
  ArgList operands(tensors.begin(), tensors.end());
  DType t = result_type(operands);
  for (Arg& x : operands) x = convert(b, x, t);
  return operands;
}

Arg cat_body(Builder& b, const Args& a) {
  return b("prims.cat", Arg::list(promoted(b, a.values("tensors"))), a["dim"]);
}

Arg stack_body(Builder& b, const Args& a) {
  ArgList operands = promoted(b, a.values("tensors"));
  int64_t dim = wrapped_dim("stack", a["dim"], operands[0].value().rank() + 1);
  for (Arg& x : operands) x = unsqueeze_dims(b.expr(x), {dim});
  return b("prims.cat", Arg::list(std::move(operands)), dim);
}

Arg pad_body(Builder& b, const Args& a) { return b("prims.pad", a["a"], a["value"], a["config"]); }

Arg flip_body(Builder& b, const Args& a) {
  return b("prims.flip", a["a"], wrapped_dims("flip", a["dims"], a.value("a").rank()));
}

Arg take_body(Builder& b, const Args& a) { return b("prims.take", a["a"], a["index"], dim_of("take", a)); }
Arg take_along_axis_body(Builder& b, const Args& a) {
  return b("prims.take_along_axis", a["a"], a["index"], dim_of("take_along_axis", a));
}
Arg scatter_add_body(Builder& b, const Args& a) {
  return b("prims.scatter_add", a["a"], dim_of("scatter_add", a), a["index"],
           convert(b, a["src"], a.value("a").dtype()));
}
Arg index_add_body(Builder& b, const Args& a) {
  return b("prims.index_add", a["a"], dim_of("index_add", a), a["index"],
           convert(b, a["source"], a.value("a").dtype()));
}
Arg index_copy_body(Builder& b, const Args& a) {
  return b("prims.index_copy", a["a"], dim_of("index_copy", a), a["index"],
           convert(b, a["source"], a.value("a").dtype()));
}
Arg index_put_body(Builder& b, const Args& a) {
  return b("prims.index_put", a["a"], a["indices"], convert(b, a["values"], a.value("a").dtype()), a["accumulate"]);
}
Arg topk_body(Builder& b, const Args& a) {
  return b("prims.topk", a["a"], a["k"], dim_of("topk", a), a["largest"], a["sorted"]);
}
Arg sort_body(Builder& b, const Args& a) {
  return b("prims.sort", a["a"], dim_of("sort", a), a["descending"], a["stable"]);
}
Arg diagonal_body(Builder& b, const Args& a) { return b("prims.diagonal", a["a"], a["offset"], a["dim1"], a["dim2"]); }
Arg unfold_body(Builder& b, const Args& a) { return b("prims.unfold", a["a"], a["dim"], a["size"], a["step"]); }
Arg item_body(Builder& b, const Args& a) { return b("prims.item", a["a"]); }

constexpr uint64_t kTags = kShape | kLinear;

constexpr OpDef kRecords[] = {
    {.schema = "reshape(Tensor a, int[] shape) -> Tensor",
     .doc = "Another shape; one size may be -1.",
     .tags = kTags,
     .body = reshape_body},
    {.schema = "flatten(Tensor a, int start_dim=0, int end_dim=-1) -> Tensor",
     .doc = "Neighbouring dimensions joined.",
     .tags = kTags,
     .body = flatten_body},
    {.schema = "transpose(Tensor a, int[] permutation) -> Tensor",
     .doc = "Dimensions in another order.",
     .tags = kTags,
     .body = transpose_body},
    {.schema = "matrix_transpose(Tensor a) -> Tensor",
     .doc = "The last two dimensions exchanged.",
     .tags = kTags,
     .body = matrix_transpose_body},
    {.schema = "squeeze(Tensor a, int[]? dims=None) -> Tensor",
     .doc = "Without dimensions of size 1.",
     .tags = kTags,
     .body = squeeze_body},
    {.schema = "unsqueeze(Tensor a, int[] dims) -> Tensor",
     .doc = "With new dimensions of size 1 at places of the result.",
     .tags = kTags,
     .body = unsqueeze_body},
    {.schema = "expand(Tensor a, int[] ...shape) -> Tensor",
     .doc = "Dimensions of size 1 repeated; -1 keeps a size.",
     .tags = kTags,
     .body = expand_body},
    {.schema = "slice_in_dim(Tensor a, int start_index, int stop_index, int stride=1, int dim=0) -> Tensor",
     .doc = "A slice of one dimension.",
     .tags = kTags,
     .body = slice_in_dim_body},
    {.schema = "cat(Tensor[] tensors, int dim=0) -> Tensor",
     .doc = "One behind the other, promoted to one dtype.",
     .tags = kTags,
     .body = cat_body},
    {.schema = "stack(Tensor[] tensors, int dim=0) -> Tensor",
     .doc = "Along a new dimension, promoted to one dtype.",
     .tags = kTags,
     .body = stack_body},
    {.schema = "pad(Tensor a, Number value, any[] config) -> Tensor",
     .doc = "(low, high, interior) padding per dimension.",
     .tags = kShape,
     .body = pad_body},
    {.schema = "flip(Tensor a, int[] dims) -> Tensor",
     .doc = "Elements in reverse order.",
     .tags = kTags,
     .body = flip_body},
    {.schema = "take(Tensor a, Tensor index, int dim) -> Tensor",
     .doc = "Slices at positions in a vector.",
     .tags = kShape,
     .body = take_body},
    {.schema = "take_along_axis(Tensor a, Tensor index, int dim) -> Tensor",
     .doc = "Elements at positions along a dimension.",
     .tags = kShape,
     .body = take_along_axis_body},
    {.schema = "scatter_add(Tensor a, int dim, Tensor index, Tensor src) -> Tensor",
     .doc = "Elements added at positions along a dimension.",
     .body = scatter_add_body},
    {.schema = "index_add(Tensor a, int dim, Tensor index, Tensor source) -> Tensor",
     .doc = "Slices added at positions in a vector.",
     .body = index_add_body},
    {.schema = "index_copy(Tensor a, int dim, Tensor index, Tensor source) -> Tensor",
     .doc = "Slices written at positions in a vector.",
     .body = index_copy_body},
    {.schema = "index_put(Tensor a, any[] indices, Tensor values, bool accumulate=False) -> Tensor",
     .doc = "Values written at index tensors.",
     .tags = kShape,
     .body = index_put_body},
    {.schema = "topk(Tensor a, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor, Tensor)",
     .doc = "The k largest.",
     .tags = kShape,
     .body = topk_body},
    {.schema = "sort(Tensor a, int dim=-1, bool descending=False, bool stable=False) -> (Tensor, Tensor)",
     .doc = "In order.",
     .tags = kShape,
     .body = sort_body},
    {.schema = "diagonal(Tensor a, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     .doc = "A diagonal.",
     .tags = kTags,
     .body = diagonal_body},
    {.schema = "unfold(Tensor a, int dim, int size, int step) -> Tensor",
     .doc = "Windows along a dimension.",
     .tags = kTags,
     .body = unfold_body},
    {.schema = "item(Tensor a) -> Number", .doc = "The only element as a number.", .tags = kNoGrad, .body = item_body},
};

}  // namespace

std::span<const OpDef> shape() { return kRecords; }

}  // namespace thunder::ops::clang
