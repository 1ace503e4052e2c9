// Primitives that combine the elements along dimensions.  Results drop the reduced dimensions and are laid out
// row-major.
#include <algorithm>
#include <cmath>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

std::vector<int64_t> reduced_dims(const Args& a) {
  return canonical_dims(a.op().schema.name, a["dims"], a.tensor("a").rank(), false);
}

TensorType reduced(const Args& a, DType t) {
  const TensorType& x = a.tensor("a");
  std::vector<int64_t> dims = reduced_dims(a);
  Dims shape;
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end()) shape.push_back(x.shape[i]);
  return contiguous_type(t, x.device, std::move(shape));
}

Types same_dtype_meta(const Args& a) { return {reduced(a, a.tensor("a").dtype)}; }
Types bool_meta(const Args& a) { return {reduced(a, DType::boolean)}; }

// amax and amin have no value for no elements.
Types extremum_meta(const Args& a) {
  const TensorType& x = a.tensor("a");
  THUNDER_CHECK(!is_complex(x.dtype), NotImplemented, a.op().schema.name, "not implemented for ", torch_name(x.dtype));
  for (int64_t d : reduced_dims(a))
    THUNDER_CHECK(x.rank() == 0 || x.shape[d] != 0, Index, a.op().schema.name, "Expected reduction dim ", d,
                  " to have non-zero size.");
  return {reduced(a, x.dtype)};
}

