// PyTorch's reading and writing at positions given by tensors.
#include <algorithm>
#include <span>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/shape_common.h"
#include "ops/torch/put.h"

namespace thunder::ops::torch {
namespace {

// ---- reading --------------------------------------------------------------------------------------------------------

Arg index_select_body(Builder& b, const Args& a) {
  return b("prims.take", a["input"], a["index"], wrapped_dim("index_select", a["dim"], a.value("input").rank()));
}

Arg gather_body(Builder& b, const Args& a) {
  return b("prims.take_along_axis", a["input"], a["index"], wrapped_dim("gather", a["dim"], a.value("input").rank()));
}

Arg take_along_dim_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), indices = b.expr(a["indices"]);
  bool index_dtype =
      indices.dtype() == DType::i64 || (!(a.has("dim") && x.rank() > 0) && indices.dtype() == DType::i32);
  THUNDER_CHECK_DTYPE(index_dtype, "take_along_dim", "torch.take_along_dim(): dtype of indices should be Long but got ",
                      indices.dtype());
  if (!a.has("dim")) return b("torch.gather", b("torch.view", x, -1), 0, b("torch.view", indices, -1));
  THUNDER_CHECK(x.rank() > 0 || indices.rank() > 0, Index, "take_along_dim", "Dimension specified as ",
                size_arg("take_along_dim", a["dim"]), " but tensor has no dimensions");
  THUNDER_CHECK(x.rank() == indices.rank(), Runtime, "take_along_dim",
                "torch.take_along_dim(): input and indices should have the same number of dimensions, but got ",
                x.rank(), " dimensions for input, and ", indices.rank(), " dimensions for indices");
  size_t dim = static_cast<size_t>(wrapped_dim("take_along_dim", a["dim"], x.rank()));
  Dims from = x.shape(), to = indices.shape();
  if (from.empty()) return b("torch.gather", x, 0, indices);
  from[dim] = to[dim] = 1;
  Dims common = broadcast_of("take_along_dim", {from, to}), x_shape = common, index_shape = common;
  x_shape[dim] = x.shape()[dim];
  index_shape[dim] = indices.shape()[dim];
  // Along a dimension an index may count from the end, which gather does not allow.
  Expr from_start = b("torch.where", b("torch.lt", indices, 0), b("torch.add", indices, x_shape[dim]), indices);
  return b("torch.gather", expand(x, x_shape), static_cast<int64_t>(dim), expand(from_start, index_shape));
}

Arg take_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), index = b.expr(a["index"]);
  THUNDER_CHECK(index.dtype() == DType::i64, Runtime, "take", "take(): Expected a long tensor for index, but got ",
                index.dtype());
  Expr flat = b("prims.index", reshape(x, {x.tensor().numel()}), Arg::list({index}));
  return same(flat.tensor().strides, contiguous_strides(flat.shape())) ? flat : b("prims.reshape", flat, flat.shape());
}

// x[indices] with None for a whole dimension, masks allowed.
Arg index_body(Builder& b, const Args& a) {
  ArgList key;
  for (const Arg& i : a["indices"].items()) key.push_back(i.is_none() ? Arg::slice(nullptr, nullptr, nullptr) : i);
  return b("torch.getitem", a["input"], Arg::tuple(std::move(key)));
}

Arg masked_select_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), mask = b.expr(a["mask"]);
  THUNDER_CHECK(is_bool(mask.dtype()), Runtime, "masked_select", "masked_select: expected BoolTensor for mask, got ",
                mask.dtype());
  Dims shape = broadcast_of("masked_select", {x.shape(), mask.shape()});
  if (shape.empty()) shape = {Dim(1)};
  return b("torch.getitem", expand(x, shape), expand(mask, shape));
}

ArgList columns(const Expr& positions, int64_t rank) {
  ArgList out;
  for (int64_t i = 0; i < rank; ++i) out.push_back(squeeze_dims(slice_dim(positions, 1, i, i + 1), {1}));
  return out;
}

