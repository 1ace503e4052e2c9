// Runs the calls that the pass `constants` found: once, and hands out what they gave in all later runs.
#pragma once

namespace thunder {

void register_constants_lowering();

}  // namespace thunder
