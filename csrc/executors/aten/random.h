// Random numbers by counting, one ATen operator after the other: what generated kernels draw (fuser/prelude_random.cpp),
// for where there is no kernel.  Uniform numbers and integers are the same, normal ones up to their last bits.
#pragma once

#include "executors/aten/own_functions.h"

namespace thunder::aten {

c10::IValue rng_states(const FunctionArgs& a);
c10::IValue uniform_at(const FunctionArgs& a);
c10::IValue normal_at(const FunctionArgs& a);
c10::IValue randint_at(const FunctionArgs& a);

}  // namespace thunder::aten
