#include "passes/distributed/simulate.h"

#include <algorithm>
#include <iomanip>

#include "core/error.h"
#include "core/print.h"
#include "passes/distributed/call_cost.h"
#include "passes/visit.h"

namespace thunder::distributed {
namespace {

bool is(const Call& c, std::string_view name) { return meant_by(c).full_name == name; }

bool is_start(const Call& c) { return c.output.is_value() && c.output.value().type().is_future(); }

bool gathers(const Call& start) { return is(start, "prims.all_gather") || is(start, "prims.all_gather_once"); }

bool all_reduces(const Call& start) { return is(start, "prims.all_reduce") || is(start, "prims.all_reduce_replicas"); }

Collective collective_of(const Call& start) {
  if (gathers(start)) return Collective::AllGather;
  if (is(start, "prims.reduce_scatter") || is(start, "prims.reduce_scatter_replicas")) return Collective::ReduceScatter;
  THUNDER_CHECK(all_reduces(start), NotImplemented, "simulate", "it is not known what ", meant_by(start).full_name,
                " costs");
  return Collective::AllReduce;
}

int64_t whole_bytes(const Call& start) {
  if (gathers(start)) return bytes_of(start.output.value().type());
  int64_t n = 0;
  for (Value v : start.arguments().values("tensors")) n += bytes_of(v.type());
  return n;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// Which storages are alive, call by call.
class LiveStorages {
 public:
  int64_t live = 0, peak = 0;

  // The inputs of a forward belong to the caller.
  void begin_forward(const Trace& t) {
    begin(t);
    for (Value v : t.inputs) {
      make(v);
      pin(v);
    }
  }

  // What a forward returns belongs to the caller; what it saved, to the backward.
  void begin_backward(const Trace& forward, const Trace& backward) {
    visit_values(forward.output.items().at(0), [&](Value v) { pin(v); });
    std::vector<int> saved;
    visit_values(forward.output.items().at(1), [&](Value v) { saved.push_back(storage_of(v)); });
    begin(backward);
    for (size_t i = 0; i < backward.inputs.size(); ++i) {
      Value v = backward.inputs[i];
      if (i >= saved.size() || saved[i] < 0) make(v);
      else places_.set(v, saved[i]);
    }
    // The forward's own names for what it saved are gone, the backward's are there.
    for (Storage& s : storages_) s.views = 0;
    for (Value v : backward.inputs)
      if (const int s = storage_of(v); s >= 0) ++storages_[static_cast<size_t>(s)].views;
    for (Storage& s : storages_) free_if_unused(s);
  }

  void run(const Call& call, const Call* next) {
    if (is(call, "prims.python_del")) {
      for (const Arg& a : call.args) visit_values(a, [&](Value v) { drop(v); });
    } else if (is_start(call)) {
      start(call, next);
    } else if (is(call, "prims.wait")) {
      wait(call);
    } else {
      // The gradient itself, or none.
      const bool passes_on = is(call, "prims.gradient_if_used");
      visit_outputs(call, [&](Value v) { make(v, passes_on ? call.args[0].value() : aliases_->root(v)); });
    }
    peak = std::max(peak, live);
  }

 private:
  struct Storage {
    int64_t bytes = 0;
    int views = 0;  // values that name it
    int held = 0;   // collectives under way that read it
    bool pinned = false;
    bool gone = false;
  };

  void begin(const Trace& t) {
    places_ = ValueMap<int>(-1);
    futures_ = {};
    aliases_.emplace(t.calls);
  }

  int storage_of(Value v) const {
    const int own = places_[v];
    return own >= 0 || !aliases_ ? own : places_[aliases_->root(v)];
  }

  void make(Value v) { make(v, v); }
  void make(Value v, Value root) {
    if (!v.type().is_tensor()) return;
    const int known = root == v ? -1 : storage_of(root);
    places_.set(v, known >= 0 ? known : add(bytes_of(v.type())));
    ++storages_[static_cast<size_t>(places_[v])].views;
  }
  int add(int64_t bytes) {
    storages_.push_back({bytes});
    live += bytes;
    peak = std::max(peak, live);
    return static_cast<int>(storages_.size()) - 1;
  }

  void pin(Value v) {
    if (const int s = storage_of(v); s >= 0) storages_[static_cast<size_t>(s)].pinned = true;
  }

  void drop(Value v) {
    if (v.type().is_future()) return futures_.set(v, {});
    const int s = places_[v];
    if (s < 0) return;
    --storages_[static_cast<size_t>(s)].views;
    free_if_unused(storages_[static_cast<size_t>(s)]);
  }

  void free_if_unused(Storage& s) {
    if (s.gone || s.pinned || s.views > 0 || s.held > 0) return;
    s.gone = true;
    live -= s.bytes;
  }

  // The results' memory is taken now; an all-reduce of what nobody else names works in place.
  void start(const Call& call, const Call* next) {
    Future f;
    const bool reduces = all_reduces(call);
    const std::vector<Value> tensors = call.arguments().values("tensors");
    const std::vector<TensorType>& results = call.output.value().type().future();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int from = storage_of(tensors[i]);
      const bool in_place = reduces && from >= 0 && dies_in(next, tensors[i]) &&
                            storages_[static_cast<size_t>(from)].views == 1 &&
                            !storages_[static_cast<size_t>(from)].pinned;
      f.results.push_back(in_place ? from : add(bytes_of(results[i])));
      ++storages_[static_cast<size_t>(f.results.back())].held;
      if (reduces || from < 0) continue;
      ++storages_[static_cast<size_t>(from)].held;
      f.reads.push_back(from);
    }
    futures_.set(call.output.value(), std::move(f));
  }

  static bool dies_in(const Call* next, Value v) {
    bool found = false;
    if (next && is(*next, "prims.python_del"))
      for (const Arg& a : next->args) visit_values(a, [&](Value d) { found = found || d == v; });
    return found;
  }

  void wait(const Call& call) {
    const Future f = futures_[call.args.at(0).value()];
    size_t i = 0;
    visit_outputs(call, [&](Value v) {
      const int s = f.results.at(i++);
      places_.set(v, s);
      ++storages_[static_cast<size_t>(s)].views;
    });
    for (const std::vector<int>* list : {&f.results, &f.reads})
      for (int s : *list) {
        --storages_[static_cast<size_t>(s)].held;
        free_if_unused(storages_[static_cast<size_t>(s)]);
      }
  }

  struct Future {
    std::vector<int> results, reads;
  };

  std::vector<Storage> storages_;
  ValueMap<int> places_{-1};
  ValueMap<Future> futures_;
  std::optional<Aliases> aliases_;
};

// ---- time -----------------------------------------------------------------------------------------------------------

class Simulator {
 public:
  explicit Simulator(const CostTable& table) : table_(table) { out_.notes = table.notes(); }

