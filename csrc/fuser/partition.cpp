#include "fuser/partition.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "fuser/emit.h"
#include "fuser/items.h"
#include "fuser/lifetimes.h"
#include "fuser/order.h"
#include "fuser/roots.h"
#include "fuser/scalar.h"

namespace thunder::fuser {
namespace {

constexpr size_t kMaxRoots = 16;        // of a kernel: beyond that registers and parameters run out
constexpr int kNear = 48;               // calls between two kernels that may become one without much of a reason
constexpr int64_t kSlowFrom = 1 << 16;  // elements of a result whose operator is worth a kernel

class Partitioner {
 public:
  Partitioner(const Trace& trace, const PartitionOptions& options) : trace_(trace), options_(options) {}

  Trace run() {
    open();
    find_exact();
    find_roots();
    group();
    decide();
    return rebuild();
  }

 private:
  // ---- 1. calls -----------------------------------------------------------------------------------------------------

  void open() {
    items_ = items_of(trace_, options_.eager);
    for (size_t i = 0; i < items_.size(); ++i)
      visit_outputs(*items_[i].call, [&](Value v) { maker_.set(v, static_cast<int>(i)); });
  }

  // Values of bf16 and f16 that are rounded, and what they are made of without arithmetic.
  void find_exact() {
    if (!options_.repeated) return;
    for (size_t i = items_.size(); i-- > 0;) {
      bool exact = false;
      visit_outputs(*items_[i].call, [&](Value v) {
        if (options_.repeated->rounded[v]) exact_.set(v, 1);
        exact = exact || exact_[v];
      });
      if (exact && items_[i].kind == Kind::Move) visit_all_inputs(*items_[i].call, [&](Value v) { exact_.set(v, 1); });
    }
  }

  bool fusible(int i) const { return i >= 0 && items_[static_cast<size_t>(i)].kind != Kind::Barrier; }
  const Call* producer(Value v) const {
    int i = maker_[v];
    return fusible(i) ? items_[static_cast<size_t>(i)].call : nullptr;
  }

  // ---- roots --------------------------------------------------------------------------------------------------------

  // A value that others read: below views it is the tensor that must exist.
  void demand(Value v) {
    int i = maker_[v];
    if (!fusible(i) || demanded_[v]) return;
    demanded_.set(v, 1);
    Item& item = items_[static_cast<size_t>(i)];
    if (item.view) visit_all_inputs(*item.call, [&](Value u) { demand(u); });
  }

  void find_roots() {
    for (const Item& item : items_)
      if (item.kind == Kind::Barrier) visit_all_inputs(*item.call, [&](Value v) { demand(v); });
    visit_values(trace_.output, [&](Value v) { demand(v); });
    // A kernel reads no memory where there is no tensor; an operator that reads zeros needs them in memory.
    for (Item& item : items_)
      if (item.kind == Kind::Pointwise && item.call->op->has(kMayLackOperand) && demanded_[item.call->output.value()])
        item.kind = Kind::Barrier;
    is_root_ = fuser::find_roots(items_, maker_, demanded_);
  }

  // ---- 2. kernels ---------------------------------------------------------------------------------------------------

  struct Group {
    std::vector<int> roots;  // items, in program order; empty: joined another group
    int first = 0, last = 0;
    Walk walk;
  };

  // What a root reads outside of itself: other roots, items of barriers, and leaves.
  struct Reads {
    std::vector<int> roots, barriers;
    std::vector<Value> leaves;
    bool done = false;
  };

  const Reads& reads(int root) {
    Reads& r = reads_[static_cast<size_t>(root)];
    if (r.done) return r;
    r.done = true;
    ValueSet seen;
    std::vector<Value> queue;
    visit_all_inputs(*items_[static_cast<size_t>(root)].call, [&](Value v) { queue.push_back(v); });
    while (!queue.empty()) {
      Value v = queue.back();
      queue.pop_back();
      if (seen[v]) continue;
      seen.set(v, 1);
      int i = maker_[v];
      if (i < 0) {
        r.leaves.push_back(v);
      } else if (!fusible(i)) {
        r.leaves.push_back(v);
        r.barriers.push_back(i);
      } else if (is_root_[static_cast<size_t>(i)]) {
        r.roots.push_back(i);
      } else {
        visit_all_inputs(*items_[static_cast<size_t>(i)].call, [&](Value u) { queue.push_back(u); });
      }
    }
    return r;
  }

