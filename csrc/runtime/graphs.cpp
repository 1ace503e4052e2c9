#include "runtime/graphs.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "core/error.h"
#include "core/warning.h"
#include "runtime/autograd.h"
#include "runtime/convert.h"
#include "runtime/gil.h"
#include "runtime/graph_support.h"
#include "runtime/python_error.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

using Values = std::vector<c10::IValue>;
using Place = GraphRecording::Place;

constexpr size_t kForwards = 4;   // recordings of a forward at a time: each has the memory of a whole call
constexpr size_t kBackwards = 2;  // of the backward of each: one whose gradients are kept, one whose are added to those
constexpr int kStrikes = 8;       // recordings thrown away with hardly a replay, after which there are no more

std::string message_of(const std::exception_ptr& exception) {
  if (!set_python_error(exception)) return "an unknown error";
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* text = value ? PyObject_Str(value) : nullptr;
  const char* utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  std::string out = utf8 ? utf8 : "an unknown error";
  PyErr_Clear();
  for (PyObject* o : {type, value, traceback, text}) Py_XDECREF(o);
  return out;
}

const void* storage_of(const at::Tensor& t) { return t.has_storage() ? t.storage().unsafeGetStorageImpl() : nullptr; }

bool same_place(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.dtype() == b.dtype();
}

// The input at the places whose memory the tensor lies in, or -1.
int64_t input_below(const Values& inputs, const at::Tensor& t) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const at::Tensor* in = defined_tensor(inputs[i]); in && storage_of(*in) == storage_of(t))
      return static_cast<int64_t>(i);
  return -1;
}

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

struct SharedReplay {
  SharedReplay(GraphSettings& s, void* on) : settings(s), stream(on) { settings.replaying.insert(stream); }
  ~SharedReplay() { settings.replaying.erase(stream); }
  GraphSettings& settings;
  void* stream;
};

struct Busy {
  explicit Busy(bool& flag) : flag(flag) { flag = true; }
  ~Busy() { flag = false; }
  bool& flag;
};

}  // namespace

bool ForwardGraph::Backward::free() const {
  if (busy) return false;
  const Values& gradients = recording->results();
  for (size_t i = 0; i < gradients.size(); ++i)
    if (owned[i] && gradients[i].toTensor().storage().use_count() != 1) return false;
  return true;
}

void GraphLease::add_kept(Values& saved) const {
  for (size_t i = 0; i < graph_->saved.size(); ++i)
    if (graph_->saved[i].from == ForwardGraph::Saved::From::Kept) saved[i] = graph_->saved[i].tensor;
}

EntryGraphs::EntryGraphs(std::shared_ptr<GraphSettings> settings, const Compiled& compiled,
                         std::vector<char> by_address)
    : settings_(std::move(settings)), by_address_(std::move(by_address)) {
  Device device;
  const DeviceType type = settings_->device == c10::DeviceType::CUDA ? DeviceType::cuda : DeviceType::cpu;
  auto check = [&](Road& road, const char* what, const Trace& trace) {
    // Where there is nothing to record there is nothing to warn of.
    if (!computes(trace)) return give_up(road, what, "");
    if (std::string why = why_not_recorded(trace, type, device); !why.empty()) give_up(road, what, why);
  };
  check(forward_, "forward", compiled.forward);
  index_ = std::max<int>(0, device.index);
  forward_.warm = backward_.warm = !settings_->warm_up;
  if (forward_.off || !compiled.has_backward) return;
  check(backward_, "backward", compiled.backward);
}

void EntryGraphs::give_up(Road& road, const char* what, const std::string& why) {
  road.off = true;
  if (why.empty()) return;
  const std::string program = cat("the ", what, " of '", settings_->function, "'");
  warn_once(cat("graphs: ", program, why), cat("[CUDAGraphTransform] ", program, " runs without a CUDA graph: ", why));
}