  Simulation run(const Trace& forward, const Trace* backward) {
    memory_.begin_forward(forward);
    out_.inputs = out_.peak = memory_.live;
    out_.peak_at = "the inputs";
    note_memory();
    run(forward);
    out_.forward = now_;
    if (backward) {
      THUNDER_CHECK(forward.output.is_sequence() && forward.output.items().size() == 2, Value, "simulate",
                    "a forward with a backward returns its outputs and what it saved, got ", print(forward.output));
      backward_ = true;
      memory_.begin_backward(forward, *backward);
      note_memory();
      note_peak(nullptr);
      run(*backward);
    }
    finish();
    return std::move(out_);
  }

 private:
  void run(const Trace& t) {
    for (size_t i = 0; i < t.calls.size(); ++i) {
      const Call& c = *t.calls[i];
      if (is_start(c)) start(c);
      else if (is(c, "prims.wait")) wait(c);
      else compute(table_.seconds(c));
      memory_.run(c, i + 1 < t.calls.size() ? t.calls[i + 1] : nullptr);
      note_memory();
      note_peak(&c);
    }
    for (const auto& [future, w] : under_way_) unwaited_.push_back(w);
    under_way_.clear();
  }

  // Kernels are slow until the last communicator has nothing more to do: what it has begins before they end.
  void compute(double seconds) {
    const double share = 1 - table_.contention();
    const double busy = std::max(0.0, busy_until_ - now_), beside = busy * share;  // what is done until then
    const double slowed = seconds <= beside ? seconds / share - seconds : busy - beside;
    now_ += seconds + slowed;
    out_.compute += seconds;
    out_.slowed += slowed;
  }

  void start(const Call& c) {
    const Args a = c.arguments();
    SimulatedWait w;
    w.group = a.str("group");
    w.kind = collective_of(c);
    w.bytes = whole_bytes(c);
    w.seconds = table_.seconds(w.kind, w.bytes, a.integer("world"));
    w.future = c.output.value().name();
    w.name = a.has("name") ? a.str("name") : w.future;
    w.backward = backward_;
    double end = occupy(w.group, now_, w.seconds);
    if (meant_by(c).full_name.ends_with("_replicas")) {
      const double second = table_.seconds(Collective::AllReduce, bytes_of(c.output.value().type()),
                                           a.integer("copies"), a.integer("world"));
      w.seconds += second;
      end = occupy(a.str("replicas"), end, second);
    }
    under_way_.emplace(c.output.value().id(), UnderWay{w, end});
  }

