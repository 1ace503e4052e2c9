// The CUDA text of attention where each head has one query and a mask says which of many keys it sees: a token that is
// generated with a cache of keys and values.  The keys are split among blocks, as there are few heads, and what no
// query may see is not read.  Softmax over a length that is split is no region of the loop IR, so the text is written
// by hand, for one head size and type.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace thunder::fuser::decoding {

struct Problem {
  int64_t size = 0;    ///< of a head: constant, vectors() of them in a row
  int64_t shared = 1;  ///< query heads that share a head of keys
  DType dtype = DType::bf16;
  DType mask = DType::boolean;  ///< true: seen; or a number that is added to the score
};

/// Whether there is text for it.
bool supported(const Problem& p);

inline constexpr int kThreads = 128;
inline constexpr int64_t kMostSplits = 32;

/// Blocks of the first kernel for each head of keys of each batch, and how many of them share its keys.
struct Launch {
  int64_t groups = 1;  ///< of query heads
  int64_t splits = 1;
  bool clustered = false;  ///< the splits are a cluster of 8 or 2 blocks, which join their results themselves
};
/// `clusters`: the GPU has them.
Launch launch_of(const Problem& p, int64_t batch, int64_t heads, int64_t keys, int64_t multiprocessors, bool clusters);
/// float32 numbers that the splits leave for the second kernel; 0 where there is none.
int64_t partial_numbers(const Problem& p, const Launch& l, int64_t batch, int64_t heads);
/// Threads of a block in a cluster.
int cluster_threads(const Problem& p, int64_t splits);
/// Threads of the second kernel's blocks, each of which is for one query head.
int join_threads(const Problem& p);

/// extern "C" kernels; `heads` are those of the keys, strides are in elements:
///   decoding_part(q, k, v, mask, out, parts, heads, keys, splits, scale, q_batch, q_head, k_batch, k_head, k_key,
///                 v_batch, v_head, v_key, mask_batch, mask_key, out_batch, out_head)
///   decoding_join(parts, out, heads, splits, out_batch, out_head)
/// The first one has splits * groups * heads * batch blocks; with one split it writes `out` and is alone.  So are
/// decoding_cluster_8 and decoding_cluster_2, with its parameters and as many blocks; they exist from compute capability
/// 9.0.
std::string kernels_text(const Problem& p);

}  // namespace thunder::fuser::decoding
