#include "runtime/distributed/kept_gradients.h"

#include <ATen/ops/add.h>

#include <map>
#include <mutex>

namespace thunder::distributed {
namespace {

struct Kept {
  std::mutex mutex;
  std::map<std::pair<std::string, size_t>, at::Tensor> gradients;

  // Undefined if nothing is kept.
  at::Tensor take(const std::string& plan, size_t parameter) {
    auto it = gradients.find({plan, parameter});
    if (it == gradients.end()) return {};
    at::Tensor out = std::move(it->second);
    gradients.erase(it);
    return out;
  }
};

// The first gradient that is kept may be a cotangent, which the caller may hold.
bool is_ours(const at::Tensor& t) { return t.use_count() == 1 && t.storage().use_count() == 1; }

// An undefined `sum` is none.
at::Tensor added(at::Tensor sum, at::Tensor gradient) {
  if (!sum.defined()) return gradient;
  if (is_ours(sum) && sum.scalar_type() == gradient.scalar_type()) return sum.add_(gradient);
  return at::add(sum, gradient);
}

// Never destroyed: tensors on a GPU may outlive the driver otherwise.
Kept& kept() {
  static auto* k = new Kept;
  return *k;
}

}  // namespace

void keep_gradient(const std::string& plan, size_t parameter, at::Tensor gradient) {
  std::lock_guard lock(kept().mutex);
  at::Tensor& sum = kept().gradients[{plan, parameter}];
  sum = added(std::move(sum), std::move(gradient));
}

bool add_to_kept_gradient(const std::string& plan, size_t parameter, c10::function_ref<bool(const at::Tensor&)> add) {
  std::lock_guard lock(kept().mutex);
  auto it = kept().gradients.find({plan, parameter});
  return it != kept().gradients.end() && is_ours(it->second) && add(it->second);
}

at::Tensor with_kept_gradient(const std::string& plan, size_t parameter, at::Tensor gradient) {
  std::lock_guard lock(kept().mutex);
  return added(kept().take(plan, parameter), std::move(gradient));
}

at::Tensor take_kept_gradient(const std::string& plan, size_t parameter) {
  std::lock_guard lock(kept().mutex);
  return kept().take(plan, parameter);
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
