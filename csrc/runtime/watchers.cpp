#include "runtime/watchers.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "python/gil.h"
#include "runtime/torch_py.h"

namespace thunder {
namespace {

using FunctionState = at::impl::PythonTorchFunctionTLS;

thread_local bool ignores = false;

PyObject* attribute_of(const char* module, const char* name) {
  PyObject* m = PyImport_ImportModule(module);
  PyObject* found = m ? PyObject_GetAttrString(m, name) : nullptr;
  Py_XDECREF(m);
  return found;
}

PyObject* mode_at(PyObject* at, int64_t i) {
  return at ? PyObject_CallFunction(at, "L", static_cast<long long>(i)) : nullptr;
}

// The name of a new reference's class.
std::string class_of(PyObject* mode) {
  if (!mode) {
    PyErr_Clear();
    return "?";
  }
  std::string name = Py_TYPE(mode)->tp_name;
  Py_DECREF(mode);
  return name;
}

bool functions_are_disabled() {
  return FunctionState::get_disabled_state() != at::impl::TorchFunctionDisabledState::ENABLED;
}

// Of torch.func; its own header needs one that PyTorch does not ship.
bool any_differentiating_transform() {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  if (!keys.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return false;
  Gil gil;
  static PyObject* transforms = attribute_of("torch._functorch.pyfunctorch", "retrieve_all_functorch_interpreters");
  PyObject* active = transforms ? PyObject_CallNoArgs(transforms) : nullptr;
  bool any = !active;
  for (Py_ssize_t i = 0; active && i < PyList_GET_SIZE(active); ++i) {
    const std::string_view name = Py_TYPE(PyList_GET_ITEM(active, i))->tp_name;
    any = any || name == "GradInterpreter" || name == "JvpInterpreter";
  }
  Py_XDECREF(active);
  if (PyErr_Occurred()) PyErr_Clear();
  return any;
}

std::string dispatch_watcher() {
  static PyObject* at = attribute_of("torch._C", "_get_dispatch_stack_at");
  const auto local = c10::impl::tls_local_dispatch_key_set();
  const c10::DispatchKeySet keys = local.included_ - local.excluded_;
  if (const int64_t n = c10::impl::TorchDispatchModeTLS::stack_len(); n > 0)
    return cat("the torch dispatch mode ", class_of(mode_at(at, n - 1)), " is active");
  if (keys.has(c10::DispatchKey::Tracer)) return "torch.jit.trace records";
  if (keys.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return "a transform of torch.func is active";
  return cat("operators are watched (", c10::toString((keys & kWatchingKeys).highestPriorityTypeId()), ")");
}

}  // namespace

PyObject* function_mode_at(int64_t i) {
  static PyObject* at = attribute_of("torch._C", "_get_function_stack_at");
  return mode_at(at, i);
}

bool is_device_mode(PyObject* mode) {
  static PyObject* type = attribute_of("torch.utils._device", "DeviceContext");
  return reinterpret_cast<PyObject*>(Py_TYPE(mode)) == type;
}

bool any_function_mode() {
  const int64_t n = FunctionState::stack_len();
  bool any = false;
  for (int64_t i = 0; i < n && !any; ++i) {
    PyObject* mode = function_mode_at(i);
    any = !mode || !is_device_mode(mode);
    Py_XDECREF(mode);
  }
  if (PyErr_Occurred()) PyErr_Clear();
  return any;
}

bool has_dual_level() { return !ignores && torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr; }

bool would_lose_derivatives(const std::vector<at::Tensor>& tensors) {
  if (operators_are_watched() && any_differentiating_transform()) return true;
  return has_dual_level() && std::any_of(tensors.begin(), tensors.end(),
                                         [](const at::Tensor& t) { return t.defined() && t._fw_grad(0).defined(); });
}

bool watched_below_functions() { return !ignores && (operators_are_watched() || has_dual_level()); }

std::string watcher() {
  if (ignores) return {};
  if (operators_are_watched()) return dispatch_watcher();
  if (has_dual_level()) return "forward-mode AD is active";
  if (functions_are_disabled()) return "torch functions are disabled (torch._C.DisableTorchFunction)";
  for (int64_t i = FunctionState::stack_len(); i-- > 0;) {
    PyObject* mode = function_mode_at(i);
    if (!mode || !is_device_mode(mode)) return cat("the torch function mode ", class_of(mode), " is active");
    Py_DECREF(mode);
  }
  return {};
}

bool is_other_kind_of_tensor(PyObject* tensor) {
  return !ignores && (!torch_py::is_exact_tensor(tensor) || !is_plain(torch_py::tensor(tensor)));
}

std::string other_kind_of_tensor(PyObject* tensor) {
  if (!is_other_kind_of_tensor(tensor)) return {};
  if (!torch_py::is_exact_tensor(tensor)) return cat("of class ", Py_TYPE(tensor)->tp_name);
  using Key = c10::DispatchKey;
  const c10::DispatchKeySet keys = torch_py::tensor(tensor).key_set();
  if (keys.has(Key::Conjugate)) return "the conjugate of what lies in its memory (call resolve_conj())";
  if (keys.has(Key::Negative)) return "the negative of what lies in its memory (call resolve_neg())";
  if (keys.has(Key::ZeroTensor)) return "of zeros without memory";
  if (keys.has(Key::NestedTensor)) return "nested";
  if (keys.has(Key::Quantized)) return "quantized";
  return cat("a wrapper (", c10::toString((keys & kKeysWithoutMemory).highestPriorityTypeId()), ")");
}

void set_ignores_watchers(bool on) { ignores = on; }
bool ignores_watchers() { return ignores; }

}  // namespace thunder
