#include "passes/mask_programs.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "core/rewrite.h"

namespace thunder {

MaskPrograms::MaskPrograms(const Trace& trace, const MaskReader& reader) : trace_(trace), reader_(reader) {
  if (!reader.guard) return;
  const ShapeEnv* env = ShapeEnv::current();
  for (Value v : trace.inputs) {
    if (v.type().is_tensor() && reader.is_fixed && reader.is_fixed(v)) given_.set(v, 1);
    if (!env) continue;
    if (const std::optional<SymbolId> s = bound_symbol(v); s && env->hint(*s) && !env->is_unbacked(*s))
      given_.set(v, 1);
  }
}

// What the call makes is known if it has no effect and reads nothing else.
void MaskPrograms::note(const Call& call) {
  bool constant = effects(call) == 0;
  visit_all_inputs(call, [&](Value v) { constant = constant && is_known(v); });
  if (constant) visit_outputs(call, [&](Value v) { makers_.set(v, &call); });
}

const KnownMask& MaskPrograms::kind(Value mask) {
  if (const auto it = known_.find(mask.id()); it != known_.end()) return it->second;
  KnownMask found = MaskKind::Other;
  found.rows_see = false;
  if (reader_.classify) found = reader_.classify(program_of(mask));
  return known_.emplace(mask.id(), found).first->second;
}

void MaskPrograms::depend_on(Value mask, const KnownMask& known) {
  const Trace& program = program_of(mask);
  if (!program.inputs.empty() && guarded_.insert(mask.id()).second) reader_.guard(program, known);
}

// The calls that make it, in order.
const Trace& MaskPrograms::program_of(Value mask) {
  if (auto it = programs_.find(mask.id()); it != programs_.end()) return it->second;
  std::unordered_set<const Call*> needed;
  std::vector<const Call*> calls;
  ValueSet read;
  // Depth first: a call stands behind those that make what it reads.
  const std::function<void(Value)> need = [&](Value v) {
    if (given_[v]) return read.set(v, 1);
    const Call* call = makers_[v];
    if (!needed.insert(call).second) return;
    visit_all_inputs(*call, need);
    calls.push_back(call);
  };
  need(mask);
  Trace out = trace_.derived();
  out.inputs.clear();
  std::copy_if(trace_.inputs.begin(), trace_.inputs.end(), std::back_inserter(out.inputs),
               [&](Value v) { return read[v] != 0; });
  out.calls = std::move(calls);
  out.output = Arg(mask);
  return programs_.emplace(mask.id(), std::move(out)).first->second;
}

}  // namespace thunder
