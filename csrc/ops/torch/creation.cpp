// torch.*: tensors made from no tensor, or in the likeness of one.
#include <algorithm>
#include <cmath>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/torch/factory.h"

namespace thunder::ops::torch {
namespace {

bool given(const Args& a, std::string_view name) { return a.op().schema.index_of(name) >= 0 && a.has(name); }

DType dtype_or(const Args& a, DType fallback) { return given(a, "dtype") ? a.dtype("dtype") : fallback; }
Device device_or(const Args& a, Device fallback) { return given(a, "device") ? a.device("device") : fallback; }

Dims size_of(const Args& a, std::string_view name) {
  Dims out;
  for (const Arg& x : a[name].items()) out.push_back(as_dim(x));
  for (const Dim& d : out)
    THUNDER_CHECK(!d.is_constant() || d.constant() >= 0, Runtime, a.op().schema.name,
                  "Trying to create tensor with negative dimension ", d, ": ", str(out));
  return out;
}

template <int Value>
Arg filled_body(Builder& b, const Args& a) {
  check_no_grad(a);
  return full(b, size_of(a, "size"), Value, dtype_or(a, default_dtype()), device_or(a, {}));
}

Arg full_body(Builder& b, const Args& a) {
  check_no_grad(a);
  const Arg& value = a["fill_value"];
  DType t = dtype_or(a, value.is_number() ? dtype_of_number(value) : DType::f32);
  return full(b, size_of(a, "size"), value, t, device_or(a, {}));
}

Arg empty_body(Builder& b, const Args& a) {
  check_no_grad(a);
  return b("prims.empty", size_of(a, "size"), kw("dtype", dtype_or(a, default_dtype())),
           kw("device", device_or(a, {})));
}

Arg empty_strided_body(Builder& b, const Args& a) {
  return b("prims.empty_strided", size_of(a, "size"), size_of(a, "stride"), kw("dtype", dtype_or(a, default_dtype())),
           kw("device", device_or(a, {})));
}

// Dense in memory in a given order of the dimensions, outermost first.
Arg empty_permuted_body(Builder& b, const Args& a) {
  const Dims size = size_of(a, "size");
  const ArgList& order = a["physical_layout"].items();
  THUNDER_CHECK(order.size() == size.size(), Runtime, "empty_permuted",
                "Number of dimensions in size does not match the ",
                "length of the physical_layout; i.e. len(size) = ", size.size(),
                " is not equal to len(physical_layout) = ", order.size());
  Dims strides(size.size());
  std::vector<bool> seen(size.size());
  Dim next = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t dim = order[i].dim().constant();
    THUNDER_CHECK(dim >= 0 && dim < static_cast<int64_t>(size.size()), Runtime, "empty_permuted",
                  "Dimension out of range (expected to be between 0 and ", size.size() - 1, ", but got ", dim, ")");
    const auto d = static_cast<size_t>(dim);
    THUNDER_CHECK(!seen[d], Runtime, "empty_permuted", "Duplicate dim not allowed, got ", dim);
    seen[d] = true;
    strides[d] = next;
    next = next * max(size[d], Dim(1));
  }
  return b("prims.empty_strided", size, strides, kw("dtype", dtype_or(a, default_dtype())),
           kw("device", device_or(a, {})));
}

// A tensor laid out like `input` (torch.preserve_format) of one value.
Arg like(Builder& b, const Args& a, const Arg& value) {
  check_no_grad(a);
  const TensorType& x = a.tensor("input");
  Arg out = full(b, x.shape, value, dtype_or(a, x.dtype), device_or(a, x.device));
  Dims strides = strides_in(x, a["memory_format"]);
  return same(strides, out.value().tensor().strides) ? out : b("prims.restride", out, strides);
}

Arg zeros_like_body(Builder& b, const Args& a) { return like(b, a, 0); }
Arg ones_like_body(Builder& b, const Args& a) { return like(b, a, 1); }
Arg full_like_body(Builder& b, const Args& a) { return like(b, a, a["fill_value"]); }

// Of the input only its type is read, so the types are a meta's: the result requires grad, which is zero, if the input
// does.
Types fill_meta(const Args& a) {
  TensorType t = a.tensor("input");
  const Arg& value = a["value"];
  THUNDER_CHECK(!value.is_tensor() || value.value().rank() == 0, Runtime, "fill",
                "fill only supports 0-dimension value tensor but got tensor with ",
                value.is_tensor() ? value.value().rank() : 0, " dimensions.");
  t.strides = preserve_format_strides(t);
  t.requires_grad = false;
  return {t};
}

Arg fill_body(Builder& b, const Args& a) {
  const TensorType& t = a.tensor("input");
  Expr value = a["value"].is_tensor() ? b("torch.to", b("torch.to", a["value"], t.device), t.dtype)
                                      : b.expr(full(b, {}, a["value"], t.dtype, t.device));
  Expr wide = b.expr(expand_to(b, value, t.shape));
  return b("prims.restride", wide, preserve_format_strides(t));
}

void fill_vjp(VjpContext& c) {
  if (c.needs("input")) c.put("input", c.b("torch.zeros_like", c.grad()));
  if (c.needs("value")) c.put("value", to_dtype(c.b("torch.sum", c.grad()), c.in("value").dtype()));
}

Arg empty_like_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  return b("prims.empty_strided", x.shape, strides_in(x, a["memory_format"]), kw("dtype", dtype_or(a, x.dtype)),
           kw("device", device_or(a, x.device)));
}

