#include "fuser/graph.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "fuser/kernel.h"
#include "ops/common.h"

namespace thunder::fuser {
namespace {

bool is_supported(DType t) {
  switch (t) {
    case DType::f32:
    case DType::f64:
    case DType::bf16:
    case DType::f16:
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u8:
    case DType::boolean: return true;
    default: return false;
  }
}

// Of a dtype that kernels know, and not known to be empty.
bool is_element_type(const Type& type) {
  return type.is_tensor() && is_supported(type.tensor().dtype) && type.tensor().strided() &&
         !Size(product(type.tensor().shape)).is(0);
}

// All tensors of one device; numbers are literals or symbols.
bool is_plain(const Call& call) {
  if (!call.output.is_value() || !is_element_type(call.output.value().type())) return false;
  const Device device = call.output.value().tensor().device;
  bool ok = true;
  for_each_input(call, [&](Value v) {
    if (v.type().is_number()) ok = ok && v.type().number().dim.has_value();
    else ok = ok && is_element_type(v.type()) && v.tensor().device == device;
  });
  return ok && (device.type == DeviceType::cpu || device.type == DeviceType::cuda);
}

const std::unordered_set<std::string>& moves() {
  // clang-format off
  static const std::unordered_set<std::string> names = {
      "prims.broadcast_in_dim", "prims.transpose", "prims.view", "prims.reshape", "prims.slice", "prims.squeeze",
      "prims.cat", "prims.pad", "prims.flip", "prims.detach", "prims.restride", "prims.take", "prims.take_along_axis"};
  // clang-format on
  return names;
}
const std::unordered_set<std::string>& creations() {
  static const std::unordered_set<std::string> names = {"prims.full", "prims.iota", "prims.arange"};
  return names;
}
const std::unordered_set<std::string>& draws() {
  static const std::unordered_set<std::string> names = {"prims.uniform_at", "prims.normal_at", "prims.randint_at"};
  return names;
}
const std::unordered_set<std::string>& reductions() {
  static const std::unordered_set<std::string> names = {"prims.sum",  "prims.prod", "prims.amax",
                                                        "prims.amin", "prims.any",  "prims.all"};
  return names;
}

bool takes_plainly(const Call& call) {
  Args a = call.arguments();
  return a.value("a").rank() > 0 && a.value("index").rank() > 0 && a["dim"].kind() == Arg::Kind::Int;
}

// Each part of a cat is asked for every element, and their number is in the text as often as they are.
constexpr size_t kMaxParts = 16;

bool has_few_parts(const Call& call) { return call.arguments().values("tensors").size() <= kMaxParts; }

bool pads_plainly(const Call& call) {
  Args a = call.arguments();
  if (!a["value"].is_real_literal()) return false;
  return std::all_of(a["config"].items().begin(), a["config"].items().end(), [](const Arg& d) {
    const auto is_int = [](const Arg& x) { return x.kind() == Arg::Kind::Int; };
    return d.items().size() == 3 && std::all_of(d.items().begin(), d.items().end(), is_int) &&
           Size(d.items()[2].dim()).is(0);
  });
}

// The places and steps of a slice, the numbers of a creation.
bool starts_plainly(const Call& call) {
  const std::string& name = call.op->full_name;
  if (name == "prims.full") return call.arguments()["fill_value"].is_real_literal();
  if (name == "prims.iota")
    return call.arguments()["start"].is_real_literal() && call.arguments()["step"].is_real_literal();
  return true;
}

// What nothing is found among, eager refuses.
bool finds_something(const Call& call) {
  if (call.op->full_name != "prims.amax" && call.op->full_name != "prims.amin") return true;
  return surely_at_least(numel(call.arguments().value("a")), 1);
}

}  // namespace

bool may_fuse(const Op& op) {
  if (!op.is_prim() || op.has(kEffects)) return false;
  for (const auto* names : {&moves(), &creations(), &draws(), &reductions()})
    if (names->count(op.full_name)) return true;
  return op.has(kPointwise) && !op.scalar.empty() && !op.has(kCreation);
}

Kind kind_of(const Call& call) {
  if (!may_fuse(*call.op) || !is_plain(call)) return Kind::Barrier;
  const std::string& name = call.op->full_name;
  if (name == "prims.pad" && !pads_plainly(call)) return Kind::Barrier;
  if (name == "prims.cat" && !has_few_parts(call)) return Kind::Barrier;
  if (name.starts_with("prims.take") && moves().count(name) && !takes_plainly(call)) return Kind::Barrier;
  if (moves().count(name)) return Kind::Move;
  if (creations().count(name)) return starts_plainly(call) ? Kind::Create : Kind::Barrier;
  if (draws().count(name)) return Kind::Random;
  if (reductions().count(name))
    return reduction_of(call).which == Reduced::Neither || !finds_something(call) ? Kind::Barrier : Kind::Reduce;
  // The next number of a half is not the next float, in which halves are computed.
  const DType out = call.output.value().dtype();
  if (name.starts_with("prims.shift_") && out == DType::boolean) return Kind::Barrier;
  if (name == "prims.nextafter" && (out == DType::bf16 || out == DType::f16)) return Kind::Barrier;
  bool any = false, same_shape = true;
  for_each_input(call, [&](Value v) {
    if (!v.type().is_tensor()) return;
    any = true;
    same_shape = same_shape && same(v.shape(), call.output.value().shape());
  });
  return any && same_shape ? Kind::Pointwise : Kind::Barrier;
}

bool is_view(const Call& call) {
  if (!call.op->is_prim()) return false;
  if (call.op->has(kView)) return true;
  if (call.op->full_name != "prims.reshape") return false;
  const TensorType& from = call.arguments().tensor("a");
  return view_strides(from.shape, from.strides, call.output.value().shape()).has_value();
}

Sizes sizes(Value v) { return {v.shape().begin(), v.shape().end()}; }

Size numel(Value v) {
  Size n = 1;
  for (const Dim& d : v.shape()) n *= d;
  return n;
}

int64_t usual_numel(Value v) { return usual(numel(v)); }

size_t dim_of(const Call& call, size_t rank) {
  const int64_t dim = call.arguments().integer("dim");
  return static_cast<size_t>(ops::canonical_dim(call.op->full_name, dim, static_cast<int64_t>(rank)));
}

std::vector<bool> dims_of(const Call& call, size_t rank) {
  std::vector<bool> named(rank, false);
  if (rank == 0) return named;  // a 0-d tensor counts as having one dimension
  for (int64_t dim : call.arguments().integers("dims"))
    named[static_cast<size_t>(ops::canonical_dim(call.op->full_name, dim, static_cast<int64_t>(rank)))] = true;
  return named;
}

std::vector<size_t> memory_order(const TensorType& t) {
  std::vector<size_t> order(t.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return usual(t.strides[a]) > usual(t.strides[b]); });
  return order;
}

