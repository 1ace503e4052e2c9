// Primitives about where elements lie, not what they are.
#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

Types restride_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.strides = a.dims("strides");
  THUNDER_CHECK(t.strides.size() == t.shape.size(), Runtime, "restride", "one stride a dimension is needed, got ",
                t.strides.size(), " for ", t.shape.size(), " dimensions");
  return {std::move(t)};
}

void restride_vjp(VjpContext& c) { c.put("a", c.grad()); }

constexpr OpDef kRecords[] = {
    {.schema = "restride(Tensor a, int[] strides) -> Tensor",
     .doc = "The elements of `a` in new memory with these strides (in elements): what an in-place write leaves behind in a tensor "
            "whose layout differs from that of the value written.",
     .tags = kShape | kCheap,
     .meta = restride_meta,
     .vjp = restride_vjp},
};

}  // namespace

Records memory() { return kRecords; }

}  // namespace thunder::ops::prims
