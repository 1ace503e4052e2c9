#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "passes/autodiff.h"
#include "passes/mincut.h"
#include "passes/visit.h"

namespace thunder {
namespace {

// What a dim counts as in a byte count: the hint of its symbols; a length that only a run can tell is taken for a long
// one.
constexpr int64_t kUnknownLength = 1024;

int64_t estimate(const Dim& d) {
  if (d.is_constant()) return d.constant();
  Dim value = d.substitute([](SymbolId s) -> Dim {
    const ShapeEnv* env = ShapeEnv::current();
    return env ? env->hint(s).value_or(kUnknownLength) : kUnknownLength;
  });
  return value.is_constant() ? value.constant() : kUnknownLength;
}

int64_t bytes(Value v) {
  if (!v.type().is_tensor()) return 8;
  int64_t n = itemsize(v.dtype());
  for (const Dim& d : v.shape()) n *= estimate(d);
  return n;
}

bool is_cast(const Call& call) {
  static const Op* convert = Registry::instance().find("prims.convert_element_type");
  if (call.body.empty()) return call.op == convert || call.op->has(kView);
  return std::all_of(call.body.begin(), call.body.end(), [](const Call* c) { return is_cast(*c); });
}

bool is_cheap(const Call& call) {
  if (call.op->has(kCheap | kPointwise | kView)) return true;
  if (call.body.empty()) return call.op->has(kCreation);
  return std::all_of(call.body.begin(), call.body.end(), [](const Call* c) { return is_cheap(*c); });
}

// What a fusion executor may take in: its results need not exist in memory for another such call to read them.
bool is_fusible(const Call& call) {
  return call.body.empty() && call.op->is_prim() &&
         call.op->has(kPointwise | kView | kShape | kReduction | kCreation | kIdentity);
}

// A call that views several tensors at once (atleast_3d of a list) is opened: one view may be saved where another is
// derived again from what the caller holds.
void open_views(const Call* call, std::vector<const Call*>& out) {
  if (call->body.empty() || outputs_of(*call).size() < 2 || !is_pure_view(*call)) return out.push_back(call);
  for (const Call* inner : call->body) open_views(inner, out);
}

class Splitter {
 public:
  Splitter(const JointTrace& joint, const SplitOptions& options)
      : joint_(joint),
        options_(options),
        calls_(opened(joint)),
        aliases_({calls_.begin(), calls_.begin() + forward_end()}),
        producer_(-1) {
    for (size_t i = 0; i < joint.primal_inputs; ++i) is_input_.set(joint.trace.inputs[i], 1);
    for (size_t i = 0; i < forward_calls_; ++i)
      visit_outputs(*calls_[i], [&](Value v) {
        if (!is_input_[v]) producer_.set(v, static_cast<int>(i));
      });
    for (const Arg& a : joint.outputs())
      visit_values(a, [&](Value v) {
        is_output_.set(v, 1);
        is_output_storage_.set(aliases_.root(v), 1);
      });
    find_in_memory();
    find_wide();
    emitted_.assign(forward_calls_, 0);
  }

  ForwardBackward run() {
    choose();
    Trace backward = make_backward();
    ForwardBackward out;
    std::stable_sort(saved_.begin(), saved_.end(), [](Value a, Value b) {
      bool ta = a.type().is_tensor(), tb = b.type().is_tensor();
      return ta != tb ? ta : a.id() < b.id();
    });
    out.saved = saved_;
    out.saved_tensors =
        static_cast<size_t>(std::count_if(saved_.begin(), saved_.end(), [](Value v) { return v.type().is_tensor(); }));
    backward.inputs = saved_;
    const std::vector<Value>& inputs = joint_.trace.inputs;
    backward.inputs.insert(backward.inputs.end(), inputs.begin() + static_cast<ptrdiff_t>(joint_.primal_inputs),
                           inputs.end());
    backward.signature = {Signature::Backward, out.saved_tensors, saved_.size() - out.saved_tensors};
    out.backward = std::move(backward);
    out.forward = make_forward(out.saved_tensors);
    return out;
  }

 private:
  std::vector<const Call*> opened(const JointTrace& joint) {
    const std::vector<const Call*>& calls = joint.trace.calls;
    std::vector<const Call*> out;
    out.reserve(calls.size());
    for (size_t i = 0; i < joint.forward_calls; ++i) open_views(calls[i], out);
    forward_calls_ = out.size();
    out.insert(out.end(), calls.begin() + static_cast<ptrdiff_t>(joint.forward_calls), calls.end());
    return out;
  }
  ptrdiff_t forward_end() const { return static_cast<ptrdiff_t>(forward_calls_); }

