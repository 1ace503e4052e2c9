#include "frontend/dict_writes.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <vector>

namespace thunder::frontend {
namespace {

#if PY_VERSION_HEX < 0x030D0000
uint64_t stamp_of(PyObject* dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}
#else
uint64_t stamp_of(PyObject*) {
  static uint64_t never = 1;  // no stamp to go by: every dict counts as written to
  return ++never;
}
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
  std::vector<size_t> written;  // indices of watched dicts, each once
  std::vector<bool> marked;     // by index: in `written`
  size_t count = 0;
  size_t current = 0;  // what next() gave

  void mark(size_t index) {
    if (marked[index]) return;
    marked[index] = true;
    written.push_back(index);
  }
  // After a real step none of the dicts is in the cache.  In the order of their addresses, neighbours come with one
  // page, and the processor's own prefetching sees streams.
  void sort() {
    if (sorted) return;
    std::vector<size_t> order(stamped.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return std::less<PyObject*>()(stamped[a].dict, stamped[b].dict); });
    std::vector<Stamped> dicts;
    std::vector<size_t> of_dicts;
    for (size_t i : order) {
      dicts.push_back(stamped[i]);
      of_dicts.push_back(indices[i]);
    }
    stamped = std::move(dicts);
    indices = std::move(of_dicts);
    sorted = true;
  }

  State() = default;
  State(const State&) = delete;  // the watcher knows it by its address
  ~State();
};

#if PY_VERSION_HEX >= 0x030C0000
namespace {

// The interpreter gives out eight watchers in all, so that one serves every DictWrites.
class Watcher {
 public:
  using Mark = std::function<void()>;

  static Watcher& instance() {
    static auto* watcher = new Watcher;  // outlives every guard
    return *watcher;
  }
  bool watch(PyObject* dict, const void* owner, Mark mark) {
    if (id_ < 0 || PyDict_Watch(id_, dict) < 0) {
      PyErr_Clear();
      return false;
    }
    listeners_[dict].push_back({owner, std::move(mark)});
    return true;
  }
  void forget(PyObject* dict, const void* owner) {
    auto it = listeners_.find(dict);
    if (it == listeners_.end()) return;
    std::erase_if(it->second, [&](const Listener& l) { return l.owner == owner; });
    if (!it->second.empty()) return;
    listeners_.erase(it);
    if (PyDict_Unwatch(id_, dict) < 0) PyErr_Clear();
  }

 private:
  struct Listener {
    const void* owner;
    Mark mark;
  };

  Watcher() : id_(PyDict_AddWatcher(&on_event)) {
    if (id_ < 0) PyErr_Clear();
  }
  static int on_event(PyDict_WatchEvent, PyObject* dict, PyObject*, PyObject*) {
    auto& listeners = instance().listeners_;
    if (auto it = listeners.find(dict); it != listeners.end())
      for (const Listener& l : it->second) l.mark();
    return 0;
  }

  int id_;
  std::unordered_map<PyObject*, std::vector<Listener>> listeners_;
};

}  // namespace
#endif

DictWrites::DictWrites() : state_(std::make_unique<State>()) {}
DictWrites::DictWrites(DictWrites&&) noexcept = default;
DictWrites& DictWrites::operator=(DictWrites&&) noexcept = default;

DictWrites::~DictWrites() = default;

DictWrites::State::~State() {
#if PY_VERSION_HEX >= 0x030C0000
  if (!Py_IsInitialized()) return;
  for (PyObject* dict : watched) Watcher::instance().forget(dict, this);
#endif
}

size_t DictWrites::watch(PyObject* dict) {
  State* s = state_.get();
  size_t index = s->count++;
  s->marked.push_back(false);
#if PY_VERSION_HEX >= 0x030C0000
  if (Watcher::instance().watch(dict, s, [s, index] { s->mark(index); })) {
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
  return !state_->written.empty() || !state_->stamped.empty();
}

const size_t* DictWrites::next() {
  State& s = *state_;
  s.sort();
  for (; s.position < s.stamped.size(); ++s.position) {
    const State::Stamped& d = s.stamped[s.position];
    if (stamp_of(d.dict) != d.stamp) [[unlikely]]
      return &(s.current = s.indices[s.position]);
  }
  if (s.written.empty()) return nullptr;
  return &(s.current = s.written.back());
}

void DictWrites::accepted() {
  State& s = *state_;
  if (s.position < s.stamped.size()) {
    State::Stamped& d = s.stamped[s.position++];
    d.stamp = stamp_of(d.dict);
    return;
  }
  s.marked[s.current] = false;
  std::erase(s.written, s.current);
}

void DictWrites::add_lines(CacheLines& lines) {
  State& s = *state_;
  s.sort();
#if PY_VERSION_HEX < 0x030D0000
  for (const State::Stamped& d : s.stamped)
    lines.add(&reinterpret_cast<PyDictObject*>(d.dict)->ma_version_tag, sizeof(uint64_t));
#endif
  lines.add(s.stamped.data(), s.stamped.size() * sizeof(State::Stamped));
}

}  // namespace thunder::frontend
