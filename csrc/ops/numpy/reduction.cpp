// numpy.*: reductions, scans and sorting.
#include "ops/common.h"
#include "ops/formula.h"
#include "ops/numpy/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::numpy {
namespace {

DType dtype_of(const Args& a) { return a.tensor("a").dtype; }

// PyTorch computes little in wide unsigned integers; int64 has the same bits.
DType machine_type(DType t) { return t == DType::u64 ? DType::i64 : compute_type(t); }

// Over the axes of the call.
Arg reduced(Builder& b, const Args& a, std::string_view prim, const Expr& x) {
  std::vector<int64_t> over = axes(a, x);
  return maybe_keep(b, a, b(prim, x, over), over);
}

// The values that they have in dtype `t`, in the dtype in which one computes with them.
Expr computing(Builder& b, const Arg& x, DType t) { return b.expr(convert(b, convert(b, x, t), machine_type(t))); }

// ---- sums -----------------------------------------------------------------------------------------------------------

template <Prim prim>
Arg sum_body(Builder& b, const Args& a) {
  DType t = dtype_or(a, sum_type(dtype_of(a)));
  return convert(b, reduced(b, a, prim.text, computing(b, a["a"], t)), t);
}

Arg mean_of(Builder& b, const Args& a, const Arg& input, const Arg& count, DType t) {
  Expr x = computing(b, input, t);
  std::vector<int64_t> over = axes(a, x);
  Arg n = count.is_none() ? real_number(count_of(x.shape(), over))
                          : Arg(b("prims.sum", convert(b, count, x.dtype()), over));
  return convert(b, maybe_keep(b, a, b("prims.div", b("prims.sum", x, over), n), over), t);
}

Arg mean_body(Builder& b, const Args& a) {
  return mean_of(b, a, a["a"], nullptr, dtype_or(a, apply(Rule::Double, dtype_of(a))));
}

Arg zero_for_nan(Builder& b, const Arg& x) {
  return is_inexact(x.value().dtype()) ? b("prims.where", b("prims.isnan", x), 0, x) : x;
}

Arg nansum_body(Builder& b, const Args& a) {
  return b("numpy.sum", zero_for_nan(b, a["a"]), a["axis"], a["dtype"], kw("keepdims", a["keepdims"]));
}

Arg nanmean_body(Builder& b, const Args& a) {
  DType t = dtype_or(a, apply(Rule::Double, dtype_of(a)));
  if (!is_inexact(dtype_of(a))) return mean_of(b, a, a["a"], nullptr, t);
  Arg count = b("prims.bitwise_not", b("prims.isnan", a["a"]));
  return mean_of(b, a, zero_for_nan(b, a["a"]), count, t);
}

Arg variance(Builder& b, const Args& a, DType t) {
  Expr x = computing(b, a["a"], t);
  std::vector<int64_t> over = axes(a, x);
  return maybe_keep(b, a, b("prims.var", x, over, kw("correction", a["ddof"])), over);
}

Arg var_body(Builder& b, const Args& a) {
  DType t = dtype_or(a, apply(Rule::Double, dtype_of(a)));
  return convert(b, variance(b, a, t), real_part_type(t));
}

Arg std_body(Builder& b, const Args& a) {
  DType t = dtype_or(a, apply(Rule::Double, dtype_of(a)));
  return convert(b, b("prims.sqrt", variance(b, a, t)), real_part_type(t));
}

Arg count_nonzero_body(Builder& b, const Args& a) {
  Expr x = b.expr(convert(b, b("prims.ne", a["a"], is_bool(dtype_of(a)) ? Arg(false) : Arg(0)), DType::i64));
  return reduced(b, a, "prims.sum", x);
}

// ---- extrema --------------------------------------------------------------------------------------------------------

template <Prim op>
Arg extremum_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["a"]);
  std::vector<int64_t> over = axes(a, x);
  for (int64_t d : over)
    THUNDER_CHECK(x.shape()[static_cast<size_t>(d)] != 0, Value, a.op().schema.name,
                  "zero-size array to a reduction that has no identity");
  // The torch language's rule divides the gradient among equal elements.
  return over.empty() ? x : b(op.text, x, over, a["keepdims"]);
}