void EntryGraphs::discard(Road& road, const char* what, const GraphRecording& recording) {
  road.strikes = recording.count > 1 ? 0 : road.strikes + 1;
  if (road.strikes >= kStrikes) give_up(road, what, "its parameters lie elsewhere at almost every call");
}

// ---- forward --------------------------------------------------------------------------------------------------------

std::shared_ptr<GraphLease> EntryGraphs::forward(const Entry& entry, const Values& inputs, Values& outputs) {
  if (forward_.off) return nullptr;
  Gil gil;
  void* stream = settings_->stream(index_);
  const bool shared = entry.backward == nullptr;
  const bool usable = forward_.warm.exchange(true) && !somebody_watches(!shared) && !settings_->recording &&
                      (!shared || !settings_->replaying.count(stream)) && (!stream || !settings_->somebody_records());
  std::shared_ptr<ForwardGraph> graph = usable ? find_forward(inputs, stream) : nullptr;
  if (usable && !graph && !forward_.off) graph = record_forward(entry, inputs, stream);
  if (!graph) {
    ++settings_->ungraphed;
    return nullptr;
  }
  auto lease = std::make_shared<GraphLease>(graph);
  std::optional<SharedReplay> replaying;
  if (shared) replaying.emplace(*settings_, stream);
  graph->recording->replay(*settings_, inputs);
  outputs = hand_over(*graph, inputs);
  return lease;
}

std::shared_ptr<ForwardGraph> EntryGraphs::find_forward(const Values& inputs, void* stream) {
  std::shared_ptr<ForwardGraph> found;
  for (size_t i = 0; i < graphs_.size() && !found;) {
    ForwardGraph& g = *graphs_[i];
    const bool ours = g.recording->stream() == stream && !g.busy;
    const bool stale = g.lost || g.recording->outdated() || (ours && !g.recording->fits(inputs));
    if (ours && !stale) found = graphs_[i];
    if (stale && !g.busy) {
      std::shared_ptr<ForwardGraph> gone = take_out(graphs_, i);
      discard(forward_, "forward", *gone->recording);
    } else {
      ++i;
    }
  }
  return found;
}

std::shared_ptr<ForwardGraph> EntryGraphs::record_forward(const Entry& entry, const Values& inputs, void* stream) {
  if (graphs_.size() >= kForwards) {
    auto idle = std::find_if(graphs_.begin(), graphs_.end(), [](const auto& g) { return !g->busy; });
    if (idle == graphs_.end()) return nullptr;
    take_out(graphs_, static_cast<size_t>(idle - graphs_.begin()));
  }
  auto graph = std::make_shared<ForwardGraph>();
  try {
    std::vector<Place> places;
    for (size_t i = 0; i < inputs.size(); ++i) {
      places.push_back(!entry.forward->reads_input(i) ? Place::Unread
                       : by_address_[i]               ? Place::Address
                                                      : Place::Buffer);
      const at::Tensor* t = places[i] == Place::Unread ? nullptr : defined_tensor(inputs[i]);
      THUNDER_CHECK(places[i] == Place::Unread || (t && t->device().type() == settings_->device &&
                                                   t->layout() == at::kStrided && t->has_storage()),
                    NotImplemented, "graph", "an input is no plain tensor on the device");
    }
    graph->recording =
        GraphRecording::record(*settings_, entry.forward, inputs, std::move(places), index_, entry.backward == nullptr);
    if (std::string why = plan_outputs(entry, inputs, *graph); !why.empty()) {
      give_up(forward_, "forward", why);
      return nullptr;
    }
    plan_saved(entry, inputs, *graph);
  } catch (...) {
    give_up(forward_, "forward", cat("recording it failed: ", message_of(std::current_exception())));
    return nullptr;
  }
  graphs_.push_back(graph);
  return graph;
}

