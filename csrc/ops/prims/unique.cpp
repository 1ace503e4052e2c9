// Primitives whose result is as long as there are different values.
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

Dim new_length(const char* op) {
  ShapeEnv* env = ShapeEnv::current();
  THUNDER_CHECK(env, Runtime, op, "the shape of the result depends on values, which needs a compilation to hold it");
  return env->make_symbol(std::nullopt);
}

Type index_type(const TensorType& like, Dims shape) {
  TensorType t = contiguous_like(like, std::move(shape));
  t.dtype = DType::i64;
  return t;
}

// Positions and counts stay empty if nobody asks for them.
Types flat_unique(const char* op, const TensorType& t, bool inverse, bool counts) {
  Dim n = t.numel().same(0) ? Dim(0) : new_length(op);
  return {contiguous_like(t, {n}), index_type(t, inverse ? t.shape : Dims{Dim(0)}),
          index_type(t, {counts ? n : Dim(0)})};
}

Types unique_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  THUNDER_CHECK_DTYPE(!is_complex(t.dtype), "unique", "complex dtypes are not supported, got ", t.dtype);
  return flat_unique("unique", t, a.flag("return_inverse"), a.flag("return_counts"));
}

Types unique_consecutive_meta(const Args& a) {
  return flat_unique("unique_consecutive", a.tensor("a"), a.flag("return_inverse"), a.flag("return_counts"));
}

// Whole slices are compared; on the CPU ATen brings the dimension to the front, and back as a view.
Types unique_dim_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  size_t dim = static_cast<size_t>(wrapped_dim("unique", a["dim"], t.rank()));
  THUNDER_CHECK(t.rank() > 0, Index, "unique", "a 0-d tensor has no dimension to look along");
  Dims front = t.shape;
  front.erase(front.begin() + static_cast<long>(dim));
  Dim n = new_length("unique"), size = t.shape[dim];
  front.insert(front.begin(), n);
  Dims strides = contiguous_strides(front);
  Dim first = strides[0];
  strides.erase(strides.begin());
  strides.insert(strides.begin() + static_cast<long>(dim), first);
  Dims shape = t.shape;
  shape[dim] = n;
  if (t.device.type == DeviceType::cuda) strides = contiguous_strides(shape);
  return {with_shape(t, std::move(shape), std::move(strides)), index_type(t, {size}), index_type(t, {n})};
}

Types bincount_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  THUNDER_CHECK(is_integral(t.dtype), NotImplemented, "bincount", "only integral inputs are supported, got ", t.dtype);
  THUNDER_CHECK(t.rank() == 1, Runtime, "bincount",
                "bincount only supports 1-d non-negative integral inputs, got shape ", str(t.shape));
  Dim minlength = size_arg("bincount", a["minlength"]);
  THUNDER_CHECK(minlength >= 0, Runtime, "bincount", "minlength should be >= 0, got ", minlength);
  TensorType out = contiguous_like(t, {t.numel().same(0) ? minlength : new_length("bincount")});
  out.dtype = DType::i64;
  if (a.has("weights")) {
    const TensorType& w = a.tensor("weights");
    THUNDER_CHECK(w.rank() == 1 && w.shape[0] == t.shape[0], Runtime, "bincount",
                  "weights should be 1-d and have the same length as input, got ", str(w.shape), " and ", str(t.shape));
    out.dtype = w.dtype == DType::f32 ? DType::f32 : DType::f64;
  }
  return {out};
}

constexpr uint64_t kTags = kNoGrad | kDataDependent | kHostSync;

constexpr OpDef kRecords[] = {
    {.schema = "unique(Tensor a, bool sorted, bool return_inverse, bool return_counts) -> (Tensor, Tensor, Tensor)",
     .doc = "The different values; for each element the place of its value; for each value how often it occurs.",
     .tags = kTags,
     .meta = unique_meta,
     .aten = "_unique2"},
    {.schema = "unique_dim(Tensor a, int dim, bool sorted) -> (Tensor, Tensor, Tensor)",
     .doc = "The different slices along a dimension.",
     .tags = kTags,
     .meta = unique_dim_meta,
     .aten = "unique_dim(a, dim, sorted, True, True)"},
    {.schema = "unique_consecutive(Tensor a, bool return_inverse, bool return_counts) -> (Tensor, Tensor, Tensor)",
     .doc = "As unique, of runs of equal values.",
     .tags = kTags,
     .meta = unique_consecutive_meta,
     .aten = "unique_consecutive"},
    {.schema = "unique_dim_consecutive(Tensor a, int dim) -> (Tensor, Tensor, Tensor)",
     .doc = "As unique_dim, of runs of equal slices.",
     .tags = kTags,
     .meta = unique_dim_meta,
     .aten = "unique_dim_consecutive(a, dim, True, True)"},
    {.schema = "bincount(Tensor a, Tensor? weights=None, int minlength=0) -> Tensor",
     .doc = "How often each small integer occurs, or the sum of the weights there.",
     .tags = kTags,
     .meta = bincount_meta,
     .aten = "bincount"},
};

}  // namespace

std::span<const OpDef> unique() { return kRecords; }

}  // namespace thunder::ops::prims
