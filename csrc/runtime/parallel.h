// PyTorch's thread pool.
//
// at::parallel_for is a template that runs in threads only where its caller is compiled against the same OpenMP as
// PyTorch: without, it is a plain loop; with the system's, there are two pools.  This one is run by PyTorch's own library.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace thunder {

/// Calls `fn(from, to)` for ranges of at least `grain` that together are [begin, end), in as many threads as
/// torch.get_num_threads() allows; an exception of one is thrown here.
void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t, int64_t)> fn);

}  // namespace thunder