Types arg_extremum_meta(const Args& a) {
  const TensorType& x = a.tensor("a");
  THUNDER_CHECK(!is_complex(x.dtype), NotImplemented, a.op().schema.name, "not implemented for ", torch_name(x.dtype));
  if (a["dim"].is_none()) {
    THUNDER_CHECK(x.numel() != 0, Index, a.op().schema.name,
                  "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                  "'dim' argument.");
    return {contiguous_type(DType::i64, x.device, {})};
  }
  int64_t dim = canonical_dim(a.op().schema.name, a.integer("dim"), x.rank());
  Dims shape = x.shape;
  if (!shape.empty()) {
    THUNDER_CHECK(shape[dim] != 0, Index, a.op().schema.name, "Expected reduction dim ", dim,
                  " to have non-zero size.");
    shape.erase(shape.begin() + dim);
  }
  return {contiguous_type(DType::i64, x.device, std::move(shape))};
}

Arg arg_extremum_of(Builder& b, const Args& a, std::string_view extremum) {
  Expr x = b.expr(a["a"]);
  int64_t dim = 0;
  if (a["dim"].is_none()) x = reshape(x, {x.tensor().numel()});
  else dim = canonical_dim(a.op().schema.name, a.integer("dim"), x.rank());
  return first_place(x, b(extremum, x, std::vector<int64_t>{dim}), dim);
}

Arg argmax_body(Builder& b, const Args& a) { return arg_extremum_of(b, a, "prims.amax"); }
Arg argmin_body(Builder& b, const Args& a) { return arg_extremum_of(b, a, "prims.amin"); }

Types var_meta(const Args& a) {
  const TensorType& x = a.tensor("a");
  THUNDER_CHECK_DTYPE(is_inexact(x.dtype), "var", "std and var only support floating point and complex dtypes");
  a.real("correction");  // refuses what is not a real number
  return {reduced(a, real_part_type(x.dtype))};
}

// What squared distances are divided by: never less than nothing.
Arg degrees_of_freedom(const Dim& count, double correction) {
  const bool whole = correction == std::floor(correction);
  if (count.is_constant() || !whole) return Arg(std::max(0.0, static_cast<double>(count.specialize()) - correction));
  return real_number(max(count - static_cast<int64_t>(correction), Dim(0)));
}

// The first element along the reduced dimensions is taken off: the variance of equal elements is 0, as eager's, and that
// of elements far from 0 loses no digits.
Arg var_body(Builder& b, const Args& a) {
  const std::vector<int64_t> dims = reduced_dims(a);
  Expr x = b.expr(a["a"]);
  const Dims shape = x.shape();
  Dims kept = shape;
  Dim count = 1;
  for (int64_t d : dims) {
    if (kept.empty()) continue;
    count = count * kept[static_cast<size_t>(d)];
    kept[static_cast<size_t>(d)] = 1;
  }
  if (count.is_constant() && count.constant() > 1 && !shape.empty()) {
    const Dims start(shape.size(), Dim(0)), step(shape.size(), Dim(1));
    x = b("prims.sub", x, b("torch.expand", b("prims.slice", x, start, kept, step), shape));
  }
  const Expr mean = b("prims.div", b("prims.sum", x, dims), real_number(count)),
             distance = b("prims.sub", x, b("torch.expand", b("torch.reshape", mean, kept), shape));
  Expr squares = b("prims.mul", distance, distance);
  if (is_complex(x.dtype())) {
    const Expr re = b("torch.real", distance), im = b("torch.imag", distance);
    squares = re * re + im * im;
  }
  return b("prims.div", b("prims.sum", squares, dims), degrees_of_freedom(count, a.real("correction")));
}

Types scan_meta(const Args& a) {
  const TensorType& x = a.tensor("a");
  canonical_dim(a.op().schema.name, a.integer("dim"), x.rank());
  return {contiguous_type(x.dtype, x.device, x.shape)};
}

// ---- gradients ------------------------------------------------------------------------------------------------------

// A value of the result's shape put back along the reduced dimensions.
Expr restore(VjpContext& c, const Expr& e) {
  const Dims& shape = c.in("a").shape();
  Dims kept = shape;
  for (int64_t d : reduced_dims(c.args()))
    if (!kept.empty()) kept[d] = 1;
  return c.b("torch.expand", c.b("torch.reshape", e, kept), shape);
}

void sum_vjp(VjpContext& c) { c.put("a", restore(c, c.grad())); }

// Equal extrema share the gradient.
void extremum_vjp(VjpContext& c) {
  Expr mask = c.b("torch.eq", c.in("a"), restore(c, c.out()));
  Expr count = c.b("torch.sum", mask, reduced_dims(c.args()));
  if (reduced_dims(c.args()).empty()) count = c.b("torch.to", mask, DType::i64);
  Expr share = c.b("torch.to", c.grad() / count, c.in("a").dtype());
  c.put("a", c.b("torch.mul", restore(c, share), mask));
}

void var_vjp(VjpContext& c) {
  Expr x = c.in("a");
  std::vector<int64_t> dims = reduced_dims(c.args());
  Dim count = 1;
  for (int64_t d : dims)
    if (x.rank() > 0) count = count * x.shape()[d];
  Expr mean = dims.empty() ? x : c.b("torch.mean", x, dims, true);
  c.put("a", variance_slope(restore(c, c.grad()) * (x - mean), count, c.args().real("correction")));
}

// The product of all other elements, zeros among them or not: products from the left times products from the right.
void prod_vjp(VjpContext& c) {
  Expr x = c.in("a"), others = x;
  std::vector<int64_t> dims = reduced_dims(c.args());
  if (dims.empty() || x.rank() == 0) return c.put("a", c.grad());
  if (x.tensor().numel() == 0) return c.put("a", c.b("torch.zeros_like", x));
  std::vector<int64_t> order;
  Dim length = 1;
  Dims kept;
  for (int64_t d = 0; d < x.rank(); ++d) {
    bool gone = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (gone) length = length * x.shape()[d];
    else {
      order.push_back(d);
      kept.push_back(x.shape()[d]);
    }
  }
  order.insert(order.end(), dims.begin(), dims.end());
  Dims flat = kept, ones = kept;
  flat.push_back(length);
  ones.push_back(1);
  Expr rows = c.b("torch.reshape", c.b("torch.permute", x, order), flat);
  Expr one = c.b("torch.ones", ones, kw("dtype", x.dtype()), kw("device", x.tensor().device));
  auto before = [&](const Expr& r) {
    Expr products = c.b("torch.cumprod", c.b("torch.cat", Arg::list({one, r}), -1), -1);
    return c.b("torch.narrow", products, -1, 0, length);  // length may be 0, also one that only the run knows
  };
  Expr left = before(rows);
  Expr right = c.b("torch.flip", before(c.b("torch.flip", rows, std::vector<int64_t>{-1})), std::vector<int64_t>{-1});
  // As autograd, which divides the product by the element where no element is zero.
  Expr zeros = c.b("torch.eq", rows, 0);
  Expr all = c.b("torch.reshape", c.out(), ones);
  // The branch that is not taken gives no NaN, which its own gradient would spread.
  const Expr divisor = c.b("torch.masked_fill", rows, zeros, 1);
  others = c.b("torch.where", c.b("torch.any", zeros), left * right, all / divisor);
  if (kept.empty())  // several zeros
    others = c.b("torch.masked_fill", others, c.b("torch.gt", c.b("torch.sum", zeros), 1), 0);
  Dims moved = kept;
  for (int64_t d : dims) moved.push_back(x.shape()[d]);
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  others = c.b("torch.permute", c.b("torch.reshape", others, moved), back);
  c.put("a", restore(c, c.grad()) * conj(others));
}

void cumsum_vjp(VjpContext& c) { c.put("a", c.b("torch.reversed_cumsum", c.grad(), c.args()["dim"])); }
void cumprod_vjp(VjpContext& c) {
  c.put("a", c.b("torch.cumprod_backward", c.grad(), c.in("a"), c.args()["dim"], c.out()));
}

Types cumulative_extremum_meta(const Args& a) {
  TensorType values = scan_meta(a)[0].tensor(), indices = values;
  THUNDER_CHECK(!is_complex(values.dtype), NotImplemented, a.op().schema.name, "not implemented for ",
                torch_name(values.dtype));
  indices.dtype = DType::i64;
  return {values, indices};
}

Types logcumsumexp_meta(const Args& a) {
  THUNDER_CHECK(is_inexact(a.tensor("a").dtype), NotImplemented, "logcumsumexp", "not implemented for ",
                torch_name(a.tensor("a").dtype));
  return scan_meta(a);
}

// Each extremum gives its gradient to the element that it is.
void cumulative_extremum_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  Expr zeros = c.b("torch.zeros_like", c.in("a"), kw("memory_format", ConstantArg{"torch.contiguous_format"}));
  c.put("a", c.b("torch.scatter_add", zeros, c.in("dim"), c.out(1), c.grad(0)));
}

