// What makes a rank raise when another one has died, raised or left, where it would wait for it for ever.
//
// Every process has one thread that writes to the group's Store, once a second, that this rank lives and what it does.
// Once a collective of this rank has been outstanding for a second, the thread also reads what the others wrote.  What
// it finds there is the group's end: the group is aborted, and every start() and wait() raises, on all ranks with the
// rank that failed first.  A rank that is late but lives is warned about and waited for.
//
// The thread has its own connection to the Store and never takes the GIL.  Callers release the GIL before wait().
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <typeindex>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "core/error.h"
#include "runtime/distributed/messages.h"
#include "runtime/kernels/fork.h"

namespace thunder::distributed {

class Watch;

struct Intervals {
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds patience{1000};  // until others are looked at because a collective is outstanding
  std::chrono::milliseconds look{500};       // from one look at the others to the next
  std::chrono::milliseconds silence{3000};   // without a heartbeat: a rank is dead
  std::chrono::milliseconds late{10000};     // behind in a collective: a rank is warned about
  std::chrono::milliseconds reason{4000};    // at most, from a collective's own error to the one that caused it
  std::chrono::milliseconds answer{10000};   // at most, for an answer of the Store
};

/// Before the first Watch is made; for tests.
void set_intervals(const Intervals& intervals);

/// Receives warnings about late ranks, in the watching thread, which should not wait for the GIL.  Default: stderr.
void set_warning_handler(std::function<void(const std::string&)> handler);

namespace detail {

using Clock = std::chrono::steady_clock;
/// Of this process.  Nowhere once two threads have waited: one of them may start what another rank waits for.
class Standing {
 public:
  Standing(const std::string& group, uint64_t number, const std::string& what);
  ~Standing();
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

  static Place now();
};

struct Peer {
  int rank;
  bool seen = false;
  Report report{};
  Clock::duration quiet{0};
};

/// What ranks write for each other.
class Board {
 public:
  Board(const std::string& group_name, c10d::ProcessGroup& group);

  /// False for a Store that is written in Python, which needs the GIL.
  bool works() const { return store_ != nullptr; }
  c10d::Store& store() { return *store_; }
  std::string key(const std::string& name) const { return prefix_ + name; }

  void beat(const Report& report) { store_->set(key(cat("alive/", rank_)), write_message(report)); }
  std::optional<std::string> read(const std::string& name) {
    if (!store_->check({key(name)})) return std::nullopt;
    return store_->get_to_str(key(name));
  }
  std::vector<std::optional<std::string>> reports(const std::vector<int>& ranks);

  /// The group's failure, which is `mine` if there was none before.
  Failure post(const Failure& mine) {
    constexpr size_t most = 4000;
    Failure posted = mine;
    posted.text.resize(std::min(posted.text.size(), most));
    return read_message<Failure>(store_->compareSet(key("failed"), std::string(), write_message(posted)));
  }
  std::optional<Failure> failure() {
    const std::optional<std::string> message = read("failed");
    return message ? std::optional(read_message<Failure>(*message)) : std::nullopt;
  }

 private:
  const int rank_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::string prefix_;
};

/// Set by a thread of c10d when the work is done, by the watching one when the group has failed.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> done{false}, failed{false};
  std::exception_ptr error;  // of an opaque work

  void set(std::atomic<bool> Signal::*what) {
    const std::lock_guard lock(mutex);
    this->*what = true;
    changed.notify_all();
  }
};

/// Kinds of works, told apart by their future.
enum class Kind {
  Host,    // one without devices, whose callback tells when the work is done
  Stream,  // one with devices, or null: wait() orders streams and returns at once
  Opaque,  // has no future (point to point, gloo's reduce_scatter): only wait() tells, and blocks
};

struct Pending {
  std::string what;
  c10::intrusive_ptr<c10d::Work> work;  // null: an agreement
  Kind kind = Kind::Host;
  uint64_t number = 0;  // among the group's collectives
  Clock::time_point since = Clock::now();
  std::shared_ptr<Signal> signal = std::make_shared<Signal>();
  bool waited = false;

  bool complete() const {
    return kind == Kind::Stream ? work->isCompleted() : signal->done || (kind == Kind::Opaque && !waited);
  }
};

/// What this rank waits for.
struct Doing {
  std::string what;
  Clock::time_point since;
  uint64_t number;
};

/// The thread and what it watches.
class Monitor {
 public:
  static Monitor& get();
  static void renew();

  std::atomic<Clock::rep> busy_since{0};  // of the thread with a Store