  // When a communicator is done with what it can begin at a time.
  double occupy(const std::string& group, double at, double seconds) {
    double& free = ends_[group];
    free = std::max(free, at) + seconds;
    busy_until_ = std::max(busy_until_, free);
    out_.communicators[group] += seconds;
    return free;
  }

  void wait(const Call& c) {
    auto it = under_way_.find(c.args.at(0).value().id());
    THUNDER_CHECK(it != under_way_.end(), Value, "simulate",
                  "the program waits for a future that it did not start: ", print(c));
    SimulatedWait w = it->second.wait;
    w.exposed = std::max(0.0, it->second.end - now_);
    now_ += w.exposed;
    out_.exposed += w.exposed;
    out_.waits.push_back(std::move(w));
    under_way_.erase(it);
  }

  // The step lasts until all is communicated.
  void finish() {
    std::sort(unwaited_.begin(), unwaited_.end(), [](const auto& a, const auto& b) { return a.end < b.end; });
    for (UnderWay& u : unwaited_) {
      u.wait.waited = false;
      u.wait.exposed = std::max(0.0, u.end - now_);
      now_ += u.wait.exposed;
      out_.exposed += u.wait.exposed;
      out_.waits.push_back(std::move(u.wait));
    }
    if (!out_.communicators.empty()) out_.spread = table_.spread() * (out_.compute + out_.slowed);
    out_.step = now_ + out_.spread;
  }

  void note_memory() {
    if (!out_.memory.empty() && out_.memory.back().bytes == memory_.live) return;
    out_.memory.push_back({now_, memory_.live});
  }

  void note_peak(const Call* at) {
    if (memory_.peak <= out_.peak) return;
    out_.peak = memory_.peak;
    const std::string line = at ? print(*at) : "its inputs";
    out_.peak_at = cat(backward_ ? "backward: " : "forward: ", line.substr(0, line.find('\n')));
  }

  struct UnderWay {
    SimulatedWait wait;
    double end = 0;
  };

  const CostTable& table_;
  Simulation out_;
  LiveStorages memory_;
  bool backward_ = false;
  double now_ = 0, busy_until_ = 0;
  std::map<std::string, double> ends_;  // by communicator
  std::map<ValueId, UnderWay> under_way_;
  std::vector<UnderWay> unwaited_;
};

// ---- report ---------------------------------------------------------------------------------------------------------

std::string milliseconds(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(seconds < 1e-4 ? 4 : 2) << seconds * 1e3 << " ms";
  return out.str();
}

std::string megabytes(int64_t bytes) {
  std::ostringstream out;
  const double mb = static_cast<double>(bytes) / 1e6;
  out << std::fixed << std::setprecision(mb < 10 ? 3 : 1);
  if (mb >= 10e3) out << mb / 1e3 << " GB";
  else out << mb << " MB";
  return out.str();
}

void report_wait(std::ostringstream& out, const SimulatedWait& w) {
  out << "  " << (w.waited ? "wait " : "end of ") << w.future << ": " << name_of(w.kind) << " of " << w.name << ": "
      << megabytes(w.bytes) << ", " << milliseconds(w.seconds) << ", ";
  if (w.exposed > 0) out << milliseconds(w.exposed) << " exposed\n";
  else out << "hidden\n";
}

}  // namespace

std::string Simulation::report() const {
  std::ostringstream out;
  out << "step " << milliseconds(step) << " (forward " << milliseconds(forward) << "): kernels "
      << milliseconds(compute) << ", slowed by communication " << milliseconds(slowed) << ", waiting "
      << milliseconds(exposed);
  if (spread > 0) out << ", for the slowest device " << milliseconds(spread);
  out << "\n";
  for (const auto& [group, seconds] : communicators)
    out << "communicator " << group << ": " << milliseconds(seconds) << "\n";
  out << "memory: inputs " << megabytes(inputs) << ", peak " << megabytes(peak) << " at " << peak_at << "\n";
  for (const bool of_backward : {false, true}) {
    bool titled = false;
    for (const SimulatedWait& w : waits) {
      if (w.backward != of_backward) continue;
      if (!titled) out << (of_backward ? "backward\n" : "forward\n");
      titled = true;
      report_wait(out, w);
    }
  }
  for (const std::string& n : notes) out << "note: " << n << "\n";
  return out.str();
}

Simulation simulate(const Trace& forward, const Trace* backward, const CostTable& table) {
  return Simulator(table).run(forward, backward);
}

}  // namespace thunder::distributed
