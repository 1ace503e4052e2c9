#include "passes/conversions.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "passes/passes.h"
#include "passes/visit.h"

namespace thunder {
namespace {

// The primitive that a call is, or that a composite such as Tensor.to() consists of; null for others.
const Call* conversion_in(const Call& call) {
  if (meant_by(call).full_name == "prims.convert_element_type") return call.args[0].is_tensor() ? &call : nullptr;
  const bool one = call.body.size() == 1 && call.output.is_value() && call.body[0]->output.is_value();
  return one && call.body[0]->output.value() == call.output.value() ? conversion_in(*call.body[0]) : nullptr;
}

// Whether the executor that runs `call` takes the other one, too.
bool takes(const ExecutorList& executors, const Call& call, const Call& other) {
  return std::any_of(executors.begin(), executors.end(),
                     [&](const auto& e) { return e->name() == call.op->executor && e->find(other); });
}

ValueMap<int> count_readers(const Trace& trace) {
  ValueMap<int> readers(0);
  const auto read = [&](Value v) { readers.set(v, readers[v] + 1); };
  for (const Call* c : trace.calls) visit_all_inputs(*c, read);
  visit_values(trace.output, read);
  return readers;
}

// ---- products -------------------------------------------------------------------------------------------------------

// A product of two matrices, which an executor can be asked to give in another dtype.
bool is_product(const Call& call) {
  const std::string& name = meant_by(call).full_name;
  return (name == "prims.matmul" || name == "torch.matmul" || name == "torch.mm") && call.output.is_value() &&
         call.args[0].value().tensor().shape.size() == 2 && call.args[1].value().tensor().shape.size() == 2 &&
         call.symbols.empty();
}

const Call* product_as(const Call& product, const Call& conversion, const Trace& trace) {
  Arena& arena = *trace.arena;
  return arena.make_call(Call{.op = &Registry::instance().get("prims.matmul_as"),
                              .args = {product.args[0], product.args[1], conversion.args[1]},
                              .output = conversion.output,
                              .body = {unclaimed(product, arena), unclaimed(conversion, arena)},
                              .location = product.location,
                              .symbols = {}});
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

using ConversionKey =
    std::tuple<DType, DType, int, std::string>;  // what is converted to what, on which device, and by whom

struct EqualConversions {
  size_t place = 0;
  int64_t bytes = 0;
  std::vector<const Call*> conversions;
  const Call* claimed = nullptr;  // one of them as the trace has it
};

// The results' bytes are known, and elements lie alike on both sides.
bool can_join(const Call& call, const JoinLimits& limits) {
  const TensorType &from = call.args[0].value().tensor(), &to = call.output.value().tensor();
  const Dim n = to.numel();
  return to.device.type == limits.device && n.is_constant() && is_contiguous(from) && is_contiguous(to) &&
         call.symbols.empty() && n.constant() * itemsize(to.dtype) <= limits.result;
}

std::vector<EqualConversions> groups_of(const Trace& trace, const JoinLimits& limits) {
  ValueSet is_input;
  for (Value v : trace.inputs) is_input.set(v, 1);
  std::vector<EqualConversions> groups;
  std::map<ConversionKey, size_t> open;
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    const Call* call = conversion_in(*trace.calls[i]);
    if (!call || !is_input[call->args[0].value()] || !can_join(*call, limits)) continue;
    const TensorType& to = call->output.value().tensor();
    const int64_t bytes = to.numel().constant() * itemsize(to.dtype);
    const ConversionKey form{call->args[0].value().dtype(), to.dtype, to.device.index, trace.calls[i]->op->executor};
    const auto [known, fresh] = open.try_emplace(form, groups.size());
    if (fresh || groups[known->second].bytes + bytes > limits.results) {
      known->second = groups.size();
      groups.push_back({i, 0, {}, nullptr});
    }
    EqualConversions& group = groups[known->second];
    group.conversions.push_back(call);
    group.claimed = trace.calls[i];
    group.bytes += bytes;
  }
  return groups;
}

const Call* joined(const EqualConversions& group, const Trace& trace) {
  ArgList from, to;
  std::vector<const Call*> body;
  for (const Call* c : group.conversions) {
    from.push_back(c->args[0]);
    to.push_back(c->output);
    body.push_back(unclaimed(*c, *trace.arena));
  }
  const Call& first = *group.conversions.front();
  return trace.arena->make_call(Call{.op = &Registry::instance().get("prims.convert_element_types"),
                                     .args = {Arg::list(std::move(from)), first.args[1]},
                                     .output = Arg::list(std::move(to)),
                                     .body = std::move(body),
                                     .location = first.location,
                                     .symbols = {}});
}

bool writes(const Trace& trace) {
  return std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return effects(*c) & kWrite; });
}

}  // namespace

Trace converted_products(const Trace& trace, const ExecutorList& executors) {
  const ValueMap<int> readers = count_readers(trace);
  ValueMap<const Call*> products(nullptr), converted(nullptr);  // by their result; by the product's result
  bool any = false;
  for (const Call* c : trace.calls) {
    if (is_product(*c)) products.set(c->output.value(), c);
    const Call* conversion = conversion_in(*c);
    const Value from = conversion ? conversion->args[0].value() : Value();
    if (!conversion || !products[from] || readers[from] != 1) continue;
    const Call* call = product_as(*products[from], *conversion, trace);
    // An executor of last resort would compute both calls as before.
    if (!find_specialist(executors, *call) || !takes(executors, *products[from], *call)) continue;
    converted.set(from, call);
    any = true;
  }
  if (!any) return trace;
  Trace out = trace.derived();
  for (const Call* c : trace.calls) {
    const Call* conversion = conversion_in(*c);
    if (is_product(*c) && converted[c->output.value()]) out.calls.push_back(converted[c->output.value()]);
    else if (!conversion || !converted[conversion->args[0].value()]) out.calls.push_back(c);
  }
  return claim(out, executors);
}

Trace joined_conversions(const Trace& trace, const ExecutorList& executors, const JoinLimits& limits) {
  // What is written to an input must not be read before.
  if (writes(trace)) return trace;
  ValueMap<char> is_joined(0);
  std::map<size_t, const Call*> at;
  for (const EqualConversions& group : groups_of(trace, limits)) {
    if (group.conversions.size() < 2) continue;
    const Call* call = joined(group, trace);
    if (!takes(executors, *group.claimed, *call)) continue;
    at.emplace(group.place, call);
    for (const Call* c : group.conversions) is_joined.set(c->output.value(), 1);
  }
  if (at.empty()) return trace;
  Trace out = trace.derived();
  for (size_t i = 0; i < trace.calls.size(); ++i) {
    const Call* c = trace.calls[i];
    if (const auto it = at.find(i); it != at.end()) out.calls.push_back(it->second);
    if (!conversion_in(*c) || !is_joined[c->output.value()]) out.calls.push_back(c);
  }
  return claim(out, executors);
}

}  // namespace thunder
