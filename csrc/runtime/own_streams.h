// Streams that this project takes from PyTorch's pools, told apart from those that others take.
//
// PyTorch gives out the streams of a pool round robin: the place of the next one says how many were taken.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace thunder {

/// A stream of normal priority for work of this project.
c10::Stream take_stream(c10::Device device);

/// Whether somebody else has taken a stream of normal priority on this GPU, as far as places tell: the pool has 32.
bool others_took_streams(c10::Device device);

}  // namespace thunder
