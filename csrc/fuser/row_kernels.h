// The CUDA text of sums of slices by an index (prims.group_index, prims.segment_sum).  What is added to what is known
// only at run time, so that these are no regions of the loop IR.
//
// A thread adds up some neighbouring elements of one segment, slice after slice, several of which are loaded at once.
// A segment of more than `heavy` slices would keep its threads long behind all others: such segments are cut at
// multiples of `heavy` places, whose sums a kernel before puts down, and only those are added up.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace thunder::fuser::rows {

inline constexpr int kThreads = 256;  ///< of a block of each kernel

/// Up to so many numbers are sorted in tiles whose numbers are compared with each other, and placed by searches in all
/// tiles: two launches, where a radix sort takes some ten and 30 microseconds.
inline constexpr int64_t kMostPlaced = 32768;
inline constexpr int64_t kTile = 512;
inline constexpr int64_t kPlacedBy = 8;  ///< threads that place one number

/// Numbers are sorted as 16 bits where those and one more fit: half the passes of a radix sort.
inline bool has_short_keys(int64_t groups) { return groups < INT16_MAX; }

/// extern "C" kernels for an index of one type, with keys of 16 bits or of 32.  A number that is out of range is a trap.
///   rows_keys(ids, keys, count, groups, skips)             keys: the numbers, `groups` for those that are skipped
///   rows_tiles(ids, keys, from, count, groups, skips)      each kTile numbers sorted, and their positions: a block a tile
///   rows_places(tile_keys, from, order, keys, count)       all sorted: the positions in order, and their keys; in blocks
///                                                          for kPlacedBy threads each
///   rows_starts(keys, starts, count, groups)               of sorted keys; a thread for each of groups + 1
std::string group_text(DType index, bool short_keys);

/// How many slices one thread adds up at most: a power of two about half the square root of all, so that neither the
/// slices of a part nor the parts of one segment that has all of them take long.
int64_t heavy_of(int64_t count);

/// Elements that a thread adds up where slices lie and are long enough for that: 16 bytes.
inline int lanes_of(DType t) { return static_cast<int>(16 / itemsize(t)); }
/// Bytes of a number of a sum.
int64_t sum_bytes(DType t);

/// extern "C" kernels, with `..._1` for slices of any length and alignment:
///   rows_parts(a, places, starts, weights, parts, sizes...)   for each of count / heavy + 1 blocks of places the sums of
///                                                             the segments that reach into it from before and beyond
///   rows_sum(a, places, starts, weights, parts, out, sizes...)  a thread for each chunk of each segment
/// `starts` null: segments of `length`; `weights` may be null.  `sizes`: slices, slice_stride, outer, outer_stride,
/// inner, count, segments, length, heavy (all int64), skips (int).  Blocks along y are the outer dimensions.
/// parts: outer * 2 * blocks * inner numbers of sum_bytes().
std::string sum_text(DType t);

}  // namespace thunder::fuser::rows
