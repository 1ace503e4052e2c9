#include "ops/prims/view_rules.h"

#include <algorithm>
#include <cstdlib>

#include "core/builder.h"
#include "core/error.h"
#include "ops/shape_common.h"

namespace thunder::ops::prims {
namespace {

size_t rank_of(const Args& a) { return a.tensor("a").shape.size(); }

/// Dimension i of the result is dimension i of the operand.
IndexMap identity_map(size_t rank) {
  IndexMap map;
  for (size_t i = 0; i < rank; ++i) map.places.push_back({.terms = {{i}}});
  return map;
}

}  // namespace

// ---- index maps -----------------------------------------------------------------------------------------------------

std::optional<IndexMap> same_places(const Args& a, const TensorType&) { return identity_map(rank_of(a)); }

std::optional<IndexMap> row_major(const Args&, const TensorType&) { return IndexMap::in_row_major_order(); }

std::optional<IndexMap> broadcast_map(const Args& a, const TensorType& result) {
  const Dims& from = a.tensor("a").shape;
  const std::vector<int64_t> dims = a.integers("broadcast_dims");
  IndexMap map;
  map.places.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = static_cast<size_t>(dims[i]);
    // The type has found out whether a computed size is 1: the stride of a repeated dimension is 0.
    if (!from[i].same(1) && !result.strides[at].same(0)) map.places[i].terms = {{at}};
  }
  return map;
}

std::optional<IndexMap> transpose_map(const Args& a, const TensorType&) {
  const std::vector<int64_t> order = a.integers("permutation");
  IndexMap map;
  map.places.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) map.places[static_cast<size_t>(order[i])].terms = {{i}};
  return map;
}

std::optional<IndexMap> slice_map(const Args& a, const TensorType&) {
  const Dims start = a.dims("start_indices"), step = a.dims("strides");
  IndexMap map;
  for (size_t i = 0; i < start.size(); ++i) map.places.push_back({.offset = start[i], .terms = {{i, step[i]}}});
  return map;
}

std::optional<IndexMap> squeeze_map(const Args& a, const TensorType&) {
  const std::vector<int64_t> dropped = wrapped_dims("squeeze", a["dims"], a.tensor("a").rank());
  IndexMap map;
  map.places.resize(rank_of(a));
  size_t next = 0;
  for (size_t i = 0; i < map.places.size(); ++i)
    if (std::find(dropped.begin(), dropped.end(), static_cast<int64_t>(i)) == dropped.end())
      map.places[i].terms = {{next++}};
  return map;
}

std::optional<IndexMap> diagonal_map(const Args& a, const TensorType& result) {
  const int64_t rank = a.tensor("a").rank(), offset = a.integer("offset");
  const size_t rows = static_cast<size_t>(wrapped_dim("diagonal", a["dim1"], rank));
  const size_t columns = static_cast<size_t>(wrapped_dim("diagonal", a["dim2"], rank));
  const size_t along = result.shape.size() - 1;
  // Eager leaves a view without elements where its base is.
  const bool empty = result.shape.back().same(0);
  IndexMap map;
  size_t next = 0;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
    IndexMap::Place place{.terms = {{i == rows || i == columns ? along : next++}}};
    if (!empty && i == (offset > 0 ? columns : rows)) place.offset = std::abs(offset);
    map.places.push_back(std::move(place));
  }
  return map;
}

std::optional<IndexMap> unfold_map(const Args& a, const TensorType&) {
  IndexMap map = identity_map(rank_of(a));
  if (map.places.empty()) return map;
  if (a["step"].kind() != Arg::Kind::Int) return std::nullopt;  // a number that only the run knows
  const size_t dim = static_cast<size_t>(wrapped_dim("unfold", a["dimension"], a.tensor("a").rank()));
  map.places[dim].terms = {{dim, a.dim("step")}, {map.places.size()}};
  return map;
}

std::optional<IndexMap> flip_map(const Args& a, const TensorType&) {
  const Dims& shape = a.tensor("a").shape;
  IndexMap map = identity_map(shape.size());
  if (shape.empty()) return map;
  for (const int64_t dim : wrapped_dims("flip", a["dims"], a.tensor("a").rank())) {
    const size_t i = static_cast<size_t>(dim);
    map.places[i] = {.offset = shape[i] - 1, .terms = {{i, Dim(-1)}}};
  }
  return map;
}

// ---- write-backs ----------------------------------------------------------------------------------------------------

namespace {

constexpr const char* kOverlap =
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation.";

// Error (Runtime) unless each element has a place of its own, as far as sizes and strides tell.
void check_overlap(const Dims& shape, const Dims& strides, const char* op) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].specialize() == 0) return;
    if (shape[i].specialize() > 1) dims.emplace_back(strides[i].specialize(), shape[i].specialize());
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;  // of the dimensions with smaller strides
  for (const auto& [stride, size] : dims) {
    THUNDER_CHECK(stride > reach, Runtime, op, kOverlap);
    reach += stride * (size - 1);
  }
}

}  // namespace

Arg write_as_it_is(Builder&, const Args&, const Expr&, const Expr& written, const char*) { return written.arg(); }

Arg write_reshaped(Builder& b, const Args&, const Expr& base, const Expr& written, const char*) {
  return b("torch.reshape", written, base.shape());
}

Arg write_broadcast(Builder& b, const Args&, const Expr& base, const Expr& written, const char* op) {
  THUNDER_CHECK(base.tensor().numel() == written.tensor().numel(), Runtime, op, kOverlap);
  return b("torch.reshape", written, base.shape());
}

Arg write_transposed(Builder& b, const Args& view, const Expr&, const Expr& written, const char*) {
  const std::vector<int64_t> order = view.integers("permutation");
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return b("prims.transpose", written, Arg(std::move(inverse)));
}

Arg write_slice(Builder& b, const Args& view, const Expr& base, const Expr& written, const char*) {
  return b("prims.slice_scatter", base, written, view["start_indices"], view["end_indices"], view["strides"]);
}

Arg write_narrow(Builder& b, const Args& view, const Expr& base, const Expr& written, const char*) {
  const size_t dim = static_cast<size_t>(view.integer("dim"));
  Expr steps = b("prims.iota", written.shape()[dim], 0, 1, kw("dtype", DType::i64), kw("device", base.tensor().device));
  Expr places =
      b("torch.remainder", b("torch.add", steps, b("torch.to", view["start"], DType::i64)), base.shape()[dim]);
  return b("prims.index_copy", base, view["dim"], places, written);
}

Arg write_as_strided(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op) {
  check_overlap(written.shape(), view.dims("stride"), op);
  return b("prims.as_strided_scatter", base, written, view["size"], view["stride"], view["storage_offset"]);
}

Arg write_diagonal(Builder& b, const Args& view, const Expr& base, const Expr& written, const char*) {
  return b("prims.diagonal_scatter", base, written, view["offset"], view["dim1"], view["dim2"]);
}

Arg write_as_dtype(Builder& b, const Args&, const Expr& base, const Expr& written, const char*) {
  return b("prims.view_dtype", written, base.dtype());
}

Arg write_as_complex(Builder& b, const Args&, const Expr&, const Expr& written, const char*) {
  return b("prims.view_as_complex", written);
}

Arg write_conjugated(Builder& b, const Args&, const Expr&, const Expr& written, const char*) {
  return b("prims.conj", written);
}

Arg write_as_real(Builder& b, const Args&, const Expr&, const Expr& written, const char*) {
  return b("prims.view_as_real", written);
}

}  // namespace thunder::ops::prims