Arg nonzero_columns(Builder& b, const Arg& tensor) {
  Expr x = b.expr(tensor);
  if (x.rank() == 0) x = reshape(x, {Dim(1)});
  return Arg::tuple(columns(b("prims.nonzero", x), x.rank()));
}

Arg nonzero_body(Builder& b, const Args& a) {
  return a.flag("as_tuple") ? nonzero_columns(b, a["input"]) : b("prims.nonzero", a["input"]).arg();
}
Arg where_body(Builder& b, const Args& a) { return nonzero_columns(b, a["condition"]); }
Arg argwhere_body(Builder& b, const Args& a) { return b("prims.nonzero", a["input"]); }
Arg item_body(Builder& b, const Args& a) { return b("prims.item", a["self"]); }

// ---- writing along one dimension ------------------------------------------------------------------------------------

int64_t own_dim(const char* op, const Args& a) { return wrapped_dim(op, a["dim"], a.value("input").rank()); }

Arg scatter_body(Builder& b, const Args& a) {
  return b("prims.scatter", a["input"], own_dim("scatter", a), a["index"], a["src"]);
}

Arg scatter_value_body(Builder& b, const Args& a) {
  return b("prims.scatter_value", a["input"], own_dim("scatter", a), a["index"], a["value"]);
}

// "add" and "multiply" of the older spelling.
Arg scattered(Builder& b, const Args& a, const Arg& src) {
  const std::string& reduce = a.str("reduce");
  THUNDER_CHECK(reduce == "add" || reduce == "multiply", Runtime, "scatter",
                "reduce argument must be either add or multiply, got ", reduce);
  int64_t dim = own_dim("scatter", a);
  if (reduce == "add") return b("prims.scatter_add", a["input"], dim, a["index"], src);
  return b("prims.scatter_reduce", a["input"], dim, a["index"], src, "prod", true);
}
Arg scatter_reduce_src_body(Builder& b, const Args& a) { return scattered(b, a, a["src"]); }
Arg scatter_reduce_value_body(Builder& b, const Args& a) {
  Expr one = full_scalar(b, a["value"], a.tensor("input"));
  return scattered(b, a, expand(one, a.tensor("index").shape));
}

Arg scatter_add_body(Builder& b, const Args& a) {
  return b("prims.scatter_add", a["input"], own_dim("scatter_add", a), a["index"], a["src"]);
}

Arg scatter_reduce_body(Builder& b, const Args& a) {
  return b("prims.scatter_reduce", a["input"], own_dim("scatter_reduce", a), a["index"], a["src"], a["reduce"],
           a["include_self"]);
}

Arg index_add_body(Builder& b, const Args& a) {
  Expr source = b.expr(a["source"]);
  bool scaled = !(a["alpha"].is_literal_number() && a["alpha"].kind() != Arg::Kind::Complex && a["alpha"].real() == 1);
  if (scaled) source = b("torch.mul", source, a["alpha"]);
  return b("prims.index_add", a["input"], own_dim("index_add", a), a["index"], source);
}

Arg index_copy_body(Builder& b, const Args& a) {
  return b("prims.index_copy", a["input"], own_dim("index_copy", a), a["index"], a["source"]);
}

Arg index_fill_body(Builder& b, const Args& a) {
  return b("prims.index_fill", a["input"], own_dim("index_fill", a), a["index"], a["value"]);
}

Arg index_fill_tensor_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), value = b.expr(a["value"]);
  THUNDER_CHECK(value.rank() == 0, Runtime, "index_fill",
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.rank(),
                " dimension(s).");
  Expr index = b.expr(a["index"]);
  int64_t dim = own_dim("index_fill", a);
  THUNDER_CHECK(index.dtype() == DType::i64, Index, "index_fill", "index_fill_(): Expected dtype int64 for index, got ",
                index.dtype());
  THUNDER_CHECK(index.rank() <= 1, Runtime, "index_fill", "Index has to be a vector/scalar, got ", index.rank(),
                " dimensions");
  ArgList indices(static_cast<size_t>(dim) + 1);
  indices.back() = index;
  Expr wide = x.rank() == 0 ? reshape(x, {Dim(1)}) : x;
  Expr written = b("prims.index_put", wide, Arg::list(std::move(indices)), convert(b, value, x.dtype()), false);
  return reshape(written, x.shape());
}

