// Batches of what has a place for more rows or channels (windows), and of reads and writes by an index.
#include <algorithm>
#include <array>
#include <numeric>

#include "ops/common.h"
#include "ops/shape_common.h"
#include "passes/batching.h"

namespace thunder {
namespace {

std::vector<int64_t> order_with(int64_t rank, int64_t from, int64_t to) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return order;
}

Expr move_dim(const Expr& x, int64_t from, int64_t to) { return ops::permute(x, order_with(x.rank(), from, to)); }

// Two neighbouring dimensions as one.
Expr merged(const Expr& x, size_t first) {
  Dims shape = x.shape();
  shape[first] *= shape[first + 1];
  shape.erase(shape.begin() + static_cast<long>(first) + 1);
  return ops::reshape(x, shape);
}

// One dimension as `outer` times `inner`.
Expr divided(const Expr& x, size_t at, const Dim& outer, const Dim& inner) {
  Dims shape = x.shape();
  shape[at] = inner;
  shape.insert(shape.begin() + static_cast<long>(at), outer);
  return ops::reshape(x, shape);
}

Dims in_front(const Dim& first, Dims rest) {
  rest.insert(rest.begin(), first);
  return rest;
}

int64_t wrapped(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

// Pools: each plane is a sample of its own.
struct PoolOp {
  const char* op;
  int64_t spatial;
  std::array<const char*, 3> planes;  // the tensors that have them
};
constexpr PoolOp kPools[] = {
    {"torch.max_pool2d_with_indices", 2, {"input"}},
    {"torch.max_pool3d_with_indices", 3, {"input"}},
    {"torch.max_pool2d_with_indices_backward", 2, {"grad_output", "self", "indices"}},
    {"torch.max_pool3d_with_indices_backward", 3, {"grad_output", "self", "indices"}},
    {"torch.avg_pool2d", 2, {"input"}},
    {"torch.avg_pool3d", 3, {"input"}},
    {"torch.avg_pool2d_backward", 2, {"grad_output", "self"}},
    {"torch.avg_pool3d_backward", 3, {"grad_output", "self"}},
    {"torch._adaptive_avg_pool2d", 2, {"input"}},
    {"torch._adaptive_avg_pool2d_backward", 2, {"grad_output", "self"}},
};

// All their tensors have as many dimensions as the result.
constexpr const char* kAlongDim[] = {"prims.take_along_axis",
                                     "prims.scatter",
                                     "prims.scatter_value",
                                     "prims.scatter_add",
                                     "prims.scatter_reduce",
                                     "prims.cumsum",
                                     "prims.cumprod",
                                     "prims.logcumsumexp",
                                     "prims.cummax",
                                     "prims.cummin",
                                     "prims.sort",
                                     "prims.topk",
                                     "torch.cumprod_backward",
                                     "torch.logcumsumexp_backward"};

}  // namespace

Expr Batching::in_rows(Value v) { return merged(whole(v), 0); }

Expr Batching::from_rows(const Expr& x, const Dim& rows) { return divided(x, 0, size_, rows); }

Expr Batching::in_channels(Value v) { return merged(move_dim(whole(v), 0, 1), 1); }

Expr Batching::from_channels(const Expr& x, const Dim& channels) {
  return move_dim(divided(x, 1, size_, channels), 1, 0);
}

// ---- windows --------------------------------------------------------------------------------------------------------

Arg Batching::in_windows(const Call& call) {
  const std::string& name = call.op->full_name;
  if (name == "prims.convolution") return convolution(call.arguments(), call.output.value().shape());
  if (name == "torch.convolution_backward") return convolution_backward(call.arguments());
  if (name.ends_with("_backward"))
    if (const Arg scan = along_dim(call); !scan.is_none()) return scan;
  const auto* pool = std::find_if(std::begin(kPools), std::end(kPools), [&](const PoolOp& p) { return name == p.op; });
  if (pool == std::end(kPools)) return {};
  ArgList args = call.args;
  bool folds = false;
  for (const char* param : pool->planes) {
    if (!param) continue;
    Arg& x = args[static_cast<size_t>(call.op->schema.index_of(param))];
    folds = x.value().rank() == pool->spatial + 2;
    x = folds ? in_rows(x.value()) : whole(x.value());
  }
  const Arg result = b_.call(*call.op, std::move(args));
  if (!folds) return result;
  const Dim rows = values_in(call.output)[0].shape()[0];
  return map_values(result, [&](Value v) { return from_rows(b_.expr(v), rows).arg(); });
}

// One bias for each sample, in the shape of what it is added to.
Expr Batching::bias_for(Value bias, const Dims& shape) {
  return b_("prims.broadcast_in_dim", whole(bias), shape, Arg(std::vector<int64_t>{0, 2}));
}

// One filter sees more rows; a filter for each sample is as many groups.
Arg Batching::convolution(const Args& a, const Dims& out) {
  const Value x = a.value("input"), w = a.value("weight");
  const bool own_bias = a.has("bias") && is_batch(a.value("bias"));
  const bool groups = is_batch(w);
  Expr y;
  if (groups)
    y = from_channels(b_("prims.convolution", in_channels(x), in_rows(w), Arg(), a["stride"], a["padding"],
                         a["dilation"], a["transposed"], a["output_padding"], a.dim("groups") * size_),
                      out[1]);
  else
    y = from_rows(b_("prims.convolution", in_rows(x), w, own_bias ? Arg() : a["bias"], a["stride"], a["padding"],
                     a["dilation"], a["transposed"], a["output_padding"], a["groups"]),
                  out[0]);
  if (!a.has("bias") || !(groups || own_bias)) return y;
  return b_("prims.add", y, bias_for(a.value("bias"), y.shape()));
}

// The gradient of one filter for each sample is that of as many groups.
Arg Batching::convolution_backward(const Args& a) {
  const Value g = a.value("grad_output"), x = a.value("input"), w = a.value("weight");
  const ArgList& mask = a["output_mask"].items();
  auto gradients = [&](const Expr& grad, const Expr& input, const Expr& weight, const Dim& groups, size_t i) {
    ArgList one = {i == 0, i == 1, false};
    return b_("torch.convolution_backward", grad, input, weight, Arg(), a["stride"], a["padding"], a["dilation"],
              a["transposed"], a["output_padding"], groups, Arg::list(std::move(one)))[i];
  };
  const Dim groups = a.dim("groups");
  ArgList out(3);
  if (mask[0].boolean())
    out[0] = is_batch(w)
                 ? from_channels(gradients(in_channels(g), in_channels(x), in_rows(w), groups * size_, 0), x.shape()[1])
                 : from_rows(gradients(in_rows(g), in_rows(x), b_.expr(w), groups, 0), x.shape()[0]);
  if (mask[1].boolean())
    out[1] = from_rows(gradients(in_channels(g), in_channels(x), in_rows(w), groups * size_, 1), w.shape()[0]);
  if (mask[2].boolean()) {
    std::vector<int64_t> dims = {1};
    for (int64_t d = 3; d <= g.rank(); ++d) dims.push_back(d);
    out[2] = b_("prims.sum", whole(g), Arg(dims));
  }
  return Arg::tuple(std::move(out));
}

// ---- indices --------------------------------------------------------------------------------------------------------

Arg Batching::along_dim(const Call& call) {
  const std::string& name = call.op->full_name;
  if (std::find(std::begin(kAlongDim), std::end(kAlongDim), name) == std::end(kAlongDim)) return {};
  ArgList args = call.args;
  int64_t rank = 0;
  for (Arg& x : args) {
    if (!x.is_tensor()) continue;
    rank = x.value().rank();
    if (rank == 0) return {};
    x = whole(x.value());
  }
  Arg& dim = args[static_cast<size_t>(call.op->schema.index_of("dim"))];
  dim = wrapped(call.arguments().integer("dim"), rank) + 1;
  return b_.call(*call.op, std::move(args));
}

Arg Batching::indexed(const Call& call) {
  const Args a = call.arguments();
  const std::string& name = call.op->full_name;
  if (name == "prims.take") return take(a.value("a"), a.value("index"), a.integer("dim"));
  if (name == "prims.index_add" || name == "prims.index_copy") return write_slices(call);
  if (name == "prims.index") return index(a, false);
  if (name == "prims.index_put") return index(a, true);
  return {};
}

// An index of each sample for all elements of the batch's `shape`: out of range is out of range for its sample alone.
Expr Batching::index_along(Value index, int64_t dim, const Dims& shape) {
  const Expr i = b_("torch.to", ops::reshape(whole(index), {size_, index.tensor().numel()}), DType::i64);
  return b_("prims.broadcast_in_dim", i, shape, Arg(std::vector<int64_t>{0, dim + 1}));
}

Arg Batching::take(Value x, Value i, int64_t dim) {
  if (x.rank() == 0) return {};
  dim = wrapped(dim, x.rank());
  if (!is_batch(i)) return b_("prims.take", whole(x), i, dim + 1);
  const Dim count = i.tensor().numel();
  if (is_batch(x)) {
    Dims shape = in_front(size_, x.shape());
    shape[static_cast<size_t>(dim) + 1] = count;
    return b_("prims.take_along_axis", whole(x), index_along(i, dim, shape), dim + 1);
  }
  const Expr taken = b_("prims.take", x, merged(ops::reshape(whole(i), {size_, count}), 0), dim);
  return move_dim(divided(taken, static_cast<size_t>(dim), size_, count), dim, 0);
}

// Where each sample has a start of its own, what lies behind it is read by an index: nobody waits for the starts.
Arg Batching::narrow_at(const Call& call) {
  if (call.op->full_name != "prims.narrow_at") return {};
  const Args a = call.arguments();
  const Value x = a.value("a"), start = a.value("start");
  const int64_t dim = a.integer("dim");
  const Dim &size = x.shape()[static_cast<size_t>(dim)], length = a.dim("length");
  if (!is_batch(start)) return b_("prims.narrow_at", whole(x), dim + 1, start, length);
  const Dims places = {size_, length};
  auto wide = [&](const Expr& e, int64_t at) {
    return b_("prims.broadcast_in_dim", b_("torch.to", e, DType::i64), places, Arg(std::vector<int64_t>{at}));
  };
  const Expr steps = b_("prims.iota", length, 0, 1, kw("dtype", DType::i64), kw("device", x.tensor().device));
  const Expr index = b_("torch.remainder", b_("prims.add", wide(whole(start), 0), wide(steps, 1)), size);
  const Value sample = b_.arena()->make_value(TensorType{DType::i64, x.tensor().device, {length}, {Dim(1)}, false});
  set(sample, index);
  return take(x, sample, dim);
}

Arg Batching::write_slices(const Call& call) {
  const Args a = call.arguments();
  const std::string& name = call.op->full_name;
  const Value x = a.value("a"), i = a.value("index"), source = a.value("source");
  if (x.rank() == 0 || source.rank() != x.rank()) return {};
  const int64_t dim = wrapped(a.integer("dim"), x.rank());
  if (!is_batch(i)) return b_(name, whole(x), dim + 1, i, whole(source));
  const char* of_each = name == "prims.index_add" ? "prims.scatter_add" : "prims.scatter";
  const Expr values = whole(source);
  return b_(of_each, whole(x), dim + 1, index_along(i, dim, values.shape()), values);
}

// Each sample's index is one more.
Arg Batching::index(const Args& a, bool puts) {
  const Value x = a.value("a");
  const ArgList& given = a["indices"].items();
  std::vector<size_t> places;
  int64_t rank = 0;
  bool any = false;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].is_none()) continue;
    const Value v = given[i].value();
    if (!is_integral(v.dtype()) || v.dtype() == DType::u8) return {};
    places.push_back(i);
    rank = std::max(rank, v.rank());
    any |= is_batch(v);
  }
  if (places.empty() || places.back() - places.front() + 1 != places.size() || (any && places.front() > 0)) return {};
  ArgList indices(given.begin(), given.end());
  for (Arg& i : indices) {
    if (i.is_none() || !is_batch(i.value())) continue;
    Dims shape(static_cast<size_t>(rank - i.value().rank()) + 1, Dim(1));
    shape[0] = size_;
    shape.insert(shape.end(), i.value().shape().begin(), i.value().shape().end());
    i = ops::reshape(whole(i.value()), shape);
  }
  if (any && !puts && !is_batch(x)) return b_("prims.index", x, Arg::list(std::move(indices)));
  Arg first;
  if (any) {
    Dims shape(static_cast<size_t>(rank) + 1, Dim(1));
    shape[0] = size_;
    const Expr samples = b_("prims.iota", size_, 0, 1, kw("dtype", DType::i64), kw("device", x.tensor().device));
    first = ops::reshape(samples, shape);
  }
  indices.insert(indices.begin(), first);
  if (!puts) return b_("prims.index", whole(x), Arg::list(std::move(indices)));
  const Value values = a.value("values");
  const int64_t most = rank + x.rank() - static_cast<int64_t>(places.size());
  Dims shape(static_cast<size_t>(most - values.rank()) + 1, Dim(1));
  shape[0] = size_;
  shape.insert(shape.end(), values.shape().begin(), values.shape().end());
  return b_("prims.index_put", whole(x), Arg::list(std::move(indices)), ops::reshape(whole(values), shape),
            a["accumulate"]);
}

}  // namespace thunder
