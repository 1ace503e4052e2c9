#include "fuser/host_rows.h"

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

// By its own strides: dimension i goes on where i - 1 would.
uint64_t breaks_of(const TensorType& t) {
  uint64_t out = 0;
  std::optional<size_t> inner;
  for (size_t i = t.shape.size(); i-- > 0;) {
    if (Size(t.shape[i]).is(1)) continue;
    if (inner && !(Size(t.strides[i]) == Size(t.strides[*inner]) * Size(t.shape[*inner]))) out |= uint64_t{1} << *inner;
    inner = i;
  }
  return out;
}

bool is_associative(const Call& reduction) {
  const std::string& name = reduction.op->full_name;
  return name == "prims.sum" || name == "prims.prod" || name == "prims.amax" || name == "prims.amin";
}

// The first of the dimensions that are reduced, if these are the last ones and lie in their order; the rank if not.
size_t first_reduced(const Call& reduction) {
  const TensorType& t = reduction.arguments().value("a").tensor();
  const std::vector<bool> is_reduced = dims_of(reduction, t.shape.size());
  size_t first = t.shape.size();
  while (first > 0 && is_reduced[first - 1]) --first;
  for (size_t i = 0; i < first; ++i)
    if (is_reduced[i]) return t.shape.size();
  return has_logical_order(t) ? first : t.shape.size();
}

// The dimension that rows begin with; 0 if the reduction stays.
size_t first_of_row(const Call& reduction, uint64_t breaks) {
  const Value a = reduction.arguments().value("a");
  const size_t first = first_reduced(reduction), rank = a.shape().size();
  const int64_t all = usual_numel(a);
  if (first >= rank || rank > 63 || all < kFew) return 0;
  const bool is_whole = numel(reduction.output.value()).is(1) && all >= kMany;
  int64_t length = 1, found_length = 0;
  size_t found = 0;
  for (size_t i = rank - 1; i > first; --i) {
    length *= usual(Size(a.shape()[i]));
    const bool is_break = (breaks >> i & 1) != 0;
    const bool divides = is_whole && length >= kLongEnough && all / length >= kRows;
    if ((is_break || divides) && length >= kShort && length > found_length) found = i, found_length = length;
    if (is_break) break;
  }
  return found;
}

// Of a reduction of all elements, which its dimensions do not divide well; 0 if nothing does.
int64_t equal_parts(const Call& reduction) {
  const Value a = reduction.arguments().value("a");
  if (!numel(reduction.output.value()).is(1) || !all_constant(a.shape()) || !is_contiguous(a.tensor())) return 0;
  const int64_t n = usual_numel(a);
  if (n < kMany) return 0;
  for (int64_t parts = kRows; parts <= 8 * kRows; ++parts)
    if (n % (parts * kUnit) == 0) return parts;
  return 0;
}

}  // namespace

uint64_t CpuRuns::breaks(Value v) const {
  const auto it = computed_.find(v.id());
  return it == computed_.end() ? breaks_of(v.tensor()) : it->second;
}

void CpuRuns::add(const Call& call) {
  const Kind kind = kind_of(call);
  if (kind == Kind::Barrier || is_view(call) || !call.output.is_value()) return;
  const Value out = call.output.value();
  if (out.tensor().device.type != DeviceType::cpu) return;
  uint64_t breaks = 0;
  if (kind == Kind::Pointwise)
    visit_inputs(call, [&](Value v) {
      if (v.type().is_tensor() && same(v.shape(), out.shape())) breaks |= this->breaks(v);
    });
  computed_[out.id()] = breaks;
}

std::vector<const Call*> in_rows(const Call& reduction, const CpuRuns& runs, const std::shared_ptr<Arena>& arena) {
  const Value a = reduction.arguments().value("a");
  if (a.tensor().device.type != DeviceType::cpu || !is_associative(reduction)) return {};
  const size_t first = first_reduced(reduction), row = first_of_row(reduction, runs.breaks(a));
  const int64_t parts = row == 0 && runs.breaks(a) == 0 ? equal_parts(reduction) : 0;
  if (row == 0 && parts == 0) return {};
  Builder b(arena);
  b.set_location(reduction.location);
  b.set_grad_enabled(false);
  Expr x = b.expr(a);
  std::vector<int64_t> of_row, of_rows;
  if (parts > 0) {
    x = b("prims.view", x, Dims{parts, floordiv(numel(a).dim(), Dim(parts))});
    of_row = {1}, of_rows = {0};
  } else {
    for (size_t i = first; i < a.shape().size(); ++i) (i < row ? of_rows : of_row).push_back(static_cast<int64_t>(i));
  }
  x = b(reduction.op->full_name, x, of_row);
  std::vector<const Call*> out = b.calls();
  Call whole = reduction;
  whole.args = {x.arg(), Arg(of_rows)};
  whole.body = {};
  out.push_back(arena->make_call(std::move(whole)));
  return out;
}

}  // namespace thunder::fuser
