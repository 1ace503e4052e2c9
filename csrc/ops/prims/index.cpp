// Reading and writing elements at positions given by tensors.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "core/out_of_bounds.h"
#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

bool is_index_dtype(DType t) { return t == DType::i64 || t == DType::i32; }
bool is_mask_dtype(DType t) { return t == DType::boolean || t == DType::u8; }

// ---- index, index_put -----------------------------------------------------------------------------------------------

struct Indexed {
  Dims shape, strides;              // of the source as the iteration sees it: indexed dimensions have stride 0
  std::vector<Dims> index_strides;  // of each index in the same frame
};

// Strides of an index expanded to `common` and reshaped to have dimensions of size 1 for all others of the result;
// these count (for the order of dimensions) where the result has size 1, too.
Dims index_strides(const TensorType& index, const Dims& common, const Dims& result, size_t at) {
  Dims expanded(common.size()), shape(result.size(), Dim(1));
  size_t lead = common.size() - index.shape.size();
  for (size_t k = common.size(); k-- > 0;) {
    shape[at + k] = common[k];
    if (k < lead) expanded[k] = is_one(common[k]) && k + 1 < common.size() ? common[k + 1] * expanded[k + 1] : Dim(0);
    else if (index.shape[k - lead].same(common[k]) || index.shape[k - lead] == common[k])
      expanded[k] = index.strides[k - lead];
  }
  Dims strides =
      same(shape, common) ? expanded : view_strides(common, expanded, shape).value_or(contiguous_strides(shape));
  for (size_t i = 0; i < strides.size(); ++i)
    if ((i < at || i >= at + common.size() || is_one(shape[i])) && !is_one(result[i])) strides[i] = 0;
  return strides;
}

// Where the result's dimensions come from: those of the indices, broadcast together, stand in place of the indexed
// dimensions if these are adjacent, else in front.
Indexed indexed(const char* op, const Args& a) {
  const TensorType& t = a.tensor("a");
  const ArgList& indices = a["indices"].items();
  THUNDER_CHECK(indices.size() <= t.shape.size(), Index, op, "too many indices for tensor of dimension ", t.rank(),
                " (got ", indices.size(), ")");
  std::vector<Dims> shapes;
  std::vector<size_t> dims;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i].is_none()) continue;
    const TensorType& index = indices[i].value().tensor();
    THUNDER_CHECK(is_index_dtype(index.dtype), Index, op,
                  "tensors used as indices must be long, int, byte or bool tensors, got ", index.dtype);
    shapes.push_back(index.shape);
    dims.push_back(i);
  }
  THUNDER_CHECK(!dims.empty(), Index, op, "at least one index tensor must be given");
  Dims common = broadcast_of(op, shapes, ErrorKind::Index);
  bool reads_nothing = std::any_of(common.begin(), common.end(), [](const Dim& d) { return d.same(0); });
  for (size_t i : dims)
    if (!reads_nothing && t.shape[i].same(0))
      throw OutOfBounds(cat("[", op, "] index is out of bounds for dimension with size 0"));
  bool adjacent = dims.back() - dims.front() + 1 == dims.size();
  Indexed r;
  size_t at = 0;
  auto add_common = [&] {
    at = r.shape.size();
    r.shape.insert(r.shape.end(), common.begin(), common.end());
    r.strides.insert(r.strides.end(), common.size(), Dim(0));
  };
  if (!adjacent) add_common();
  for (size_t i = 0; i < t.shape.size(); ++i) {
    bool taken = std::find(dims.begin(), dims.end(), i) != dims.end();
    if (taken && adjacent && i == dims.front()) add_common();
    if (taken) continue;
    r.shape.push_back(t.shape[i]);
    r.strides.push_back(t.strides[i]);
  }
  for (size_t i : dims) {
    r.index_strides.push_back(index_strides(indices[i].value().tensor(), common, r.shape, at));
  }
  return r;
}

