#include "fuser/host_rows.h"

#include <algorithm>
#include <optional>

#include "core/builder.h"
#include "fuser/graph.h"
#include "fuser/long_rows.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kShort = 8;                     // elements of a row, which takes as long as its divisions would
constexpr int64_t kFew = 4096;                    // elements, whose divisions take no longer than a second step
constexpr int64_t kMany = int64_t{1} << 17;       // elements that are worth several threads
constexpr int64_t kRows = 64, kLongEnough = 128;  // rows to divide among them, and what each has at least

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

// A reduction as a walk over memory: its dimensions from the outermost, of which those from `first` on are reduced.
struct MemoryWalk {
  std::vector<size_t> order;
  size_t first = 0;
  uint64_t breaks = 0;
  int64_t all = 0;
  bool is_whole = false;

  static std::optional<MemoryWalk> of(const Call& reduction, const OperandStrides& operands) {
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
    // The result's dimensions lie in the order of those that are kept.
    const bool is_ours = w.is_whole || (is_inner && std::is_sorted(w.order.begin(), w.order.end()));
    if (!is_ours || w.order.size() > 63 || w.all < kFew) return std::nullopt;
    w.breaks = operands.breaks(a, w.order);
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

}  // namespace

const std::vector<Dims>* OperandStrides::find(Value v) const {
  if (const auto it = strides_.find(v.id()); it != strides_.end()) return &it->second;
  return before_ ? before_->find(v) : nullptr;
}

uint64_t OperandStrides::breaks(Value v, const std::vector<size_t>& order) const {
  const std::vector<Dims>* all = find(v);
  if (!all) return breaks_of(v.shape(), v.tensor().strides, order);
  uint64_t out = 0;
  for (const Dims& strides : *all) out |= breaks_of(v.shape(), strides, order);
  return out;
}

void OperandStrides::add(const Call& call) {
  const Kind kind = kind_of(call);
  if (kind == Kind::Barrier || is_view(call) || !call.output.is_value()) return;
  const Value out = call.output.value();
  if (out.tensor().device.type != DeviceType::cpu) return;
  std::vector<Dims> all;
  const auto add = [&](const Dims& strides) {
    if (std::none_of(all.begin(), all.end(), [&](const Dims& d) { return same(d, strides); })) all.push_back(strides);
  };
  if (kind == Kind::Pointwise)
    visit_all_inputs(call, [&](Value v) {
      if (!v.type().is_tensor() || !same(v.shape(), out.shape())) return;
      if (const std::vector<Dims>* known = find(v)) std::for_each(known->begin(), known->end(), add);
      else add(v.tensor().strides);
    });
  strides_[out.id()] = std::move(all);
}

std::vector<const Call*> in_rows(const Call& reduction, const OperandStrides& operands,
                                 const std::shared_ptr<Arena>& arena) {
  const Value a = reduction.arguments().value("a");
  if (a.tensor().device.type != DeviceType::cpu) return {};
  const std::optional<MemoryWalk> walk = MemoryWalk::of(reduction, operands);
  if (!walk) return {};
  const size_t row = walk->row(a.shape());
  // A line of elements, or few and long ones.
  if (row == 0 && walk->is_whole && walk->breaks == 0 && walk->all >= kMany) return in_two_steps(reduction, arena);
  if (row == 0) return {};
  Builder b(arena);
  b.set_location(reduction.location);
  b.set_grad_enabled(false);
  const std::vector<int64_t> dims(walk->order.begin() + static_cast<std::ptrdiff_t>(row), walk->order.end());
  return with_second_step(b, reduction, b(reduction.op->full_name, b.expr(a), dims));
}

}  // namespace thunder::fuser
