#include "passes/distributed/comm_schedule.h"

#include <algorithm>

#include "passes/distributed/in_order.h"

namespace thunder::distributed {
namespace {

int64_t bytes_of(const TensorType& t) {
  const Dim count = t.numel();
  return itemsize(t.dtype) * (count.is_constant() ? count.constant() : 0);
}

int64_t bytes_given(const Call& start) {
  int64_t n = 0;
  for (const TensorType& t : start.output.value().type().future()) n += bytes_of(t);
  return n;
}

// What the wait frees: gradients but for the part that stays.
int64_t bytes_freed(const Call& start) {
  int64_t n = -bytes_given(start);
  for (const Arg& a : start.args[0].items()) n += bytes_of(a.value().tensor());
  return std::max<int64_t>(n, 0);
}

// One collective of the plan.
struct PlannedCollective {
  const Call* start = nullptr;
  const Call* wait = nullptr;  // null where nobody reads what it gives
  int64_t bytes = 0;           // that it keeps in flight
  bool waited = false;
};

class CommScheduler {
 public:
  CommScheduler(const Trace& trace, const CommunicationPlan& plan, const Positions& positions,
                const std::optional<std::vector<size_t>>& regathers_before)
      : trace_(trace), plan_(plan), limit_(plan.bytes_in_flight), order_(trace.calls), before_(regathers_before) {
    find(positions.gathers, gathers_, bytes_given);
    find(positions.reductions, reductions_, bytes_freed);
    for (size_t k = 0; k < gathers_.size(); ++k)
      if (gathers_[k].wait) gather_of_wait_.emplace(gathers_[k].wait, k);
    for (const PlannedCollective& r : reductions_)
      if (r.wait) visit_outputs(*r.wait, [&](Value v) { late_.set(v, 1); });
  }

  Trace run() {
    find_lazy();
    // Reductions forget the kept gradients that it asks for.
    for (const Call* c : trace_.calls)
      if (meant_by(*c).full_name == "prims.used_or_kept") order_.place(c);
    start_gather_ahead();
    std::vector<const Call*> tail;
    for (const Call* c : trace_.calls) {
      if (is_own(c) || lazy_.count(c)) continue;
      if (is_late(*c)) {
        tail.push_back(c);
        continue;
      }
      wait_for_what_it_reads(*c);
      order_.place(c);
      start_reductions(false);
      start_gather_ahead();
    }
    visit_values(trace_.output, [&](Value v) { wait_for_what_is_returned(v); });
    // Another process may run a program that reads what is left to gather before it starts a reduction.
    while (next_gather_ < gathers_.size()) order_.place(gathers_[next_gather_++].start);
    start_reductions(true);
    for (size_t k = 0; k < reductions_.size(); ++k) wait_for_reduction(k);
    for (const Call* c : tail) order_.place(c);
    Trace out = trace_.derived();
    out.calls = order_.take();
    return out;
  }

  /// For each reduction how many gathers were started before it.
  std::vector<size_t> gathers_before() const { return gathers_before_; }
  std::set<size_t> too_late() const { return too_late_; }

 private:
  // The collectives by their places in the plan's order.
  void find(const ValueMap<int>& positions, std::vector<PlannedCollective>& out, int64_t (*bytes)(const Call&)) {
    std::vector<std::pair<int, PlannedCollective>> found;
    ValueMap<const Call*> waits;
    for (const Call* c : trace_.calls)
      if (c->args.size() == 1 && c->args[0].is_value()) waits.set(c->args[0].value(), c);
    for (const Call* c : trace_.calls) {
      if (!c->output.is_value() || positions[c->output.value()] < 0) continue;
      Value future = c->output.value();
      found.emplace_back(positions[future], PlannedCollective{c, waits[future], bytes(*c)});
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [k, c] : found) {
      own_.insert(c.start);
      if (c.wait) own_.insert(c.wait);
      out.push_back(c);
    }
  }

  bool is_own(const Call* c) const { return own_.count(c) != 0; }

