#include "runtime/graphs.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/warning.h"
#include "passes/write_in_place.h"
#include "python/gil.h"
#include "runtime/autograd.h"
#include "runtime/calling_threads.h"
#include "runtime/graph_support.h"
#include "runtime/python_error.h"
#include "runtime/saved_memory.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

using Values = std::vector<c10::IValue>;

// How many recordings, and how long they are worth while.
struct Limits {
  size_t forwards;         // of one specialization: each has the memory of a whole call
  size_t backwards;        // of the backward of each: one whose gradients are kept, one whose are added to those
  size_t specializations;  // with recordings
  size_t replays;          // after which a recording was worth making
  size_t same;             // calls after the first in which a tensor lay in one place
  size_t patience;         // calls that wait for arguments to stay where they are, before they are copied
};
constexpr Limits kAskedFor{4, 2, 64, 1, 1, 0};
constexpr Limits kAutomatic{2, 1, 32, 16, 2, 8};
const Limits& limits(const GraphSettings& s) { return s.automatic ? kAutomatic : kAskedFor; }

constexpr int kUnusedRecordings = 8;       // recordings thrown away with hardly a replay, after which there are no more
constexpr int kMoves = 2;                  // of those, after which large arguments are copied
constexpr size_t kSpecializations = 64;    // of sizes, that are remembered
constexpr size_t kPostponed = 32;          // calls that could not be recorded, after which no more are tried
constexpr int64_t kLarge = 1 << 20;        // bytes of an argument, or of an output, that is not to be copied
constexpr int64_t kMostCopied = 32 << 20;  // bytes of arguments, in each call of a program that nobody asked to record

// A mode wants to see every operator, and hooks every saved tensor.
bool somebody_watches(bool saves) {
  return operators_are_watched() || (saves && at::SavedTensorDefaultHooks::get_hooks().has_value());
}

// Whoever drops what is returned may run Python, and so another thread: the list is whole by then.
template <class T>
T take_out(std::vector<T>& list, size_t i) {
  T out = std::move(list[i]);
  list.erase(list.begin() + static_cast<ptrdiff_t>(i));
  return out;
}

// While a recording that shares its memory is replayed and read, no other is on that stream.
class SharedReplay {
 public:
  explicit SharedReplay(void* on) : stream_(on) { streams().insert(on); }
  ~SharedReplay() { streams().erase(stream_); }
  static bool any(void* on) { return streams().count(on) != 0; }

 private:
  static std::set<void*>& streams() {
    static auto* s = new std::set<void*>;
    return *s;
  }
  void* stream_;
};

struct Busy {
  explicit Busy(bool& flag) : flag(flag) { flag = true; }
  ~Busy() { flag = false; }
  bool& flag;
};

// Weak references: the address of a storage that is gone may be another one's.
GraphRun::Storages storages_of(const Values& values) {
  GraphRun::Storages out;
  for (const c10::IValue& v : values)
    if (const at::Tensor* t = defined_tensor(v); t && t->has_storage()) out.insert(t->storage().getWeakStorageImpl());
  return out;
}

// Bytes of each result, 0 for those that lie in one of these.
std::vector<int64_t> bytes_beside(const Values& results, const GraphRun::Storages& given) {
  std::vector<int64_t> out;
  for (const c10::IValue& v : results) {
    const at::Tensor* t = defined_tensor(v);
    const bool own = t && t->has_storage() && given.count(t->storage().getWeakStorageImpl()) == 0;
    out.push_back(own ? bytes_of(*t) : 0);
  }
  return out;
}

int64_t sum_of(const std::vector<int64_t>& bytes) { return std::accumulate(bytes.begin(), bytes.end(), int64_t{0}); }

}  // namespace

