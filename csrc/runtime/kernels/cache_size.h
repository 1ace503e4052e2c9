// Keeps the folder of a cache under a limit.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/kernels/own_files.h"

namespace thunder {

/// Says that `bytes` were added under the open `folder`, whose subfolders have names of two hexadecimal digits and whose
/// entries have names of 62.  When there are more than `limit` bytes, the entries go that were not used for longest, until
/// three quarters of the limit are left.
///
/// Cheap, and for any number of processes: the file "size" grows by a byte for each page that is added, so its length
/// tells who must look through the folder.
void count_added(const Descriptor& folder, uint64_t bytes, uint64_t limit);

/// An entry's last use is the time of its last change, which this sets, at most once an hour.
void mark_used(const Descriptor& entry);

/// $THUNDER_CACHE_SIZE in bytes ("500M", "2G"), or `otherwise` if it is not set or no number, which `problem` says.
uint64_t cache_size_from_environment(uint64_t otherwise, std::string* problem);

}  // namespace thunder
