// Who sees the operators that eager calls: modes, tracers, transforms of functions, and classes of tensors.  A compiled
// program calls other operators, and some of its kernels are none, so that it cannot stand for the function there.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>
#include <vector>

#include "runtime/plain_tensors.h"

namespace thunder {

/// Dispatch keys that a mode, a tracer or a transform switches on in a thread.
inline constexpr c10::DispatchKeySet kWatchingKeys = c10::DispatchKeySet(
    {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::PythonDispatcher,
     c10::DispatchKey::PreDispatch, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
     c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::FuncTorchVmapMode, c10::DispatchKey::VmapMode,
     c10::DispatchKey::Functionalize, c10::DispatchKey::Tracer, c10::DispatchKey::TESTING_ONLY_GenericMode});

/// Whether operators that run below autograd in this thread are seen.
inline bool operators_are_watched() {
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  return !((keys.included_ - keys.excluded_) & kWatchingKeys).empty();
}

/// The innermost torch function mode but for i others, a new reference; null with an error set.
PyObject* function_mode_at(int64_t i);
/// What torch.set_default_device() and `with torch.device(...)` are: a program has their device in it.
bool is_device_mode(PyObject* mode);

/// A torch function mode that is not is_device_mode() is active.  Needs the GIL.
bool any_function_mode();
/// Tensors may have tangents: a dual level of forward-mode AD is entered, in any thread.
bool has_dual_level();
/// Whether what runs below autograd in this thread, on these tensors, would lose tangents or gradients: one has a tangent,
/// or a transform of torch.func differentiates.
bool would_lose_derivatives(const std::vector<at::Tensor>& tensors);
/// Operators of this thread are watched, or tensors may have tangents.
bool watched_below_functions();
/// Who sees, or changes, calls of torch functions in this thread, for the user: a mode, but for the device's, a tracer,
/// a transform, forward-mode AD.  Empty: nobody.  Fingerprint::watched() tells whether there is anybody.
std::string watcher();
/// What a tensor is that is not a plain torch.Tensor or nn.Parameter, for the user; empty: it is.
std::string other_kind_of_tensor(PyObject* tensor);
/// Whether that is not empty.
bool is_other_kind_of_tensor(PyObject* tensor);

/// Programs are compiled for devices that are not there, on tensors without memory: nobody counts as a watcher of this
/// thread then.
void set_ignores_watchers(bool on);
bool ignores_watchers();

}  // namespace thunder
