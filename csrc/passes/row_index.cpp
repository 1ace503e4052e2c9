#include "passes/row_index.h"

#include <algorithm>

#include "core/error.h"
#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder {
namespace {

bool is_index_dtype(DType t) { return t == DType::i64 || t == DType::i32; }

// The order of elements, and their number, stay the same.
bool only_reshapes(const Call& call) {
  const std::string& name = call.op->full_name;
  if (name == "prims.view" || name == "prims.reshape" || name == "prims.squeeze" || name == "prims.detach") return true;
  if (name != "prims.broadcast_in_dim") return false;
  return call.args[0].value().tensor().numel().same(call.output.value().tensor().numel());
}

// Behind views that change nothing but the shape: equal indices are known by it.
Value root_of(const Producers& producers, Value v) {
  Value root = v;
  for (const Call* maker = producers[v]; maker && maker->output.is_value() && only_reshapes(*maker);
       maker = producers[v]) {
    v = maker->args[0].value();
    if (producers.is_visible(v)) root = v;
  }
  return root;
}

// What a broadcast repeats, where only `dim` of the result tells its elements apart.
Value without_broadcast(const Producers& producers, Value v, size_t dim) {
  const Call* maker = producers[v];
  if (!is_call(maker, "prims.broadcast_in_dim")) return {};
  const Value from = maker->args[0].value();
  const std::vector<int64_t> dims = maker->arguments().integers("broadcast_dims");
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != static_cast<int64_t>(dim) && !from.shape()[i].same(1)) return {};
  return from.tensor().numel().same(v.shape()[dim]) ? from : Value();
}

std::optional<RowIndex> vector_index(const Producers& producers, Value v, const Dim& count, const Dim& size) {
  if (!is_index_dtype(v.dtype())) return std::nullopt;
  const Value root = root_of(producers, v);
  if (!producers.is_visible(root)) return std::nullopt;
  return RowIndex{{root}, {size}, {count}, false, {}};
}

}  // namespace

void Producers::add(const Call& call) {
  visit_outputs(call, [&](Value v) { visible_.set(v, 1); });
  for (Value v : call.symbols) visible_.set(v, 1);
  add_inner(call);
}

void Producers::add_inner(const Call& call) {
  for (const Call* inner : call.body) add_inner(*inner);
  if (call.body.empty()) visit_outputs(call, [&](Value v) { makers_.set(v, &call); });
}

void Producers::show(const Call& call, bool visible) {
  ValueSet own;
  visit_outputs(call, [&](Value v) { own.set(v, 1); });
  for (const Call* inner : call.body)
    visit_all_outputs(*inner, [&](Value v) {
      if (!own[v]) visible_.set(v, visible);
    });
}

Dim RowIndex::count() const {
  Dim n = 1;
  for (const Dim& d : shape) n *= d;
  return n;
}

Dim RowIndex::rows() const {
  Dim n = 1;
  for (const Dim& d : sizes) n *= d;
  return n;
}

std::string RowIndex::key() const {
  std::string out = wraps ? "w" : "";
  for (size_t i = 0; i < parts.size(); ++i) out += cat(parts[i].id(), "/", sizes[i], ",");
  return skipped ? cat(out, "-", *skipped) : out;
}

Expr RowIndex::flat(Builder& b) const {
  Expr out;
  for (size_t i = 0; i < parts.size(); ++i) {
    Expr part = b.expr(parts[i]);
    const bool is_whole = part.tensor().numel().same(count());
    part = is_whole ? ops::reshape(part, {count()}) : ops::reshape(ops::expand(part, shape), {count()});
    if (wraps) part = b("torch.where", b("torch.lt", part, 0), b("torch.add", part, sizes[i]), part);
    out = i == 0 ? part : b("torch.add", b("torch.mul", out, sizes[i]), part);
  }
  return skipped ? b("torch.where", b("torch.eq", out, *skipped), -1, out) : out;
}

std::optional<RowIndex> index_along(const Producers& producers, Value index, size_t dim, const Dim& size) {
  const Dims& shape = index.shape();
  const Dim count = shape[dim];
  if (index.tensor().numel().same(count)) return vector_index(producers, index, count, size);
  const Value from = without_broadcast(producers, index, dim);
  return from ? vector_index(producers, from, count, size) : std::nullopt;
}

std::optional<RowIndex> index_of_list(const Producers& producers, const Arg& indices, const Dims& shape, size_t& dim) {
  const ArgList& list = indices.items();
  RowIndex out;
  out.wraps = true;
  std::vector<Dims> shapes;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_none()) continue;
    if (!list[i].is_tensor() || !is_index_dtype(list[i].value().dtype())) return std::nullopt;
    if (out.parts.empty()) dim = i;
    if (i != dim + out.parts.size()) return std::nullopt;
    const Value root = root_of(producers, list[i].value());
    const bool of_this_shape = list[i].value().shape().size() == root.shape().size();
    out.parts.push_back(producers.is_visible(root) && (list.size() == 1 || of_this_shape) ? root : list[i].value());
    out.sizes.push_back(shape[i]);
    shapes.push_back(list[i].value().shape());
    if (!producers.is_visible(out.parts.back())) return std::nullopt;
  }
  if (out.parts.empty()) return std::nullopt;
  out.shape = ops::broadcast_of("index", shapes, ErrorKind::Index);
  return out;
}

std::optional<Gather> gather_of(const Producers& producers, Value v, size_t dim) {
  const Call* maker = producers[v];
  if (!maker || !maker->op->is_prim() || maker->args.empty() || !maker->args[0].is_tensor()) return std::nullopt;
  const Value from = maker->args[0].value();
  if (!producers.is_visible(from) || from.rank() != v.rank() || from.rank() == 0) return std::nullopt;
  const Dim& size = from.shape()[dim];
  std::optional<RowIndex> index;
  if (is_call(maker, "prims.take") || is_call(maker, "prims.take_along_axis")) {
    const Args a = maker->arguments();
    const int64_t along = ops::canonical_dim("take", a.integer("dim"), from.rank());
    if (along != static_cast<int64_t>(dim)) return std::nullopt;
    const Value places = a.value("index");
    if (places.rank() == 0) return std::nullopt;
    index = index_along(producers, places, is_call(maker, "prims.take") ? 0 : dim, size);
  } else if (is_call(maker, "prims.index")) {
    size_t at = 0;
    index = index_of_list(producers, maker->args[1], from.shape(), at);
    if (index && (at != dim || index->parts.size() != 1 || index->shape.size() != 1)) return std::nullopt;
  }
  if (!index) return std::nullopt;
  for (size_t i = 0; i < v.shape().size(); ++i)
    if (i != dim && !v.shape()[i].same(from.shape()[i])) return std::nullopt;
  return Gather{from, *index};
}

}  // namespace thunder
