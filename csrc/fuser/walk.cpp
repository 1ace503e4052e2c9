#include "fuser/walk.h"

#include <cstdint>
#include <set>

namespace thunder::fuser {
namespace {

constexpr int64_t kManyElements = 1 << 15;  // that one block of threads would take long for

// The matrix that transposed roots, or else extrema of all elements, are of; nothing if they are of different ones.
bool find_tiled(const std::vector<Root>& roots, const Producer& producer, Walk& walk) {
  const auto add = [&](const Size& rows, const Size& cols) {
    if (walk.tiled) return walk.rows == rows && walk.cols == cols;
    walk.rows = rows, walk.cols = cols, walk.tiled = true;
    return true;
  };
  for (const Root& r : roots)
    if (const Value matrix = transposed_source(r.value, producer); matrix && !add(sizes(matrix)[0], sizes(matrix)[1]))
      return false;
  if (walk.tiled) return true;
  for (const Root& r : roots) {
    const Call& call = *producer(r.value);
    if (kind_of(call) != Kind::Reduce) continue;
    const Value x = call.arguments().value("a");
    if (!is_extremum_of_all(call) || usual_numel(x) < kManyElements) {
      walk = {};
      return true;
    }
    const Size cols = sizes(x).back();
    if (!add(*quotient(numel(x), cols), cols)) return false;
  }
  return true;
}

// Whether a value of the walk's size, or the operand of another reduction, depends on a reduction of this kernel.
bool reads_again(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized,
                 const Size& elements) {
  std::set<ValueId> seen, reductions;
  std::vector<Value> queue;
  const auto is_reduction = [&](Value v) { return kind_of(*producer(v)) == Kind::Reduce; };
  for (const Root& r : roots) {
    if (is_reduction(r.value)) reductions.insert(r.value.id());
    const Value whole = is_reduction(r.value) ? producer(r.value)->arguments().value("a") : r.value;
    if (numel(whole) == elements) queue.push_back(whole);
  }
  while (!queue.empty()) {
    const Value v = queue.back();
    queue.pop_back();
    if (reductions.count(v.id())) return true;
    if (!seen.insert(v.id()).second || materialized(v)) continue;
    if (const Call* call = producer(v)) visit_all_inputs(*call, [&](Value u) { queue.push_back(u); });
  }
  return false;
}

// All reductions of a walk that read its elements in the same order keep the same dimensions.
void walk_rows_apart(const std::vector<Root>& roots, const Producer& producer, Walk& walk) {
  for (const Root& r : roots) {
    if (kind_of(*producer(r.value)) != Kind::Reduce) continue;
    Reduction one = rows_apart_of(*producer(r.value));
    walk.rows = one.rows, walk.cols = one.cols, walk.order = std::move(one.order), walk.rows_apart = true;
    return;
  }
}

}  // namespace

Value transposed_source(Value root, const Producer& producer) {
  const Call& copy = *producer(root);
  if (copy.op->full_name != "prims.restride" || root.rank() != 2 || !is_contiguous(root.tensor())) return {};
  const Call* t = producer(copy.arguments().value("a"));
  if (!t || t->op->full_name != "prims.transpose" || t->arguments().integers("permutation")[0] != 1) return {};
  const Value matrix = t->arguments().value("a");
  const Sizes shape = sizes(matrix);
  const bool rows = is_contiguous(matrix.tensor()) && !shape[0].is(1) && !shape[1].is(1);
  return rows ? matrix : Value();
}

bool is_extremum_of_all(const Call& call) {
  if (!is_extremum(call)) return false;
  const TensorType& out = call.output.value().tensor();
  const Value x = call.arguments().value("a");
  if (out.device.type != DeviceType::cuda || out.dtype != DType::f32 || !numel(call.output.value()).is(1)) return false;
  return !sizes(x).empty() && !sizes(x).back().is(1) && usual(sizes(x).back()) < usual_numel(x);
}

bool walk_of(const std::vector<Root>& roots, const Producer& producer, const Materialized& materialized, Walk& walk) {
  walk = {};
  bool may_be_rows = true;
  Walk tiled;
  if (!find_tiled(roots, producer, tiled)) return false;
  Size longest = 1;
  for (const Root& r : roots) {
    const Call* call = producer(r.value);
    if (const Size n = numel(r.value); usual(n) > usual(longest)) longest = n;
    if (kind_of(*call) != Kind::Reduce) continue;
    if (tiled.tiled) {
      if (!is_extremum_of_all(*call) || !(numel(call->arguments().value("a")) == tiled.rows * tiled.cols)) return false;
      continue;
    }
    const Reduction one = reduction_of(*call);
    if (one.which == Reduced::Neither) return false;
    if (walk.reduces && (!(one.rows == walk.rows) || !(one.cols == walk.cols) || one.order != walk.order)) return false;
    walk = {one.rows, one.cols, true, one.order, {}};
    if (!one.order.empty()) walk.shape = sizes(call->arguments().value("a"));
    may_be_rows = may_be_rows && one.may_be_rows;
  }
  may_be_rows = may_be_rows && walk.reduces;
  if (may_be_rows && reads_again(roots, producer, materialized, walk.rows * walk.cols))
    walk_rows_apart(roots, producer, walk);
  if (walk.reduces) return usual(longest) <= usual(walk.rows * walk.cols);
  if (!tiled.tiled) walk = {1, longest, false};
  else walk = tiled;
  return !tiled.tiled || longest.is(1) || longest == tiled.rows * tiled.cols;
}

Walk along_memory(const std::vector<Root>& roots, Walk walk) {
  for (const Root& r : roots) {
    if (!r.stored || !(numel(r.value) == walk.cols)) continue;
    const TensorType& t = r.value.tensor();
    Size inner = 1;
    int64_t stride = INT64_MAX;
    for (size_t i = 0; i < t.shape.size(); ++i)
      if (!Size(t.shape[i]).is(1) && usual(t.strides[i]) < stride) stride = usual(t.strides[i]), inner = t.shape[i];
    if (const std::optional<Size> outer = quotient(walk.cols, inner)) return {*outer, inner, false};
  }
  return walk;
}

}  // namespace thunder::fuser
