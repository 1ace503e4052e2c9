#include "runtime/distributed/kept_gradients.h"

#include <ATen/ops/add.h>

#include <map>
#include <mutex>

namespace thunder::distributed {
namespace {

struct Kept {
  std::mutex mutex;
  std::map<std::pair<std::string, size_t>, at::Tensor> gradients;
};

// Never destroyed: tensors on a GPU may outlive the driver otherwise.
Kept& kept() {
  static auto* k = new Kept;
  return *k;
}

}  // namespace

void keep_gradient(const std::string& plan, size_t parameter, at::Tensor gradient) {
  std::lock_guard lock(kept().mutex);
  at::Tensor& sum = kept().gradients[{plan, parameter}];
  // The gradient may be a cotangent that the caller holds, so that the sum is never written into it.
  sum = sum.defined() ? at::add(sum, gradient) : std::move(gradient);
}

at::Tensor take_kept_gradient(const std::string& plan, size_t parameter) {
  std::lock_guard lock(kept().mutex);
  auto it = kept().gradients.find({plan, parameter});
  if (it == kept().gradients.end()) return {};
  at::Tensor out = std::move(it->second);
  kept().gradients.erase(it);
  return out;
}

std::vector<size_t> parameters_with_kept_gradients(const std::string& plan) {
  std::lock_guard lock(kept().mutex);
  std::vector<size_t> out;
  for (const auto& [key, gradient] : kept().gradients)
    if (key.first == plan) out.push_back(key.second);
  return out;
}

void forget_kept_gradients(const std::string& plan) {
  std::lock_guard lock(kept().mutex);
  std::erase_if(kept().gradients, [&](const auto& item) { return item.first.first == plan; });
}

}  // namespace thunder::distributed