std::string EntryGraphs::plan_outputs(const Entry& entry, const Values& inputs, ForwardGraph& graph) const {
  using From = ForwardGraph::Output::From;
  const Values &results = graph.recording->results(), &read = graph.recording->inputs();
  for (size_t i = 0; i < entry.num_outputs; ++i) {
    ForwardGraph::Output out;
    if (int64_t input = entry.forward->output_is_input(i); input >= 0) {
      out = {From::Input, static_cast<size_t>(input)};
    } else if (const at::Tensor* t = defined_tensor(results[i])) {
      if (t->device().type() != settings_->device || !t->has_storage()) return "it gives a tensor on another device";
      out.from = From::Copy;
      if (int64_t below = input_below(read, *t); below >= 0) {
        const auto input = static_cast<size_t>(below);
        const bool whole = same_place(*t, read[input].toTensor());
        if (!by_address_[input] && !whole) return "an output lies in the memory of an argument";
        out = {by_address_[input] ? From::Alias : From::Input, by_address_[input] ? i : input};
      }
      for (size_t j = 0; j < i; ++j)
        if (const at::Tensor* other = defined_tensor(results[j]); other && other->is_same(*t)) out = {From::Output, j};
    }
    graph.outputs.push_back(out);
  }
  return {};
}

void EntryGraphs::plan_saved(const Entry& entry, const Values& inputs, ForwardGraph& graph) const {
  using From = ForwardGraph::Saved::From;
  const Values &results = graph.recording->results(), &read = graph.recording->inputs();
  auto written = [&](const at::Tensor& t) {
    return std::any_of(entry.written_inputs.begin(), entry.written_inputs.end(), [&](size_t i) {
      const at::Tensor* w = defined_tensor(inputs[i]);
      return w && storage_of(*w) == storage_of(t);
    });
  };
  for (size_t i = 0; i < entry.num_saved_tensors; ++i) {
    ForwardGraph::Saved s;
    s.input = entry.saved_is_input[i];
    if (const at::Tensor* t = defined_tensor(results[entry.num_outputs + i])) {
      s.tensor = *t;
      const bool is_input = s.input >= 0;
      if (is_input) s.tensor = read[static_cast<size_t>(s.input)].toTensor();
      else s.input = input_below(read, *t);
      const bool caller = s.input >= 0 && by_address_[static_cast<size_t>(s.input)];
      if (caller && written(*t)) s.from = From::Copied;
      else if (caller && is_input) s.from = From::Caller;
      // What was copied into the recording keeps its value, whatever the epilogue writes.
      else if (s.input >= 0 && written(inputs[static_cast<size_t>(s.input)].toTensor())) s.input = -1;
      for (size_t j = 0; s.input < 0 && s.output < 0 && j < entry.num_outputs; ++j)
        if (const at::Tensor* out = defined_tensor(results[j]); out && storage_of(*out) == storage_of(*t))
          s.output = static_cast<int64_t>(j);
    }
    graph.saved.push_back(std::move(s));
  }
}

Values EntryGraphs::hand_over(const ForwardGraph& graph, const Values& inputs) const {
  using From = ForwardGraph::Output::From;
  const Values& results = graph.recording->results();
  Values out;
  out.reserve(graph.outputs.size());
  std::vector<at::Tensor> to, from;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const ForwardGraph::Output& o = graph.outputs[i];
    at::Tensor copy;
    if (o.from == From::Copy) {
      const at::Tensor& t = results[i].toTensor();
      copy = at::empty_strided(t.sizes(), t.strides(), t.options());
      from.push_back(memory_of(t));
      to.push_back(memory_of(copy));
    }
    out.push_back(o.from == From::Copy     ? c10::IValue(std::move(copy))
                  : o.from == From::Alias  ? c10::IValue(alias_without_history(results[i].toTensor()))
                  : o.from == From::Input  ? inputs[o.index]
                  : o.from == From::Output ? out[o.index]
                                           : results[i]);
  }
  copy_tensors(to, from);
  return out;
}