namespace {

Reduction in_order(const Sizes& shape, const std::vector<bool>& is_reduced, const std::vector<size_t>& order) {
  Size kept = 1, gone = 1;
  bool kept_after_gone = false, gone_after_kept = false, any_kept = false, any_gone = false;
  for (size_t i : order) {
    if (shape[i].is(1)) continue;
    if (is_reduced[i]) {
      gone *= shape[i];
      any_gone = true;
      gone_after_kept |= any_kept;
    } else {
      kept *= shape[i];
      any_kept = true;
      kept_after_gone |= any_gone;
    }
  }
  if (kept_after_gone && gone_after_kept) return {};
  if (kept_after_gone) return {Reduced::Outer, gone, kept, {}};
  return {Reduced::Inner, kept, gone, {}};
}

}  // namespace

Reduction reduction_of(const Call& call) {
  const Value a = call.arguments().value("a");
  const Sizes shape = sizes(a);
  const std::vector<bool> is_reduced = dims_of(call, shape.size());
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  Reduction r = in_order(shape, is_reduced, order);
  if (r.which != Reduced::Neither) return r;
  order = memory_order(a.tensor());
  r = in_order(shape, is_reduced, order);
  size_t last = 0;
  for (size_t i : order) {
    if (is_reduced[i] || shape[i].is(1)) continue;
    if (i < last) return {};
    last = i;
  }
  r.order = order;
  return r;
}

std::string storage_name(DType t) {
  switch (t) {
    case DType::f32: return "float";
    case DType::f64: return "double";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i64: return "int64";
    case DType::i32: return "int32";
    case DType::i16: return "int16";
    case DType::i8: return "int8";
    case DType::u8: return "uint8";
    default: return "bool";
  }
}

std::string compute_name(DType t) { return t == DType::bf16 || t == DType::f16 ? "float" : storage_name(t); }

}  // namespace thunder::fuser
