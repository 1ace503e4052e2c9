// PyTorch's default generators of random numbers: drawing again what was drawn.
#pragma once

#include <functional>
#include <vector>

#include "core/device.h"

namespace thunder {

/// Remembers the generators of these devices; what it returns makes them what they are now.
std::function<void()> remember_generators(const std::vector<Device>& devices);

}  // namespace thunder
