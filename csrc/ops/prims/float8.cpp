// Primitives of float8 scaling by what earlier steps have seen.
//
// A history is a float32 tensor [layers, 3, length] that the program keeps from run to run: for each layer the largest
// absolute values of its input, its weight and its result's gradient, of the last backward first.  What is zero has not
// been seen.  Places count the pairs of layer and kind: 3 * layer + kind.
#include "ops/prims/float8.h"

#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

using float8_history::kKinds;

const TensorType& checked_history(std::string_view op, const Args& a) {
  const TensorType& t = a.tensor("history");
  THUNDER_CHECK(t.dtype == DType::f32 && t.rank() == 3 && t.shape[1].same(kKinds) && is_contiguous(t), Runtime, op,
                "expected a float32 tensor [layers, ", int{kKinds}, ", length] as history, got ", Type(t).str());
  return t;
}

Types scales_meta(const Args& a) {
  const TensorType& t = checked_history("float8_scales", a);
  TensorType out = contiguous_type(DType::f32, t.device, {t.shape[0] * kKinds});
  out.strides = {float8_history::kScaleDistance};
  return {std::move(out)};
}

Types record_meta(const Args& a) {
  const TensorType& t = checked_history("float8_record", a);
  const size_t given = a.values("maxima").size(), places = a.integers("places").size();
  THUNDER_CHECK(given == places, Runtime, "float8_record", "expected a place for each maximum, got ", places, " for ",
                given);
  for (int64_t place : a.integers("places"))
    THUNDER_CHECK(place >= 0 && Dim(place) < t.shape[0] * kKinds, Index, "float8_record", "expected places of ",
                  t.shape[0], " layers, got ", place);
  return {};
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "float8_scales(Tensor history) -> Tensor",
     .doc = "For each place the scale by which the largest of its history fills the range of float8: e4m3's, and for "
            "gradients e5m2's; 1 where nothing has been seen. 16 bytes lie between two scales.",
     .tags = kState | kNoGrad, .meta = scales_meta},
    {.schema = "float8_record(Tensor history, Tensor[] maxima, int[] places) -> None",
     .doc = "Puts maxima in front of their places' histories; those that are no finite numbers count as not seen. No place "
            "is named twice.",
     .tags = kState | kNoGrad, .meta = record_meta},
};
// clang-format on

}  // namespace

Records float8() { return kRecords; }

}  // namespace thunder::ops::prims
