#include "fuser/graph.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "core/dim_algebra.h"
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
    case DType::f8e4m3fn:
    case DType::f8e5m2:
    case DType::boolean: return true;
    default: return false;
  }
}

// Of a dtype that kernels know, not known to be empty, and of sizes that are known before the run: what a size that the run finds was
// compared with is checked by PyTorch's operators, and not by kernels.
bool is_element_type(const Type& type) {
  if (!type.is_tensor() || !is_supported(type.tensor().dtype) || !type.tensor().strided()) return false;
  const Dims& shape = type.tensor().shape;
  return std::none_of(shape.begin(), shape.end(),
                      [](const Dim& d) { return d.is_constant() ? d.constant() == 0 : known_in_run_alone(d); });
}

template <class F>
void visit_arguments(const Call& call, F&& fn) {
  for (const Arg& a : call.args) visit_values(a, fn);
}

// All tensors of one device; numbers are literals, symbols, or floats of the run.
bool is_plain(const Call& call) {
  if (!call.output.is_value() || !is_element_type(call.output.value().type())) return false;
  const Device device = call.output.value().tensor().device;
  bool ok = device.type == DeviceType::cpu || device.type == DeviceType::cuda;
  visit_arguments(call, [&](Value v) {
    if (!ok) return;
    if (v.type().is_number()) ok = v.type().number().dim || v.type().number().kind == NumberKind::Float;
    else ok = is_element_type(v.type()) && v.tensor().device == device;
  });
  return ok;
}

// What the calls of a primitive may be.
Kind kind_of_primitive(const Op& op) {
  if (op.has(kEffects)) return Kind::Barrier;
  if (op.index_map) return Kind::Move;
  if (op.combine != Combine::None) return Kind::Reduce;
  switch (op.element) {
    case Element::Computed: return Kind::Pointwise;
    case Element::Gathered: return Kind::Move;
    case Element::Created: return Kind::Create;
    case Element::Drawn: return Kind::Random;
    case Element::FromFields: break;
  }
  return op.has(kPointwise) && !op.scalar.empty() && !op.has(kCreation) ? Kind::Pointwise : Kind::Barrier;
}

// Asked many times for each call.
Kind kind_of_operator(const Op& op) {
  if (!op.is_prim()) return Kind::Barrier;
  static thread_local std::unordered_map<const Op*, Kind> known;  // primitives are never taken back
  const auto [it, is_new] = known.try_emplace(&op, Kind::Barrier);
  if (is_new) it->second = kind_of_primitive(op);
  return it->second;
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
    if (d.items().size() != 3 || !std::all_of(d.items().begin(), d.items().end(), is_int)) return false;
    const Size low = d.items()[0].dim(), between = d.items()[2].dim();
    return between.is(0) || (between.is_number() && low.is_number());
  });
}

bool has_map(const Call& call) {
  // Literals always have a map, and the question is asked many times for each call.
  const bool literal =
      std::none_of(call.args.begin(), call.args.end(), [](const Arg& a) { return a.is_value() && !a.is_tensor(); });
  return literal || call.op->index_map(call.arguments(), call.output.value().tensor()).has_value();
}

bool moves_plainly(const Call& call) {
  const std::string& name = call.op->full_name;
  if (call.op->index_map) return has_map(call);
  if (name == "prims.pad") return pads_plainly(call);
  if (name == "prims.cat") return has_few_parts(call);
  if (name == "prims.take" || name == "prims.take_along_axis") return takes_plainly(call);
  return true;
}

// From literals alone.
bool creates_plainly(const Call& call) {
  const std::string& name = call.op->full_name;
  if (name != "prims.full" && is_float8(call.output.value().dtype())) return false;
  if (name == "prims.full") return call.arguments()["fill_value"].is_real_literal();
  if (name == "prims.iota")
    return call.arguments()["start"].is_real_literal() && call.arguments()["step"].is_real_literal();
  return true;
}

// Eager refuses to look for the largest of no elements.
bool reduces_plainly(const Call& call) {
  if (reduction_of(call).which == Reduced::Neither || is_float8(call.arguments().value("a").dtype())) return false;
  if (!is_extremum(call)) return true;
  return surely_at_least(numel(call.arguments().value("a")), 1);
}

// Of integers PyTorch raises where a divisor is 0, and the quotient of the least number and -1 is none.  The C library's
// fmod() is several times slower than PyTorch's vectors on the CPU.
bool divides_plainly(const Call& call) {
  const TensorType& out = call.output.value().tensor();
  if (is_floating(out.dtype)) return out.device.type == DeviceType::cuda;
  const Arg divisor = call.arguments()["b"];
  if (divisor.kind() != Arg::Kind::Int || !divisor.dim().is_constant()) return false;
  return divisor.dim().constant() != 0 && divisor.dim().constant() != -1;
}

