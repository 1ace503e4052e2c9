// The reference evaluator for the processes of a group: W programs run in lock step, joined by their collectives.
//
// Each process runs until it waits for a communication that another has not started; then the next one's turn comes, so
// a run is the same every time.  As in c10d, the n-th start of a group on one process belongs to the n-th start of that
// group on every other.  Every group consists of all processes.
//
//   Diverged: starts that belong together differ in kind, number of tensors, types or reduction; a process waits for a
//             start that no other makes any more; a process ends without a start that another made
//   Wrong:    a future is waited for twice, or returned.  A future that nobody waits for is allowed.
//
// What is communicated is copied at the start, in which order processes come makes no difference to a result: sums are
// made in the order of the processes, and rounded after every step.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reference/evaluator.h"

namespace thunder::reference {

/// The programs of the processes do not fit together.
class Diverged : public Wrong {
 public:
  using Wrong::Wrong;
};

class Processes {
 public:
  /// `copies`: the processes are so many groups of the same size, of which each communicates by itself but for
  /// reductions over replicas.
  explicit Processes(size_t world, EvaluatorOptions options = {}, size_t copies = 1)
      : world_(world), group_(world / copies), options_(options), kept_(world) {}

  /// Runs a program on each process; returns what each gives.
  std::vector<Datum> run(const std::vector<const Trace*>& traces, const std::vector<std::vector<Datum>>& inputs);

  /// The starts of the last run, by process, in order: "prims.all_gather 'dp' cpu f32[2, 3]".
  const std::vector<std::vector<std::string>>& starts() const { return starts_; }
  /// Futures of the last run that nobody waited for, of all processes.
  size_t unread() const { return unread_; }
  /// Gradients that prims.keep_gradient keeps and nothing has taken, of all processes.  They outlive a run.
  size_t kept() const;

 private:
  // What the n-th start of a group is for.
  struct Communication {
    std::string what;  // the same on every process
    std::string op, reduction;
    size_t first, last;                                       // the processes that take part, and the one behind
    std::vector<std::optional<std::vector<ArrayPtr>>> given;  // by process
    std::vector<char> waited;                                 // the same
    bool complete() const { return started(first, last); }
    bool started(size_t from, size_t to) const;
  };
  struct Group {
    std::deque<Communication> communications;
    std::vector<size_t> started;  // by process
  };
  struct Process {
    Process(const Trace& t, EvaluatorOptions options) : trace(&t), evaluator(options) {}
    const Trace* trace;
    Evaluator evaluator;
    size_t next = 0;
    Communication* starting = nullptr;  // a start that does not return before the group's processes have come
    std::optional<Datum> result;
    std::string waits_for;
  };
  enum class Step { Done, Other, Blocked };

  void prepare(const std::vector<const Trace*>& traces, const std::vector<std::vector<Datum>>& inputs);
  bool advance(size_t rank);
  Step step(size_t rank, const Call& call);
  bool start(size_t rank, const Call& call, const std::string& op);
  Communication& begin(size_t rank, const Call& call, const std::string& op);
  bool wait(size_t rank, const Call& call);
  void keep(size_t rank, const Call& call);
  void add_kept(size_t rank, const Call& call);
  void add_used(size_t rank, const Call& call);
  void give_if_used(size_t rank, const Call& call);
  Datum result(const Communication& c, size_t tensor, size_t rank) const;
  Array reduced_over_replicas(const std::vector<const Array*>& parts, const std::string& reduction) const;
  Array gathered(const std::vector<const Array*>& parts) const;
  Array reduced(const std::vector<const Array*>& parts, const std::string& reduction) const;
  Array sum(const Array& a, const Array& b) const;
  void check_all_started();
  [[noreturn]] void stuck() const;

  size_t world_, group_;
  EvaluatorOptions options_;
  std::vector<Process> processes_;
  std::map<std::string, Group> groups_;
  std::vector<std::vector<std::string>> starts_;
  std::vector<std::map<std::pair<std::string, int64_t>, ArrayPtr>> kept_;  // by process
  size_t unread_ = 0;
};

/// The same program on every process.
std::vector<Datum> spmd(const Trace& trace, const std::vector<std::vector<Datum>>& inputs_by_rank,
                        EvaluatorOptions options = {});

}  // namespace thunder::reference