template <int Value>
Arg new_filled_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  return full(b, size_of(a, "size"), Value, dtype_or(a, x.dtype), device_or(a, x.device));
}

Arg new_full_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  return full(b, size_of(a, "size"), a["fill_value"], dtype_or(a, x.dtype), device_or(a, x.device));
}

Arg new_empty_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  return b("prims.empty", size_of(a, "size"), kw("dtype", dtype_or(a, x.dtype)), kw("device", device_or(a, x.device)));
}

DType dtype_of_data(const Arg& data) {
  if (!data.is_sequence()) return dtype_of_number(data);
  if (data.items().empty()) return default_dtype();
  DType t = dtype_of_data(data.items()[0]);
  for (const Arg& item : data.items()) t = promote_types(t, dtype_of_data(item));
  return t;
}

Arg tensor_body(Builder& b, const Args& a) {
  check_no_grad(a);
  THUNDER_CHECK_DTYPE(a["data"].is_number() || a["data"].is_sequence(), "tensor", "Could not infer dtype of the data");
  DType t = dtype_or(a, dtype_of_data(a["data"]));
  if (!a["data"].is_sequence()) return full(b, {}, a["data"], t, device_or(a, {}));
  return b("prims.tensor_from_sequence", a["data"], kw("dtype", t), kw("device", device_or(a, {})));
}

Arg scalar_tensor_body(Builder& b, const Args& a) {
  return full(b, {}, a["s"], dtype_or(a, default_dtype()), device_or(a, {}));
}

// ---- ranges ---------------------------------------------------------------------------------------------------------

bool is_int(const Arg& a) { return a.is_number() && a.number_kind() == NumberKind::Int; }

Dim arange_length(const Arg& start, const Arg& end, const Arg& step) {
  if (is_int(start) && is_int(end) && is_int(step)) {
    Dim s = as_dim(start), e = as_dim(end), d = as_dim(step);
    THUNDER_CHECK(d != 0, Runtime, "arange", "step must be nonzero");
    bool up = d > 0;
    THUNDER_CHECK(up ? s <= e : s >= e, Runtime, "arange",
                  "upper bound and lower bound inconsistent with step sign: start=", s, ", end=", e, ", step=", d);
    return up ? ceildiv(e - s, d) : ceildiv(s - e, -d);
  }
  double s = start.real(), e = end.real(), d = step.real();
  THUNDER_CHECK(d != 0, Runtime, "arange", "step must be nonzero");
  THUNDER_CHECK(std::isfinite(s) && std::isfinite(e), Runtime, "arange", "unsupported range: ", s, " -> ", e);
  THUNDER_CHECK((d > 0 && e >= s) || (d < 0 && e <= s), Runtime, "arange",
                "upper bound and lower bound inconsistent with step sign: start=", s, ", end=", e, ", step=", d);
  return static_cast<int64_t>(std::ceil((e - s) / d));
}