Types index_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Indexed r = indexed("index", a);
  std::vector<const Dims*> operands = {&r.strides};
  bool one_layout = true;
  for (const Dims& s : r.index_strides) one_layout &= same(s, r.index_strides[0]);
  std::vector<Dims> row_major;
  if (!one_layout && t.device.type == DeviceType::cuda) {
    // The CUDA kernel wants indices of one layout and copies them to row-major.
    Dims common_strides(r.shape.size(), Dim(0)), sizes;
    Dim step = 1;
    for (size_t i = r.shape.size(); i-- > 0;) {
      bool of_index =
          std::any_of(r.index_strides.begin(), r.index_strides.end(), [&](const Dims& s) { return !s[i].same(0); });
      if (!of_index) continue;
      common_strides[i] = step;
      step *= r.shape[i];
    }
    row_major.push_back(std::move(common_strides));
    operands.push_back(&row_major[0]);
  } else {
    for (const Dims& s : r.index_strides) operands.push_back(&s);
  }
  Dims strides = pointwise_strides(r.shape, operands);
  return {with_shape(t, std::move(r.shape), std::move(strides))};
}

void index_vjp(VjpContext& c) {
  Expr g = c.grad();
  c.put("a", c.b("prims.index_put", zeros(c.b, c.in("a").shape(), g.tensor()), c.in("indices"), g, true));
}

bool has_mask(const Args& a) {
  const ArgList& indices = a["indices"].items();
  return std::any_of(indices.begin(), indices.end(),
                     [](const Arg& i) { return i.is_tensor() && is_mask_dtype(i.value().dtype()); });
}

Types index_put_meta(const Args& a) {
  const TensorType &t = a.tensor("a"), &values = a.tensor("values");
  THUNDER_CHECK_DTYPE(values.dtype == t.dtype, "index_put",
                      "Index put requires the source and destination dtypes match, got ", t.dtype,
                      " for the destination and ", values.dtype, " for the source.");
  // With a mask the number of selected elements is known at run time only, and so is whether the values fit.
  if (!has_mask(a)) {
    Dims shape = indexed("index_put", a).shape;
    bool fits = values.shape.size() <= shape.size();
    size_t lead = fits ? shape.size() - values.shape.size() : 0;
    for (size_t i = 0; fits && i < values.shape.size(); ++i)
      fits = values.shape[i].same(shape[lead + i]) || is_one(values.shape[i]) || values.shape[i] == shape[lead + i];
    THUNDER_CHECK(fits, Runtime, "index_put", "shape mismatch: value tensor of shape ", str(values.shape),
                  " cannot be broadcast to indexing result of shape ", str(shape));
  }
  return {preserve_like(t)};
}

void index_put_vjp(VjpContext& c) {
  Expr g = c.grad();
  const TensorType& values = c.in("values").tensor();
  if (c.needs("a")) {
    if (c.args().flag("accumulate")) c.put("a", g);
    else c.put("a", c.b("prims.index_put", g, c.in("indices"), zeros(c.b, {}, g.tensor()), false));
  }
  if (!c.needs("values")) return;
  Expr taken = c.b("torch.index", g, c.in("indices"));
  c.put("values", c.b("torch.sum_to_size", taken, values.shape));
}

// ---- along one dimension --------------------------------------------------------------------------------------------

void check_index_vector(const char* op, const TensorType& index) {
  THUNDER_CHECK(index.rank() <= 1, Index, op, "Index is supposed to be a vector, got ", index.rank(), " dimensions");
  THUNDER_CHECK_DTYPE(is_index_dtype(index.dtype), op, "Expected dtype int32 or int64 for index, got ", index.dtype);
}

Types take_meta(const Args& a) {
  const TensorType &t = a.tensor("a"), &index = a.tensor("index");
  int64_t dim = wrapped_dim("index_select", a["dim"], t.rank());
  check_index_vector("index_select", index);
  Dims shape = t.shape;
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = index.numel();
  else
    THUNDER_CHECK(index.numel() == 1, Runtime, "index_select", "Index to scalar can have only 1 value, got ",
                  index.numel(), " value(s)");
  return {contiguous_like(t, std::move(shape))};
}

void take_vjp(VjpContext& c) {
  Expr g = c.grad();
  c.put("a", c.b("prims.index_add", zeros(c.b, c.in("a").shape(), g.tensor()), c.in("dim"), c.in("index"), g));
}

