// The compiled function: what thunder.jit returns calls this.
//
// A call flattens its arguments, makes the fingerprint of its tensors and of global state, and looks the pair up
// (jit/cache.h).  A hit runs the entry whose guards hold; a miss acquires the program (jit/acquirer.h), compiles it
// (jit/entry_builder.h), and adds an entry.  Eager runs a call that no program can stand for (jit/eager_calls.h).
//
// A JitFunction owns these parts, and decides for a call which of them has it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/acquirer.h"
#include "jit/cache.h"
#include "jit/call_key.h"
#include "jit/eager_calls.h"
#include "jit/inspection.h"
#include "jit/learned.h"
#include "jit/patience.h"
#include "jit/refusals.h"
#include "jit/turns.h"
#include "jit/user_function.h"
#include "jit/value_checks.h"

namespace thunder {

class JitFunction {
 public:
  explicit JitFunction(UserFunction function);
  JitFunction(const JitFunction&) = delete;
  JitFunction& operator=(const JitFunction&) = delete;

  /// `args`: a vectorcall's arguments; `names`: keyword names, or null.
  PyObject* call(PyObject* const* args, size_t nargs, PyObject* names);

  /// Acquires and compiles the program of such a call, for a device that need not be here.  Nothing is run, kept for
  /// calls, or agreed upon with other processes.  Error (NotImplemented) where the call would be left to eager.
  std::shared_ptr<const CompileRecord> compile_only(PyObject* const* args, size_t nargs, PyObject* names);
  /// Whether such a call would hit the cache: runs the guards and nothing else.
  bool check_guards_only(PyObject* const* args, size_t nargs, PyObject* names);
  void clear_cache();

  const UserFunction& function() const { return function_; }
  EagerCalls& eager_calls() { return eager_; }
  size_t hits() const { return hits_; }
  size_t misses() const { return misses_; }
  /// Why the last call that missed did.
  const std::string& last_miss() const { return cache_.last_miss(); }
  /// Of the last compilation.
  const Inspection& inspection() const { return inspection_; }
  /// What the last compiled program assumes of the environment besides its arguments, a line each.
  std::vector<std::string> guards() const;
  int traverse(visitproc visit, void* arg);

 private:
  std::optional<PyObject*> run_hit(const CallKey& key, const CallArguments& arguments, Turns::Turn* turn);
  PyObject* call_new(CallKey& key, const CallArguments& arguments, Turns::Turn& turn);
  Acquirer::Result compile_new(CallKey& key);
  std::optional<NeedsEager> not_acquired(const CallKey& key);
  Acquirer::Result compile(Acquirer& acquirer);
  std::shared_ptr<CacheEntry> compile_acquired(AcquiredProgram& program);
  std::shared_ptr<CacheEntry> leave_to_eager(std::shared_ptr<CacheEntry> e, const CallKey& key,
                                             const NeedsEager& reason);
  std::shared_ptr<CacheEntry> keep(std::shared_ptr<CacheEntry> e, const CallKey& key);
  PyObject* run(CacheEntry& e, const CallKey& key, const CallArguments& args, const std::function<void()>* undraw);
  /// What raised in the place of the function.
  enum class Raiser : uint8_t { Acquisition, Program };
  PyObject* run_function(const CallArguments& a, Raised ours, Raiser raiser, std::string* why = nullptr);
  PyObject* run_unacquired(const CallKey& key, const CallArguments& a, Raised ours);
  static void write(const std::vector<frontend::Effect>& effects, const frontend::Flattened& flat, PyObject* values);

  UserFunction function_;
  Learned learned_;
  Cache cache_{function_.options.cache, learned_};
  SharedSteps steps_;
  EagerCalls eager_{function_};
  Refusals refusals_{cache_};
  Inspection inspection_;
  Turns turns_;
  Patience patience_;
  size_t hits_ = 0, misses_ = 0;
};

}  // namespace thunder