Arg make_arange(Builder& b, const Args& a, const Arg& start, const Arg& end, const Arg& step) {
  check_no_grad(a);
  bool ints = is_int(start) && is_int(end) && is_int(step);
  DType t = dtype_or(a, ints ? DType::i64 : default_dtype());
  // ATen counts in the result's type (how many there are, in the given numbers but for int64).
  auto integer = [&](const Arg& x) { return is_int(x) ? x : Arg(static_cast<int64_t>(x.real())); };
  Arg from = is_integral(t) ? integer(start) : start, by = is_integral(t) ? integer(step) : step;
  Dim length = t == DType::i64 ? arange_length(from, integer(end), by) : arange_length(start, end, step);
  return b("prims.iota", length, from, by, kw("dtype", t), kw("device", device_or(a, {})));
}

// A bool counts as the integer that it is.
Arg counted(const Arg& x) { return x.kind() == Arg::Kind::Bool ? Arg(x.boolean() ? 1 : 0) : x; }

Arg arange_end_body(Builder& b, const Args& a) { return make_arange(b, a, 0, counted(a["end"]), 1); }
Arg arange_body(Builder& b, const Args& a) {
  return make_arange(b, a, counted(a["start"]), counted(a["end"]), counted(a["step"]));
}

// An end of linspace or logspace as a number of the compute dtype: a literal, or a 0-d tensor.
Arg range_end(Builder& b, const Args& a, const char* name, DType t, DType compute, Device device) {
  const Arg& x = a[name];
  if (x.is_tensor()) {
    THUNDER_CHECK(x.value().rank() == 0, Runtime, a.op().schema.name, a.op().schema.name,
                  " only supports 0-dimensional start and end "
                  "tensors, but got ",
                  name, " with ", x.value().rank(), " dimension(s).");
    Expr moved = x.value().tensor().device == device ? b.expr(x) : b("torch.to", x, device);
    return b("torch.to", b("torch.to", moved, t), compute);
  }
  if (!x.is_literal_number()) return full(b, {}, x, compute, device);
  if (x.kind() == Arg::Kind::Complex) return x;
  return is_inexact(t) ? x.real() : std::trunc(x.real());  // an integer range has integer ends
}

DType range_type(const Args& a) {
  DType t = result_type({a["start"], a["end"]});
  return dtype_or(a, is_complex(t) ? (default_dtype() == DType::f64 ? DType::c128 : DType::c64) : default_dtype());
}

// From both ends to the middle, as ATen does, so that the last element is `end` exactly.
Expr evenly_spaced(Builder& b, const Args& a, DType t, DType compute, Device device) {
  check_no_grad(a);
  Dim steps = as_dim(a["steps"]);
  THUNDER_CHECK(steps >= 0, Runtime, a.op().schema.name, "number of steps must be non-negative, got ", steps);
  Expr start = b.expr(range_end(b, a, "start", t, compute, device)),
       end = b.expr(range_end(b, a, "end", t, compute, device));
  if (steps <= 1)
    return b.expr(expand_to(b, start.arg().is_tensor() ? start.arg() : full(b, {}, start, compute, device), {steps}));
  Expr first =
      start.arg().is_tensor() ? start : b("torch.scalar_tensor", start, kw("dtype", compute), kw("device", device));
  const Arg last = real_number(steps - 1);
  Expr step = b("torch.div", b("torch.sub", end, first), last);
  Expr i = b("prims.iota", steps, 0, 1, kw("dtype", DType::i64), kw("device", device));
  Expr x = b("torch.to", i, real_part_type(compute));
  Expr forwards = b("torch.add", b("torch.mul", x, step), start);
  Expr backwards = b("torch.rsub", b("torch.mul", b("torch.rsub", x, last), step), end);
  return b("torch.where", b("torch.lt", i, floordiv(steps, 2)), forwards, backwards);
}

