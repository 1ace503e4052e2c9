#include "runtime/autograd.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "passes/reach.h"
#include "runtime/accumulate.h"
#include "runtime/backward_calls.h"
#include "runtime/calling_threads.h"
#include "runtime/distributed/kept_gathers.h"
#include "runtime/distributed/watch.h"
#include "runtime/node_hooks.h"
#include "runtime/saved_memory.h"
#include "runtime/watchers.h"

namespace thunder {
namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
// A shared_ptr until PyTorch 2.12, an intrusive_ptr after.
using NodePtr = decltype(Edge::function);

template <class N, class... A>
auto make_node(A&&... args) {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<Node>>) {
    // deleteNode, found by its argument's namespace, takes deep graphs apart without recursion.
    return std::shared_ptr<N>(new N(std::forward<A>(args)...), [](N* p) { deleteNode(p); });
  } else {
    return c10::make_intrusive<N>(std::forward<A>(args)...);
  }
}

template <class N>
NodePtr pointer_to(N* node) {
  return node->getptr();
}

// What stands behind gradients computed with create_graph=True by a compiled backward: the values are right,
// differentiating them is an error.
struct NoDoubleBackward final : Node {
  NoDoubleBackward(std::string name, std::string why) : name_(std::move(name)), why_(std::move(why)) {}
  std::string name() const override { return "ThunderNoDoubleBackward(" + name_ + ")"; }
  variable_list apply(variable_list&&) override {
    throw Error(ErrorKind::Runtime,
                cat("[", name_,
                    "] double backward is not supported by this compiled function: it cannot be run again for "
                    "autograd (",
                    why_, "). Call the original function where you need second derivatives"));
  }
  std::string name_, why_;
};

// The same values without gaps, with the dimensions in this order in memory, the outermost first.
at::Tensor dense_in(const at::Tensor& g, const std::vector<int64_t>& order) {
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return g.permute(order).contiguous().permute(back);
}

// The dimensions in memory, the outermost first.
std::vector<int64_t> order_of(const std::vector<int64_t>& strides) {
  std::vector<int64_t> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)];
  });
  return order;
}

// The cotangent as the backward program was compiled for it: PyTorch may hand over any layout (an expanded scalar,
// say).
at::Tensor as_expected(at::Tensor g, const Programs::Layout& layout) {
  if (layout.sparse) return g;
  if (g.layout() != at::kStrided) g = g.to_dense();
  if (g.is_conj()) g = g.resolve_conj();
  if (g.is_neg()) g = g.resolve_neg();
  if (!layout.known) return layout.order.empty() ? g : dense_in(g, layout.order);
  if (g.strides() == at::IntArrayRef(layout.strides)) return g;
  if (!is_plain(g)) return dense_in(g, order_of(layout.strides));  // a wrapper is not written to
  return at::empty_strided(layout.sizes, layout.strides, g.options()).copy_(g);
}

// Zeros for outputs without a gradient whose cotangent may not be missing, one tensor for all that are alike.
class Zeros {
 public:
  Zeros(const torch::autograd::Node& node, const Programs& programs) : node_(node), programs_(programs) {}

  template <class F>
  at::Tensor get(size_t output, F&& make) {
    const torch::autograd::InputMetadata& of = node_.input_metadata(output);
    const Programs::Layout& layout = programs_.cotangents[output];
    if (!layout.known || of.is_tensor_subclass() || of.is_cpp_nested_tensor()) return make();
    for (const Made& m : made_)
      if (m.sizes == layout.sizes && m.zeros.strides() == at::IntArrayRef(layout.strides) &&
          m.zeros.dtype() == of.options().dtype() && m.zeros.device() == of.device())
        return m.zeros;
    return made_.emplace_back(Made{layout.sizes, make()}).zeros;
  }

 private:
  struct Made {
    std::vector<int64_t> sizes;
    at::Tensor zeros;
  };
  const torch::autograd::Node& node_;
  const Programs& programs_;
  std::vector<Made> made_;
};

