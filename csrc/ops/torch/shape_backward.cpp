// ATen's backward kernels of shape operators, as records: gradient rules call them.
#include <span>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::torch {
namespace {

/// The argument `dim` counted from 0, and a place along it.
struct Along {
  int64_t dim;
  Dim place;
};

Along along(const Args& a, std::string_view place) {
  const std::string& name = a.op().schema.name;
  const Dims sizes = a.dims("input_sizes");
  const int64_t dim = wrapped_dim(name, a["dim"], static_cast<int64_t>(sizes.size()));
  THUNDER_CHECK(!sizes.empty(), Index, name, "the input has no dimension ", dim);
  const Dim at = a.dim(place);
  return {dim, at.is_constant() && at < 0 ? at + sizes[static_cast<size_t>(dim)] : at};
}

// Zeros of `sizes` with g at start, start + step, ... along a dimension.
Expr embedded(const Expr& g, const Dims& sizes, size_t dim, const Dim& start, const Dim& step) {
  ArgList config;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i != dim) {
      config.push_back(Dims(3, Dim(0)));
      continue;
    }
    const Dim& n = g.shape()[i];
    Dim extent = step.same(1) ? n : (n == 0 ? Dim(0) : (n - 1) * step + 1);
    config.push_back(Dims{start, sizes[i] - start - extent, step - 1});
  }
  return g.builder()("prims.pad", g, 0, Arg::list(std::move(config)));
}

Arg slice_backward_body(Builder& b, const Args& a) {
  const Along start = along(a, "start");
  return embedded(b.expr(a["grad_output"]), a.dims("input_sizes"), static_cast<size_t>(start.dim), start.place,
                  a.dim("step"));
}

void slice_backward_vjp(VjpContext& c) {
  const Along start = along(c.args(), "start"), end = along(c.args(), "end");
  c.put("grad_output", slice_dim(c.grad(), start.dim, start.place, end.place, c.args().dim("step")));
}

Arg select_backward_body(Builder& b, const Args& a) {
  const Along at = along(a, "index");
  return embedded(unsqueeze_dims(b.expr(a["grad_output"]), {at.dim}), a.dims("input_sizes"),
                  static_cast<size_t>(at.dim), at.place, 1);
}

void select_backward_vjp(VjpContext& c) {
  c.put("grad_output", c.b("torch.select", c.grad(), c.in("dim"), c.in("index")));
}

Arg diagonal_backward_body(Builder& b, const Args& a) {
  const TensorType& g = a.tensor("grad_output");
  Arg blank = full(b, a.dims("input_sizes"), 0, g.dtype, g.device);
  return b("prims.diagonal_scatter", blank, a["grad_output"], a["offset"], a["dim1"], a["dim2"]);
}

void diagonal_backward_vjp(VjpContext& c) {
  c.put("grad_output", c.b("torch.diagonal", c.grad(), c.in("offset"), c.in("dim1"), c.in("dim2")));
}

Types unfold_backward_meta(const Args& a) { return {contiguous_like(a.tensor("grad_in"), a.dims("input_sizes"))}; }

void unfold_backward_vjp(VjpContext& c) {
  c.put("grad_in", c.b("torch.unfold", c.grad(), c.in("dim"), c.in("size"), c.in("step")));
}

Arg value_selecting_body(Builder& b, const Args& a) {
  Expr g = b.expr(a["grad"]), indices = b.expr(a["indices"]);
  int64_t dim =
      wrapped_dim("value_selecting_reduction_backward", a["dim"], static_cast<int64_t>(a["sizes"].items().size()));
  if (!a.flag("keepdim") && !a["sizes"].items().empty()) {
    THUNDER_CHECK(dim <= g.rank() && dim <= indices.rank(), Index, "value_selecting_reduction_backward",
                  "there is no place for dimension ", dim, " in a gradient of shape ", str(g.shape()),
                  " and indices of shape ", str(indices.shape()));
    g = unsqueeze_dims(g, {dim});
    indices = unsqueeze_dims(indices, {dim});
  }
  Arg blank = full(b, a.dims("sizes"), 0, g.dtype(), g.tensor().device);
  return b("prims.scatter", blank, dim, indices, g);
}

void value_selecting_vjp(VjpContext& c) {
  Expr indices = c.in("indices"), g = c.grad();
  int64_t dim = c.args().integer("dim");
  if (c.args().flag("keepdim") || g.rank() == 0) return c.put("grad", c.b("torch.gather", g, dim, indices));
  c.put("grad", c.b("torch.squeeze", c.b("torch.gather", g, dim, c.b("torch.unsqueeze", indices, dim)), dim));
}

Types masked_scatter_backward_meta(const Args& a) {
  return {contiguous_like(a.tensor("grad_output"), a.dims("sizes"))};
}

constexpr OpDef kRecords[] = {
    {.schema = "slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> Tensor",
     .doc = "Zeros with the gradient in place of a slice.",
     .tags = kShape | kLinear,
     .body = slice_backward_body,
     .vjp = slice_backward_vjp,
     .aten = "slice_backward",
     .python = "torch.ops.aten.slice_backward"},
    {.schema = "select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor",
     .doc = "Zeros with the gradient in place of one slice.",
     .tags = kShape | kLinear,
     .body = select_backward_body,
     .vjp = select_backward_vjp,
     .aten = "select_backward",
     .python = "torch.ops.aten.select_backward"},
    {.schema = "diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int dim2) -> Tensor",
     .doc = "Zeros with the gradient on a diagonal.",
     .tags = kShape | kLinear,
     .body = diagonal_backward_body,
     .vjp = diagonal_backward_vjp,
     .aten = "diagonal_backward",
     .python = "torch.ops.aten.diagonal_backward"},
    {.schema = "unfold_backward(Tensor grad_in, int[] input_sizes, int dim, int size, int step) -> Tensor",
     .doc = "The gradients of overlapping windows added up.",
     .tags = kLinear,
     .meta = unfold_backward_meta,
     .vjp = unfold_backward_vjp,
     .aten = "unfold_backward",
     .python = "torch.ops.aten.unfold_backward"},
    {.schema = "value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, int[] sizes, bool keepdim) -> "
               "Tensor",
     .doc = "Zeros with each gradient where its value was selected.",
     .tags = kShape | kLinear,
     .body = value_selecting_body,
     .vjp = value_selecting_vjp,
     .aten = "value_selecting_reduction_backward",
     .python = "torch.ops.aten.value_selecting_reduction_backward"},
    {.schema = "masked_scatter_backward(Tensor grad_output, Tensor mask, int[] sizes) -> Tensor",
     .doc = "The gradient of what masked_scatter wrote.",
     .tags = kShape | kLinear,
     .meta = masked_scatter_backward_meta,
     .aten = "masked_scatter_backward",
     .python = "torch.ops.aten.masked_scatter_backward"},
};

}  // namespace

std::span<const OpDef> shape_backward() { return kRecords; }

}  // namespace thunder::ops::torch
