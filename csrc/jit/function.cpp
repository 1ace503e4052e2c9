// The compilation of a call that no program fits, and what else is asked of a compiled function.
#include "jit/function.h"

#include "core/error.h"
#include "jit/entry_builder.h"
#include "jit/entry_inputs.h"
#include "runtime/watchers.h"

namespace thunder {

JitFunction::JitFunction(UserFunction function) : function_(std::move(function)) {}

Acquirer::Result JitFunction::compile(Acquirer& acquirer) {
  inspection_.not_symbolic.clear();
  Acquirer::Result result =
      acquirer.acquire([this](AcquiredProgram& program) { return compile_acquired(program); },
                       [this](std::shared_ptr<CacheEntry> refused, const CallKey& key, const NeedsEager& reason) {
                         return leave_to_eager(std::move(refused), key, reason);
                       });
  if (std::holds_alternative<Acquirer::Entry>(result)) inspection_.not_symbolic = acquirer.not_symbolic();
  return result;
}

std::shared_ptr<CacheEntry> JitFunction::compile_acquired(AcquiredProgram& program) {
  const CallKey& key = program.key;
  frontend::Tracer& tracer = *program.tracer;
  EntryBuilder builder(function_, program);
  if (function_.compiles_only) {
    inspection_.record = builder.traces();
    return nullptr;
  }
  std::shared_ptr<CacheEntry> e = program.entry;
  std::shared_ptr<const CompileRecord> record = builder.build(!inspection_.keeping.once && !tracer.calls().speaks());
  add_inputs(*e, key, program.acquired, tracer.shapes(), steps_, learned_);
  inspection_.take(std::move(record), *e);
  e->be_for(key);
  e->captured = e->fingerprint_all(key.flat);
  e->remember();
  refusals_.end_row(key);
  tracer.questions().keep_drawn();
  return keep(std::move(e), key);
}

std::shared_ptr<CacheEntry> JitFunction::leave_to_eager(std::shared_ptr<CacheEntry> e, const CallKey& key,
                                                        const NeedsEager& reason) {
  THUNDER_CHECK(!function_.compiles_only, NotImplemented, "simulate", "no program stands for the call: ", reason.why);
  function_.check_not_distributed(reason.why);
  e->be_eager(key, reason);
  const bool counts = reason.warns && !reason.of_arguments && !reason.tensor && inspection_.keeping.for_later();
  refusals_.add(e, key, counts);
  return keep(std::move(e), key);
}

std::shared_ptr<CacheEntry> JitFunction::keep(std::shared_ptr<CacheEntry> e, const CallKey& key) {
  return cache_.keep(std::move(e), key, inspection_.keeping.for_later());
}

std::shared_ptr<const CompileRecord> JitFunction::compile_only(PyObject* const* args, size_t nargs, PyObject* names) {
  CallKey key = cache_.key_of({args, nargs, names});
  function_.compiles_only = true;
  function_.options.compile.fusion.compiles = false;
  inspection_.keeping.once.reset();
  std::optional<NeedsEager> refused = key.refused_arguments();
  if (key.fingerprint.watched()) refused = NeedsEager{watcher()};
  if (!refused) {
    Acquirer acquirer(function_, cache_, learned_, inspection_.keeping, key);
    Acquirer::Result result = compile(acquirer);
    if (auto* failed = std::get_if<Failed>(&result)) failed->raise();
    if (auto* reason = std::get_if<NeedsEager>(&result)) refused = std::move(*reason);
  }
  if (refused) throw Error(ErrorKind::NotImplemented, cat("[simulate] no program stands for the call: ", refused->why));
  return inspection_.record;
}

std::vector<std::string> JitFunction::guards() const {
  const CacheEntry* last = cache_.last();
  if (!last) return {};
  std::vector<std::string> out = last->environment.lines();
  for (std::string& line : last->checks.text()) out.push_back(std::move(line));
  return out;
}

void JitFunction::clear_cache() {
  cache_.clear();
  steps_.clear();
  learned_.clear_numbers();
  refusals_.clear();
}

bool JitFunction::check_guards_only(PyObject* const* args, size_t nargs, PyObject* names) {
  const CallKey key = cache_.key_of({args, nargs, names});
  if (key.fingerprint.watched() || key.other_kind || key.flat.overriding) return false;
  const bool found = cache_.find(key) != nullptr;
  key.undraw();
  return found;
}

int JitFunction::traverse(visitproc visit, void* arg) {
  Py_VISIT(function_.fn.get());
  Py_VISIT(function_.module.get());
  Py_VISIT(eager_.inner_modules());
  return 0;
}

}  // namespace thunder
