#include "frontend/dict_writes.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace thunder::frontend {
namespace {

#if PY_VERSION_HEX < 0x030D0000
const uint64_t* stamp_in(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}
uint64_t stamp_of(PyObject* dict) { return *stamp_in(dict); }
#else
uint64_t stamp_of(PyObject*) {
  static uint64_t never = 1;  // no stamp to go by: every dict counts as written to
  return ++never;
}
#endif

// Dicts that the interpreter watches, by index: those that were written to.
struct Marks {
  std::vector<size_t> written;  // each once
  std::vector<bool> marked;     // by index: in `written`

  void mark(size_t index) {
    if (marked[index]) return;
    marked[index] = true;
    written.push_back(index);
  }
  void forget(size_t index) {
    marked[index] = false;
    std::erase(written, index);
  }
};

#if PY_VERSION_HEX >= 0x030C0000
// The interpreter gives out eight watchers in all, so that one serves every DictWrites.
class Watcher {
 public:
  static Watcher& instance() {
    static auto* watcher = new Watcher;  // outlives every guard
    return *watcher;
  }
  bool watch(PyObject* dict, Marks* marks, size_t index) {
    if (id_ < 0 || PyDict_Watch(id_, dict) < 0) {
      PyErr_Clear();
      return false;
    }
    listeners_[dict].push_back({marks, index});
    return true;
  }
  void forget(PyObject* dict, const Marks* marks) {
    auto it = listeners_.find(dict);
    if (it == listeners_.end()) return;
    std::erase_if(it->second, [&](const Listener& l) { return l.marks == marks; });
    if (!it->second.empty()) return;
    listeners_.erase(it);
    // An interpreter that goes down still tells of the dicts that it empties, but takes no orders.
    if (Py_IsInitialized() && PyDict_Unwatch(id_, dict) < 0) PyErr_Clear();
  }

 private:
  struct Listener {
    Marks* marks;
    size_t index;
  };

  Watcher() : id_(PyDict_AddWatcher(&on_event)) {
    if (id_ < 0) PyErr_Clear();
  }
  static int on_event(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) {
    auto& listeners = instance().listeners_;
    if (auto it = listeners.find(dict); it != listeners.end())
      for (const Listener& l : it->second) l.marks->mark(l.index);
    return 0;
  }

  int id_;
  std::unordered_map<PyObject*, std::vector<Listener>> listeners_;
};
#endif

}  // namespace

struct DictWrites::State {
  struct Stamped {
    PyObject* dict;
    uint64_t stamp;
  };
  std::vector<Stamped> stamped;  // the dicts that the interpreter does not watch
  std::vector<size_t> indices;   // theirs
  bool sorted = true;
  size_t position = 0;  // of next() in stamped

  std::vector<PyObject*> watched;
  Marks marks;
  size_t count = 0;
  size_t current = 0;  // what next() gave

  State() = default;
  State(const State&) = delete;  // the watcher knows the marks by their address
  ~State() {
#if PY_VERSION_HEX >= 0x030C0000
    for (PyObject* dict : watched) Watcher::instance().forget(dict, &marks);
#endif
  }

  // After a real step none of the dicts is in the cache.  In the order of their addresses, neighbours come with one
  // page, and the processor's own prefetching sees streams.
  void sort() {
    if (sorted) return;
    std::vector<std::pair<Stamped, size_t>> all;
    for (size_t i = 0; i < stamped.size(); ++i) all.emplace_back(stamped[i], indices[i]);
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return std::less<PyObject*>()(a.first.dict, b.first.dict); });
    for (size_t i = 0; i < all.size(); ++i) std::tie(stamped[i], indices[i]) = all[i];
    sorted = true;
  }
};

DictWrites::DictWrites() : state_(std::make_unique<State>()) {}
DictWrites::DictWrites(DictWrites&&) noexcept = default;
DictWrites& DictWrites::operator=(DictWrites&&) noexcept = default;

DictWrites::~DictWrites() = default;

size_t DictWrites::watch(PyObject* dict) {
  State* s = state_.get();
  size_t index = s->count++;
  s->marks.marked.push_back(false);
#if PY_VERSION_HEX >= 0x030C0000
  if (Watcher::instance().watch(dict, &s->marks, index)) {
    s->watched.push_back(dict);
    return index;
  }
#endif
  s->stamped.push_back({dict, stamp_of(dict)});
  s->indices.push_back(index);
  s->sorted = false;
  return index;
}

bool DictWrites::any() const {
  state_->position = 0;
  return !state_->marks.written.empty() || !state_->stamped.empty();
}

std::optional<size_t> DictWrites::next() {
  State& s = *state_;
  s.sort();
  for (; s.position < s.stamped.size(); ++s.position) {
    const State::Stamped& d = s.stamped[s.position];
    if (stamp_of(d.dict) != d.stamp) [[unlikely]]
      return s.current = s.indices[s.position];
  }
  if (s.marks.written.empty()) return std::nullopt;
  return s.current = s.marks.written.back();
}

void DictWrites::accepted() {
  State& s = *state_;
  if (s.position < s.stamped.size()) {
    State::Stamped& d = s.stamped[s.position++];
    d.stamp = stamp_of(d.dict);
    return;
  }
  s.marks.forget(s.current);
}

void DictWrites::add_lines(CacheLines& lines) {
  State& s = *state_;
  s.sort();
#if PY_VERSION_HEX < 0x030D0000
  for (const State::Stamped& d : s.stamped) lines.add(stamp_in(d.dict), sizeof(uint64_t));
#endif
  lines.add(s.stamped.data(), s.stamped.size() * sizeof(State::Stamped));
}

}  // namespace thunder::frontend