  // Views of what was gathered, and what is made for the wire, belong where they are read: first in the trace, they
  // would ask for everything at once, and last in it, they would hold back the reductions.
  void find_lazy() {
    ValueSet gathered;
    for (const PlannedCollective& g : gathers_)
      if (g.wait) visit_outputs(*g.wait, [&](Value v) { gathered.set(v, 1); });
    for (const Call* c : trace_.calls) {
      bool all = !is_own(c) && is_pure_view(*c);
      visit_all_inputs(*c, [&](Value v) { all = all && gathered[v]; });
      if (!all) continue;
      visit_outputs(*c, [&](Value v) { gathered.set(v, 1); });
      lazy_.insert(c);
    }
    ValueMap<int> readers(0), late_readers(0);
    visit_values(trace_.output, [&](Value v) { readers.set(v, readers[v] + 1); });
    for (const Call* c : trace_.calls) visit_all_inputs(*c, [&](Value v) { readers.set(v, readers[v] + 1); });
    auto reads_late = [&](const Call& c) {
      visit_all_inputs(c, [&](Value v) { late_readers.set(v, late_readers[v] + 1); });
    };
    for (const PlannedCollective& g : gathers_) reads_late(*g.start);
    for (const PlannedCollective& r : reductions_) reads_late(*r.start);
    for (auto it = trace_.calls.rbegin(); it != trace_.calls.rend(); ++it) {
      bool all = !is_own(*it) && is_for_the_wire(**it);
      visit_outputs(**it, [&](Value v) { all = all && readers[v] > 0 && readers[v] == late_readers[v]; });
      if (!all) continue;
      lazy_.insert(*it);
      reads_late(**it);
    }
  }

  // A cast, a copy, padding, zeros, the sum with what was kept: no work that a gradient is waited for.
  static bool is_for_the_wire(const Call& c) {
    if (meant_by(c).full_name == "prims.add_kept_gradient") return true;
    int operands = 0;
    visit_all_inputs(c, [&](Value) { ++operands; });
    return operands < 2 && effects(c) == 0 && moves_elements(c);
  }

  static bool moves_elements(const Call& c) {
    if (c.op->has(kPointwise | kShape | kView | kCreation)) return true;
    return !c.body.empty() &&
           std::all_of(c.body.begin(), c.body.end(), [](const Call* b) { return moves_elements(*b); });
  }

  // Whether it needs what a reduction gives.
  bool is_late(const Call& c) {
    bool late = false;
    visit_all_inputs(c, [&](Value v) { late |= late_[v] != 0; });
    if (late) visit_outputs(c, [&](Value v) { late_.set(v, 1); });
    return late;
  }

  void wait_for_what_it_reads(const Call& c) {
    if (wait_for_gathers_of(c)) start_gather_ahead();
  }

  bool wait_for_gathers_of(const Call& c) {
    bool waited = false;
    visit_all_inputs(c, [&](Value v) { waited = wait_for_gather_of(v) || waited; });
    return waited;
  }

  bool wait_for_gather_of(Value v) {
    const Call* maker = order_.maker(v);
    if (!maker || order_.placed(maker)) return false;
    if (lazy_.count(maker)) return wait_for_gathers_of(*maker);
    auto it = gather_of_wait_.find(maker);
    if (it == gather_of_wait_.end()) return false;
    wait_for_gather(it->second);
    return true;
  }

  // A parameter, or a view of one, that no call reads.
  void wait_for_what_is_returned(Value v) {
    if (wait_for_gather_of(v)) start_gather_ahead();
    const Call* maker = order_.maker(v);
    if (maker && lazy_.count(maker)) order_.place(maker);
  }

  void wait_for_gather(size_t k) {
    start_reductions_before(k);
    while (next_gather_ <= k) start_gather();
    order_.place(gathers_[k].wait);
    gathered_ahead_ -= gathers_[k].bytes;
  }

  void start_gather() {
    PlannedCollective& g = gathers_[next_gather_++];
    order_.place(g.start);
    if (g.wait) gathered_ahead_ += g.bytes;
  }

  // One at a time: a program's first kernels are not to wait until the host has issued all gathers that there is room for.
  void start_gather_ahead() {
    if (next_gather_ < gathers_.size() &&
        (gathered_ahead_ == 0 || gathered_ahead_ + gathers_[next_gather_].bytes <= limit_))
      start_gather();
  }

