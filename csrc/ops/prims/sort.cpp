// Ordering along a dimension.
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

TensorType as_index(TensorType t) {
  t.dtype = DType::i64;
  return t;
}

Types sort_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  THUNDER_CHECK_DTYPE(!is_complex(t.dtype), "sort", "Sort does not support complex dtypes, got ", t.dtype);
  wrapped_dim("sort", a["dim"], t.rank());
  TensorType out = preserve_like(t);
  return {out, as_index(out)};
}

Types topk_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  int64_t dim = wrapped_dim("topk", a["dim"], t.rank());
  Dim k = size_arg("topk", a["k"]), size = t.rank() == 0 ? Dim(1) : t.shape[static_cast<size_t>(dim)];
  THUNDER_CHECK_DTYPE(!is_complex(t.dtype), "topk", "topk does not support complex dtypes, got ", t.dtype);
  THUNDER_CHECK(k >= 0 && k <= size, Runtime, "topk", "selected index k out of range, got ", k, " for dimension ", dim,
                " of size ", size);
  Dims shape = t.shape;
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = k;
  TensorType out = contiguous_like(t, std::move(shape));
  return {out, as_index(out)};
}

// Values are a selection of elements: each gradient goes where its element came from.
void selection_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  c.put("a",
        c.b("torch.value_selecting_reduction_backward", c.grad(0), c.in("dim"), c.out(1), c.in("a").shape(), true));
}

constexpr OpDef kRecords[] = {
    {.schema = "sort(Tensor a, int dim, bool descending, bool stable) -> (Tensor, Tensor)",
     .doc = "Elements in order along a dimension, and the positions where they were.",
     .tags = kShape,
     .meta = sort_meta,
     .vjp = selection_vjp,
     .aten = "sort.stable(a, stable=stable, dim=dim, descending=descending)"},
    {.schema = "topk(Tensor a, int k, int dim, bool largest, bool sorted) -> (Tensor, Tensor)",
     .doc = "The k largest (or smallest) elements along a dimension, and their positions.",
     .tags = kShape,
     .meta = topk_meta,
     .vjp = selection_vjp,
     .aten = "topk"},
};

}  // namespace

std::span<const OpDef> sort() { return kRecords; }

}  // namespace thunder::ops::prims
