// numpy.*: shapes, joining, splitting, rearranging.
#include <algorithm>
#include <numeric>

#include "ops/common.h"
#include "ops/formula.h"
#include "ops/numpy/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::numpy {
namespace {

Expr array(Builder& b, const Args& a) { return b.expr(a.list()[0]); }

Arg reshape_body(Builder& b, const Args& a) {
  check_order(a);
  Expr x = array(b, a);
  return ops::reshape(x, inferred_shape("reshape", size_args("reshape", a["shape"]), x.tensor().numel()));
}

Arg ravel_body(Builder& b, const Args& a) {
  check_order(a);
  return flat(array(b, a));
}

Arg flatten_body(Builder& b, const Args& a) {
  check_order(a);
  return b("prims.clone", flat(array(b, a)));
}

Arg transpose_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  std::iota(order.rbegin(), order.rend(), 0);
  // No axes in a method's arguments are an empty list.
  if (a.has("axes") && !a["axes"].items().empty()) order = wrapped_dims("transpose", a["axes"], x.rank());
  THUNDER_CHECK(static_cast<int64_t>(order.size()) == x.rank(), Value, "transpose", "axes don't match array, got ",
                order.size(), ", expected ", x.rank());
  return permute(x, order);
}

Arg reversed_body(Builder& b, const Args& a) { return b("numpy.transpose", a["a"]); }

Arg expand_dims_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  return unsqueeze_dims(
      x, wrapped_dims("expand_dims", a["axis"], x.rank() + static_cast<int64_t>(a["axis"].items().size())));
}

Arg squeeze_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  if (!a.has("axis")) return squeeze_dims(x, dims_of_one(x.shape()));
  std::vector<int64_t> drop = wrapped_dims("squeeze", a["axis"], x.rank());
  for (int64_t d : drop)
    THUNDER_CHECK(turns_out_one(x.shape()[static_cast<size_t>(d)]), Value, "squeeze",
                  "cannot select an axis to squeeze out which has size not equal to one");
  return squeeze_dims(x, drop);
}

Arg broadcast_to_body(Builder& b, const Args& a) { return expand_to_sizes("broadcast_to", array(b, a), a["shape"]); }

Arg astype_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  if (x.dtype() == a.dtype("dtype")) return a.flag("copy") ? b("prims.clone", x) : x;
  if (is_complex(x.dtype()) && !is_complex(a.dtype("dtype"))) x = b("prims.real", x);
  return convert(b, x, a.dtype("dtype"));
}

// ---- joining --------------------------------------------------------------------------------------------------------

ArgList promoted(Builder& b, const Args& a, const char* list) {
  ArgList tensors;
  for (const Value& v : a.values(list)) tensors.push_back(v);
  THUNDER_CHECK(!tensors.empty(), Value, a.op().schema.name, "need at least one array to join");
  DType t = a.op().schema.index_of("dtype") >= 0 ? dtype_or(a, result_type(tensors)) : result_type(tensors);
  for (Arg& x : tensors) x = convert(b, x, t);
  return tensors;
}

Arg concatenate_body(Builder& b, const Args& a) {
  ArgList tensors = promoted(b, a, "arrays");
  if (a.has("axis")) return b("prims.cat", Arg::list(tensors), one_axis(a, "axis", tensors[0].value().rank()));
  for (Arg& x : tensors) x = flat(b.expr(x));
  return b("prims.cat", Arg::list(tensors), 0);
}

Arg stack_body(Builder& b, const Args& a) {
  ArgList tensors = promoted(b, a, "arrays");
  const Dims shape = tensors[0].value().shape();
  int64_t axis = wrapped_dim("stack", a["axis"], static_cast<int64_t>(shape.size()) + 1);
  for (Arg& x : tensors) {
    THUNDER_CHECK(equal(x.value().shape(), shape), Value, "stack", "all input arrays must have the same shape");
    x = unsqueeze_dims(b.expr(x), {axis});
  }
  return b("prims.cat", Arg::list(tensors), axis);
}

template <Prim op>
Arg join_body(Builder& b, const Args& a) {
  return b(op.text, Arg::list(promoted(b, a, "tup")));
}

// ---- splitting ------------------------------------------------------------------------------------------------------

Arg split_at(Builder& b, const Expr& x, const Arg& where, int64_t axis, bool even) {
  if (where.is_sequence()) return b("torch.tensor_split", x, where, axis);
  int64_t sections = as_dim(where).constant();
  THUNDER_CHECK(sections > 0, Value, "split", "number sections must be larger than 0.");
  THUNDER_CHECK(!even || x.shape()[static_cast<size_t>(axis)].constant() % sections == 0, Value, "split",
                "array split does not result in an equal division");
  return b("torch.tensor_split", x, sections, axis);
}

template <bool kEven>
Arg split_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  return split_at(b, x, a["indices_or_sections"], one_axis(a, "axis", x.rank()), kEven);
}