Arg linspace_body(Builder& b, const Args& a) {
  DType t = range_type(a), compute = is_inexact(t) ? compute_type(t) : DType::f64;
  return b("torch.to", evenly_spaced(b, a, t, compute, device_or(a, {})), t);
}

Arg logspace_body(Builder& b, const Args& a) {
  DType t = range_type(a), compute = is_inexact(t) ? compute_type(t) : DType::f64;
  return b("torch.to", b("torch.pow", a["base"], evenly_spaced(b, a, t, compute, device_or(a, {}))), t);
}

Arg eye_body(Builder& b, const Args& a) {
  Dim n = as_dim(a["n"]), m = a.has("m") ? as_dim(a["m"]) : n;
  Device device = device_or(a, {});
  Expr rows = b("torch.unsqueeze", b("torch.arange", n, kw("device", device)), 1);
  Expr columns = b("torch.arange", m, kw("device", device));
  return b("torch.to", b("torch.eq", rows, columns), dtype_or(a, default_dtype()));
}

// ---- triangles ------------------------------------------------------------------------------------------------------

// Keeps the elements whose column minus row compares with `diagonal`, zeros elsewhere.
Arg triangle(Builder& b, const Args& a, std::string_view keep) {
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK(x.rank() >= 2, Runtime, a.op().schema.name, "input tensor must have at least 2 dimensions");
  auto iota = [&](const Dim& n) { return b("prims.iota", n, 0, 1, kw("dtype", DType::i64), kw("device", x.device)); };
  Expr rows = b("torch.unsqueeze", iota(x.shape[x.rank() - 2]), 1);
  Expr distance = b("torch.sub", iota(x.shape[x.rank() - 1]), rows);
  Expr mask = b(keep, distance, a["diagonal"]);
  Arg out = b("torch.where", mask, a["input"], is_bool(x.dtype) ? Arg(false) : Arg(0));
  Dims contiguous = contiguous_strides(x.shape);
  return same(out.value().tensor().strides, contiguous) ? out : b("prims.restride", out, contiguous);
}

Arg tril_body(Builder& b, const Args& a) { return triangle(b, a, "torch.le"); }
Arg triu_body(Builder& b, const Args& a) { return triangle(b, a, "torch.ge"); }
void tril_vjp(VjpContext& c) { c.put("input", c.b("torch.tril", c.grad(), c.args()["diagonal"])); }
void triu_vjp(VjpContext& c) { c.put("input", c.b("torch.triu", c.grad(), c.args()["diagonal"])); }

// How many elements of a triangle lie in the rows 0 ... rows - 1 of a lower one whose first row has `first` columns.
int64_t elements_of_lower(int64_t rows, int64_t columns, int64_t first) {
  int64_t n = 0;
  for (int64_t r = 0; r < rows; ++r) n += std::clamp<int64_t>(first + r, 0, columns);
  return n;
}

template <bool kLower>
Types triangle_indices_meta(const Args& a) {
  const std::string& op = a.op().schema.name;
  int64_t rows = a.integer("row"), columns = a.integer("col"), offset = a.integer("offset");
  THUNDER_CHECK(rows >= 0, Runtime, op, "row must be non-negative, got ", rows);
  THUNDER_CHECK(columns >= 0, Runtime, op, "col must be non-negative, got ", columns);
  int64_t n =
      kLower ? elements_of_lower(rows, columns, offset + 1) : rows * columns - elements_of_lower(rows, columns, offset);
  return {contiguous_type(dtype_or(a, DType::i64), device_or(a, {}), {Dim(2), Dim(n)})};
}

constexpr uint64_t kTags = kCreation | kNoGrad;

// clang-format off
#define THUNDER_EVEN_RANGE(name, overload, start, end, more, given, text, function)                         \
  {.schema = name overload "(" start " start, " end " end, int steps" more ", " THUNDER_FACTORY_OPTIONS     \
             ") -> Tensor",                                                                                 \
   .doc = text, .tags = sizeof(overload) > 1 ? kTags | kWaits : kTags, .body = function,                    \
   .aten = name overload "(start, end, steps" given ", dtype=dtype, device=device)", .python = "torch." name}
