// PyTorch's ordering operators.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

void selection_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  bool keepdim = c.call.op->schema.index_of("keepdim") < 0 || c.args().flag("keepdim");
  c.put("input", c.b("torch.value_selecting_reduction_backward", c.grad(0),
                     wrapped_dim("sort", c.in("dim"), c.in("input").rank()), c.out(1), c.in("input").shape(), keepdim));
}

Arg sort_body(Builder& b, const Args& a) {
  return b("prims.sort", a["input"], wrapped_dim("sort", a["dim"], a.value("input").rank()), a["descending"], false);
}

Arg sort_stable_body(Builder& b, const Args& a) {
  bool stable = a.has("stable") && a.flag("stable");
  return b("prims.sort", a["input"], wrapped_dim("sort", a["dim"], a.value("input").rank()), a["descending"], stable);
}

Arg argsort_body(Builder& b, const Args& a) {
  bool stable = a.has("stable") && a.flag("stable");
  return b("prims.sort", a["input"], wrapped_dim("argsort", a["dim"], a.value("input").rank()), a["descending"],
           stable)[1];
}

Arg msort_body(Builder& b, const Args& a) { return b("prims.sort", a["input"], 0, false, false)[0]; }

Arg topk_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  return b("prims.topk", x, size_arg("topk", a["k"]), wrapped_dim("topk", a["dim"], x.rank()), a["largest"],
           a["sorted"]);
}

// ---- one element a row: ATen's kernels ------------------------------------------------------------------------------

Types one_a_row(const char* op, const Args& a) {
  const TensorType& t = a.tensor("input");
  int64_t dim = wrapped_dim(op, a["dim"], t.rank());
  THUNDER_CHECK_DTYPE(!is_complex(t.dtype), op, op, " does not support complex dtypes, got ", t.dtype);
  Dims shape = t.shape;
  if (!shape.empty()) {
    THUNDER_CHECK(shape[static_cast<size_t>(dim)] != 0, Index, op, op, "(): Expected reduction dim ", dim,
                  " to have non-zero size.");
    if (a.flag("keepdim")) shape[static_cast<size_t>(dim)] = 1;
    else shape.erase(shape.begin() + dim);
  }
  TensorType values = contiguous_like(t, std::move(shape)), indices = values;
  indices.dtype = DType::i64;
  return {values, indices};
}

Types kthvalue_meta(const Args& a) {
  const TensorType& t = a.tensor("input");
  size_t dim = static_cast<size_t>(wrapped_dim("kthvalue", a["dim"], t.rank()));
  Dim k = size_arg("kthvalue", a["k"]), size = t.rank() == 0 ? Dim(1) : t.shape[dim];
  Types types = one_a_row("kthvalue", a);
  THUNDER_CHECK(k >= 1 && k <= size, Runtime, "kthvalue", "kthvalue(): selected number k out of range for dimension ",
                dim, ", got ", k);
  return types;
}

Types median_dim_meta(const Args& a) { return one_a_row("median", a); }
Types nanmedian_dim_meta(const Args& a) { return one_a_row("nanmedian", a); }
Types mode_meta(const Args& a) { return one_a_row("mode", a); }

Types median_meta(const Args& a) { return {contiguous_like(a.tensor("input"), {})}; }

// As autograd: elements equal to the median share the gradient.
void median_vjp(VjpContext& c) {
  Expr x = c.in("input"), result = c.out();
  Expr mask = c.b("torch.eq", x, result);
  if (is_floating(x.dtype()))
    mask = c.b("torch.logical_or", mask, c.b("torch.logical_and", c.b("torch.isnan", x), c.b("torch.isnan", result)));
  Expr ones = c.b("torch.to", mask, c.grad().dtype());
  c.put("input", c.grad() / c.b("torch.sum", ones) * ones);
}

// ---- positions in sorted sequences ----------------------------------------------------------------------------------

TensorType positions(const Args& a, const TensorType& like, Dims shape) {
  TensorType t = contiguous_like(like, std::move(shape));
  t.dtype = a.flag("out_int32") ? DType::i32 : DType::i64;
  return t;
}

void check_side(const char* op, const Args& a) {
  if (!a.has("side")) return;
  const std::string& side = a.str("side");
  THUNDER_CHECK(side == "left" || side == "right", Runtime, op,
                "torch.searchsorted(): side can only be 'left' or 'right' but got ", side);
  THUNDER_CHECK(
      !(side == "left" && a.flag("right")), Runtime, op,
      "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True");
}

Types searchsorted_meta(const Args& a) {
  const TensorType &sorted = a.tensor("sorted_sequence"), &input = a.tensor("input");
  check_side("searchsorted", a);
  bool fits = sorted.rank() == 1 || sorted.rank() == input.rank();
  for (size_t i = 0; fits && sorted.rank() > 1 && i + 1 < sorted.shape.size(); ++i)
    fits = sorted.shape[i] == input.shape[i];
  THUNDER_CHECK(fits && sorted.rank() > 0, Runtime, "searchsorted",
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                "boundaries tensor and input "
                "value tensor must match, but we got boundaries tensor ",
                str(sorted.shape), " and input value tensor ", str(input.shape));
  return {positions(a, input, input.shape)};
}