void check_gather(const char* op, const TensorType& t, const TensorType& index, int64_t dim, const TensorType* src) {
  if (index.numel().same(0)) return;
  THUNDER_CHECK_DTYPE(is_index_dtype(index.dtype), op, "Expected dtype int32/int64 for index, got ", index.dtype);
  auto dims_of = [](const TensorType& x) { return std::max<int64_t>(x.rank(), 1); };
  THUNDER_CHECK(dims_of(index) == dims_of(t), Runtime, op, "Index tensor must have the same number of dimensions as ",
                src ? "self" : "input", " tensor, got ", index.rank(), " and ", t.rank());
  THUNDER_CHECK(!src || dims_of(*src) == dims_of(index), Runtime, op,
                "Index tensor must have the same number of dimensions as src tensor");
  for (size_t i = 0; i < index.shape.size(); ++i) {
    if (i < t.shape.size() && static_cast<int64_t>(i) != dim)
      THUNDER_CHECK(index.shape[i] <= t.shape[i], Runtime, op, "Size does not match at dimension ", i,
                    " expected index ", str(index.shape), " to be no larger than self ", str(t.shape),
                    " apart from dimension ", dim);
    if (src && i < src->shape.size())
      THUNDER_CHECK(index.shape[i] <= src->shape[i], Runtime, op, "Expected index ", str(index.shape),
                    " to be no larger than src ", str(src->shape));
  }
}

Types take_along_axis_meta(const Args& a) {
  const TensorType &t = a.tensor("a"), &index = a.tensor("index");
  int64_t dim = wrapped_dim("gather", a["dim"], t.rank());
  check_gather("gather", t, index, dim, nullptr);
  return {contiguous_like(t, index.shape)};
}

void take_along_axis_vjp(VjpContext& c) {
  Expr g = c.grad();
  c.put("a", c.b("prims.scatter_add", zeros(c.b, c.in("a").shape(), g.tensor()), c.in("dim"), c.in("index"), g));
}

Types scatter_like(const char* op, const Args& a, bool has_src) {
  const TensorType& t = a.tensor("a");
  int64_t dim = wrapped_dim(op, a["dim"], t.rank());
  const TensorType* src = has_src ? &a.tensor("src") : nullptr;
  check_gather(op, t, a.tensor("index"), dim, src);
  THUNDER_CHECK_DTYPE(!src || src->dtype == t.dtype, op, "Expected self.dtype to be equal to src.dtype, got ", t.dtype,
                      " and ", src ? src->dtype : t.dtype);
  return {contiguous_like(t, t.shape)};
}

Types scatter_meta(const Args& a) { return scatter_like("scatter", a, true); }
Types scatter_value_meta(const Args& a) { return scatter_like("scatter", a, false); }
Types scatter_add_meta(const Args& a) { return scatter_like("scatter_add", a, true); }

Types scatter_reduce_meta(const Args& a) {
  static constexpr std::string_view kKinds[] = {"sum", "prod", "mean", "amax", "amin"};
  bool known = std::find(std::begin(kKinds), std::end(kKinds), a.str("reduce")) != std::end(kKinds);
  THUNDER_CHECK(known, Runtime, "scatter_reduce", "reduce argument must be either sum, prod, mean, amax or amin, got ",
                a.str("reduce"));
  bool ordered = a.str("reduce") == "amax" || a.str("reduce") == "amin";
  THUNDER_CHECK(!ordered || !is_complex(a.tensor("a").dtype), NotImplemented, "scatter_reduce", a.str("reduce"),
                " is not implemented for complex numbers, which have no order");
  return scatter_like("scatter_reduce", a, true);
}

// A gradient of what the index covers of `src`, with zeros for the rest of it, which was not read.  A tensor of 0
// dimensions counts as one of 1, of 1 element.
Expr fitted_to_src(VjpContext& c, Expr g) {
  const Dims& to = c.in("src").shape();
  if (g.shape().size() != to.size()) g = reshape(g, Dims(to.size(), Dim(1)));
  if (same(g.shape(), to)) return g;
  ArgList config;
  for (size_t i = 0; i < to.size(); ++i) config.push_back(Dims{Dim(0), to[i] - g.shape()[i], Dim(0)});
  return c.b("prims.pad", g, 0, Arg::list(std::move(config)));
}

