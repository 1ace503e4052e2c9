// The compiled function: what thunder.jit returns calls this.
//
// A call flattens its arguments, makes the fingerprint of its tensors and of global state, and looks the pair up.  A
// hit runs the entry whose world guard holds; a miss acquires the program, compiles it, and adds an entry.  With
// symbolic values the pair leaves out sizes and numbers (jit/symbolic.h), and an entry has guards on those.  With varying
// values a call has both keys: programs for its very numbers come first, then those in which what varied is a symbol
// (jit/varying.h).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/reads.h"
#include "frontend/structure.h"
#include "frontend/tracer.h"
#include "frontend/world.h"
#include "jit/float8.h"
#include "jit/patience.h"
#include "jit/symbolic.h"
#include "jit/turns.h"
#include "jit/value_checks.h"
#include "passes/pipeline.h"
#include "runtime/autograd.h"
#include "runtime/guards.h"

namespace thunder {

enum class CacheMode { ConstantValues, VaryingValues, SymbolicValues, SameInput, NoCaching };

/// Seconds of the parts of one compilation.
struct CompileTimes {
  double acquisition = 0, passes = 0, programs = 0;
};

/// What a compilation left behind for inspection.
struct CompileRecord {
  Compiled compiled;
  Trace epilogue;
  bool trivial_epilogue = true;
  CompileTimes times;
  Float8Layers float8;
};

struct InputOfEntry;
struct Varying;

class JitFunction {
 public:
  /// Runs the user's function on proxies under the tracing mode; set once by the bindings.
  using Runner = std::function<frontend::Ref(frontend::Tracer&, PyObject* fn, PyObject* args, PyObject* kwargs)>;
  static Runner& runner();

  /// `graphs`: how programs run as graphs; null: they never do.
  ~JitFunction();
  JitFunction(PyObject* fn, PyObject* module, CacheMode cache, CompileOptions options,
              std::shared_ptr<GraphSettings> graphs = nullptr);

  /// `args`: a vectorcall's arguments; `names`: keyword names, or null.
  PyObject* call(PyObject* const* args, size_t nargs, PyObject* names);

  /// Acquires and compiles the program of such a call, for a device that need not be here.  Nothing is run, kept for
  /// calls, or agreed upon with other processes.  Error (NotImplemented) where the call would be left to eager.
  std::shared_ptr<const CompileRecord> compile_only(PyObject* const* args, size_t nargs, PyObject* names);

  void set_sharp_edges(frontend::SharpEdges edges) { edges_ = edges; }
  /// `modules`: InnerModules of thunder/_inner_modules.py, for calls that eager runs since no program can.  `quiet`: no
  /// warnings of those.
  void set_inner_modules(PyObject* modules, bool quiet) {
    inner_modules_ = frontend::Ref::borrow(modules);
    warned_ = quiet;
  }
  /// Null: it has none.
  PyObject* inner_modules() const { return inner_modules_.get(); }
  void set_float8(Float8Chooser chooser) { float8_ = std::move(chooser); }
  bool chooses_float8() const { return static_cast<bool>(float8_); }
  PyObject* fn() const { return fn_.get(); }
  size_t hits() const { return hits_; }
  size_t misses() const { return misses_; }
  /// Of the last compilation; null before the first.
  const std::shared_ptr<const CompileRecord>& record() const { return record_; }
  const GraphSettings* graphs() const { return graphs_.get(); }
  /// Gradients that backwards added to the leaves' .grad where they computed them.
  size_t accumulated() const { return *accumulated_; }
  /// Why the last call that missed did.
  const std::string& last_miss() const { return last_miss_; }
  /// What the last compiled program assumes of the world besides its arguments, a line each.
  std::vector<std::string> guards() const;
  /// What the last program asked about sizes and numbers, which calls must agree with to run it.
  const std::vector<std::string>& number_guards() const { return number_guards_; }
  /// The symbols of the last program: "s0: size 1 of tensor argument 0".
  const std::vector<std::string>& symbols() const { return symbols_; }
  /// Why the last program has no symbols though they were asked for; empty if it has.
  const std::string& not_symbolic() const { return not_symbolic_; }
  /// Why the last program was not kept for later calls; empty if it was.
  const std::string& once() const { return once_.empty() ? not_kept_ : once_; }
  /// How many calls ran the function itself, by why.
  const std::map<std::string, size_t>& eager() const { return eager_; }
  void clear_cache();
  /// The instructions of the last compilation's programs, a line each.
  std::string program_text() const;
  /// Whether such a call would hit the cache: runs the guards and nothing else.
  bool check_guards_only(PyObject* const* args, size_t nargs, PyObject* names);
  int traverse(visitproc visit, void* arg);

