#include "fuser/long_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "core/builder.h"
#include "fuser/graph.h"
#include "fuser/walk.h"
#include "ops/combine.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kLong = int64_t{1} << 17;  // elements, which one block walks over no faster than two kernels start
constexpr int64_t kFew = 128;                // rows, with which not every multiprocessor has a block
constexpr int64_t kParts = 1024;             // of all rows together
constexpr int64_t kUnit = 16;                // elements of a part, so that it is read in vectors

Expr reshaped(Builder& b, const Expr& x, const Dims& shape) {
  const bool is_view = view_strides(x.shape(), x.tensor().strides, shape).has_value();
  return b(is_view ? "prims.view" : "prims.reshape", x, shape);
}

std::optional<Arg> neutral(const Call& reduction) {
  const Combine combine = reduction.op->combine;
  const DType t = reduction.arguments().value("a").dtype();
  // The results of the parts are bools, which the second step reduces: the operand has to be of bools, too.
  if ((combine == Combine::Or || combine == Combine::And) && !is_bool(t)) return std::nullopt;
  return ops::neutral_element(combine, t);
}

// Whether a part ends where some dimension does: no index within it is divided then.
bool ends_with_dimension(int64_t length, const std::vector<int64_t>& sizes) {
  int64_t inner = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    inner *= sizes[i];
    if (length % inner != 0 && inner % length != 0) return false;
  }
  return true;
}

// Parts of a row of these sizes: as many as divide it, else so many that the last one is padded.
int64_t parts_of(const std::vector<int64_t>& sizes, int64_t rows) {
  const int64_t n = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>()),
                most = std::max<int64_t>(kParts / rows, 2), least = std::max<int64_t>(most / 4, 2);
  int64_t divides = 0;
  for (int64_t parts = most; parts >= least; --parts) {
    if (n % (parts * kUnit) != 0) continue;
    if (ends_with_dimension(n / parts, sizes)) return parts;
    if (divides == 0) divides = parts;
  }
  return divides > 0 ? divides : most;
}

// The sizes of what is reduced, from the outermost in memory.
std::vector<int64_t> reduced_sizes(const Call& reduction, const std::vector<size_t>& order) {
  const Dims& shape = reduction.arguments().value("a").shape();
  const std::vector<bool> is_reduced = dims_of(reduction, shape.size());
  std::vector<int64_t> out;
  for (size_t i = 0; i < shape.size(); ++i)
    if (const size_t d = order.empty() ? i : order[i]; is_reduced[d]) out.push_back(shape[d].constant());
  return out;
}

}  // namespace

bool has_long_rows(const Call& reduction) {
  const Value a = reduction.arguments().value("a");
  if (a.tensor().device.type != DeviceType::cuda || is_extremum_of_all(reduction)) return false;
  const Reduction r = reduction_of(reduction);
  return r.which == Reduced::Inner && usual(r.cols) >= kLong && usual(r.rows) < kFew;
}

std::vector<const Call*> in_two_steps(const Call& reduction, const std::shared_ptr<Arena>& arena) {
  const Value a = reduction.arguments().value("a");
  const Reduction r = reduction_of(reduction);
  if (!r.rows.is_number() || !r.cols.is_number()) return {};
  // The sum of all elements goes over them as they lie.
  const std::vector<size_t> order = r.order.empty() && r.rows.is(1) ? memory_order(a.tensor()) : r.order;
  const int64_t n = r.cols.number(),
                parts = parts_of(reduced_sizes(reduction, order), std::max<int64_t>(r.rows.number(), 1)),
                length = (n + parts * kUnit - 1) / (parts * kUnit) * kUnit;
  const std::optional<Arg> padding = neutral(reduction);
  if (parts * length != n && !padding) return {};
  Builder b(arena);
  b.set_location(reduction.location);
  b.set_grad_enabled(false);
  Expr x = b.expr(a);
  if (!std::is_sorted(order.begin(), order.end()))
    x = b("prims.transpose", x, std::vector<int64_t>(order.begin(), order.end()));
  const Dims& kept = reduction.output.value().shape();
  const auto with = [&](std::initializer_list<int64_t> more) {
    Dims shape = kept;
    shape.insert(shape.end(), more.begin(), more.end());
    return shape;
  };
  if (parts * length != n) {
    ArgList config(kept.size(), Arg(Dims{0, 0, 0}));
    config.emplace_back(Dims{0, parts * length - n, 0});
    x = b("prims.pad", reshaped(b, x, with({n})), *padding, Arg::list(std::move(config)));
  }
  const std::vector<int64_t> last = {static_cast<int64_t>(kept.size()) + 1};
  return with_second_step(b, reduction, b(reduction.op->full_name, reshaped(b, x, with({parts, length})), last));
}

std::vector<const Call*> with_second_step(Builder& b, const Call& reduction, const Expr& partial) {
  const size_t kept = reduction.output.value().shape().size();
  std::vector<int64_t> dims(partial.shape().size() - kept);
  std::iota(dims.begin(), dims.end(), static_cast<int64_t>(kept));
  std::vector<const Call*> out = b.calls();
  Call whole = reduction;
  whole.args = {partial.arg(), Arg(dims)};
  whole.body = {};
  out.push_back(b.arena()->make_call(std::move(whole)));
  return out;
}

}  // namespace thunder::fuser