EntryGraphs::EntryGraphs(std::shared_ptr<GraphSettings> settings, const Programs& programs, const Compiled& compiled,
                         std::vector<char> by_address)
    : settings_(std::move(settings)), by_address_(std::move(by_address)), written_(by_address_.size(), 0) {
  Device device;
  const DeviceType type = settings_->device == c10::DeviceType::CUDA ? DeviceType::cuda : DeviceType::cpu;
  auto check = [&](Direction& direction, const Trace& trace) {
    // Where there is nothing to record there is nothing to tell.
    if (!computes(trace)) direction.off = true;
    else if (std::string why = why_not_recorded(trace, type, device); !why.empty()) give_up(direction, why);
    if (!direction.off) direction.live = most_live_bytes(trace);
  };
  check(forward_, compiled.forward);
  index_ = std::max<int>(0, device.index);
  forward_.warm = backward_.warm = !settings_->warm_up;
  for (size_t i = 0; i < compiled.forward.inputs.size(); ++i)
    if (!compiled.forward.inputs[i].type().is_tensor()) numbers_.push_back(i);
  for (size_t i : programs.written_inputs) written_[i] = 1;
  in_place_.resize(by_address_.size());
  for (size_t i : written_in_place(compiled.forward)) in_place_[i] = 1;
  arguments_.resize(by_address_.size());
  may_write_ = programs.plain && saves_no(compiled, programs.written_inputs);
  if (!forward_.off)
    if (std::string why = settings_->refusal(); !why.empty()) give_up(forward_, why);
  trains_ = compiled.has_backward;
  if (forward_.off || !trains_) return;
  check(backward_, compiled.backward);
}

// ---- what is recorded -----------------------------------------------------------------------------------------------

void EntryGraphs::give_up(Direction& direction, const std::string& why) {
  direction.off = true;
  if (settings_->automatic) {
    ++settings_->why[cat(direction.what, ": ", why)];
    return;
  }
  const std::string program = cat("the ", direction.what, " of '", settings_->function, "'");
  warn_once(cat("graphs: ", program, why), cat("[CUDAGraphTransform] ", program, " runs without a CUDA graph: ", why));
}

// For this specialization, or for all where there is but one.
void EntryGraphs::give_up(Direction& direction, GraphSpecialization::Direction& spec, const std::string& why) {
  if (numbers_.empty() || !settings_->automatic) return give_up(direction, why);
  spec.off = true;
  ++settings_->why[cat(direction.what, ": ", why)];
}

void EntryGraphs::discard(Direction& direction, const GraphRecording& recording) {
  const bool used = recording.count > limits(*settings_).replays;
  direction.unused_recordings = used ? 0 : direction.unused_recordings + 1;
  if (!used && recording.reads_learned()) copies_ = copies_ || ++moves_ >= kMoves;
  if (direction.unused_recordings >= kUnusedRecordings)
    give_up(direction, "what it reads in place lies elsewhere at almost every call");
}

bool EntryGraphs::wanted(Direction& direction, GraphSpecialization::Direction& spec) {
  if (!settings_->automatic) return true;
  const RunTimes::Verdict verdict = spec.times.verdict();
  // Several specializations would be several recordings, and one recording takes longer than the pauses of many runs.
  const bool pays = verdict == RunTimes::Verdict::Pays || (verdict == RunTimes::Verdict::Helps && numbers_.empty());
  if (!pays && verdict != RunTimes::Verdict::Open) give_up(direction, spec, spec.times.why());
  return pays;
}

bool EntryGraphs::nobody_else_calls(const Direction& direction) {
  const std::string why = cat(direction.what, ": several threads call compiled functions");
  const bool alone = !several_threads_call();
  if (alone) settings_->why.erase(why);
  else settings_->why[why] = 1;
  return alone;
}

