// What the gradients of sparse tensors need; all else that takes them is PyTorch's operators, called as they are.
#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"

namespace thunder::ops::prims {
namespace {

Types like_meta(const Args& a) {
  TensorType t = a.tensor("a");
  THUNDER_CHECK(!t.strided(), Type, a.op().schema.name, "expected a sparse tensor, got ", Type(t).str());
  t.requires_grad = false;
  return {std::move(t)};
}

constexpr OpDef kRecords[] = {
    {.schema = "sparse_add(Tensor a, Tensor b) -> Tensor",
     .doc = "The sum of two gradients of a sparse tensor.",
     .tags = kNoGrad | kAnyLayout,
     .meta = like_meta,
     .aten = "add.Tensor"},
    {.schema = "sparse_zeros_like(Tensor a) -> Tensor",
     .doc = "A sparse tensor of the same size without elements.",
     .tags = kNoGrad | kAnyLayout,
     .meta = like_meta,
     .aten = "zeros_like"},
};

}  // namespace

Records sparse() { return kRecords; }

}  // namespace thunder::ops::prims
