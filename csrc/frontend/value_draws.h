// Values that depend on random numbers, read while a program is acquired: `if torch.rand(()) < p:`.
//
// The numbers are drawn at once, and the program takes them as inputs instead of drawing them: in later calls they are
// drawn where the value is asked for (jit/value_checks.h), before the program runs.  A generator gives its numbers in
// the order of the program, so a read draws all that the program has drawn from it up to there:
//
//   mask = bernoulli_like(x, 0.9)      drawn by the read below, of a tensor like x: x need not be known
//   y = x * mask
//   if rand([]) < 0.5:                 the read
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/trace.h"
#include "passes/visit.h"

namespace thunder::frontend {

/// Whether a read may hand the value to the program: a tensor of known sizes.  What requires a gradient is computed where
/// that is recorded.
bool can_be_handed_over(Value v);
/// The calls, with what draws random numbers (and makes one of the values, if any are given) opened down to the calls
/// that only draw.
std::vector<const Call*> open_draws(const std::vector<const Call*>& calls, const ValueSet* of = nullptr);
/// The device from whose generator the call draws, if a read may do so; nothing if it draws none, or must draw in its
/// place.
std::optional<Device> drawn_from(const Call& call);
/// The same draw without the tensors that it takes the types of: the call, behind calls that make empty tensors.
std::vector<const Call*> draw_of_type(const std::shared_ptr<Arena>& arena, const Call* call);

}  // namespace thunder::frontend