std::shared_ptr<GraphSpecialization> EntryGraphs::specialization_of(const Values& inputs) {
  Values numbers;
  for (size_t i : numbers_) numbers.push_back(inputs[i]);
  auto it = std::find_if(specs_.begin(), specs_.end(), [&](const auto& r) { return r->numbers == numbers; });
  if (it == specs_.end()) {
    if (specs_.size() >= kSpecializations) {
      auto oldest = std::min_element(specs_.begin(), specs_.end(), [](const auto& a, const auto& b) {
        return std::pair(!a->graphs.empty(), a->uses.back()) < std::pair(!b->graphs.empty(), b->uses.back());
      });
      take_out(specs_, static_cast<size_t>(oldest - specs_.begin()));
    }
    specs_.push_back(std::make_shared<GraphSpecialization>(std::move(numbers)));
    it = specs_.end() - 1;
  }
  std::deque<uint64_t>& uses = (*it)->uses;
  uses.push_back(++calls_);
  if (uses.size() > limits(*settings_).replays) uses.pop_front();
  return *it;
}

void EntryGraphs::learn(const Values& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor* t = by_address_[i] ? nullptr : defined_tensor(inputs[i]);
    if (!t || !t->has_storage()) continue;
    const void* now = t->const_data_ptr();
    arguments_[i].same = now == arguments_[i].last ? arguments_[i].same + 1 : 0;
    arguments_[i].last = now;
  }
}

// Nothing while large arguments do not stay where they are; `why` says so.
std::optional<std::vector<GraphRecording::Place>> EntryGraphs::places_for(const Values& inputs, size_t postponed,
                                                                          std::string* why) const {
  std::vector<Place> places;
  int64_t copied = 0;
  bool may_stay = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor* t = defined_tensor(inputs[i]);
    if (!t) {
      places.push_back(inputs[i].isNone() ? Place::Unread : Place::Number);
      continue;
    }
    const bool in_place = !by_address_[i] && (in_place_[i] || (!copies_ && (written_[i] || bytes_of(*t) >= kLarge)));
    const bool stays = in_place && arguments_[i].same >= limits(*settings_).same;
    places.push_back(by_address_[i] ? Place::Address : stays ? Place::Learned : Place::Buffer);
    if (places[i] == Place::Buffer) copied += bytes_of(*t);
    may_stay = may_stay || (in_place && !stays);
    if (in_place_[i] && !stays && !by_address_[i]) *why = "an argument that it writes to lies elsewhere in each call";
  }
  if (!why->empty()) return std::nullopt;
  const bool waits = may_stay && postponed < limits(*settings_).patience;
  if (!waits && (!settings_->automatic || copied <= kMostCopied)) return places;
  *why = cat(megabytes(copied), " of arguments would be copied in each call");
  return std::nullopt;
}

// ---- forward --------------------------------------------------------------------------------------------------------

GraphRun EntryGraphs::forward(const Programs& programs, const Values& inputs, Values& outputs) {
  GraphRun run;
  if (forward_.off) return run;
  Gil gil;
  void* stream = settings_->stream(index_);
  const bool shared = programs.backward == nullptr;
  const bool alone =
      !somebody_watches(!shared) && !GraphSettings::recording && (!stream || !settings_->somebody_records());
  const bool usable = alone && forward_.warm.exchange(true) && (!shared || !SharedReplay::any(stream));
  run.spec = specialization_of(inputs);
  run.spec->forward.handed.look();
  run.spec->backward.handed.look();
  if (usable) ask_about_streams(*run.spec);
  std::shared_ptr<ForwardGraph> graph = usable ? find_forward(*run.spec, inputs, stream) : nullptr;
  if (!graph) learn(inputs);
  if (usable && !graph && !forward_.off && !run.spec->forward.off && wanted(forward_, run.spec->forward)) {
    const AlonePeriod alone;
    if (nobody_else_calls(forward_)) graph = record_forward(programs, run.spec, inputs, stream);
  }
  if (!graph) {
    ++settings_->ungraphed;
    if (forward_.off || run.spec->forward.off) run.spec.reset();
    else if (alone && settings_->automatic) run.timer = run.spec->forward.times.start(*settings_, index_);
    if (run.timer) run.given = storages_of(inputs);
    return run;
  }
  run.lease = std::make_shared<GraphLease>(graph);
  std::optional<SharedReplay> replaying;
  if (shared) replaying.emplace(stream);
  // What may fail comes first: a replay may write to inputs.
  std::vector<at::Tensor> to, from;
  outputs = graph->outputs_for(inputs, to, from);
  graph->recording->replay(inputs);
  copy_tensors(to, from);
  return run;
}