constexpr OpDef kRecords[] = {
    {.schema = "zeros(int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "Zeros.", .tags = kTags,
     .body = filled_body<0>, .python = "torch.zeros"},
    {.schema = "ones(int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "Ones.", .tags = kTags,
     .body = filled_body<1>, .python = "torch.ones"},
    {.schema = "full(int[:] size, Number fill_value, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "One number everywhere; its kind gives the dtype unless one is given.", .tags = kTags, .body = full_body,
     .python = "torch.full"},
    {.schema = "empty(int[] ...size, " THUNDER_LIKE_OPTIONS ") -> Tensor", .doc = "Elements that are not set.",
     .tags = kTags, .body = empty_body, .python = "torch.empty"},
    {.schema = "empty_strided(int[:] size, int[:] stride, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Elements that are not set, in a given layout.", .tags = kTags, .body = empty_strided_body,
     .python = "torch.empty_strided"},
    {.schema = "empty_permuted(int[:] size, int[:] physical_layout, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Elements that are not set, dense in a given order of the dimensions.", .tags = kTags,
     .body = empty_permuted_body, .python = "torch.empty_permuted"},
    {.schema = "zeros_like(Tensor input, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Zeros in the input's shape and layout.", .tags = kTags, .body = zeros_like_body,
     .aten = "zeros_like(input, dtype=dtype, device=device, memory_format=memory_format)",
     .python = "torch.zeros_like"},
    {.schema = "ones_like(Tensor input, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Ones in the input's shape and layout.", .tags = kTags, .body = ones_like_body,
     .aten = "ones_like(input, dtype=dtype, device=device, memory_format=memory_format)", .python = "torch.ones_like"},
    {.schema = "full_like(Tensor input, Number fill_value, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "One number in the input's shape and layout.", .tags = kTags, .body = full_like_body,
     .aten = "full_like(input, fill_value, dtype=dtype, device=device, memory_format=memory_format)",
     .python = "torch.full_like"},
    {.schema = "fill(Tensor input, Number value) -> Tensor",
     .doc = "The number everywhere, in the input's shape, dtype and layout.", .tags = kCheap, .meta = fill_meta,
     .body = fill_body, .vjp = fill_vjp, .aten = "fill.Scalar", .python = "torch.fill"},
    {.schema = "fill.Tensor(Tensor input, Tensor value) -> Tensor",
     .doc = "The value of a 0-d tensor everywhere, in the input's shape, dtype and layout.", .tags = kCheap,
     .meta = fill_meta, .body = fill_body, .vjp = fill_vjp, .aten = "fill.Tensor", .python = "torch.fill"},
    {.schema = "empty_like(Tensor input, " THUNDER_LIKE_OPTIONS ") -> Tensor",
     .doc = "Elements that are not set, in the input's shape and layout.", .tags = kTags, .body = empty_like_body,
     .aten = "empty_like(input, dtype=dtype, device=device, memory_format=memory_format)",
     .python = "torch.empty_like"},
    {.schema = "new_zeros(Tensor input, int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Zeros with the input's dtype and device.", .tags = kTags, .body = new_filled_body<0>,
     .python = "torch.Tensor.new_zeros"},
    {.schema = "new_ones(Tensor input, int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Ones with the input's dtype and device.", .tags = kTags, .body = new_filled_body<1>,
     .python = "torch.Tensor.new_ones"},
    {.schema = "new_full(Tensor input, int[:] size, Number fill_value, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "One number, with the input's dtype and device.", .tags = kTags, .body = new_full_body,
     .python = "torch.Tensor.new_full"},
    {.schema = "new_empty(Tensor input, int[] ...size, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Elements that are not set, with the input's dtype and device.", .tags = kTags, .body = new_empty_body,
     .python = "torch.Tensor.new_empty"},
    {.schema = "tensor(any data, *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor",
     .doc = "The tensor of a number or of nested lists of numbers.", .tags = kTags, .body = tensor_body,
     .python = "torch.tensor"},
    {.schema = "scalar_tensor(Number s, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "A 0-d tensor of a number.",
     .tags = kTags, .body = scalar_tensor_body, .python = "torch.scalar_tensor"},
    {.schema = "arange(Number end, " THUNDER_FACTORY_OPTIONS ") -> Tensor", .doc = "0, 1, ... below `end`.",
     .tags = kTags, .body = arange_end_body, .python = "torch.arange"},
    {.schema = "arange.start(Number start, Number end, Number step=1, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "start, start + step, ... before `end`.", .tags = kTags, .body = arange_body, .python = "torch.arange"},
    THUNDER_EVEN_RANGE("linspace", "", "Number", "Number", "", "",
                       "`steps` numbers, evenly spaced, both ends included.", linspace_body),
    THUNDER_EVEN_RANGE("linspace", ".Tensor_Tensor", "Tensor", "Tensor", "", "",
                       "linspace between the values of 0-d tensors.", linspace_body),
    THUNDER_EVEN_RANGE("linspace", ".Tensor_Scalar", "Tensor", "Number", "", "",
                       "linspace from the value of a 0-d tensor.", linspace_body),
    THUNDER_EVEN_RANGE("linspace", ".Scalar_Tensor", "Number", "Tensor", "", "",
                       "linspace to the value of a 0-d tensor.", linspace_body),
    THUNDER_EVEN_RANGE("logspace", "", "Number", "Number", ", float base=10.0", ", base",
                       "`base` to the powers of `steps` evenly spaced numbers.", logspace_body),
    THUNDER_EVEN_RANGE("logspace", ".Tensor_Tensor", "Tensor", "Tensor", ", float base=10.0", ", base",
                       "logspace between the values of 0-d tensors.", logspace_body),
    THUNDER_EVEN_RANGE("logspace", ".Tensor_Scalar", "Tensor", "Number", ", float base=10.0", ", base",
                       "logspace from the value of a 0-d tensor.", logspace_body),
    THUNDER_EVEN_RANGE("logspace", ".Scalar_Tensor", "Number", "Tensor", ", float base=10.0", ", base",
                       "logspace to the value of a 0-d tensor.", logspace_body),
    {.schema = "eye(int n, int? m=None, " THUNDER_FACTORY_OPTIONS ") -> Tensor",
     .doc = "Ones on the diagonal of an n x m matrix.", .tags = kTags, .body = eye_body, .python = "torch.eye"},
    {.schema = "tril_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None, "
               "layout? layout=None) -> Tensor",
     .doc = "Rows and columns (2 x n) of the elements of a row x col matrix with column - row <= offset.",
     .tags = kTags, .meta = triangle_indices_meta<true>,
     .aten = "tril_indices(row, col, offset, dtype=dtype, device=device)", .python = "torch.tril_indices"},
    {.schema = "triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None, "
               "layout? layout=None) -> Tensor",
     .doc = "Rows and columns (2 x n) of the elements of a row x col matrix with column - row >= offset.",
     .tags = kTags, .meta = triangle_indices_meta<false>,
     .aten = "triu_indices(row, col, offset, dtype=dtype, device=device)", .python = "torch.triu_indices"},
    {.schema = "tril(Tensor input, int diagonal=0) -> Tensor",
     .doc = "Each matrix's elements with column - row <= diagonal; zeros elsewhere.", .tags = kCheap, .body = tril_body,
     .vjp = tril_vjp, .aten = "tril", .python = "torch.tril torch.Tensor.tril"},
    {.schema = "triu(Tensor input, int diagonal=0) -> Tensor",
     .doc = "Each matrix's elements with column - row >= diagonal; zeros elsewhere.", .tags = kCheap, .body = triu_body,
     .vjp = triu_vjp, .aten = "triu", .python = "torch.triu torch.Tensor.triu"},
};
// clang-format on

}  // namespace

Records creation() { return kRecords; }

}  // namespace thunder::ops::torch
