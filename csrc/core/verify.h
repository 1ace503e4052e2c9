// Checks a trace: every value is defined once and before it is used, every call's arguments fit its schema, every meta
// gives the types that the outputs have, a body computes from the call's arguments what the call returns, nothing is
// used after its `del`.  Runs between passes in tests and in debug mode.
#pragma once

#include "core/trace.h"

namespace thunder {

/// Error (Internal) with the call and what is wrong.
void verify(const Trace& trace);

}  // namespace thunder
