// Sums of rows by an index: what is added to rows in the order of the entries becomes a sum for each row.
//
// index_add, scatter_add and scatter_reduce of whole rows, index_put with accumulate, the gradient of an embedding: on a
// GPU PyTorch adds the entries one by one with atomic operations, to 16 bits as well, or sorts the index in each call;
// on the CPU it reads and writes a row of the result for each entry.  Here each index is grouped once, for all sums that
// have it, forward and backward; a sum then reads the entries of each row and writes the row.  What is taken from other
// rows before (x[source] added up by target) is read from there, and not written first.
//
//   t1 = prims.take(x, source, 0)
//   t2 = torch.index_add(zeros, 0, target, t1)
//     -->
//   [order, starts] = prims.group_index(target, rows, False)
//   places = prims.take(source, order, 0)
//   t2 = prims.segment_sum(x, places, starts, None, 0, 0, False)
//
// A sum of equal entries along an index that is grouped anyway (how many neighbours a node has) is the number of them.
// Only where an executor runs prims.segment_sum as a kernel of its own, and where that costs less:
//
// - A row of the result must be worth a look-up of where its entries are: narrow sums stay, if the index is not grouped
//   for others.  On a GPU those of index_put with few rows do not stay: PyTorch sorts the index in each call.
// - Where the rows are many more than the entries, PyTorch's operators, which copy what is added to, touch less.
#pragma once

#include "passes/executor.h"

namespace thunder {

struct RowSumOptions {
  bool eager_numerics = false;  ///< sums of 16 bits are rounded after each addition, as eager's are: they stay
};

/// Whether one of them runs prims.segment_sum as a kernel of its own.
bool any_sums_rows(const ExecutorList& executors);

/// Any trace; `boundary` is an index into its calls, and one into the result's calls afterwards.
Trace row_sums(const Trace& trace, const ExecutorList& executors, size_t& boundary, const RowSumOptions& options = {});

}  // namespace thunder