template <int kAxis>
Arg split_along_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  THUNDER_CHECK(x.rank() > (kAxis == 1 ? 0 : kAxis), Value, a.op().schema.name, "got too few dimensions: ", x.rank());
  return split_at(b, x, a["indices_or_sections"], kAxis == 1 && x.rank() == 1 ? 0 : kAxis, true);
}

// ---- rearranging ----------------------------------------------------------------------------------------------------

Arg repeat_body(Builder& b, const Args& a) {
  return b("torch.repeat_interleave", a["axis"].is_none() ? flat(array(b, a)) : array(b, a), a["repeats"],
           a["axis"].is_none() ? Arg(0) : a["axis"]);
}

Arg flip_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  std::vector<int64_t> over = axes(a, x);
  return over.empty() ? x : b("prims.flip", x, over);
}

Arg roll_body(Builder& b, const Args& a) {
  Arg shift = a["shift"], axis = a["axis"];
  if (axis.is_sequence() && shift.items().size() == 1 && axis.items().size() > 1)
    shift = Arg::list(ArgList(axis.items().size(), shift.items()[0]));
  return b("torch.roll", a["a"], shift, axis);
}

Arg trace_body(Builder& b, const Args& a) {
  Expr d = b("torch.diagonal", a["a"], a["offset"], a["axis1"], a["axis2"]);
  return b("numpy.sum", d, -1);
}

Arg diff_body(Builder& b, const Args& a) {
  Expr x = array(b, a);
  int64_t axis = one_axis(a, "axis", x.rank()), n = a.integer("n");
  THUNDER_CHECK(n >= 0, Value, "diff", "order must be non-negative but got ", n);
  const char* difference = is_bool(x.dtype()) ? "numpy.not_equal" : "numpy.subtract";
  for (; n > 0; --n) {
    Dim size = x.shape()[static_cast<size_t>(axis)];
    x = b(difference, slice_dim(x, axis, 1, size), slice_dim(x, axis, 0, size - 1));
  }
  return x;
}

