#include "frontend/layouts.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "ops/common.h"
#include "passes/visit.h"

namespace thunder::frontend {
namespace {

// The primitive that made a result, through the bodies of calls.
const Call* maker_of(Value v, const Call* call) {
  for (const Call* inner : call->body) {
    bool makes = false;
    visit_outputs(*inner, [&](Value r) { makes = makes || r == v; });
    if (makes) return maker_of(v, inner);
  }
  return call;
}

bool is_dense(const Dims& shape, const Dims& strides) {
  return is_non_overlapping_and_dense(shape, strides) && same(ops::elementwise_strides(shape, {&strides}), strides);
}

using Symbols = std::vector<SymbolId>;

bool contains(const Symbols& symbols, SymbolId s) {
  return std::find(symbols.begin(), symbols.end(), s) != symbols.end();
}

// The symbols that may be 1.
Symbols ones_of(const Dims& dims, const ShapeEnv& env) {
  Symbols out;
  for (const Dim& d : dims)
    for (SymbolId s : d.symbols())
      if (env.may_be_one(s) && !contains(out, s)) out.push_back(s);
  return out;
}

// Numbers, with 1 for `ones` and more than that for others.
Dims with_ones(const Dims& dims, const Symbols& ones, const ShapeEnv& env) {
  Dims out;
  for (const Dim& d : dims)
    out.push_back(d.substitute(
        [&](SymbolId s) { return contains(ones, s) ? Dim(1) : Dim(std::max<int64_t>(env.hint(s).value_or(3), 2)); }));
  return out;
}

// Whether the view that a reshape() is where `ones` are 1 lies otherwise than the copy that it is elsewhere, in dimensions
// that have more elements: results computed from it would lie so, too.
bool lies_otherwise(const TensorType& from, const TensorType& copy, const Symbols& ones, const ShapeEnv& env) {
  const Dims shape = with_ones(copy.shape, ones, env), strides = with_ones(copy.strides, ones, env);
  const std::optional<Dims> view =
      view_strides(with_ones(from.shape, ones, env), with_ones(from.strides, ones, env), shape);
  for (size_t i = 0; view && i < shape.size(); ++i)
    if (shape[i] != 1 && (*view)[i] != strides[i]) return true;
  return false;
}

}  // namespace

void Layouts::note_copy(Value v, const Call* call) {
  const size_t from = std::exchange(copies_known_, shapes_.taken().size());
  if (from == copies_known_ || !call || call->op->name == "torch.clone") return;
  const Call* maker = maker_of(v, call);
  const bool reshapes = maker->op->name == "prims.reshape";
  if (!reshapes && maker->op->name != "prims.clone") return;
  bool lays_out = false;
  if (reshapes) {
    const TensorType& source = maker->args[0].value().tensor();
    const Symbols ones = ones_of(source.shape, shapes_);
    lays_out = lies_otherwise(source, v.tensor(), ones, shapes_);
    for (SymbolId s : ones) lays_out = lays_out || lies_otherwise(source, v.tensor(), {s}, shapes_);
  }
  copies_.push_back({v, from, copies_known_, lays_out});
}

// A result that would be laid out otherwise for a size of 1.
void Layouts::keep(const TensorType& t) {
  if (!t.strided()) return;
  const Symbols ones = ones_of(t.shape, shapes_);
  auto lies_so = [&](const Symbols& which) {
    return is_dense(with_ones(t.shape, which, shapes_), with_ones(t.strides, which, shapes_));
  };
  if (ones.empty() || !lies_so({})) return;
  for (SymbolId s : ones)
    if (!lies_so({s})) shapes_.exclude_one(s);
}

// The stride of a dimension with one element may be any.
void Layouts::keep_strides(const TensorType& t) {
  keep(t);
  for (size_t i = 0; i < t.strides.size(); ++i) {
    if (t.strides[i].is_constant()) continue;
    for (SymbolId s : t.shape[i].symbols())
      if (shapes_.may_be_one(s)) shapes_.exclude_one(s);
  }
}

void Layouts::keep_sizes_of_one(const std::vector<Value>& computed) {
  for (Value v : computed)
    if (v.type().is_tensor()) keep(v.tensor());
  if (copies_.empty()) return;
  const MemoryOf memory_of(acquisition_.builder().calls());
  const bool writes = acquisition_.aliases().any_written();
  for (const Copy& c : copies_) {
    const bool seen =
        std::any_of(computed.begin(), computed.end(), [&](Value v) { return memory_of(v) == memory_of(c.value); });
    if (c.lays_out || seen || writes)
      for (size_t i = c.from; i < c.to; ++i) shapes_.keep_taken(i);
  }
}

void Layouts::replay(const Replay& calls) {
  for (Copy& copy : copies_) copy.value = calls.now(copy.value);
}

bool Layouts::has_format(const TensorType& t, const std::string& format) {
  ShapeEnv::Exactly scope;
  THUNDER_CHECK(t.strided(), Runtime, "is_contiguous", "a sparse tensor has no strides");
  if (format != "channels_last" && format != "channels_last_3d") return is_contiguous(t);
  if (t.rank() != (format == "channels_last" ? 4 : 5)) return false;
  const Dims want = channels_last_strides(t.shape);
  for (size_t i = 0; i < want.size(); ++i)
    if (t.shape[i] != Dim(1) && want[i] != t.strides[i]) return false;
  return true;
}

}  // namespace thunder::frontend