bool computes_plainly(const Call& call) {
  const std::string& name = call.op->full_name;
  const bool divides = name == "prims.floor_div" || name == "prims.remainder" || name == "prims.fmod";
  if (divides && !divides_plainly(call)) return false;
  // The next number of a half is not the next float, in which halves are computed.
  const DType out = call.output.value().dtype();
  if (name.starts_with("prims.shift_") && out == DType::boolean) return false;
  if (name == "prims.nextafter" && (out == DType::bf16 || out == DType::f16)) return false;
  bool any = false, same_shape = true, small = is_float8(out);
  visit_arguments(call, [&](Value v) {
    if (!v.type().is_tensor()) return;
    any = true;
    small = small || is_float8(v.dtype());
    same_shape = same_shape && same(v.shape(), call.output.value().shape());
  });
  // Float8 is converted from and to, and moved.
  return any && same_shape && (!small || name == "prims.convert_element_type");
}

}  // namespace

bool may_fuse(const Op& op) { return kind_of_operator(op) != Kind::Barrier; }

Kind kind_of(const Call& call) {
  const Kind kind = kind_of_operator(*call.op);
  if (kind == Kind::Barrier || !is_plain(call)) return Kind::Barrier;
  bool plainly = true;
  if (kind == Kind::Move) plainly = moves_plainly(call);
  if (kind == Kind::Create) plainly = creates_plainly(call);
  if (kind == Kind::Reduce) plainly = reduces_plainly(call);
  if (kind == Kind::Pointwise) plainly = computes_plainly(call);
  return plainly ? kind : Kind::Barrier;
}

bool is_extremum(const Call& call) { return call.op->combine == Combine::Max || call.op->combine == Combine::Min; }

bool gathers(const Call& call) {
  const std::string& name = call.op->full_name;
  return name == "prims.take" || name == "prims.take_along_axis" || name == "prims.index";
}

bool is_view(const Call& call) {
  if (!call.op->is_prim()) return false;
  if (call.op->has(kView)) return true;
  if (!call.op->index_map) return false;
  const TensorType &from = call.arguments().tensor("a"), &to = call.output.value().tensor();
  const std::optional<IndexMap> map = call.op->index_map(call.arguments(), to);
  return map && map->row_major && view_strides(from.shape, from.strides, to.shape);
}

bool is_no_operators_work(const Call& call) {
  const Op& op = *call.op;
  if (op.element == Element::Gathered || op.element == Element::Created) return op.aten.empty();
  if (!op.index_map) return false;
  const std::optional<IndexMap> map = op.index_map(call.arguments(), call.output.value().tensor());
  return map && std::any_of(map->places.begin(), map->places.end(),
                            [](const IndexMap::Place& place) { return place.terms.size() > 1; });
}

// What is less is not worth vectors.
constexpr int64_t kPiece = 16;  // bytes

bool moves_pieces(const Call& call) {
  const std::string& name = call.op->full_name;
  if (name != "prims.restride" && name != "prims.reshape" && name != "prims.clone") return false;
  const Value from = call.arguments().value("a"), to = call.output.value();
  const auto ends_in_piece = [](const TensorType& t) {
    const Dim &size = t.shape.back(), &stride = t.strides.back();
    return size.is_constant() && stride.same(1) && size.constant() * itemsize(t.dtype) % kPiece == 0;
  };
  const TensorType &a = from.tensor(), &b = to.tensor();
  return b.device.type == DeviceType::cuda && !is_view(call) && a.rank() > 1 && b.rank() > 1 && ends_in_piece(a) &&
         ends_in_piece(b) && !(is_contiguous(a) && is_contiguous(b));
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

bool has_logical_order(const TensorType& t) {
  std::optional<int64_t> before;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    if (Size(t.shape[i]).is(1)) continue;
    const int64_t stride = usual(t.strides[i]);
    if (before && stride > *before) return false;
    before = stride;
  }
  return true;
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

constexpr int64_t kTogether = 64;   // bytes
constexpr int64_t kLongGaps = 512;  // elements of a row with gaps, of which a block of threads has but one
constexpr int64_t kManyKept =
    4096;  // elements that are kept: as rows, of which neighbouring threads have neighbours, ...
constexpr int64_t kLongestApart = 1024;  // ... of at most so many elements

// Whether memory has elements along the dimension side by side in pieces that it is read in, with those along others
// that are reduced, or kept, as well.
bool lies_together(const TensorType& t, const std::vector<bool>& is_reduced, size_t dim) {
  if (!t.strides[dim].same(1)) return false;
  const std::vector<size_t> order = memory_order(t);
  Size run = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const size_t i = order[k];
    if (Size(t.shape[i]).is(1) || t.strides[i].same(0)) continue;
    if (is_reduced[i] != is_reduced[dim] || !(Size(t.strides[i]) == run)) break;
    run *= t.shape[i];
  }
  return usual(run) * itemsize(t.dtype) >= kTogether;
}

// Dimensions that are kept before those that are reduced, or after them.
Reduction parted(const TensorType& t, const std::vector<bool>& is_reduced, Reduced which) {
  Reduction r{which, 1, 1, {}};
  for (const bool last : {false, true})
    for (size_t i = 0; i < t.shape.size(); ++i) {
      if ((is_reduced[i] == (which == Reduced::Inner)) != last) continue;
      (last ? r.cols : r.rows) *= t.shape[i];
      r.order.push_back(i);
    }
  return r;
}