Arg ptp_body(Builder& b, const Args& a) {
  Arg high = b("numpy.max", a["a"], a["axis"], kw("keepdims", a["keepdims"]));
  return b("numpy.subtract", high, b("numpy.min", a["a"], a["axis"], kw("keepdims", a["keepdims"])));
}

template <Prim prim>
Arg arg_extremum_body(Builder& b, const Args& a) {
  Expr x = b.expr(is_bool(dtype_of(a)) ? convert(b, a["a"], DType::u8) : a["a"]);
  THUNDER_CHECK(x.tensor().numel() != 0, Value, a.op().schema.name, "attempt to get it of an empty sequence");
  if (a["axis"].is_none()) return maybe_keep(b, a, b(prim.text, x, nullptr), range(0, x.rank()));
  int64_t axis = one_axis(a, "axis", x.rank());
  return maybe_keep(b, a, b(prim.text, x, axis), {axis});
}

template <Prim prim>
Arg truth_body(Builder& b, const Args& a) {
  Expr x = b.expr(truth(b, a["a"]));
  return axes(a, x).empty() ? x : reduced(b, a, prim.text, x);
}

// ---- scans and sorting ----------------------------------------------------------------------------------------------

/// The array along `axis`; the flattened one for None.
Expr along(const Args& a, const Expr& x, int64_t& axis) {
  const bool all = a["axis"].is_none();
  axis = all ? 0 : one_axis(a, "axis", x.rank());
  return all ? flat(x) : x;
}

template <Prim prim>
Arg scan_body(Builder& b, const Args& a) {
  DType t = dtype_or(a, sum_type(dtype_of(a)));
  int64_t axis = 0;
  Expr x = along(a, b.expr(convert(b, convert(b, a["a"], t), t == DType::u64 ? DType::i64 : t)), axis);
  return convert(b, b(prim.text, x, axis), t);
}

template <int kResult>
Arg sort_body(Builder& b, const Args& a) {
  int64_t axis = 0;
  Expr x = along(a, b.expr(a["a"]), axis);
  const bool stable = (a.has("stable") && a.flag("stable")) || (a.has("kind") && a.str("kind") == "stable");
  return b("prims.sort", x, axis, false, stable)[kResult];
}

// The mean of the one or two elements in the middle.
Arg median_body(Builder& b, const Args& a) {
  Expr input = b.expr(a["a"]);
  std::vector<int64_t> over = axes(a, input), rest = other_dims(input.rank(), over), order = rest;
  order.insert(order.end(), over.begin(), over.end());
  Dims shape;
  for (int64_t d : rest) shape.push_back(input.shape()[static_cast<size_t>(d)]);
  shape.push_back(count_of(input.shape(), over));
  int64_t last = static_cast<int64_t>(rest.size());
  Expr sorted = b("prims.sort", ops::reshape(permute(input, order), shape), last, false, false)[0];
  Expr x = b.expr(convert(b, sorted, apply(Rule::Double, input.dtype())));
  int64_t n = shape.back().constant();
  THUNDER_CHECK(n > 0, Value, "median", "expected elements, got an array without any");
  auto element = [&](int64_t i) { return b("torch.select", x, last, i); };
  Expr low = element((n - 1) / 2), high = element(n / 2);
  Expr middle = n % 2 ? low : (low + high) * 0.5;
  if (is_inexact(input.dtype())) middle = b("torch.where", b("torch.isnan", element(n - 1)), element(n - 1), middle);
  return maybe_keep(b, a, middle, over);
}

#define AXIS "Tensor a, int[]? axis=None"
#define KEEP "*, bool keepdims=False) -> Tensor"