  std::shared_ptr<Watch> of(const std::string& name);
  void stop(const std::string& name);
  std::vector<std::shared_ptr<Watch>> all() {
    const std::lock_guard lock(mutex_);
    return watches_;
  }
  void poke() {
    const std::lock_guard lock(mutex_);
    poked_ = true;
    wake_.notify_all();
  }

 private:
  void run();
  void end();

  std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::vector<std::shared_ptr<Watch>> watches_, inherited_;  // ... from the process that forked this one
  bool running_ = false, poked_ = false, ending_ = false;
};

/// What the ranks of an agreement write for each other: all texts only where they differ.
class Agreement {
 public:
  Agreement(c10d::Store& store, std::string prefix, int rank, int size)
      : store_(store), prefix_(std::move(prefix)), rank_(rank), size_(size) {}

  void arrive(const std::string& text) {
    const Fingerprint mine = Fingerprint::of(text);
    const std::string first = store_.compareSet(prefix_ + "first", std::string(), write_message(mine));
    const Arrival arrival{.like_first = read_message<Fingerprint>(first) == mine};
    if (!arrival.like_first) store_.set(prefix_ + "different", "1");
    store_.set(cat(prefix_, "here/", rank_), write_message(arrival));
    if (store_.add(prefix_ + "count", 1) == size_) store_.set(prefix_ + "all", "1");
  }

  bool has(const std::string& name) { return store_.check({prefix_ + name}); }

  std::vector<int> missing() {
    std::vector<int> out;
    for (int r = 0; r < size_ && out.size() < 16; ++r)
      if (!has(cat("here/", r))) out.push_back(r);
    return out;
  }

  /// Where the texts differ, in words; after all have arrived.
  std::string difference(const std::string& text, std::chrono::milliseconds timeout) {
    std::vector<int> like, unlike;
    for (int r = 0; r < size_; ++r)
      (read_message<Arrival>(get(cat("here/", r))).like_first ? like : unlike).push_back(r);
    if (rank_ == like.front() || rank_ == unlike.front()) store_.set(cat(prefix_, "text/", rank_), text);
    const int one = std::min(like.front(), unlike.front()), other = std::max(like.front(), unlike.front());
    const std::string a = cat("text/", one), b = cat("text/", other);
    for (const auto end = Clock::now() + timeout; !has(a) || !has(b);
         std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      if (Clock::now() > end) return "; their texts did not arrive";
    std::istringstream in_a(get(a)), in_b(get(b));
    std::string line_a, line_b;
    for (int number = 1;; ++number) {
      const bool more_a = !!std::getline(in_a, line_a), more_b = !!std::getline(in_b, line_b);
      if (more_a && more_b && line_a == line_b) continue;
      return cat("; ranks ", join(like), " differ from ranks ", join(unlike), " in line ", number, ":\n  rank ", one,
                 ": ", more_a ? line_a : "(no such line)", "\n  rank ", other, ": ",
                 more_b ? line_b : "(no such line)");
    }
  }

 private:
  std::string get(const std::string& name) { return store_.get_to_str(prefix_ + name); }

  c10d::Store& store_;
  const std::string prefix_;
  const int rank_, size_;
};

}  // namespace detail

/// One per process group and process, made at the first use, which is the same on all ranks, kept until the process
/// group is destroyed, stop(), or the end of the process.  In a forked child every use of a parent's Watch raises.
class Watch {
 public:
  /// Of the group with this c10d name.  Other ranks notice the death of this one from here on.
  static std::shared_ptr<Watch> of(const std::string& group_name);

  /// Ends the watch before the group: to the others this rank is as good as dead.
  static void stop(const std::string& group_name) noexcept;

  /// Before a collective is launched: throws if the group has failed, where it would meet another one of the others.
  void check(const std::string& what);

  /// `work` was launched and is outstanding until wait() or drop().  `what` names it in errors: "all_gather of
  /// h.3.weight and 2 more (88 MB)".
  uint64_t start(std::string what, c10::intrusive_ptr<c10d::Work> work);

  /// Blocks until the work is done (gloo), or makes the current stream wait for it (NCCL, where the host goes on).
  /// Throws Error(Runtime) "[distributed] rank 2 failed: RuntimeError: ... (while this rank waited for ...)"; after
  /// that the work may still run, and holds its tensors itself.
  void wait(uint64_t ticket);

  /// Nobody will wait for it.  The caller keeps the tensors until the work is complete.
  void drop(uint64_t ticket) noexcept;

  /// Of communication that other code runs (PyTorch's own): the others are looked at until drop().  Throws as check().
  uint64_t begin(const std::string& what);

