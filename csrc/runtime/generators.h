// PyTorch's generators of random numbers: drawing again what was drawn.
#pragma once

#include <Python.h>

#include <functional>
#include <vector>

#include "core/device.h"

namespace thunder {

/// Remembers the default generators of these devices; what it returns makes them what they are now.
std::function<void()> remember_generators(const std::vector<Device>& devices);
/// The same, and of these objects, each a torch.Generator.
std::function<void()> remember_generators(const std::vector<Device>& devices, const std::vector<PyObject*>& objects);

/// Whether it is a torch.Generator.
bool is_generator(PyObject* object);
/// Whether the object's states can be asked for at any time: while a CUDA graph is recorded, those of a GPU cannot.
bool is_cpu_generator(PyObject* object);

}  // namespace thunder