 private:
  struct CacheEntry;
  struct Key;
  struct Arguments;
  struct Known;
  struct OtherKey;
  struct NeedsEager;
  // Calls that are alike but for their numbers, the last of which was refused.
  struct RefusedCalls {
    std::shared_ptr<CacheEntry> last;
    Patience patience{2};  // with those in which the environment differs
  };
  // How numbers are taken: those of the call as they are, or as symbols; and those that the program reads.
  struct NumberMode {
    bool constant, vary;
    bool* read;                        // set where a number that was read became one of the call
    const Varying* varying = nullptr;  // which of them are symbols; null: all or none
  };
  using Entries = std::unordered_multimap<uint64_t, std::shared_ptr<CacheEntry>>;
  std::shared_ptr<CacheEntry> find(const Key& key);
  std::shared_ptr<CacheEntry> find_known(const Key& key);
  /// `why`: null, or told why there is none.
  std::shared_ptr<CacheEntry> find_entry(const Key& key, std::string* why);
  std::shared_ptr<CacheEntry> find_by_values(const Key& key, Entries::iterator from, std::string* why);
  Key key_of(const Arguments& args) const;
  std::string flat_key(const Arguments& args, const Key& key) const;
  /// The key of the same call with all numbers apart.
  const Key& whole(const Key& key) const;
  /// The hash of the key without numbers, where the cache looks for such.
  uint64_t kind_of(const Key& key) const;
  std::shared_ptr<CacheEntry> find_with(const Key& key, std::string* why);
  /// Entries for calls that are like this one but for their numbers.
  std::vector<std::shared_ptr<CacheEntry>> alike(const Key& whole);
  static bool is_apart(const std::vector<std::shared_ptr<CacheEntry>>& entries, size_t i, const Numbers& now);
  Varying varying_of(const Key& whole, std::string* not_symbolic);
  std::shared_ptr<CacheEntry> compile_varying(const Key& key, const Arguments& args);
  bool knows_identities(const frontend::Reads& reads) const;
  bool learn(const frontend::Reads& reads);
  std::shared_ptr<CacheEntry> compile(Key& key, const Arguments& args);
  std::shared_ptr<CacheEntry> compile_as_asked(const Key& key, const Arguments& args);
  std::shared_ptr<CacheEntry> compile_with_reads(const Key& key, const Arguments& args, bool constant,
                                                 const Varying* varying = nullptr);
  std::shared_ptr<CacheEntry> compile(const Key& key, const Arguments& args, NumberMode mode);
  frontend::Acquired acquire(CacheEntry& e, const Key& key, std::unique_ptr<frontend::Tracer>& tracer,
                             const Arguments& args, NumberMode mode);
  frontend::Acquired trace(CacheEntry& e, const Key& key, frontend::Tracer& tracer, const Arguments& args,
                           const NumberMode& mode);
  static frontend::Acquired finish(CacheEntry& e, frontend::Reads& reads, frontend::Tracer& tracer,
                                   frontend::Ref result, frontend::StandIns& copies);
  static bool reads_varying(const frontend::Tracer& tracer);
  static std::pair<frontend::Ref, frontend::Ref> traced(const CacheEntry& e, const Key& key, const Arguments& args,
                                                        frontend::Tracer& tracer, frontend::StandIns& copies);
  static void check_leaves(const Key& key, const frontend::Acquired& acquired);
  static InputOfEntry source_of(CacheEntry& e, const frontend::InputSource& s);
  bool varies(const std::string& place, int64_t now) const;
  void find_counters(const std::vector<frontend::Effect>& effects);
  void find_counter(const frontend::WorldGuard& world);
  std::shared_ptr<ValueStep> step_for(const frontend::ValueRead& read, const std::shared_ptr<Arena>& arena,
                                      std::unordered_map<ValueId, Value>& ours);
  class Checks;
  void write_in_place(CompileRecord& record) const;
  void add_inputs(CacheEntry& e, const Key& key, const frontend::Acquired& acquired, const ShapeEnv& env);
  void add_checks(CacheEntry& e, const Key& key, const frontend::Acquired& acquired, Checks& checks);
  std::shared_ptr<CacheEntry> hit(const Key& key);
  /// Of the function, or of the module's class.
  std::string name() const;
  /// A transform of the user's by which a program computes something else than the function; empty if there is none.
  std::string transform() const {
    return !options_.transforms.empty() ? options_.transforms[0].first : float8_ ? "Float8" : "";
  }
  PyObject* call_new(Key& key, const Arguments& arguments, Turns::Turn& turn);
  bool is_of_distributed() const;
  void check_patience();
  void check_refused(const Key& key);
  PyObject* run(CacheEntry& e, const Key& key, const Arguments& args, const std::function<void()>* undraw);
  PyObject* run_function(const Arguments& a, bool acquiring, std::string* why = nullptr);
  PyObject* run_unacquired(const Key& key, const Arguments& a);
  /// Error (NotImplemented) where eager would leave the communication out.
  void check_not_distributed(const std::string& why) const;
  PyObject* run_eagerly(const Arguments& args, const std::string& why, bool warns = false);
  bool warn_of_eager(const std::string& why);
  std::shared_ptr<CacheEntry> keep(std::shared_ptr<CacheEntry> e, const Key& key);
  frontend::Ref run_traced(frontend::Reads& reads, frontend::Tracer& tracer, const Key& key, const Arguments& args,
                           const std::pair<frontend::Ref, frontend::Ref>& proxies,
                           const std::function<bool()>& is_last);
  bool is_last_attempt(const CacheEntry& e, frontend::Tracer& tracer, const NumberMode& mode) const;
  std::string refusal() const;
  void count_refusal(const std::shared_ptr<CacheEntry>& e, const Key& key, const NeedsEager& reason);
  void find_repeatable(CacheEntry& e, const Trace& computation, const frontend::Tracer& tracer) const;
  static void write(const std::vector<frontend::Effect>& effects, const frontend::Flattened& flat, PyObject* values);
  /// Whether a user's function is being traced in this thread.
  static bool is_tracing();