// ---- backward -------------------------------------------------------------------------------------------------------

std::optional<Values> EntryGraphs::backward(const Entry& entry, const GraphLease& lease, const Values& saved,
                                            const std::vector<at::Tensor>& cotangents) {
  if (backward_.off) return std::nullopt;
  Gil gil;
  ForwardGraph& graph = lease.graph();
  if (void* stream = settings_->stream(index_); stream != graph.recording->stream()) graph.lost = true;
  const bool usable = backward_.warm && !graph.lost && !somebody_watches(false) && !settings_->recording &&
                      (!graph.recording->stream() || !settings_->somebody_records());
  Values inputs = saved;
  lease.add_kept(inputs);
  for (const at::Tensor& c : cotangents) inputs.emplace_back(c);
  std::shared_ptr<ForwardGraph::Backward> found = usable ? find_backward(graph, inputs) : nullptr;
  if (usable && !found && !backward_.off) found = record_backward(entry, graph, inputs);
  if (!found) {
    ++settings_->ungraphed;
    return std::nullopt;
  }
  Busy busy(found->busy);
  found->recording->replay(*settings_, inputs);
  Values gradients = found->recording->results();
  for (size_t i = 0; i < gradients.size(); ++i)
    if (const at::Tensor* g = defined_tensor(gradients[i]))
      gradients[i] = found->owned[i] ? alias_without_history(*g) : g->clone();
  return gradients;
}

std::shared_ptr<ForwardGraph::Backward> EntryGraphs::find_backward(ForwardGraph& graph, const Values& inputs) {
  for (size_t i = 0; i < graph.backwards.size();) {
    std::shared_ptr<ForwardGraph::Backward> b = graph.backwards[i];
    const bool stale = b->recording->outdated() || !b->recording->fits(inputs);
    if (!b->free() || !stale) {
      if (!stale && b->free()) return b;
      ++i;
      continue;
    }
    take_out(graph.backwards, i);
    discard(backward_, "backward", *b->recording);
  }
  return nullptr;
}

std::shared_ptr<ForwardGraph::Backward> EntryGraphs::record_backward(const Entry& entry, ForwardGraph& graph,
                                                                     const Values& given) {
  using From = ForwardGraph::Saved::From;
  if (graph.backwards.size() >= kBackwards) return nullptr;
  auto b = std::make_shared<ForwardGraph::Backward>();
  try {
    Values inputs = given;
    std::vector<Place> places;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_saved = i < graph.saved.size();
      const From from = is_saved ? graph.saved[i].from : From::Copied;
      places.push_back(from == From::Kept ? Place::Held : from == From::Caller ? Place::Address : Place::Buffer);
      if (!entry.backward->reads_input(i) || (is_saved && !defined_tensor(inputs[i]))) places[i] = Place::Unread;
      if (is_saved || places[i] == Place::Unread) continue;
      const Entry::Layout& layout = entry.cotangents[i - graph.saved.size()];
      const at::Tensor& output =
          graph.recording->results()[entry.differentiable_outputs[i - graph.saved.size()]].toTensor();
      inputs[i] = at::empty_strided(layout.sizes, layout.strides, output.options());
      THUNDER_CHECK(layout.known && inputs[i].toTensor().is_non_overlapping_and_dense(), NotImplemented, "graph",
                    "the gradient of an output has gaps in its layout");
    }
    b->recording = GraphRecording::record(*settings_, entry.backward, inputs, std::move(places), index_, false);
  } catch (...) {
    give_up(backward_, "backward", cat("recording it failed: ", message_of(std::current_exception())));
    return nullptr;
  }
  for (const c10::IValue& g : b->recording->results()) {
    const at::Tensor* t = defined_tensor(g);
    b->owned.push_back(t && t->has_storage() && t->storage().use_count() == 1);
  }
  graph.backwards.push_back(b);
  return b;
}

}  // namespace thunder