// An element written twice is one element: so by a mask, and not by reading the gradient at the index.
void index_fill_tensor_vjp(VjpContext& c) {
  Expr g = c.grad(), dim = c.in("dim"), index = c.in("index");
  if (c.needs("input")) c.put("input", c.b("torch.index_fill", g, dim, index, 0));
  if (!c.needs("value")) return;
  Expr written = c.b("torch.index_fill", c.b("torch.zeros_like", g), dim, index, 1);
  c.put("value", to_dtype(c.b("torch.sum", g * written), c.in("value").dtype()));
}

// ---- writing anywhere -----------------------------------------------------------------------------------------------

// The values with a dimension of size 1 for each of the mask's, the first of which is `place` of x's; nothing where they
// are not broadcast over the mask.
std::optional<Expr> over_mask(const Expr& values, const Expr& x, size_t place, size_t rank) {
  const size_t behind = x.shape().size() - place - rank;
  Dims shape = values.shape();
  if (shape.size() > behind) {
    const auto selected = shape.end() - static_cast<long>(behind) - 1;
    if (!selected->same(1)) return std::nullopt;
    shape.insert(selected, rank - 1, Dim(1));
  }
  if (shape.size() > x.shape().size()) return std::nullopt;
  for (size_t i = 1; i <= shape.size(); ++i) {
    const Dim& d = shape[shape.size() - i];
    if (!d.same(1) && d != x.shape()[x.shape().size() - i]) return std::nullopt;
  }
  return expand(reshape(values, shape), x.shape());
}

Arg index_put_body(Builder& b, const Args& a) {
  ArgList indices;
  Expr values = b.expr(a["values"]), x = b.expr(a["input"]);
  if (!a.flag("accumulate") && values.dtype() == x.dtype())
    if (std::optional<Expr> written = put_by_mask(b, x, a["indices"].items(), values)) return *written;
  bool one_value = std::all_of(values.shape().begin(), values.shape().end(), [](const Dim& d) { return d.same(1); });
  for (const Arg& i : a["indices"].items()) {
    if (!is_mask(i) || one_value || i.value().rank() == 0) {
      indices.push_back(i);
      continue;
    }
    for (Arg& column : columns(b("prims.nonzero", i), i.value().rank())) indices.push_back(std::move(column));
  }
  return b("prims.index_put", a["input"], Arg::list(std::move(indices)), values, a["accumulate"]);
}

Arg put_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), index = b.expr(a["index"]), source = b.expr(a["source"]);
  THUNDER_CHECK(index.dtype() == DType::i64, Runtime, "put_", "put_(): Expected a long tensor for index, but got ",
                index.dtype());
  THUNDER_CHECK_DTYPE(source.dtype() == x.dtype(), "put_",
                      "put_(): self and source expected to have the same dtype, but got self.dtype = ", x.dtype(),
                      " and source.dtype = ", source.dtype());
  THUNDER_CHECK(source.tensor().numel() == index.tensor().numel(), Runtime, "put_",
                "put_(): Expected source and index to have the same number of elements, got ", source.tensor().numel(),
                " and ", index.tensor().numel());
  Expr flat = reshape(x, {x.tensor().numel()});
  Expr written = b("prims.index_put", flat, Arg::list({reshape(index, {index.tensor().numel()})}),
                   reshape(source, {index.tensor().numel()}), a["accumulate"]);
  Expr shaped = reshape(written, x.shape());
  Dims strides = preserve_format_strides(x.tensor());
  return same(shaped.tensor().strides, strides) ? shaped : b("prims.restride", shaped, strides);
}

