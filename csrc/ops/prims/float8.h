// The layout of a history of float8 scaling (float8.cpp), and of the scales that follow from it.
#pragma once

#include <cstdint>

namespace thunder::float8_history {

/// What a layer has maxima of, in this order; those before kGradient are in e4m3.
enum Kind : uint8_t { kInput, kWeight, kGradient, kKinds };

/// Floats from one scale to the next: cuBLASLt's kernels read a scale at multiples of 16 bytes.
inline constexpr int64_t kScaleDistance = 4;

}  // namespace thunder::float8_history
