#include <doctest.h>

#include "fuser/emit.h"

namespace thunder::fuser {
namespace {

// A kernel without reductions over so many rows and columns.
Kernel elementwise(int64_t rows, int64_t cols) {
  Kernel k;
  k.rows = rows;
  k.cols = cols;
  k.usual_rows = rows;
  k.usual_cols = cols;
  k.phases.emplace_back();
  return k;
}

TEST_CASE("cuda_shape: threads cover all elements, of which there may be more than an int counts") {
  const int64_t big = int64_t{1} << 30;
  for (int64_t cols : {int64_t{1}, int64_t{33}, int64_t{4096}, big, big + 1, 2 * big, 5 * big + 7})
    for (int64_t rows : {int64_t{1}, int64_t{3}}) {
      const CudaShape s = cuda_shape(elementwise(rows, cols));
      const CudaBlocks blocks = cuda_blocks(elementwise(rows, cols), rows, cols);
      CHECK(s.threads >= 32);
      CHECK(s.threads <= 256);
      CHECK(s.threads * s.chunks * blocks.x * blocks.y * s.rows_per_block >= rows * cols);
    }
}

}  // namespace
}  // namespace thunder::fuser