  bool from_forward(Value v) const { return is_input_[v] || producer_[v] >= 0; }
  // Storage that lives on whether it is saved or not: the caller holds it.
  bool is_free(Value root) const { return is_input_[root] || is_output_storage_[root]; }

  bool may_recompute(const Call& call) const {
    if (effects(call)) return false;
    if (call.op->has(kComm)) return is_regathered(call);
    if (wide_.count(&call)) return false;
    if (options_.aggressive_recompute && pads_in_kernels(call)) return true;
    return options_.aggressive_recompute ? is_cheap(call) : is_cast(call);
  }

  // Padding that is no tensor in memory.
  bool pads_in_kernels(const Call& call) const {
    static const Op* pad = Registry::instance().find("prims.pad");
    return call.op == pad && !in_memory_[aliases_.root(call.output.value())];
  }

  // The gather, or the wait for it.
  bool is_regathered(const Call& call) const {
    bool any = false;
    visit_outputs(call, [&](Value v) { any |= options_.regathered[v] != 0; });
    for (const Arg& a : call.args)
      if (call.op->has(kComm) && a.is_value()) any |= options_.regathered[a.value()] != 0;
    return any;
  }

  // Calls that would ask for several buckets of gathered parameters at once, if all cheap calls before them were
  // repeated: more memory than what the call makes.
  void find_wide() {
    ValueMap<std::vector<int>> asked;  // by value, ascending
    for (size_t i = 0; i < forward_calls_ && !options_.bucket_bytes.empty(); ++i) {
      const Call& call = *calls_[i];
      if (!may_recompute(call)) continue;
      std::set<int> buckets;
      visit_all_inputs(call, [&](Value v) { buckets.insert(asked[v].begin(), asked[v].end()); });
      int64_t all = 0, largest = 0, made = 0;
      for (int b : buckets) {
        all += options_.bucket_bytes[static_cast<size_t>(b)];
        largest = std::max(largest, options_.bucket_bytes[static_cast<size_t>(b)]);
      }
      visit_outputs(call, [&](Value v) {
        made += bytes(v);
        if (options_.bucket_of[v] >= 0) buckets = {options_.bucket_of[v]};
      });
      if (all - largest > made) wide_.insert(&call);
      else visit_outputs(call, [&](Value v) { asked.set(v, {buckets.begin(), buckets.end()}); });
    }
  }

  // What the forward writes in any case: what operators make or read that do not fuse, and what several kernels would
  // otherwise compute from several operands each.
  void find_in_memory() {
    ValueMap<int> readers(0);
    for (size_t i = 0; i < forward_calls_; ++i) {
      const bool fusible = is_fusible(*calls_[i]);
      visit_all_inputs(*calls_[i], [&](Value v) {
        if (!fusible) in_memory_.set(aliases_.root(v), 1);
        readers.set(v, readers[v] + 1);
      });
      if (!fusible) visit_outputs(*calls_[i], [&](Value v) { in_memory_.set(aliases_.root(v), 1); });
    }
    for (size_t i = 0; i < forward_calls_; ++i) {
      if (!calls_[i]->output.is_value() || readers[calls_[i]->output.value()] < 2) continue;
      const int64_t size = bytes(calls_[i]->output.value());
      int operands = 0;
      visit_all_inputs(*calls_[i], [&](Value v) { operands += bytes(v) * 2 >= size; });
      if (operands > 1) in_memory_.set(aliases_.root(calls_[i]->output.value()), 1);
    }
  }

  // What the backward compares exactly is what the forward computed.  Operators that run in a kernel's place, where
  // somebody watches them, round otherwise: a maximum would be found nowhere.
  void find_compared(const Call& call) {
    static const Op *eq = Registry::instance().find("prims.eq"), *ne = Registry::instance().find("prims.ne");
    if (call.op == eq || call.op == ne) {
      int tensors = 0;
      visit_all_inputs(call, [&](Value v) { tensors += v.type().is_tensor(); });
      visit_all_inputs(call, [&](Value v) {
        if (tensors > 1 && from_forward(v)) compared_.set(aliases_.root(v), 1);
      });
    }
    for (const Call* inner : call.body) find_compared(*inner);
  }

  // Convolutions and pools in the backward take their inputs in memory, where the forward's have written them.
  // Networks of these are bound by memory: a kernel to write such an input once more costs as much as a norm does.
  void find_convolved(const Call& call) {
    static const Op* convolution = Registry::instance().find("torch.convolution_backward");
    static const Op* pool = Registry::instance().find("torch.max_pool2d_with_indices_backward");
    if (!call.op || (call.op != convolution && call.op != pool)) return;
    const Value root = aliases_.root(call.arguments().value(call.op == pool ? "self" : "input"));
    if (from_forward(root) && in_memory_[root]) convolved_.set(root, 1);
  }