Arg masked_scatter_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]), mask = b.expr(a["mask"]);
  Dims shape = broadcast_of("masked_scatter", {x.shape(), mask.shape()});
  return b("prims.masked_scatter", expand(x, shape), expand(mask, shape), a["source"]);
}

// The source with the dtype and on the device of what it is written to, as copy_() has it.
Expr source_of(Builder& b, const Args& a) {
  Expr src = to_dtype(b.expr(a["src"]), a.tensor("input").dtype);
  const Device& device = a.tensor("input").device;
  return src.tensor().device == device ? src : b("prims.device_put", src, device);
}

Arg select_scatter_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  size_t dim = static_cast<size_t>(own_dim("select_scatter", a));
  THUNDER_CHECK(x.rank() > 0, Index, "select_scatter", "select() cannot be applied to a 0-dim tensor.");
  const Dim& size = x.shape()[dim];
  Dim index = size_arg("select_scatter", a["index"]);
  THUNDER_CHECK(index >= -size && index < size, Index, "select_scatter", "index ", index,
                " out of range for tensor of size ", str(x.shape()), " at dimension ", dim);
  if (index < 0) index += size;
  Dims start(x.shape().size(), Dim(0)), end = x.shape(), step(x.shape().size(), Dim(1));
  start[dim] = index;
  end[dim] = index + 1;
  Expr src = source_of(b, a);
  THUNDER_CHECK(src.rank() == x.rank() - 1, Runtime, "select_scatter",
                "expected src to have a size equal to the slice of self, got src of shape ", str(src.shape()));
  return b("prims.slice_scatter", x, unsqueeze_dims(src, {static_cast<int64_t>(dim)}), start, end, step);
}

Arg slice_scatter_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  size_t dim = static_cast<size_t>(own_dim("slice_scatter", a));
  THUNDER_CHECK(x.rank() > 0, Runtime, "slice_scatter", "slice() cannot be applied to a 0-dim tensor.");
  const Dim& size = x.shape()[dim];
  auto clamped = [&](const Arg& given, const Dim& missing) {
    if (given.is_none()) return missing;
    Dim i = size_arg("slice_scatter", given);
    return max(min(i < 0 ? i + size : i, size), Dim(0));
  };
  Dims start(x.shape().size(), Dim(0)), end = x.shape(), step(x.shape().size(), Dim(1));
  start[dim] = clamped(a["start"], 0);
  end[dim] = max(clamped(a["end"], size), start[dim]);
  step[dim] = size_arg("slice_scatter", a["step"]);
  return b("prims.slice_scatter", x, source_of(b, a), start, end, step);
}

Arg diagonal_scatter_body(Builder& b, const Args& a) {
  return b("prims.diagonal_scatter", a["input"], source_of(b, a), a["offset"], a["dim1"], a["dim2"]);
}

Arg as_strided_scatter_body(Builder& b, const Args& a) {
  return b("prims.as_strided_scatter", a["input"], source_of(b, a), a["size"], a["stride"], a["storage_offset"]);
}