// Tells the other processes where a program raises, which leaves collectives undone.
template <class F>
auto communicating(const Programs& e, F&& run) {
  if (e.placements.empty()) return run();
  try {
    return run();
  } catch (const c10::Error& error) {
    distributed::post_failure_everywhere(error.what_without_backtrace());
    throw;
  } catch (const std::exception& error) {
    distributed::post_failure_everywhere(error.what());
    throw;
  }
}

struct ThunderBackward final : Node {
  explicit ThunderBackward(std::shared_ptr<const Programs> p) : programs(std::move(p)) {}

  std::string name() const override { return "ThunderBackward(" + programs->name + ")"; }

  void release_variables() override {
    std::shared_ptr<void> notes;  // Python's lock, which its end takes, is taken without ours
    std::lock_guard<std::mutex> lock(mutex);
    for (SavedVariable& s : saved) s.reset_data();
    numbers.clear();
    notes.swap(calls.notes);
    graph.reset();
    released = true;
  }

  // A node that saved nothing may run again, as PyTorch's own may.  With the mutex.
  void check_runs_once() const {
    TORCH_CHECK(!released || (saved.empty() && programs->num_saved_numbers == 0), torch::autograd::ERR_BACKWARD_TWICE);
  }

  // The engine says so right before a run after which nobody needs what is saved.
  void will_release_variables() override { run_by_engine = true; }

  // Saved tensors and numbers, the first inputs of the backward program, and the lease on those that a recording holds.
  // Without a graph to keep, nothing else holds the saved tensors afterwards, and the program frees each after its last
  // use.  Outside of BelowAutograd: hooks of the user may run.
  std::vector<c10::IValue> unpack_saved(std::shared_ptr<GraphLease>& lease) {
    std::lock_guard<std::mutex> lock(mutex);
    check_runs_once();
    std::vector<c10::IValue> inputs;
    inputs.reserve(saved.size() + numbers.size() + programs->cotangents.size());
    for (SavedVariable& s : saved) inputs.emplace_back(s.unpack(pointer_to(this)));
    inputs.insert(inputs.end(), numbers.begin(), numbers.end());
    lease = graph;
    if (!torch::autograd::get_current_graph_task_keep_graph()) {
      for (SavedVariable& s : saved) s.reset_data();
      graph.reset();
      released = true;
    }
    return inputs;
  }

