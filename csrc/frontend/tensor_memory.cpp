#include "frontend/tensor_memory.h"

#include "core/error.h"

namespace thunder::frontend {

Value viewed(const Call* view) {
  for (const Arg& a : view->args)
    if (a.is_tensor()) return a.value();
  THUNDER_ASSERT(false, view->op->full_name, " views no tensor");
}

bool leaves_graph(const std::vector<const Call*>& path) {
  return std::any_of(path.begin(), path.end(), [](const Call* c) { return c->op->has(kNoGrad); });
}

bool TensorMemory::is_view(TensorId t) const {
  const std::vector<const Call*>& path = tensors_[t].path;
  return tensors_[t].view.value_or(tensors_[t].alias ||
                                   (!path.empty() && path.back()->op->full_name != "prims.detach"));
}

void TensorMemory::make_leaf(TensorId t) {
  tensors_[t].made_leaf = true;
  if (tensors_[t].path.empty() && !tensors_[t].alias) storages_[tensors_[t].storage].made_leaf = true;
}

bool TensorMemory::owns_memory(TensorId t) const {
  const uint32_t storage = tensors_[t].storage;
  return std::count_if(tensors_.begin(), tensors_.end(),
                       [&](const Tensor& other) { return other.storage == storage; }) == 1;
}

bool TensorMemory::same_elements(TensorId a, TensorId b) const {
  auto views = [&](TensorId t) {
    std::vector<const Call*> out = tensors_[t].path;
    std::erase_if(out, [](const Call* c) { return c->op->full_name == "prims.detach"; });
    return out;
  };
  return share_memory(a, b) && views(a) == views(b);
}

bool TensorMemory::is_conj(TensorId id) const {
  const std::vector<const Call*>& path = tensors_[id].path;
  return std::count_if(path.begin(), path.end(), [](const Call* c) { return c->op->full_name == "prims.conj"; }) % 2;
}

void TensorMemory::check_leaf(TensorId t, bool grad_enabled, const char* op) const {
  const Storage& s = storage_of(t);
  const std::vector<const Call*>& path = tensors_[t].path;
  const bool itself = tensors_[t].made_leaf, leaf = (s.leaf && s.base.requires_grad()) || s.made_leaf;
  THUNDER_CHECK(!(grad_enabled && (itself || (leaf && !leaves_graph(path)))), Runtime, op,
                itself || path.empty() ? "" : "a view of ",
                "a leaf Variable that requires grad is being used in an in-place operation.");
  if (!grad_enabled || leaves_graph(path)) return;
  for (const Call* view : path)
    THUNDER_CHECK(view->output.value().requires_grad() || !viewed(view).requires_grad(), Runtime, op, kNoGradView);
}

}  // namespace thunder::frontend
