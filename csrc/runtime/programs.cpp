// The programs of a compilation, and what autograd has to know of them.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>

#include <numeric>
#include <unordered_map>

#include "core/error.h"
#include "runtime/autograd.h"

namespace thunder {

at::Tensor Programs::Layout::memory_for(const at::Tensor& output) const {
  if (known) return at::empty_strided(sizes, strides, output.options());
  std::vector<int64_t> dense = output.strides().vec();
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    dense[d] = stride;
    stride *= output.size(order[i]);
  }
  return at::empty_strided(output.sizes(), dense, output.options());
}

namespace {

// The dimensions from the outermost in memory on, of a type without gaps whatever its sizes are; nothing for others.
std::vector<int64_t> memory_order(const TensorType& t) {
  std::vector<int64_t> order;
  std::vector<bool> placed(t.shape.size());
  Dim stride = 1;
  for (size_t n = 0; n < t.shape.size(); ++n) {
    // From the innermost on; of those that fit the last one.
    size_t d = t.shape.size();
    while (d-- > 0)
      if (!placed[d] && (t.strides[d].same(stride) || t.shape[d].same(1))) break;
    if (d >= t.shape.size()) return {};
    placed[d] = true;
    order.insert(order.begin(), static_cast<int64_t>(d));
    stride = stride * t.shape[d];
  }
  return order;
}

Programs::Layout layout_of_cotangent(const Type& type) {
  Programs::Layout out;
  if (!type.is_tensor()) return out;
  const TensorType& t = type.tensor();
  out.sparse = !t.strided();
  if (out.sparse) return out;
  out.known = true;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    if (!t.shape[i].is_constant() || !t.strides[i].is_constant()) {
      out.known = false;
      out.order = memory_order(t);
      return out;
    }
    out.sizes.push_back(t.shape[i].constant());
    out.strides.push_back(t.strides[i].constant());
  }
  return out;
}

int64_t index_of(const std::vector<Value>& values, Value v) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] && values[i] == v) return static_cast<int64_t>(i);
  return -1;
}

void flatten_leaves(const Arg& a, ArgList& out) {
  if (!a.is_sequence()) return out.push_back(a);
  for (const Arg& item : a.items()) flatten_leaves(item, out);
}

void add_backward(Programs& programs, const Compiled& c) {
  programs.num_saved_tensors = c.saved_tensors;
  programs.num_saved_numbers = c.saved.size() - c.saved_tensors;
  programs.backward = Program::build(c.backward);
  programs.differentiable_outputs = c.differentiable_outputs;
  programs.optional_cotangents = c.optional_cotangents;
  programs.reaches = c.reaches;
  if (c.primal) programs.rerun = std::make_shared<Rerun>(*c.primal, c.differentiable_outputs);
  size_t num_saved = c.saved.size();
  THUNDER_ASSERT(c.backward.inputs.size() == num_saved + c.differentiable_outputs.size(), "the backward takes ",
                 c.backward.inputs.size(), " inputs, the forward saves ", num_saved, " and has ",
                 c.differentiable_outputs.size(), " differentiable outputs");
  for (size_t i = num_saved; i < c.backward.inputs.size(); ++i)
    programs.cotangents.push_back(layout_of_cotangent(c.backward.inputs[i].type()));
  ArgList gradients;
  flatten_leaves(c.backward.output, gradients);
  THUNDER_ASSERT(gradients.size() == c.forward.inputs.size(), "the backward gives ", gradients.size(),
                 " gradients for ", c.forward.inputs.size(), " inputs");
  for (const Arg& g : gradients) programs.has_gradient.push_back(!g.is_none());
  programs.input_is_saved.resize(c.forward.inputs.size());
  for (size_t i = 0; i < c.saved_tensors; ++i) {
    programs.saved_is_input.push_back(index_of(c.forward.inputs, c.saved[i]));
    programs.saved_is_output.push_back(index_of(c.flat_outputs, c.saved[i]));
    if (int64_t in = programs.saved_is_input.back(); in >= 0) programs.input_is_saved[static_cast<size_t>(in)] = 1;
  }
}

// Inputs of the forward that the epilogue copies into, itself or through detach().
std::vector<size_t> find_written_inputs(const Trace& epilogue, size_t num_inputs) {
  std::unordered_map<Value, size_t, ValueHash> input;
  for (size_t i = 0; i < num_inputs; ++i) input.emplace(epilogue.inputs[i], i);
  std::vector<size_t> out;
  for (const Call* c : epilogue.calls) {
    if (c->args.empty() || !c->args[0].is_value() || !c->output.is_value()) continue;
    auto it = input.find(c->args[0].value());
    if (it == input.end()) continue;
    if (c->op->has(kWrite)) out.push_back(it->second);
    else if (c->op->has(kIdentity)) input.emplace(c->output.value(), it->second);
  }
  return out;
}

}  // namespace

void use_graphs(Programs& programs, std::shared_ptr<GraphSettings> settings, const Compiled& compiled,
                std::vector<char> by_address) {
  programs.graphs = std::make_shared<EntryGraphs>(std::move(settings), programs, compiled, std::move(by_address));
}

void place(Programs& programs, std::vector<std::shared_ptr<const distributed::Placement>> placements) {
  for (size_t i = 0; programs.backward && i < placements.size(); ++i)
    if (placements[i] && placements[i]->plan && placements[i]->planned().trainable) programs.has_gradient[i] = 1;
  programs.placements = std::move(placements);
}

std::shared_ptr<Programs> make_programs(const Compiled& c, const Trace* epilogue) {
  auto programs = std::make_shared<Programs>();
  programs->name = c.forward.name;
  if (c.has_backward) {
    // The printed forward also returns its inputs ('flat_args'), which would keep them alive: the program does not.
    Trace forward = c.forward;
    ArgList leaves;
    for (Value v : c.flat_outputs) leaves.push_back(v ? Arg(v) : Arg());
    programs->num_outputs = leaves.size();
    for (Value v : c.saved) leaves.emplace_back(v);
    forward.output = Arg::tuple(std::move(leaves));
    programs->forward = Program::build(forward);
    add_backward(*programs, c);
  } else {
    programs->forward = Program::build(c.forward);
    programs->num_outputs = programs->forward->num_outputs();
  }
  if (epilogue) {
    programs->epilogue = Program::build(*epilogue);
    programs->written_inputs = find_written_inputs(*epilogue, programs->forward->num_inputs());
    programs->plain = PlainEpilogue::find(*epilogue, c);
    THUNDER_ASSERT(programs->epilogue->num_inputs() == programs->forward->num_inputs() + programs->num_outputs,
                   "the epilogue takes ", programs->epilogue->num_inputs(), " inputs, the forward has ",
                   programs->forward->num_inputs(), " and ", programs->num_outputs, " outputs");
  }
  return programs;
}

}  // namespace thunder
