#include "passes/narrow_masks.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ops/torch/attention.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

/// Dimensions of a value, a bit each.
using DimSet = uint64_t;
constexpr size_t kMostDims = 64;
constexpr int kDeepest = 100;  // calls behind a mask that are looked at, one after the other

DimSet bit(size_t dim) { return DimSet{1} << dim; }

bool has(DimSet set, size_t dim) { return (set & bit(dim)) != 0; }

class Narrower {
 public:
  explicit Narrower(const Trace& trace) : trace_(trace), rewriter_(trace) {}

  Trace run() {
    for (const Call* call : trace_.calls) {
      makers_.add(*call);
      if (call->op->full_name == ops::torch::kAttention && narrow(*call)) continue;
      for (const Call* c : rewriter_.current(call)) rewriter_.builder.append(c);
    }
    return rewriter_.finish();
  }

 private:
  bool narrow(const Call& call) {
    const Args a = call.arguments();
    if (!a["attn_mask"].is_value()) return false;
    const Value mask = a.value("attn_mask");
    const TensorType& t = mask.tensor();
    if (t.rank() < 2 || t.shape.size() > kMostDims) return false;
    DimSet dims = repeats(mask, 0) & ~bit(t.shape.size() - 1);
    bool gains = false;
    for (size_t i = 0; i < t.shape.size(); ++i) {
      if (!t.shape[i].is_constant() || t.shape[i].constant() <= 1) dims &= ~bit(i);
      gains |= has(dims, i) && (t.requires_grad || !t.strides[i].same(0));
    }
    if (!gains) return false;
    Arg result, narrow;
    std::vector<const Call*> made = rewriter_.collect(call, [&] {
      ArgList args = call.args;
      narrow = narrowed(mask, dims);
      args[static_cast<size_t>(call.op->schema.index_of("attn_mask"))] = narrow;
      result = rewriter_.builder.call(*call.op, std::move(args));
    });
    narrowed_.clear();
    if (!ops::torch::draws_alike(a, narrow.value().tensor())) return false;
    rewriter_.replace_outputs(call, result, "narrow_masks");
    for (const Call* m : made)
      for (const Call* c : rewriter_.current(m)) rewriter_.builder.append(c);
    return true;
  }

  // ---- what repeats itself ------------------------------------------------------------------------------------------

  // Dimensions along which all elements are the same; those of one element are among them.
  DimSet repeats(Value v, int depth) {
    if (const auto known = repeats_.find(v.id()); known != repeats_.end()) return known->second;
    const TensorType& t = v.tensor();
    DimSet out = by_maker(v, depth);
    for (size_t i = 0; i < t.shape.size() && i < kMostDims; ++i)
      if (t.shape[i].same(1) || t.strides[i].same(0)) out |= bit(i);
    repeats_.emplace(v.id(), out);
    return out;
  }

  // Those that follow from the call that makes the value.
  DimSet by_maker(Value v, int depth) {
    const Call* maker = depth < kDeepest && v.tensor().shape.size() <= kMostDims ? makers_.of(v) : nullptr;
    if (!maker || !carries_as_operands(*maker)) return 0;
    const Args a = maker->arguments();
    if (maker->op->full_name == "prims.broadcast_in_dim") {
      const std::vector<int64_t> dims = a.integers("broadcast_dims");
      const Value x = a.value("a");
      const DimSet inside = repeats(x, depth + 1);
      DimSet out = all_dims(v);
      for (size_t i = 0; i < dims.size(); ++i)
        if (!has(inside, i)) out &= ~bit(static_cast<size_t>(dims[i]));
      return out;
    }
    if (maker->op->full_name == "prims.transpose") {
      const std::vector<int64_t> from = a.integers("permutation");
      const DimSet inside = repeats(a.value("a"), depth + 1);
      DimSet out = 0;
      for (size_t i = 0; i < from.size(); ++i)
        if (has(inside, static_cast<size_t>(from[i]))) out |= bit(i);
      return out;
    }
    if (!is_elementwise(*maker)) return 0;
    DimSet out = all_dims(v);
    visit_all_inputs(*maker, [&](Value u) {
      if (u.type().is_tensor()) out &= repeats(u, depth + 1);
    });
    return out;
  }