// What the index covers of `src`.
Expr used_of_src(const Expr& src, const Dims& index) {
  const size_t rank = src.shape().size();
  const Dims extent = index.size() == rank ? index : Dims(rank, Dim(1));
  Expr used = slice_dims(src, Dims(rank, Dim(0)), extent, Dims(rank, Dim(1)));
  return index.size() == rank ? used : reshape(used, index);
}

void put_gathered_for_src(VjpContext& c) {
  if (c.needs("src")) c.put("src", fitted_to_src(c, c.b("torch.gather", c.grad(), c.in("dim"), c.in("index"))));
}

// Products without one factor, by dividing; where a src element is 0, by the product with the only zero taken out,
// which is 0 if there are two.
template <class PutA, class PutSrc>
void scatter_prod_vjp(VjpContext& c, PutA&& put_a, PutSrc&& put_src) {
  Builder& b = c.b;
  Expr g = c.grad(), a = c.in("a"), src = c.in("src"), dim = c.in("dim"), index = c.in("index");
  bool include_self = c.args().flag("include_self");
  Expr used = used_of_src(src, index.shape());
  if (c.needs("a")) {
    Expr divisor = b("torch.masked_fill", a, b("torch.eq", a, 0), 1);
    Expr product = b("prims.scatter_reduce", divisor, dim, index, src, "prod", include_self);
    put_a(g * conj(product) / conj(divisor));
  }
  if (!c.needs("src")) return;
  auto at_src = [&](const Expr& x) { return b("torch.gather", x, dim, index); };
  Expr is_zero = b("torch.eq", used, 0);
  DType real = real_part_type(a.dtype());
  Expr zeros_at =
      b("prims.scatter_add", b("torch.zeros_like", a, kw("dtype", real)), dim, index, b("torch.to", is_zero, real));
  Expr only_zero = b("torch.logical_and", is_zero, b("torch.eq", at_src(zeros_at), 1));
  Expr without_zero =
      b("prims.scatter_reduce", a, dim, index, b("torch.masked_fill", used, only_zero, 1), "prod", include_self);
  Expr others = at_src(g * conj(c.out())) / conj(b("torch.masked_fill", used, is_zero, 1));
  put_src(b("torch.where", only_zero, at_src(g * conj(without_zero)), others));
}

// As autograd: ties of amax and amin share the gradient.
void scatter_reduce_vjp(VjpContext& c) {
  const std::string& kind = c.args().str("reduce");
  bool include_self = c.args().flag("include_self");
  Expr g = c.grad(), a = c.in("a"), src = c.in("src"), dim = c.in("dim"), index = c.in("index");
  Builder& b = c.b;
  auto put_a = [&](const Expr& grad) {
    if (!c.needs("a")) return;
    c.put("a", include_self ? grad : b("prims.scatter_value", grad, dim, index, 0));
  };
  auto at_src = [&](const Expr& x) { return b("torch.gather", x, dim, index); };
  auto put_src = [&](const Expr& grad) {
    if (c.needs("src")) c.put("src", fitted_to_src(c, grad));
  };
  Expr used = used_of_src(src, index.shape());
  if (kind == "sum") {
    put_a(g);
    put_src(at_src(g));
  } else if (kind == "mean") {
    Arg real = real_part_type(g.dtype());
    Expr count = b(include_self ? "torch.ones_like" : "torch.zeros_like", g, kw("dtype", real));
    count = b("prims.scatter_add", count, dim, index, b("torch.ones_like", used, kw("dtype", real)));
    count = b("torch.clamp", count, kw("min", 1));
    put_a(g / count);
    put_src(at_src(g) / at_src(count));
  } else if (kind == "prod") {
    scatter_prod_vjp(c, put_a, put_src);
  } else {
    Expr result = c.out();
    Expr from_self = b("torch.to", b("torch.eq", a, result), g.dtype()),
         from_src = b("torch.to", b("torch.eq", used, at_src(result)), g.dtype());
    Expr share = g / b("prims.scatter_add", from_self, dim, index, from_src);
    put_a(from_self * share);
    put_src(from_src * at_src(share));
  }
}

