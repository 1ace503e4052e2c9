#include "runtime/distributed/placements.h"

#include <ATen/ops/mul.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>

#include "core/error.h"
#include "python/gil.h"
#include "runtime/distributed/kept_gathers.h"
#include "runtime/distributed/kept_gradients.h"
#include "runtime/interop.h"
#include "runtime/python_error.h"
#include "runtime/torch_py.h"

namespace thunder::distributed {
namespace {

using Table = std::unordered_map<PyObject*, std::shared_ptr<const Placement>>;

// Never destroyed: it holds Python objects.
Table& table() {
  static auto* t = new Table;
  return *t;
}

// What this process holds of a DTensor.  Needs the GIL.
at::Tensor local_of(PyObject* dtensor) {
  static PyObject* name = PyUnicode_InternFromString("_local_tensor");
  PyObject* inner = PyObject_GetAttr(dtensor, name);
  if (!inner) throw_python_error();
  at::Tensor out = torch_py::tensor(inner);
  Py_DECREF(inner);
  return out;
}

}  // namespace

at::Tensor Placement::gradient(at::Tensor g) const {
  if (plan && plan->scale != 1) g = at::mul(g, plan->scale);
  if (!wrap) return g;
  Gil gil;
  const Ref given = to_python(c10::IValue(std::move(g)));
  const Ref made = checked(PyObject_CallOneArg(static_cast<PyObject*>(wrap.get()), given.get()));
  return torch_py::tensor(made.get());
}

void Placement::check() const {
  const PlannedParameter& p = planned();
  constexpr const char* kAgain = ". Change parameters before the model is wrapped, or wrap it again";
  THUNDER_CHECK(parameter.requires_grad() == p.trainable, Runtime, "distributed", p.name, ".requires_grad is ",
                parameter.requires_grad() ? "True" : "False", " and was not when the model was wrapped", kAgain);
  for (const auto& [dict, key] : holders) {
    PyObject* now = PyDict_GetItemWithError(static_cast<PyObject*>(dict.get()), static_cast<PyObject*>(key.get()));
    THUNDER_CHECK(now && torch_py::is_tensor(now) && torch_py::tensor(now).is_same(parameter), Runtime, "distributed",
                  p.name, " was replaced since the model was wrapped", kAgain);
  }
  if (!p.sharded || local.numel() == 0) return;
  const void* now = nullptr;
  if (parameter.unsafeGetTensorImpl()->is_python_dispatch()) {
    const at::Tensor t = local_of(to_python(c10::IValue(parameter)).get());
    now = t.numel() > 0 ? t.const_data_ptr() : local.const_data_ptr();
  } else {
    now = parameter.numel() > 0 ? parameter.const_data_ptr() : local.const_data_ptr();
  }
  THUNDER_CHECK(now == local.const_data_ptr(), Runtime, "distributed", p.name,
                " lies in other memory than when the model was wrapped", kAgain);
}

const at::Tensor& Placement::current() const {
  return object ? torch_py::tensor(static_cast<PyObject*>(object.get())) : parameter;
}

bool Placement::holds() const {
  if (current().requires_grad() != trainable) return false;
  const at::Tensor now = local_of(static_cast<PyObject*>(object.get()));
  return now.scalar_type() == local.scalar_type() && now.sizes() == local.sizes() && now.strides() == local.strides() &&
         (now.numel() == 0 || now.const_data_ptr() == local.const_data_ptr());
}

void place(PyObject* parameter, Placement placement) {
  THUNDER_CHECK(!table().count(parameter), Runtime, "distributed", placement.planned().name,
                " is distributed already; a model is wrapped once");
  auto* local = static_cast<PyObject*>(placement.local_object.get());
  // An optimizer writes to the parameter; what a program saved of its memory has to tell.
  if (local != parameter) {
    using namespace torch::autograd;
    impl::set_version_counter(placement.local, impl::version_counter(placement.parameter));
  }
  auto shared = std::make_shared<const Placement>(std::move(placement));
  table()[parameter] = shared;
  table()[local] = shared;
}

std::shared_ptr<const Placement> placement_of(PyObject* tensor) {
  if (table().empty()) return nullptr;
  auto it = table().find(tensor);
  return it == table().end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<const Placement>> placements_of(const CommunicationPlan& plan) {
  std::vector<std::shared_ptr<const Placement>> out(plan.parameters.size());
  for (const auto& [object, p] : table())
    if (p->plan.get() == &plan) out[p->index] = p;
  return out;
}

void forget(const CommunicationPlan& plan) {
  forget_kept_gradients(plan.id);
  forget_kept_gathers(plan.id);
  std::vector<std::shared_ptr<const Placement>> dropped;  // after the table is whole again, for Python code may run
  std::erase_if(table(), [&](const auto& item) {
    if (item.second->plan.get() != &plan) return false;
    dropped.push_back(item.second);
    return true;
  });
}

}  // namespace thunder::distributed
