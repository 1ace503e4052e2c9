// Programs for sizes of which some calls have 1.
//
// Layouts and broadcasting take such a size to differ from 1 (ShapeEnv::make_size).  Values are the same all the same;
// what eager does otherwise with a size of 1 is kept here, by a guard that the size is another one wherever somebody
// could tell: a tensor that is contiguous for that size alone is itself what contiguous() and reshape() give, and no
// copy; and results are laid out otherwise where only the place of that size differs from row-major.
#include <algorithm>
#include <utility>

#include "frontend/tracer.h"
#include "ops/common.h"
#include "passes/visit.h"

namespace thunder::frontend {
namespace {

// The primitive that made a result, through the bodies of calls.
std::string_view maker_of(Value v, const Call* call) {
  for (const Call* inner : call->body) {
    bool makes = false;
    visit_outputs(*inner, [&](Value r) { makes = makes || r == v; });
    if (makes) return maker_of(v, inner);
  }
  return call->op->name;
}

bool is_dense(const Dims& shape, const Dims& strides) {
  return is_non_overlapping_and_dense(shape, strides) && same(ops::elementwise_strides(shape, {&strides}), strides);
}

}  // namespace

// `call` gave `v`, a tensor of its own, where it may have been taken for one that differs from an argument.
void Tracer::note_copy(Value v, const Call* call) {
  const size_t from = std::exchange(copies_known_, shapes_.taken().size());
  if (from == copies_known_ || !call || call->op->name == "torch.clone") return;
  const std::string_view maker = maker_of(v, call);
  if (maker == "prims.reshape" || maker == "prims.clone") copies_.push_back({v, from, copies_known_});
}

// A result that would be laid out otherwise for a size of 1.
void Tracer::keep_layout(const TensorType& t) {
  if (!t.strided()) return;
  std::vector<SymbolId> ones;
  for (const Dim& d : t.shape)
    for (SymbolId s : d.symbols())
      if (shapes_.may_be_one(s) && std::find(ones.begin(), ones.end(), s) == ones.end()) ones.push_back(s);
  auto lies_so = [&](std::optional<SymbolId> one) {
    auto value = [&](SymbolId s) { return one == s ? Dim(1) : Dim(std::max<int64_t>(shapes_.hint(s).value_or(3), 2)); };
    Dims shape, strides;
    for (const Dim& d : t.shape) shape.push_back(d.substitute(value));
    for (const Dim& d : t.strides) strides.push_back(d.substitute(value));
    return is_dense(shape, strides);
  };
  if (ones.empty() || !lies_so({})) return;
  for (SymbolId s : ones)
    if (!lies_so(s)) shapes_.exclude_one(s);
}

// The stride of a dimension with one element may be any.
void Tracer::keep_strides(const TensorType& t) {
  keep_layout(t);
  for (size_t i = 0; i < t.strides.size(); ++i) {
    if (t.strides[i].is_constant()) continue;
    for (SymbolId s : t.shape[i].symbols())
      if (shapes_.may_be_one(s)) shapes_.exclude_one(s);
  }
}

// `computed`: what the computation gives.
void Tracer::keep_sizes_of_one(const std::vector<Value>& computed) {
  for (Value v : computed)
    if (v.type().is_tensor()) keep_layout(v.tensor());
  if (copies_.empty()) return;
  const MemoryOf memory_of(b_.calls());
  const bool writes = aliases_.any_written();
  for (const Copy& c : copies_) {
    const bool seen =
        std::any_of(computed.begin(), computed.end(), [&](Value v) { return memory_of(v) == memory_of(c.value); });
    if (seen || writes)
      for (size_t i = c.from; i < c.to; ++i) shapes_.keep_taken(i);
  }
}

}  // namespace thunder::frontend