// A dimension in the middle.  Of what memory has side by side in pieces that it is read in (`innermost`): what is kept
// makes columns, what is reduced makes rows.
Reduction across(const TensorType& t, const std::vector<bool>& is_reduced, size_t innermost) {
  Reduction r = parted(t, is_reduced, is_reduced[innermost] ? Reduced::Inner : Reduced::Outer);
  if (r.which == Reduced::Outer && usual(r.cols) >= kManyKept && r.rows.is_number() && r.rows.number() <= kLongestApart)
    r.may_be_rows = true;
  return r;
}

// A dimension whose elements lie together, although the order of the dimensions makes rows of those that are reduced and
// it is kept, or columns of those that are kept and it is reduced; the rank if there is none.
size_t against_order(const TensorType& t, const std::vector<bool>& is_reduced, const Reduction& by_order) {
  const size_t rank = t.shape.size();
  if (by_order.which == Reduced::Neither || by_order.rows.is(1) || by_order.cols.is(1)) return rank;
  for (size_t i = 0; i < rank; ++i)
    if (is_reduced[i] == (by_order.which == Reduced::Outer) && !Size(t.shape[i]).is(1) &&
        lies_together(t, is_reduced, i))
      return i;
  return rank;
}

// By the order in memory, if that has those that are kept in their order, too.
Reduction in_memory_order(const TensorType& t, const Sizes& shape, const std::vector<bool>& is_reduced) {
  const std::vector<size_t> order = memory_order(t);
  Reduction r = in_order(shape, is_reduced, order);
  if (r.which == Reduced::Neither) return r;
  size_t last = 0;
  for (size_t i : order) {
    if (is_reduced[i] || shape[i].is(1)) continue;
    if (i < last) return {};
    last = i;
  }
  r.order = order;
  return r;
}

std::vector<size_t> logical_order(size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

// Of dimensions that are neither the first nor the last ones.
Reduction in_the_middle(const TensorType& t, const Sizes& shape, const std::vector<bool>& is_reduced) {
  const Reduction by_memory = in_memory_order(t, shape, is_reduced);
  if (by_memory.which != Reduced::Neither) return by_memory;
  // On the CPU PyTorch's sums, which walk over one piece of memory at a time, are several times as fast.
  if (t.device.type != DeviceType::cuda || in_order(shape, is_reduced, memory_order(t)).which != Reduced::Neither)
    return {};
  size_t innermost = shape.size();
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].is(1)) innermost = i;
  return innermost < shape.size() && lies_together(t, is_reduced, innermost) ? across(t, is_reduced, innermost)
                                                                             : Reduction();
}

Reduction reduction_of(const TensorType& t, const std::vector<bool>& is_reduced) {
  const Sizes shape(t.shape.begin(), t.shape.end());
  const Reduction by_order = in_order(shape, is_reduced, logical_order(shape.size()));
  if (by_order.which == Reduced::Neither) return in_the_middle(t, shape, is_reduced);
  if (has_logical_order(t)) return by_order;
  const size_t against = against_order(t, is_reduced, by_order);
  const bool has_gaps = against < shape.size();
  const Reduction by_memory = in_memory_order(t, shape, is_reduced);
  if (by_memory.which == by_order.which || (has_gaps && by_memory.which != Reduced::Neither)) return by_memory;
  const bool long_gaps = has_gaps && by_order.which == Reduced::Inner && usual(by_order.cols) > kLongGaps;
  return long_gaps && t.device.type == DeviceType::cuda ? across(t, is_reduced, against) : by_order;
}

}  // namespace

bool has_gaps(const Call& call, const TensorType& t) {
  const std::vector<bool> is_reduced = dims_of(call, t.shape.size());
  const Reduction r = reduction_of(t, is_reduced);
  if (r.which == Reduced::Neither || !r.order.empty()) return false;
  return against_order(t, is_reduced, r) < t.shape.size() || (r.which == Reduced::Outer && !has_logical_order(t));
}

bool has_gaps(const Call& call) { return has_gaps(call, call.arguments().value("a").tensor()); }

Reduction reduction_of(const Call& call) {
  const TensorType& t = call.arguments().value("a").tensor();
  return reduction_of(t, dims_of(call, t.shape.size()));
}

Reduction rows_apart_of(const Call& call) {
  const TensorType& t = call.arguments().value("a").tensor();
  return parted(t, dims_of(call, t.shape.size()), Reduced::Inner);
}

std::string distance_name(int64_t distance) {
  return distance < 0 ? "back" + std::to_string(-distance) : "d" + std::to_string(distance);
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
    case DType::f8e4m3fn: return "f8e4m3";
    case DType::f8e5m2: return "f8e5m2";
    default: return "bool";
  }
}

std::string compute_name(DType t) { return t == DType::bf16 || t == DType::f16 ? "float" : storage_name(t); }

}  // namespace thunder::fuser
