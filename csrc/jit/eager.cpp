// Calls that run the function itself, because a program in its place would not be what eager is.
#include "core/error.h"
#include "jit/cache_entry.h"
#include "jit/raised.h"

namespace thunder {

using frontend::Ref;

namespace {

// While this lives, modules run as programs of their own: `modules` are InnerModules of thunder/_inner_modules.py, or
// null.
class WithInnerModules {
 public:
  explicit WithInnerModules(PyObject* modules) : modules_(modules) {
    if (!modules_) return;
    entered_ = PyObject_CallMethod(modules_, "enter", nullptr);
    if (!entered_) PyErr_WriteUnraisable(modules_);
  }
  ~WithInnerModules() {
    if (!entered_) return;
    // The function may have raised.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject* left = PyObject_CallMethod(modules_, "leave", "(O)", entered_);
    if (!left) PyErr_WriteUnraisable(modules_);
    Py_XDECREF(left);
    Py_DECREF(entered_);
    PyErr_Restore(type, value, traceback);
  }
  WithInnerModules(const WithInnerModules&) = delete;
  WithInnerModules& operator=(const WithInnerModules&) = delete;

 private:
  PyObject* const modules_;
  PyObject* entered_ = nullptr;
};

}  // namespace

void JitFunction::Key::check_kinds() const {
  if (other_kind) throw NeedsEager{cat("an argument is a tensor ", other_kind_of_tensor(other_kind)), {}};
  if (flat.overriding)
    throw NeedsEager{
        cat("an argument is of class ", Py_TYPE(flat.overriding)->tp_name, ", which overrides torch functions"), {}};
}

// Eager knows nothing of what lies on other processes.
void JitFunction::check_not_distributed(const std::string& why) const {
  THUNDER_CHECK(!distributed_ && !frontend::hooks().is_distributed(module_.get()), NotImplemented, "distributed", why,
                ", where only the function itself can run, and its parameters are distributed over processes, which "
                "compiled programs alone know of");
}

// Transforms that the user gave are a part of the function, which eager would leave out without a word.
PyObject* JitFunction::run_eagerly(const Arguments& args, const std::string& why, bool warns) {
  const std::string left_out = transform();
  THUNDER_CHECK(left_out.empty(), NotImplemented, "jit", why,
                ", where only the function itself can run, without the transform ", left_out,
                ". Call the function there as it was before thunder.jit, or compile it without transforms");
  check_not_distributed(why);
  ++eager_[why];
  const Ref result = [&] {
    // Under modes, and for classes of tensors, modules are left to eager as well.
    const WithInnerModules inner(warns ? inner_modules_.get() : nullptr);
    return Ref::steal(PyObject_Vectorcall(fn_.get(), args.args, args.nargs, args.names));
  }();
  // What eager refuses as well is its exception alone.
  if (!result.get() || (warns && !warn_of_eager(why))) return nullptr;
  return Py_NewRef(result.get());
}

// Whether the function, which raised, is acquired in no other way, so that a refusal is the last word.
bool JitFunction::is_last_attempt(const CacheEntry& e, frontend::Tracer& t, const NumberMode& mode) const {
  if (t.tensors().shared_memory_written() || (e.symbols && !e.symbols->constant())) return false;
  if (t.shapes().assumed() && !t.shapes().asks) return false;
  if (raised_ && t.asked_whether_compiled && t.seems_compiled) return false;
  return !mode.vary || !reads_varying(t);
}

// The message of the exception in flight, a refusal where the function itself can do what was refused; any other is
// thrown on.
std::string JitFunction::refusal() const {
  if (!once_.empty() || compiles_only_ || !transform().empty() || is_of_distributed()) throw;
  Raised raised = Raised::current();
  if (raised.is_not_implemented()) return raised.text();
  raised.raise();
  throw frontend::PythonError();
}

// Once for a function, though it may be left to eager in several ways.  False with an exception set.
bool JitFunction::warn_of_eager(const std::string& why) {
  if (warned_) return true;
  const bool is_function = module_.get() == Py_None;
  const std::string which = is_function ? "The function" : "The module";
  // A refusal has the operator's name before it, and lines.
  const bool is_error = why.starts_with("[");
  const char* inner =
      "; the modules that it calls are compiled where they can be (compile_stats(f)[\"inner_modules\"])";
  const std::string text = cat(is_error ? "" : "[jit] ", why, is_error ? "\n  " : ". ", which,
                               " runs by eager PyTorch, not compiled", inner_modules_.get() ? inner : "");
  // A module's __call__ is Python.
  warned_ = PyErr_WarnEx(PyExc_UserWarning, text.c_str(), is_function ? 1 : 2) == 0;
  return warned_;
}

// A function that is refused whatever the arguments are (their sizes, say) is not acquired for each of them.
void JitFunction::count_refusal(const std::shared_ptr<CacheEntry>& e, const Key& key, const NeedsEager& reason) {
  constexpr size_t kAttempts = 3;
  const bool counts = reason.warns && !reason.of_arguments && !reason.tensor && once_.empty() && not_kept_.empty();
  refusals_ = counts ? refusals_ + 1 : 0;
  refusing_ = refusals_ >= kAttempts ? e : nullptr;
  const uint64_t kind = kind_of(key);
  if (!counts) {
    refused_.erase(kind);
    return;
  }
  constexpr size_t kMostKinds = 64;
  if (refused_.size() >= kMostKinds && !refused_.contains(kind)) refused_.clear();
  RefusedCalls& like = refused_[kind];
  if (like.last && like.last->eager != e->eager) like.patience = RefusedCalls().patience;
  like.last = e;
}

// The reason for a refusal may come before what the call reads of an environment that never is the same again
// (gradients, counters): calls like it are acquired less and less often.
void JitFunction::check_refused(const Key& key) {
  auto refuse = [](const CacheEntry& e) { throw NeedsEager{e.eager, {}, e.eager_warns}; };
  if (refusing_ && refusing_->world.check(nullptr)) refuse(*refusing_);
  if (refused_.empty()) return;
  const auto like = refused_.find(kind_of(key));
  if (like == refused_.end() || like->second.last->world.check(nullptr)) return;
  if (!like->second.patience.may_compile()) refuse(*like->second.last);
}

// A function that compiles anew in nearly every call is better off without.
void JitFunction::check_patience() {
  const bool only_compiled = cache_ == CacheMode::NoCaching || edges_ == frontend::SharpEdges::Error ||
                             !transform().empty() || distributed_ || is_of_distributed();
  if (only_compiled || patience_.may_compile()) return;
  throw NeedsEager{cat("each of the last ", Patience::kPrograms,
                       " programs served one call (compile_stats(f)[\"last_miss\"] says why)"),
                   {},
                   true};
}

// Later calls with the same key, in the same world, need not find that out again.
void JitFunction::CacheEntry::be_eager(const Key& of, const NeedsEager& reason) {
  eager = reason.why;
  eager_warns = reason.warns;
  symbols = nullptr;
  effects.clear();
  be_for(of);
  eager_for_tensor = static_cast<bool>(reason.tensor);
  if (eager_for_tensor) world.add_tensor(reason.tensor.get());
}

}  // namespace thunder
