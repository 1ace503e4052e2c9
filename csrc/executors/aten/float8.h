// Scales of float8 tensors by what earlier steps have seen, in a few operators for all layers together.
#pragma once

#include "executors/aten/own_functions.h"

namespace thunder::aten {

c10::IValue float8_scales(const FunctionArgs& a);
c10::IValue float8_record(const FunctionArgs& a);

}  // namespace thunder::aten
