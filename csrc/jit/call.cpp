// A call of a compiled function: the entry that fits it, the run, and what the program leaves outside.
#include <c10/core/GradMode.h>

#include <utility>

#include "core/progress.h"
#include "jit/cache_entry.h"
#include "jit/function.h"
#include "jit/raised.h"
#include "jit/tracing.h"
#include "python/gil.h"
#include "runtime/autograd.h"
#include "runtime/convert.h"
#include "runtime/generators.h"
#include "runtime/interop.h"

namespace thunder {

using frontend::Flattened;

namespace {

// An acquisition that was broken off may have taken the mode of a custom function's forward for the one before it.
struct SameGradModeIfItRaises {
  const bool enabled = c10::GradMode::is_enabled();
  bool raises = true;
  ~SameGradModeIfItRaises() {
    if (raises) c10::GradMode::set_enabled(enabled);
  }
};

}  // namespace

// The result of a call that an entry fits; nothing: none does.
std::optional<PyObject*> JitFunction::run_hit(const CallKey& key, const CallArguments& arguments,
                                              CallLock::Guard* lock) {
  // Owned: a recursive call or another thread may clear the cache.
  const std::shared_ptr<CacheEntry> e = cache_.find(key);
  if ((!e || e->may_have_tangents(key)) && has_dual_level()) {
    key.undraw();
    if (lock) lock->unlock();
    return eager_.run(arguments, "forward-mode AD is active");
  }
  if (!e) return std::nullopt;
  ++hits_;
  if (!std::exchange(e->used_again, true)) patience_.used_again();
  if (lock && !e->runs_locked()) lock->unlock();
  return run(*e, key, arguments, nullptr);
}

PyObject* JitFunction::call(PyObject* const* args, size_t nargs, PyObject* names) {
  if (Tracing::active()) {
    frontend::interpreter::InterpretingAgain scope;
    return PyObject_Vectorcall(function_.fn.get(), args, nargs, names);
  }
  const CallArguments arguments{args, nargs, names};
  CallKey key = cache_.key_of(arguments);
  if (key.fingerprint.watched()) return eager_.run(arguments, watcher());
  if (const std::optional<NeedsEager> refused = key.refused_arguments()) return eager_.run(arguments, refused->why);
  if (!cache_.writes())
    if (const std::optional<PyObject*> result = run_hit(key, arguments, nullptr)) return *result;
  // What a program reads of the environment, and writes there in the end, no other thread's call changes in between.
  CallLock::Guard lock(lock_);
  if (cache_.writes() || lock.waited())
    if (const std::optional<PyObject*> result = run_hit(key, arguments, &lock)) return *result;
  return call_new(key, arguments, lock);
}

// Why the call is not acquired; nothing: it is.  A function that compiles anew in nearly every call is better off
// without.
std::optional<NeedsEager> JitFunction::not_acquired(const CallKey& key) {
  if (const CacheEntry* refusal = refusals_.of(key)) return NeedsEager{refusal->eager->why, {}, refusal->eager->warns};
  const bool only_compiled = function_.options.cache == CacheMode::NoCaching ||
                             function_.options.sharp_edges == frontend::SharpEdges::Error ||
                             !function_.transform().empty() || function_.distributed || function_.is_of_distributed();
  if (only_compiled || patience_.may_compile()) return std::nullopt;
  return NeedsEager{cat("each of the last ", Patience::kPrograms,
                        " programs served one call (compile_stats(f)[\"last_miss\"] says why)"),
                    {},
                    true};
}

// The entry of a call that no entry fits.
Acquirer::Result JitFunction::compile_new(CallKey& key) {
  const Progress progress([this] { return function_.name(); });
  ++misses_;
  inspection_.keeping = {};
  Acquirer acquirer(function_, cache_, learned_, inspection_.keeping, key);
  SameGradModeIfItRaises mode;
  Acquirer::Result result = compile(acquirer);
  mode.raises = !std::holds_alternative<Acquirer::Entry>(result);
  return result;
}

PyObject* JitFunction::call_new(CallKey& key, const CallArguments& arguments, CallLock::Guard& lock) {
  if (const std::optional<NeedsEager> reason = not_acquired(key)) {
    lock.unlock();  // the function may wait for anything
    return eager_.run(arguments, reason->why, reason->warns);
  }
  const std::function<void()> undraw = remember_generators({Device{DeviceType::cpu}});
  Acquirer::Result result = compile_new(key);
  if (auto* made = std::get_if<Acquirer::Entry>(&result)) {
    CacheEntry& e = **made;
    const bool kept = inspection_.keeping.for_later();
    if (!e.runs_locked()) lock.unlock();
    Ref value = Ref::steal(run(e, key, arguments, &undraw));
    if (!kept) e.let_go();
    return value.release();
  }
  if (auto* failed = std::get_if<Failed>(&result)) {
    const bool needs_program = !function_.transform().empty() || function_.is_of_distributed();
    if (!failed->by_function || inspection_.keeping.once || needs_program) failed->raise();
    lock.unlock();
    return run_unacquired(key, arguments, std::move(failed->error));
  }
  lock.unlock();
  const NeedsEager& reason = std::get<NeedsEager>(result);
  return eager_.run(arguments, reason.why, reason.warns);
}

// In place of a program that could not be acquired.  A function whose acquisition costs more than it gives is not acquired
// for ever.
PyObject* JitFunction::run_unacquired(const CallKey& key, const CallArguments& a, Raised ours) {
  std::string why;
  PyObject* result = run_function(a, std::move(ours), Raiser::Acquisition, &why);
  if (!result || !refusals_.add_refuted()) return result;
  auto e = std::make_shared<CacheEntry>();
  e->be_eager(key, {why, {}});
  keep(std::move(e), key);
  return result;
}

// Calls the user's function in place of a program that raised, nothing of which has been done: it raises as well, with
// all that it did before, or goes another way.  `ours`: what was raised in its place.
PyObject* JitFunction::run_function(const CallArguments& a, Raised ours, Raiser raiser, std::string* why) {
  const bool acquiring = raiser == Raiser::Acquisition;
  if (is_refusal(ours) || !ours.is(PyExc_Exception)) {
    ours.raise();
    return nullptr;
  }
  PyObject* result = PyObject_Vectorcall(function_.fn.get(), a.args, a.nargs, a.names);
  if (!result) {
    Raised theirs = Raised::take();
    // The compiler's errors say more.
    const bool says_more = acquiring && is_ours(ours) && theirs.is(ours.type.get());
    (says_more ? ours : theirs).raise();
    return nullptr;
  }
  const Ref owned = Ref::steal(result);
  const std::string raised = cat(acquiring ? "compiling" : "the compiled program", " raised ",
                                 reinterpret_cast<PyTypeObject*>(ours.type.get())->tp_name, ": ", ours.text());
  if (why) *why = raised;
  const std::string message =
      cat("[jit] ", raised, "\n  The function itself does not raise it, and what it returned is this call's result.");
  if (PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1) != 0) return nullptr;
  return Py_NewRef(result);
}

