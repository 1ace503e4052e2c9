#include "fuser/fused.h"

#include <algorithm>

#include "core/error.h"
#include "core/trace.h"
#include "doctest.h"
#include "fuser/emit.h"

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

std::vector<ValueId> made_by(const fuser::Kernel& k) {
  std::vector<ValueId> out;
  for (const Call* c : k.calls) out.push_back(c->output.value().id());
  std::sort(out.begin(), out.end());
  return out;
}

// A kernel that is found among those lowered before is what lowering makes.
void check_found(const fuser::Fusion& f, const fuser::LowerOptions& options) {
  const auto made = fuser::lower(f.roots, f.producer, f.materialized, options);
  const auto found = f.lowered->lower(f.roots, f.producer, f.materialized, options);
  REQUIRE(made.has_value() == found.has_value());
  if (!made) return;
  CHECK(found->inputs == made->inputs);
  CHECK(found->outputs == made->outputs);
  CHECK(found->numbers == made->numbers);
  CHECK(made_by(*found) == made_by(*made));
  CHECK(found->usual_rows == made->usual_rows);
  CHECK(found->cached_bytes == made->cached_bytes);
  CHECK(fuser::emit_cuda(*found, "k") == fuser::emit_cuda(*made, "k"));
  if (options.lanes == 1) CHECK(fuser::emit_host(*found, "k") == fuser::emit_host(*made, "k"));
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
    for (const fuser::LowerOptions& o : options) check_found(f, o);
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