  // ---- what to save -------------------------------------------------------------------------------------------------

  // A graph over storages: the views of one storage are one node, since keeping any of them keeps all its bytes.
  struct Node {
    Value root;
    int in = -1, out = -1;
    int distance = 0;  // calls between it and the backward
  };

  void choose() {
    source_ = network_.add_node();
    sink_ = network_.add_node();
    auto demand = [&](Value v) {
      if (!from_forward(v)) return;
      Value root = aliases_.root(v);
      if (!is_free(root)) demand_node(root);
    };
    for (size_t i = forward_calls_; i < calls_.size(); ++i) {
      find_compared(*calls_[i]);
      find_convolved(*calls_[i]);
      visit_all_inputs(*calls_[i], demand);
    }
    for (const Arg& g : joint_.gradients()) visit_values(g, demand);
    for (size_t i = 0; i < nodes_.size(); ++i) connect(static_cast<int>(i));
    for (const Node& n : nodes_) network_.add_edge(n.in, n.out, cost(n));
    network_.max_flow(source_, sink_);
    std::vector<char> after = network_.sink_side(sink_);
    recomputed_.assign(forward_calls_, 0);
    for (const Node& n : nodes_) {
      if (after[n.in]) recomputed_[producer_[n.root]] = 1;
      if (after[n.out] && !after[n.in]) keep_.set(n.root, 1);
    }
  }

  void demand_node(Value root) {
    int before = static_cast<int>(nodes_.size());
    int index = node_of(root, 0);
    if (index == before) network_.add_edge(nodes_[index].out, sink_, FlowNetwork::kInfinite);
  }

  int node_of(Value root, int distance) {
    auto [it, fresh] = index_.emplace(root, static_cast<int>(nodes_.size()));
    if (fresh) {
      nodes_.push_back({root, network_.add_node(), 0, distance});
      nodes_.back().out = network_.add_node();
    }
    return it->second;
  }

  // The edges into a node: from what it can be computed from, or from the source if it can only be saved.  Nodes come
  // in the order of a breadth-first walk, so the first distance is the least.
  void connect(int index) {
    const Node node = nodes_[index];
    const Call& call = *calls_[producer_[node.root]];
    const bool kept_whole = !node.root.type().is_tensor() && !node.root.type().is_future();
    // What is gathered again is the same bit by bit.
    const bool compared = compared_[node.root] && !is_regathered(call);
    if (kept_whole || compared || convolved_[node.root] || is_small_operand(node.root) || !may_recompute(call))
      return network_.add_edge(source_, node.in, FlowNetwork::kInfinite);
    visit_all_inputs(call, [&](Value v) {
      if (!from_forward(v)) return;
      Value root = aliases_.root(v);
      if (root == node.root || is_free(root)) return;
      network_.add_edge(nodes_[node_of(root, node.distance + 1)].out, node.in, FlowNetwork::kInfinite);
    });
  }

  // What products take in float8 is half of what it would be made from once more, and costs a kernel of its own.  Where
  // parameters are gathered again, what is made of them must not stay instead.
  bool is_small_operand(Value v) const {
    return v.type().is_tensor() && is_float8(v.dtype()) && options_.bucket_bytes.empty();
  }

  // Far from the backward, bytes weigh more: else long chains would be computed again to save a little.  So do those of
  // a value that would not be written but to be saved.
  int64_t cost(const Node& n) const {
    if (is_regathered(*calls_[producer_[n.root]])) return FlowNetwork::kInfinite;
    double weight = options_.aggressive_recompute ? std::pow(1.1, std::min(n.distance, 50)) : 1.0;
    if (options_.aggressive_recompute && !in_memory_[n.root]) weight *= 2;
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(bytes(n.root)) * weight));
  }

  // ---- the backward -------------------------------------------------------------------------------------------------

  Trace make_backward() {
    Trace t;
    t.name = "backward_fn";
    t.arena = joint_.trace.arena;
    t.output = joint_.trace.output.items()[1];
    out_ = &t.calls;
    for (size_t i = forward_calls_; i < calls_.size(); ++i) {
      visit_all_inputs(*calls_[i], [&](Value v) { need(v); });
      t.calls.push_back(calls_[i]);
    }
    visit_values(t.output, [&](Value v) { need(v); });
    for (Value v : options_.needed) need(v);
    if (options_.aggressive_recompute) need_sizes(t);
    return t;
  }