constexpr OpDef kRecords[] = {
    {.schema = "index_select(Tensor input, int dim, Tensor index) -> Tensor",
     .doc = "Slices at the positions in a vector.",
     .tags = kShape,
     .body = index_select_body,
     .aten = "index_select",
     .python = "torch.index_select torch.Tensor.index_select"},
    {.schema = "gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
     .doc = "Elements at positions along a dimension.",
     .tags = kShape,
     .body = gather_body,
     .aten = "gather",
     .python = "torch.gather torch.Tensor.gather"},
    {.schema = "take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor",
     .doc = "gather with broadcasting.",
     .tags = kShape,
     .body = take_along_dim_body,
     .aten = "take_along_dim",
     .python = "torch.take_along_dim torch.Tensor.take_along_dim"},
    {.schema = "take(Tensor input, Tensor index) -> Tensor",
     .doc = "Elements at positions in the flat input.",
     .tags = kShape,
     .body = take_body,
     .aten = "take",
     .python = "torch.take torch.Tensor.take"},
    {.schema = "index(Tensor input, any[] indices) -> Tensor",
     .doc = "Elements at index tensors or masks; None is a whole dimension.",
     .tags = kShape,
     .body = index_body,
     .aten = "index.Tensor",
     .python = "torch.ops.aten.index"},
    {.schema = "masked_select(Tensor input, Tensor mask) -> Tensor",
     .doc = "The elements where a mask is True.",
     .tags = kShape,
     .body = masked_select_body,
     .aten = "masked_select",
     .python = "torch.masked_select torch.Tensor.masked_select"},
    {.schema = "nonzero(Tensor input, *, bool as_tuple=False) -> any",
     .doc = "Positions of elements that are not 0.",
     .tags = kNoGrad,
     .body = nonzero_body,
     .python = "torch.nonzero torch.Tensor.nonzero"},
    {.schema = "where.condition(Tensor condition) -> Tensor[]",
     .doc = "Positions of True, one tensor a dimension.",
     .tags = kNoGrad,
     .body = where_body,
     .aten = "nonzero_numpy",
     .python = "torch.where"},
    {.schema = "argwhere(Tensor input) -> Tensor",
     .doc = "Positions of elements that are not 0, one a row.",
     .tags = kNoGrad,
     .body = argwhere_body,
     .aten = "argwhere",
     .python = "torch.argwhere torch.Tensor.argwhere"},
    {.schema = "item(Tensor self) -> Number",
     .doc = "The only element as a Python number.",
     .tags = kNoGrad,
     .body = item_body,
     .python = "torch.Tensor.item"},
    {.schema = "scatter(Tensor input, int dim, Tensor index, Tensor src) -> Tensor",
     .doc = "src written at positions along a dimension.",
     .tags = kShape,
     .body = scatter_body,
     .aten = "scatter.src",
     .python = "torch.scatter torch.Tensor.scatter"},
    {.schema = "scatter.value(Tensor input, int dim, Tensor index, Number value) -> Tensor",
     .doc = "A number written at positions along a dimension.",
     .tags = kShape,
     .body = scatter_value_body,
     .aten = "scatter.value",
     .python = "torch.scatter torch.Tensor.scatter"},
    {.schema = "scatter.reduce(Tensor input, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
     .doc = "src added or multiplied at positions along a dimension.",
     .body = scatter_reduce_src_body,
     .aten = "scatter.reduce",
     .python = "torch.scatter torch.Tensor.scatter"},
    {.schema = "scatter.value_reduce(Tensor input, int dim, Tensor index, Number value, *, str reduce) -> Tensor",
     .doc = "A number added or multiplied at positions along a dimension.",
     .body = scatter_reduce_value_body,
     .aten = "scatter.value_reduce",
     .python = "torch.scatter torch.Tensor.scatter"},
    {.schema = "scatter_add(Tensor input, int dim, Tensor index, Tensor src) -> Tensor",
     .doc = "src added at positions along a dimension.",
     .body = scatter_add_body,
     .aten = "scatter_add",
     .python = "torch.scatter_add torch.Tensor.scatter_add"},
    {.schema = "scatter_reduce(Tensor input, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) "
               "-> Tensor",
     .doc = "src reduced into positions along a dimension.",
     .body = scatter_reduce_body,
     .aten = "scatter_reduce.two",
     .python = "torch.scatter_reduce torch.Tensor.scatter_reduce"},
    {.schema = "index_add(Tensor input, int dim, Tensor index, Tensor source, *, Number alpha=1) -> Tensor",
     .doc = "Slices added at the positions in a vector.",
     .body = index_add_body,
     .aten = "index_add",
     .python = "torch.index_add torch.Tensor.index_add"},
    {.schema = "index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor",
     .doc = "Slices written at the positions in a vector.",
     .tags = kShape,
     .body = index_copy_body,
     .aten = "index_copy",
     .python = "torch.index_copy torch.Tensor.index_copy"},
    {.schema = "index_fill(Tensor input, int dim, Tensor index, Number value) -> Tensor",
     .doc = "A number written to the slices at the positions in a vector.",
     .tags = kShape,
     .body = index_fill_body,
     .aten = "index_fill.int_Scalar",
     .python = "torch.index_fill torch.Tensor.index_fill"},
    {.schema = "index_fill.tensor(Tensor input, int dim, Tensor index, Tensor value) -> Tensor",
     .doc = "A 0-d tensor written to the slices at the positions in a vector.",
     .tags = kShape,
     .body = index_fill_tensor_body,
     .vjp = index_fill_tensor_vjp,
     .aten = "index_fill.int_Tensor",
     .python = "torch.index_fill torch.Tensor.index_fill"},
    {.schema = "index_put(Tensor input, any[] indices, Tensor values, bool accumulate=False) -> Tensor",
     .doc = "Values written (or added) at index tensors or masks.",
     .tags = kShape,
     .body = index_put_body,
     .aten = "index_put",
     .python = "torch.index_put torch.Tensor.index_put"},
    {.schema = "put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
     .doc = "Elements written at positions in the flat input.",
     .tags = kShape,
     .body = put_body,
     .aten = "put",
     .python = "torch.put torch.Tensor.put"},
    {.schema = "masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor",
     .doc = "Elements of source, in order, where a mask is True.",
     .tags = kShape,
     .body = masked_scatter_body,
     .aten = "masked_scatter",
     .python = "torch.masked_scatter torch.Tensor.masked_scatter"},
    {.schema = "select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor",
     .doc = "src in place of one slice.",
     .tags = kShape,
     .body = select_scatter_body,
     .aten = "select_scatter",
     .python = "torch.select_scatter torch.Tensor.select_scatter"},
    {.schema =
         "slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
     .doc = "src in place of a range of slices.",
     .tags = kShape,
     .body = slice_scatter_body,
     .aten = "slice_scatter",
     .python = "torch.slice_scatter torch.Tensor.slice_scatter"},
    {.schema = "diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
     .doc = "src in place of a diagonal.",
     .tags = kShape,
     .body = diagonal_scatter_body,
     .aten = "diagonal_scatter",
     .python = "torch.diagonal_scatter torch.Tensor.diagonal_scatter"},
    {.schema =
         "as_strided_scatter(Tensor input, Tensor src, int[:] size, int[:] stride, int? storage_offset=None) -> Tensor",
     .doc = "src in place of what as_strided would read.",
     .tags = kShape,
     .body = as_strided_scatter_body,
     .aten = "as_strided_scatter",
     .python = "torch.as_strided_scatter torch.Tensor.as_strided_scatter"},
};

}  // namespace

