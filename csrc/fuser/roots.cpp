#include "fuser/roots.h"

#include <map>
#include <set>

#include "fuser/vectors.h"
#include "fuser/work.h"

namespace thunder::fuser {
namespace {

constexpr size_t kLongest = 128;    // calls that are computed where they are used: longer chains are cut
constexpr size_t kMaxInlined = 64;  // calls that may be computed twice rather than stored
constexpr size_t kMostLeaves = 8;   // that are told apart
constexpr double kOnce = 40;        // instructions that each thread may take for a number that all elements share
constexpr int kManyTaps = 4;        // gathers from a value, each of which would compute it again, ...
constexpr size_t kTapCalls = 8;     // ... from so many calls on

// What computing an item's value from scratch takes.
struct Effort {
  std::map<ValueId, int64_t> leaves;  // large operands, with their elements
  size_t calls = 0;
  double instructions = 0;  // for an element
};

class RootFinder {
 public:
  RootFinder(const std::vector<Item>& items, const ValueMap<int>& maker, const ValueSet& demanded)
      : items_(items), maker_(maker), demanded_(demanded) {}

  std::vector<char> run() {
    find_efforts();
    is_vector_ = vectors();
    readers_.resize(items_.size());
    read_.assign(items_.size(), 0);
    is_root_.assign(items_.size(), 0);
    for (size_t i = items_.size(); i-- > 0;) {
      if (items_[i].kind == Kind::Barrier) continue;
      const bool exists = demanded_[value(i)] && !items_[i].view;
      if (!exists && readers_[i].empty()) continue;
      is_root_[i] = exists || items_[i].kind == Kind::Reduce || is_vector_[i] || pays(i);
      hand_on(i);
    }
    return std::move(is_root_);
  }

 private:
  Value value(size_t i) const { return items_[i].call->output.value(); }
  // The item that makes a value in a kernel; -1 where there is none.
  int producer(Value v) const {
    const int i = maker_[v];
    return i >= 0 && items_[static_cast<size_t>(i)].kind != Kind::Barrier ? i : -1;
  }

  std::vector<char> vectors() const {
    std::vector<const Call*> calls(items_.size());
    std::vector<size_t> inlined(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) {
      calls[i] = items_[i].kind == Kind::Barrier ? nullptr : items_[i].call;
      inlined[i] = efforts_[i].calls;
    }
    return find_vectors(calls, maker_, inlined);
  }

  void find_efforts() {
    efforts_.resize(items_.size());
    taps_.assign(items_.size(), 0);
    for (const Item& item : items_)
      if (item.kind != Kind::Barrier && item.call->op->full_name == "prims.take")
        if (const int j = producer(item.call->arguments().value("a")); j >= 0) ++taps_[static_cast<size_t>(j)];
    for (size_t i = 0; i < items_.size(); ++i)
      if (items_[i].kind != Kind::Barrier) efforts_[i] = effort_of(i);
  }

  Effort effort_of(size_t i) const {
    const Call& call = *items_[i].call;
    const int64_t size = usual_numel(value(i));
    Effort out{{}, 1, instructions(call)};
    const auto add = [&](ValueId leaf, int64_t elements) {
      if (elements * 2 >= size) out.leaves.emplace(leaf, elements);
    };
    visit_all_inputs(call, [&](Value u) {
      const int j = producer(u);
      const Item* of = j < 0 ? nullptr : &items_[static_cast<size_t>(j)];
      const bool leaf = !of || (demanded_[u] && !of->view) || of->kind == Kind::Reduce ||
                        is_stored_anyway(static_cast<size_t>(j), size);
      if (!leaf && efforts_[static_cast<size_t>(j)].calls < kLongest) {
        const Effort& operand = efforts_[static_cast<size_t>(j)];
        for (const auto& [leaf, elements] : operand.leaves) add(leaf, elements);
        out.calls += operand.calls;
        out.instructions += operand.instructions;
      } else if (u.type().is_tensor()) {
        add(u.id(), usual_numel(u));
      }
    });
    while (out.leaves.size() > kMostLeaves) out.leaves.erase(std::prev(out.leaves.end()));
    return out;
  }

  // One of two steps (an image resampled along its columns, then along its rows), each of which takes few elements.
  bool is_tapped(size_t i) const {
    return taps_[i] >= kManyTaps && efforts_[i].calls >= kTapCalls && items_[i].kind == Kind::Pointwise;
  }

  // Whether one reader of so many elements is enough for a value to be stored (a table of places and weights).
  bool is_stored_anyway(size_t i, int64_t read) const {
    if (items_[i].kind == Kind::Create) return false;
    return is_tapped(i) || worth_storing(static_cast<double>(usual_numel(value(i))), itemsize(value(i).dtype()),
                                         efforts_[i].instructions, static_cast<double>(read));
  }

  // Whether a value that need not exist is better stored than computed by each of its readers.
  bool pays(size_t i) const {
    const Item& item = items_[i];
    const Effort& effort = efforts_[i];
    if (item.view) return false;
    if (effort.calls >= kLongest || is_tapped(i)) return true;
    if (item.kind == Kind::Create) return false;
    // Computed once a row or a thread, not for each element that reads it.
    if (usual_numel(value(i)) == 1 && effort.instructions <= kOnce) return false;
    const bool repeated = readers_[i].size() > 1 && (effort.leaves.size() > 1 || effort.calls > kMaxInlined);
    // Half the memory for the same number: what is widened is stored.
    if (widens(*item.call, [this](Value u) { return call_of(u); })) return false;
    if (repeated) return true;
    return worth_storing(static_cast<double>(usual_numel(value(i))), itemsize(value(i).dtype()), effort.instructions,
                         read_[i]);
  }

  const Call* call_of(Value v) const {
    const int i = producer(v);
    return i < 0 ? nullptr : items_[static_cast<size_t>(i)].call;
  }

  // Tells the operands which roots they are computed for, and for how many elements.
  void hand_on(size_t i) {
    const Item& item = items_[i];
    const Value walked = item.kind == Kind::Reduce ? item.call->arguments().value("a") : value(i);
    const double elements = is_root_[i] ? static_cast<double>(usual_numel(walked)) : read_[i];
    visit_all_inputs(*item.call, [&](Value u) {
      const int j = producer(u);
      if (j < 0) return;
      read_[static_cast<size_t>(j)] += elements;
      std::set<size_t>& r = readers_[static_cast<size_t>(j)];
      if (is_root_[i]) r.insert(i);
      else
        for (size_t x : readers_[i])
          if (r.size() < 2) r.insert(x);
    });
  }

  const std::vector<Item>& items_;
  const ValueMap<int>& maker_;
  const ValueSet& demanded_;
  std::vector<Effort> efforts_;
  std::vector<int> taps_;                  // gathers that read it
  std::vector<std::set<size_t>> readers_;  // roots, two of them at most
  std::vector<double> read_;               // elements, by all roots together
  std::vector<char> is_vector_, is_root_;
};

}  // namespace

std::vector<char> find_roots(const std::vector<Item>& items, const ValueMap<int>& maker, const ValueSet& demanded) {
  return RootFinder(items, maker, demanded).run();
}

}  // namespace thunder::fuser