  // The gradients; None for those that were added to the leaves' own.  Below autograd.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, variable_list grads, const GraphLease* lease,
                               bool accumulate) const {
    const bool last = !torch::autograd::get_current_graph_task_keep_graph();
    // A sum is rounded otherwise where a product is added to it, so that happens whether or not there is a graph.
    const bool adds = accumulate && LeafAccumulation::any(*this, programs->backward->accumulable());
    if (lease && !adds) {
      for (at::Tensor& g : grads)
        if (g.defined() && g.layout() != at::kStrided) g = g.to_dense();
      const bool plain =
          std::all_of(grads.begin(), grads.end(), [](const at::Tensor& g) { return !g.defined() || is_plain(g); });
      if (plain)
        if (auto results = programs->graphs->backward(*programs, *lease, inputs, grads, last))
          return *std::move(results);
    }
    if (lease) lease->graph().add_kept(inputs);
    add_cotangents(inputs, grads);
    grads.clear();
    std::optional<LeafAccumulation> accumulation;
    if (adds) accumulation.emplace(*this, inputs, *programs->accumulated);
    GraphRun timed;
    if (graph_specialization && !adds)
      timed = programs->graphs->start_backward(*programs, graph_specialization, inputs);
    const RunsBackward now(last);
    inputs = programs->backward->run(std::move(inputs), accumulation ? &*accumulation : nullptr);
    if (programs->graphs) programs->graphs->backward_has_run(timed, inputs);
    return inputs;
  }

  void add_cotangents(std::vector<c10::IValue>& inputs, variable_list& grads) const {
    Zeros zeros(*this, *programs);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!programs->backward->reads_input(inputs.size())) {
        inputs.emplace_back();
        continue;
      }
      const Programs::Layout& layout = programs->cotangents[i];
      if (grads[i].defined()) inputs.emplace_back(as_expected(std::move(grads[i]), layout));
      else if (may_be_missing(i)) inputs.emplace_back(at::Tensor());
      else inputs.emplace_back(zeros.get(i, [&] { return as_expected(input_metadata(i).zeros_like(), layout); }));
    }
  }

  // Zeros of a tensor's class are of that class.
  bool may_be_missing(size_t i) const {
    const torch::autograd::InputMetadata& of = input_metadata(i);
    return programs->optional_cotangents[i] && !of.is_tensor_subclass() && !of.is_cpp_nested_tensor();
  }

  // The bits of the outputs that have a gradient (passes/reach.h), all where each has one.
  static uint64_t used_outputs(const variable_list& grads) {
    uint64_t bits = 0;
    bool all = true;
    for (size_t k = 0; k < grads.size(); ++k) {
      if (grads[k].defined()) bits |= reach_bit(k);
      else all = false;
    }
    return all ? ~uint64_t{0} : bits;
  }

  std::string why_no_rerun() const {
    return call_inputs ? programs->rerun->problem(*call_inputs) : "parameters are distributed, or layers in float8";
  }

  // Gradients with a history, see rerun.h.
  variable_list gradients_by_rerun(const variable_list& grads) {
    run_by_engine = false;
    {
      std::lock_guard<std::mutex> lock(mutex);
      check_runs_once();
    }
    std::vector<char> wanted(num_outputs());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = next_edge(i).is_valid();
    variable_list out = programs->rerun->gradients(*call_inputs, grads, wanted);
    if (!torch::autograd::get_current_graph_task_keep_graph()) release_variables();
    return out;
  }

  variable_list apply(variable_list&& grads) override {
    std::optional<CallerRuns> runs;
    if (programs->forward->uses_gpu() || (programs->graphs && programs->graphs->on_host())) runs.emplace(caller);
    bool create_graph = c10::GradMode::is_enabled();
    THUNDER_CHECK(!would_lose_derivatives(grads), NotImplemented, programs->name,
                  "forward-mode AD and transforms of torch.func cannot differentiate the backward of a compiled "
                  "function that was called outside of them. Call the original function there");
    const std::string no_rerun = create_graph ? why_no_rerun() : std::string();
    if (create_graph && no_rerun.empty()) return gradients_by_rerun(grads);
    const uint64_t used = used_outputs(grads);
    const bool all_used = used == ~uint64_t{0};
    // A CUDA graph may leave all gradients in its own memory: programs that run as such graphs do the same.
    const bool accumulate = run_by_engine.exchange(false) && all_used && programs->accumulated &&
                            (!programs->graphs || programs->graphs->copies_gradients()) &&
                            !programs->backward->accumulable().empty() && LeafAccumulation::allowed_now(*this);
    torch::autograd::edge_list edges;
    if (create_graph) {
      edges = torch::autograd::collect_next_edges(grads);
      edges.insert(edges.end(), next_edges().begin(), next_edges().end());
    }
    std::shared_ptr<GraphLease> lease;
    std::vector<c10::IValue> results = unpack_saved(lease);
    {
      BelowAutograd guard;
      const RunningBackward running(*this, calls, used);
      results =
          communicating(*programs, [&] { return run(std::move(results), std::move(grads), lease.get(), accumulate); });
    }
    if (programs->differentiated) *programs->differentiated = true;
    variable_list out(num_outputs());
    if (!all_used) drop_unused(results, used);
    for (const auto& p : programs->placements)
      if (p && p->plan) {
        ++p->plan->backwards;
        break;
      }
    for (size_t i = 0; i < out.size(); ++i) {
      if (!next_edge(i).is_valid() || !results[i].isTensor()) continue;
      out[i] = without_history(std::move(results[i]).toTensor());
      if (const distributed::Placement* p = programs->placement(i)) out[i] = p->gradient(std::move(out[i]));
    }
    if (!create_graph) return out;
    variable_list made = kept_gradients(calls);
    made.insert(made.end(), out.begin(), out.end());
    forbid_double_backward(made, std::move(edges), no_rerun);
    return out;
  }

  // Gradients of what no used output depends on.  PyTorch calls hooks with None for a gradient that is not there, where
  // eager, whose graph does not lead there, does not call them: they get zeros.
  void drop_unused(std::vector<c10::IValue>& gradients, uint64_t used) const {
    HookSearch hooks;
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].isTensor() && (programs->reaches[i] & used) == 0 &&
          !hooks.found_from(next_edge(i).function.get()))
        gradients[i] = {};
  }

  // A gradient that is a saved tensor or a cotangent as it came must not take that one's history along.
  static at::Tensor without_history(at::Tensor g) { return g.requires_grad() ? g.detach() : g; }

  void forbid_double_backward(variable_list& gradients, torch::autograd::edge_list edges,
                              const std::string& why) const {
    auto node = make_node<NoDoubleBackward>(programs->name, why);
    node->set_next_edges(std::move(edges));
    for (at::Tensor& g : gradients) {
      if (g.defined()) torch::autograd::set_history(g, node);
    }
  }

  std::shared_ptr<const Programs> programs;
  std::vector<SavedVariable> saved;
  std::vector<c10::IValue> numbers;
  BackwardCalls calls;
  std::optional<CallInputs> call_inputs;                      // where the entry has a rerun
  std::shared_ptr<CallingThread> caller;                      // of the forward, on whose behalf the backward runs
  std::shared_ptr<GraphLease> graph;                          // what a recording of the forward saved
  std::shared_ptr<GraphSpecialization> graph_specialization;  // where backwards are to be timed
  std::mutex mutex;
  bool released = false;
  std::atomic<bool> run_by_engine{false};  // from its announcement to the run itself
};

