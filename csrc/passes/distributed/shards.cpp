#include "passes/distributed/shards.h"

#include <algorithm>

#include "core/error.h"

namespace thunder::distributed {
namespace {

using Extent = Shards::Extent;
using Extents = Shards::Extents;

[[noreturn]] void refuse(const Call& call, const std::string& why) {
  throw Error(ErrorKind::NotImplemented, cat("[", call.op->name, "] ", why));
}

[[noreturn]] void refuse_mixing(const Call& call) {
  refuse(call, "the result depends on other processes' shards of an argument");
}

Extent meet(const Call& call, Extent a, Extent b) {
  if (a == Extent::Any) return b;
  if (b == Extent::Any || a == b) return a;
  refuse(call, "a shard of one argument meets the whole of another");
}

void must_not_be_shard(const Call& call, Extent e) {
  if (e == Extent::Shard) refuse_mixing(call);
}

size_t canonical(int64_t dim, size_t rank) {
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

const TensorType& first_result(const Call& call) {
  const TensorType* found = nullptr;
  visit_outputs(call, [&](Value v) {
    if (!found && v.type().is_tensor()) found = &v.tensor();
  });
  THUNDER_ASSERT(found, call.op->name, " has no tensor among its results");
  return *found;
}

// Dimensions next to each other that hold the same elements before and after a reshape.
struct DimGroup {
  size_t first, last, new_first, new_last;
};

std::vector<DimGroup> groups_of(const Dims& before, const Dims& after) {
  std::vector<DimGroup> out;
  for (size_t i = 0, j = 0; i < before.size() || j < after.size();) {
    DimGroup g{i, 0, j, 0};
    Dim a = i < before.size() ? before[i++] : Dim(1), b = j < after.size() ? after[j++] : Dim(1);
    while (!a.same(b)) {
      const bool known = a.is_constant() && b.is_constant();
      const bool grow_a = known && a.constant() < b.constant();
      if (!known || (grow_a ? i == before.size() : j == after.size())) {
        i = before.size(), j = after.size();
        break;
      }
      (grow_a ? a : b) *= grow_a ? before[i++] : after[j++];
    }
    g.last = i, g.new_last = j;
    out.push_back(g);
  }
  return out;
}

}  // namespace

void Shards::set_shard(Value v, int64_t dim) {
  Extents e(v.shape().size(), Extent::Whole);
  e.at(canonical(dim, e.size())) = Extent::Shard;
  known_.set(v, std::move(e));
}

std::optional<int64_t> Shards::dim_of(Value v) const {
  const Extents& e = known_[v];
  const auto at = std::find(e.begin(), e.end(), Extent::Shard);
  return at == e.end() ? std::nullopt : std::optional<int64_t>(at - e.begin());
}

// A dimension of one element is the same all along.
Extents Shards::of(Value v) const {
  const Dims& shape = v.shape();
  Extents out = known_[v];
  if (out.size() != shape.size()) out.assign(shape.size(), Extent::Whole);
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i] == Extent::Whole && shape[i].same(Dim(1))) out[i] = Extent::Any;
  return out;
}

bool Shards::any_shard(const Call& call) const {
  bool any = false;
  visit_all_inputs(call, [&](Value v) { any = any || dim_of(v).has_value(); });
  return any;
}

void Shards::add(const Call& call) {
  if (!call.op->is_prim() && !call.body.empty()) {
    for (const Call* inner : call.body) add(*inner);
    return;
  }
  const Extents extents = result_of(call);
  visit_outputs(call, [&](Value v) {
    if (v.type().is_tensor()) known_.set(v, extents);
  });
}

Extents Shards::result_of(const Call& call) const {
  const Op& op = *call.op;
  const std::string& name = op.schema.name;
  if (name == "full" || (op.has(kCreation) && op.has(kRandom) && name != "randperm"))
    return Extents(first_result(call).shape.size(), Extent::Any);
  if (op.has(kPointwise | kIdentity) || name == "restride" || name == "device_put" || name.starts_with("bernoulli"))
    return pointwise(call);
  if (name == "broadcast_in_dim") return broadcast(call);
  if (name == "view" || name == "reshape") return reshaped(call);
  if (!any_shard(call)) return {};
  const Args args = call.arguments();
  if (name == "transpose") {
    const Extents a = of(args.value("a"));
    Extents out;
    for (int64_t from : args.integers("permutation")) out.push_back(a.at(static_cast<size_t>(from)));
    return out;
  }
  if (name == "slice" || name == "pad" || name == "flip") return sliced(call);
  if (op.has(kReduction) || name == "squeeze") return reduced(call);
  if (name == "cat") return joined(call);
  if (name == "take" || op.schema.params.back().name == "dim" || name == "sort" || name == "topk") return taken(call);
  if (name == "matmul") return product(call);
  if (name == "linear") return linear(call);
  refuse(call, "it is not known what it does to a shard of a tensor");
}

Extents Shards::pointwise(const Call& call) const {
  Extents out(first_result(call).shape.size(), Extent::Any);
  visit_all_inputs(call, [&](Value v) {
    if (!v.type().is_tensor()) return;
    const Extents e = of(v);
    if (e.size() != out.size()) refuse(call, "its arguments differ in rank");
    for (size_t i = 0; i < out.size(); ++i) out[i] = meet(call, out[i], e[i]);
  });
  return out;
}