  // Those whose gradients are known; all if that is asked for.
  void start_reductions(bool all) {
    while (next_reduction_ < reductions_.size() && (all || is_ready(*reductions_[next_reduction_].start)))
      start_reduction();
  }

  // Those that other processes wait for before they start gather k.
  void start_reductions_before(size_t k) {
    while (before_ && next_reduction_ < reductions_.size() && before_->at(next_reduction_) <= k) {
      place_inputs(*reductions_[next_reduction_].start, before_->at(next_reduction_));
      start_reduction();
    }
  }

  // What the call reads, made of the first `gathers`.
  void place_inputs(const Call& c, size_t gathers) {
    visit_all_inputs(c, [&](Value v) {
      const Call* maker = order_.maker(v);
      if (!maker || order_.placed(maker)) return;
      auto it = gather_of_wait_.find(maker);
      if (it == gather_of_wait_.end()) {
        place_early(*maker, gathers);
      } else if (it->second < gathers) {
        wait_for_gather(it->second);
      } else {
        const Bucket& late = plan_.order.regathers->at(it->second);
        too_late_.insert(late.begin(), late.end());
      }
    });
  }

  // Effects keep their order.
  void place_early(const Call& c, size_t gathers) {
    for (const Call* e : trace_.calls) {
      if (effects(c) == 0 || e == &c) break;
      if (effects(*e) == 0 || order_.placed(e)) continue;
      place_inputs(*e, gathers);
      order_.place(e);
    }
    place_inputs(c, gathers);
    order_.place(&c);
  }

  void start_reduction() {
    PlannedCollective& r = reductions_[next_reduction_];
    // Over replicas a start may wait for the other processes of the group, as a wait does.
    while (plan_.copies > 1 && before_ && next_gather_ < before_->at(next_reduction_)) start_gather();
    ++next_reduction_;
    gathers_before_.push_back(next_gather_);
    order_.place(r.start);
    reduced_ahead_ += r.bytes;
    if (r.bytes == 0) return;
    for (size_t k = 0; k + 1 < next_reduction_ && reduced_ahead_ > limit_; ++k)
      if (reductions_[k].bytes > 0) wait_for_reduction(k);
  }

  bool is_ready(const Call& c) const {
    bool ready = true;
    visit_all_inputs(c, [&](Value v) {
      const Call* maker = order_.maker(v);
      ready = ready && (!maker || order_.placed(maker) || (lazy_.count(maker) && is_ready(*maker)));
    });
    return ready;
  }

  void wait_for_reduction(size_t k) {
    PlannedCollective& r = reductions_[k];
    if (!r.wait || r.waited) return;
    while (before_ && next_gather_ < before_->at(k)) start_gather();
    r.waited = true;
    reduced_ahead_ -= r.bytes;
    order_.place(r.wait);
  }

  const Trace& trace_;
  const CommunicationPlan& plan_;
  const int64_t limit_;
  InOrder order_;
  std::vector<PlannedCollective> gathers_, reductions_;
  std::unordered_map<const Call*, size_t> gather_of_wait_;
  std::unordered_set<const Call*> own_, lazy_;
  ValueSet late_;
  std::optional<std::vector<size_t>> before_;  // by reduction, as the plan says
  std::vector<size_t> gathers_before_;         // and as it is here
  std::set<size_t> too_late_;
  size_t next_gather_ = 0, next_reduction_ = 0;
  int64_t gathered_ahead_ = 0, reduced_ahead_ = 0;
};

}  // namespace

Trace comm_schedule(const Trace& trace, const CommunicationPlan& plan, const Positions& positions,
                    std::optional<std::vector<size_t>>& regathers_before, std::set<size_t>& too_late) {
  CommScheduler scheduler(trace, plan, positions, regathers_before);
  Trace out = scheduler.run();
  too_late = scheduler.too_late();
  if (!regathers_before && !scheduler.gathers_before().empty()) regathers_before = scheduler.gathers_before();
  return out;
}

}  // namespace thunder::distributed