  /// Throws as wait() does if `error`, which that code raised, may come from another rank's end.
  void explain_if_of_others(const std::string& what, const std::string& error);

  /// Tells the others that this rank failed: what they raise.  Only the first failure of a group counts, and ends the
  /// group: this rank cannot use it any more either.  Returns when it is written, after two seconds at the latest, or
  /// after Intervals::reason if `error` is that of a broken connection, whose cause is another rank.
  void post_failure(const std::string& error) noexcept;

  /// Calls `release`, in a thread of its own, once the group has failed: what waits on a device for other ranks ends.
  void on_failure(std::function<void()> release);

  /// For of().
  Watch(const std::string& group_name, const c10::intrusive_ptr<c10d::ProcessGroup>& group);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  friend class detail::Monitor;
  friend void post_failure_everywhere(const std::string& error) noexcept;
  friend void agree(const std::string&, const std::string&, const std::string&, std::chrono::milliseconds);
  friend std::string from_first(const std::string&, const std::string&, const std::string&, std::chrono::milliseconds,
                                int);
  using Clock = detail::Clock;

  // By callers.
  void raise_failed(const std::string& doing);
  detail::Kind kind_of(c10d::Work& work, c10::intrusive_ptr<c10::ivalue::Future>& future);
  uint64_t add(std::shared_ptr<detail::Pending> p);
  std::shared_ptr<detail::Pending> take(uint64_t ticket);
  void await(detail::Pending& p);
  void await_stream(detail::Pending& p);
  [[noreturn]] void explain(const std::string& what, const std::string& error);
  void fail(const detail::Failure& f);
  static void post(const std::vector<Watch*>& watches, const std::string& error) noexcept;

  // By the thread.
  Clock::time_point tick();
  std::optional<detail::Failure> look(Clock::time_point now);
  std::optional<detail::Failure> disagreement();
  void warn_late(Clock::time_point now, const detail::Doing& doing);

  // With mutex_ held.
  std::optional<detail::Doing> outstanding(Clock::time_point now, Clock::duration least);
  Clock::time_point next(Clock::time_point now, bool looking) const;
  detail::Report report(Clock::time_point now);
  std::string behind(uint64_t number) const;
  std::string last_report(int rank);

  const std::string name_;
  const int rank_, size_;
  const uint64_t generation_ = fork_generation();
  const std::string process_;
  c10::weak_intrusive_ptr<c10d::ProcessGroup> group_;
  c10::DeviceType device_ = c10::DeviceType::CPU;
  std::optional<detail::Board> board_;

  std::mutex mutex_;
  std::condition_variable changed_;  // failure_, outbox_
  std::map<uint64_t, std::shared_ptr<detail::Pending>> pending_;
  std::string last_;                      // waited for
  std::vector<std::type_index> opaque_;   // types whose getFuture() throws, which is slow
  std::optional<c10::Event> event_;       // after the latest wait of a stream
  std::optional<detail::Doing> passing_;  // until event_
  uint64_t tickets_ = 0, started_ = 0, finished_ = 0, beats_ = 0, warned_ = 0;
  int explaining_ = 0;
  std::optional<detail::Failure> failure_, outbox_;
  std::vector<std::function<void()>> releases_;
  std::atomic<bool> failed_{false};
  std::vector<detail::Peer> peers_;

  std::string store_failed_;  // why the Store cannot be asked; of the thread, as are these
  Clock::time_point next_beat_{}, last_look_{};
};

/// The process group with this c10d name.  Error(Runtime) if this process has none.
c10::intrusive_ptr<c10d::ProcessGroup> group_named(const std::string& name);

/// True for PyTorch's backend "fake", whose other ranks do not exist: there is nothing to agree on and nobody to watch.
bool is_fake(c10d::ProcessGroup& group);

/// Tells the other ranks of all watched groups.  For Python's excepthook, and for exceptions in compiled programs that
/// leave collectives undone.
void post_failure_everywhere(const std::string& error) noexcept;

/// Every rank gives a text, such as its communication plan; returns when all are known to be equal.  Otherwise throws
/// on every rank, with the first line that differs.  After `timeout` it names the ranks that are missing, with what
/// they last reported.  No two agreements of a group have the same `key`.
void agree(const std::string& group_name, const std::string& key, const std::string& text,
           std::chrono::milliseconds timeout);

/// The text that rank `first` gives, on all ranks.  Throws if it fails, or does not come within `timeout`.
std::string from_first(const std::string& group_name, const std::string& key, const std::string& text,
                       std::chrono::milliseconds timeout, int first = 0);

}  // namespace thunder::distributed
