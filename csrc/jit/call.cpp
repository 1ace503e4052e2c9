// A call of a compiled function: the entry that fits it, the run, and what the program leaves outside.
#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/progress.h"
#include "frontend/hooks.h"
#include "jit/cache_entry.h"
#include "jit/function.h"
#include "jit/raised.h"
#include "passes/counted_random.h"
#include "passes/visit.h"
#include "runtime/autograd.h"
#include "runtime/convert.h"
#include "runtime/generators.h"
#include "runtime/gil.h"
#include "runtime/interop.h"

namespace thunder {

using frontend::Flattened;
using frontend::Ref;

namespace {

// An acquisition that was broken off may have taken the mode of a custom function's forward for the one before it.
struct SameGradModeIfItRaises {
  const bool enabled = c10::GradMode::is_enabled();
  bool raises = true;
  ~SameGradModeIfItRaises() {
    if (raises) c10::GradMode::set_enabled(enabled);
  }
};

// What the random call reads and sets of the generators is remembered: those of `objects`, which it is given, and the
// CPU's own.  False where it may change others.
bool find_generators(const Call& call, std::vector<Ref>& objects) {
  bool known = true, given = false;
  std::function<void(const Arg&)> visit = [&](const Arg& a) {
    if (a.is_sequence())
      for (const Arg& item : a.items()) visit(item);
    if (a.kind() != Arg::Kind::Opaque) return;
    auto* object = static_cast<PyObject*>(a.opaque().object.get());
    if (!object || !is_generator(object)) return;
    given = true;
    known = known && is_cpu_generator(object);
    objects.push_back(Ref::borrow(object));
  };
  for (const Arg& a : call.args) visit(a);
  // torch.manual_seed() seeds the generators of all devices.
  if (changes_generator(call) && !given && at::globalContext().hasCUDA()) return false;
  return known &&
         std::all_of(call.body.begin(), call.body.end(), [&](const Call* c) { return find_generators(*c, objects); });
}

// Whether the executor of that name is the user's, whose code may do something else than PyTorch.
bool is_custom(const std::string& executor) {
  return !executor.empty() && !Executors::instance().is_reserved(executor);
}
bool is_custom(const Call& call) {
  return is_custom(call.op->executor) ||
         std::any_of(call.body.begin(), call.body.end(), [](const Call* c) { return is_custom(*c); });
}

}  // namespace

std::shared_ptr<JitFunction::CacheEntry> JitFunction::hit(const Key& key) {
  std::shared_ptr<CacheEntry> e = find(key);
  if ((!e || e->may_have_tangents(key)) && has_dual_level()) {
    key.undraw();
    throw NeedsEager{"forward-mode AD is active", {}};
  }
  if (!e) return e;
  ++hits_;
  if (!std::exchange(e->used_again, true)) patience_.used_again();
  return e;
}

PyObject* JitFunction::call(PyObject* const* args, size_t nargs, PyObject* names) {
  if (is_tracing()) {
    frontend::interpreter::InterpretingAgain scope;
    return PyObject_Vectorcall(fn_.get(), args, nargs, names);
  }
  const Arguments arguments{args, nargs, names};
  Key key = key_of(arguments);
  if (key.fingerprint.watched()) return run_eagerly(arguments, watcher());
  try {
    key.check_kinds();
    if (!writes_) {
      // Owned: a recursive call or another thread may clear the cache.
      if (std::shared_ptr<CacheEntry> e = hit(key)) return run(*e, key, arguments, nullptr);
    }
    // What a program reads of the world, and writes there in the end, no other thread's call changes in between.
    Turns::Turn turn(turns_);
    if (writes_ || turn.waited()) {
      if (std::shared_ptr<CacheEntry> e = hit(key)) {
        if (!e->takes_turns()) turn.end();
        return run(*e, key, arguments, nullptr);
      }
    }
    return call_new(key, arguments, turn);
  } catch (const NeedsEager& reason) {
    return run_eagerly(arguments, reason.why, reason.warns);
  }
}

// Eager has not the parameters of a distributed module.  The question leaves a pending exception alone.
bool JitFunction::is_of_distributed() const {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  const bool out = frontend::hooks().is_distributed(module_.get());
  PyErr_Restore(type, value, traceback);
  return out;
}

std::string JitFunction::name() const {
  if (module_.get() != Py_None) return Py_TYPE(module_.get())->tp_name;
  PyObject* fn = PyMethod_Check(fn_.get()) ? PyMethod_GET_FUNCTION(fn_.get()) : fn_.get();
  if (!PyFunction_Check(fn)) return Py_TYPE(fn)->tp_name;
  const char* name = PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(fn)->func_qualname);
  if (!name) PyErr_Clear();
  return name ? name : "a function";
}