// ---- forward --------------------------------------------------------------------------------------------------------

// A new tensor on the same data: history set on it does not touch the other.
at::Tensor alias_of(const at::Tensor& t) {
  BelowAutograd guard;
  return t.layout() == at::kStrided ? t.view(t.sizes()) : t.detach();
}

using Values = std::vector<c10::IValue>;

// What must be known of the inputs after the forward has dropped them.
class InputRecord {
 public:
  void add(const c10::IValue& v) {
    const at::Tensor* t = defined_tensor(v);
    if (!t) return;
    tensors_.push_back(t->unsafeGetTensorImpl());
    add_counter(*t);
  }
  void add_outputs(const Values& leaves, size_t n) {
    for (size_t i = 0; i < n; ++i)
      if (const at::Tensor* t = defined_tensor(leaves[i])) add_counter(*t);
    std::sort(counters_.begin(), counters_.end(),
              [](const Counter& a, const Counter& b) { return a.storage < b.storage; });
  }
  bool is_input(const at::Tensor& t) const {
    return std::find(tensors_.begin(), tensors_.end(), t.unsafeGetTensorImpl()) != tensors_.end();
  }
  // Gives a saved view of an input or output the version counter of that: operators below autograd give every result a
  // counter of its own, and a write to a parameter must be seen through its saved transpose.
  void share_counter(const at::Tensor& saved) const {
    if (!saved.has_storage() || saved.is_inference()) return;
    const void* storage = saved.storage().unsafeGetStorageImpl();
    auto it = std::lower_bound(counters_.begin(), counters_.end(), storage,
                               [](const Counter& c, const void* s) { return c.storage < s; });
    if (it != counters_.end() && it->storage == storage) torch::autograd::impl::set_version_counter(saved, it->version);
  }

 private:
  struct Counter {
    const void* storage;
    c10::VariableVersion version;
  };
  void add_counter(const at::Tensor& t) {
    if (t.has_storage() && !t.is_inference())
      counters_.push_back({t.storage().unsafeGetStorageImpl(), torch::autograd::impl::version_counter(t)});
  }
  std::vector<const c10::TensorImpl*> tensors_;
  std::vector<Counter> counters_;
};

// Whether an input must outlive the forward program.
bool keep_input(const Programs& e, size_t i, bool grad) {
  return (e.epilogue && e.epilogue->reads_input(i)) || (grad && e.input_is_saved[i]);
}

