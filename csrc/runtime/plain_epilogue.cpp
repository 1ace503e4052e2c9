#include "runtime/plain_epilogue.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "runtime/graph_recording.h"

namespace thunder {
namespace {

// The name of the operator that the call stands for.
const std::string& meaning(const Call& call) {
  return call.op->implements ? call.op->implements->full_name : call.op->full_name;
}

void visit_leaves(const Arg& a, const std::function<void(const Arg&)>& visit) {
  if (!a.is_sequence()) return visit(a);
  for (const Arg& item : a.items()) visit_leaves(item, visit);
}

bool is_counted_copy(const Call& call) {
  if (meaning(call) == "prims.copy_") return true;
  return meaning(call) == "prims.copy_data_" && (call.args.size() < 3 || call.args[2].boolean());
}

bool has_same_elements(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || !(a.device == b.device) || a.shape.size() != b.shape.size() || !a.strided() || !b.strided())
    return false;
  for (size_t i = 0; i < a.shape.size(); ++i)
    if (!a.shape[i].same(b.shape[i])) return false;
  return true;
}

}  // namespace

std::optional<PlainEpilogue> PlainEpilogue::find(const Trace& epilogue, const Compiled& c) {
  if (c.has_backward) return find(epilogue, c.forward.inputs, c.flat_outputs);
  std::vector<Value> outputs;
  visit_leaves(c.forward.output, [&](const Arg& a) { outputs.push_back(a.is_value() ? a.value() : Value()); });
  return find(epilogue, c.forward.inputs, outputs);
}

std::optional<PlainEpilogue> PlainEpilogue::find(const Trace& epilogue, const std::vector<Value>& given,
                                                 const std::vector<Value>& computed) {
  PlainEpilogue out;
  const size_t inputs = given.size();
  std::unordered_map<Value, size_t, ValueHash> place;
  for (size_t i = 0; i < inputs + computed.size(); ++i) place.emplace(epilogue.inputs[i], i);
  for (const Call* c : epilogue.calls) {
    if (c->op->name == "prims.python_del") continue;
    if (!is_counted_copy(*c) || !c->args[0].is_value() || !c->args[1].is_value() || !c->output.is_value()) return {};
    Value to = c->args[0].value(), from = c->args[1].value();
    auto t = place.find(to), f = place.find(from);
    if (t == place.end() || f == place.end() || t->second >= inputs || f->second < inputs) return {};
    // An input that is returned as it came may be written to before it is read.
    if (std::find(given.begin(), given.end(), computed[f->second - inputs]) != given.end()) return {};
    if (to.requires_grad() || from.requires_grad() || !has_same_elements(to.tensor(), from.tensor())) return {};
    for (const auto& [output, input] : out.writes)
      if (input == t->second) return {};
    out.writes.emplace_back(f->second - inputs, t->second);
    place.emplace(c->output.value(), t->second);
  }
  bool all = true;
  visit_leaves(epilogue.output, [&](const Arg& a) {
    auto it = a.is_value() ? place.find(a.value()) : place.end();
    all = all && it != place.end();
    if (all) out.leaves.push_back(it->second);
  });
  if (!all || out.writes.empty()) return {};
  return out;
}

bool PlainEpilogue::may_write(const Values& inputs) const {
  return c10::InferenceMode::is_enabled() || std::none_of(writes.begin(), writes.end(), [&](const auto& w) {
           return inputs[w.second].toTensor().is_inference();
         });
}

PlainEpilogue::Values PlainEpilogue::finish(Values inputs, Values outputs, bool written) const {
  if (!written) {
    const BelowAutograd guard;
    write_results(inputs, outputs, writes);
  }
  for (const auto& [output, input] : writes)
    if (const at::Tensor& t = inputs[input].toTensor(); !t.is_inference()) torch::autograd::impl::bump_version(t);
  Values out;
  for (size_t place : leaves) out.push_back(place < inputs.size() ? inputs[place] : outputs[place - inputs.size()]);
  return out;
}

bool PlainEpilogue::gives(size_t output, size_t inputs) const {
  return std::find(leaves.begin(), leaves.end(), inputs + output) != leaves.end();
}

}  // namespace thunder
