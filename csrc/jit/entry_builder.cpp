#include "jit/entry_builder.h"

#include "core/rewrite.h"
#include "frontend/hooks.h"
#include "jit/fixed_tensors.h"
#include "jit/known_mask.h"
#include "jit/repeatable.h"
#include "passes/passes.h"
#include "passes/write_in_place.h"
#include "runtime/instruction.h"

namespace thunder {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Whether the program computes tensors, or makes views, through which gradients flow.
bool has_gradients(const frontend::Acquired& acquired) {
  bool any = false;
  visit_values(acquired.computation.output, [&](Value v) { any |= v.requires_grad(); });
  const auto made_by = producers(acquired.epilogue);
  visit_values(acquired.epilogue.output, [&](Value v) {
    const auto at = made_by.find(v);
    const Call* call = at == made_by.end() ? nullptr : acquired.epilogue.calls[at->second];
    any |= v.requires_grad() && call && call->op->has(kView | kIdentity);
  });
  return any;
}
}  // namespace

EntryBuilder::EntryBuilder(UserFunction& function, AcquiredProgram& program)
    : function_(function),
      program_(program),
      scope_(program.tracer->shapes()),
      grad_enabled_(frontend::hooks().grad_enabled()),
      with_grad_(grad_enabled_ || has_gradients(program.acquired)),
      mode_of_rules_(with_grad_),
      distributed_(find_distributed(program.acquired)),
      options_(function.options.compile) {
  record_->times.acquisition = program.seconds;
  CacheEntry& e = *program.entry;
  const bool is_distributed = static_cast<bool>(distributed_.distribution);
  function.distributed = function.distributed || is_distributed;
  if (is_distributed) check_parameters(function.module.get());
  read_masks();
  options_.is_opaque = [](const Call& c) { return !find_lowering(c.op->executor); };
  if (!function.options.float8) return;
  const Float8Choice choice = function.options.float8(function.module.get());
  options_.float8 = find_float8(choice, program.acquired, is_distributed, record_->float8);
  if (options_.float8.history) e.float8_recorded = choice.recorded;
  e.float8_delayed = options_.float8.delayed;
}

// With buffers that have not been seen to change.  The reader serves this compilation alone.
void EntryBuilder::read_masks() {
  const auto tensors =
      std::make_shared<const FixedTensors>(*function_.masks_change ? FixedTensors{} : fixed_tensors(program_.acquired));
  const auto guard = [entry = program_.entry, acquired = &program_.acquired, tensors,
                      changing = function_.masks_change](const std::vector<ValueId>& inputs,
                                                         std::function<bool(const FixedTensors&)> holds) {
    entry->fixed.add(*acquired, inputs, *tensors, std::move(holds), changing);
  };
  options_.masks = mask_reader(tensors, guard, function_.compiles_only);
}

Compiled EntryBuilder::compile() const {
  return thunder::compile(program_.acquired.computation, options_, with_grad_, distributed_.distribution);
}

std::shared_ptr<const CompileRecord> EntryBuilder::traces() {
  record_->compiled = compile();
  return record_;
}

std::shared_ptr<const CompileRecord> EntryBuilder::build(bool again) {
  run_passes();
  record_->times.passes = seconds_since(start_);
  start_ = std::chrono::steady_clock::now();
  build_programs();
  find_repeatable(*program_.entry, function_, program_.acquired.computation, again);
  record_->times.programs = seconds_since(start_);
  return record_;
}

void EntryBuilder::run_passes() {
  const frontend::Acquired& acquired = program_.acquired;
  record_->compiled = compile_in_agreement(distributed_.distribution, [this] { return compile(); });
  record_->trivial_epilogue = acquired.trivial_epilogue;
  if (acquired.trivial_epilogue) return;
  record_->epilogue = claim(acquired.epilogue, function_.options.compile.executors, false);
  write_in_place();
}

// What the epilogue only copies into inputs may be written there at once.
void EntryBuilder::write_in_place() {
  Compiled& c = record_->compiled;
  const std::optional<PlainEpilogue> plain =
      c.has_backward || function_.distributed ? std::nullopt : PlainEpilogue::find(record_->epilogue, c);
  if (!plain) return;
  std::vector<std::pair<size_t, size_t>> copied;
  for (const auto& [output, input] : plain->writes)
    if (!plain->gives(output, c.forward.inputs.size())) copied.emplace_back(output, input);
  c.forward = run_pass(
      PassName{"write_in_place", "Writes In Place"}, c.forward,
      [&](const Trace& t) { return thunder::write_in_place(t, copied, function_.options.compile.executors); },
      function_.options.compile.passes, &c.history);
}

void EntryBuilder::build_programs() {
  CacheEntry& e = *program_.entry;
  const frontend::Acquired& acquired = program_.acquired;
  std::shared_ptr<Programs> programs =
      make_programs(record_->compiled, acquired.trivial_epilogue ? nullptr : &record_->epilogue);
  // Sums with fewer roundings than eager's are for those who did not ask for eager's.
  if (!function_.options.compile.fusion.eager_numerics) {
    programs->accumulated = function_.accumulated;
    if (programs->backward) programs->backward->add_to_sums(function_.accumulated);
  }
  programs->enables_grad = with_grad_ && !grad_enabled_;
  programs->differentiated = e.float8_recorded;
  programs->retained = acquired.retained;
  place(*programs, std::move(distributed_.placements));
  e.plan = distributed_.distribution.plan;
  e.synchronization = distributed_.distribution.mode;
  // With "no caching" no entry has a second run.
  if (function_.options.graphs && function_.options.cache != CacheMode::NoCaching) {
    std::vector<char> by_address;
    for (const frontend::InputSource& s : acquired.sources)
      by_address.push_back(s.kind == frontend::InputSource::Captured);
    use_graphs(*programs, function_.options.graphs, record_->compiled, std::move(by_address));
  }
  e.programs = std::move(programs);
}

}  // namespace thunder