// What a call with gradients gathers before the forward runs and turns into a node afterwards.
class PendingNode {
 public:
  PendingNode(const std::shared_ptr<const Programs>& programs, const Values& inputs)
      : programs_(programs), edges_(inputs.size()) {
    if (programs->rerun) call_inputs_.emplace();
    for (size_t i = 0; i < inputs.size(); ++i) {
      record_.add(inputs[i]);
      if (call_inputs_) call_inputs_->add(inputs[i]);
      const at::Tensor* t = programs->has_gradient[i] ? defined_tensor(inputs[i]) : nullptr;
      if (const distributed::Placement* p = programs->placement(i); p && t) t = &p->current();
      if (!t || !t->requires_grad()) continue;
      edges_[i] = torch::autograd::impl::gradient_edge(*t);
      any_ = true;
    }
  }

  // `run.lease`: on the recording that ran, on `kept`, which then are all inputs; else null.
  void finish(const Values& kept, Values& leaves, GraphRun run) {
    if (!any_) return;
    separate_outputs(leaves);
    auto node = make_node<ThunderBackward>(programs_);
    node->set_next_edges(std::move(edges_));
    for (size_t i : programs_->differentiable_outputs) {
      if (defined_tensor(leaves[i])) torch::autograd::set_history(leaves[i].toTensor(), node);
      else node->add_input_metadata(Node::undefined_input());
    }
    for (int64_t i : programs_->retained) retain(*node, leaves, i);
    node->graph_specialization = std::move(run.spec);
    node->caller = this_calling_thread();
    node->call_inputs = std::move(call_inputs_);
    if (run.lease) save_graph(*node, kept, leaves, std::move(run.lease));
    else save(*node, kept, leaves);
  }

 private:
  static void retain(ThunderBackward& node, const Values& leaves, int64_t output) {
    if (output >= 0) retain_gradient(node, node.calls, leaves[static_cast<size_t>(output)].toTensor());
    else node.calls.retained.emplace_back(std::nullopt);
  }

  // The outputs must be tensors of their own before history is set on them.
  void separate_outputs(Values& leaves) const {
    for (size_t i : programs_->differentiable_outputs) {
      const at::Tensor* t = defined_tensor(leaves[i]);
      if (!t) continue;
      bool shared = t->requires_grad() || record_.is_input(*t);
      for (size_t j = 0; j < programs_->num_outputs && !shared; ++j) {
        const at::Tensor* other = j == i ? nullptr : defined_tensor(leaves[j]);
        shared = other && other->is_same(*t);
      }
      if (shared) leaves[i] = alias_of(*t);
    }
  }

  void save(ThunderBackward& node, const Values& kept, Values& leaves) {
    const Programs& e = *programs_;
    record_.add_outputs(leaves, e.num_outputs);
    node.saved.reserve(e.num_saved_tensors);
    for (size_t i = 0; i < e.num_saved_tensors; ++i) {
      c10::IValue& leaf = leaves[e.num_outputs + i];
      if (e.saved_is_input[i] >= 0) save_input(node, kept[static_cast<size_t>(e.saved_is_input[i])].toTensor(), kept);
      else if (e.saved_is_output[i] >= 0)
        node.saved.emplace_back(leaves[static_cast<size_t>(e.saved_is_output[i])].toTensor(), true);
      else if (defined_tensor(leaf)) save_intermediate(node, std::move(leaf).toTensor(), kept);
      else node.saved.emplace_back();
    }
    for (size_t i = 0; i < e.num_saved_numbers; ++i)
      node.numbers.push_back(std::move(leaves[e.num_outputs + e.num_saved_tensors + i]));
  }

