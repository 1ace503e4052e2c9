#include "runtime/parallel.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace thunder {

// An iterator over as many bytes as there are numbers is what PyTorch divides among its threads.  Where a byte would lie
// tells its number; nothing is read or written.
void parallel_for(int64_t begin, int64_t end, int64_t grain, c10::function_ref<void(int64_t, int64_t)> fn) {
  const int64_t n = end - begin;
  if (n <= 0) return;
  if (n <= grain || at::get_num_threads() == 1 || at::in_parallel_region()) return fn(begin, end);
  static char origin;
  at::Tensor numbers = at::from_blob(&origin, {n}, at::TensorOptions().dtype(at::kByte));
  at::TensorIterator iterator = at::TensorIterator::nullary_op(numbers);
  iterator.for_each(
      [&](char** data, const int64_t*, int64_t size0, int64_t size1) {
        const int64_t from = begin + (data[0] - &origin);
        fn(from, from + size0 * size1);
      },
      std::max<int64_t>(grain, 1));
}

}  // namespace thunder
