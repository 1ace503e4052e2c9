// What a mask that a program makes of sizes alone is: it is made, once, where the program would make it.
#pragma once

#include "passes/known_masks.h"

namespace thunder {

/// For booleans, and for numbers that are 0 where a place is seen and at most the lowest of their dtype elsewhere.  A
/// window is one only if each row sees something.  Where there is no CUDA, as in a simulation, a mask for it is made on
/// the CPU.  Other where a GPU's memory does not suffice to make it.
KnownMask classify_mask(const Trace& mask);

/// Makes it a guard on sizes that the mask is that: a call with new sizes makes the mask once more.
void guard_mask(const Trace& mask, const KnownMask& known);

}  // namespace thunder