void scatter_vjp(VjpContext& c) {
  if (c.needs("a")) c.put("a", c.b("prims.scatter_value", c.grad(), c.in("dim"), c.in("index"), 0));
  put_gathered_for_src(c);
}

void scatter_value_vjp(VjpContext& c) {
  c.put("a", c.b("prims.scatter_value", c.grad(), c.in("dim"), c.in("index"), 0));
}

void scatter_add_vjp(VjpContext& c) {
  c.put("a", c.grad());
  put_gathered_for_src(c);
}

Types index_vector_write(const char* op, const Args& a) {
  const TensorType &t = a.tensor("a"), &index = a.tensor("index"), &src = a.tensor("source");
  int64_t dim = wrapped_dim(op, a["dim"], t.rank());
  check_index_vector(op, index);
  for (const TensorType* other : {&index, &src})
    THUNDER_CHECK(other->device == t.device, Runtime, op, "Expected all tensors to be on the same device, but got ",
                  t.device, " and ", other->device);
  THUNDER_CHECK_DTYPE(src.dtype == t.dtype, op, "self and source expected to have the same dtype, but got (self) ",
                      t.dtype, " and (source) ", src.dtype);
  THUNDER_CHECK(src.rank() == t.rank() || src.rank() == 0 || t.rank() == 0, Runtime, op,
                "source and self must have the same number of dimensions, got ", src.rank(), " and ", t.rank());
  Dim count = src.rank() == 0 ? Dim(1) : src.shape[static_cast<size_t>(wrapped_dim(op, dim, src.rank()))];
  THUNDER_CHECK(index.numel() == count, Index, op, "Number of indices (", index.numel(),
                ") should be equal to source.size(dim): (", count, "), for dim: ", dim);
  for (size_t i = 0; i < t.shape.size() && src.rank() == t.rank(); ++i)
    THUNDER_CHECK(static_cast<int64_t>(i) == dim || src.shape[i] == t.shape[i], Runtime, op, "source of shape ",
                  str(src.shape), " does not match self of shape ", str(t.shape), " apart from dimension ", dim);
  return {contiguous_like(t, t.shape)};
}

Types index_add_meta(const Args& a) { return index_vector_write("index_add", a); }
Types index_copy_meta(const Args& a) {
  Types types = index_vector_write("index_copy", a);
  THUNDER_CHECK(a.tensor("index").dtype == DType::i64, Runtime, "index_copy",
                "Expected a long tensor for index, but got ", a.tensor("index").dtype);
  return types;
}

Types index_fill_meta(const Args& a) {
  const TensorType &t = a.tensor("a"), &index = a.tensor("index");
  wrapped_dim("index_fill", a["dim"], t.rank());
  THUNDER_CHECK(index.dtype == DType::i64, Index, "index_fill", "index_fill_(): Expected dtype int64 for index, got ",
                index.dtype);
  THUNDER_CHECK(index.rank() <= 1, Runtime, "index_fill", "Index has to be a vector/scalar, got ", index.rank(),
                " dimensions");
  return {preserve_like(t)};
}

Expr taken_for_source(VjpContext& c) {
  Expr g = c.b("torch.index_select", c.grad(), c.in("dim"), c.in("index"));
  return c.in("source").rank() == g.rank() ? g : c.b("torch.reshape", g, c.in("source").shape());
}

void index_add_vjp(VjpContext& c) {
  c.put("a", c.grad());
  if (c.needs("source")) c.put("source", taken_for_source(c));
}

void index_copy_vjp(VjpContext& c) {
  if (c.needs("a")) c.put("a", c.b("prims.index_fill", c.grad(), c.in("dim"), c.in("index"), 0));
  if (c.needs("source")) c.put("source", taken_for_source(c));
}

void index_fill_vjp(VjpContext& c) { c.put("a", c.b("prims.index_fill", c.grad(), c.in("dim"), c.in("index"), 0)); }

