// The CPU's loops of prims.group_index and prims.segment_sum, on plain memory.
//
// A segment's sum stays in registers while its slices are read, and the result is written once: adding to the result's
// rows in the order of the index would read and write each of them as often as it gets a slice.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace thunder::rows {

/// Fills order (as long as the index) and starts (groups + 1).  False if a number of the index is neither in
/// [0, groups) nor, with `skips`, -1.
bool group_index(const int64_t* index, int64_t count, int64_t groups, bool skips, int64_t* order, int64_t* starts);
bool group_index(const int32_t* index, int64_t count, int64_t groups, bool skips, int64_t* order, int64_t* starts);

/// One sum over segments; `inner` elements of a slice lie side by side.
struct SegmentSum {
  const void* a = nullptr;
  int64_t outer = 1, outer_stride = 0;  ///< what stands before the dimension, in elements
  int64_t slices = 0, slice_stride = 0;
  int64_t inner = 1;
  const int64_t* places = nullptr;
  int64_t count = 0;
  const int64_t* starts = nullptr;  ///< null: segments of `length`
  int64_t length = 0, segments = 0;
  bool skips = false;  ///< places of -1 add nothing
  const void* weights = nullptr;
  void* out = nullptr;  ///< row-major
};

/// False if a place is neither in [0, slices) nor, with `skips`, -1, or a segment reaches beyond the places.
bool segment_sum(at::ScalarType type, const SegmentSum& sum);

}  // namespace thunder::rows
