#include "jit/fixed_tensors.h"

#include <algorithm>

#include "core/error.h"
#include "runtime/torch_py.h"

namespace thunder {
namespace {

constexpr int kMostChecks = 8;
constexpr int64_t kMostElements = int64_t{1} << 26;  // a mask is made of them while compiling

bool counts_writes(const at::Tensor& t) {
  return t.defined() && t.layout() == at::kStrided && !t.is_inference() && !t.is_meta() && !t.requires_grad() &&
         t.numel() <= kMostElements && t.has_storage() && t.storage().data() != nullptr &&
         !t.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                                                   c10::DispatchKey::FuncTorchGradWrapper}));
}

}  // namespace

FixedTensors fixed_tensors(const frontend::Acquired& acquired) {
  FixedTensors out;
  for (size_t i = 0; i < acquired.sources.size(); ++i) {
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

void FixedInputs::add(const frontend::Acquired& acquired, const std::vector<ValueId>& inputs, const FixedTensors& now,
                      std::function<bool(const FixedTensors&)> holds, std::shared_ptr<std::atomic<bool>> changing) {
  Check check{.seen = {}, .holds = std::move(holds), .changing = std::move(changing)};
  for (const ValueId id : inputs) {
    const auto& all = acquired.computation.inputs;
    const auto at = std::find_if(all.begin(), all.end(), [&](Value v) { return v.id() == id; });
    THUNDER_ASSERT(at != all.end(), "a mask reads a tensor that is no input of the program");
    const at::Tensor& t = now.at(id);
    check.seen.push_back(
        {static_cast<size_t>(at - all.begin()), id, t.unsafeGetTensorImpl(), t.const_data_ptr(), t._version()});
  }
  checks_.push_back(std::move(check));
}

bool FixedInputs::hold(const TensorOf& tensor_of, std::string* why) {
  for (Check& check : checks_) {
    const bool same = std::all_of(check.seen.begin(), check.seen.end(), [&](const Seen& s) {
      const at::Tensor& t = tensor_of(s.input);
      return t.unsafeGetTensorImpl() == s.tensor && !t.is_inference() && t._version() == s.writes &&
             t.const_data_ptr() == s.memory;
    });
    if (same) continue;
    FixedTensors now;
    bool counted = true;
    for (const Seen& s : check.seen) {
      now.emplace(s.id, tensor_of(s.input));
      counted = counted && counts_writes(tensor_of(s.input));
    }
    if (++check.asked > kMostChecks) *check.changing = true;
    if (*check.changing || !counted || !check.holds(now)) {
      if (why) *why = "a buffer that attention's mask is made of was written to";
      return false;
    }
    for (Seen& s : check.seen) {
      const at::Tensor& t = now.at(s.id);
      s.tensor = t.unsafeGetTensorImpl();
      s.memory = t.const_data_ptr();
      s.writes = t._version();
    }
  }
  return true;
}

}  // namespace thunder
