// The CUDA text of an embedding's gradient: rows of a gradient added up by index.  What is added to what is known only
// at run time, so that this is no region of the loop IR, but three kernels for one weight each.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace thunder::fuser::embedding {

struct Problem {
  int64_t rows = 0, cols = 0;  ///< of the weight
  int64_t padding = -1;        ///< a row that gets no gradient; -1: none
  DType dtype = DType::f32, index = DType::i64;
};

/// Threads of a block, and how many blocks, of each kernel.
struct Launch {
  int lanes = 1;     ///< neighbouring columns of a thread
  int threads = 32;  ///< of a block of `sum` and `rest`
  unsigned place_blocks = 1;
  unsigned chunks = 1;  ///< blocks of `sum`: each takes a chunk of the sorted tokens
  unsigned tiles = 1;   ///< blocks along the columns
};
Launch launch_of(const Problem& p, int64_t tokens);

inline constexpr int kPlaceThreads = 256;
inline constexpr int64_t kMaxTokens = 32768;  ///< the work of `place` grows with the square: beyond, a sort is faster

/// extern "C" kernels, in the order in which they run (`place` in blocks of kPlaceThreads):
///   embedding_place(ids, order, end, tokens)                        order: the tokens sorted by index, stable; clears `end`
///   embedding_sum(grad, ids, order, first, end, out, sums, tokens)  chunks of the sorted tokens; rows inside one are done
///   embedding_rest(first, end, sums, out)                           rows that several chunks share, and those of no token
/// order: int32[tokens]; first, end: int32[rows]; sums: float32[2 * chunks, cols], what a chunk has of the row that
/// began before it, and of the row that goes on behind it.
std::string kernels_text(const Problem& p);

}  // namespace thunder::fuser::embedding