void EntryGraphs::forward_has_run(const GraphRun& run, const Values& results, size_t outputs) {
  if (!run.timer) return;
  Gil gil;
  run.timer->stop();
  GraphSpecialization::Direction& direction = run.spec->forward;
  direction.given = bytes_beside(results, run.given);
  direction.results = sum_of(direction.given);
  direction.given.resize(std::min(outputs, results.size()));
  std::vector<char> large;
  for (int64_t bytes : direction.given) large.push_back(bytes >= kLarge);
  direction.handed.give(results, large);
}

std::shared_ptr<ForwardGraph> EntryGraphs::find_forward(GraphSpecialization& spec, const Values& inputs, void* stream) {
  std::shared_ptr<ForwardGraph> found;
  for (size_t i = 0; i < spec.graphs.size() && !found;) {
    ForwardGraph& g = *spec.graphs[i];
    const bool ours = g.recording->stream() == stream && !g.busy;
    const bool out = ours && g.loans_out();
    if (out) stop_lending(spec, g);
    const bool refused = out || (g.lends && !(spec.lends && lends_));
    const bool stale = refused || g.lost || g.recording->outdated() || (ours && !g.recording->fits(inputs));
    if (ours && !stale) found = spec.graphs[i];
    if (stale && !g.busy) {
      std::shared_ptr<ForwardGraph> gone = take_out(spec.graphs, i);
      if (!refused) discard(forward_, *gone->recording);
    } else {
      ++i;
    }
  }
  return found;
}

// The specialization whose recordings have not been used for longest.
GraphSpecialization* EntryGraphs::least_used(const GraphSpecialization& besides) const {
  GraphSpecialization* found = nullptr;
  for (const auto& r : specs_)
    if (r.get() != &besides && !r->graphs.empty() && (!found || r->uses.back() < found->uses.back())) found = r.get();
  return found;
}

// Whether a recording would have paid for `spec` since `other` was used.  Sizes that alternate would otherwise take
// each other's place, and every call would be a recording.
bool EntryGraphs::displaces(const GraphSpecialization& spec, const GraphSpecialization& other) const {
  return spec.uses.size() >= limits(*settings_).replays && spec.uses.front() > other.uses.back();
}

// Whether the specialization may have one more recording; one of its own that is not in use, or those of another, go.
bool EntryGraphs::make_room(GraphSpecialization& spec) {
  const Limits& most = limits(*settings_);
  if (spec.graphs.size() >= most.forwards) {
    auto idle = std::find_if(spec.graphs.begin(), spec.graphs.end(), [](const auto& g) { return !g->busy; });
    if (idle == spec.graphs.end()) return false;
    take_out(spec.graphs, static_cast<size_t>(idle - spec.graphs.begin()));
  }
  if (!spec.graphs.empty()) return true;
  const auto recorded = std::count_if(specs_.begin(), specs_.end(), [](const auto& r) { return !r->graphs.empty(); });
  if (static_cast<size_t>(recorded) < most.specializations) return true;
  GraphSpecialization* oldest = least_used(spec);
  if (!displaces(spec, *oldest)) return false;
  const auto gone = std::exchange(oldest->graphs, {});
  return true;
}

// Whether the specialization may have a recording of so many bytes, for which those of others go.  A specialization gives
// up if there is not enough memory without the others, either.
bool EntryGraphs::make_memory(GraphSpecialization& spec, int64_t bytes) {
  // The memory that is free is asked for only where the answer may be another one than in the last call.
  GraphSpecialization* oldest = least_used(spec);
  if (spec.crowded_out && oldest && !displaces(spec, *oldest)) return false;
  int64_t most = most_bytes();
  for (; bytes > most && oldest && displaces(spec, *oldest); oldest = least_used(spec)) {
    std::exchange(oldest->graphs, {}).clear();
    most = most_bytes();
  }
  spec.crowded_out = bytes > most && oldest;
  return !spec.crowded_out && !too_large(forward_, spec.forward, bytes, most);
}