  // A kernel takes the sizes of what it reads and makes as arguments.
  void need_sizes(const Trace& backward) {
    const auto of_value = [&](Value v) {
      if (!v.type().is_tensor()) return;
      for (const Dims* dims : {&v.tensor().shape, &v.tensor().strides})
        for (const Dim& d : *dims)
          if (!d.is_constant())
            for (SymbolId s : d.symbols())
              if (Value number = backward.arena->symbol_value(s)) need(number);
    };
    for (const Call* c : backward.calls) {
      visit_all_inputs(*c, of_value);
      visit_outputs(*c, of_value);
    }
  }

  // Makes a value of the forward known to the backward: saved, or computed again right before its first use.
  void need(Value v) {
    if (!from_forward(v) || available_[v]) return;
    if (must_save(v)) {
      available_.set(v, 1);
      saved_.push_back(v);
      return;
    }
    size_t index = static_cast<size_t>(producer_[v]);
    const Call& call = *calls_[index];
    visit_outputs(call, [&](Value o) { available_.set(o, 1); });
    if (emitted_[index]) return;
    emitted_[index] = 1;
    visit_all_inputs(call, [&](Value u) { need(u); });
    out_->push_back(&call);
  }

  bool must_save(Value v) const {
    if (is_input_[v] || (!v.type().is_tensor() && !v.type().is_future())) return true;
    // A call that is repeated for one of its results gives the others as well.
    if (recomputed_[producer_[v]]) return false;
    const Call& call = *calls_[producer_[v]];
    if (is_regathered(call)) return false;
    Value root = aliases_.root(v);
    // A view of what the caller holds is derived again from that very tensor, so that autograd notices a write to it.
    if (is_input_[root]) return !is_pure_view(call);
    if (is_output_storage_[root]) return root == v || gives_output(call) || !is_pure_view(call);
    // Kernels read through views; else one more saved tensor costs less than deriving it again.
    return keep_[root] != 0 && (root == v || !options_.aggressive_recompute || !is_pure_view(call));
  }

  bool gives_output(const Call& call) const {
    bool any = false;
    visit_outputs(call, [&](Value v) { any |= is_output_[v] != 0; });
    return any;
  }

  // ---- the forward --------------------------------------------------------------------------------------------------

  Trace make_forward(size_t tensors) const {
    Trace t;
    t.name = "augmented_forward_fn";
    t.arena = joint_.trace.arena;
    t.inputs.assign(joint_.trace.inputs.begin(),
                    joint_.trace.inputs.begin() + static_cast<ptrdiff_t>(joint_.primal_inputs));
    t.signature = {Signature::StarArgs, 0, 0};
    ValueSet saved;
    for (Value v : saved_) saved.set(v, 1);
    t.calls = open_where_needed(joint_.forward, saved);
    const Arg& outputs = joint_.trace.output.items()[0];
    Arg first = outputs.items().size() == 1 ? outputs.items()[0] : outputs;
    ArgList saved_tensors(saved_.begin(), saved_.begin() + static_cast<ptrdiff_t>(tensors));
    ArgList saved_numbers(saved_.begin() + static_cast<ptrdiff_t>(tensors), saved_.end());
    Arg result = Arg::dict({{Arg("output"), first}, {Arg("flat_args"), Arg(t.inputs)}, {Arg("flat_output"), outputs}});
    t.output =
        Arg::tuple({result, Arg::tuple({Arg::tuple(std::move(saved_tensors)), Arg::tuple(std::move(saved_numbers))})});
    return t;
  }

  const JointTrace& joint_;
  const SplitOptions& options_;
  std::unordered_set<const Call*> wide_;
  size_t forward_calls_ = 0;
  std::vector<const Call*> calls_;  // the forward's, then the backward's
  Aliases aliases_;
  ValueMap<int> producer_;  // index of the forward call; -1 for anything else
  ValueSet is_input_, is_output_, is_output_storage_;

  FlowNetwork network_;
  int source_ = 0, sink_ = 0;
  std::vector<Node> nodes_;
  std::unordered_map<Value, int, ValueHash> index_;
  ValueSet in_memory_;            // storages that the forward makes in any case
  ValueSet compared_;             // storages that the backward compares exactly
  ValueSet convolved_;            // storages that convolutions and pools in the backward take
  ValueSet keep_;                 // storages to save
  std::vector<char> recomputed_;  // per forward call

  ValueSet available_;
  std::vector<char> emitted_;
  std::vector<Value> saved_;
  std::vector<const Call*>* out_ = nullptr;
};

}  // namespace

ForwardBackward split(const JointTrace& joint, const SplitOptions& options) { return Splitter(joint, options).run(); }

}  // namespace thunder