void logcumsumexp_vjp(VjpContext& c) {
  c.put("a", c.b("torch.logcumsumexp_backward", c.grad(), c.in("a"), c.out(), c.args()["dim"]));
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "sum(Tensor a, int[] dims) -> Tensor", .doc = "The sum over `dims`, in the dtype of `a`.",
     .tags = kReduction | kLinear, .meta = same_dtype_meta, .vjp = sum_vjp, .combine = Combine::Add},
    {.schema = "prod(Tensor a, int[] dims) -> Tensor", .doc = "The product over `dims`, in the dtype of `a`.",
     .tags = kReduction, .meta = same_dtype_meta, .vjp = prod_vjp, .combine = Combine::Mul},
    {.schema = "amax(Tensor a, int[] dims) -> Tensor", .doc = "The largest element over `dims`.",
     .tags = kReduction, .meta = extremum_meta, .vjp = extremum_vjp, .combine = Combine::Max},
    {.schema = "amin(Tensor a, int[] dims) -> Tensor", .doc = "The smallest element over `dims`.",
     .tags = kReduction, .meta = extremum_meta, .vjp = extremum_vjp, .combine = Combine::Min},
    {.schema = "any(Tensor a, int[] dims) -> Tensor", .doc = "Whether any element over `dims` is not zero.",
     .tags = kReduction | kNoGrad, .meta = bool_meta, .combine = Combine::Or},
    {.schema = "all(Tensor a, int[] dims) -> Tensor", .doc = "Whether all elements over `dims` are not zero.",
     .tags = kReduction | kNoGrad, .meta = bool_meta, .combine = Combine::And},
    {.schema = "argmax(Tensor a, int? dim) -> Tensor",
     .doc = "The index (int64) of the first largest element along `dim`, or of the first NaN; of the flattened tensor for "
            "None.",
     .tags = kReduction | kNoGrad, .meta = arg_extremum_meta, .body = argmax_body, .aten = "argmax"},
    {.schema = "argmin(Tensor a, int? dim) -> Tensor",
     .doc = "The index (int64) of the first smallest element along `dim`, or of the first NaN; of the flattened tensor for "
            "None.",
     .tags = kReduction | kNoGrad, .meta = arg_extremum_meta, .body = argmin_body, .aten = "argmin"},
    {.schema = "var(Tensor a, int[] dims, *, Number correction) -> Tensor",
     .doc = "The variance over `dims`: squared distances from the mean, summed and divided by count - correction.",
     .tags = kReduction, .meta = var_meta, .body = var_body, .vjp = var_vjp},
    {.schema = "cumsum(Tensor a, int dim) -> Tensor", .doc = "Sums of all elements up to each one along `dim`.",
     .tags = kLinear, .meta = scan_meta, .vjp = cumsum_vjp, .aten = "cumsum"},
    {.schema = "cumprod(Tensor a, int dim) -> Tensor", .doc = "Products of all elements up to each one along `dim`.",
     .tags = kNoTag, .meta = scan_meta, .vjp = cumprod_vjp, .aten = "cumprod"},
    {.schema = "cummax(Tensor a, int dim) -> (Tensor, Tensor)",
     .doc = "The largest of all elements up to each one along `dim`, and its index (int64), the last one of equals.",
     .tags = kNoTag, .meta = cumulative_extremum_meta, .vjp = cumulative_extremum_vjp, .aten = "cummax"},
    {.schema = "cummin(Tensor a, int dim) -> (Tensor, Tensor)",
     .doc = "The smallest of all elements up to each one along `dim`, and its index (int64), the last one of equals.",
     .tags = kNoTag, .meta = cumulative_extremum_meta, .vjp = cumulative_extremum_vjp, .aten = "cummin"},
    {.schema = "logcumsumexp(Tensor a, int dim) -> Tensor",
     .doc = "log(exp(x0) + exp(x1) + ...) up to each element along `dim`, without overflow.",
     .tags = kNoTag, .meta = logcumsumexp_meta, .vjp = logcumsumexp_vjp, .aten = "logcumsumexp"},
};
// clang-format on

}  // namespace

Records reduction() { return kRecords; }

}  // namespace thunder::ops::prims