Extents Shards::broadcast(const Call& call) const {
  const Args args = call.arguments();
  const Extents a = of(args.value("a"));
  const Dims &before = args.tensor("a").shape, &after = first_result(call).shape;
  const std::vector<int64_t> places = args.integers("broadcast_dims");
  Extents out(after.size(), Extent::Any);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto to = static_cast<size_t>(places.at(i));
    if (before[i].same(after[to])) out[to] = a[i];
    else must_not_be_shard(call, a[i]);
  }
  return out;
}

Extents Shards::reshaped(const Call& call) const {
  const Value from = call.arguments().value("a");
  const Extents a = of(from);
  const Dims &before = from.shape(), &after = first_result(call).shape;
  Extents out(after.size(), Extent::Whole);
  for (const DimGroup& g : groups_of(before, after)) {
    const bool same_size = g.last - g.first == 1 && g.new_last - g.new_first == 1;
    bool shard = false, any = true;
    for (size_t i = g.first; i < g.last; ++i) shard |= a[i] == Extent::Shard, any &= a[i] == Extent::Any;
    // Sizes are those of the whole to who asks for another number of dimensions there.
    if (shard && !same_size) refuse(call, "the sizes of a dimension that is divided among processes change");
    for (size_t j = g.new_first; j < g.new_last; ++j)
      out[j] = same_size ? a[g.first] : any ? Extent::Any : Extent::Whole;
  }
  return out;
}

// What leaves out, adds or reverses elements along some dimensions.
Extents Shards::sliced(const Call& call) const {
  const Args args = call.arguments();
  const Dims &before = args.tensor("a").shape, &after = first_result(call).shape;
  Extents out = of(args.value("a"));
  std::vector<char> changed(out.size(), 0);
  if (call.op->schema.name == "flip") {
    for (int64_t d : args.integers("dims")) changed[canonical(d, out.size())] = 1;
  } else if (call.op->schema.name == "pad") {
    const ArgList& config = args["config"].items();
    for (size_t i = 0; i < out.size(); ++i)
      for (const Arg& n : config[i].items()) changed[i] |= n.dim().same(Dim(0)) ? 0 : 1;
  } else {
    for (size_t i = 0; i < out.size(); ++i) changed[i] = before[i].same(after[i]) ? 0 : 1;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (!changed[i]) continue;
    must_not_be_shard(call, out[i]);
    out[i] = Extent::Whole;
  }
  return out;
}

Extents Shards::reduced(const Call& call) const {
  const Args args = call.arguments();
  const Extents a = of(args.value("a"));
  const bool one = call.op->schema.index_of("dim") >= 0;
  std::vector<char> gone(a.size(), 0);
  if (one && !args.has("dim")) gone.assign(a.size(), 1);
  else if (one) gone[canonical(args.integer("dim"), a.size())] = 1;
  else
    for (int64_t d : args.integers("dims")) gone[canonical(d, a.size())] = 1;
  Extents out;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!gone[i]) out.push_back(a[i]);
    else must_not_be_shard(call, a[i]);
  }
  return out;
}

Extents Shards::joined(const Call& call) const {
  const Args args = call.arguments();
  const size_t dim = canonical(args.integer("dim"), first_result(call).shape.size());
  Extents out(first_result(call).shape.size(), Extent::Any);
  for (Value v : args.values("tensors")) {
    const Extents e = of(v);
    must_not_be_shard(call, e.at(dim));
    for (size_t i = 0; i < out.size(); ++i) out[i] = meet(call, out[i], e[i]);
  }
  out[dim] = Extent::Whole;
  return out;
}

// What moves elements along one dimension, or finds them there by indices that all processes have.
Extents Shards::taken(const Call& call) const {
  const Args args = call.arguments();
  Extents out = of(args.value("a"));
  const size_t dim = canonical(args.integer("dim"), out.size());
  must_not_be_shard(call, out.at(dim));
  if (call.op->schema.index_of("index") >= 0) {
    const Extents index = of(args.value("index"));
    const bool along = call.op->schema.name == "take_along_axis";
    if (!along && call.op->schema.name != "take") refuse(call, "it is not known what it does to a shard of a tensor");
    for (size_t i = 0; i < index.size(); ++i) {
      if (along && i != dim) out[i] = meet(call, out[i], index[i]);
      else must_not_be_shard(call, index[i]);
    }
  }
  out[dim] = Extent::Whole;
  return out;
}

Extents Shards::product(const Call& call) const {
  const Args args = call.arguments();
  const Extents a = of(args.value("a")), b = of(args.value("b"));
  const size_t n = a.size();
  must_not_be_shard(call, a[n - 1]);
  must_not_be_shard(call, b[n - 2]);
  Extents out = a;
  for (size_t i = 0; i + 2 < n; ++i) out[i] = meet(call, a[i], b[i]);
  out[n - 1] = b[n - 1];
  return out;
}

Extents Shards::linear(const Call& call) const {
  const Args args = call.arguments();
  Extents out = of(args.value("a"));
  const Extents w = of(args.value("w"));
  must_not_be_shard(call, out.back());
  must_not_be_shard(call, w[1]);
  out.back() = args.has("bias") ? meet(call, w[0], of(args.value("bias"))[0]) : w[0];
  return out;
}

}  // namespace thunder::distributed
