// The acquisition of a call's program: attempts, until one of them is good.
//
// An attempt runs the function on proxies of its arguments.  It may show that the program has to be acquired in another
// way (jit/again.h).  Errors of the passes, too, are reasons to take numbers in another way: what cannot be said of
// symbols can be of the numbers themselves.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "frontend/reads.h"
#include "frontend/tracer.h"
#include "jit/cache.h"
#include "jit/inspection.h"
#include "jit/learned.h"
#include "jit/outcome.h"
#include "jit/user_function.h"
#include "jit/varying.h"

namespace thunder {

/// What a good attempt gives.
struct AcquiredProgram {
  std::shared_ptr<CacheEntry> entry;  ///< has what the attempt found: symbols, the environment, effects, the output
  const CallKey& key;                 ///< that of the call's which the entry is for
  std::unique_ptr<frontend::Tracer> tracer;
  frontend::Acquired acquired;
  double seconds = 0;
};

/// The acquirer of one call owns what the attempts have shown so far.  Later calls get what is learned for good.
class Acquirer {
 public:
  /// `key`: of the call; another one where the function turns out to look at more.  `keeping`: is told why the program
  /// serves no later call.
  Acquirer(const UserFunction& function, Cache& cache, Learned& learned, Keeping& keeping, CallKey& key)
      : function_(function), cache_(cache), learned_(learned), keeping_(keeping), key_(key) {}
  Acquirer(const Acquirer&) = delete;
  Acquirer& operator=(const Acquirer&) = delete;

  using Entry = std::shared_ptr<CacheEntry>;
  /// Makes an entry of what was acquired; null: none is wanted.
  using Use = std::function<Entry(AcquiredProgram&)>;
  /// Makes an entry of a refusal.
  using Refuse = std::function<Entry(Entry, const CallKey&, const NeedsEager&)>;
  /// The entry.  NeedsEager: no program takes one of the arguments.  Failed: what the last attempt raised.
  using Result = std::variant<Entry, NeedsEager, Failed>;
  Result acquire(const Use& use, const Refuse& refuse);

  /// Why the call's numbers are no symbols though they were to be; empty if they are.
  const std::string& not_symbolic() const { return not_symbolic_; }

 private:
  // How attempts take numbers.
  struct Numbers {
    bool constant = true;     // the call's stay what they are
    bool reads_vary = false;  // those that the program reads become numbers of the call where they can
  };
  // What attempts have in common that take numbers alike.
  struct Way {
    const CallKey* key = nullptr;
    std::shared_ptr<CacheEntry> entry;
    Numbers numbers;
    bool read_varies = false;  // a number that the program reads was one of the call in the last attempt
    std::vector<const void*> shared;
    std::unordered_set<size_t> begin;
    bool lengths_ask = false, seems_compiled = true;
    std::chrono::steady_clock::time_point start;
  };
  using Proxies = std::pair<Ref, Ref>;

  void begin();
  void take_numbers(const Numbers& numbers);
  bool may_vary() const { return cache_.mode() != CacheMode::SameInput; }
  /// Takes the reason into account.  Returns why there is no other attempt, if there is none.
  std::optional<NeedsEager> start_again(const Again& reason);
  /// Why another attempt may do better, after one that raised: by what it showed, by how it took numbers.
  std::optional<Again> after_trace(frontend::Tracer& tracer) const;
  std::optional<Again> after_numbers(bool read_varies, const std::string& why) const;
  bool is_last(frontend::Tracer& tracer) const;
  bool leaves_out_call(const CacheEntry* e) const;

  Outcome<Entry> make_entry(const Use& use, const Refuse& refuse);
  Outcome<AcquiredProgram> attempt();
  std::unique_ptr<frontend::Tracer> make_tracer() const;
  Outcome<frontend::Acquired> acquire_once(frontend::Tracer& tracer);
  Outcome<frontend::Acquired> trace(frontend::Tracer& tracer);
  /// A null result: the function is left to eager, for the reason that the tracer has.
  Outcome<Ref> run(frontend::Reads& reads, frontend::Tracer& tracer, const Proxies& proxies);
  Proxies proxies_of(frontend::Tracer& tracer, frontend::ArgumentCopies& copies) const;
  Outcome<frontend::Acquired> finish(frontend::Reads& reads, frontend::Tracer& tracer, Ref result,
                                     frontend::ArgumentCopies& copies);
  std::optional<NeedsEager> refused_leaves(const frontend::Acquired& acquired) const;
  std::optional<std::string> refusal(const Failed& failed) const;
  template <class T, class Part>
  Outcome<T> or_refuse(frontend::Tracer& tracer, bool of_arguments, const Part& part);

  const UserFunction& function_;
  Cache& cache_;
  Learned& learned_;
  Keeping& keeping_;
  CallKey& key_;
  std::optional<Varying> varying_;  // which numbers are symbols, where some are; nothing: all or none
  std::string not_symbolic_;
  Way way_;
  static constexpr int kMostDrawsApart = 4;  // a call that is made as a whole may lead to others
  int draws_apart_ = 0;
  bool raised_ = false;  // the function, in the last attempt
};

}  // namespace thunder
