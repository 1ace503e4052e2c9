// numpy.*: selecting and searching.
#include "ops/common.h"
#include "ops/numpy/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::numpy {
namespace {

Arg where_body(Builder& b, const Args& a) {
  DType t = result_type({a["x"], a["y"]});
  ArgList x = tensor_operands(b, "where", {a["x"], a["y"]}, t);
  return b("torch.where", truth(b, a["condition"]), x[0], x[1]);
}

Arg nonzero_body(Builder& b, const Args& a) { return b("torch.nonzero", a.list()[0], kw("as_tuple", true)); }

// Negative indices count from the end.
Expr wrapped(Builder& b, const Arg& index, const Dim& size) {
  Expr i = b.expr(convert(b, index, DType::i64));
  return b("torch.where", b("torch.lt", i, 0), b("torch.add", i, Arg(size)), i);
}

Arg take_body(Builder& b, const Args& a) {
  THUNDER_CHECK(a.str("mode") == "raise", NotImplemented, "take", "expected mode='raise', got '", a.str("mode"), "'");
  Expr x = b.expr(a["a"]);
  int64_t axis = a.has("axis") ? one_axis(a, "axis", x.rank()) : 0;
  if (!a.has("axis")) x = flat(x);
  const TensorType& t = x.tensor();
  Arg index = a["indices"].is_tensor() ? a["indices"]
              : a["indices"].is_sequence()
                  ? Arg(b("torch.tensor", a["indices"], kw("dtype", DType::i64), kw("device", t.device)))
                  : full(b, {}, a["indices"], DType::i64, t.device);
  Expr i = wrapped(b, index, t.shape[static_cast<size_t>(axis)]);
  Dims shape(t.shape.begin(), t.shape.begin() + axis);
  shape.insert(shape.end(), i.shape().begin(), i.shape().end());
  shape.insert(shape.end(), t.shape.begin() + axis + 1, t.shape.end());
  return ops::reshape(b("torch.index_select", x, axis, flat(i)), shape);
}

Arg take_along_axis_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["arr"]);
  const bool all = a["axis"].is_none();
  int64_t axis = all ? 0 : one_axis(a, "axis", x.rank());
  if (all) x = flat(x);
  return b("torch.take_along_dim", x, wrapped(b, a["indices"], x.shape()[static_cast<size_t>(axis)]), axis);
}

Arg searchsorted_body(Builder& b, const Args& a) {
  DType t = result_type({a["a"], a["v"]});
  return b("torch.searchsorted", convert(b, a["a"], t), convert(b, a["v"], t), kw("side", a["side"]));
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "where(Tensor condition, Scalar x, Scalar y) -> Tensor", .doc = "x where the condition is not zero, else y.",
     .tags = kPointwise, .body = where_body, .python = "numpy.where"},
    {.schema = "where.condition(Tensor condition) -> Tensor[]", .doc = "As nonzero.", .tags = kNoGrad,
     .body = nonzero_body, .python = "numpy.where"},
    {.schema = "nonzero(Tensor a) -> Tensor[]", .doc = "The indices of elements that are not zero, one array an axis.",
     .tags = kNoGrad, .body = nonzero_body, .python = "numpy.nonzero numpy.ndarray.nonzero"},
    {.schema = "take(Tensor a, any indices, int? axis=None, *, str mode='raise') -> Tensor",
     .doc = "The elements at these indices along `axis`; of the flattened array for None.", .tags = kShape,
     .body = take_body, .python = "numpy.take numpy.ndarray.take"},
    {.schema = "take_along_axis(Tensor arr, Tensor indices, int? axis=-1) -> Tensor",
     .doc = "For each place, the element at its index along `axis`.", .tags = kShape, .body = take_along_axis_body,
     .python = "numpy.take_along_axis"},
    {.schema = "searchsorted(Tensor a, Tensor v, str side='left') -> Tensor",
     .doc = "Where elements would be inserted into a sorted array.", .tags = kNoGrad, .body = searchsorted_body,
     .python = "numpy.searchsorted numpy.ndarray.searchsorted"},
};
// clang-format on

}  // namespace

Records index() { return kRecords; }

}  // namespace thunder::ops::numpy