constexpr OpDef shape_op(std::string_view schema, std::string_view doc, BodyFn body, std::string_view python) {
  return {.schema = schema, .doc = doc, .tags = kShape, .body = body, .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    shape_op("reshape(Tensor a, int[] ...shape, *, str order='C') -> Tensor",
             "Another shape; a view where the layout allows it.", reshape_body, "numpy.reshape numpy.ndarray.reshape"),
    shape_op("ravel(Tensor a, str order='C') -> Tensor", "All elements in one dimension; a view where possible.",
             ravel_body, "numpy.ravel numpy.ndarray.ravel"),
    shape_op("flatten(Tensor a, str order='C') -> Tensor", "A copy of all elements in one dimension.", flatten_body,
             "numpy.ndarray.flatten"),
    shape_op("transpose(Tensor a, int[]? ...axes=None) -> Tensor", "The axes in another order; reversed for None.",
             transpose_body, "numpy.transpose numpy.permute_dims numpy.ndarray.transpose"),
    shape_op("T(Tensor a) -> Tensor", "The axes reversed.", reversed_body, "numpy.ndarray.T"),
    shape_op("matrix_transpose(Tensor x) -> Tensor", "The last two axes exchanged.", same_as<"torch.mT">,
             "numpy.matrix_transpose numpy.ndarray.mT"),
    shape_op("swapaxes(Tensor a, int axis1, int axis2) -> Tensor", "Two axes exchanged.", same_as<"torch.transpose">,
             "numpy.swapaxes numpy.ndarray.swapaxes"),
    shape_op("moveaxis(Tensor a, int[] source, int[] destination) -> Tensor", "Axes moved to other places.",
             same_as<"torch.movedim">, "numpy.moveaxis"),
    shape_op("expand_dims(Tensor a, int[] axis) -> Tensor", "New axes of size 1 at these places of the result.",
             expand_dims_body, "numpy.expand_dims"),
    shape_op("squeeze(Tensor a, int[]? axis=None) -> Tensor", "Without axes of size 1.", squeeze_body,
             "numpy.squeeze numpy.ndarray.squeeze"),
    shape_op("broadcast_to(Tensor array, int[] shape) -> Tensor", "A view in which axes of size 1 are repeated.",
             broadcast_to_body, "numpy.broadcast_to"),
    shape_op("astype(Tensor x, dtype dtype, *, bool copy=True) -> Tensor", "The same values in another dtype.",
             astype_body, "numpy.astype numpy.ndarray.astype"),
    shape_op("copy(Tensor a) -> Tensor", "A copy.", same_as<"torch.clone">, "numpy.copy numpy.ndarray.copy"),
    shape_op("atleast_1d(Tensor arys) -> Tensor", "With one dimension at least.", same_as<"torch.atleast_1d">,
             "numpy.atleast_1d"),
    shape_op("atleast_2d(Tensor arys) -> Tensor", "With two dimensions at least.", same_as<"torch.atleast_2d">,
             "numpy.atleast_2d"),
    shape_op("atleast_3d(Tensor arys) -> Tensor", "With three dimensions at least.", same_as<"torch.atleast_3d">,
             "numpy.atleast_3d"),
    shape_op("concatenate(Tensor[] arrays, int? axis=0, *, dtype? dtype=None) -> Tensor",
             "Joined along an axis; flattened before for None.", concatenate_body, "numpy.concatenate numpy.concat"),
    shape_op("stack(Tensor[] arrays, int axis=0, *, dtype? dtype=None) -> Tensor", "Joined along a new axis.",
             stack_body, "numpy.stack"),
    shape_op("vstack(Tensor[] tup, *, dtype? dtype=None) -> Tensor", "Joined along the first of two axes or more.",
             join_body<"torch.vstack">, "numpy.vstack"),
    shape_op("hstack(Tensor[] tup, *, dtype? dtype=None) -> Tensor",
             "Joined along the second axis; the first of one dimension.", join_body<"torch.hstack">, "numpy.hstack"),
    shape_op("dstack(Tensor[] tup) -> Tensor", "Joined along the third axis.", join_body<"torch.dstack">,
             "numpy.dstack"),
    shape_op("column_stack(Tensor[] tup) -> Tensor", "Joined along the second axis, 1-d arrays as columns.",
             join_body<"torch.column_stack">, "numpy.column_stack"),
    shape_op("split(Tensor ary, any indices_or_sections, int axis=0) -> Tensor[]",
             "Views of equal parts, or between the indices.", split_body<true>, "numpy.split"),
    shape_op("array_split(Tensor ary, any indices_or_sections, int axis=0) -> Tensor[]",
             "Views of nearly equal parts, or between the indices.", split_body<false>, "numpy.array_split"),
    shape_op("hsplit(Tensor ary, any indices_or_sections) -> Tensor[]", "Split along the second axis.",
             split_along_body<1>, "numpy.hsplit"),
    shape_op("vsplit(Tensor ary, any indices_or_sections) -> Tensor[]", "Split along the first axis.",
             split_along_body<0>, "numpy.vsplit"),
    shape_op("dsplit(Tensor ary, any indices_or_sections) -> Tensor[]", "Split along the third axis.",
             split_along_body<2>, "numpy.dsplit"),
    shape_op("tile(Tensor A, int[] reps) -> Tensor", "Repeated so many times along each axis.", same_as<"torch.tile">,
             "numpy.tile"),
    shape_op("repeat(Tensor a, any repeats, int? axis=None) -> Tensor",
             "Each element so many times along `axis`; of the flattened array for None.", repeat_body,
             "numpy.repeat numpy.ndarray.repeat"),
    shape_op("flip(Tensor m, int[]? axis=None) -> Tensor", "In reverse order along axes (all for None).", flip_body,
             "numpy.flip"),
    shape_op("fliplr(Tensor m) -> Tensor", "In reverse order along the second axis.", same_as<"torch.fliplr">,
             "numpy.fliplr"),
    shape_op("flipud(Tensor m) -> Tensor", "In reverse order along the first axis.", same_as<"torch.flipud">,
             "numpy.flipud"),
    shape_op("roll(Tensor a, int[] shift, int[]? axis=None) -> Tensor",
             "Rotated along axes; flattened meanwhile for None.", roll_body, "numpy.roll"),
    shape_op("rot90(Tensor m, int k=1, int[] axes=[0, 1]) -> Tensor", "Rotated k times by 90 degrees.",
             same_as<"torch.rot90">, "numpy.rot90"),
    shape_op("tril(Tensor m, int k=0) -> Tensor", "Zeros above the k-th diagonal.", same_as<"torch.tril">,
             "numpy.tril"),
    shape_op("triu(Tensor m, int k=0) -> Tensor", "Zeros below the k-th diagonal.", same_as<"torch.triu">,
             "numpy.triu"),
    shape_op("diag(Tensor v, int k=0) -> Tensor", "The k-th diagonal of a matrix, or a matrix with that diagonal.",
             same_as<"torch.diag">, "numpy.diag"),
    shape_op("diagonal(Tensor a, int offset=0, int axis1=0, int axis2=1) -> Tensor", "A diagonal, as a view.",
             same_as<"torch.diagonal">, "numpy.diagonal numpy.ndarray.diagonal"),
    shape_op("trace(Tensor a, int offset=0, int axis1=0, int axis2=1) -> Tensor", "The sum of a diagonal.", trace_body,
             "numpy.trace numpy.ndarray.trace"),
    shape_op("diff(Tensor a, int n=1, int axis=-1) -> Tensor", "Differences of neighbours along `axis`, n times.",
             diff_body, "numpy.diff"),
};
// clang-format on

}  // namespace

Records shape() { return kRecords; }

}  // namespace thunder::ops::numpy