// ---- masks ----------------------------------------------------------------------------------------------------------

Types nonzero_meta(const Args& a) {
  const TensorType& t = a.tensor("a");
  Dim count = 0;
  if (!t.numel().same(0)) {
    ShapeEnv* env = ShapeEnv::current();
    THUNDER_CHECK(env, Runtime, "nonzero",
                  "the shape of the result depends on values, which needs a compilation to hold it");
    count = env->symbol_of("nonzero", &a.value("a").type());
  }
  // ATen writes column by column.
  TensorType out = with_shape(t, {count, Dim(t.rank())}, {Dim(1), count});
  out.dtype = DType::i64;
  return {out};
}

Types repeat_index_meta(const Args& a) {
  const TensorType& t = a.tensor("repeats");
  THUNDER_CHECK(t.rank() == 1 && is_index_dtype(t.dtype), Runtime, "repeat_interleave",
                "repeats has to be a vector of Long or Int, got ", t.dtype, " of shape ", str(t.shape));
  if (a.has("output_size")) return {contiguous_like(t, {size_arg("repeat_interleave", a["output_size"])})};
  ShapeEnv* env = ShapeEnv::current();
  THUNDER_CHECK(env, Runtime, "repeat_interleave", "the shape of the result depends on values; pass output_size");
  return {contiguous_like(t, {env->symbol_of("repeat_index", &a.value("repeats").type())})};
}

Types masked_scatter_meta(const Args& a) {
  const TensorType &t = a.tensor("a"), &mask = a.tensor("mask"), &src = a.tensor("source");
  THUNDER_CHECK_DTYPE(is_bool(mask.dtype), "masked_scatter",
                      "masked_scatter_ only supports boolean masks, but got mask with dtype ", mask.dtype);
  THUNDER_CHECK_DTYPE(src.dtype == t.dtype, "masked_scatter", "expected self and source to have same dtypes but got ",
                      t.dtype, " and ", src.dtype);
  THUNDER_CHECK(std::equal(mask.shape.begin(), mask.shape.end(), t.shape.begin(), t.shape.end()), Runtime,
                "masked_scatter", "mask of shape ", str(mask.shape), " does not match the tensor's ", str(t.shape));
  common_device("masked_scatter", {a["a"], a["mask"], a["source"]});
  return {contiguous_like(t, t.shape)};
}

void masked_scatter_vjp(VjpContext& c) {
  if (c.needs("a")) c.put("a", c.b("torch.masked_fill", c.grad(), c.in("mask"), 0));
  if (c.needs("source"))
    c.put("source", c.b("torch.masked_scatter_backward", c.grad(), c.in("mask"), c.in("source").shape()));
}