Types searchsorted_scalar_meta(const Args& a) {
  check_side("searchsorted", a);
  const TensorType& sorted = a.tensor("sorted_sequence");
  THUNDER_CHECK(sorted.rank() == 1, Runtime, "searchsorted",
                "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we "
                "got boundaries of shape ",
                str(sorted.shape));
  return {positions(a, sorted, {})};
}

Types bucketize_meta(const Args& a) {
  const TensorType& boundaries = a.tensor("boundaries");
  THUNDER_CHECK(boundaries.rank() == 1, Runtime, "bucketize", "boundaries tensor must be 1 dimension, but got dim(",
                boundaries.rank(), ")");
  return {a["input"].is_tensor() ? positions(a, boundaries, a.tensor("input").shape) : positions(a, boundaries, {})};
}

constexpr OpDef kRecords[] = {
    {.schema = "sort(Tensor input, int dim=-1, bool descending=False) -> (Tensor, Tensor)",
     .doc = "In order along a dimension, with positions.",
     .tags = kShape,
     .body = sort_body,
     .vjp = selection_vjp,
     .aten = "sort",
     .python = "torch.sort torch.Tensor.sort"},
    {.schema = "sort.stable(Tensor input, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor, Tensor)",
     .doc = "In order along a dimension, equal elements in theirs.",
     .tags = kShape,
     .body = sort_stable_body,
     .vjp = selection_vjp,
     .aten = "sort.stable",
     .python = "torch.sort torch.Tensor.sort"},
    {.schema = "argsort(Tensor input, int dim=-1, bool descending=False, bool stable=False) -> Tensor",
     .doc = "Positions that would sort.",
     .tags = kNoGrad,
     .body = argsort_body,
     .aten = "argsort.stable(input, stable=stable, dim=dim, descending=descending)",
     .python = "torch.argsort torch.Tensor.argsort"},
    {.schema = "msort(Tensor input) -> Tensor",
     .doc = "In order along the first dimension.",
     .tags = kShape,
     .body = msort_body,
     .aten = "msort",
     .python = "torch.msort torch.Tensor.msort"},
    {.schema = "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor, Tensor)",
     .doc = "The k largest (or smallest), with positions.",
     .tags = kShape,
     .body = topk_body,
     .vjp = selection_vjp,
     .aten = "topk",
     .python = "torch.topk torch.Tensor.topk"},
    {.schema = "kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor, Tensor)",
     .doc = "The k-th smallest, with positions.",
     .tags = kReduction,
     .meta = kthvalue_meta,
     .vjp = selection_vjp,
     .aten = "kthvalue",
     .python = "torch.kthvalue torch.Tensor.kthvalue"},
    {.schema = "median(Tensor input) -> Tensor",
     .doc = "The lower median of all elements.",
     .tags = kReduction,
     .meta = median_meta,
     .vjp = median_vjp,
     .aten = "median",
     .python = "torch.median torch.Tensor.median"},
    {.schema = "median.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)",
     .doc = "The lower median along a dimension.",
     .tags = kReduction,
     .meta = median_dim_meta,
     .vjp = selection_vjp,
     .aten = "median.dim",
     .python = "torch.median torch.Tensor.median"},
    {.schema = "nanmedian(Tensor input) -> Tensor",
     .doc = "The lower median of all elements that are not NaN.",
     .tags = kReduction,
     .meta = median_meta,
     .vjp = median_vjp,
     .aten = "nanmedian",
     .python = "torch.nanmedian torch.Tensor.nanmedian"},
    {.schema = "nanmedian.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)",
     .doc = "The lower median along a dimension of elements that are not NaN.",
     .tags = kReduction,
     .meta = nanmedian_dim_meta,
     .vjp = selection_vjp,
     .aten = "nanmedian.dim",
     .python = "torch.nanmedian torch.Tensor.nanmedian"},
    {.schema = "mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor, Tensor)",
     .doc = "The most frequent along a dimension.",
     .tags = kReduction | kWaits,
     .meta = mode_meta,
     .vjp = selection_vjp,
     .aten = "mode",
     .python = "torch.mode torch.Tensor.mode"},
    {.schema = "searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? "
               "side=None, Tensor? "
               "sorter=None) -> Tensor",
     .doc = "Where to insert values into sorted rows.",
     .tags = kNoGrad,
     .meta = searchsorted_meta,
     .aten = "searchsorted.Tensor",
     .python = "torch.searchsorted"},
    {.schema = "searchsorted.scalar(Tensor sorted_sequence, Number input, *, bool out_int32=False, bool right=False, "
               "str? side=None, "
               "Tensor? sorter=None) -> Tensor",
     .doc = "Where to insert a number into a sorted row.",
     .tags = kNoGrad,
     .meta = searchsorted_scalar_meta,
     .aten = "searchsorted.Scalar",
     .python = "torch.searchsorted"},
    {.schema = "bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
     .doc = "The bucket between boundaries that each value falls in.",
     .tags = kNoGrad,
     .meta = bucketize_meta,
     .aten = "bucketize.Tensor",
     .python = "torch.bucketize"},
    {.schema = "bucketize.scalar(Number input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
     .doc = "The bucket between boundaries that a number falls in.",
     .tags = kNoGrad,
     .meta = bucketize_meta,
     .aten = "bucketize.Scalar",
     .python = "torch.bucketize"},
};

}  // namespace

std::span<const OpDef> sort() { return kRecords; }

}  // namespace thunder::ops::torch