  static DimSet all_dims(Value v) {
    const size_t rank = v.tensor().shape.size();
    return rank == kMostDims ? ~DimSet{0} : bit(rank) - 1;
  }

  static bool is_elementwise(const Call& call) {
    if (!call.op->has(kPointwise) || effects(call) != 0 || !call.output.is_value()) return false;
    bool same_shape = true;
    visit_all_inputs(
        call, [&](Value u) { same_shape &= !u.type().is_tensor() || same(u.shape(), call.output.value().shape()); });
    return same_shape;
  }

  // Made anew, the value requires a gradient if an operand does.
  static bool carries_as_operands(const Call& call) {
    if (!call.output.is_value() || !call.output.value().type().is_tensor()) return false;
    bool any = false;
    visit_all_inputs(call, [&](Value u) { any |= u.requires_grad(); });
    return any == call.output.value().requires_grad();
  }

  // ---- the narrow value ---------------------------------------------------------------------------------------------

  // One element along `dims`, which are among those that repeat themselves.
  Arg narrowed(Value v, DimSet dims) {
    dims &= ~ones(v);
    if (dims == 0) return v;
    const auto key = std::pair(v.id(), dims);
    if (const auto known = narrowed_.find(key); known != narrowed_.end()) return known->second;
    Arg out = (by_maker(v, 0) & dims) == dims ? made_narrow(v, dims) : cut(v, dims);
    narrowed_.emplace(key, out);
    return out;
  }

  static DimSet ones(Value v) {
    DimSet out = 0;
    for (size_t i = 0; i < v.shape().size(); ++i)
      if (v.shape()[i].same(1)) out |= bit(i);
    return out;
  }

  static Dims narrow_shape(Value v, DimSet dims) {
    Dims out = v.shape();
    for (size_t i = 0; i < out.size(); ++i)
      if (has(dims, i)) out[i] = 1;
    return out;
  }

  Arg cut(Value v, DimSet dims) {
    const Dims end = narrow_shape(v, dims), start(end.size(), Dim(0)), step(end.size(), Dim(1));
    return rewriter_.builder("prims.slice", v, start, end, step).arg();
  }

  Arg made_narrow(Value v, DimSet dims) {
    const Call& maker = *makers_.of(v);
    const Args a = maker.arguments();
    ArgList args = maker.args;
    if (maker.op->full_name == "prims.broadcast_in_dim") {
      const std::vector<int64_t> places = a.integers("broadcast_dims");
      DimSet inside = 0;
      for (size_t i = 0; i < places.size(); ++i)
        if (has(dims, static_cast<size_t>(places[i]))) inside |= bit(i);
      args[0] = narrowed(a.value("a"), inside);
      args[1] = Arg(narrow_shape(v, dims));
      if (same(args[0].value().shape(), narrow_shape(v, dims))) return args[0];
    } else if (maker.op->full_name == "prims.transpose") {
      const std::vector<int64_t> from = a.integers("permutation");
      DimSet inside = 0;
      for (size_t i = 0; i < from.size(); ++i)
        if (has(dims, i)) inside |= bit(static_cast<size_t>(from[i]));
      args[0] = narrowed(a.value("a"), inside);
    } else {
      for (Arg& arg : args)
        if (arg.is_tensor()) arg = narrowed(arg.value(), dims);
    }
    return rewriter_.builder.call(*maker.op, std::move(args));
  }

  const Trace& trace_;
  Rewriter rewriter_;
  PrimitiveMakers makers_;
  std::map<ValueId, DimSet> repeats_;
  std::map<std::pair<ValueId, DimSet>, Arg> narrowed_;  // for one call of attention
};

}  // namespace

Trace narrow_masks(const Trace& trace) {
  const bool any = std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) {
    return c->op->full_name == ops::torch::kAttention && c->arguments()["attn_mask"].is_value();
  });
  return any ? Narrower(trace).run() : trace;
}

}  // namespace thunder
