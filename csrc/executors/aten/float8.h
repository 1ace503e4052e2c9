// Scales of float8 tensors by what earlier steps have seen, in a few operators for all layers together.
#pragma once

#include "executors/aten/kernels.h"

namespace thunder::aten {

c10::IValue float8_scales(const KernelArgs& a);
c10::IValue float8_record(const KernelArgs& a);

}  // namespace thunder::aten
