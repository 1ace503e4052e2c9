// Operators that return their operand's data as it is, and differ in what autograd sees.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/prims/view_rules.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

Types same_type_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.requires_grad = false;
  return {t};
}

Types new_leaf_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.requires_grad = is_inexact(t.dtype);
  return {t};
}

Types graft_meta(const Args& a) {
  TensorType t = a.tensor("data");
  t.requires_grad = a.tensor("a").requires_grad;
  const Dims& shape = a.tensor("a").shape;
  THUNDER_CHECK(std::equal(t.shape.begin(), t.shape.end(), shape.begin(), shape.end()), Runtime, "graft",
                "data of shape ", str(t.shape), " cannot stand for a tensor of shape ", str(a.tensor("a").shape));
  return {t};
}

void pass_on_vjp(VjpContext& c) { c.put("a", c.grad()); }

void cover_vjp(VjpContext& c) { c.put("a", c.b("torch.zeros_like", c.in("a"))); }

constexpr OpDef kRecords[] = {
    {.schema = "detach(Tensor a) -> Tensor",
     .doc = "The same tensor, through which no gradient flows.",
     .tags = kView | kIdentity | kNoGrad | kCheap | kAnyLayout,
     .meta = same_type_meta,
     .aten = "detach",
     .index_map = same_places,
     .write_back = write_as_it_is},
    {.schema = "new_leaf(Tensor a) -> Tensor",
     .doc = "The same tensor, as one that requires a gradient, where its dtype can; nobody asks for it.",
     .tags = kView | kIdentity | kNoGrad | kCheap,
     .meta = new_leaf_meta,
     .aten = "alias"},
    {.schema = "graft(Tensor a, Tensor data) -> Tensor",
     .doc = "The value of `data`; its gradient goes to `a`.",
     .tags = kIdentity | kCheap,
     .meta = graft_meta,
     .vjp = pass_on_vjp,
     .aten = "alias(data)"},
    {.schema = "same(Tensor a) -> Tensor",
     .doc = "The value of `a`, as that of another tensor.",
     .tags = kIdentity | kCheap,
     .meta = same_type_meta,
     .vjp = pass_on_vjp,
     .aten = "alias"},
    {.schema = "cover(Tensor a, Tensor data) -> Tensor",
     .doc = "The value of `data`; what it covers, `a`, has a gradient of zeros.",
     .tags = kIdentity | kCheap,
     .meta = graft_meta,
     .vjp = cover_vjp,
     .aten = "alias(data)"},
};

}  // namespace

std::span<const OpDef> identity() { return kRecords; }

}  // namespace thunder::ops::prims