// A call that no entry fits.
PyObject* JitFunction::call_new(Key& key, const Arguments& arguments, Turns::Turn& turn) {
  check_refused(key);
  check_patience();
  const Progress progress([this] { return name(); });
  ++misses_;
  once_.clear();
  not_kept_.clear();
  raised_ = false;
  const std::function<void()> undraw = remember_generators({Device{DeviceType::cpu}});
  std::shared_ptr<CacheEntry> e;
  try {
    SameGradModeIfItRaises mode;
    e = compile(key, arguments);
    mode.raises = false;
  } catch (const NeedsEager&) {
    throw;
  } catch (const frontend::Interrupted&) {
    throw;
  } catch (...) {
    if (!raised_ || !once_.empty() || !transform().empty() || is_of_distributed()) throw;
    turn.end();  // the function may wait for anything
    return run_unacquired(key, arguments);
  }
  const bool kept = once_.empty() && not_kept_.empty();
  if (!e->takes_turns()) turn.end();
  const Ref result = Ref::steal(run(*e, key, arguments, &undraw));
  if (!kept) e->let_go();
  return Ref(result).release();
}

// In place of a program that could not be acquired.  A function whose acquisition costs more than it gives is not acquired
// for ever.
PyObject* JitFunction::run_unacquired(const Key& key, const Arguments& a) {
  constexpr size_t kAttempts = 3;
  std::string why;
  PyObject* result = run_function(a, true, &why);
  if (!result || ++refuted_ < kAttempts) return result;
  auto e = std::make_shared<CacheEntry>();
  e->be_eager(key, {why, {}});
  keep(std::move(e), key);
  return result;
}

// Whether the user's function does what the program does, so that it can stand for one that raises.
void JitFunction::find_repeatable(CacheEntry& e, const Trace& computation, const frontend::Tracer& tracer) const {
  uint64_t effects = 0;
  e.repeatable = once_.empty() && transform().empty() && !tracer.calls().speaks();
  for (const auto& executor : options_.executors) e.repeatable = e.repeatable && !is_custom(executor->name());
  for (const Call* c : computation.calls) {
    e.repeatable = e.repeatable && !is_custom(*c);
    const uint64_t of_call = tags_within(*c, kRandom | kCollective);
    effects |= of_call;
    if (!(of_call & kRandom)) continue;
    e.repeatable = find_generators(*c, e.generators) && e.repeatable;
    // The state of a GPU's generator cannot be asked for while a graph is recorded.
    visit_outputs(*c, [&](Value v) {
      e.repeatable = e.repeatable && (!v.type().is_tensor() || v.tensor().device.type == DeviceType::cpu);
    });
  }
  e.draws = (effects & kRandom) != 0;
  e.communicates = (effects & kCollective) != 0 || e.plan;
  e.repeatable = e.repeatable && !e.communicates;
}

// Calls the user's function in place of a program that raised, nothing of which has been done: it raises as well, with
// all that it did before, or goes another way.  `acquiring`: the program was not even acquired.
PyObject* JitFunction::run_function(const Arguments& a, bool acquiring, std::string* why) {
  Raised ours = Raised::current();
  if (ours.is_refusal() || !ours.is(PyExc_Exception)) {
    ours.raise();
    return nullptr;
  }
  PyObject* result = PyObject_Vectorcall(fn_.get(), a.args, a.nargs, a.names);
  if (!result) {
    Raised theirs = Raised::take();
    // The compiler's errors say more.
    const bool says_more = acquiring && ours.is_ours() && theirs.is(ours.type.get());
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
PyObject* JitFunction::run(CacheEntry& e, const Key& call, const Arguments& args, const std::function<void()>* undraw) {
  const Key& key = call.of(e);
  e.last_use = hits_ + misses_;
  if (!e.eager.empty()) return run_eagerly(args, e.eager, e.eager_warns);
  if (e.plan) {
    check_told(*e.plan);
    e.plan->told = false;
  }
  for (const CacheEntry::Source& s : e.sources)
    if (s.becomes_leaf) torch_py::tensor(key.flat.tensors[s.index]).requires_grad_(true);
  std::vector<c10::IValue> inputs;
  inputs.reserve(e.sources.size());
  for (const CacheEntry::Source& s : e.sources) inputs.push_back(e.input(s, key));
  std::shared_ptr<const Entry> entry = e.entry;
  for (const auto& p : entry->placements)
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
    WithoutGil released(!entry->needs_python());
    outputs = execute(entry, std::move(inputs), &computing);
  } catch (...) {
    if (!computing || !e.repeatable) throw;
    if (before) before();
    if (key.answers) key.answers->keep_drawn(0);
    if (undraw) (*undraw)();
    return run_function(args, false);
  }
  std::vector<Ref> owned;
  owned.reserve(outputs.size());
  for (const c10::IValue& v : outputs) owned.push_back(Ref::steal(to_python(v)));
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
    if (!frontend::apply_effect(effect, owner, value)) throw frontend::PythonError();
  }
}

}  // namespace thunder