constexpr OpDef reduction(std::string_view schema, std::string_view doc, BodyFn body, std::string_view python,
                          uint64_t more = 0) {
  return {.schema = schema, .doc = doc, .tags = kReduction | more, .body = body, .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    reduction("sum(" AXIS ", dtype? dtype=None, " KEEP, "The sum over `axis`; integers in int64 or uint64.",
              sum_body<"prims.sum">, "numpy.sum numpy.ndarray.sum"),
    reduction("prod(" AXIS ", dtype? dtype=None, " KEEP, "The product over `axis`; integers in int64 or uint64.",
              sum_body<"prims.prod">, "numpy.prod numpy.ndarray.prod"),
    reduction("mean(" AXIS ", dtype? dtype=None, " KEEP, "The mean over `axis`; of integers in float64.", mean_body,
              "numpy.mean numpy.ndarray.mean"),
    reduction("nansum(" AXIS ", dtype? dtype=None, " KEEP, "The sum over `axis`, a NaN counting as 0.", nansum_body,
              "numpy.nansum"),
    reduction("nanmean(" AXIS ", dtype? dtype=None, " KEEP, "The mean over `axis` of what is a number.", nanmean_body,
              "numpy.nanmean"),
    reduction("var(" AXIS ", dtype? dtype=None, *, Number ddof=0, bool keepdims=False) -> Tensor",
              "The variance over `axis`, divided by count - ddof.", var_body, "numpy.var numpy.ndarray.var"),
    reduction("std(" AXIS ", dtype? dtype=None, *, Number ddof=0, bool keepdims=False) -> Tensor",
              "The square root of the variance over `axis`.", std_body, "numpy.std numpy.ndarray.std"),
    reduction("max(" AXIS ", " KEEP, "The largest element over `axis`; equal ones share the gradient.",
              extremum_body<"torch.amax">, "numpy.max numpy.amax numpy.ndarray.max"),
    reduction("min(" AXIS ", " KEEP, "The smallest element over `axis`; equal ones share the gradient.",
              extremum_body<"torch.amin">, "numpy.min numpy.amin numpy.ndarray.min"),
    reduction("ptp(" AXIS ", " KEEP, "The largest less the smallest element over `axis`.", ptp_body, "numpy.ptp"),
    reduction("median(" AXIS ", " KEEP, "The element in the middle over `axis`, or the mean of the two.", median_body,
              "numpy.median"),
    reduction("argmax(Tensor a, int? axis=None, " KEEP, "The index of the largest element along `axis`.",
              arg_extremum_body<"prims.argmax">, "numpy.argmax numpy.ndarray.argmax", kNoGrad),
    reduction("argmin(Tensor a, int? axis=None, " KEEP, "The index of the smallest element along `axis`.",
              arg_extremum_body<"prims.argmin">, "numpy.argmin numpy.ndarray.argmin", kNoGrad),
    reduction("any(" AXIS ", " KEEP, "Whether any element over `axis` is not zero.", truth_body<"prims.any">,
              "numpy.any numpy.ndarray.any", kNoGrad),
    reduction("all(" AXIS ", " KEEP, "Whether all elements over `axis` are not zero.", truth_body<"prims.all">,
              "numpy.all numpy.ndarray.all", kNoGrad),
    reduction("count_nonzero(" AXIS ", " KEEP, "How many elements over `axis` are not zero.", count_nonzero_body,
              "numpy.count_nonzero", kNoGrad),
    {.schema = "cumsum(Tensor a, int? axis=None, dtype? dtype=None) -> Tensor",
     .doc = "Sums of all elements up to each one along `axis`; of the flattened array for None.",
     .body = scan_body<"prims.cumsum">, .python = "numpy.cumsum numpy.ndarray.cumsum"},
    {.schema = "cumprod(Tensor a, int? axis=None, dtype? dtype=None) -> Tensor",
     .doc = "Products of all elements up to each one along `axis`; of the flattened array for None.",
     .body = scan_body<"torch.cumprod">, .python = "numpy.cumprod numpy.ndarray.cumprod"},
    {.schema = "sort(Tensor a, int? axis=-1, str? kind=None, *, bool? stable=None) -> Tensor",
     .doc = "Sorted along `axis`; the flattened array for None.", .body = sort_body<0>, .python = "numpy.sort"},
    {.schema = "argsort(Tensor a, int? axis=-1, str? kind=None, *, bool? stable=None) -> Tensor",
     .doc = "The indices that sort along `axis`.", .tags = kNoGrad, .body = sort_body<1>,
     .python = "numpy.argsort numpy.ndarray.argsort"},
};
// clang-format on

}  // namespace

Records reduction() { return kRecords; }

}  // namespace thunder::ops::numpy