// Of the epilogue, if all that it writes to is read where it lies.
GraphRecording::Writes EntryGraphs::writes_of(const Programs& programs, const std::vector<Place>& places) const {
  if (!may_write_) return {};
  const auto& writes = programs.plain->writes;
  const bool in_place = std::all_of(writes.begin(), writes.end(), [&](const auto& w) {
    return by_address_[w.second] || places[w.second] == Place::Learned;
  });
  return in_place ? writes : GraphRecording::Writes();
}

std::shared_ptr<ForwardGraph> EntryGraphs::record_forward(const Programs& programs,
                                                          const std::shared_ptr<GraphSpecialization>& spec,
                                                          const Values& inputs, void* stream) {
  auto graph = std::make_shared<ForwardGraph>();
  graph->spec = spec;
  try {
    // What loans pin comes back.
    if (const int64_t pinned = spec->pinned_bytes();
        pinned > 0 && std::max(forward_.live, spec->forward.results) + pinned > most_bytes())
      return nullptr;
    std::string why;
    std::optional<std::vector<Place>> places = places_for(inputs, spec->postponed, &why);
    if (!places) {
      if (++spec->postponed > kPostponed) give_up(forward_, spec->forward, why);
      return nullptr;
    }
    GraphRecording::Writes writes = writes_of(programs, *places);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool written = std::any_of(writes.begin(), writes.end(), [&](const auto& w) { return w.second == i; });
      if (!written && !programs.forward->reads_input(i)) (*places)[i] = Place::Unread;
      const at::Tensor* t = defined_tensor(inputs[i]);
      THUNDER_CHECK((*places)[i] == Place::Unread || (*places)[i] == Place::Number ||
                        (t->device().type() == settings_->device && t->layout() == at::kStrided && t->has_storage()),
                    NotImplemented, "graph", "an input is no plain tensor on the device");
    }
    // Recordings without a backward share memory with others, which are replayed while a loan is out.
    graph->lends = programs.backward && may_lend(*spec);
    const Copied copies = copied(programs, *spec, *graph);
    if (copies_too_much(forward_, *spec, inputs, *places, copies) || holds_too_much_twice(*spec, copies))
      return nullptr;
    if (!make_room(*spec)) return nullptr;
    if (!make_memory(*spec, std::max(forward_.live, spec->forward.results))) return nullptr;
    const int64_t most = most_bytes();
    graph->recording = GraphRecording::record(settings_, programs.forward, inputs, *std::move(places),
                                              std::move(writes), index_, {.shared = programs.backward == nullptr});
    const int64_t bytes = graph->recording->bytes();
    spec->forward.results = std::max(spec->forward.results, bytes);  // the next attempt knows
    if (bytes > most) {
      graph->recording.reset();
      make_memory(*spec, bytes);
      return nullptr;
    }
    if (why = graph->plan(programs, inputs, to_lend(*spec, *graph)); !why.empty()) {
      give_up(forward_, spec->forward, why);
      return nullptr;
    }
  } catch (...) {
    give_up(forward_, cat("recording it failed: ", message_of(std::current_exception())));
    return nullptr;
  }
  spec->postponed = 0;
  spec->graphs.push_back(graph);
  return graph;
}

// ---- backward -------------------------------------------------------------------------------------------------------

