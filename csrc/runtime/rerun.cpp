#include "runtime/rerun.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/alias.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "passes/passes.h"
#include "python/gil.h"

namespace thunder {
namespace {

using torch::autograd::variable_list;

// Kernels whose results autograd does not follow to all arguments, or not as the operator's own rule does.
bool hides_history(const Op& op) {
  static constexpr std::array<std::string_view, 6> names = {
      "prims.graft",    "prims.cover", "prims.as_strided_scatter", "prims.segment_sum", "prims.embedding_bag_max",
      "prims.recurrent"};
  return std::find(names.begin(), names.end(), op.full_name) != names.end();
}

bool differentiable(const at::Tensor& t) { return t.defined() && t.requires_grad(); }

// The engine must not be entered with the GIL.
variable_list differentiate(const variable_list& outputs, const variable_list& inputs,
                            const variable_list& cotangents) {
  WithoutGil released;
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

c10::IValue CallInputs::get(size_t i) const {
  const Input& input = inputs_.at(i);
  return input.tensor ? at::Tensor(input.tensor->lock()) : input.number;
}

std::string CallInputs::problem(size_t i, bool as_it_was) const {
  if (!inputs_.at(i).tensor) return {};
  const at::Tensor t = get(i).toTensor();
  if (!t.defined()) return cat("input ", i, " of the call is gone: keep a reference to it");
  const uint32_t then = inputs_[i].version, now = t.is_inference() ? then : static_cast<uint32_t>(t._version());
  if (!as_it_was || now == then) return {};
  return cat("input ", i, " of the call, of shape ", t.sizes(), ", is at version ", now, " and was at version ", then,
             ": it has been modified by an inplace operation");
}

std::string Rerun::problem(const CallInputs& inputs) {
  std::string found = problem();
  for (size_t i = 0; found.empty() && i < matters_.size(); ++i)
    if (program_->reads_input(i)) found = inputs.problem(i, matters_[i]);
  return found;
}

const std::string& Rerun::problem() {
  const WithoutGil released;  // who waits for the lock must not keep its holder from the GIL
  std::lock_guard lock(mutex_);
  if (!prepared_) {
    const Gil gil;
    prepare();
    prepared_ = true;
  }
  return problem_;
}

void Rerun::prepare() {
  Rerunnable function = rerunnable(primal_, differentiable_);
  problem_ = std::move(function.problem);
  if (!problem_.empty()) return;
  try {
    const Trace claimed = claim(function.trace, Executors::instance().always(), /*drop_identities=*/false);
    for (const Call* call : claimed.calls)
      if (const Op* op = call->op->implements; op && hides_history(*op)) {
        problem_ = cat("autograd does not follow ", op->full_name);
        return;
      }
    program_ = Program::build(claimed);
    matters_ = std::move(function.matters);
  } catch (const Error& error) {  // an operator that PyTorch alone does not run
    problem_ = error.what();
  }
}

variable_list Rerun::gradients(const CallInputs& inputs, const variable_list& cotangents,
                               const std::vector<char>& wanted) {
  // The trace has autocast's casts already, and so has what is differentiated.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const c10::AutoGradMode grad(true);
  std::vector<c10::IValue> values(wanted.size());
  variable_list sources(wanted.size()), sinks;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!program_->reads_input(i)) continue;
    values[i] = inputs.get(i);
    if (!wanted[i] || !values[i].isTensor() || !values[i].toTensor().requires_grad()) continue;
    // Of its own for each input: two may be one tensor, and gradients of an input's other uses are not ours.
    const at::Tensor& t = values[i].toTensor();
    sources[i] = t.layout() == at::kStrided ? at::alias(t) : t.clone();
    values[i] = sources[i];
    sinks.push_back(sources[i]);
  }
  const std::vector<c10::IValue> results = program_->run(std::move(values));
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
