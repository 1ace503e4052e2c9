#include "passes/distributed/comm_buckets.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "core/builder.h"
#include "core/error.h"
#include "passes/distributed/call_cost.h"
#include "passes/distributed/in_order.h"

namespace thunder::distributed {
namespace {

// Where a program begins to gather and where it ends to reduce, nothing hides communication: of so many bytes there a
// collective takes few, in the order in which they are needed or known.
constexpr int64_t kAtTheEnd = int64_t{192} << 20, kPiece = int64_t{8} << 20;

// A collective of one parameter, and the wait for it.
struct Single {
  const Call* start = nullptr;
  const Call* wait = nullptr;
  size_t position = 0;  // where the program needs it, or has what it reduces
};

class Bucketer {
 public:
  Bucketer(const Trace& trace, const CommunicationPlan& plan, const Collectives& singles)
      : trace_(trace), plan_(plan), order_(trace.calls) {
    ValueMap<const Call*> waits;
    for (const Call* c : trace.calls)
      if (c->op->has(kComm) && c->args.size() == 1 && c->args[0].is_value()) waits.set(c->args[0].value(), c);
    for (size_t i = 0; i < trace.calls.size(); ++i) position_.emplace(trace.calls[i], i);
    for (const Call* c : trace.calls) {
      const int g = singles.gather_of(*c), r = singles.reduction_of(*c);
      if (g < 0 && r < 0) continue;
      const Call* wait = waits[c->output.value()];
      Single s{c, wait ? wait : unread_wait(*c), 0};
      if (g < 0) s.position = r == static_cast<int>(plan.used_index()) ? trace.calls.size() : gradient_position(*c);
      (g >= 0 ? gathers_ : reductions_).emplace(static_cast<size_t>(g >= 0 ? g : r), s);
    }
    find_first_reads();
  }

  Trace run(std::optional<std::vector<Bucket>>& gathers, std::optional<std::vector<Bucket>>& reductions,
            Positions& made) {
    settle(gathers, gathers_, false);
    settle(reductions, reductions_, true);
    combine(*gathers, gathers_, made.gathers);
    combine(*reductions, reductions_, made.reductions);
    // Calls that are replaced give way where they stood.
    std::vector<const Call*> calls;
    for (const Call* c : trace_.calls) calls.push_back(instead_.count(c) ? instead_.at(c) : c);
    InOrder order(calls);
    for (const Call* c : calls) order.place(c);
    Trace out = trace_.derived();
    out.calls = order.take();
    return out;
  }

 private:
  // Dead code elimination keeps a start, which other processes make as well, and not a wait of which nobody reads.  What
  // the wait gives is a result of its bucket all the same.
  const Call* unread_wait(const Call& start) const {
    Arena& arena = *trace_.arena;
    const Value future = start.output.value();
    Call wait;
    wait.op = &Registry::instance().get("prims.wait");
    wait.args = {future};
    wait.output = arena.make_value(Type(future.type().future()[0]));
    return arena.make_call(std::move(wait));
  }

  // Where the program first reads what is gathered; views of it do not count.
  void find_first_reads() {
    ValueMap<Single*> gathered;
    for (auto& [index, g] : gathers_) {
      g.position = std::numeric_limits<size_t>::max();
      visit_outputs(*g.wait, [&, g = &g](Value v) { gathered.set(v, g); });
    }
    size_t reads = 0;
    for (const Call* c : trace_.calls) {
      const bool view = is_pure_view(*c);
      visit_all_inputs(*c, [&](Value v) {
        Single* g = gathered[v];
        if (!g) return;
        if (view) visit_outputs(*c, [&](Value o) { gathered.set(o, g); });
        else g->position = std::min(g->position, reads++);
      });
    }
  }

  // Where the gradient itself is known: casts and copies for the wire, and the sum with what was kept, do not count.
  size_t gradient_position(const Call& start) const {
    const auto passes_on = [](const Call& c) {
      return c.op->has(kPointwise | kShape) || c.op->full_name == "prims.add_kept_gradient";
    };
    const Call* maker = order_.maker(start.args[0].items()[0].value());
    while (maker && !maker->args.empty() && maker->args[0].is_tensor() && maker->op->is_prim() && passes_on(*maker) &&
           order_.maker(maker->args[0].value()))
      maker = order_.maker(maker->args[0].value());
    return maker ? position_.at(maker) : 0;
  }