std::optional<Values> EntryGraphs::backward(const Programs& programs, const GraphLease& lease, const Values& saved,
                                            const std::vector<at::Tensor>& cotangents, bool last) {
  if (backward_.off) return std::nullopt;
  Gil gil;
  ForwardGraph& graph = lease.graph();
  const std::shared_ptr<GraphSpecialization> spec = graph.spec.lock();
  if (void* stream = settings_->stream(index_); stream != graph.recording->stream()) graph.lost = true;
  const bool usable = spec && backward_.warm && !graph.lost && !somebody_watches(false) && !GraphSettings::recording &&
                      (!graph.recording->stream() || !settings_->somebody_records());
  Values inputs = saved;
  graph.add_kept(inputs);
  for (const at::Tensor& c : cotangents) inputs.emplace_back(c);
  std::shared_ptr<ForwardGraph::Backward> found = usable ? find_backward(graph, inputs, last) : nullptr;
  // The forward's recording holds what is saved: a backward that runs beside it needs more memory than both recordings.
  if (usable && !found && !backward_.off && !spec->backward.off) {
    const AlonePeriod alone;
    if (nobody_else_calls(backward_)) found = record_backward(programs, graph, inputs, last);
  }
  if (!found) {
    ++settings_->ungraphed;
    return std::nullopt;
  }
  Busy busy(found->busy);
  found->recording->replay(inputs);
  return gradients_of(*found);
}

Values EntryGraphs::gradients_of(ForwardGraph::Backward& b) const {
  Values gradients = b.recording->results();
  b.loans.clear();
  std::vector<at::Tensor> to, from;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor* g = defined_tensor(gradients[i]);
    if (!g) continue;
    if (b.lends[i]) {
      auto [lent, loan] = Loan::lend(*g, b.recording);
      b.loans.push_back(std::move(loan));
      gradients[i] = std::move(lent);
      continue;
    }
    at::Tensor copy = at::empty_strided(g->sizes(), g->strides(), g->options());
    from.push_back(memory_of(*g));
    to.push_back(memory_of(copy));
    gradients[i] = std::move(copy);
  }
  copy_tensors(to, from);
  return gradients;
}

GraphRun EntryGraphs::start_backward(const Programs& programs, std::shared_ptr<GraphSpecialization> spec,
                                     const Values& inputs) const {
  GraphRun run;
  if (!spec || backward_.off || !settings_->automatic) return run;
  Gil gil;
  void* stream = settings_->stream(index_);
  if (spec->backward.off || somebody_watches(false) || (stream && settings_->somebody_records())) return run;
  run.spec = std::move(spec);
  run.timer = run.spec->backward.times.start(*settings_, index_);
  if (!run.timer) return run;
  run.given = storages_of(inputs);
  const size_t first = inputs.size() - programs.cotangents.size();
  run.spec->missing.clear();
  for (size_t i = first; i < inputs.size(); ++i)
    run.spec->missing.push_back(programs.optional_cotangents[i - first] && !defined_tensor(inputs[i]));
  return run;
}

void EntryGraphs::backward_has_run(const GraphRun& run, const Values& results) {
  if (forward_.off || backward_.off || (!run.timer && backward_.warm)) return;
  Gil gil;
  // A run that is watched or captured keeps no constants.
  if (!somebody_watches(false) && !(settings_->stream(index_) && settings_->somebody_records())) backward_.warm = true;
  if (!run.timer) return;
  run.timer->stop();
  GraphSpecialization::Direction& direction = run.spec->backward;
  direction.given = bytes_beside(results, run.given);
  direction.results = sum_of(direction.given);
  std::vector<char> own;
  for (int64_t bytes : direction.given) own.push_back(bytes > 0);
  direction.handed.give(results, own);
}

std::shared_ptr<ForwardGraph::Backward> EntryGraphs::find_backward(ForwardGraph& graph, const Values& inputs,
                                                                   bool last) {
  for (size_t i = 0; i < graph.backwards.size();) {
    std::shared_ptr<ForwardGraph::Backward> b = graph.backwards[i];
    const bool stale = b->recording->outdated() || !b->recording->fits(inputs);
    if (!b->free() || !stale) {
      if (!stale && b->free() && (last || !b->overwrites)) return b;
      ++i;
      continue;
    }
    take_out(graph.backwards, i);
    discard(backward_, *b->recording);
  }
  return nullptr;
}

