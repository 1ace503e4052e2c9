#include "fuser/fused.h"

#include "core/error.h"
#include "core/trace.h"

namespace thunder::test {
namespace {

const Op* make_op(const std::string& name, size_t inputs, Arena& arena) {
  OpDef def;
  const std::string schema = name + "() -> any";
  def.schema = schema;
  auto op = std::make_unique<Op>("fuser", def);
  for (size_t i = 0; i < inputs; ++i) {
    Param p;
    p.name = cat("a", i);
    op->schema.params.push_back(std::move(p));
  }
  op->print_name = name;
  op->executor = "fuser";
  return &arena.own(std::move(op));
}

}  // namespace

const Fused* Partitioned::find(const Op* op) const {
  for (const Fused& f : fusions)
    if (f.op == op) return &f;
  return nullptr;
}

Partitioned partitioned(const Trace& trace, const std::vector<fuser::LowerOptions>& options,
                        const std::function<bool(const fuser::Fusion&)>& take, bool single) {
  Partitioned out;
  fuser::PartitionOptions with;
  with.single = single;
  with.make_op = [&](fuser::Fusion& f) -> const Op* {
    if (take && !take(f)) return nullptr;
    Fused fused;
    fused.roots = f.roots;
    fused.calls = f.calls;
    fused.inputs = f.inputs;
    fused.outputs = f.outputs;
    fused.plain = *fuser::lower(f.roots, f.producer, f.materialized, {});
    for (const fuser::LowerOptions& o : options)
      if (auto kernel = fuser::lower(f.roots, f.producer, f.materialized, o))
        fused.lowered.push_back(std::move(*kernel));
    f.numbers.assign(fused.plain.numbers.begin(), fused.plain.numbers.end());
    fused.op = make_op(cat("fusion", out.fusions.size()), f.inputs.size() + f.numbers.size(), *trace.arena);
    out.fusions.push_back(std::move(fused));
    return out.fusions.back().op;
  };
  out.trace = fuser::partition(trace, with);
  return out;
}

Trace program_of(const Fused& fusion, const std::shared_ptr<Arena>& arena) {
  Trace t;
  t.arena = arena;
  t.inputs = fusion.inputs;
  t.calls = fusion.calls;
  t.output = Arg::tuple(ArgList(fusion.outputs.begin(), fusion.outputs.end()));
  return t;
}

}  // namespace thunder::test
