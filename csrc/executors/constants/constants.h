// The executor of what the pass `constants` found.  The first run makes the results, and later runs hand them out.
#pragma once

namespace thunder {

void register_constants_lowering();

}  // namespace thunder