  int group_of(int root) const { return group_[static_cast<size_t>(root)]; }

  // Roots that another one stores by columns: one kernel, which walks over tiles, makes both.
  void find_transposed() {
    const Producer p = [this](Value v) { return producer(v); };
    transposed_.assign(items_.size(), -1);
    for (size_t i = 0; i < items_.size(); ++i) {
      const Value matrix = is_root_[i] ? transposed_source(items_[i].call->output.value(), p) : Value();
      const int j = matrix ? maker_[matrix] : -1;
      if (fusible(j) && is_root_[static_cast<size_t>(j)]) transposed_[static_cast<size_t>(j)] = static_cast<int>(i);
    }
  }

  void group() {
    reads_.resize(items_.size());
    group_.assign(items_.size(), -1);
    find_effects();
    find_transposed();
    std::vector<const Call*> calls;
    for (const Item& item : items_) calls.push_back(item.call);
    lifetimes_.emplace(calls, trace_.output);
    for (size_t i = 0; i < items_.size(); ++i)
      if (is_root_[i]) place(static_cast<int>(i));
  }

  // Calls with effects keep their order.
  void find_effects() {
    int before = -1;
    effect_before_.assign(items_.size(), -1);
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].kind != Kind::Barrier || !effects(*items_[i].call)) continue;
      effect_before_[i] = before;
      before = static_cast<int>(i);
    }
  }

  void place(int root) {
    const int own = static_cast<int>(groups_.size());
    Group g;
    g.roots = {root};
    g.first = g.last = root;
    groups_.push_back(g);
    group_[static_cast<size_t>(root)] = own;
    alone_possible_.push_back(can_lower(groups_.back().roots, groups_.back().walk));
    if (int& transposed = transposed_[static_cast<size_t>(root)]; !alone_possible_.back() && transposed >= 0) {
      transposed = -1;
      alone_possible_.back() = can_lower(groups_.back().roots, groups_.back().walk);
    }
    if (!alone_possible_.back()) return;
    std::vector<int> candidates;
    for (int r : reads(root).roots) candidates.push_back(group_of(r));
    std::sort(candidates.rbegin(), candidates.rend());
    const size_t from_reads = candidates.size();
    for (Value v : reads(root).leaves)
      if (auto it = last_reader_.find(v.id()); it != last_reader_.end() && is_large(v, root))
        candidates.push_back(group_of(it->second));
    // The tiles of a matrix find its extremum on the way, also where it is computed from what another kernel makes.
    const Call& call = *items_[static_cast<size_t>(root)].call;
    if (call.op->has(kReduction) && is_extremum_of_all(call))
      for (int r : reads(root).roots)
        if (const auto it = tiled_reader_.find(r); it != tiled_reader_.end())
          candidates.push_back(group_of(it->second));
    int now = own;
    for (size_t c = 0; c < candidates.size(); ++c) {
      const int other = candidates[c];
      if (other == now || groups_[static_cast<size_t>(other)].roots.empty() ||
          !alone_possible_[static_cast<size_t>(other)])
        continue;
      const bool far = root - groups_[static_cast<size_t>(other)].last > kNear;
      if (far && (c >= from_reads || only_sums(root, other))) continue;
      if (merge(other, now)) now = other;
    }
    for (Value v : reads(root).leaves) last_reader_[v.id()] = root;
    if (transposed_[static_cast<size_t>(root)] >= 0)
      for (int r : reads(root).roots) tiled_reader_[r] = root;
  }

  // Whether all that a root reads of a group are sums that are better made where they stand.
  bool only_sums(int root, int other) {
    return std::all_of(reads(root).roots.begin(), reads(root).roots.end(), [&](int r) {
      const Item& item = items_[static_cast<size_t>(r)];
      return group_of(r) != other ||
             (item.kind == Kind::Reduce && lifetimes_->keeps_more(item.call->output.value(), reads(r).leaves, root));
    });
  }

  bool is_large(Value v, int root) const {
    const Call& call = *items_[static_cast<size_t>(root)].call;
    int64_t size = usual_numel(call.output.value());
    if (items_[static_cast<size_t>(root)].kind == Kind::Reduce)
      size = std::max(size, usual_numel(call.arguments().value("a")));
    return v.type().is_tensor() && usual_numel(v) * 2 >= size;
  }

  bool merge(int into, int from) {
    Group &a = groups_[static_cast<size_t>(into)], &b = groups_[static_cast<size_t>(from)];
    if (a.roots.size() + b.roots.size() > kMaxRoots) return false;
    if (device_of(a.roots[0]) != device_of(b.roots[0])) return false;
    std::vector<int> both = a.roots;
    both.insert(both.end(), b.roots.begin(), b.roots.end());
    std::sort(both.begin(), both.end());
    Walk walk;
    if (has_path_between(into, from) || !can_lower(both, walk)) return false;
    for (int r : b.roots) group_[static_cast<size_t>(r)] = into;
    a.roots = both;
    a.first = std::min(a.first, b.first);
    a.last = std::max(a.last, b.last);
    a.walk = walk;
    several_.insert(into);
    b.roots.clear();
    return true;
  }

  Device device_of(int root) const { return items_[static_cast<size_t>(root)].call->output.value().tensor().device; }

  // Before this item nothing needs what stands at `item` or after it.  What precedes an item may do so all the same, by
  // a kernel that has a root before and another one after it.
  int horizon(int item) const {
    int before;
    do {
      before = item;
      for (int g : several_)
        if (const Group& wide = groups_[static_cast<size_t>(g)]; !wide.roots.empty() && wide.last >= item)
          item = std::min(item, wide.first);
    } while (item != before);
    return item;
  }

  // Whether what one of the two needs from outside needs, in turn, the other (or itself).
  bool has_path_between(int a, int b) {
    const int first = horizon(std::min(groups_[static_cast<size_t>(a)].first, groups_[static_cast<size_t>(b)].first));
    std::vector<int> queue;
    std::set<int> seen_groups, seen_barriers;
    auto visit_root = [&](int root, bool member) {
      for (int r : reads(root).roots) {
        int g = group_of(r);
        if (g == a || g == b) {
          if (!member) return true;
          continue;
        }
        if (groups_[static_cast<size_t>(g)].last >= first && seen_groups.insert(g).second) queue.push_back(g);
      }
      for (int i : reads(root).barriers)
        if (i >= first && seen_barriers.insert(i).second) queue.push_back(~i);
      return false;
    };
    for (int g : {a, b})
      for (int r : groups_[static_cast<size_t>(g)].roots) visit_root(r, true);
    while (!queue.empty()) {
      int unit = queue.back();
      queue.pop_back();
      if (unit >= 0) {
        for (int r : groups_[static_cast<size_t>(unit)].roots)
          if (visit_root(r, false)) return true;
      } else if (visit_barrier(~unit, a, b, first, seen_groups, seen_barriers, queue)) {
        return true;
      }
    }
    return false;
  }

  bool visit_barrier(int item, int a, int b, int first, std::set<int>& groups, std::set<int>& barriers,
                     std::vector<int>& queue) {
    bool found = false;
    for (int unit : barrier_reads(item)) {
      if (unit >= 0) {
        const int g = group_of(unit);
        if (g < 0) continue;
        if (g == a || g == b) found = true;
        else if (groups_[static_cast<size_t>(g)].last >= first && groups.insert(g).second) queue.push_back(g);
      } else if (~unit >= first && barriers.insert(~unit).second) {
        queue.push_back(unit);
      }
    }
    return found;
  }

  // Roots (as they are) and barriers (complemented) that a barrier reads, through views.
  const std::vector<int>& barrier_reads(int item) {
    auto [it, fresh] = barrier_reads_.try_emplace(item);
    if (!fresh) return it->second;
    std::vector<int>& out = it->second;
    std::vector<Value> queue;
    visit_all_inputs(*items_[static_cast<size_t>(item)].call, [&](Value v) { queue.push_back(v); });
    while (!queue.empty()) {
      Value v = queue.back();
      queue.pop_back();
      int i = maker_[v];
      if (i < 0) continue;
      if (!fusible(i)) out.push_back(~i);
      else if (is_root_[static_cast<size_t>(i)]) out.push_back(i);
      else visit_all_inputs(*items_[static_cast<size_t>(i)].call, [&](Value u) { queue.push_back(u); });
    }
    if (effect_before_[static_cast<size_t>(item)] >= 0) out.push_back(~effect_before_[static_cast<size_t>(item)]);
    return out;
  }

  std::vector<Root> as_roots(const std::vector<int>& items) const {
    std::vector<Root> out;
    for (int i : items) out.push_back({items_[static_cast<size_t>(i)].call->output.value(), true});
    return out;
  }

  bool can_lower(const std::vector<int>& roots, Walk& walk) {
    std::set<int> members(roots.begin(), roots.end());
    for (int r : roots)
      if (const int transposed = transposed_[static_cast<size_t>(r)]; transposed >= 0) members.insert(transposed);
    const std::vector<Root> values = as_roots({members.begin(), members.end()});
    Producer p = [this](Value v) { return producer(v); };
    Materialized m = [&](Value v) {
      int i = maker_[v];
      return fusible(i) && is_root_[static_cast<size_t>(i)] && !members.count(i);
    };
    if (!walk_of(values, p, m, walk)) return false;
    const std::optional<Kernel> kernel = lowered_.lower(values, p, m, {.exact = &exact_});
    return kernel && !(device_of(roots[0]).type == DeviceType::cuda && joins_sums_badly(*kernel));
  }

  // ---- 3. which kernels pay -----------------------------------------------------------------------------------------

  void decide() {
    outside_.assign(items_.size(), 0);
    std::vector<char> chosen(groups_.size(), 0);
    const ValueMap<int> kernels = kernels_of_values();
    for (size_t g = 0; g < groups_.size(); ++g)
      chosen[g] = !groups_[g].roots.empty() && alone_possible_[g] && (options_.single || pays(groups_[g], kernels));
    ops_.assign(groups_.size(), nullptr);
    // From the end, so that who reads a root is known when its own kernel is made.
    ValueSet read;
    for (const Item& item : items_)
      if (item.kind == Kind::Barrier) visit_all_inputs(*item.call, [&](Value v) { read_outside(v, read); });
    visit_values(trace_.output, [&](Value v) { read_outside(v, read); });
    std::vector<size_t> order;
    for (size_t g = 0; g < groups_.size(); ++g)
      if (!groups_[g].roots.empty()) order.push_back(g);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return groups_[a].last > groups_[b].last; });
    for (size_t g : order)
      for (int r : groups_[g].roots)
        for (int other : reads(r).roots)
          if (group_of(other) != static_cast<int>(g))
            read.set(items_[static_cast<size_t>(other)].call->output.value(), 1);
    for (size_t g : order)
      if (!chosen[g])
        for (int r : groups_[g].roots) run_outside(r, read);
    for (size_t g : order)
      if (chosen[g]) make(g, read);
  }

  void read_outside(Value v, ValueSet& read) {
    int i = maker_[v];
    if (!fusible(i)) return;
    read.set(v, 1);
    const Item& item = items_[static_cast<size_t>(i)];
    if (is_root_[static_cast<size_t>(i)]) return;
    if (outside_[static_cast<size_t>(i)]) return;
    outside_[static_cast<size_t>(i)] = 1;
    visit_all_inputs(*item.call, [&](Value u) { read_outside(u, read); });
  }

  // A root that no kernel makes, with all that it inlines.
  void run_outside(int i, ValueSet& read) {
    if (outside_[static_cast<size_t>(i)]) return;
    outside_[static_cast<size_t>(i)] = 1;
    visit_all_inputs(*items_[static_cast<size_t>(i)].call, [&](Value u) {
      int j = maker_[u];
      if (!fusible(j)) return;
      read.set(u, 1);
      if (!is_root_[static_cast<size_t>(j)]) run_outside(j, read);
    });
  }

  // What a kernel of the group computes.
  std::set<int> computed_by(const Group& g) {
    std::set<int> seen;
    std::vector<int> queue = g.roots;
    while (!queue.empty()) {
      int i = queue.back();
      queue.pop_back();
      if (!seen.insert(i).second) continue;
      visit_all_inputs(*items_[static_cast<size_t>(i)].call, [&](Value v) {
        int j = maker_[v];
        if (fusible(j) && (!is_root_[static_cast<size_t>(j)] || group_of(j) == group_of(g.roots[0])))
          queue.push_back(j);
      });
    }
    return seen;
  }

  ValueMap<int> kernels_of_values() {
    ValueMap<int> kernels(0);
    for (const Group& g : groups_)
      if (!g.roots.empty())
        for (int i : computed_by(g)) {
          const Value v = items_[static_cast<size_t>(i)].call->output.value();
          kernels.set(v, kernels[v] + 1);
        }
    return kernels;
  }

  // More than one operator's work, work that no operator does, or work that another kernel does as well and whose
  // result no operator has to the bit.
  bool pays(const Group& g, const ValueMap<int>& kernels) {
    int work = 0;
    for (int i : computed_by(g)) {
      const Item& item = items_[static_cast<size_t>(i)];
      if (is_no_operators_work(*item.call) || item.kind == Kind::Random || moves_pieces(*item.call)) return true;
      const Value v = item.call->output.value();
      const bool elsewhere = kernels[v] > 1 || (options_.repeated && options_.repeated->made[v]);
      if (elsewhere && item.kind == Kind::Pointwise && is_floating(v.dtype()) && is_approximate(*item.call->op))
        return true;
      if (!item.view && item.kind != Kind::Create) ++work;
    }
    return work > 1 || (work == 1 && is_slow_operator(g));
  }

  // PyTorch's kernels for a GPU are at the memory's speed where all operands lie as the result does.  They find the place
  // of each element that they gather by itself, but for whole slices along one dimension.  Its kernel of a choice for the
  // CPU takes a branch for each element.
  bool is_slow_operator(const Group& g) {
    const Call& call = *items_[static_cast<size_t>(g.roots[0])].call;
    if (g.roots.size() > 1) return false;
    if (device_of(g.roots[0]).type == DeviceType::cpu)
      return call.op->full_name == "prims.where" && usual_numel(call.output.value()) >= kSlowFrom;
    if (device_of(g.roots[0]).type != DeviceType::cuda) return false;
    if (gathers(call) && call.op->full_name != "prims.take") return usual_numel(call.output.value()) >= kSlowFrom;
    if (kind_of(call) != Kind::Pointwise) return false;
    const TensorType& out = call.output.value().tensor();
    bool slow = false;
    visit_all_inputs(call, [&](Value v) {
      if (v.type().is_tensor() && usual_numel(v) > 1) slow = slow || !same(v.tensor().strides, out.strides);
    });
    return slow && usual_numel(call.output.value()) >= kSlowFrom;
  }

  void make(size_t index, const ValueSet& read) {
    const Group& g = groups_[index];
    Fusion f;
    for (int r : g.roots) {
      Value v = items_[static_cast<size_t>(r)].call->output.value();
      f.roots.push_back({v, read[v] != 0});
    }
    f.producer = [this](Value v) { return producer(v); };
    f.materialized = [this, index](Value v) {
      int i = maker_[v];
      return fusible(i) && is_root_[static_cast<size_t>(i)] && group_of(i) != static_cast<int>(index);
    };
    std::optional<Kernel> kernel = lowered_.lower(f.roots, f.producer, f.materialized, {.exact = &exact_});
    f.exact = &exact_;
    f.lowered = &lowered_;
    const Op* op = nullptr;
    if (kernel) {
      f.calls = kernel->calls;
      std::sort(f.calls.begin(), f.calls.end(),
                [&](const Call* a, const Call* b) { return maker_[a->output.value()] < maker_[b->output.value()]; });
      f.inputs = kernel->inputs;
      f.outputs = kernel->outputs;
      op = options_.make_op(f);
    }
    if (!op) {
      ValueSet none;
      for (int r : g.roots) run_outside(r, none);
      return;
    }
    ArgList args(f.inputs.begin(), f.inputs.end()), outputs(f.outputs.begin(), f.outputs.end());
    args.insert(args.end(), f.numbers.begin(), f.numbers.end());
    ops_[index] = trace_.arena->make_call(Call{.op = op,
                                               .args = std::move(args),
                                               .output = Arg::tuple(std::move(outputs)),
                                               .body = f.calls,
                                               .location = items_[static_cast<size_t>(g.roots.back())].call->location,
                                               .symbols = {}});
  }

  // ---- the new program ----------------------------------------------------------------------------------------------

  Trace rebuild() {
    placed_.assign(items_.size(), 0);
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_[i].kind == Kind::Barrier) emit_item(static_cast<int>(i));
      else if (is_root_[i] && groups_[static_cast<size_t>(group_of(static_cast<int>(i)))].last == static_cast<int>(i))
        emit_root(static_cast<int>(i));
    }
    visit_values(trace_.output, [&](Value v) { need(v); });
    Trace out = trace_.derived();
    out.calls = calls_in_order(out_);
    return out;
  }

  void need(Value v) {
    int i = maker_[v];
    if (i < 0) return;
    if (items_[static_cast<size_t>(i)].kind == Kind::Barrier || outside_[static_cast<size_t>(i)]) emit_item(i);
    else if (is_root_[static_cast<size_t>(i)]) emit_root(i);
  }

  void emit_item(int i) {
    if (placed_[static_cast<size_t>(i)]) return;
    placed_[static_cast<size_t>(i)] = 1;
    const Item& item = items_[static_cast<size_t>(i)];
    const auto runs = [](const Item& of) { return of.claimed ? of.claimed : of.call; };
    const int before = effect_before_[static_cast<size_t>(i)];
    if (before >= 0) emit_item(before);
    visit_all_inputs(*runs(item), [&](Value v) { need(v); });
    out_.push_back({runs(item), i, false, before >= 0 ? runs(items_[static_cast<size_t>(before)]) : nullptr});
  }

  void emit_root(int i) {
    if (outside_[static_cast<size_t>(i)]) return emit_item(i);
    const int g = group_of(i);
    const Call* call = ops_[static_cast<size_t>(g)];
    if (!call || !emitted_.insert(g).second) return;
    visit_all_inputs(*call, [&](Value v) { need(v); });
    out_.push_back({call, groups_[static_cast<size_t>(g)].last, true});
  }

  const Trace& trace_;
  const PartitionOptions& options_;
  std::vector<Item> items_;
  std::vector<int> transposed_;  // per root, the root that stores it by columns; -1: none
  ValueMap<int> maker_{-1};
  ValueSet demanded_, exact_;
  LoweredKernels lowered_;
  std::vector<char> is_root_, outside_, placed_;
  std::optional<Lifetimes> lifetimes_;
  std::vector<Reads> reads_;
  std::vector<Group> groups_;
  std::set<int> several_;  // groups that came to have several roots
  std::vector<char> alone_possible_;
  std::vector<int> group_, effect_before_;
  std::map<ValueId, int> last_reader_;
  std::map<int, int> tiled_reader_;  // by a root, the last root stored in tiles that reads it
  std::map<int, std::vector<int>> barrier_reads_;
  std::vector<const Call*> ops_;
  std::set<int> emitted_;
  std::vector<Placed> out_;
};

}  // namespace

Trace partition(const Trace& trace, const PartitionOptions& options) {
  // A kernel reads when it runs, not when its calls stood: a write in between would be seen too early or too late.
  for (const Call* c : trace.calls)
    if (effects(*c) & kWrite) return trace;
  return Partitioner(trace, options).run();
}

}  // namespace thunder::fuser