  // What the recording keeps needs no SavedVariable, except one that sees whether the tensor below it was written to.
  void save_graph(ThunderBackward& node, const Values& inputs, const Values& outputs,
                  std::shared_ptr<GraphLease> graph) const {
    for (const ForwardGraph::Saved& s : graph->graph().saved) {
      if (s.from == ForwardGraph::Saved::From::Copied) {
        BelowAutograd guard;
        node.saved.emplace_back(s.tensor.clone(), false);
      } else if (s.input >= 0) {
        node.saved.emplace_back(inputs[static_cast<size_t>(s.input)].toTensor(), false);
      } else if (s.output >= 0) {
        const at::Tensor& t = outputs[static_cast<size_t>(s.output)].toTensor();
        node.saved.emplace_back(t, t.requires_grad() && t.grad_fn().get() == &node);
      } else {
        node.saved.emplace_back();
      }
    }
    const auto numbers = outputs.begin() + static_cast<ptrdiff_t>(programs_->num_outputs);
    node.numbers.assign(numbers, outputs.end());
    node.graph = std::move(graph);
  }

  // The backward needs what the input held before the epilogue writes into it, as eager's in-place operators keep a
  // copy.
  bool save_copy(ThunderBackward& node, const at::Tensor& t, const Values& kept) const {
    for (size_t i : programs_->written_inputs) {
      const at::Tensor* written = defined_tensor(kept[i]);
      if (!written || !written->has_storage() || !t.has_storage() || !written->is_alias_of(t)) continue;
      BelowAutograd guard;
      node.saved.emplace_back(t.clone(), false);
      return true;
    }
    return false;
  }

  void save_input(ThunderBackward& node, const at::Tensor& t, const Values& kept) const {
    if (!save_copy(node, t, kept)) node.saved.emplace_back(t, false);
  }

  void save_intermediate(ThunderBackward& node, const at::Tensor& t, const Values& kept) const {
    if (save_copy(node, t, kept)) return;
    record_.share_counter(t);
    // An operator may return its argument, and so an intermediate may be an output: saved as such, it makes no
    // reference cycle.
    bool is_output = t.requires_grad() && t.grad_fn().get() == &node;
    node.saved.emplace_back(t, is_output);
  }

  std::shared_ptr<const Programs> programs_;
  torch::autograd::edge_list edges_;
  std::optional<CallInputs> call_inputs_;
  InputRecord record_;
  bool any_ = false;
};

}  // namespace

std::vector<c10::IValue> execute(const std::shared_ptr<const Programs>& programs, std::vector<c10::IValue> inputs,
                                 bool* computing) {
  const Programs& e = *programs;
  THUNDER_ASSERT(inputs.size() == e.num_inputs(), "'", e.name, "' takes ", e.num_inputs(), " inputs, got ",
                 inputs.size());
  std::optional<CallerRuns> runs;
  if (e.forward->uses_gpu() || (e.graphs && e.graphs->on_host())) runs.emplace(this_calling_thread());
  std::optional<c10::AutoGradMode> mode;
  if (e.enables_grad) mode.emplace(true);
  bool grad = e.backward && c10::GradMode::is_enabled();
  Values kept;
  if (grad || e.epilogue) {
    kept.resize(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (keep_input(e, i, grad)) kept[i] = inputs[i];
  }
  std::optional<PendingNode> recording;
  if (grad) recording.emplace(programs, inputs);
  Values leaves;
  GraphRun run;
  {
    BelowAutograd guard;
    if (computing) *computing = true;
    if (e.graphs && grad == (e.backward != nullptr)) run = e.graphs->forward(e, inputs, leaves);
    if (!run.lease) {
      if (!e.placements.empty()) distributed::check_kept_gathers(e.placements);
      leaves = communicating(e, [&] { return e.forward->run(std::move(inputs)); });
      if (run.timer) e.graphs->forward_has_run(run, leaves, e.num_outputs);
    }
    if (computing) *computing = false;
  }
  const bool wrote = run.lease && run.lease->graph().recording->writes();
  if (recording) recording->finish(run.lease ? inputs : kept, leaves, std::move(run));
  leaves.resize(e.num_outputs);
  if (!e.epilogue) return leaves;
  if (e.plain && (wrote || e.plain->may_write(kept))) return e.plain->finish(std::move(kept), std::move(leaves), wrote);
  kept.insert(kept.end(), std::make_move_iterator(leaves.begin()), std::make_move_iterator(leaves.end()));
  return e.epilogue->run(std::move(kept));
}

}  // namespace thunder
