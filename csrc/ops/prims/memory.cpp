// Primitives about where elements lie, not what they are.
#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/prims/view_rules.h"

namespace thunder::ops::prims {
namespace {

Types restride_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.requires_grad = false;
  t.strides = a.dims("strides");
  THUNDER_CHECK(t.strides.size() == t.shape.size(), Runtime, "restride", "one stride a dimension is needed, got ",
                t.strides.size(), " for ", t.shape.size(), " dimensions");
  return {std::move(t)};
}

void restride_vjp(VjpContext& c) { c.put("a", c.grad()); }

Types or_zeros_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.requires_grad = false;
  return {std::move(t)};
}

Types copy_data_meta(const Args& a) {
  const TensorType &to = a.tensor("dst"), &from = a.tensor("src");
  THUNDER_CHECK(equal(to.shape, from.shape) && to.dtype == from.dtype, Runtime, a.op().schema.name, "expected ",
                Type(to).str(), ", got ", Type(from).str());
  return {to};
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "restride(Tensor a, int[] strides) -> Tensor",
     .doc = "The elements of `a` in new memory with these strides (in elements): what an in-place write leaves behind "
            "in a tensor whose layout differs from that of the value written.",
     .tags = kShape | kCheap,
     .meta = restride_meta,
     .vjp = restride_vjp,
     .index_map = same_places},
    {.schema = "or_zeros(Tensor a) -> Tensor",
     .doc = "`a`, or zeros of its type where the program was given no tensor for it: a cotangent that autograd does "
            "not have. Of sizes and strides that are constants.",
     .tags = kNoGrad | kCheap | kMayLackOperand,
     .meta = or_zeros_meta,
     .aten = "alias",
     .element = Element::Computed},
    {.schema = "copy_data_(Tensor dst, Tensor src, bool counted=True) -> Tensor",
     .doc = "Writes `src` into `dst` as under torch.no_grad(): a leaf that requires grad may be written to, and "
            "autograd's graph of `dst` stays what it was. Unless it is `counted`, the version of `dst` stays, too, as "
            "where it is written to through `dst.data`.",
     .tags = kWrite,
     .meta = copy_data_meta},
    {.schema = "set_data_(Tensor dst, Tensor src) -> Tensor",
     .doc = "`dst.data = src`: from here on `dst` lies in the memory of `src`; whether it requires grad, and "
            "autograd's graph of it, stay what they were.",
     .tags = kWrite,
     .meta = copy_data_meta},
};
// clang-format on

}  // namespace

Records memory() { return kRecords; }

}  // namespace thunder::ops::prims
