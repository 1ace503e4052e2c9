#include "fuser/host_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/builder.h"
#include "fuser/graph.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kShort = 8;                     // elements of a row, which takes as long as its divisions would
constexpr int64_t kFew = 4096;                    // elements, whose divisions take no longer than a second step
constexpr int64_t kMany = int64_t{1} << 17;       // elements that are worth several threads
constexpr int64_t kRows = 64, kLongEnough = 128;  // rows to divide among them, and what each has at least
constexpr int64_t kUnit = 16;                     // elements of a vector

// Dimension order[i] does not go on where order[i - 1] would.
uint64_t breaks_of(const Dims& shape, const Dims& strides, const std::vector<size_t>& order) {
  uint64_t out = 0;
  std::optional<size_t> inner;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t d = order[i];
    if (Size(shape[d]).is(1)) continue;
    if (inner) {
      const size_t next = order[*inner];
      if (!(Size(strides[d]) == Size(strides[next]) * Size(shape[next]))) out |= uint64_t{1} << *inner;
    }
    inner = i;
  }
  return out;
}

bool is_associative(const Call& reduction) {
  const std::string& name = reduction.op->full_name;
  return name == "prims.sum" || name == "prims.prod" || name == "prims.amax" || name == "prims.amin";
}

// A reduction as a walk over memory: its dimensions from the outermost, of which those from `first` on are reduced.
struct MemoryWalk {
  std::vector<size_t> order;
  size_t first = 0;
  uint64_t breaks = 0;
  int64_t all = 0;
  bool is_whole = false;

  static std::optional<MemoryWalk> of(const Call& reduction, const CpuRuns& runs) {
    const Value a = reduction.arguments().value("a");
    const std::vector<bool> is_reduced = dims_of(reduction, a.shape().size());
    MemoryWalk w;
    w.order = memory_order(a.tensor());
    w.first = w.order.size();
    while (w.first > 0 && is_reduced[w.order[w.first - 1]]) --w.first;
    w.all = usual_numel(a);
    w.is_whole = w.first == 0;
    const bool is_inner = std::none_of(w.order.begin(), w.order.begin() + static_cast<std::ptrdiff_t>(w.first),
                                       [&](size_t d) { return is_reduced[d]; });
    const bool is_ours = w.is_whole || (is_inner && std::is_sorted(w.order.begin(), w.order.end()));
    if (!is_ours || w.order.size() > 63 || w.all < kFew) return std::nullopt;
    w.breaks = runs.breaks(a, w.order);
    return w;
  }
  /// Where in the order rows begin; 0 if there are none.
  size_t row(const Dims& shape) const {
    int64_t length = 1;
    size_t found = 0;
    for (size_t i = order.size() - 1; i > first; --i) {
      const int64_t size = usual(Size(shape[order[i]]));
      length *= size;
      const bool is_break = (breaks >> i & 1) != 0;
      const bool divides = is_whole && all >= kMany && length >= kLongEnough && all / length >= kRows;
      if (size > 1 && (is_break || divides) && length >= kShort) found = i;
      if (is_break) break;
    }
    return found;
  }
};

// Of a line of elements; 0 if nothing divides it evenly.
int64_t equal_parts(const Value a) {
  if (!all_constant(a.shape()) || !is_contiguous(a.tensor()) || usual_numel(a) < kMany) return 0;
  for (int64_t parts = kRows; parts <= 8 * kRows; ++parts)
    if (usual_numel(a) % (parts * kUnit) == 0) return parts;
  return 0;
}

}  // namespace

uint64_t CpuRuns::breaks(Value v, const std::vector<size_t>& order) const {
  const auto it = strides_.find(v.id());
  if (it == strides_.end()) return breaks_of(v.shape(), v.tensor().strides, order);
  uint64_t out = 0;
  for (const Dims& strides : it->second) out |= breaks_of(v.shape(), strides, order);
  return out;
}

void CpuRuns::add(const Call& call) {
  const Kind kind = kind_of(call);
  if (kind == Kind::Barrier || is_view(call) || !call.output.is_value()) return;
  const Value out = call.output.value();
  if (out.tensor().device.type != DeviceType::cpu) return;
  std::vector<Dims>& all = strides_[out.id()];
  const auto add = [&](const Dims& strides) {
    if (std::none_of(all.begin(), all.end(), [&](const Dims& d) { return same(d, strides); })) all.push_back(strides);
  };
  if (kind != Kind::Pointwise) return;
  visit_inputs(call, [&](Value v) {
    if (!v.type().is_tensor() || !same(v.shape(), out.shape())) return;
    const auto it = strides_.find(v.id());
    if (it == strides_.end()) add(v.tensor().strides);
    else
      for (const Dims& strides : it->second) add(strides);
  });
}

std::vector<const Call*> in_rows(const Call& reduction, const CpuRuns& runs, const std::shared_ptr<Arena>& arena) {
  const Value a = reduction.arguments().value("a");
  if (a.tensor().device.type != DeviceType::cpu || !is_associative(reduction)) return {};
  const std::optional<MemoryWalk> walk = MemoryWalk::of(reduction, runs);
  if (!walk) return {};
  const size_t row = walk->row(a.shape());
  const int64_t parts = row == 0 && walk->is_whole && walk->breaks == 0 ? equal_parts(a) : 0;
  if (row == 0 && parts == 0) return {};
  Builder b(arena);
  b.set_location(reduction.location);
  b.set_grad_enabled(false);
  Expr x = b.expr(a);
  std::vector<int64_t> of_row(walk->order.begin() + static_cast<std::ptrdiff_t>(row), walk->order.end());
  if (parts > 0) {
    x = b("prims.view", x, Dims{parts, floordiv(numel(a).dim(), Dim(parts))});
    of_row = {1};
  }
  x = b(reduction.op->full_name, x, of_row);
  std::vector<const Call*> out = b.calls();
  std::vector<int64_t> of_rows(x.shape().size() - reduction.output.value().shape().size());
  std::iota(of_rows.begin(), of_rows.end(), static_cast<int64_t>(reduction.output.value().shape().size()));
  Call whole = reduction;
  whole.args = {x.arg(), Arg(of_rows)};
  whole.body = {};
  out.push_back(arena->make_call(std::move(whole)));
  return out;
}

}  // namespace thunder::fuser