  // The order of the plan, or the program's own.
  void settle(std::optional<std::vector<Bucket>>& order, const std::map<size_t, Single>& singles, bool last) const {
    if (order) {
      size_t n = 0;
      for (const Bucket& b : *order)
        for (size_t i : b) {
          ++n;
          THUNDER_CHECK(singles.count(i), Runtime, "distributed", "this program does not communicate ",
                        plan_.name_of(i), " as the first program did");
        }
      THUNDER_CHECK(n == singles.size(), Runtime, "distributed", "this program communicates ", singles.size(),
                    " parameters, the first program ", n);
      return;
    }
    // By their number and kind of collective: where they stand, and who is in them.
    std::map<std::pair<size_t, bool>, std::pair<size_t, Bucket>> buckets;
    for (const auto& [index, single] : singles) {
      auto [it, fresh] = buckets.try_emplace(key_of(index), single.position, Bucket());
      size_t& at = it->second.first;
      at = last ? std::max(at, single.position) : std::min(at, single.position);
      it->second.second.push_back(index);
    }
    std::vector<std::pair<size_t, Bucket>> sorted;
    for (auto& [key, bucket] : buckets) sorted.push_back(std::move(bucket));
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    order.emplace();
    for (auto& [at, bucket] : sorted) order->push_back(std::move(bucket));
    if (last) std::reverse(order->begin(), order->end());
    divide_first(*order, singles, last);
    if (last) std::reverse(order->begin(), order->end());
  }

  // The first of the buckets become pieces of themselves.
  void divide_first(std::vector<Bucket>& order, const std::map<size_t, Single>& singles, bool backwards) const {
    std::vector<Bucket> out;
    int64_t seen = 0;
    for (Bucket& bucket : order) {
      if (seen >= kAtTheEnd) {
        out.push_back(std::move(bucket));
        continue;
      }
      std::stable_sort(bucket.begin(), bucket.end(), [&](size_t a, size_t b) {
        const size_t at = singles.at(a).position, other = singles.at(b).position;
        return backwards ? at > other : at < other;
      });
      for (Bucket& piece : pieces_of(bucket)) {
        for (size_t i : piece) seen += bytes_of(i);
        std::sort(piece.begin(), piece.end());
        out.push_back(std::move(piece));
      }
    }
    order = std::move(out);
  }

  std::vector<Bucket> pieces_of(const Bucket& bucket) const {
    std::vector<Bucket> out;
    int64_t bytes = kPiece;  // of the last piece
    for (size_t i : bucket) {
      if (bytes >= kPiece) {
        out.emplace_back();
        bytes = 0;
      }
      out.back().push_back(i);
      bytes += bytes_of(i);
    }
    return out;
  }

  int64_t bytes_of(size_t index) const {
    return index == plan_.used_index() ? 0 : distributed::bytes_of(Type(plan_.parameters.at(index).full));
  }

  // The vector of what is used comes last.
  std::pair<size_t, bool> key_of(size_t index) const {
    if (index == plan_.used_index()) return {~size_t{0}, false};
    const PlannedParameter& p = plan_.parameters.at(index);
    return {p.bucket, p.sharded};
  }

  void combine(const std::vector<Bucket>& order, const std::map<size_t, Single>& singles, ValueMap<int>& positions) {
    for (size_t k = 0; k < order.size(); ++k) {
      std::vector<const Call*> starts, waits;
      for (size_t i : order[k]) {
        starts.push_back(singles.at(i).start);
        waits.push_back(singles.at(i).wait);
      }
      combine(starts, waits, plan_.bucket_name(order[k]));
      positions.set(instead_.at(starts[0])->output.value(), static_cast<int>(k));
    }
  }

  void combine(const std::vector<const Call*>& starts, const std::vector<const Call*>& waits, std::string name) {
    Arena& arena = *trace_.arena;
    ArgList tensors, results;
    std::vector<TensorType> types;
    for (size_t i = 0; i < starts.size(); ++i) {
      tensors.push_back(starts[i]->args[0].items()[0]);
      results.push_back(waits[i]->output);
      types.push_back(starts[i]->output.value().type().future()[0]);
    }
    Call start = *starts[0], wait = *waits[0];
    start.args.front() = Arg::list(std::move(tensors));
    start.args.back() = Arg(std::move(name));
    start.output = starts.size() == 1 ? starts[0]->output : Arg(arena.make_value(Type::future(std::move(types))));
    wait.args[0] = start.output;
    if (waits.size() > 1) wait.output = Arg::tuple(std::move(results));
    const Call* s = arena.make_call(std::move(start));
    const Call* w = arena.make_call(std::move(wait));
    for (const Call* c : starts) instead_[c] = s;
    for (const Call* c : waits) instead_[c] = w;
  }

  const Trace& trace_;
  const CommunicationPlan& plan_;
  InOrder order_;
  std::unordered_map<const Call*, size_t> position_;
  std::map<size_t, Single> gathers_, reductions_;
  std::unordered_map<const Call*, const Call*> instead_;
};

}  // namespace

Trace comm_buckets(const Trace& trace, const CommunicationPlan& plan, const Collectives& singles,
                   std::optional<std::vector<Bucket>>& gathers, std::optional<std::vector<Bucket>>& reductions,
                   Positions& made) {
  return Bucketer(trace, plan, singles).run(gathers, reductions, made);
}

}  // namespace thunder::distributed