  frontend::Ref fn_, module_, inner_modules_;
  CacheMode cache_;
  frontend::SharpEdges edges_ = frontend::SharpEdges::Allow;
  CompileOptions options_;
  std::shared_ptr<GraphSettings> graphs_;
  Float8Chooser float8_;  // null: no layer is in float8
  std::shared_ptr<std::atomic<size_t>> accumulated_ = std::make_shared<std::atomic<size_t>>(0);
  Entries entries_;
  /// Which entry takes which numbers, so that a hit evaluates no guards on sizes.
  std::unordered_multimap<uint64_t, Known> known_;
  std::unordered_multimap<uint64_t, std::weak_ptr<CacheEntry>> kinds_;  // by keys without numbers, with varying values
  bool any_varying_ = false;                                            // whether an entry has symbols for what varied
  std::unordered_multimap<size_t, std::weak_ptr<ValueStep>> steps_;     // what entries may share
  std::unordered_map<std::string, int64_t> known_ints_;                 // that programs read, by place
  frontend::Reads::Counters counters_;
  std::map<std::pair<PyObject*, std::string>, std::vector<frontend::Ref>> changed_;  // numbers, by their places
  frontend::ClassUses uses_;
  frontend::Identities themselves_;  // containers among the arguments that the function reaches by another way, too
  Turns turns_;
  Patience patience_;
  bool writes_ = false;         // a program does to what is no tensor of its own
  bool distributed_ = false;    // some program of it takes distributed parameters
  bool compiles_only_ = false;  // compile() stops before programs are built
  bool raised_ = false;         // the function did, when it was acquired last
  bool warned_ = false;         // of calls that eager runs
  size_t hits_ = 0, misses_ = 0;
  size_t refusals_ = 0;                                 // one after the other
  std::shared_ptr<CacheEntry> refusing_;                // the last of too many
  std::unordered_map<uint64_t, RefusedCalls> refused_;  // by keys without numbers
  size_t refuted_ = 0;  // calls whose acquisition raised what the function itself did not raise
  std::map<std::string, size_t> eager_;
  std::shared_ptr<const CompileRecord> record_;
  std::shared_ptr<const Entry> last_entry_;
  std::shared_ptr<const CacheEntry> last_;
  std::string last_miss_, not_symbolic_;
  std::string once_;      // why the last program cannot be acquired a second time
  std::string not_kept_;  // why it is good for its call only
  std::vector<std::string> number_guards_, symbols_;
};

}  // namespace thunder
