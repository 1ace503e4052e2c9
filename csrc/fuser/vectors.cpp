#include "fuser/vectors.h"

#include "fuser/graph.h"
#include "fuser/scalar.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kSpread = 64;  // elements that one is broadcast to, from which on it is computed once ...
constexpr size_t kWork = 8;      // ... if it takes so many calls, a function, or sums of columns

// A tensor of a GPU whose neighbours are read from places that are none: of another layout, from a table, padded.
bool scatters(const Call& call) {
  const std::string& name = call.op->full_name;
  if (call.output.value().tensor().device.type != DeviceType::cuda) return false;
  if (name == "prims.pad" || gathers(call)) return true;
  if (name != "prims.clone" && name != "prims.restride" && name != "prims.reshape") return false;
  const TensorType& from = call.arguments().tensor("a");
  return !is_view(call) && from.rank() > 0 && !from.strides.back().same(1);
}

}  // namespace

std::vector<char> find_vectors(const std::vector<const Call*>& calls, const ValueMap<int>& maker,
                               const std::vector<size_t>& inlined) {
  enum : char { Columns = 1, Rows = 2, Costly = 4, Scattered = 8 };
  std::vector<char> made_of(calls.size(), 0), found(calls.size(), 0);
  std::vector<size_t> held_by(calls.size());  // what has a view's elements in memory, if anything does
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i]) continue;
    const Call& call = *calls[i];
    held_by[i] = i;
    if (kind_of(call) == Kind::Reduce) {
      made_of[i] = reduction_of(call).which == Reduced::Outer ? Columns : Rows;
      continue;
    }
    const int64_t size = usual_numel(call.output.value());
    visit_all_inputs(call, [&](Value u) {
      if (maker[u] < 0 || !calls[static_cast<size_t>(maker[u])]) return;
      const size_t j = static_cast<size_t>(maker[u]), held = held_by[j];
      if (usual_numel(u) == size) made_of[i] |= made_of[j];
      if (usual_numel(u) == size && is_view(call)) held_by[i] = held;
      const bool spreads =
          call.op->full_name == "prims.broadcast_in_dim" && usual_numel(u) > 1 && size >= kSpread * usual_numel(u);
      // What is made of sums of rows its kernel computes once a row anyway.
      if (!spreads || (made_of[j] & Rows)) return;
      if (kind_of(*calls[j]) == Kind::Pointwise && (made_of[j] & (Columns | Costly))) found[j] = 1;
      if (!is_view(*calls[held]) && (made_of[held] & Scattered)) found[held] = 1;
    });
    if (scatters(call)) made_of[i] |= Scattered;
    if (kind_of(call) == Kind::Pointwise && (is_approximate(*call.op) || inlined[i] >= kWork)) made_of[i] |= Costly;
  }
  return found;
}

bool widens(const Call& call, const Producer& producer) {
  if (call.op->full_name != "prims.convert_element_type") return false;
  const Value from = call.arguments().value("a");
  const Call* made_by = producer(from);
  while (made_by && made_by->op->has(kView)) made_by = producer(made_by->arguments().value("a"));
  return made_by && kind_of(*made_by) == Kind::Pointwise &&
         itemsize(from.dtype()) < itemsize(call.output.value().dtype());
}

}  // namespace thunder::fuser
