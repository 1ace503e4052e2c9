#include "runtime/replay.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/alias.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>

#include "core/error.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "passes/visit.h"
#include "runtime/gil.h"

namespace thunder {
namespace {

using torch::autograd::variable_list;

// Kernels whose results autograd does not follow to all arguments, or not as the operator's own rule does.
bool hides_history(const Op& op) {
  static constexpr std::array<std::string_view, 5> names = {"prims.graft", "prims.cover", "prims.as_strided_scatter",
                                                            "prims.segment_sum", "prims.embedding_bag_max"};
  return std::find(names.begin(), names.end(), op.full_name) != names.end();
}

std::string problem_of(const Call& call) {
  const uint64_t effect = effects(call);
  if (effect & kRandom) return cat(call.op->full_name, " would draw other random numbers");
  if (effect & (kCollective | kWrite | kState)) return cat(call.op->full_name, " has effects");
  bool own_rule = false;
  const auto look = [&](const Call& c, const auto& again) -> void {
    own_rule = own_rule || !c.op->executor.empty() || find_gradient_rule(*c.op) ||
               Registry::instance().find(c.op->full_name) != c.op;
    for (const Call* inner : c.body) again(*inner, again);
  };
  look(call, look);
  return own_rule ? cat(call.op->full_name, " has a gradient of its own") : std::string();
}

Trace restricted(const Trace& trace, const std::vector<size_t>& outputs) {
  Trace out = trace;
  ArgList kept;
  for (size_t i : outputs) kept.push_back(trace.output.items().at(i));
  out.output = Arg::tuple(std::move(kept));
  return dce(out, /*keep_random=*/false);
}

bool differentiable(const at::Tensor& t) { return t.defined() && t.requires_grad(); }

// The engine must not be entered with the GIL.
variable_list differentiate(const variable_list& outputs, const variable_list& inputs, const variable_list& cotangents) {
  WithoutGil released(Py_IsInitialized() && PyGILState_Check());
  return torch::autograd::grad(outputs, inputs, cotangents, /*retain_graph=*/true, /*create_graph=*/true,
                               /*allow_unused=*/true);
}

}  // namespace

void CallInputs::add(const c10::IValue& v) {
  Input& input = inputs_.emplace_back();
  if (!v.isTensor()) {
    input.number = v;
    return;
  }
  const at::Tensor& t = v.toTensor();
  if (!t.defined()) return;
  input.tensor.emplace(t.getIntrusivePtr());
  if (!t.is_inference()) input.version = t._version();
}

c10::IValue CallInputs::get(size_t i, const std::string& name) const {
  const Input& input = inputs_.at(i);
  if (!input.tensor) return input.number;
  c10::intrusive_ptr<c10::TensorImpl> impl = input.tensor->lock();
  THUNDER_CHECK(impl, Runtime, name, "create_graph=True: input ", i,
                " of the compiled call is gone. Keep a reference to it until its gradients are computed");
  at::Tensor t(std::move(impl));
  THUNDER_CHECK(t.is_inference() || t._version() == input.version, Runtime, name, "create_graph=True: input ", i,
                " of the compiled call, of shape ", t.sizes(), ", is at version ", t._version(), " and was at version ",
                input.version, " in the call: it has been modified by an inplace operation");
  return t;
}

Replay::Replay(Trace primal, const std::vector<size_t>& differentiable) : primal_(restricted(primal, differentiable)) {
  for (const Call* call : primal_.calls)
    if (problem_ = problem_of(*call); !problem_.empty()) return;
}

std::shared_ptr<Program> Replay::program() {
  {
    std::lock_guard lock(mutex_);
    if (program_) return program_;
  }
  // Outside of the lock: an executor may take the GIL or leave it.
  const Gil gil;
  const Trace claimed = claim(primal_, Executors::instance().always(), /*drop_identities=*/false);
  for (const Call* call : claimed.calls)
    THUNDER_CHECK(!call->op->implements || !hides_history(*call->op->implements), NotImplemented, primal_.name,
                  "create_graph=True: autograd does not follow ", call->op->implements->full_name);
  std::shared_ptr<Program> made = Program::build(claimed);
  std::lock_guard lock(mutex_);
  if (!program_) program_ = std::move(made);
  return program_;
}

variable_list Replay::gradients(const CallInputs& inputs, const variable_list& cotangents,
                                const std::vector<char>& wanted) {
  // The trace has autocast's casts already, and so has what is differentiated.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const c10::AutoGradMode grad(true);
  const std::shared_ptr<Program> function = program();
  std::vector<c10::IValue> values(wanted.size());
  variable_list sources(wanted.size()), sinks;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!function->reads_input(i)) continue;
    values[i] = inputs.get(i, primal_.name);
    if (!wanted[i] || !values[i].isTensor() || !values[i].toTensor().requires_grad()) continue;
    // Of its own for each input: two may be one tensor, and gradients of an input's other uses are not ours.
    sources[i] = at::alias(values[i].toTensor());
    values[i] = sources[i];
    sinks.push_back(sources[i]);
  }
  const std::vector<c10::IValue> results = function->run(std::move(values));
  variable_list used, with;
  for (size_t k = 0; k < results.size(); ++k) {
    if (!cotangents[k].defined() || !results[k].isTensor() || !differentiable(results[k].toTensor())) continue;
    used.push_back(results[k].toTensor());
    with.push_back(cotangents[k]);
  }
  variable_list found = used.empty() || sinks.empty() ? variable_list(sinks.size()) : differentiate(used, sinks, with);
  variable_list out(wanted.size());
  for (size_t i = 0, n = 0; i < out.size(); ++i)
    if (sources[i].defined()) out[i] = std::move(found[n++]);
  return out;
}

}  // namespace thunder
