#include "jit/fixed_tensors.h"

#include <algorithm>

#include "core/error.h"
#include "runtime/torch_py.h"

namespace thunder {
namespace {

constexpr int kMostChecks = 8;
constexpr int kQuietCalls = 16;                      // without a write, after which earlier ones do not count
constexpr int64_t kMostElements = int64_t{1} << 26;  // a mask is made of them while compiling

bool counts_writes(const at::Tensor& t) {
  return t.defined() && t.layout() == at::kStrided && !t.is_inference() && !t.is_meta() && !t.requires_grad() &&
         t.numel() <= kMostElements && t.has_storage() && t.storage().data() != nullptr && t.storage().resizable() &&
         !t.key_set().has_any(c10::DispatchKeySet(
             {c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper}));
}

}  // namespace

FixedTensors fixed_tensors(const frontend::Acquired& acquired) {
  FixedTensors out;
  // Behind the computation's inputs stand those of the epilogue alone.
  for (size_t i = 0; i < acquired.computation.inputs.size(); ++i) {
    const frontend::InputSource& s = acquired.sources[i];
    const Value v = acquired.computation.inputs[i];
    if (s.kind != frontend::InputSource::Captured || s.whole_storage || s.partial || s.dtensor ||
        !v.type().is_tensor() || !torch_py::is_exact_tensor(s.tensor.get()))
      continue;
    const at::Tensor& t = torch_py::tensor(s.tensor.get());
    if (counts_writes(t)) out.emplace(v.id(), t);
  }
  return out;
}

FixedInputs::State::State(const at::Tensor& t)
    : tensor(t.getIntrusivePtr()), memory(t.const_data_ptr()), writes(t._version()) {}

bool FixedInputs::State::is(const at::Tensor& t) const {
  return tensor._unsafe_get_target() == t.unsafeGetTensorImpl() && !t.is_inference() && t._version() == writes &&
         t.const_data_ptr() == memory;
}

void FixedInputs::add(const frontend::Acquired& acquired, const std::vector<ValueId>& inputs, const FixedTensors& now,
                      std::function<bool(const FixedTensors&)> holds, std::shared_ptr<std::atomic<bool>> changing) {
  Check check{.inputs = {}, .seen = {}, .refused = {}, .holds = std::move(holds), .changing = std::move(changing)};
  for (const ValueId id : inputs) {
    const auto& all = acquired.computation.inputs;
    const auto at = std::find_if(all.begin(), all.end(), [&](Value v) { return v.id() == id; });
    THUNDER_ASSERT(at != all.end(), "a mask reads a tensor that is no input of the program");
    check.inputs.emplace_back(static_cast<size_t>(at - all.begin()), id);
    check.seen.emplace_back(now.at(id));
  }
  checks_.push_back(std::move(check));
}

bool FixedInputs::all(const States& states, const Check& check, const TensorOf& tensor_of) {
  for (size_t i = 0; i < states.size(); ++i)
    if (!states[i].is(tensor_of(check.inputs[i].first))) return false;
  return !states.empty();
}

bool FixedInputs::ask(Check& check, const TensorOf& tensor_of) {
  if (*check.changing || all(check.refused, check, tensor_of)) return false;
  check.unchanged = 0;
  if (++check.asked > kMostChecks) *check.changing = true;
  FixedTensors now;
  States states;
  for (const auto& [input, id] : check.inputs) {
    const at::Tensor& t = tensor_of(input);
    if (!counts_writes(t)) return false;
    now.emplace(id, t);
    states.emplace_back(t);
  }
  const bool holds = !*check.changing && check.holds(now);
  (holds ? check.seen : check.refused) = std::move(states);
  return holds;
}

bool FixedInputs::hold(const TensorOf& tensor_of, std::string* why) {
  for (Check& check : checks_) {
    if (all(check.seen, check, tensor_of)) {
      if (++check.unchanged >= kQuietCalls) check.asked = 0;
      continue;
    }
    if (ask(check, tensor_of)) continue;
    if (why) *why = "a buffer that attention's mask is made of was written to";
    return false;
  }
  return true;
}

}  // namespace thunder