namespace {

using Place = GraphRecording::Place;

// Where the recording of a backward finds its inputs.  Cotangents of results become memory of the recording.
std::vector<Place> places_of_backward(const Programs& programs, const ForwardGraph& graph, Values& inputs) {
  using From = ForwardGraph::Saved::From;
  std::vector<Place> places;
  const size_t saved = graph.saved.size(), numbers = saved + programs.num_saved_numbers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const From from = i < saved ? graph.saved[i].from : From::Copied;
    places.push_back(i >= saved && i < numbers ? Place::Number
                     : from == From::Kept      ? Place::Held
                     : from == From::Caller    ? Place::Address
                                               : Place::Buffer);
    if (!programs.backward->reads_input(i) || (i < saved && !defined_tensor(inputs[i]))) places[i] = Place::Unread;
    if (i < numbers || places[i] == Place::Unread) continue;
    if (programs.optional_cotangents[i - numbers] && !defined_tensor(inputs[i])) {
      places[i] = Place::Missing;
      continue;
    }
    const size_t output = programs.differentiable_outputs[i - numbers];
    inputs[i] = programs.cotangents[i - numbers].memory_for(graph.recording->results()[output].toTensor());
    THUNDER_CHECK(inputs[i].toTensor().is_non_overlapping_and_dense(), NotImplemented, "graph",
                  "the gradient of an output has gaps in its layout");
  }
  return places;
}

// By gradient.  The gradients of `a + b` are one tensor, and the caller may write to one of them.
std::vector<char> which_are_alone(const Values& gradients) {
  std::map<const c10::TensorImpl*, int> occurs;
  for (const c10::IValue& g : gradients)
    if (const at::Tensor* t = defined_tensor(g)) ++occurs[t->unsafeGetTensorImpl()];
  std::vector<char> out;
  for (const c10::IValue& g : gradients) {
    const at::Tensor* t = defined_tensor(g);
    out.push_back(t && t->has_storage() && t->storage().use_count() == 1 && occurs[t->unsafeGetTensorImpl()] == 1);
  }
  return out;
}

}  // namespace

// `given` owns nothing of the recording any more if the backward overwrites what is saved.
std::shared_ptr<ForwardGraph::Backward> EntryGraphs::record_backward(const Programs& programs, ForwardGraph& graph,
                                                                     Values& given, bool last) {
  if (graph.backwards.size() >= limits(*settings_).backwards) return nullptr;
  const std::shared_ptr<GraphSpecialization> spec = graph.spec.lock();
  auto b = std::make_shared<ForwardGraph::Backward>();
  try {
    Values inputs = given;
    std::vector<Place> places = places_of_backward(programs, graph, inputs);
    if (copies_too_much(backward_, *spec, inputs, places, copied(programs, *spec, graph))) {
      // The forward's recording would hold what is saved beside the memory of a backward without one.
      give_up(forward_, spec->forward, "its backward is not recorded");
      const auto gone = std::exchange(spec->graphs, {});
      return nullptr;
    }
    const int64_t most = most_bytes();
    if (too_large(backward_, spec->backward, std::max(backward_.live, spec->backward.results), most)) return nullptr;
    // Gradients that stay in the recording would be overwritten by the next forward.
    b->overwrites = last && !graph.moved && settings_->automatic;
    // What stands for a recorder runs the forward again, and would find what that reads gone.
    const bool shares = b->overwrites && !on_host();
    if (shares) {
      graph.move_saved_to(inputs);
      graph.add_kept(given);
    }
    const RunsBackward recorded(shares);
    b->recording = GraphRecording::record(settings_, programs.backward, std::move(inputs), std::move(places), {},
                                          index_, {.after = shares ? graph.recording.get() : nullptr});
    if (too_large(backward_, spec->backward, b->recording->bytes(), most)) return nullptr;
  } catch (...) {
    give_up(backward_, cat("recording it failed: ", message_of(std::current_exception())));
    return nullptr;
  }
  const std::vector<char> alone = which_are_alone(b->recording->results());
  for (size_t i = 0; i < alone.size(); ++i)
    b->lends.push_back(alone[i] && (!settings_->automatic || (graph.lends && spec->backward.handed.drops(i))));
  graph.backwards.push_back(b);
  return b;
}

}  // namespace thunder