constexpr OpDef kRecords[] = {
    {.schema = "take(Tensor a, Tensor index, int dim) -> Tensor",
     .doc = "Slices of `a` at the positions in a 1-d index.",
     .tags = kShape,
     .meta = take_meta,
     .vjp = take_vjp,
     .aten = "index_select(a, dim, index)",
     .element = Element::Gathered},
    {.schema = "take_along_axis(Tensor a, Tensor index, int dim) -> Tensor",
     .doc = "Elements of `a` at positions `index` along `dim`, and at the same positions as in the result along the "
            "others.",
     .tags = kShape,
     .meta = take_along_axis_meta,
     .vjp = take_along_axis_vjp,
     .aten = "gather(a, dim, index)",
     .element = Element::Gathered},
    {.schema = "index(Tensor a, any[] indices) -> Tensor",
     .doc = "a[indices]: per dimension an integer tensor or None; the indices are broadcast together.",
     .tags = kShape,
     .meta = index_meta,
     .vjp = index_vjp,
     .aten = "index.Tensor",
     .element = Element::Gathered},
    {.schema = "index_put(Tensor a, any[] indices, Tensor values, bool accumulate) -> Tensor",
     .doc = "A copy of `a` with a[indices] set to (or, to accumulate, increased by) values, which are broadcast. An "
            "index may be a "
            "boolean mask over the dimensions from its place on, where values are too few to depend on the number of "
            "True.",
     .tags = kShape,
     .meta = index_put_meta,
     .vjp = index_put_vjp,
     .aten = "index_put"},
    {.schema = "scatter(Tensor a, int dim, Tensor index, Tensor src) -> Tensor",
     .doc = "A copy of `a` with the elements of src written at positions `index` along `dim`.",
     .tags = kShape,
     .meta = scatter_meta,
     .vjp = scatter_vjp,
     .aten = "scatter.src"},
    {.schema = "scatter_value(Tensor a, int dim, Tensor index, Number value) -> Tensor",
     .doc = "A copy of `a` with a number written at positions `index` along `dim`.",
     .tags = kShape,
     .meta = scatter_value_meta,
     .vjp = scatter_value_vjp,
     .aten = "scatter.value"},
    {.schema = "scatter_add(Tensor a, int dim, Tensor index, Tensor src) -> Tensor",
     .doc = "A copy of `a` with the elements of src added at positions `index` along `dim`.",
     .tags = kNoTag,
     .meta = scatter_add_meta,
     .vjp = scatter_add_vjp,
     .aten = "scatter_add"},
    {.schema = "scatter_reduce(Tensor a, int dim, Tensor index, Tensor src, str reduce, bool include_self) -> Tensor",
     .doc = "scatter_add with another reduction: sum, prod, mean, amax or amin.",
     .tags = kNoTag,
     .meta = scatter_reduce_meta,
     .vjp = scatter_reduce_vjp,
     .aten = "scatter_reduce.two(a, dim, index, src, reduce, include_self=include_self)"},
    {.schema = "index_add(Tensor a, int dim, Tensor index, Tensor source) -> Tensor",
     .doc = "A copy of `a` with slices of source added at the positions in a 1-d index.",
     .tags = kNoTag,
     .meta = index_add_meta,
     .vjp = index_add_vjp,
     .aten = "index_add"},
    {.schema = "index_copy(Tensor a, int dim, Tensor index, Tensor source) -> Tensor",
     .doc = "A copy of `a` with slices of source written at the positions in a 1-d index.",
     .tags = kShape,
     .meta = index_copy_meta,
     .vjp = index_copy_vjp,
     .aten = "index_copy"},
    {.schema = "index_copy_(Tensor a, int dim, Tensor index, Tensor source) -> Tensor",
     .doc = "index_copy into the memory of `a`, which it returns.",
     .tags = kWrite,
     .meta = index_copy_meta,
     .aten = "index_copy_"},
    {.schema = "index_put_(Tensor a, any[] indices, Tensor values, bool accumulate) -> Tensor",
     .doc = "index_put into the memory of `a`, which it returns.",
     .tags = kWrite,
     .meta = index_put_meta,
     .aten = "index_put_"},
    {.schema = "index_fill(Tensor a, int dim, Tensor index, Number value) -> Tensor",
     .doc = "A copy of `a` with a number written to the slices at the positions in a 1-d index.",
     .tags = kShape,
     .meta = index_fill_meta,
     .vjp = index_fill_vjp,
     .aten = "index_fill.int_Scalar"},
    {.schema = "nonzero(Tensor a) -> Tensor",
     .doc = "Positions of the elements that are not 0, one a row.",
     .tags = kNoGrad | kDataDependent | kHostSync,
     .meta = nonzero_meta,
     .aten = "nonzero"},
    {.schema = "repeat_index(Tensor repeats, int? output_size=None) -> Tensor",
     .doc = "Each position as often as repeats says: 0, 0, 1, 2, 2, ...",
     .tags = kNoGrad | kDataDependent | kHostSync,
     .meta = repeat_index_meta,
     .aten = "repeat_interleave.Tensor(repeats, output_size=output_size)"},
    {.schema = "masked_scatter(Tensor a, Tensor mask, Tensor source) -> Tensor",
     .doc = "A copy of `a` in which the elements where the mask is True are those of source, in order.",
     .tags = kShape,
     .meta = masked_scatter_meta,
     .vjp = masked_scatter_vjp,
     .aten = "masked_scatter"},
};

}  // namespace

std::span<const OpDef> index() { return kRecords; }

}  // namespace thunder::ops::prims