std::optional<Expr> put_by_mask(Builder& b, const Expr& x, const ArgList& indices, const Expr& values) {
  const auto given = [](const Arg& i) { return !i.is_none(); };
  const auto first = std::find_if(indices.begin(), indices.end(), given);
  if (first == indices.end() || !is_mask(*first) || std::count_if(first, indices.end(), given) != 1)
    return std::nullopt;
  Expr mask = b.expr(*first);
  const auto place = static_cast<size_t>(first - indices.begin()), rank = mask.shape().size();
  if (!is_bool(mask.dtype()) || rank == 0 || place + rank > x.shape().size()) return std::nullopt;
  if (mask.tensor().device != x.tensor().device) return std::nullopt;
  if (!equal(mask.shape(),
             Dims(x.shape().begin() + static_cast<long>(place), x.shape().begin() + static_cast<long>(place + rank))))
    return std::nullopt;
  const std::optional<Expr> wide = over_mask(values, x, place, rank);
  if (!wide) return std::nullopt;
  Dims shape = mask.shape();
  shape.resize(x.shape().size() - place, Dim(1));
  Expr written = b("torch.where", reshape(mask, shape), *wide, x);
  Dims strides = preserve_format_strides(x.tensor());
  return same(written.tensor().strides, strides) ? written : b("prims.restride", written, strides);
}

std::span<const OpDef> index() { return kRecords; }

}  // namespace thunder::ops::torch
