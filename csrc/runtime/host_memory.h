// Memory on the CPU for what programs compute.
#pragma once

#include <c10/core/Allocator.h>

#include "runtime/memory/block_cache.h"

namespace thunder {

/// For the length of a scope, which is a run of a program, large tensors of this thread on the CPU, whoever makes them,
/// take memory that earlier ones gave back: the system takes longer to hand out fresh pages than many a kernel to fill
/// them.  They may outlive the scope, and die in any thread.
///
/// PyTorch asks one allocator of the process for the CPU's memory.  The first scope puts one before it that does
/// nothing else outside of scopes.  THUNDER_HOST_CACHE=0 in the environment: there is none.
class HostMemoryScope {
 public:
  HostMemoryScope();
  ~HostMemoryScope();
  HostMemoryScope(const HostMemoryScope&) = delete;
  HostMemoryScope& operator=(const HostMemoryScope&) = delete;

 private:
  const bool active_;
};

/// What the scopes of all threads share.
BlockCache& host_cache();

/// Whether a tensor's memory on the CPU is the tensor's alone: not an array of NumPy's, a file, or another process's.
bool is_own_host_memory(const c10::DataPtr& memory);

}  // namespace thunder