// `undraw`: makes the generators what they were before the call; null: before the run is good enough.
PyObject* JitFunction::run(CacheEntry& e, const CallKey& call, const CallArguments& args,
                           const std::function<void()>* undraw) {
  const CallKey& key = call.of(e);
  e.last_use = hits_ + misses_;
  if (e.eager) return eager_.run(args, e.eager->why, e.eager->warns);
  if (e.plan) {
    check_told(*e.plan);
    e.plan->told = false;
  }
  for (const CacheEntry::Source& s : e.sources)
    if (s.becomes_leaf) torch_py::tensor(key.flat.tensors[s.index]).requires_grad_(true);
  std::vector<c10::IValue> inputs;
  inputs.reserve(e.sources.size());
  for (const CacheEntry::Source& s : e.sources) inputs.push_back(e.input(s, key));
  std::shared_ptr<const Programs> programs = e.programs;
  for (const auto& p : programs->placements)
    if (p && p->plan) p->check();
  std::vector<c10::IValue> outputs;
  std::function<void()> before;
  if (e.draws && e.repeatable && (!undraw || !e.generators.empty())) {
    std::vector<PyObject*> given;
    for (const Ref& g : e.generators) given.push_back(g.get());
    before = remember_generators({Device{DeviceType::cpu}}, given);
  }
  bool computing = false;
  try {
    WithoutGil released(!programs->needs_python());
    outputs = execute(programs, std::move(inputs), &computing);
  } catch (...) {
    if (!computing || !e.repeatable) throw;
    if (before) before();
    if (key.answers) key.answers->keep_drawn(0);
    if (undraw) (*undraw)();
    return run_function(args, current_error(), Raiser::Program);
  }
  std::vector<Ref> owned;
  owned.reserve(outputs.size());
  for (const c10::IValue& v : outputs) owned.push_back(to_python(v));
  if (e.output->single()) return owned[0].release();
  std::vector<PyObject*> leaves;
  for (const Ref& r : owned) leaves.push_back(r.get());
  Ref built = e.output->build(leaves.data(), key.flat.containers);
  if (e.effects.empty()) return built.release();
  write(e.effects, key.flat, PyTuple_GET_ITEM(built.get(), 1));
  return Ref::borrow(PyTuple_GET_ITEM(built.get(), 0)).release();
}

// `values`: what each effect leaves outside, a tuple.
void JitFunction::write(const std::vector<frontend::Effect>& effects, const Flattened& flat, PyObject* values) {
  std::vector<Ref> arguments;  // a write to one may take another's last reference
  for (PyObject* o : flat.containers) arguments.push_back(Ref::borrow(o));
  for (size_t i = 0; i < effects.size(); ++i) {
    const frontend::Effect& effect = effects[i];
    PyObject* value = effect.after ? PyTuple_GET_ITEM(values, static_cast<Py_ssize_t>(i)) : nullptr;
    PyObject* owner = effect.argument ? arguments[*effect.argument].get() : effect.owner.get();
    if (!frontend::apply_effect(effect, owner, value)) throw PythonError();
  }
}

}  // namespace thunder
